"""Checks of the disks: what should be gone by retention and is there, and when a disk is full.

In: segments and snapshots of each replica, the settings and the `df -Pk` beside them, where they
were copied. How large a disk is stands in no file of Kafka's: without a word of it only growth is
known, and nothing is judged. Source: sentry-charts#1954, KIP-630 "Motivation", "Proposed Changes",
"When to Increase the LogStartOffset".
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kraftlog.audit.check import BadRow, check
from kraftlog.audit.coverage import Coverage
from kraftlog.audit.triage import called
from kraftlog.config import ValueSource
from kraftlog.plain import counted, sentence
from kraftlog.quorum.growth import DAY_MS, days_to_fill
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import (
    CLEANED_EVERY_MS,
    RetentionLimits,
    bytes_since_snapshot,
    counted_from,
    counted_snapshots,
    kept_bytes,
    kept_snapshots,
    log_bytes,
    log_bytes_per_day,
    prunable_bytes,
    retention_limits,
    shipped_drops,
)
from kraftlog.quorum.settings import (
    BETWEEN,
    KEPT_BYTES,
    KEPT_MS,
    SEGMENT_BYTES,
    SEGMENT_MS,
    number_of,
)
from kraftlog.quorum.shortfalls import stood_still_ms
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.shapes import METADATA_VERSION


def _with_retention(quorum: Quorum) -> list[LogView]:
    """Logs whose node drops what is old; a pulled copy keeps everything."""
    found = [log for log in quorum.logs if log.evidence.segments]
    return [log for log in found if not (log.evidence.single_file or log.evidence.is_pulled)]


def _over_logs(quorum: Quorum) -> Coverage:
    labels = tuple(log.label for log in _with_retention(quorum))
    return Coverage(labels, (), "no log of a node is at hand")


@check(
    "retention_keeps_up", "warning", "snapshot",
    "sentry-charts#1954, KIP-630 When to Increase the LogStartOffset",
    "a node has dropped what its retention does not keep, and takes snapshots",
    action="watch", over=_over_logs, after="snapshot_too_large_to_fetch",
    goes_by=("idle_gap_ms", "retention_over_percent", BETWEEN, KEPT_BYTES, KEPT_MS),
    meaning="""A node keeps more of its metadata log than its settings allow, or takes no
    snapshots any more, without which nothing can be dropped. Kafka looks at its limits once a
    minute and drops the oldest snapshot with the log below the next one. The limits are those of
    the server.properties beside the copy, else Kafka's own: 100 MiB (none in 3.3), 7 days, a snapshot
    every 20 MiB, where a node that starts counts anew. A gap in a log that is written regularly adds
    nothing to a snapshot's age: there a clock was set ahead, or the quorum stood still.""",
    advice="""Look in the node's server.log for errors of its snapshot generator and metadata
    loader, and for files that it could not delete. A node whose clock was set back drops nothing
    until it is again what it was at the last look, or the node restarts. After a restart it takes
    snapshots again, but audit the node first. What counts here is metadata.max.retention.bytes and
    metadata.max.retention.ms, not log.retention.*.""",
)  # fmt: skip
def retention(quorum: Quorum) -> Iterator[BadRow]:
    """What the node itself should have dropped; its own newest record tells its time."""
    share = 1 + quorum.thresholds.retention_over_percent / 100
    for log in _with_retention(quorum):
        limits = _limits(quorum, log)
        since = bytes_since_snapshot(quorum, log)
        if since > limits.between_bytes * share * _counts(quorum, log):
            yield _no_snapshot(quorum, log, limits, since)
        else:
            yield from _not_dropped(quorum, log, limits, share)


LEVEL_OF_KEPT_BYTES = 8
"""metadata.version 3.4-IV0: Kafka 3.3 keeps all bytes where metadata.max.retention.bytes is not set, and
below this level a node may be of it (KIP-876).
"""


def _is_unlimited(quorum: Quorum, log: LogView) -> bool:
    """Whether nothing limits the bytes that a node keeps, if it runs the oldest Kafka of its level."""
    is_old = quorum.levels.get(METADATA_VERSION, LEVEL_OF_KEPT_BYTES) < LEVEL_OF_KEPT_BYTES
    return is_old and number_of(log.evidence, KEPT_BYTES).source == ValueSource.KAFKA_DEFAULT


