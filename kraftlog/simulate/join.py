"""A follower's whole way to its leader's end: each request over a link, the disk after it, and what
becomes of the node if the connection breaks or the node stops there.

In: a follower's `Disk`, what the leader holds and its sizes, a link and limits. Out: `JoinStep`s in
order. Pure. Source: KIP-630 "Changes to Leader Election", "Handling Fetch Request" and "Fetching
Snapshots", KIP-595 "Fetch", KIP-996, KIP-1219; of Kafka 4.3.1 QuorumState.initialize,
KafkaRaftClient (how followers and observers poll, and take answers: validateLeaderOnlyRequest,
maybeHandleCommonResponse, handleVoteRequest) and KafkaRaftLog (truncateToLatestSnapshot; a start
deletes every `.part`).
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

import numpy as np

from kraftlog.quorum.epochs import truncated_to
from kraftlog.quorum.evidence import Longs
from kraftlog.quorum.joining import DEFAULT_FETCH_BYTES, FETCH_TIMEOUT_MS, REQUEST_TIMEOUT_MS
from kraftlog.quorum.settings import (
    FETCH_TIMEOUT,
    FETCHED_BYTES,
    FETCHED_SNAPSHOT_BYTES,
    REQUEST_TIMEOUT,
)
from kraftlog.simulate.boot import Boot, Disk, DiskStep, SnapshotFile, boot, start, takeover
from kraftlog.simulate.extent import BOOTSTRAP, Extent, SnapshotId
from kraftlog.simulate.fetch import (
    DIVERGING,
    RECORDS,
    SNAPSHOT,
    Answer,
    Dialect,
    Span,
    log_chunks,
    next_answer,
)
from kraftlog.simulate.liveness import Link, least_bandwidth, recommended_chunk_bytes
from kraftlog.simulate.snapshot_server import Ask, Server, fetch_snapshot, recovery

CAUGHT_UP = "caught_up"
"""The last step of a way that arrives."""
PIECE = "piece"
CANCELLED = "cancelled"
FENCED, UNKNOWN_EPOCH = "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"
_AHEAD = "an observer never stands for election, and takes over no older epoch: it asks in vain until the voters' own elections have passed epoch {}"
_ELECTION = "it asks for votes in epoch {}; who hears that takes the epoch over, and a leader steps down: the next one is elected in epoch {} at the least, and tells the node"
NO_VOTERS = (
    "Kafka 4 stops with an error at the first answer: quorum-state names a leader, and nothing on the disk says who votes. "
    "Move quorum-state away before the node starts, or better put the snapshot and the log of another controller beside it"
)
_DOWNLOADS = ("chunks_written", "log_and_chunks_written")


@dataclass(frozen=True, slots=True)
class LeaderLog:
    """What the leader holds: its extent, the size of each snapshot in bytes, and of each batch of
    its log the end offset (exclusive), the size in bytes, and the number of its segment: one answer
    is read from one segment. `response_limit_bytes` is its replica.fetch.response.max.bytes, which
    the adopted text alone asks; `epoch` is the one that it leads; None:
    nobody asks.
    """

    extent: Extent
    snapshot_sizes: Mapping[SnapshotId, int]
    batch_ends: Longs
    batch_sizes: Longs
    batch_segments: Longs
    response_limit_bytes: int | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """How a follower asks: `chunk_bytes` is controller.quorum.fetch.snapshot.max.bytes,
    `fetch_bytes` controller.quorum.fetch.max.bytes, `timeout_ms` its fetch timeout. An observer never stands for election. A
    node of a dynamic quorum `learns_voters` from records where its own disk has none.
    """

    link: Link
    chunk_bytes: int = DEFAULT_FETCH_BYTES
    fetch_bytes: int = DEFAULT_FETCH_BYTES
    timeout_ms: int = FETCH_TIMEOUT_MS
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    dialect: Dialect = Dialect.SHIPPED
    is_voter: bool = True
    learns_voters: bool = False

    @property
    def timeouts(self) -> dict[str, int]:
        """The timeouts within which each answer must come. An observer that has fetched nothing for
        long asks other voters who leads, but takes an answer that is late: only the request timeout
        ends its wait (KafkaRaftClient.pollFollowerAsObserver).
        """
        is_bound = self.is_voter or self.dialect != Dialect.SHIPPED
        own = {FETCH_TIMEOUT: self.timeout_ms} if is_bound else {}
        return own | {REQUEST_TIMEOUT: self.request_timeout_ms}

    @property
    def answer_ms(self) -> int:
        """How long an answer may take. The fetch timeout makes the node a candidate; at the request
        timeout it closes the connection, whatever has come of the answer. Source: Kafka's
        KafkaNetworkChannel, NetworkClient and InFlightRequests.
        """
        return min(self.timeouts.values())


class Exchange(NamedTuple):
    """One request, counted from 1, and its answer: bytes [position, position + size_bytes) of a
    snapshot or, of a Fetch, of what the leader's log holds from the fetch offset on.
    """

    number: int
    fetch_offset: int
    last_fetched_epoch: int
    snapshot: SnapshotId | None
    span: Span


@dataclass(frozen=True, slots=True)
class JoinStep:
    """One step, done `at_ms` after the first request. `request` is None for what the node does by
    itself; `part_bytes` is the size of the `.part` that lies on its disk, `epoch` the node's own.
    """

    at_ms: float
    name: str
    disk: Disk
    request: Exchange | None = None
    part_bytes: int = 0
    part_of: SnapshotId | None = None
    note: str | None = None
    epoch: int = 0


def join(
    disk: Disk, leader: LeaderLog, way: Way, *, names_leader: bool = False, epoch: int = 0
) -> Iterator[JoinStep]:
    """Every step from the node's start on. The last one is `caught_up`, or says why the node never
    gets there. `names_leader` where the node's quorum-state does so, `epoch` is the one in it.
    """
    if names_leader and _is_lost(boot(disk), way):
        yield JoinStep(0.0, "stopped", disk, note=NO_VOTERS)
        return
    yield from _Joiner(disk, leader, way, epoch).steps()


def after_crash(step: JoinStep, leader: LeaderLog, way: Way) -> tuple[Boot, Answer | None]:
    """How the node starts again if it stops when a step is done, and what the leader answers to its
    next fetch; None where it does not start.
    """
    booted = start(step.disk, way.dialect)
    if step.at_ms and _is_lost(booted, way):
        booted = replace(booted, boots=False, reason=NO_VOTERS)
    if not booted.boots:
        return booted, None
    return booted, next_answer(leader.extent, booted.extent, way.dialect)


def _is_lost(booted: Boot, way: Way) -> bool:
    """Whether a node that once knew its leader does not know whom to ask: such a follower finds out
    who leads by a Fetch, whose answer Kafka 4.3.1 and 4.4.0 take as a follower's alone.
    """
    learns = way.learns_voters and way.dialect == Dialect.SHIPPED
    bare = booted.extent.is_empty and not set(booted.extent.snapshots) - {BOOTSTRAP}
    return learns and booted.boots and bare


BELOW_START = "it would have to cut its log at offset {}, below its start at {}, where Kafka stops with an exception"
"""What Kafka never cuts: its high watermark begins with the log (KafkaRaftLog.truncateTo)."""
NO_FETCH_EPOCH = "its log is empty at offset {}, and its snapshot {} ends elsewhere: it knows no epoch to fetch with, and Kafka stops with an exception"
"""What a cut below a snapshot of its own leads to (KafkaRaftLog.lastFetchedEpoch)."""
HELD_ALREADY = "the node holds this snapshot already, and asks again without end"
NOT_NEWER = "the snapshot is not newer than the node's log: Kafka stops with an error here"
"""What Kafka makes of a snapshot that takes no log's place (KafkaRaftClient.onFetchSnapshotResponse)."""
CUTS_NOTHING = "nothing is left to cut above its own snapshot, which holds what the leader does not: it asks again from offset {} without end, and at once"
"""Kafka 3.9.1 and 4.3.1 ask so some thousand times a second, with two lines in server.log each time."""

