"""Where an image begins and ends: snapshot boundaries, gaps, torn and rejected files, times,
several replicas.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.rebuild import offset_at_time
from kraftlog.state.difference import differences
from tests.definition import load_snapshot, steps
from tests.golden.cases import Replica
from tests.images import built, held_by
from tests.log_coverage import LogCoverage, rebuildable, scan
from tests.unit.audit_logs import TRANSACTION, Batch, batch_starts

CLEAR = Redactor(None)
SNAPSHOTS = Replica("synthetic-snapshots", "0")


def covered(folder: Path) -> LogCoverage:
    (found,) = find_replicas([str(folder)])
    return scan(found)


def copied(replica: Replica, tmp_path: Path) -> Path:
    shutil.copytree(replica.folder, tmp_path / replica.node)
    return tmp_path / replica.node


def test_the_state_around_a_snapshots_end() -> None:
    coverage = covered(SNAPSHOTS.folder)
    oldest, middle = coverage.snapshots[:2]
    end = middle.end_offset
    whole, _ = load_snapshot(oldest, CLEAR)
    at = {}
    for step in steps(coverage, whole, oldest.end_offset, coverage.log_end_offset, CLEAR):
        at[step.end_offset] = whole.state.fork()
    for offset in (end - 1, end, end + 1):
        image = built(coverage.replica, offset)
        assert image.base == (middle if offset >= end else oldest).file.path
        before = max(one for one in at if one <= offset)
        if before == offset:
            assert image.state == at[offset]
    assert built(coverage.replica, end).state == at[end]
    assert built(coverage.replica, end).epoch == middle.epoch


def test_the_record_at_a_snapshots_end_is_not_in_it_and_is_applied() -> None:
    """Cut off from the log's other records, the one at the end offset makes the only difference."""
    coverage = covered(SNAPSHOTS.folder)
    end = coverage.snapshots[1].end_offset
    before, after = (built(coverage.replica, offset) for offset in (end, end + 1))
    from_log, _ = load_snapshot(coverage.snapshots[0], CLEAR)
    for _ in steps(coverage, from_log, coverage.snapshots[0].end_offset, end + 1, CLEAR):
        pass
    assert after.state == from_log.state
    assert before.end_offset + 1 == after.end_offset


def test_offsets_that_cannot_be_rebuilt_are_named() -> None:
    coverage = covered(SNAPSHOTS.folder)
    first = coverage.snapshots[0].end_offset
    assert coverage.restorable() == [(first, coverage.log_end_offset)]
    with pytest.raises(InputError, match=f"at which it can: {first} to {coverage.log_end_offset}"):
        built(coverage.replica, first - 1)
    with pytest.raises(InputError, match="which ends at"):
        built(coverage.replica, coverage.log_end_offset + 1)