def _limits(quorum: Quorum, log: LogView) -> RetentionLimits:
    limits = retention_limits(log.evidence)
    return replace(limits, max_bytes=-1) if _is_unlimited(quorum, log) else limits


def _counts(quorum: Quorum, log: LogView) -> int:
    """How often a node may have begun to count since its newest snapshot: what it had written
    before a start is not counted again, and each election may stand for one.
    """
    end = quorum.own_snapshot_end(log.label)
    return 2 + sum(one.start_offset >= end for one in log.epoch_starts)


def _no_snapshot(quorum: Quorum, log: LogView, limits: RetentionLimits, since: int) -> BadRow:
    end, every = quorum.own_snapshot_end(log.label), counted(limits.between_bytes, "byte")
    last = f"its newest snapshot, at offset {end}" if end else "the log's beginning"
    away = " A node that came back less than an hour ago does not count what was written before."
    if (start := counted_from(quorum, log)) > end:
        last, away = f"its start as a broker, at offset {start}", ""
    return BadRow(
        log.label,
        f"{sentence(called(quorum, log))} has taken no snapshot for {counted(since, 'byte')} of its log, since {last}. "
        f"One snapshot every {every} is usual ({BETWEEN}). "
        "Without a snapshot nothing can be dropped: the log grows, and each start takes longer. "
        "Look in its server.log for errors of the metadata loader or the snapshot generator: such an error stops snapshots until the node is restarted."
        f"{away}",
        log.evidence.folder,
        evidence={"bytes_since_snapshot": since, "limit_bytes": limits.between_bytes},
    )


def _due(
    log: LogView, held: Sequence[SnapshotView], limits: RetentionLimits, looked: int, still: int
) -> tuple[int, list[str]]:
    """(bytes of the log and its snapshots, why the oldest snapshots should be gone), by what lay
    there when Kafka last looked at its limits, and without the time that need not have passed.
    """
    then = [one for one in held if (one.last_contained_timestamp or 0) <= looked]
    columns = log.evidence.log
    size = int(columns.sizes[log.rows[columns.max_timestamps[log.rows] <= looked]].sum())
    drops = [one for one in shipped_drops(then, log, size, limits, looked - still) if one]
    return size + sum(one.evidence.size_bytes for one in then), drops


def _not_dropped(
    quorum: Quorum, log: LogView, limits: RetentionLimits, share: float
) -> Iterator[BadRow]:
    held = counted_snapshots(quorum, log.label)
    looked = (log.newest_ms or 0) - CLEANED_EVERY_MS
    # By its own clock a node may have seen less time pass than its leader's clock tells.
    still = stood_still_ms(quorum, log, held[0].end_offset) if held else 0
    size, drops = _due(log, held, limits, looked, still)
    if not drops:
        return
    age = looked - still - (held[0].last_contained_timestamp or looked)
    over = (
        size > limits.max_bytes * share if drops[0] == KEPT_BYTES else age > limits.max_ms * share
    )
    if not over:
        return
    dropped = held[: len(drops)]
    gone = sum(one.evidence.size_bytes for one in dropped)
    debt = gone + prunable_bytes(log, held[len(drops)].end_offset)
    why = (
        f"The log and its snapshots take {size:,} bytes, and {limits.max_bytes:,} are allowed ({KEPT_BYTES})."
        if drops[0] == KEPT_BYTES
        else f"By its log, its oldest snapshot is {age / DAY_MS:.1f} days old, and {limits.max_ms / DAY_MS:.1f} days are allowed ({KEPT_MS})."
    )
    yield BadRow(
        log.label,
        f"{sentence(called(quorum, log))} keeps {counted(debt, 'byte')} that retention should have dropped, in {counted(len(dropped), 'snapshot')} and the log below. "
        f"{why} The settings log.retention.* do not count for this log. "
        "Delete nothing by hand. Unless the node was started within the minute before it was copied, find out why it does not delete files. "
        "Look at its server.log, at the permissions, and whether the disk is read-only.",
        dropped[0].path,
        evidence={
            "debt_bytes": debt,
            "size_bytes": size,
            "setting": drops[0],
            "snapshots": [one.path for one in dropped],
        },
    )


