"""Secrets are masked: which ones, how, and that what is masked still compares."""

from typing import Any

import pyarrow as pa
import pytest

from kraftlog.decode.redaction import MASK_PREFIX, Redactor
from kraftlog.message.catalogue import metadata_specs, spec_of
from kraftlog.message.message_spec import MessageSpec

REDACTOR = Redactor(bytes(range(32)))


def of(type_name: str) -> MessageSpec:
    spec = spec_of(type_name)
    assert spec is not None
    return spec


def config(name: str, value: str | None, resource_type: int = 4) -> Any:
    data = {"resourceType": resource_type, "resourceName": "1", "name": name, "value": value}
    return REDACTOR.message(of("CONFIG_RECORD"), data)["value"]


TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.mark.parametrize(
    ("resource_type", "name"),
    [
        (BROKER, "ssl.keystore.password"),
        (BROKER, "ssl.keystore.key"),
        (BROKER, "sasl.jaas.config"),
        (BROKER, "listener.name.internal.ssl.keystore.location"),
        (BROKER, "SSL.KEYSTORE.PASSWORD"),
        (BROKER, "db.pwd"),
        (BROKER, "connection.url"),
        (BROKER, "aws.access.key.id"),
        (BROKER, "retention.ms"),
        (BROKER, ""),
        (TOPIC, "num.io.threads"),
        (TOPIC, "my.own"),
        (LOGGER, "retention.ms"),
        (METRICS, "retention.ms"),
        (GROUP, "interval.ms"),
        (77, "retention.ms"),
    ],
)
def test_configs_that_kafka_does_not_declare_open_are_secret(resource_type: int, name: str) -> None:
    masked = config(name, "hunter2", resource_type)
    assert masked.startswith(MASK_PREFIX)
    assert "hunter2" not in masked
    assert (
        masked == config(name, "hunter2", resource_type) != config(name, "hunter3", resource_type)
    )


@pytest.mark.parametrize(
    ("resource_type", "name"),
    [
        (TOPIC, "retention.ms"),
        (TOPIC, "cleanup.policy"),
        (BROKER, "num.io.threads"),
        (BROKER, "ssl.keystore.location"),
        (METRICS, "interval.ms"),
        (GROUP, "consumer.session.timeout.ms"),
    ],
)
def test_open_configs(resource_type: int, name: str) -> None:
    assert config(name, "hunter2", resource_type) == "hunter2"


@pytest.mark.parametrize("value", [None, ""])
def test_nothing_stays_nothing(value: str | None) -> None:
    assert config("ssl.keystore.password", value) == value


def test_scram_and_tokens() -> None:
    scram = of("USER_SCRAM_CREDENTIAL_RECORD")
    data = {"name": "ann", "mechanism": 1, "salt": "czE=", "storedKey": "czI=", "iterations": 4096}
    masked = REDACTOR.message(scram, data | {"serverKey": "czM="})
    assert {name for name, value in masked.items() if str(value).startswith(MASK_PREFIX)} == {
        "salt",
        "storedKey",
        "serverKey",
    }
    assert masked["name"] == "ann"
    for name in ("DELEGATION_TOKEN_RECORD", "REMOVE_DELEGATION_TOKEN_RECORD"):
        assert REDACTOR.message(of(name), {"tokenId": "t1"})["tokenId"] == REDACTOR.mask("t1")


def test_keys_make_different_masks_and_no_key_makes_none() -> None:
    other = Redactor(bytes(32))
    assert other.mask("a") != REDACTOR.mask("a") != REDACTOR.mask("b")
    assert Redactor(None).mask("a") == "a"
    assert REDACTOR.mask("\ud800") != REDACTOR.mask("\ud801")


def test_the_key_itself_is_not_shown_by_a_mask() -> None:
    assert REDACTOR.key is not None
    assert REDACTOR.key.hex() not in REDACTOR.mask("")


def test_columns_are_masked_as_messages_are() -> None:
    names = [
        "a.password",
        "retention.ms",
        "token\n",
        "x",
        "retention.ms",
        "num.io.threads",
        "",
        "x",
    ]
    values = ["1", "2", "3", None, "", "1", "5", "1"]
    types = [4, 2, 2, 4, 2, 4, 2, 77]
    columns = {"resource_type": pa.array(types, pa.int8())}
    columns |= {"name": pa.array(names), "value": pa.array(values)}
    REDACTOR.columns(of("CONFIG_RECORD"), columns)
    assert columns["name"].to_pylist() == names
    found = columns["value"].to_pylist()
    expected = zip(names, values, types, strict=True)
    assert found == [config(name, value, kind) for name, value, kind in expected]
    assert found[1] == "2"


def test_records_that_hold_secrets_are_few() -> None:
    assert sum(spec.holds_secrets for spec in metadata_specs().values()) == 4
