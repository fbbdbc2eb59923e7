"""Whether the leaders' clocks go forward: each step back once, however many replicas hold it, and
many of them as the pattern that they are; and whether they stood still.

In: a quorum. Out: rows of `timestamps_monotonic` and `leader_writes_on`. Source: KIP-630 "Snapshot
Control Records", KIP-835.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kraftlog.audit.check import BadRow, at_batch, check
from kraftlog.audit.triage import holding
from kraftlog.plain import sentence
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.shortfalls import has_rhythm
from kraftlog.relations import moment

TOLD_ONE_BY_ONE = 3
"""More steps back than these are told together."""


@dataclass(slots=True)
class _StepBack:
    """A batch whose time lies before that of the batch in front of it, and who holds it."""

    log: LogView
    row: int
    offset: int
    at_ms: int
    back_ms: int
    new_leader: bool
    replicas: list[str] = field(default_factory=list)


def _steps_back(quorum: Quorum) -> list[_StepBack]:
    found: dict[str, _StepBack] = {}
    for log in quorum.logs:
        columns = log.evidence.log
        stamps = columns.max_timestamps[log.rows]
        for index in (np.flatnonzero(stamps[1:] < stamps[:-1]) + 1).tolist():
            if _is_of_the_election(log, index):
                continue
            row = int(log.rows[index])
            one = _StepBack(
                log,
                row,
                int(log.base[index]),
                int(stamps[index]),
                int(stamps[index - 1]) - int(stamps[index]),
                bool(log.epochs[index] != log.epochs[index - 1]),
            )
            found.setdefault(columns.id_text(row), one).replicas.append(log.label)
    return sorted(found.values(), key=lambda one: one.offset)


def _is_of_the_election(log: LogView, index: int) -> bool:
    """Whether a batch is the LeaderChange of the first leader, dated to its election, behind records that
    it wrote since: on an empty log a controller of Kafka 3.3 to 3.5 does not wait for it (KAFKA-15345).
    """
    is_first = int(log.base[0]) == 0 and bool(log.epochs[index] == log.epochs[0])
    return is_first and log.is_leader_change(index)


@check(
    "timestamps_monotonic", "info", "log", "KIP-630 Snapshot Control Records",
    "append times do not go back",
    action="know", after="epoch_within_quorum_state",
    meaning="""A batch is older than the one before it, by its leader's clock. A few milliseconds
    are usual after a change of leader. Retention by time, and questions about what held at a time,
    are only as exact as these clocks. More than three such steps back are told together: how
    often, how far, and since when.""",
    advice="""For a few milliseconds nothing needs to be done. If it happens again and again, or
    amounts to seconds, compare the controllers' clocks.""",
)  # fmt: skip
def timestamps(quorum: Quorum) -> Iterator[BadRow]:
    steps = _steps_back(quorum)
    if len(steps) <= TOLD_ONE_BY_ONE:
        for one in steps:
            whose = "the new leader's clock" if one.new_leader else "its leader's clock"
            yield _row(
                one,
                f"The batch at offset {one.offset} is {one.back_ms:,} ms older than the one before it, by {whose}. {sentence(holding(one.replicas))} it. "
                "Compare the controllers' clocks if this happens again.",
            )
        return
    yield _pattern(steps)


def _pattern(steps: list[_StepBack]) -> BadRow:
    backs = sorted(one.back_ms for one in steps)
    times = np.array([one.at_ms for one in steps], np.float64)
    # A clock may be put back by more than it has run since: only where it runs does it tell of time.
    before = times + np.array([one.back_ms for one in steps], np.float64)
    every = float(np.median(before[1:] - times[:-1])) / 1000
    first, last = moment(int(times.min())), moment(int(times.max()))
    span = ""
    if first and last:
        span = f" between {first:%Y-%m-%d %H:%M:%S} and {last:%Y-%m-%d %H:%M:%S} UTC"
    count, same = len(steps), sum(not one.new_leader for one in steps)
    least, most = f"{backs[0]:,}", f"{backs[-1]:,}"
    back = least if least == most else f"{least} to {most}"
    replicas = list(dict.fromkeys(label for one in steps for label in one.replicas))
    return _row(
        steps[0],
        f"The leaders' clocks go back {count:,} times{span}, by {back} ms. Between two steps back they run for {every:,.1f} s (median). "
        f"{same:,} of the {count:,} came without a change of leader. The first is at offset {steps[0].offset}, the last at {steps[-1].offset}. {sentence(holding(replicas))} them. "
        "Look at the time service of the controllers.",
        times=count,
        replicas=replicas,
        offsets=[one.offset for one in steps[:100]],
        back_ms_least=backs[0],
        back_ms_most=backs[-1],
        under_one_leader=same,
    )