_Goes = Generator[JoinStep, None, bool]
"""Steps; then whether the way goes on."""


@dataclass
class _Joiner:
    """The follower under way: its disk, its clock, and how many requests it has sent."""

    disk: Disk
    leader: LeaderLog
    way: Way
    epoch: int
    at_ms: float = 0.0
    requests: int = 0

    def steps(self) -> Iterator[JoinStep]:
        booted = start(self.disk, self.way.dialect)
        # A quorum-state that is behind the log counts for nothing.
        self.epoch = max(self.epoch, booted.extent.last_fetched_epoch)
        yield self._step("started" if booted.boots else "does_not_start", note=booted.reason)
        if not booted.boots:
            return
        self._hold(booted.extent)
        goes_on = yield from self._meet(booted.extent)
        while goes_on:
            extent = self._extent
            answer = next_answer(self.leader.extent, extent, self.way.dialect)
            if answer.kind == RECORDS:
                yield from self._take_log(extent)
                return
            asked = self._ask(extent, None, Span(0, 0))
            yield self._step(answer.kind, asked, note=_named(answer))
            if answer.kind == SNAPSHOT and answer.snapshot is not None:
                goes_on = yield from self._take_snapshot(extent, answer.snapshot)
            elif answer.kind == DIVERGING and answer.diverging is not None:
                cut = truncated_to(extent, answer.diverging)
                if cut < extent.start_offset and self.way.dialect == Dialect.SHIPPED:
                    yield self._step("stopped", note=BELOW_START.format(cut, extent.start_offset))
                    return
                self._hold(extent.truncated(cut))
                goes_on = self._extent.end_offset < extent.end_offset
                why = None if goes_on else CUTS_NOTHING.format(extent.end_offset)
                yield self._step("truncated" if goes_on else "stuck", note=why)
                contradicting = self._extent.contradicting_snapshot
                if contradicting is not None and self.way.dialect == Dialect.SHIPPED:
                    why = NO_FETCH_EPOCH.format(cut, contradicting.name)
                    yield self._step("stopped", note=why)
                    return
            else:
                goes_on = False
                yield self._step("refused", note=self._after(answer.kind))

    def _meet(self, extent: Extent) -> _Goes:
        """The first request, where it tells the leader another epoch than its own; False (returned)
        where the two never agree. The texts of KIP-630 leave that to KIP-595.
        """
        mine, theirs = self.epoch, self.leader.epoch
        if self.way.dialect != Dialect.SHIPPED or theirs is None or mine == theirs:
            return True
        asked = self._ask(extent, None, Span(0, 0))
        differ = f"the node's epoch is {mine} and the leader's {theirs}"
        if mine < theirs:
            self.epoch = theirs
            note = (
                f"{differ}: it writes the leader and its epoch into quorum-state, and fetches again"
            )
            yield self._step(FENCED, asked, note=note)
            return True
        note = f"{differ}: it takes no notice of an answer from an older epoch"
        yield self._step(UNKNOWN_EPOCH, asked, note=note)
        if not self.way.is_voter:
            yield self._step("stuck", note=_AHEAD.format(mine))
            return False
        self.epoch = mine + 1
        yield self._step("new_election", note=_ELECTION.format(mine, self.epoch))
        return True

    # --- the snapshot ----------------------------------------------------------------------------

    def _take_snapshot(self, extent: Extent, snapshot: SnapshotId) -> _Goes:
        """Download, rename, begin anew behind it; False (returned) where that never ends well."""
        why_not = self._why_useless(extent, snapshot)
        if why_not is not None and snapshot in extent.snapshots:
            yield self._step("stuck", note=why_not)
            return False
        for step in takeover(self.disk, snapshot, self.way.dialect):
            if step.name in ("fetch", "snapshot_named") and step.disk is self.disk:
                continue
            if step.name == "resumed" and why_not is not None:
                yield self._step("stopped", note=why_not)
                return False
            self.disk = step.disk
            if step.name in _DOWNLOADS:
                arrives = yield from self._download(extent, snapshot)
                if not arrives:
                    return False
                continue
            size = self.leader.snapshot_sizes[snapshot] if step.part_of else 0
            yield self._step(step.name, part_bytes=size, part_of=step.part_of, note=self._of(step))
        return True

    def _why_useless(self, extent: Extent, snapshot: SnapshotId) -> str | None:
        """What Kafka stumbles over; the texts do not ask."""
        if self.way.dialect != Dialect.SHIPPED:
            return None
        if snapshot in extent.snapshots:
            return HELD_ALREADY
        return None if extent.with_snapshot(snapshot).is_behind_snapshot else NOT_NEWER

    def _of(self, step: DiskStep) -> str | None:
        if step.name != "validated" or self.way.dialect != Dialect.SHIPPED:
            return None
        return "Kafka compares the size alone; a damaged byte is found when the snapshot is loaded"

    def _download(self, extent: Extent, snapshot: SnapshotId) -> _Goes:
        """Piece after piece; False (returned) where one never arrives in time, or is refused."""
        server = Server(self.leader.snapshot_sizes, self.leader.response_limit_bytes)
        epoch, dialect = self.leader.extent.vector.last_epoch, self.way.dialect
        part, has_more = 0, True
        while has_more:
            ask = Ask(snapshot, part, self.way.chunk_bytes, epoch)
            error, span, has_more = fetch_snapshot(server, ask, dialect)
            asked = self._ask(extent, snapshot, span if error is None else Span(part, 0))
            if error is not None:
                yield self._step("refused", asked, part, snapshot, note=self._after(error))
                return False
            if not self._arrives(span):
                yield self._late(asked, self._advice())
                return False
            part = span.position + span.size_bytes
            yield self._step(PIECE, asked, part, snapshot)
        return True

    def _after(self, error: str) -> str:
        return f"after {error}: {recovery(error, self.way.dialect)}"

    # --- the log ---------------------------------------------------------------------------------

    def _take_log(self, extent: Extent) -> Iterator[JoinStep]:
        """Records up to the leader's end, whole batches in each answer."""
        first = int(self.leader.batch_ends.searchsorted(extent.end_offset, "right"))
        sizes, ends = self.leader.batch_sizes[first:], self.leader.batch_ends[first:]
        reached = sizes.cumsum()
        for span in self._answers(sizes, self.leader.batch_segments[first:]):
            asked = self._ask(self._extent, None, span)
            if not self._arrives(span):
                yield self._late(asked, self._slow(span.size_bytes))
                return
            self._append(int(ends[reached.searchsorted(span.position + span.size_bytes)]))
            yield self._step(RECORDS, asked)
        yield self._step(CAUGHT_UP, self._ask(self._extent, None, Span(0, 0)))

    def _answers(self, sizes: Longs, segments: Longs) -> Iterator[Span]:
        """The answers to one Fetch after the other: none goes beyond the end of a segment."""
        begin = 0
        for each in np.split(sizes, np.flatnonzero(np.diff(segments)) + 1):
            for span in log_chunks(each, self.way.fetch_bytes):
                yield Span(begin + span.position, span.size_bytes)
            begin += int(each.sum())

    def _append(self, end_offset: int) -> None:
        vector, theirs = self.disk.vector, self.leader.extent.vector
        begin = vector.end_offset
        starts = [begin, *(at for _, at in theirs.entries if begin < at < end_offset)]
        for at in starts:
            epoch = theirs.epoch_at(at)
            vector = vector.extended(at)
            if epoch > vector.last_epoch:
                vector = vector.assigned(epoch)
        self.disk = replace(self.disk, vector=vector.extended(end_offset))

    # --- what all steps share --------------------------------------------------------------------

    @property
    def _extent(self) -> Extent:
        """What the running node goes by. By the texts a snapshot of its own that ends behind a cut
        brings its end back; with Kafka only a start would.
        """
        if self.way.dialect != Dialect.SHIPPED:
            return boot(self.disk).extent
        ids = tuple(sorted(one.id for one in self.disk.snapshots))
        return Extent(self.disk.start_offset, self.disk.vector, ids)

    def _hold(self, extent: Extent) -> None:
        """The disk of a node that has started: what it threw away is gone."""
        kept = tuple(SnapshotFile(one) for one in extent.snapshots)
        self.disk = Disk(extent.start_offset, extent.vector, kept)

    def _ask(self, extent: Extent, snapshot: SnapshotId | None, span: Span) -> Exchange:
        self.requests += 1
        offset, epoch = extent.end_offset, extent.last_fetched_epoch
        self.at_ms += min(self.way.link.response_ms(span.size_bytes), float(self.way.answer_ms))
        return Exchange(self.requests, offset, epoch, snapshot, span)

    def _arrives(self, span: Span) -> bool:
        return self.way.link.fits(span.size_bytes, self.way.answer_ms)

    def _step(
        self,
        name: str,
        request: Exchange | None = None,
        part_bytes: int = 0,
        part_of: SnapshotId | None = None,
        note: str | None = None,
    ) -> JoinStep:
        return JoinStep(self.at_ms, name, self.disk, request, part_bytes, part_of, note, self.epoch)

    def _late(self, asked: Exchange, advice: str) -> JoinStep:
        """The answer takes longer than a timeout, this time and every time."""
        needs = ceil(self.way.link.response_ms(asked.span.size_bytes))
        who = "stands for election" if self.way.is_voter else "asks the voters who leads"
        name = min(self.way.timeouts, key=self.way.timeouts.__getitem__)
        note = f"the answer needs {needs:,} ms and {name} is {self.way.answer_ms:,} ms: the node {who} and begins again, without end; {advice}"
        return self._step(CANCELLED, asked, note=note)

    def _advice(self) -> str:
        chunk = recommended_chunk_bytes(self.way.link, self.way.answer_ms)
        if chunk is None:
            return f"raise {' and '.join(self.way.timeouts)}: no smaller piece arrives in time"
        return f"set {FETCHED_SNAPSHOT_BYTES} to {chunk} or less (from Kafka 4.3 on; before, raise {' and '.join(self.way.timeouts)})"

    def _slow(self, size_bytes: int) -> str:
        link = self.way.link
        least = least_bandwidth(size_bytes, ceil(link.round_trip_ms), self.way.answer_ms)
        enough = "" if least is None else f", or use a link of {ceil(least):,} bytes per second"
        chunk = recommended_chunk_bytes(link, self.way.answer_ms)
        longer = f"raise {' and '.join(self.way.timeouts)}{enough}"
        if chunk is None or self.way.fetch_bytes <= chunk:
            return longer
        return f"set {FETCHED_BYTES} to {chunk} or less (from Kafka 4.3 on), or, where one batch is that large, {longer}"


def _named(answer: Answer) -> str | None:
    """What an answer without records names."""
    if answer.snapshot is not None:
        return f"the leader names snapshot {answer.snapshot.name}"
    if answer.diverging is not None:
        epoch, end = answer.diverging
        return f"in the leader's log epoch {epoch} ends at offset {end}"
    return None
