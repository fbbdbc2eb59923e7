"""Checks of how often replicas take snapshots: not at all any more, or with every few records.

In: logs, snapshots, settings beside them. Source: KIP-630 "When to Snapshot", KIP-876 (snapshots by
time), KAFKA-14286 (quiet clusters never took one), KAFKA-13968 (one with every commit).
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from kraftlog.audit.check import BadRow, check
from kraftlog.audit.coverage import Coverage, unread
from kraftlog.audit.triage import called
from kraftlog.config import ValueSource
from kraftlog.plain import sentence
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import kept_snapshots, takes_snapshots
from kraftlog.quorum.settings import BETWEEN, INTERVAL, number_of
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.relations import moment_text
from kraftlog.state.shapes import METADATA_VERSION

SLACK = 2
"""A node's own setting is believed to be missed where it is passed twice over."""
BY_TIME_LEVEL = 8
"""metadata.version 3.4-IV0: from then on Kafka also goes by time (KIP-876)."""
CLOSE_MS, CLOSE_BYTES, CLOSE_COUNT = 60_000, 1 << 20, 3
"""So many snapshots, each so soon after the one before, are no pace that Kafka keeps."""


def _nodes(quorum: Quorum) -> list[LogView]:
    """The logs of nodes that take snapshots; one above 0 without any is told elsewhere."""
    return [
        log
        for log in quorum.logs
        if not (log.is_empty or log.evidence.is_pulled or log.evidence.single_file)
        if takes_snapshots(quorum, log)
        if _newest(quorum, log) is not None or not log.start_offset
    ]


def _newest(quorum: Quorum, log: LogView) -> SnapshotView | None:
    """The snapshot that a start begins with; what `format` writes at offset 0 is none."""
    return next(reversed(kept_snapshots(quorum, log.label)), None)


def _over(quorum: Quorum) -> Coverage:
    logs = _nodes(quorum)
    labels = tuple(log.label for log in logs)
    return Coverage(labels, (), "no node's log is at hand").but_for(unread(logs))


@check(
    "snapshot_taken", "warning", "snapshot", "KIP-630 When to Snapshot, KIP-876, KAFKA-14286",
    "each replica takes snapshots as time passes",
    action="watch", over=_over, after="retention_keeps_up",
    goes_by=("idle_gap_ms", "snapshot_stale_ms", INTERVAL),
    meaning="""Kafka takes a snapshot every hour, and this replica has taken none for a day and
    more of a running log. Its log cannot be cut before its newest snapshot, and each start
    replays more. What it has written since does not matter here: retention_keeps_up goes by
    that.""",
    advice="""Look in the node's server.log and metrics for an error in loading or applying
    metadata, after which Kafka takes no more snapshots until it is restarted, and for a full
    disk. Where
    the finding names a node that came back within the hour, wait for its next snapshot. The
    limit is snapshot_stale_ms.""",
)  # fmt: skip
def taken(quorum: Quorum) -> Iterator[BadRow]:
    for log in _nodes(quorum):
        newest = _newest(quorum, log)
        start = newest.end_offset if newest is not None else 0
        passed = _running_ms(quorum, log, start)
        if passed <= _limit_ms(quorum, log):
            continue
        since = f"its newest snapshot, {newest.evidence.name}" if newest else "its log began"
        yield BadRow(
            log.label,
            f"{sentence(called(quorum, log))} has taken no snapshot for {passed / 3_600_000:,.1f} hours in which its log was written, since {since}. "
            "Kafka takes one every hour, but none after an error in loading metadata, until the node is restarted (metadata-load-error-count, metadata-apply-error-count). "
            "Without a snapshot its log cannot be cut, and each start replays all of it. "
            "Look in its server.log for that error. "
            "This is normal on a node that came back less than an hour ago.",
            newest.path if newest else None,
            offset=start,
            end_offset=log.end_offset,
            evidence={"running_ms": passed, "has_snapshot": newest is not None},
        )


def _limit_ms(quorum: Quorum, log: LogView) -> float:
    """When a snapshot is overdue: by the option, or by a longer interval of the node's own."""
    own = number_of(log.evidence, INTERVAL)
    if own.value == 0 or quorum.levels.get(METADATA_VERSION, BY_TIME_LEVEL) < BY_TIME_LEVEL:
        return float("inf")
    longer = SLACK * own.value if own.source == ValueSource.SERVER_PROPERTIES else 0
    return max(quorum.thresholds.snapshot_stale_ms, longer)


