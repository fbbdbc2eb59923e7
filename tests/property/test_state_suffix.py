"""Checkpoint + suffix = whole log, wherever both exist: for the snapshots that Kafka wrote, and for
checkpoints that kraftlog writes at any offset.

Two states that are equal where a snapshot ends stay equal: what follows is the same records.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.state import checkpoint
from kraftlog.state.checkpoint import write_checkpoint
from kraftlog.state.difference import differences
from kraftlog.state.replay import Replay
from kraftlog.state.write import losses
from tests.definition import load_snapshot, read_log, steps
from tests.golden.cases import REPLAYED, Replica
from tests.images import built, held_by
from tests.log_coverage import LogCoverage, scan

CLEAR = Redactor(None)
WITH_IMAGE = [one for one in REPLAYED if one.has_image]


@cache
def coverage_of(replica: Replica) -> LogCoverage:
    (found,) = find_replicas([str(replica.folder)])
    return scan(found)


@cache
def whole_log(replica: Replica) -> LogCoverage:
    """The coverage without the snapshots that the log has outrun: what begins the log is its only
    base.
    """
    coverage = coverage_of(replica)
    start, _ = coverage.restorable()[0]
    bases = tuple(one for one in coverage.snapshots if one.end_offset == start)
    return replace(coverage, snapshots=bases)


@pytest.mark.parametrize("replica", REPLAYED, ids=str)
def test_where_a_snapshot_ends_it_is_the_whole_log(replica: Replica) -> None:
    coverage = coverage_of(replica)
    start, end = coverage.restorable()[0]
    waiting = {one.end_offset: one for one in coverage.snapshots if start < one.end_offset <= end}
    known = {row["snapshot"]: row["equal"] for row in replica.image_digests() if "snapshot" in row}
    replay, base = Replay(), whole_log(replica).base_for(start)
    if base is not None:
        replay, _ = load_snapshot(base, CLEAR)
    for step in steps(coverage, replay, start, max(waiting, default=start), CLEAR):
        snapshot = waiting.pop(step.end_offset, None)
        if snapshot is not None:
            loaded, _ = load_snapshot(snapshot, CLEAR)
            tables = {one.table for one in differences(loaded.state, replay.state)}
            # Kafka itself left configs of removed topics in the snapshots that it holds unequal.
            assert tables == (set() if known.get(snapshot.name, True) else {"configs"})
            assert replay.open_since is None
    assert not waiting


@given(
    st.sampled_from(WITH_IMAGE),
    st.floats(0, 1),
    st.sampled_from([300, checkpoint.BATCH_LIMIT_BYTES]),
)
@settings(max_examples=25, deadline=None)
def test_a_checkpoint_of_ours_and_the_suffix(
    replica: Replica, share: float, batch_bytes: int
) -> None:
    """Written at a batch boundary outside of a transaction, in one batch or many, read back, and
    followed to the end.
    """
    coverage = whole_log(replica)
    start, end = coverage.restorable()[0]
    batches = list(read_log(coverage, start, end))
    offset = batches[round(share * (len(batches) - 1))].end_offset
    bases = {one.file.path for one in coverage.snapshots}
    held = held_by(coverage.replica)
    held = replace(held, snapshots=tuple(one for one in held.snapshots if one.path in bases))
    image = built(held, offset)
    if image.open_since is not None or any(losses(image.state)):
        return  # Kafka takes no snapshot there, or its metadata.version cannot hold the state
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "BATCH_LIMIT_BYTES", batch_bytes)
        written = scan(find_replicas([str(write_checkpoint(image, Path(folder)))])[0])
        replay, _ = load_snapshot(written.snapshots[0], CLEAR)
    assert list(differences(replay.state, image.state)) == []
    for _ in steps(coverage, replay, offset, end, CLEAR):
        pass
    assert list(differences(replay.state, built(held, end).state)) == []
