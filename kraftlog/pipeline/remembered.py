"""What a lake remembers: how far its earlier runs showed their copies to be committed.

In: a lake, the quorum of its newest run. Out: a `Described`, as a saved describe would tell it, where
no copy at hand holds that any more: they are older copies, or what was committed is lost. Source:
KAFKA-1211; Raft's leader completeness: what is committed, each later leader has; KIP-595 ("Log
Matching": one epoch at one offset, one history below).
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

import pyarrow.dataset as ds

from kraftlog.quorum.describe import refuted_at, vouches_for
from kraftlog.quorum.evidence import Described
from kraftlog.quorum.model import Quorum
from kraftlog.tables.lake import Lake


def with_memory(quorum: Quorum, lake: Lake, number: int) -> Quorum:
    """The quorum of a run, with what the runs before it showed and its copies do not hold."""
    shown = [*_shown_before(lake, number)]
    if not shown or not quorum.peers:
        return quorum
    most = max(shown, key=lambda one: (one.end, one.run))
    told = _told_by(lake, most)
    if told is not None and _is_held(told, quorum):
        told = None
    set_back = dict(_set_back(quorum, shown))
    if told is None and not set_back:
        return quorum
    known = {one.disk for one in shown if one.run <= most.run}
    others = _are_others(quorum, known)
    return Quorum(
        replace(quorum.evidence, remembered=told, set_back=set_back, on_other_disks=others)
    )


_Disk = tuple[int | None, str | None]


class _Shown(NamedTuple):
    """Up to which offset a run showed that a replica's log is what was committed."""

    end: int
    run: int
    run_id: str
    replica: str
    disk: _Disk


def _shown_before(lake: Lake, number: int) -> Iterator[_Shown]:
    """What each run before a number showed of its replicas."""
    runs: dict[str, int] = {
        row["run_id"]: row["number"]
        for row in lake.rows("runs", ["run_id", "number"]).to_pylist()
        if row["number"] < number
    }
    if not runs or not lake.exists("replicas"):
        return
    known = ds.field("committed_lower").is_valid() & ds.field("run_id").isin([*runs])
    for row in lake.rows("replicas", _COLUMNS, known).to_pylist():
        end = min(row["committed_lower"], row["shown_end_offset"])
        disk = row["node_id"], row["directory_id"]
        if end > 0:
            yield _Shown(end, runs[row["run_id"]], row["run_id"], row["replica"], disk)


_COLUMNS = ["run_id", "replica", "node_id", "directory_id", "committed_lower", "shown_end_offset"]


def _told_by(lake: Lake, shown: _Shown) -> Described | None:
    """The same as a describe of that moment tells it; None where no log held its last offset."""
    for one in lake.rows_of_run("epochs", shown.run_id):
        if one["replica"] == shown.replica and one["start_offset"] < shown.end <= one["end_offset"]:
            return Described(shown.end, leader_epoch=one["batch_leader_epoch"], run=shown.run)
    return None


def _is_held(told: Described, quorum: Quorum) -> bool:
    """Whether a copy holds all that was committed then; or may hold it, as it begins later, or is a
    snapshot, where no log of a later leader lacks it.
    """
    mark, epoch = told.high_watermark or 0, told.leader_epoch or 0
    refuted = {log.label: log for log in quorum.peers if refuted_at(told, log) is not None}
    reaching = (log for log in quorum.peers if (log.end_offset or 0) >= mark)
    holding = [log for log in reaching if log.label not in refuted]
    if any(vouches_for(told, log) for log in holding):
        return True
    if any((log.last_epoch or 0) > epoch for log in refuted.values()):
        return False
    snapshots = (one for one in quorum.credible_snapshots if one.end_offset >= mark)
    return bool(holding) or (not refuted and any(one.epoch >= epoch for one in snapshots))


def _set_back(quorum: Quorum, shown: Sequence[_Shown]) -> Iterator[tuple[str, tuple[int, int]]]:
    """The replicas whose disks held more than their copies do now, by the runs that showed most."""
    most: dict[_Disk, tuple[int, int]] = {}
    for one in shown:
        most[one.disk] = max(most.get(one.disk, (0, 0)), one[:2])
    for log in quorum.peers:
        disk = log.evidence.node_id, log.evidence.directory_id
        held = most.get(disk, (0, 0))
        if None not in disk and held[0] > (log.end_offset or 0):
            yield log.label, held


def _are_others(quorum: Quorum, known: Set[_Disk]) -> bool:
    """Whether no voter's disk at hand is one of some; formatting names each at random."""
    voters = (log.evidence for log in quorum.voter_logs)
    disks = {(one.node_id, one.directory_id) for one in voters}
    are_named = not any(None in disk for disk in disks | known)
    return bool(disks) and are_named and disks.isdisjoint(known)
