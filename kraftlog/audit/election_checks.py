"""Checks of elections: how long leaders lead, whether the newest one has committed anything, and
controllers that fetch and never arrive, with all signs of one in one finding.

In: the epochs of the logs and of `quorum-state`, `quorum.joining`. That there are very many
elections is told by `election_storm`. Source: KIP-1219, strimzi#11613, strimzi#12760, KAFKA-19541,
KAFKA-20661.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from kraftlog.audit.check import BadRow, at_batch, check
from kraftlog.audit.coverage import Coverage, missing_voters_text, not_judged, unread
from kraftlog.audit.health_checks import Reason
from kraftlog.audit.triage import called, put_in_place, replacement
from kraftlog.log.batch import CONTROL
from kraftlog.plain import counted, sentence, some
from kraftlog.quorum.bounds import NOBODY_KNOWN
from kraftlog.quorum.copy_times import copy_explains
from kraftlog.quorum.ends import is_closed_at_end
from kraftlog.quorum.joining import (
    FORMER_FETCH_BYTES,
    Joining,
    busiest_hour,
    elections_in,
    is_controller,
    knows_leader_alone,
    stuck,
)
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import (
    FETCH_TIMEOUT,
    FETCHED_BYTES,
    FETCHED_SNAPSHOT_BYTES,
    REQUEST_TIMEOUT,
    ROLES,
    number_of,
)
from kraftlog.quorum.shortfalls import may_be_unwritten, voted_down


def _over_elections(quorum: Quorum) -> Coverage:
    log = quorum.newest_log
    if log is None or len(log.epoch_starts) < 2:
        return Coverage((), (), "no election lies in a log at hand")
    return Coverage((log.label,)).but_for(unread([log]))


@check(
    "leaders_last", "warning", "replica", "KIP-1219, KAFKA-19541",
    "leaders lead for longer than it takes to elect one",
    action="watch", over=_over_elections,
    goes_by=("elections_per_hour", "tenure_ms", "short_tenures"),
    meaning="""Leaders came and went within less than a minute each, one after the other: too few
    of them for a storm, too many for a rolling restart. Each change is a pause for everyone who
    writes metadata.""",
    advice="""The table elections has every leader with its tenure. Look at what happened on each
    leader when it lost the leadership: pauses of the JVM, a slow disk, a link that loses packets,
    a readiness probe that kills it.""",
)  # fmt: skip
def tenures(quorum: Quorum) -> Iterator[BadRow]:
    """Leaders that go within a minute, one after the other, but for the one that leads now."""
    log, limits = quorum.newest_log, quorum.thresholds
    if log is None or busiest_hour(log)[0] > limits.elections_per_hour:
        return
    starts, times = elections_in(log)
    lasted = np.diff(times)
    first, count = _longest_run(lasted < limits.tenure_ms)
    if count < limits.short_tenures:
        return
    run, short = starts[first : first + count], lasted[first : first + count]
    least, most, limit = (one / 1000 for one in (short.min(), short.max(), limits.tenure_ms))
    led = Counter(log.leaders[one.epoch] for one in run if one.epoch in log.leaders)
    names = [f"controller {node} ({counted(times, 'time')})" for node, times in led.most_common(5)]
    yield at_batch(
        log,
        run[0].row,
        f"From offset {run[0].start_offset} on, {count} leaders in a row led for less than {limit:,.0f} s each ({least:,.1f} to {most:,.1f} s): {some(names)}. "
        "While leaders change, nobody can write metadata. "
        "Look for what they cannot do in time (controller.quorum.fetch.timeout.ms): reach a majority, or write to the disk.",
        epoch=run[0].epoch,
        evidence={
            "tenures": count,
            "shortest_ms": int(short.min()),
            "median_ms": int(np.median(short)),
            "longest_ms": int(short.max()),
            "led": {str(node): times for node, times in led.items()},
        },
    )


def _longest_run(flags: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> tuple[int, int]:
    """Where the longest run of true begins, and how long it is."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(lengths.argmax())
    return int(edges[2 * longest]), int(lengths[longest])


def _over_controllers(quorum: Quorum) -> Coverage:
    logs = [log for log in quorum.peers if is_controller(quorum, log.evidence)]
    labels = tuple(log.label for log in logs)
    return Coverage(labels, (), "no copy at hand is of a controller").but_for(unread(logs))