def _over_disks(quorum: Quorum) -> Coverage:
    labels = tuple(log.label for log in _with_room(quorum))
    grown = [found for log in quorum.logs if (found := log_bytes_per_day(log)) is not None]
    if not grown:
        return Coverage(labels, (), "no df.txt beside a log says how much is free on its disk")
    least, most = f"{min(grown):,.0f}", f"{max(grown):,.0f}"
    rate = least if least == most else f"{least} to {most}"
    drops = f"Kafka's own retention drops what is over {RetentionLimits().max_bytes:,} bytes or 7 days old"
    return Coverage(
        labels,
        (),
        f"no df.txt (the output of df -Pk) beside a log says how much is free on its disk; the logs grow by {rate} bytes a day, and {drops}",
    )


@check(
    "disk_has_room", "warning", "replica", "sentry-charts#1954, KIP-630 Motivation",
    "what is free on a disk lasts until retention drops as much as is written",
    action="watch", over=_over_disks,
    goes_by=("disk_days", BETWEEN, KEPT_BYTES, SEGMENT_BYTES, SEGMENT_MS),
    meaning="""What is free on the disk, by the df.txt beside the copy, is used up before
    retention begins to drop as much as is written, or is less than one snapshot. A controller
    whose disk is full stops, often with a torn batch and a .part. Without a df.txt nothing is
    judged, and the reason tells how the log grows.""",
    advice="""Give the disk room or lower metadata.max.retention.bytes. On a full disk free other
    files first: never delete segments or snapshots of the metadata log by hand. What
    kraftlog collect copies has a df.txt.""",
)  # fmt: skip
def room(quorum: Quorum) -> Iterator[BadRow]:
    """Disks of which it is known what is free."""
    for log in _with_room(quorum):
        free, growth = log.evidence.free_bytes or 0, log_bytes_per_day(log)
        limits, held = _limits(quorum, log), kept_snapshots(quorum, log.label)
        size = log_bytes(log) + sum(one.evidence.size_bytes for one in held)
        kept, days = kept_bytes(log, limits), days_to_fill(free, growth)
        largest = max((one.evidence.size_bytes for one in held), default=0)
        fits = kept is not None and size + free >= kept
        lasts = days is None or days > quorum.thresholds.disk_days or fits
        if free and free >= largest and lasts:
            continue
        when = f"is full in {days or 0:.1f} days"
        todo = "Before the disk is full, give it more room or lower metadata.max.retention.bytes."
        if not free:
            when, todo = "is full now", "Give it room first: Kafka does not start on a full disk."
        elif free < largest:
            when = "has no room for one more snapshot"
        grows = "how fast its log grows is not known"
        if growth is not None:
            grows = f"its log grows by {growth:,.0f} bytes a day"
        known = "how far retention lets them grow is not known"
        if _is_unlimited(quorum, log):
            known = f"before Kafka 3.4 no retention by size limits them, as {KEPT_BYTES} is not set"
        elif limits.max_bytes < 0:
            known = "no retention by size limits them"
        elif kept is not None:
            known = f"retention lets them grow to {kept:,.0f} bytes"
        yield BadRow(
            log.label,
            f"The disk of {called(quorum, log)} {when}: {counted(free, 'byte')} free, and {grows}. The log and its snapshots take {size:,} bytes, and {known}. "
            f"A controller that cannot write stops, and may leave a torn batch and a .part file. {todo}",
            log.evidence.disk_free.path if log.evidence.disk_free else None,
            evidence={
                "free_bytes": free,
                "log_bytes_per_day": growth,
                "days_to_full": days,
                "kept_bytes": kept,
                "size_bytes": size,
            },
        )


def _with_room(quorum: Quorum) -> list[LogView]:
    return [log for log in quorum.logs if log.evidence.free_bytes is not None]
