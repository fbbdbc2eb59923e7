"""What a Kafka of the future may write never ends an audit and is never critical: it is kept, told
once, and what it may have changed is not judged.
"""

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from kraftlog.audit.grouping import EQUALS
from kraftlog.audit.runner import AuditResult
from kraftlog.audit.state_history import RULE_CHECKS
from kraftlog.cli import main
from kraftlog.decode.redaction import MASK_PREFIX, Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.plain import sentence
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords
from kraftlog.state.image import Image
from kraftlog.state.known import Known
from kraftlog.state.standing import by_key
from tests.canonical import canonical_lines
from tests.collecting import collect
from tests.images import built
from tests.unit.audit_logs import (
    FOLDER,
    NO_OP,
    START_MS,
    Batch,
    Node,
    audit,
    found,
    healthy_log,
    healthy_state,
    kraft_voters,
    leader_change,
    quorum,
    remove_topic,
    replace_batch,
    snapshot,
    text,
    topic,
    uvarint,
)
from tests.unit.faults.health import change

UNKNOWN_TYPE = b"\x01\x4d\x00" + text("anything") + b"\0"
TAG = uvarint(40) + uvarint(3) + b"abc"


def feature(name: str, level: int) -> bytes:
    return b"\x01\x0c\x00" + text(name) + struct.pack(">h", level) + b"\0"


def newer_topic(name: str, number: int, tail: bytes) -> bytes:
    """A TopicRecord of version 5: `tail` stands where version 0 ends with its tagged fields."""
    return b"\x01\x02\x05" + text(name) + bytes(15) + bytes([number]) + tail


FUTURE = {
    "UNKNOWN_77 is unknown": UNKNOWN_TYPE,
    "version 5 of TOPIC_RECORD is unknown": newer_topic("d", 9, b"\x07more\0"),
    "version 5 of TOPIC_RECORD is unknown, but has the shape of the last known version": (
        newer_topic("d", 9, b"\x01" + TAG)
    ),
    "tagged field 40 of TOPIC_RECORD is unknown": topic("d", 9)[:-1] + b"\x01" + TAG,
    "level 99 of feature metadata.version is unknown": feature("metadata.version", 99),
    "level 8 of feature group.version is unknown": feature("group.version", 8),
    "feature tea.version is unknown": feature("tea.version", 1),
    "FRAME_VERSION_2 is unknown": b"\x02" + b"whatever",
}
"""What is told → the record."""
LATER = START_MS + 60_000


def quorum_with(root: Path, *appended: Batch) -> list[Node]:
    nodes = [Node(root, number) for number in (1, 2, 3)]
    for node in nodes:
        node.write(healthy_log())
        node.append(*appended)
    return nodes


def told_once(result: AuditResult, message: str, *others: str) -> None:
    """One finding for three replicas, and nothing worse in the whole audit but for other checks."""
    (row,) = [
        one for one in found(result, "record_type_known") if sentence(message) in one.row.message
    ]
    assert row.severity == "warning"
    assert row.row.evidence["replicas"] == ["1", "2", "3"]
    assert row.row.evidence["detail"] == message
    critical = {one.check for one in result.findings if one.severity == "critical"}
    assert critical == set(others)


@pytest.mark.parametrize("message", FUTURE)
def test_in_a_log_it_is_told_and_what_follows_is_not_judged(message: str, tmp_path: Path) -> None:
    # Removing a topic that was never seen would be critical, were the state known.
    later = Batch(12, 2, (FUTURE[message], NO_OP, remove_topic(77)), None, LATER)
    quorum_with(tmp_path, later)
    result = audit(tmp_path)
    told_once(result, message)
    reasons = {one.check: one.reason for one in result.results}
    for check in RULE_CHECKS:
        assert reasons[check] is not None
        assert f"from offset 12 on: {message}" in str(reasons[check])