@check(
    "controllers_catch_up", "warning", "replica", "KAFKA-19541, KIP-1219",
    "a controller that needs a snapshot gets it",
    action="watch", over=_over_controllers,
    goes_by=("snapshot_part_ms", FETCHED_SNAPSHOT_BYTES, FETCH_TIMEOUT, REQUEST_TIMEOUT, ROLES),
    meaning="""A controller needs a snapshot that the others have. It tries to get the snapshot,
    and does not get it. The finding has all signs of that. Over a slow link an answer does not
    arrive within controller.quorum.fetch.timeout.ms and controller.quorum.request.timeout.ms. The
    controller then stands for election, which can cost the others their leader, and begins again (KAFKA-19541). A controller that is
    only switched off knows no new epoch and is not told.""",
    advice="""Stop that controller while you help it. From Kafka 4.3 on, lower
    controller.quorum.fetch.snapshot.max.bytes there and, for the log behind the snapshot,
    controller.quorum.fetch.max.bytes (KIP-1219). Before 4.3, and where one batch is too large for the
    link, raise controller.quorum.fetch.timeout.ms and controller.quorum.request.timeout.ms there: one
    of them alone does not help. Or copy the log folder of a healthy controller to it, but for the
    quorum-state: its own, which holds its vote, must stay. See kraftlog plan join for each step that a joining
    controller takes, and for how long the steps take over your link.""",
)  # fmt: skip
def can_join(quorum: Quorum) -> Iterator[BadRow]:
    for one in stuck(quorum):
        wanted, own = one.wanted.evidence, one.log.evidence
        size = wanted.size_bytes
        chunk, fetch_ms, request_ms = (
            number_of(own, name).value
            for name in (FETCHED_SNAPSHOT_BYTES, FETCH_TIMEOUT, REQUEST_TIMEOUT)
        )
        timeout = min(fetch_ms, request_ms)
        rate, former = (
            int(min(size, part) * 1000 / max(1, timeout)) for part in (chunk, FORMER_FETCH_BYTES)
        )
        yield BadRow(
            one.log.label,
            f"{sentence(called(quorum, one.log))} tries to join and does not arrive. "
            f"{' '.join(_signs(one))} As long as it tries, it can force elections on the others (KAFKA-19541). "
            f"Each answer must come within {timeout:,} ms, the lesser of {FETCH_TIMEOUT} and {REQUEST_TIMEOUT}. "
            f"That takes a link of {rate:,} bytes/s, or of {former:,} bytes/s before Kafka 4.3, which asks for 8 MiB at once. "
            f"Stop this node. {_help(quorum, one)}",
            one.part.path if one.part else one.log.evidence.folder,
            offset=one.log.end_offset or 0,
            other_replica=one.wanted.replica,
            evidence={
                "end_offset": one.log.end_offset or 0,
                "snapshot": one.wanted.path,
                "snapshot_size_bytes": size,
                "elections_since": one.elections,
                "epochs_ahead": one.ahead,
                "part": one.part.path if one.part else None,
                "part_size_bytes": one.part.evidence.size_bytes if one.part else None,
                "part_stalled_ms": one.stalled_ms,
                "least_bytes_per_second": rate,
                "fetch_timeout_ms": fetch_ms,
                "request_timeout_ms": request_ms,
            },
        )


def _help(quorum: Quorum, one: Joining) -> str:
    """What lets a stopped controller arrive; the log behind the snapshot has to come through, too."""
    best = replacement(quorum, one.log)
    by_hand = (
        f"put {one.wanted.evidence.name} of replica {one.wanted.replica} into its log folder, and take nothing out of that"
        if best is None
        else put_in_place(one.log, best)
    )
    if knows_leader_alone(quorum, one.log):
        return f"Before it starts again, {by_hand}: Kafka 4 stops with an error where quorum-state names a leader, and nothing else on the disk says who votes."
    return f"Then lower {FETCHED_SNAPSHOT_BYTES} and {FETCHED_BYTES} (from Kafka 4.3 on), or raise both timeouts. Or {by_hand}."


