"""Controllers that fetch and never arrive: the signs of KAFKA-19541, joined for each copy; and storms
of elections: leaders that come one after the other, elections that nobody wins, voters that stand
again and again.

In: a quorum. Out: frozen `Joining`s; how many elections, how long, and where. A voter over a slow
link must bring each answer within the fetch and the request timeout; where it cannot, it starts again from the
beginning and stands for election in between, which costs the others their leader. Checks say it in
words, plans ask whether it is so. Source: KAFKA-19541, KIP-1219, strimzi#11613.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kraftlog.config import ValueSource
from kraftlog.log import names
from kraftlog.log.directory import NO_SEGMENT
from kraftlog.quorum.evidence import Longs, ReplicaEvidence
from kraftlog.quorum.growth import HOUR_MS
from kraftlog.quorum.logview import EpochStart, LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import newest_ms
from kraftlog.quorum.settings import (
    FETCH_TIMEOUT,
    FETCHED_BYTES,
    FETCHED_SNAPSHOT_BYTES,
    MIB,
    REQUEST_TIMEOUT,
    ROLES,
    Number,
    default_of,
    number_of,
)
from kraftlog.quorum.snapshots import SnapshotView

DEFAULT_FETCH_BYTES = default_of(FETCHED_BYTES)
"""Default of controller.quorum.fetch.snapshot.max.bytes and controller.quorum.fetch.max.bytes:
Kafka 4.3.1 has both, 3.9.1 neither.
"""
FORMER_FETCH_BYTES = 8 * MIB
"""What was built in before: for Fetch under an internal name, for FetchSnapshot as a constant.
"""
FETCH_TIMEOUT_MS = default_of(FETCH_TIMEOUT)
"""Default of controller.quorum.fetch.timeout.ms."""
REQUEST_TIMEOUT_MS = default_of(REQUEST_TIMEOUT)
"""Default of controller.quorum.request.timeout.ms."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How a follower fetches: bytes of a snapshot and of the log in one answer, and the timeouts of
    its fetching and of one request in ms; each by the command line, else by its own
    server.properties, else Kafka's.
    """

    chunk: Number
    fetch: Number
    timeout: Number
    request_timeout: Number


def fetch_settings(
    replica: ReplicaEvidence | None,
    chunk: int | None = None,
    fetch: int | None = None,
    timeout_ms: int | None = None,
    request_timeout_ms: int | None = None,
) -> FetchSettings:
    """The settings of a follower, of which there may be no copy."""
    return FetchSettings(
        number_of(replica, FETCHED_SNAPSHOT_BYTES, chunk),
        number_of(replica, FETCHED_BYTES, fetch),
        number_of(replica, FETCH_TIMEOUT, timeout_ms),
        number_of(replica, REQUEST_TIMEOUT, request_timeout_ms),
    )


def least_number(quorum: Quorum, name: str) -> int:
    """The least value that a server.properties at hand sets for a number, else Kafka's."""
    own = (number_of(log.evidence, name) for log in quorum.peers)
    set_ones = (one.value for one in own if one.source == ValueSource.SERVER_PROPERTIES)
    return min(set_ones, default=default_of(name))


@dataclass(frozen=True, slots=True)
class Joining:
    """A controller that needs a snapshot which the others have, and what else is seen of it.

    `elections` were won by others since its log ended, `ahead` is how many epochs it knows of that
    no log has, `stalled_ms` how long nothing has come of the .part that it writes.
    """

    log: LogView
    wanted: SnapshotView
    knows_newest_epoch: bool
    elections: int
    ahead: int
    part: SnapshotView | None
    stalled_ms: int | None

    def is_stuck(self, part_ms: int) -> bool:
        """Whether its signs together say that it tries and fails; one that was only switched off
        knows no new epoch and writes nothing.
        """
        stalled = self.stalled_ms is not None and self.stalled_ms > part_ms
        takes_part = self.knows_newest_epoch and self.elections >= ELECTIONS
        return stalled or takes_part or self.ahead >= ELECTIONS


ELECTIONS = 3
"""So many elections while a controller was on its way are more than a restart makes."""


def joining(quorum: Quorum) -> Iterator[Joining]:
    """The controllers whose logs end before what the newest log still holds."""
    newest = quorum.newest_log
    if newest is None:
        return
    for log in quorum.peers:
        wanted = _wanted(quorum, newest, log)
        is_unread = log.unreadable_end and log.unread != NO_SEGMENT
        if wanted is None or is_unread or not is_controller(quorum, log.evidence):
            continue
        end, state = log.end_offset or 0, log.evidence.state_file
        others = [one.last_epoch or 0 for one in quorum.peers if one is not log]
        top = max(others, default=0)
        known = state.leader_epoch if state is not None else 0
        part = _part(quorum, log, end)
        now = newest_ms(quorum)
        yield Joining(
            log,
            wanted,
            top > 0 and known >= top,
            sum(one.start_offset > end for one in newest.epoch_starts),
            max(0, known - top),
            part,
            None if part is None or now is None else max(0, now - part.evidence.modified_ms),
        )