def _running_ms(quorum: Quorum, log: LogView, start: int) -> int:
    """How long the log was written to: a gap is a quorum that stood still, which takes none."""
    rows = log.rows[log.base >= start]
    steps = np.diff(np.maximum.accumulate(log.evidence.log.max_timestamps[rows]))
    return int(steps[steps <= quorum.thresholds.idle_gap_ms].sum())


def _over_pairs(quorum: Quorum) -> Coverage:
    held = [one.replica for one in quorum.snapshots if one.is_complete and one.end_offset > 0]
    twice = tuple(label for label in dict.fromkeys(held) if held.count(label) > 1)
    return Coverage(twice, (), "no replica holds two snapshots above offset 0")


@check(
    "snapshot_not_too_often", "info", "snapshot", "KAFKA-13968",
    "no replica takes a snapshot with every few records",
    action="watch", over=_over_pairs,
    goes_by=(BETWEEN, INTERVAL),
    meaning="""A replica takes a snapshot of the whole state every few records. That is no
    damage, but it wears the disk, and old snapshots push each other out before a slow node has
    fetched one.""",
    advice="""Look at metadata.log.max.record.bytes.between.snapshots and
    metadata.log.max.snapshot.interval.ms of this node. The table snapshot_advice says what each
    interval costs a day.""",
)  # fmt: skip
def apart(quorum: Quorum) -> Iterator[BadRow]:
    for log in _nodes(quorum):
        own = (number_of(log.evidence, one) for one in (INTERVAL, BETWEEN))
        if any(one.source == ValueSource.SERVER_PROPERTIES for one in own):
            continue
        held = kept_snapshots(quorum, log.label)
        close = [pair for pair in pairwise(held) if _is_close(log, *pair)]
        if len(close) >= CLOSE_COUNT:
            first = close[0][0]
            yield BadRow(
                log.label,
                f"Too many snapshots: {len(close)} of {len(held)} follow within {CLOSE_MS // 1000} seconds and 1 MiB of log on the one before. "
                "Each writes the whole state anew, and no default of Kafka does so. "
                f"Look at its {INTERVAL} and {BETWEEN}.",
                close[-1][1].path,
                offset=first.end_offset,
                evidence={"close": len(close), "snapshots": len(held)},
            )


def _is_close(log: LogView, one: SnapshotView, after: SnapshotView) -> bool:
    times = one.last_contained_timestamp, after.last_contained_timestamp
    if None in times or not log.covers(one.end_offset, after.end_offset):
        return False
    span = (log.base >= one.end_offset) & (log.base < after.end_offset)
    size = int(log.evidence.log.sizes[log.rows[span]].sum())
    return times[1] - times[0] < CLOSE_MS and size < CLOSE_BYTES  # type: ignore[operator]


@check(
    "snapshot_times_in_order", "info", "snapshot", "KIP-630 Snapshot Format",
    "a later snapshot of a replica is not older by its header",
    action="snapshot", over=_over_pairs,
    meaning="""By their headers a later snapshot of a replica is older than an earlier one. Kafka
    writes the time of the last record that a snapshot holds. It goes back where a controller's
    clock was set back.""",
    advice="""Check the clocks of the controllers. Where the log still holds the offsets,
    snapshot_timestamp_agrees tells whether a header was changed.""",
)  # fmt: skip
def forward(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        for one, after in pairwise(kept_snapshots(quorum, log.label)):
            times = one.last_contained_timestamp, after.last_contained_timestamp
            if None not in times and times[1] < times[0]:  # type: ignore[operator]
                yield BadRow(
                    log.label,
                    f"Snapshot {after.evidence.name} is later in the log than {one.evidence.name}, but older by its header. "
                    f"By their headers, its last record is of {moment_text(times[1] or 0)}, and that of the earlier snapshot of {moment_text(times[0] or 0)}. "
                    "A clock was set back, or a header was changed. "
                    "Retention by time takes the wrong snapshot for the older one: check the clocks.",
                    after.path,
                    offset=after.end_offset,
                    evidence={"header_timestamps": list(times)},
                )
