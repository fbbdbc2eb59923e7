"""Every replica's state, at every offset where Kafka has a digest, is Kafka's own MetadataImage.

The digests come from a replay of the log: from its beginning, or from the oldest snapshot where the
log begins later. `kraftlog state` starts from the newest snapshot, as a booting node does.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.state.replay import Replay
from kraftlog.state.shapes import canonical_text
from tests.canonical import canonical_lines
from tests.definition import load_snapshot, steps
from tests.golden.cases import REPLAYED, REPLICAS, Replica
from tests.golden.digest import Digest, digest_of
from tests.golden.replica_fold import folded_history
from tests.golden.spans import history_tables_of, spans_of
from tests.images import built
from tests.log_coverage import LogCoverage, scan

CLEAR = Redactor(None)
WITH_IMAGE = [one for one in REPLICAS if one.has_image]


@cache
def coverage_of(replica: Replica) -> LogCoverage:
    (found,) = find_replicas([str(replica.folder)])
    return scan(found)


def replay_from_start(coverage: LogCoverage) -> tuple[Replay, int]:
    """An empty replay where the log begins at 0, else one of the oldest snapshot."""
    if coverage.runs and coverage.runs[0].start_offset == 0:
        return Replay(), 0
    oldest = coverage.snapshots[0]
    replay, _ = load_snapshot(oldest, CLEAR)
    return replay, oldest.end_offset


@pytest.mark.parametrize("replica", REPLAYED, ids=str)
def test_every_digest(replica: Replica) -> None:
    coverage = coverage_of(replica)
    expected = {
        row["end_offset"]: row["sha256"] for row in replica.image_digests() if "sha256" in row
    }
    assert expected
    replay, start = replay_from_start(coverage)
    digest = Digest(replay.state)
    different = []
    for step in steps(coverage, replay, start, coverage.reach(start), CLEAR):
        digest.update(replay.state, [one.change for one in step.seen])
        wanted = expected.pop(step.end_offset, None)
        if wanted is not None and wanted != digest.hexdigest():
            different.append(step.end_offset)
    assert not different
    assert not expected
    assert digest.hexdigest() == digest_of(canonical_lines(replay.state))


@pytest.mark.parametrize("replica", WITH_IMAGE, ids=str)
def test_the_image_at_the_end(replica: Replica) -> None:
    image = built(coverage_of(replica).replica)
    assert canonical_lines(image.state) == [canonical_text(row) for row in replica.image()]
    assert not image.faults


@pytest.mark.parametrize("replica", REPLAYED, ids=str)
def test_every_snapshot(replica: Replica) -> None:
    expected = {row["snapshot"]: row for row in replica.image_digests() if "snapshot" in row}
    for snapshot in coverage_of(replica).snapshots:
        row = expected.get(snapshot.name)
        if row is not None:
            loaded, _ = load_snapshot(snapshot, CLEAR)
            assert digest_of(canonical_lines(loaded.state)) == row["sha256_snapshot"]


@pytest.mark.parametrize("replica", REPLICAS, ids=str)
def test_the_fold_gives_the_history_that_the_replay_gives(replica: Replica) -> None:
    assert_folded(coverage_of(replica))


def test_a_history_with_a_gap(tmp_path: Path) -> None:
    """Nothing holds over a gap; the next snapshot after it begins anew."""
    folder = tmp_path / "0"
    shutil.copytree(Replica("synthetic-fuzz-1", "0").folder, folder)
    sorted(folder.glob("*/*.log"))[1].unlink()
    (found,) = find_replicas([str(folder)])
    coverage = scan(found)
    first, *_, last = spans_of(coverage)
    assert first.end_offset < last.start_offset
    assert_folded(coverage)
    topics = history_tables_of(coverage, CLEAR)["topics"].to_pylist()
    ends = {row["valid_to_offset"] for row in topics if row["valid_from_offset"] == 0}
    assert None not in ends
    for row in topics:
        end = row["valid_to_offset"]
        assert end is None or end <= first.end_offset + 1 or row["valid_from_offset"] > 0


def assert_folded(coverage: LogCoverage) -> None:
    folded: dict[str, list[str]] = defaultdict(list)
    for name, rows in folded_history(coverage.replica, CLEAR, parts=2):
        folded[name] += map(repr, rows.to_pylist())
    for name, rows in history_tables_of(coverage, CLEAR).items():
        assert sorted(folded[name]) == sorted(map(repr, rows.to_pylist()))