@pytest.mark.parametrize("record", [message for message in FUTURE.values() if TAG in message])
def test_bytes_that_nobody_can_interpret_count_as_secret(
    record: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the type that they stand in: a newer Kafka may keep a secret in any."""
    quorum_with(tmp_path, Batch(12, 2, (record,), None, LATER))
    asked = ["records", str(tmp_path / "1"), "--from-offset", "12", "--format", "json"]
    told = {}
    for more in ([], ["--reveal-secrets"]):
        assert main([*asked, *more]) == 0
        (row,) = map(json.loads, capsys.readouterr().out.splitlines())
        (tag,) = row["unknown_tagged_fields"]
        told[bool(more)] = tag["hex"]
    assert told[True] == b"abc".hex()
    assert told[False].startswith(MASK_PREFIX)


def test_without_it_the_same_records_are_judged(tmp_path: Path) -> None:
    quorum_with(tmp_path, Batch(12, 2, (topic("d", 9), NO_OP, remove_topic(77)), None, LATER))
    result = audit(tmp_path)
    assert [one.severity for one in found(result, "references_exist")] == ["critical"]
    assert not found(result, "record_type_known")


@pytest.mark.parametrize("message", FUTURE)
@pytest.mark.parametrize("cut", [0, 9], ids=["log from 0 on", "log begins at the snapshot"])
def test_in_a_snapshot_it_is_told_and_no_difference_is_its_fault(
    message: str, cut: int, tmp_path: Path
) -> None:
    """The snapshot lacks a topic of the log, as if the unknown record held it."""
    stored = [healthy_log()[1], Batch(0, 2, (FUTURE[message],))]
    for node in quorum_with(tmp_path):
        node.checkpoint(6, 1).unlink()
        node.checkpoint(9, 2).write_bytes(snapshot(stored, 2, START_MS + 6000))
        if cut:
            for segment in node.folder.glob("*.log"):
                segment.unlink()
            kept = [one for one in healthy_log() if one.base >= cut]
            node.segment(cut).write_bytes(b"".join(one.raw() for one in kept))
            node.append(Batch(12, 2, (remove_topic(2),), None, LATER))
            node.epochs([(2, 9)])
    result = audit(tmp_path)
    told_once(result, message)
    (equals,) = [one for one in result.results if one.check == EQUALS]
    assert equals.result == "skipped"
    if not cut:
        assert message in str(equals.reason)


def test_a_level_that_one_of_two_snapshots_of_an_id_alone_has_is_damage(tmp_path: Path) -> None:
    stored, wrong = healthy_log()[1], Batch(0, 1, (feature("metadata.version", 99),))
    (first, *_) = quorum_with(tmp_path)
    first.checkpoint(6, 1).write_bytes(snapshot([stored, wrong], 1, START_MS + 3000))
    (told,) = found(audit(tmp_path), "snapshots_agree")
    assert (told.severity, told.row.replica) == ("critical", "1")
    assert "feature metadata.version" in told.row.message


def test_a_snapshot_that_agrees_ends_the_doubt(tmp_path: Path) -> None:
    """An unknown record that changed nothing: the snapshot after it proves so, and what is wrong
    after that is judged again.
    """
    appended = (
        Batch(12, 2, (UNKNOWN_TYPE,), None, LATER),
        Batch(13, 2, (NO_OP, remove_topic(77)), None, LATER),
    )
    stored = healthy_state()
    for node in quorum_with(tmp_path, *appended):
        node.checkpoint(13, 2).write_bytes(snapshot(stored, 2, LATER))
    result = audit(tmp_path)
    assert not found(result, EQUALS)
    (dangling,) = found(result, "references_exist")
    assert (dangling.severity, dangling.row.offset) == ("critical", 14)


def control(base: int, epoch: int, values: Sequence[tuple[int, bytes]]) -> Batch:
    keys = tuple(struct.pack(">hh", 0, kind) for kind, _ in values)
    return Batch(base, epoch, tuple(value for _, value in values), keys, LATER)


FUTURE_CONTROL = {
    "UNKNOWN_CONTROL_9 is unknown": (9, b"anything"),
    "version 3 of KRAFT_VERSION is unknown": (5, struct.pack(">hb", 3, 1)),
    "version 3 of KRAFT_VERSION is unknown, and is read as version 0, as Kafka does": (
        (5, struct.pack(">hhq", 3, 0, 7))
    ),
    "version 3 of KRAFT_VOTERS is unknown": (6, struct.pack(">hq", 3, 7)),
    "version 1 of KRAFT_VERSION is unknown, and is read as version 0, as Kafka does": (
        (5, struct.pack(">hh", 1, 0) + b"\0")
    ),
    "version 2 of LEADER_CHANGE is unknown, and is read as version 0, as Kafka does": (
        (2, struct.pack(">h", 2) + leader_change(12, 2, 2).values[0][2:])
    ),
    "level 2 of feature kraft.version is unknown": (5, struct.pack(">hh", 0, 2) + b"\0"),
}


@pytest.mark.parametrize("message", FUTURE_CONTROL)
def test_a_control_record_touches_no_state(message: str, tmp_path: Path) -> None:
    quorum_with(
        tmp_path,
        control(12, 2, [FUTURE_CONTROL[message]]),
        Batch(13, 2, (remove_topic(77),), None, LATER),
    )
    result = audit(tmp_path)
    told_once(result, message, "references_exist")
    (dangling,) = found(result, "references_exist")
    assert dangling.row.offset == 13
    assert not found(result, "voter_sets_agree")


@pytest.mark.parametrize("message", [one for one in FUTURE_CONTROL if "LEADER" not in one])
def test_a_snapshot_whose_first_batch_holds_one_is_complete(message: str, tmp_path: Path) -> None:
    head = struct.pack(">hq", 0, START_MS + 6000) + b"\0"
    parts = [control(0, 2, [(3, head), FUTURE_CONTROL[message]])]
    for one in (healthy_log()[1], healthy_log()[3]):
        parts.append(Batch(parts[-1].end, 2, one.values))
    parts.append(control(parts[-1].end, 2, [(4, struct.pack(">h", 0) + b"\0")]))
    for node in quorum_with(tmp_path):
        node.checkpoint(6, 1).unlink()
        replace_batch(node, 3, lambda _: control(3, 1, [FUTURE_CONTROL[message]]).raw())
        node.checkpoint(9, 2).write_bytes(b"".join(one.raw() for one in parts))
    result = audit(tmp_path)
    for check in ("snapshot_header_first", "snapshot_footer_last", EQUALS):
        assert not found(result, check)
    told_once(result, message)


@pytest.mark.parametrize("version", [-1, 1])
def test_a_footer_of_an_unknown_version_is_told_and_ends_a_snapshot(
    version: int, tmp_path: Path
) -> None:
    for node in quorum(tmp_path):
        path = node.checkpoint(6, 1)
        due, other = (
            Batch(5, 1, (struct.pack(">h", one) + b"\0",), (struct.pack(">hh", 0, 4),)).raw()
            for one in (0, version)
        )
        assert path.read_bytes().endswith(due)
        path.write_bytes(path.read_bytes().removesuffix(due) + other)
    told_once(
        audit(tmp_path),
        f"version {version} of SNAPSHOT_FOOTER is unknown, and is read as version 0, as Kafka does",
    )


def test_what_kafka_writes_into_a_dynamic_quorum_is_known(tmp_path: Path) -> None:
    """LeaderChange records of version 0 and 1, kraft.version 0 and 1."""
    newest = struct.pack(">h", 1) + leader_change(12, 3, 2).values[0][2:]
    levels = [(5, struct.pack(">hh", 0, level) + b"\0") for level in (0, 1)]
    voters = (6, kraft_voters(1, 2, 3))
    for node in quorum_with(tmp_path, control(12, 3, [(2, newest), *levels, voters])):
        node.quorum_state(leaderId=2, leaderEpoch=3)
        node.epochs([(1, 0), (2, 8), (3, 12)])
    assert not audit(tmp_path).findings


def image(root: Path) -> Image:
    (replica,) = find_replicas([str(root / "1" / FOLDER)])
    return built(replica, None)


def test_a_fold_goes_on_and_applies_what_has_a_known_shape(tmp_path: Path) -> None:
    records = tuple(FUTURE.values())
    end = 12 + len(records)
    quorum_with(tmp_path, Batch(12, 2, records), Batch(end, 2, (topic("last", 44),)))
    after = image(tmp_path)
    assert after.end_offset == end + 1
    names = {row["name"] for row in after.state.rows("topics").values()}
    assert names == {"a", "b", "c", "d", "last"}
    levels = {row["name"]: row["featureLevel"] for row in after.state.rows("features").values()}
    assert levels == {"metadata.version": 99, "group.version": 8, "tea.version": 1}
    assert {one.origin.offset for one in after.faults} == {12, 13, 19}


def test_a_newer_metadata_version_is_written_by_the_newest_known_rules(tmp_path: Path) -> None:
    quorum_with(tmp_path, Batch(12, 2, (feature("metadata.version", 99),)))
    lines = canonical_lines(image(tmp_path).state)
    assert any('"featureLevel":99' in one for one in lines)


def test_records_by_columns_give_the_same_state(tmp_path: Path) -> None:
    """What a long log goes through, and a lake: records in Arrow, folded window by window."""
    newer_topic_e = newer_topic("e", 10, b"\x01" + TAG)
    newer_change = b"\x01\x05\x09" + change(isr=[2], leader=2)[3:]
    records = (*FUTURE.values(), newer_topic_e, newer_change)
    quorum_with(tmp_path, Batch(12, 2, records), Batch(12 + len(records), 2, (topic("last", 44),)))
    expected = image(tmp_path).state
    quorum = Quorum(collect(find_replicas([str(tmp_path)]), Limits(), Redactor(None), replay=False))
    links, known = quorum.chain, Known()
    for window in FileRecords(Redactor(None), Limits()).windows(links, 0, len(links)):
        known.advance(window)
    for table in ("topics", "features"):
        assert known.small.state.rows(table) == expected.rows(table)
    assert "e" in {row["name"] for row in expected.rows("topics").values()}
    partitions = by_key(known.visible.versions(known.visible.keys))
    assert partitions == dict(expected.rows("partitions"))
    (changed,) = partitions.values()
    assert (changed["isr"], changed["leader"]) == ([2], 2)
