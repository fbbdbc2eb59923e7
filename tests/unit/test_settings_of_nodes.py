"""The server.properties and df.txt beside a log: what is read from them; files that mean ill."""

from pathlib import Path

import pytest

from kraftlog.log.sidefiles import read_disk_free
from kraftlog.quorum.evidence import ReplicaEvidence, SideFile, no_batches
from kraftlog.quorum.retention import RetentionLimits, retention_limits
from kraftlog.quorum.settings import NUMBERS, default_of, read_server_properties
from kraftlog.quorum.voters import (
    configured_places,
    contradictions,
    places_of,
    static_places,
)
from kraftlog.state.declare import Data
from tests.unit.audit_logs import audit, quorum


def replica(**settings: str) -> ReplicaEvidence:
    values = {name.replace("_", "."): text for name, text in settings.items()}
    file = SideFile("server.properties", 0, values)
    return ReplicaEvidence("1", "1", False, no_batches(), (), (), server_properties=file)


def test_places_are_those_of_controllers_and_as_they_are_advertised() -> None:
    one = replica(
        controller_listener_names="CONTROLLER, SECURE",
        listeners="CONTROLLER://:9093, SECURE://[::1]:9094,PLAINTEXT://a:9092",
        advertised_listeners="SECURE://c1.example:19094",
    )
    assert configured_places(one) == {"CONTROLLER": ":9093", "SECURE": "c1.example:19094"}
    assert configured_places(replica(listeners="CONTROLLER://:9093")) == {}
    voters = replica(controller_quorum_voters="1@a:1, 22@[::1]:2,none,@b:3")
    assert static_places(voters) == {1: "a:1", 22: "[::1]:2"}


def test_an_ipv6_address_is_the_same_place_wherever_it_stands() -> None:
    one = replica(controller_listener_names="C", listeners="C://[::1]:2")
    record: list[Data] = [{"name": "C", "host": "::1", "port": 2}]
    voters = replica(controller_quorum_voters="1@[::1]:2")
    assert configured_places(one) == places_of(record) == {"C": static_places(voters)[1]}


@pytest.mark.parametrize(
    "place, other, is_same",
    [
        ("[0:0:0:0:0:0:0:1]:2", "[::1]:2", True),
        ("[FD00::0:2]:2", "[fd00::2]:2", True),
        ("C1.example:2", "c1.example:2", True),
        (":2", "[::1]:2", True),
        ("[::1]:2", "[::2]:2", False),
        ("[::1]:2", "[::1]:3", False),
        ("[::1]:2", "localhost:2", False),
    ],
)
def test_one_address_may_be_spelt_in_several_ways(place: str, other: str, is_same: bool) -> None:
    assert (not list(contradictions({"C": place}, {"C": other}))) == is_same


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metadata.log.max.record.bytes.between.snapshots", 20_971_520),
        ("metadata.log.max.snapshot.interval.ms", 3_600_000),
        ("metadata.max.retention.bytes", 104_857_600),
        ("metadata.log.segment.bytes", 1_073_741_824),
        ("metadata.log.segment.ms", 604_800_000),
        ("controller.quorum.fetch.timeout.ms", 2000),
        ("controller.quorum.request.timeout.ms", 2000),
    ],
)
def test_kafkas_own_defaults(name: str, value: int) -> None:
    assert default_of(name) == value


def test_limits_are_kafkas_where_nothing_else_is_said() -> None:
    assert retention_limits(replica()) == RetentionLimits()
    set_here = replica(metadata_max_retention_bytes=" 7 ", metadata_max_retention_ms="-1")
    assert retention_limits(set_here) == RetentionLimits(max_bytes=7, max_ms=-1)
    assert retention_limits(replica(metadata_max_retention_bytes="9" * 5000)) == RetentionLimits()
    assert retention_limits(replica(metadata_max_retention_ms=str(2**63))) == RetentionLimits()
    assert retention_limits(replica(metadata_max_retention_ms=str(2**63 - 1))).max_ms == 2**63 - 1


CONTINUED = r"""
metadata.log.segment.bytes=1073741824\
ssl.keystore.password=hush
broker.rack=a\
    ssl.key.password: hush
controller.quorum.voters = 1@a:1, 2@b:2
controller.quorum.bootstrap.servers=a:1 , b:2
sasl.jaas.config=org.example.Login required password="hush";
num.io.threads=8
"""


def test_what_may_be_a_password_is_not_kept() -> None:
    """Neither another setting's value, nor what a line has taken in from the next one."""
    found = read_server_properties(CONTINUED.encode())
    assert found == {
        "metadata.log.segment.bytes": "1073741824ssl.keystore.password=…",
        "broker.rack": "assl.key.password: …",
        "controller.quorum.voters": "1@a:1, 2@b:2",
        "controller.quorum.bootstrap.servers": "a:1 , b:2",
    }
    assert NUMBERS["metadata.log.segment.bytes"].refused(found["metadata.log.segment.bytes"]) == (
        "'1073741824ssl.keystore.password=…' is not a whole number: Kafka refuses to start"
    )


HEAD = "Filesystem 1024-blocks Used Available Capacity Mounted on\n"


@pytest.mark.parametrize(
    "line, free",
    [
        ("/dev/sda1 100 60 40 60% /var/lib/kafka", 40 * 1024),
        ("/dev/mapper/a b 100 100 0 100% /with a blank/5 6", 0),
        ("none 0 0 0 - /x", 0),
    ],
)
def test_what_is_free_by_df(line: str, free: int) -> None:
    assert read_disk_free((HEAD + line + "\n").encode()) == free


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEAD,
        HEAD + "none\n",
        "Filesystem Size\n/dev/a 1 2 3 4% /\n",
        HEAD + "a 1 2 " + "9" * 40 + " 1% /",
    ],
)
def test_what_is_no_output_of_df(text: str) -> None:
    with pytest.raises(ValueError, match=r"df|blocks"):
        read_disk_free(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "metadata.max.retention.bytes=" + "9" * 100_000,
        "controller.listener.names=C\nlisteners=" + "a" * 900_000,
        "controller.quorum.voters=" + "9" * 5000 + "@h:" + ":1" * 300_000,
        "controller.quorum.fetch.timeout.ms=0\nmetadata.log.segment.ms=-5",
    ],
    ids=["a number", "a listener", "a voter", "limits"],
)
def test_settings_that_mean_ill_break_no_check(text: str, tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    (nodes[0].home / "server.properties").write_text(text)
    (nodes[1].home / "df.txt").write_text(HEAD + " 1" * 400_000)
    result = audit(tmp_path)
    assert not [one.reason for one in result.results if one.result == "errored"]
    assert {one.check for one in result.findings} == {"file_readable"}