def _row(one: _StepBack, message: str, **evidence: object) -> BadRow:
    evidence = {"back_ms": one.back_ms, "replicas": one.replicas} | evidence
    return at_batch(one.log, one.row, message, evidence=evidence)


@check(
    "leader_writes_on", "info", "log", "KIP-835",
    "a leader that writes regularly is never silent for long",
    action="watch",
    goes_by=("idle_gap_ms",),
    meaning="""A leader writes a no-op every half second (metadata.max.idle.interval.ms; where that is 0, none, and
    nothing is told). A long silence within one epoch is a leader that stood still (a full disk, a long pause of its
    JVM or of its machine), a quorum that was paused and went on under the same leader, or a clock
    that was set ahead.""",
    advice="""Look at the controller that led this epoch, at that time: its server.log, its disk,
    its pauses. For a quorum that was paused on purpose, nothing needs to be done.""",
)  # fmt: skip
def idle_gaps(quorum: Quorum) -> Iterator[BadRow]:
    """The longest silence under a leader that wrote no-ops: one comes every half second, whatever else
    is written, so it stood still, or its node was paused. Without them nothing is due.
    """
    log = quorum.newest_log
    if log is None:
        return
    columns = log.evidence.log
    first, last = columns.base_timestamps[log.rows], columns.max_timestamps[log.rows]
    # A clock that jumped ahead and was put back is no silence.
    for times in np.split(first, np.flatnonzero(np.diff(log.epochs)) + 1):
        times[::-1] = np.minimum.accumulate(times[::-1])
    silent = first[1:] - last[:-1]
    same_epoch = (log.epochs[1:] == log.epochs[:-1]) & (log.base[1:] == log.last[:-1] + 1)
    limit = quorum.thresholds.idle_gap_ms
    no_ops = np.flatnonzero(columns.sizes[log.rows] == _NO_OP_BYTES)
    beats = np.diff(first[no_ops])[log.epochs[no_ops[1:]] == log.epochs[no_ops[:-1]]]
    usual = int(np.median(beats)) if len(beats) else limit
    led = np.isin(log.epochs[1:], log.epochs[no_ops])
    found = np.flatnonzero(same_epoch & led & (silent > limit))
    if not len(found) or not has_rhythm(len(beats), usual, limit):
        return
    worst = int(found[silent[found].argmax()])
    row, gap = int(log.rows[worst + 1]), int(silent[worst])
    offset, epoch = int(log.base[worst + 1]), int(log.epochs[worst])
    more = len(found) - 1
    gaps = "is 1 more such gap" if more == 1 else f"are {more:,} more such gaps"
    others = f" There {gaps}." if more else ""
    yield at_batch(
        log,
        row,
        f"Nothing was written for {gap / 1000:,.0f} s before offset {offset}, where a no-op comes every {usual / 1000:,.1f} s."
        f"{others} The leader of epoch {epoch} stood still, its node or the whole quorum was paused, or its clock was set ahead. "
        "Look into the server.log of that leader at that time.",
        epoch=epoch,
        evidence={"gap_ms": gap, "usual_ms": usual, "gaps": len(found)},
    )


_NO_OP_BYTES = 72
"""A batch's header (61), the record around a value (7), and one without fields: only the end of a
transaction has none either, and is seldom alone.
"""