def _signs(one: Joining) -> Iterator[str]:
    end, wanted = one.log.end_offset or 0, one.wanted
    yield (
        f"Its log ends at offset {end}, and the leader would send it {wanted.evidence.name} of {counted(wanted.evidence.size_bytes, 'byte')}."
    )
    if one.part is not None:
        size = one.part.evidence.size_bytes
        age = f" and {one.stalled_ms / 1000:,.0f} s old" if one.stalled_ms else ""
        yield f"Its {one.part.evidence.name} is {counted(size, 'byte')} long{age}."
    if one.elections:
        yield f"The others have had {counted(one.elections, 'leader')} since its log ended."
    if one.ahead:
        yield f"Its quorum-state is {counted(one.ahead, 'epoch')} above every log at hand."


def _over_voters(quorum: Quorum) -> Coverage:
    why = _why_unknown(quorum)
    if why is not None:
        return not_judged(why)
    return Coverage(tuple(log.label for log in quorum.voter_logs))


@check(
    "newest_leader_commits", "warning", "replica", "strimzi#12760, KAFKA-20661",
    "the first record of the newest leader is on a majority of the voters",
    action="watch", over=_over_voters, after="quorum_state_present",
    goes_by=("copy_skew_ms",),
    meaning="""A controller was elected leader, and its first record has not reached a majority of
    the voters. It has committed nothing. So no broker can register, and nobody can write metadata,
    whatever its health check says. Or it leads, and no controller has ever written anything. Usual
    causes are an address that the leader advertises and the others cannot reach (after a cold
    start, a change of names), a link, or a disk. At level info the copies of the others were made
    before that record was written, or the leader ended or was copied before it wrote any.""",
    advice="""Compare advertised.listeners of the leader with what the others can resolve and
    reach, then restart the controllers one after the other. See kraftlog plan election for who
    can be elected, and kraftlog replicas for where each log ends.""",
)  # fmt: skip
def commits(quorum: Quorum) -> Iterator[BadRow]:
    """A leader commits nothing of its epoch before its first record is on a majority."""
    if _why_unknown(quorum) is not None:
        return
    # By a LeaderChange record or a `quorum-state`; a vote that goes on has no leader.
    epoch, leader = max(quorum.leaders.items(), default=(0, None))
    if leader is None:
        return
    # They have the first record of that epoch, or what follows it.
    holders = [
        voter
        for voter, logs in quorum.holders.items()
        if any((log.last_epoch or 0) >= epoch for log in logs)
    ]
    if len(holders) < quorum.bounds.majority and not _has_committed(quorum, epoch):
        # An older copy of a voter's disk beside it says nothing.
        lacking = [
            max(logs, key=lambda log: log.newness)
            for voter, logs in quorum.holders.items()
            if voter not in holders
        ]
        # What a voter held that has lost its end, or lacks committed records, nothing tells.
        telling = [
            log
            for log in lacking
            if quorum.reach_of(log) >= quorum.bounds.lower and not quorum.witnesses(log)
        ]
        is_told = len(quorum.holders) - len(telling) < quorum.bounds.majority
        if is_told and not _is_shut_down(quorum, telling):
            yield _not_replicated(quorum, epoch, leader, holders, lacking)
    elif _wrote_nothing(quorum):
        yield _nothing_written(quorum, epoch, leader)


def _is_shut_down(quorum: Quorum, telling: list[LogView]) -> bool:
    """Whether those that tell were stopped, or all voters at hand: such a quorum elects a last leader,
    whom nobody is left to follow. From Kafka 4.4 on a stop leaves a producer snapshot alone; so does
    a start, but a leader that runs has its first record behind it.
    """
    copies = (max(logs, key=lambda log: log.newness) for logs in quorum.holders.values())
    return all(is_closed_at_end(log) for log in telling) or all(
        max(log.evidence.producer_ends, default=-1) == log.end_offset for log in copies
    )


def _has_committed(quorum: Quorum, epoch: int) -> bool:
    """Whether the committed bound, by a snapshot or a describe, reaches into an epoch: a copy that
    ends before it has lost records, or was made earlier. A log that begins with a snapshot of that
    epoch no longer holds where it began.
    """
    return any(one.epoch >= epoch for one in quorum.credible_snapshots) or any(
        one.epoch == epoch and one.certain and one.start_offset < quorum.bounds.lower
        for log in quorum.peers
        for one in log.epoch_starts
    )


