"""Limits on what is kept never hide a check: what fails has failed, and all of it is counted."""

from pathlib import Path

import pytest

from kraftlog.audit.issues import ISSUE_LIMIT
from kraftlog.audit.runner import AuditResult
from kraftlog.quorum.capping import FINDING_LIMIT as CONTENT_LIMIT
from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    Batch,
    audit,
    change_isr,
    found,
    frame,
    healthy_log,
    producer_ids,
    quorum,
    topic,
    unregister_broker,
)

LATER = START_MS + 20_000
DANGLING = 1100


def everywhere(root: Path, *batches: Batch) -> None:
    for node in quorum(root):
        node.append(*batches)


def failed(result: AuditResult) -> set[str]:
    return {one.check for one in result.results if one.result == "failed"}


def test_many_findings_of_one_check_hide_no_other(tmp_path: Path) -> None:
    end = healthy_log()[-1].end
    dangling = Batch(end, 2, tuple(change_isr(99, [1]) for _ in range(DANGLING)), ms=LATER)
    others = Batch(dangling.end, 2, (producer_ids(10), topic("a", 9)), ms=LATER)
    everywhere(tmp_path, dangling, others)
    result = audit(tmp_path)
    assert {"references_exist", "producer_ids_increase", "topic_identity_unique"} <= failed(result)
    (counted,) = [one for one in result.results if one.check == "references_exist"]
    assert counted.finding_count == DANGLING > ISSUE_LIMIT


def test_many_findings_of_one_kind_hide_no_other(tmp_path: Path) -> None:
    """Changes of what does not exist, and then one that cannot be replayed for another reason."""
    end = healthy_log()[-1].end
    dangling = Batch(end, 2, tuple(change_isr(99, [1]) for _ in range(DANGLING)), ms=LATER)
    gone = Batch(dangling.end, 2, (change_isr(1, [1, 7]), change_isr(1, [1, 2])), ms=LATER)
    again = Batch(gone.end, 2, tuple(change_isr(98, [1]) for _ in range(DANGLING)), ms=LATER)
    everywhere(tmp_path, dangling, gone, again)
    result = audit(tmp_path)
    (row,) = found(result, "isr_within_replicas")
    assert row.row.offset == gone.base
    told = [one.row.message for one in found(result, "references_exist")]
    assert f" {2 * DANGLING - len(told):,} more like it are on this replica." in told[-1]


def test_many_of_one_kind_hide_no_other_kind_of_the_check(tmp_path: Path) -> None:
    end = healthy_log()[-1].end
    values = (*(change_isr(99, [1]) for _ in range(30)), unregister_broker(77, 1))
    everywhere(tmp_path, Batch(end, 2, values, ms=LATER))
    told = [one.row for one in found(audit(tmp_path), "references_exist")]
    assert [one.offset for one in told] == [*range(end, end + 20), end + 30]
    assert told[19].message.endswith(" 10 more like it are on this replica.")
    assert "more like it" not in told[20].message


def test_many_broken_rules_of_one_kind_in_a_batch_hide_no_other_kind(tmp_path: Path) -> None:
    end, count = healthy_log()[-1].end, 400
    deltas = [frame(index, None, NO_OP, delta=1) for index in range(count)]
    keys = [frame(count + index, b"k", NO_OP) for index in range(count)]
    header = frame(2 * count, None, NO_OP, headers=b"\x02\x02h\x02v")
    payload = b"".join([*deltas, *keys, header])
    everywhere(
        tmp_path, Batch(end, 2, tuple(b"" for _ in range(2 * count + 1)), ms=LATER, payload=payload)
    )
    result = audit(tmp_path)
    told = [one.row for one in found(result, "record_rules")]
    kinds = [one.evidence["kind"] for one in told]
    assert kinds == ["timestamp_delta"] * 20 + ["key"] * 20 + ["header"]
    more = [one.evidence["more"] for one in told]
    assert more == 2 * ([0] * 19 + [380]) + [0]
    assert told[19].message.endswith(" 380 more like it are on this replica.")
    (counted,) = [one for one in result.results if one.check == "record_rules"]
    assert counted.finding_count == 2 * count + 1


def test_many_broken_rules_of_a_log_hide_none_that_a_start_reads(tmp_path: Path) -> None:
    """In a log they are warnings, and critical in the snapshot that a start begins with."""
    end = healthy_log()[-1].end
    raw = frame(0, None, NO_OP, delta=1)
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(
            *(Batch(end + one, 2, (b"",), ms=LATER + one, payload=raw) for one in range(25))
        )
    path = nodes[0].checkpoint(6, 1)
    path.write_bytes(path.read_bytes() + Batch(7, 1, (b"",), payload=raw).raw())
    told = [one for one in found(audit(tmp_path), "record_rules") if one.row.replica == "1"]
    assert [one.severity for one in told] == ["critical"] + 19 * ["warning"]
    assert told[0].row.path == str(path)
    assert told[-1].row.evidence["more"] == 6


def test_each_thing_that_a_newer_kafka_wrote_is_told_and_counted(tmp_path: Path) -> None:
    end = healthy_log()[-1].end
    values = (*(b"\x01\xc0\x21\x00\x00" for _ in range(30)), b"\x01\xc1\x21\x00\x00")
    everywhere(tmp_path, Batch(end, 2, values, ms=LATER))
    told = [one.row.evidence["record_count"] for one in found(audit(tmp_path), "record_type_known")]
    assert told == [30, 1]


