"""What the history of a quorum's state shows does not depend on how its records are cut into
windows, and nothing is judged of a file that has changed since it was looked at.
"""

from pathlib import Path

import pytest

from kraftlog.audit.state_history import RULE_CHECKS, judge_history
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.names import LAST_OFFSET
from kraftlog.log.segment import Limits
from kraftlog.quorum import record_windows
from kraftlog.quorum.collector import Collector, evidence_by
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords
from tests.golden.cases import DATA
from tests.unit.audit_logs import NO_OP, Batch, Node, leader_change
from tests.unit.audit_logs import quorum as small_quorum

SIZES = {
    "combined": (40,), "isolated": (25,), "lagging-caughtup": (150,), "legacy": (30,),
    "upgraded-3.9": (90,), "voter-replaced": (10,), "synthetic-client-batches": (1, 3),
    "synthetic-compress-zstd": (1, 7), "synthetic-every-type": (1, 20),
    "synthetic-fuzz-1": (11, 100), "synthetic-semantics": (1, 7), "synthetic-snapshots": (1, 9),
    "synthetic-torn": (1, 5), "synthetic-transactions": (1, 2),
}  # fmt: skip
"""Quorums, and how many records a window may have."""
REDACTOR = Redactor(bytes(32))


def looked_at(folder: Path, limits: Limits) -> Quorum:
    return Quorum(evidence_by(Collector(limits, REDACTOR), find_replicas([str(folder)]), None))


@pytest.mark.parametrize(("case", "sizes"), SIZES.items(), ids=SIZES)
def test_windows_of_any_size_show_the_same(case: str, sizes: tuple[int, ...]) -> None:
    limits = Limits(window_size_bytes=4096)
    found = looked_at(DATA / case / "replicas", limits)
    whole = judge_history(found, FileRecords(REDACTOR, Limits()))
    assert whole.judged
    for size in sizes:
        cut = judge_history(found, FileRecords(REDACTOR, limits, window_records=size))
        assert cut == whole


@pytest.mark.parametrize("size_bytes", [1, 3000])
def test_so_do_windows_of_few_bytes(size_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = looked_at(DATA / "isolated" / "replicas", Limits(window_size_bytes=512))
    whole = judge_history(found, FileRecords(REDACTOR, Limits()))
    assert whole.judged
    monkeypatch.setattr(record_windows, "WINDOW_BYTES", size_bytes)
    records = FileRecords(REDACTOR, Limits(window_size_bytes=512))
    windows = sum(1 for _ in records.windows(found.chain, 0, len(found.chain)))
    assert windows > 4
    assert judge_history(found, records) == whole


@pytest.mark.filterwarnings("error")
def test_a_window_ends_where_offsets_end(tmp_path: Path) -> None:
    start = LAST_OFFSET - 20
    node = Node(tmp_path, 1)
    logged = [leader_change(start, 1, 1), *(Batch(start + n, 1, (NO_OP,)) for n in range(1, 9))]
    node.segment(start).write_bytes(b"".join(one.raw() for one in logged))
    links = looked_at(tmp_path, Limits()).chain
    found = FileRecords(REDACTOR, Limits()).windows(links, 0, len(links))
    assert [(one.start_offset, one.end_offset) for one in found] == [(start, start + 9)]


def test_of_a_file_that_has_changed_meanwhile_nothing_is_judged(tmp_path: Path) -> None:
    nodes = small_quorum(tmp_path)
    found = looked_at(tmp_path, Limits())
    records = FileRecords(REDACTOR, Limits())
    sound = judge_history(found, records)
    assert not sound.skipped
    for node in nodes:
        for segment in node.folder.glob("*6.log"):
            segment.write_bytes(segment.read_bytes()[:40])
    cut = judge_history(found, records)
    why = "offset 6 cannot be read: a file has changed since it was looked at: audit it again"
    assert {(check, "quorum", why) for check in RULE_CHECKS} <= set(cut.skipped)
    assert cut.ranges == ((0, 6),)


def test_a_snapshot_that_has_changed_meanwhile_is_named(tmp_path: Path) -> None:
    nodes = small_quorum(tmp_path)
    found = looked_at(tmp_path, Limits())
    nodes[0].checkpoint(6, 1).unlink()
    records = FileRecords(REDACTOR, Limits())
    named = {check: why for check, of, why in judge_history(found, records).skipped if of == "1"}
    assert named.keys() == {"snapshot_equals_replay", "snapshot_record_allowed"}
    why = "a file has changed since it was looked at: audit it again"
    assert all(one.endswith(why) for one in named.values())
