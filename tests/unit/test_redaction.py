"""Secrets are masked: which ones, how, and that what is masked still compares."""

from typing import Any

import pyarrow as pa
import pytest

from kraftlog.decode.redaction import MASK_PREFIX, Redactor
from kraftlog.message.catalogue import metadata_specs, spec_of
from kraftlog.message.spec import MessageSpec

REDACTOR = Redactor(bytes(range(32)))


def of(type_name: str) -> MessageSpec:
    spec = spec_of(type_name)
    assert spec is not None
    return spec


def config(name: str, value: str | None) -> Any:
    data = {"resourceType": 4, "resourceName": "1", "name": name, "value": value}
    return REDACTOR.message(of("CONFIG_RECORD"), data)["value"]


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.certificates",
        "listener.name.internal.sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret",
        "delegation.token.secret.key",
        "SSL.KEYSTORE.PASSWORD",
        "confluent.private-key",
        "aws.access.key",
        "my.token",
    ],
)
def test_secret_configs(name: str) -> None:
    masked = config(name, "hunter2")
    assert masked.startswith(MASK_PREFIX)
    assert "hunter2" not in masked
    assert masked == config(name, "hunter2") != config(name, "hunter3")


@pytest.mark.parametrize(
    "name", ["retention.ms", "cleanup.policy", "ssl.keystore.location", "ssl.keystore.key.x", ""]
)
def test_open_configs(name: str) -> None:
    assert config(name, "hunter2") == "hunter2"


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


def test_bytes_that_were_not_decoded_are_masked_where_they_may_hold_secrets() -> None:
    assert REDACTOR.raw(of("CONFIG_RECORD"), "00ff") == REDACTOR.mask("00ff")
    assert REDACTOR.raw(of("TOPIC_RECORD"), "00ff") == "00ff"
    assert REDACTOR.raw(None, "00ff") == "00ff"


def test_columns_are_masked_as_messages_are() -> None:
    names = ["a.password", "retention.ms", "token\n", "x", "a.password", "PASSWORD"]
    values = ["1", "2", "3", None, "", "1"]
    columns = {"name": pa.array(names), "value": pa.array(values)}
    REDACTOR.columns(of("CONFIG_RECORD"), columns)
    assert columns["name"].to_pylist() == names
    assert columns["value"].to_pylist() == [
        config(name, value) for name, value in zip(names, values, strict=True)
    ]


def test_records_that_hold_secrets_are_few() -> None:
    assert sum(spec.holds_secrets for spec in metadata_specs().values()) == 4
