"""Which values a run goes by: each source in its order, what each value feeds, and what is hidden."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from kraftlog.audit import disk_checks
from kraftlog.audit.every_check import CATALOGUE
from kraftlog.audit.origins import FEEDS, HIDDEN, setting_rows
from kraftlog.audit.verdict import lagging
from kraftlog.cli import main
from kraftlog.config import (
    SECRETS,
    THRESHOLDS,
    Options,
    Thresholds,
    ValueSource,
    default_thresholds,
    load_options,
    option_names,
)
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import UsageError
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.describe import described_of
from kraftlog.quorum.evidence import ReplicaEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import RetentionLimits, retention_limits
from kraftlog.quorum.settings import (
    BETWEEN,
    FETCH_TIMEOUT,
    KEPT_BYTES,
    KEPT_MS,
    LOWER,
    NUMBERS,
    SEGMENT_BYTES,
    SEGMENT_MS,
    UPPER,
    VOTER_SET,
    VOTERS,
    default_of,
    number_of,
)
from kraftlog.reference.mechanisms import Destination
from kraftlog.simulate.liveness import Link, snapshot_transfer_rows
from kraftlog.source.collected import collected
from tests.collecting import collect
from tests.unit.audit_logs import (
    LIMITS,
    START_MS,
    Node,
    audit,
    found,
    quorum,
    remove_acl,
    text,
    uuid,
    voters_batch,
)
from tests.unit.faults import (  # noqa: F401  (they declare faults)
    borders,
    cases,
    ends,
    health,
    replica,
    snapshots,
    state,
)
from tests.unit.faults.cases import settings
from tests.unit.faults.table import FAULTS, everywhere
from tests.unit.test_mechanisms import exists
from tests.unit.test_settings_of_nodes import replica as node_with

Row = dict[str, Any]
STATUS = "ClusterId: {}\nLeaderId: 2\nLeaderEpoch: 2\nHighWatermark: {}\nCurrentVoters: [1,2,3]\n"


def rows_of(root: Path, options: Options) -> dict[tuple[str, str | None], Row]:
    found = list(setting_rows(collected([str(root)], options), options))
    by_key = {(row["setting"], row["replica"]): row for row in found}
    assert len(by_key) == len(found)
    return by_key


def test_of_an_option_an_argument_wins_over_the_file_and_that_over_the_default(
    tmp_path: Path,
) -> None:
    root, conf = tmp_path / "replicas", tmp_path / "mine.toml"
    quorum(root)
    conf.write_text("lag_offsets = 5\ntenure_ms = 7\n")
    told = rows_of(root, load_options({"lag_offsets": "9", "input": [str(root)]}, conf))
    seen = {
        name: (told[name, None]["value"], told[name, None]["source"], told[name, None]["path"])
        for name in ("lag_offsets", "tenure_ms", "disk_days", "lake")
    }
    assert seen == {
        "lag_offsets": ("9", "argument", None),
        "tenure_ms": ("7", "options file", str(conf)),
        "disk_days": ("7", "default", None),
        "lake": (None, "default", None),
    }
    assert {name for name, label in told if label is None} >= {*option_names()}


@pytest.mark.parametrize(
    ("given", "value", "source", "says"),
    [
        (None, 2000, ValueSource.KAFKA_DEFAULT, None),
        (" 3000 ", 3000, ValueSource.SERVER_PROPERTIES, None),
        ("0", 0, ValueSource.SERVER_PROPERTIES, None),
        ("-1", 2000, ValueSource.KAFKA_DEFAULT, "-1 is below 0: Kafka refuses to start"),
        ("soon", 2000, ValueSource.KAFKA_DEFAULT, "'soon' is not a whole number"),
        (str(1 << 31), 2000, ValueSource.KAFKA_DEFAULT, "is above 2147483647"),
    ],
)
def test_of_a_node_s_number_its_own_file_wins_over_kafka_s_default(
    given: str | None, value: int, source: ValueSource, says: str | None
) -> None:
    node = node_with() if given is None else node_with(**{FETCH_TIMEOUT.replace(".", "_"): given})
    found = number_of(node, FETCH_TIMEOUT)
    assert (found.value, found.source, found.path) == (value, source, "server.properties")
    assert (says is None) == (found.message is None)
    assert says is None or says in (found.message or "")
    assert number_of(node, FETCH_TIMEOUT, 50) == (50, ValueSource.ARGUMENT, None, None)
    assert number_of(None, FETCH_TIMEOUT) == (2000, ValueSource.KAFKA_DEFAULT, None, None)


def test_settings_of_each_node_with_their_file(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    settings(nodes[0], metadata_max_retention_bytes="7", broker_rack="a", ssl_key_password="x")
    settings(nodes[1], metadata_max_retention_bytes="many")
    told = rows_of(tmp_path, load_options({"input": [str(tmp_path)]}))
    file = str(nodes[0].home / "server.properties")
    one, two, three = (told[KEPT_BYTES, label] for label in ("1", "2", "3"))
    assert (one["value"], one["unit"], one["node_id"]) == ("7", "bytes", 1)
    assert (one["source"], one["path"], one["message"]) == ("server.properties", file, None)
    assert two["value"] == str(default_of(KEPT_BYTES))
    assert two["source"] == "Kafka's default"
    assert two["path"] == str(nodes[1].home / "server.properties")
    assert two["message"] == "'many' is not a whole number: Kafka refuses to start"
    assert (three["source"], three["path"]) == ("Kafka's default", None)
    assert told["broker.rack", "1"]["value"] == "a"
    assert ("broker.rack", "2") not in told
    assert {name for name, label in told if label == "3"} == {*NUMBERS}
    assert not [row for row in told.values() if "password" in row["setting"]]


def test_voters_and_what_is_committed_by_the_first_source_that_there_is(tmp_path: Path) -> None:
    """Records, quorum-state, configuration, an election, a describe; one after the other goes."""
    root = tmp_path / "replicas"
    nodes = quorum(root)
    status = tmp_path / "status.txt"
    status.write_text(STATUS.format("", 12))
    options = load_options({"input": [str(root)], "quorum_describe": str(status)})
    for node in nodes:
        settings(node, controller_quorum_voters="1@a:1,2@b:1,3@c:1")

    def told(name: str) -> tuple[str, str, str | None]:
        row = rows_of(root, options)[name, None]
        return row["value"], row["source"], row["path"]

    known = str(nodes[0].folder / "quorum-state")
    assert told("voters") == ("1, 2, 3", "quorum-state", known)
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=START_MS + 10_000))
    assert told("voters") == ("1, 2, 3", "records", str(nodes[0].segment(6)))
    for node in nodes:
        node.segment(0).unlink()
        node.segment(6).unlink()
        (node.folder / "quorum-state").unlink()
    file = str(nodes[0].home / "server.properties")
    assert told("voters") == ("1, 2, 3", "server.properties", file)
    for node in nodes:
        (node.home / "server.properties").unlink()
    assert told("voters") == ("1, 2, 3", "describe", str(status))
    assert told("committed_lower") == ("12", "describe", str(status))
    without = rows_of(root, load_options({"input": [str(root)]}))
    assert ("voters", None) not in without
    assert without["committed_lower", None]["source"] == "records"


def test_a_describe_says_which_file_it_is(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    beside = nodes[0].home / "quorum-describe"
    beside.write_text(STATUS.format("", 12))
    found = described_of(load_options(), find_replicas([str(tmp_path)]))
    assert found is not None
    assert found.path == str(beside)


def test_keys_are_hidden_and_everything_else_is_shown(tmp_path: Path) -> None:
    quorum(tmp_path)
    conf = {
        "input": [str(tmp_path)],
        "redaction_key": "very secret" * 3,
        "lake": "s3://me:key9@bucket/x",
    }
    told = rows_of(tmp_path, load_options(conf))
    assert told["redaction_key", None]["value"] == HIDDEN
    assert told["lake", None]["value"] == f"s3://{HIDDEN}@bucket/x"
    assert not {"very secret" * 3, "key9"} & {*json.dumps(list(told.values())).split('"')}
    assert "key9" not in json.dumps(list(told.values()))
    assert {*option_names()} >= SECRETS


@pytest.mark.parametrize(
    ("given", "in_file", "says"),
    [
        ({"lag_offsets": "many"}, "", "option 'lag_offsets' (argument) must be a whole number"),
        ({}, "lag_offsets = 'many'", "option 'lag_offsets' of {} must be a whole number"),
        ({"lag_offset": 1}, "", "no option 'lag_offset' (argument)"),
        ({}, "lag_offset = 1", "no option 'lag_offset' of {}"),
        ({}, "redaction_key = 987654", "option 'redaction_key' of {} must be a text, not of type"),
    ],
)
def test_a_wrong_value_says_where_it_stands(
    given: Row, in_file: str, says: str, tmp_path: Path
) -> None:
    conf = tmp_path / "mine.toml"
    conf.write_text(in_file)
    with pytest.raises(UsageError) as caught:
        load_options(given, conf)
    assert says.format(conf) in str(caught.value)
    assert "987654" not in str(caught.value)


@pytest.mark.parametrize("kind", ["fetch", "request"])
@pytest.mark.parametrize("timeout", [0, 200, 300, 2000, 60_000])
def test_slow_links_are_held_against_the_least_timeout_at_hand(
    timeout: int, kind: str, tmp_path: Path
) -> None:
    """By hand: over 500,000 bytes/s and a round trip of 200 ms the snapshot, of a few hundred
    bytes, takes 201 ms.
    """
    nodes = quorum(tmp_path)
    settings(nodes[0], **{f"controller_quorum_{kind}_timeout_ms": "70000"})
    settings(nodes[1], **{f"controller_quorum_{kind}_timeout_ms": timeout})
    found = collected([str(tmp_path)], load_options())
    links = list(snapshot_transfer_rows(found, 1e6, [Link(500_000, 200)]))
    assert {row["fits_fetch_timeout"] for row in links} == {timeout > 201}
    assert {row[f"{kind}_timeout_ms"] for row in links} == {timeout}
    assert {row["finishes"] for row in links} == {timeout > 201}


# --- on the command line -------------------------------------------------------------------------


def test_the_command_tells_every_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # a row a line, however long the folder's name is
    nodes = quorum(tmp_path)
    settings(nodes[0], metadata_max_retention_bytes="7")
    asked = ["settings", "--input", str(tmp_path), "--lag-offsets", "5"]
    assert main([*asked, "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    options = load_options({"input": [str(tmp_path)], "lag_offsets": 5})
    assert {(row["setting"], row["replica"]): row for row in rows} == rows_of(tmp_path, options)
    assert main(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if "lag_offsets" in line] == [
        ["lag_offsets", "5", "offsets", "-", "argument", "-"]
    ]
    assert main(["settings"]) == 2
    assert "say --input FOLDER, or --lake FOLDER" in capsys.readouterr().err


def test_an_audit_tells_what_it_went_by_other_than_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, conf = tmp_path / "replicas", tmp_path / "mine.toml"
    nodes = quorum(root)
    settings(nodes[0], metadata_max_retention_bytes="100000")
    conf.write_text("disk_days = 9\n")
    asked = ["audit", "--input", str(root)]
    given = ["--lag-offsets", "5", "--conf", str(conf)]
    assert main([*asked, *given, "--format", "json"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    told = {(row["setting"], row["replica"]): row["source"] for row in last["settings"]}
    assert told["lag_offsets", None] == "argument"
    assert told["disk_days", None] == "options file"
    assert told[KEPT_BYTES, "1"] == "server.properties"
    assert not {ValueSource.DEFAULT, ValueSource.KAFKA_DEFAULT} & {*told.values()}
    assert main([*asked, *given]) == 0
    line = f"limits that were set: lag_offsets 5 (argument), disk_days 9 ({conf})"
    assert line in capsys.readouterr().out
    assert main(asked) == 0
    assert "limits that were" not in capsys.readouterr().out


def test_a_finding_names_the_limit_that_was_set(tmp_path: Path) -> None:
    quorum(tmp_path)
    result = audit(tmp_path, thresholds=replace(default_thresholds(), snapshot_usual_bytes=100))
    told = found(result, "snapshot_too_large_to_fetch")
    assert len(told) == 3
    assert all(
        "more than the usual 100 bytes (snapshot_usual_bytes)" in one.row.message for one in told
    )


# --- what feeds what -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FEEDS)
def test_what_a_value_feeds_is_there(name: str) -> None:
    places = [Destination(*one.split(" ", 1)) for one in FEEDS[name]]
    assert [one for one in places if not exists(one)] == []
    assert len({*places}) == len(places)


def test_every_limit_of_a_check_and_every_number_of_a_node_feeds_something() -> None:
    assert {*THRESHOLDS, *NUMBERS} <= {*FEEDS}


_ASKED: set[str] = set()
_LIMITS = dict(
    zip(
        ("max_bytes", "max_ms", "between_bytes", "segment_bytes", "segment_ms"),
        (KEPT_BYTES, KEPT_MS, BETWEEN, SEGMENT_BYTES, SEGMENT_MS),
        strict=True,
    )
)


class Watched(Thresholds):
    """Limits that remember who was asked for."""

    def __getattribute__(self, name: str) -> Any:
        if name in THRESHOLDS:
            _ASKED.add(name)
        return super().__getattribute__(name)


class WatchedLimits(RetentionLimits):
    """The same of a node's retention."""

    def __getattribute__(self, name: str) -> Any:
        if name in _LIMITS:
            _ASKED.add(_LIMITS[name])
        return super().__getattribute__(name)