def _not_replicated(
    quorum: Quorum, epoch: int, leader: int, holders: list[int], lacking: list[LogView]
) -> BadRow:
    begins = [
        (log, one)
        for log in quorum.peers
        for one in log.epoch_starts
        if one.epoch == epoch and one.certain
    ]
    stamps = [int(log.evidence.log.base_timestamps[one.row]) for log, one in begins]
    alone = _alone_before(quorum, epoch)
    states = [log.evidence.state_file for log in lacking]
    went_on = any(state is not None and state.leader_epoch > epoch for state in states)
    # Neither several leaders in a row, each without followers, nor a voter that has gone on to the
    # next epoch without this one, are a matter of a moment: that of copying, or of the leader's end.
    excuse = None
    if not alone and not went_on:
        if stamps and all(copy_explains(quorum, log, min(stamps)) for log in lacking):
            excuse = "These copies were made before that record was written."
        elif any(may_be_unwritten(quorum, log) for log in quorum.holders.get(leader, ())):
            excuse = (
                "It may have stopped before it wrote that record, or was copied in that moment."
            )
    where = f" at offset {begins[0][1].start_offset}" if begins else ""
    held = some([f"voter {one}" for one in holders]) if holders else "no voter"
    rows = alone + 1
    again = (
        f" {counted(rows, 'leader')} in a row came no further, from epoch {epoch - alone} on."
        if alone
        else ""
    )
    ends = some(
        [f"voter {log.evidence.node_id} at {log.end_offset or 0}" for log in lacking], limit=6
    )
    reason = f"A majority elected it, but that record is not on a majority. Look at the address that controller {leader} advertises, at its network link, and at the voters' disks."
    if voted_down(quorum, epoch, leader):
        reason = "By the votes of the others no majority can have elected it: see the finding of single_leader_per_epoch."
    elif excuse is not None:
        reason = excuse
    return BadRow(
        None,
        f"Controller {leader} was elected leader of epoch {epoch}, and has committed nothing: its first record{where} is on {held}. "
        f"It is needed on {quorum.bounds.majority} of {len(quorum.voters)} voters.{again} The other logs end without it: {ends}. {reason}",
        batch_leader_epoch=epoch,
        severity=None if excuse is None else "info",
        evidence={
            "epoch": epoch,
            "leader_id": leader,
            "held_by": holders,
            "majority": quorum.bounds.majority,
            "leaders_without_commit": rows,
            "end_offsets": {str(log.evidence.node_id): log.end_offset for log in lacking},
        },
    )


def _alone_before(quorum: Quorum, epoch: int) -> int:
    """How many epochs directly before this one are on a minority of the voters, and uncommitted."""
    held = Counter(
        one
        for logs in quorum.holders.values()
        for one in {start.epoch for log in logs for start in log.epoch_starts}
    )
    count = 0
    while 0 < held[before := epoch - count - 1] < quorum.bounds.majority:
        if _has_committed(quorum, before):
            break
        count += 1
    return count


def _wrote_nothing(quorum: Quorum) -> bool:
    """Whether every record that the quorum ever wrote is one of Raft's own."""
    log = quorum.newest_log
    if log is None or log.start_offset != 0 or any(one.end_offset for one in quorum.own_snapshots):
        return False
    return bool((log.evidence.log.attributes[log.rows] & CONTROL != 0).all())


def _nothing_written(quorum: Quorum, epoch: int, leader: int) -> BadRow:
    log = quorum.newest_log
    return BadRow(
        None,
        f"Controller {leader} leads epoch {epoch}, but no controller has ever written metadata: all {log.end_offset if log else 0} records are Raft's own. "
        "The cluster has no metadata.version, and nobody can register. "
        "Restart the controllers one after the other, the leader last. "
        "Look in the server.log of the leader why it did not begin, for example a name that it cannot resolve.",
        batch_leader_epoch=epoch,
        evidence={"epoch": epoch, "leader_id": leader},
    )


def _why_unknown(quorum: Quorum) -> Reason:
    """Why nothing can be said of what the newest leader has committed."""
    if quorum.voter_set is None:
        return NOBODY_KNOWN
    if len(quorum.holders) < len(quorum.voters):
        return missing_voters_text(quorum)
    if quorum.strangers:
        return "who votes now is not known"
    if any(log.unread_segments for log in quorum.voter_logs):
        return "the log of a voter cannot be read"
    return None