def has_to_learn_voters(quorum: Quorum, log: LogView) -> bool:
    """Whether a node of a dynamic quorum has nothing on its disk that says who votes."""
    told = any(one.is_live and one.voters for one in quorum.snapshots_of(log.label))
    return quorum.recorded_voters is not None and log.is_empty and not told


def names_leader(log: LogView) -> bool:
    """Whether a node's quorum-state knows who leads."""
    state = log.evidence.state_file
    return state is not None and state.leader_id >= 0


def knows_leader_alone(quorum: Quorum, log: LogView) -> bool:
    """Whether a node knows who leads, and not who votes: as one that was stopped in the download of its
    first snapshot. Kafka 4.3.1 and 4.4.0 end at the first answer then.
    """
    is_bare = not quorum.own_snapshot_end(log.label)
    return names_leader(log) and is_bare and has_to_learn_voters(quorum, log)


def is_controller(quorum: Quorum, replica: ReplicaEvidence) -> bool:
    """Whether a copy is of a node that votes, or is there to vote: by the voter set, whatever its
    directory, or by its settings.
    """
    if replica.is_pulled or replica.node_id is None:
        return False
    return quorum.is_voter_by_id(replica) or "controller" in (replica.setting(ROLES) or "")


def _wanted(quorum: Quorum, newest: LogView, log: LogView) -> SnapshotView | None:
    """The snapshot that a leader with the newest log would send; None where the log can go on
    without one.
    """
    end, begins = quorum.reach_of(log), newest.start_offset or 0
    if log is newest or (end >= begins and end > 0):
        return None
    held = [one for one in quorum.snapshots_of(newest.label) if one.is_complete]
    return max((one for one in held if one.end_offset > end), key=lambda one: one.id, default=None)


def _part(quorum: Quorum, log: LogView, end: int) -> SnapshotView | None:
    """The newest snapshot that the node has begun to fetch."""
    found = (
        one
        for one in quorum.every_snapshot
        if one.replica == log.label
        and one.evidence.kind == names.CHECKPOINT_PART
        and one.end_offset > end
    )
    return max(found, key=lambda one: one.id, default=None)


def stuck(quorum: Quorum) -> Iterator[Joining]:
    """The controllers whose signs together say that they try and fail."""
    limit = quorum.thresholds.snapshot_part_ms
    return (one for one in joining(quorum) if one.is_stuck(limit))


# --- storms of elections -------------------------------------------------------------------------


def elections_in(log: LogView) -> tuple[list[EpochStart], Longs]:
    """The epochs that begin inside a log, and when."""
    starts = [one for one in log.epoch_starts if one.certain][1:]
    rows = np.array([one.row for one in starts], np.int64)
    # As floats: a wild time does not wrap around.
    return starts, log.evidence.log.base_timestamps[rows].astype(np.float64)


def busiest_hour(log: LogView) -> tuple[int, EpochStart | None]:
    """The most elections that a log holds within an hour, and the first of them in the log."""
    starts, times = elections_in(log)
    if not starts:
        return 0, None
    order = np.argsort(times)
    times = times[order]
    within = np.searchsorted(times, times + HOUR_MS, "left") - np.arange(len(times))
    busiest = int(within.argmax())
    most = int(within[busiest])
    return most, starts[int(order[busiest : busiest + most].min())]


def longest_gap(log: LogView) -> tuple[int, EpochStart]:
    """The most epochs between two of a log's that nobody won, and the epoch after them; the log has
    two epochs at least.
    """
    epochs = np.array([one.epoch for one in log.epoch_starts], np.int64)
    skipped = np.diff(epochs) - 1
    worst = int(skipped.argmax())
    return int(skipped[worst]), log.epoch_starts[worst + 1]


def unelected(quorum: Quorum) -> Iterator[tuple[LogView, int, int]]:
    """Voters whose `quorum-state` is far above every log at hand, with its epoch and the newest of
    the logs; but for those of which `stuck` says why.
    """
    newest, far = quorum.newest_epoch, []
    for log in quorum.voter_logs:
        state = log.evidence.state_file
        if state is None or log.evidence.quorum_state is None:
            continue
        if state.leader_epoch - newest > quorum.thresholds.skipped_epochs:
            far.append((log, state.leader_epoch, newest))
    known = {one.log.label for one in stuck(quorum)} if far else ()
    yield from (one for one in far if one[0].label not in known)


def is_stormy(quorum: Quorum) -> bool:
    """Whether elections are over the limits."""
    limits, log = quorum.thresholds, quorum.newest_log
    if any(unelected(quorum)):
        return True
    most, first = busiest_hour(log) if log is not None else (0, None)
    if log is None or first is None:
        return False
    return most > limits.elections_per_hour or longest_gap(log)[0] > limits.skipped_epochs