def _watched_limits(one: ReplicaEvidence) -> RetentionLimits:
    before = set(_ASKED)
    found = retention_limits(one)
    _ASKED.clear()
    _ASKED.update(before)
    return WatchedLimits(*(getattr(found, name) for name in _LIMITS))


def asked_by(root: Path) -> Iterator[tuple[str, set[str]]]:
    """Each check, the verdict, and the limits and settings that it asks for over a quorum."""
    replicas = find_replicas([str(root)])
    _ASKED.clear()
    evidence = collect(
        replicas, LIMITS, Redactor(b"k" * 32), thresholds=Watched(**asdict(default_thresholds()))
    )
    yield "check mass_deletion", {one for one in _ASKED if one.startswith("mass_deletion")}
    for one in CATALOGUE:
        found = Quorum(evidence)
        _ASKED.clear()
        one.over(found)
        list(one.query(found))
        yield f"check {one.name}", set(_ASKED)
    _ASKED.clear()
    lagging(Quorum(evidence))
    yield "table verdicts", set(_ASKED)


def _acl_gone(nodes: list[Node]) -> None:
    """An ACL that comes and goes: things of users have limits of their own."""
    any_user = b"\x02" + text("a") + b"\x03" + text("User:a") + text("*") + b"\x03\x03\0"
    everywhere(nodes, b"\x01\x12\x00" + uuid(9) + any_user, remove_acl(9))


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """For each limit and setting the checks that ask for it, over the damages of those that are
    said to, each copied long before its records, as far as its files' times tell.
    """
    seen: dict[str, set[str]] = {}
    checks = {one for places in FEEDS.values() for one in places}
    with pytest.MonkeyPatch.context() as patch:
        setting = ReplicaEvidence.setting

        def told(self: ReplicaEvidence, key: str) -> str | None:
            _ASKED.add(key)
            return setting(self, key)

        patch.setattr(ReplicaEvidence, "setting", told)
        patch.setattr(disk_checks, "retention_limits", _watched_limits)
        damages = [one.damage for one in FAULTS if f"check {one.check}" in checks]
        for number, damage in enumerate([*damages, _acl_gone]):
            root = tmp_path_factory.mktemp(f"{number}")
            damage(quorum(root))
            for segment in root.rglob("*.log"):
                os.utime(segment, (0, 0))
            for place, names in asked_by(root):
                for name in names:
                    seen.setdefault(name, set()).add(place)
    return seen


def _checks(name: str) -> set[str]:
    """The checks, and the verdict, that a value is said to feed."""
    return {one for one in FEEDS[name] if one.startswith("check ") or one == "table verdicts"}


_BASIS = {*option_names(), VOTER_SET, LOWER, UPPER, VOTERS} - {*THRESHOLDS}
"""What no check asks for by itself: everything begins with it."""


@pytest.mark.parametrize("name", sorted({*THRESHOLDS, *FEEDS} - _BASIS))
def test_a_value_feeds_the_checks_that_ask_for_it_and_no_others(
    name: str, asked: dict[str, set[str]]
) -> None:
    assert asked.get(name, set()) == _checks(name)