@pytest.mark.parametrize(
    "bases, runs, expected",
    [
        ([], [(0, 9)], []),
        ([0], [(0, 9)], [(0, 9)]),
        ([0], [], [(0, 0)]),
        ([4], [(0, 9)], [(4, 9)]),
        ([0, 4], [(0, 9)], [(0, 9)]),
        ([0, 12], [(0, 9), (11, 20)], [(0, 9), (12, 20)]),
        ([9], [(0, 9), (11, 20)], [(9, 9)]),
        ([10], [(0, 9), (11, 20)], [(10, 10)]),
        ([25, 0], [(0, 9), (11, 20)], [(0, 9), (25, 25)]),
    ],
)
def test_what_can_be_rebuilt_from_bases_and_runs(
    bases: list[int], runs: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert rebuildable(bases, runs) == expected


def test_a_gap_splits_what_can_be_rebuilt(tmp_path: Path) -> None:
    folder = copied(Replica("synthetic-fuzz-1", "0"), tmp_path)
    segments = sorted(folder.glob("*/*.log"))
    assert len(segments) > 3
    whole = held_by(covered(Replica("synthetic-fuzz-1", "0").folder).replica)
    segments[1].unlink()
    coverage = covered(folder)
    (gap,) = coverage.gaps
    assert gap.start_offset == int(segments[1].stem)
    assert gap.end_offset == int(segments[2].stem)
    with pytest.raises(InputError, match=f"{gap.start_offset} to {gap.end_offset - 1} are missing"):
        built(coverage.replica, gap.end_offset)
    for end in (gap.start_offset, coverage.log_end_offset):
        assert built(coverage.replica, end).state == built(whole, end).state


def test_a_damaged_batch_is_a_gap(tmp_path: Path) -> None:
    folder = copied(Replica("synthetic-transactions", "0"), tmp_path)
    for checkpoint in folder.glob("*/*.checkpoint"):
        checkpoint.unlink()
    (segment,) = folder.glob("*/*.log")
    raw = bytearray(segment.read_bytes())
    raw[len(raw) // 2] ^= 1
    segment.write_bytes(raw)
    coverage = covered(folder)
    (gap,) = coverage.gaps
    assert "batch_crc" in gap.cause
    with pytest.raises(InputError, match="batch_crc"):
        built(coverage.replica, None)
    assert built(coverage.replica, gap.start_offset).end_offset == gap.start_offset


def test_a_torn_checkpoint_is_no_base(tmp_path: Path) -> None:
    folder = copied(SNAPSHOTS, tmp_path)
    newest = sorted(folder.glob("*/*.checkpoint"))[-1]
    raw = newest.read_bytes()
    for size in (0, 40, len(raw) - 1, len(raw) - 80):
        newest.write_bytes(raw[:size])
        coverage = covered(folder)
        assert [one.file.name for one in coverage.rejected] == [newest.name]
        assert newest.name not in [one.name for one in coverage.snapshots]
        held = held_by(coverage.replica)
        assert [one.path for one in held.snapshots] == [one.file.path for one in coverage.snapshots]
        assert [why for _, why in held.rejected] == [one.reason for one in coverage.rejected]
    image = built(coverage.replica, None)
    assert image.state == built(covered(SNAPSHOTS.folder).replica, None).state


def test_a_snapshot_beyond_the_log_is_the_end(tmp_path: Path) -> None:
    folder = copied(SNAPSHOTS, tmp_path)
    for segment in folder.glob("*/*.log"):
        segment.unlink()
    coverage = covered(folder)
    newest = coverage.snapshots[-1]
    image = built(coverage.replica, None)
    assert image.end_offset == newest.end_offset
    assert image.is_committed
    assert [one for one, _ in coverage.restorable()] == sorted(
        one.end_offset for one in coverage.snapshots
    )


def test_an_open_transaction_is_left_out() -> None:
    coverage = covered(Replica("synthetic-transactions", "0").folder)
    image = built(coverage.replica, None)
    assert image.open_since is not None
    before = built(coverage.replica, image.open_since)
    assert before.open_since is None
    assert list(differences(before.state, image.state)) == []


def test_the_state_at_a_time() -> None:
    coverage = covered(Replica("steady-live", "14").folder)
    end = coverage.log_end_offset
    image = built(coverage.replica, end)
    assert offset_at_time(held_by(coverage.replica), image.timestamp) == end
    earlier = offset_at_time(held_by(coverage.replica), image.timestamp - 60_000)
    assert 0 < earlier < end
    assert offset_at_time(held_by(covered(SNAPSHOTS.folder).replica), 1 << 60) > 0
    with pytest.raises(InputError, match="begins after that time"):
        offset_at_time(held_by(covered(SNAPSHOTS.folder).replica), 0)


def first_half(raw: bytes) -> bytes:
    """Whole batches, no footer."""
    starts = batch_starts(raw)
    return raw[: starts[len(starts) // 2]]


@pytest.mark.parametrize("kind", ["log", "checkpoint"])
@pytest.mark.parametrize("change", [first_half, lambda raw: raw[:-1], lambda raw: bytes(len(raw))])
def test_files_that_change_meanwhile_give_no_state(
    kind: str, change: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    folder = copied(SNAPSHOTS, tmp_path)
    held = held_by(covered(folder).replica)
    file = sorted(folder.glob(f"*/*.{kind}"))[-1]
    file.chmod(0o600)
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(InputError, match="changed while it was read"):
        built(held, None)


def test_what_lies_behind_the_logs_end_and_cannot_be_read_is_told(tmp_path: Path) -> None:
    folder = copied(Replica("synthetic-transactions", "0"), tmp_path)
    (segment,) = folder.glob("*/*.log")
    (found,) = find_replicas([str(folder)])
    whole = built(found)
    assert whole.unread == ()
    raw = segment.read_bytes()
    last = batch_starts(raw)[-1]
    hostile = bytearray(raw)
    hostile[last : last + 8] = (whole.end_offset + 1000).to_bytes(8, "big")
    for content, told in (
        (raw[:-1], "torn_batch"),
        (raw[:-1] + bytes([raw[-1] ^ 1]), "batch_crc"),
        (bytes(hostile), "a batch out of place"),
    ):
        segment.write_bytes(content)
        (found,) = find_replicas([str(folder)])
        image = built(found)
        assert image.end_offset < whole.end_offset
        assert image.unread == (f"{told} in {segment} at byte {last}",)
        assert built(found, image.end_offset - 1).unread == ()


@pytest.mark.parametrize("name", ["of-node-0.checkpoint", "copy.bin"])
def test_a_checkpoint_is_one_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    """Read as a log, its brokers would have registered at offsets that are none."""
    origin = sorted(SNAPSHOTS.folder.glob("*/*.checkpoint"))[-1]
    shutil.copyfile(origin, tmp_path / name)
    (found,) = find_replicas([str(tmp_path / name)])
    (known,) = find_replicas([str(origin)])
    image = built(found)
    assert image.state == built(known).state
    assert (image.end_offset, image.base_name) == (0, name)
    assert held_by(found).log.is_empty


@pytest.mark.parametrize("words", [("begin",), ("begin", "end"), ("abort",)])
def test_a_transaction_in_a_snapshot_hides_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    origin = sorted(SNAPSHOTS.folder.glob("*/*.checkpoint"))[-1]
    raw = origin.read_bytes()
    starts = batch_starts(raw)
    marks = Batch(0, 1, tuple(TRANSACTION[one] for one in words)).raw()
    path = tmp_path / origin.name
    path.write_bytes(raw[: starts[1]] + marks + raw[starts[1] :])
    ((found,), (known,)) = (find_replicas([str(one)]) for one in (path, origin))
    image = built(found)
    assert image.state == built(known).state
    assert image.open_since is None
    told = [(one.origin.type.partition("_")[0].lower(), one.origin.offset) for one in image.faults]
    assert told == [(one, None) for one in words]


def test_a_segment_that_waits_to_be_removed_is_one_where_it_is_named(tmp_path: Path) -> None:
    (segment,) = Replica("synthetic-transactions", "0").folder.glob("*/*.log")
    target = tmp_path / f"{segment.name}.deleted"
    shutil.copyfile(segment, target)
    (found,) = find_replicas([str(target)])
    (known,) = find_replicas([str(segment)])
    assert held_by(found).runs == held_by(known).runs


def test_a_segment_of_anything_else_has_no_state_and_says_why(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(b"no batch is in it" * 100)
    (found,) = find_replicas([str(segment)])
    with pytest.raises(InputError, match=re.escape(f" in {segment} at byte 0)")):
        built(found)


def test_an_empty_folder_has_no_state(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    with pytest.raises(InputError, match="no readable batch"):
        built(covered(tmp_path).replica, None)