def test_records_that_break_a_rule_hide_none_that_does_not_decode(tmp_path: Path) -> None:
    end = healthy_log()[-1].end
    odd = [frame(index, None, topic(f"t{index}", 20 + index), delta=1) for index in range(30)]
    broken = frame(30, None, topic("late", 60)[:-4])
    values = tuple(b"" for _ in range(31))
    batch = Batch(end, 2, values, ms=LATER, payload=b"".join([*odd, broken]))
    everywhere(tmp_path, batch)
    assert len(odd) > CONTENT_LIMIT
    result = audit(tmp_path)
    assert {"record_rules", "record_decodes"} <= failed(result)
    rows = found(result, "record_decodes")
    assert {one.row.offset for one in rows} == {end + 30}
    (state,) = [one for one in result.results if one.check == "references_exist"]
    assert f"offset {end + 30} cannot be read" in (state.reason or "")


MANY = 33


@pytest.mark.parametrize(
    ("check", "raw", "rows", "count"),
    [
        ("record_rules", frame(0, None, NO_OP, delta=1), 20, MANY),
        ("record_decodes", frame(0, None, topic("late", 60)[:-4]), 60, 3 * MANY),
    ],
)
def test_what_is_not_told_of_records_is_counted(
    tmp_path: Path, check: str, raw: bytes, rows: int, count: int
) -> None:
    """A rule that records break is told once of all replicas that hold them."""
    end = healthy_log()[-1].end
    batches = [Batch(end + one, 2, (b"",), ms=LATER + one, payload=raw) for one in range(MANY)]
    everywhere(tmp_path, *batches)
    result = audit(tmp_path)
    told = [one.row for one in found(result, check)]
    assert len(told) == rows
    assert told[19].message.endswith(f" {MANY - 20} more like it are on this replica.")
    (counted,) = [one for one in result.results if one.check == check]
    assert counted.finding_count == count


def test_broken_rules_of_a_log_are_counted_with_those_of_a_checkpoint(tmp_path: Path) -> None:
    """The replicas hold the same bytes, but for one that has more."""
    end = healthy_log()[-1].end
    nodes = quorum(tmp_path)
    raw = frame(0, None, NO_OP, delta=1)
    for node, many in zip(nodes, (3, 3, 25), strict=True):
        odd = [Batch(end + one, 2, (b"",), ms=LATER + one, payload=raw) for one in range(many)]
        node.append(*odd)
        path = node.checkpoint(6, 1)
        path.write_bytes(path.read_bytes() + Batch(7, 1, (b"",), payload=raw).raw())
    result = audit(tmp_path)
    told = [
        (one.row.replica, one.row.evidence["replicas"]) for one in found(result, "record_rules")
    ]
    every = ["1", "2", "3"]
    assert told == [("1", every)] * 4 + [("3", ["3"])] * 20
    (counted,) = [one for one in result.results if one.check == "record_rules"]
    assert counted.finding_count == 4 + 22


def test_entries_of_the_epoch_checkpoint_that_are_not_told_are_counted(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    node.epochs([(1, 0), (2, 8), *((3 + one, 9) for one in range(MANY))])
    result = audit(tmp_path)
    rows = found(result, "epoch_checkpoint_agrees")
    assert rows[19].row.message.endswith(f" {MANY - 20} more like it are on this replica.")
    (counted,) = [one for one in result.results if one.check == "epoch_checkpoint_agrees"]
    assert (len(rows), counted.finding_count) == (20, MANY)


def test_the_least_that_breaks_a_rule_of_records(tmp_path: Path) -> None:
    end = healthy_log()[-1].end
    for delta in (0, 1):
        raw = frame(0, None, topic(f"t{delta}", 20 + delta), delta=delta)
        everywhere(tmp_path / str(delta), Batch(end, 2, (b"",), ms=LATER, payload=raw))
        assert ("record_rules" in failed(audit(tmp_path / str(delta)))) == (delta == 1)


def test_many_warnings_of_a_replica_hide_nothing_critical(tmp_path: Path) -> None:
    """Batches that changed in a deleted snapshot, which nobody loads, and one in a live snapshot."""
    node = quorum(tmp_path)[2]
    raw = bytearray(Batch(0, 1, (NO_OP,)).raw())
    raw[-1] ^= 1
    gone = node.checkpoint(3, 1)
    gone.with_name(gone.name + ".deleted").write_bytes(raw * 30)
    live = node.checkpoint(6, 1)
    changed = bytearray(live.read_bytes())
    changed[-1] ^= 1
    live.write_bytes(changed)
    result = audit(tmp_path)
    rows = found(result, "batch_crc_valid")
    assert [one.severity for one in rows] == ["critical"] + 19 * ["warning"]
    assert rows[0].row.path == str(live)
    assert rows[-1].row.evidence["more"] == 11
    assert result.exit_code() == 1


def test_reasons_are_cut_too(tmp_path: Path) -> None:
    """A hole at every second offset is no line of megabytes."""
    for node in quorum(tmp_path)[:1]:
        end = healthy_log()[-1].end
        raw = [bytearray(Batch(end + one, 2, (NO_OP,), ms=LATER).raw()) for one in range(800)]
        for batch in raw[::2]:
            batch[-1] ^= 1
        path = node.segment(6)
        path.write_bytes(path.read_bytes() + b"".join(raw))
    result = audit(tmp_path)
    reasons = [one.reason for one in result.results if one.reason]
    assert any("more characters" in one for one in reasons)
    assert max(map(len, reasons)) < 1000


def test_a_voter_without_any_segment_breaks_no_check(tmp_path: Path) -> None:
    """Its folder holds a snapshot, and no log at all."""
    node = quorum(tmp_path)[2]
    for path in node.folder.glob("*.log"):
        path.unlink()
    result = audit(tmp_path)
    assert not [one for one in result.results if one.result == "errored"]
