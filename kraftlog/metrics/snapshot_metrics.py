"""Snapshot metrics (KIP-630 "Metrics"): size, lag, age, cadence, origin and cost of every checkpoint,
and the KIP's four of each replica, under the KIP's own names, as they stood when the copies were
taken.

In: a quorum; bytes per type by batch, and load times, where they were measured. Out: the rows of
the tables `snapshots` and `snapshot_metrics`, without their run; a lake keeps those of every run,
which is their history. Kafka ships other names: LatestSnapshotGeneratedBytes for SnapshotSizeBytes,
LatestSnapshotGeneratedAgeMs for the age (here measured from the newest record at hand instead of a
clock), HandleLoadSnapshotCount without a latency. Where the KIP has one number, a copy gives bounds:
the high watermark is not on disk, and nor is the moment at which a file was finished. Source: KIP-630
"Overview", "When to Snapshot", "Interaction between Kafka Raft and the state machine", "Interaction
with the Kafka Controller", "Metrics".
"""

import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

import numpy as np

from kraftlog.quorum.growth import load_ms, per_day, write_amplification
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import Records, loaded
from kraftlog.quorum.retention import newest_ms
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.relations import Row, moment

GENERATED, FETCHED, UNKNOWN = "generated", "fetched", "unknown"
TICK_MS = 10
"""Linux stamps a file with the time of the clock's last tick, which may be so old."""
_CONTROL_TYPES = frozenset({"SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS"})


def snapshot_rows(
    quorum: Quorum,
    sizes_by_type: Mapping[str, Mapping[str, int]] | None = None,
    measured_load: Mapping[str, float] | None = None,
    bytes_per_second: float | None = None,
) -> list[Row]:
    """One row per checkpoint file of each replica. `sizes_by_type` is by batch id,
    `measured_load` is milliseconds by path; `bytes_per_second` is the rate at which nodes load.
    """
    newest = newest_ms(quorum)
    latest = {log.label: _latest(quorum, log.label) for log in quorum.logs}
    rate, rows = bytes_per_second, []
    for one in quorum.snapshots:
        log, before = quorum.by_label[one.replica], _before(quorum, one)
        lag = _lag(quorum, log, one, newest)
        rows.append(
            {
                "replica": one.replica,
                "path": one.path,
                "end_offset": one.end_offset,
                "epoch": one.epoch,
                "complete": one.is_complete,
                "is_latest": one is latest[one.replica],
                **_sizes(one, sizes_by_type or {}),
                **_times(quorum, one, newest),
                **lag,
                **_cadence(log, one, before),
                "origin": origin_of(quorum, one),
                "load_ms": (measured_load or {}).get(one.path),
                "predicted_load_ms": None
                if rate is None
                else load_ms(one.evidence.size_bytes, lag["lag_bytes"], rate),
            }
        )
    return rows


def _latest(quorum: Quorum, label: str) -> SnapshotView | None:
    """Epoch first, then end offset, among the complete ones: the snapshot that a node loads."""
    complete = [one for one in quorum.snapshots_of(label) if one.is_complete]
    return max(complete, key=lambda one: one.id, default=None)


def _before(quorum: Quorum, one: SnapshotView) -> SnapshotView | None:
    held = quorum.snapshots_of(one.replica)
    at = bisect_left(held, one.id, key=lambda two: two.id)
    return next((two for two in reversed(held[:at]) if two.is_complete), None)


def _sizes(one: SnapshotView, by_batch: Mapping[str, Mapping[str, int]]) -> Row:
    file = one.evidence
    counts = {name: count for name, count in file.type_counts.items() if name not in _CONTROL_TYPES}
    sizes: Counter[str] = Counter()
    for row in range(len(file.batches)):
        sizes.update(by_batch.get(file.batches.id_text(row), {}))
    return {
        "size_bytes": file.size_bytes,
        "batch_count": len(file.batches),
        "record_count": sum(counts.values()),
        "records_by_type": sorted(counts.items()),
        "size_bytes_by_type": sorted(sizes.items()),
    }


def _times(quorum: Quorum, one: SnapshotView, newest: int | None) -> Row:
    """Kafka stamps a batch when it begins it, so that the batches say when a snapshot was
    written.
    """
    contained = one.last_contained_timestamp
    begun, ended = written(one)
    finished, witness = finished_by(quorum, one)
    most = finished - contained if finished is not None and contained and contained > 0 else None
    return {
        "last_contained_log_timestamp": moment(contained),
        "written_from": moment(begun),
        "written_until": moment(ended),
        "modified": moment(one.evidence.modified_ms),
        "finished_by": moment(finished),
        "finished_witness": witness,
        "generation_ms_min": None if begun is None or ended is None else max(0, ended - begun),
        "generation_ms_max": most if most is not None and most >= 0 else None,
        "age_ms": None if contained is None or newest is None else newest - contained,
    }


def written(one: SnapshotView) -> tuple[int | None, int | None]:
    """When the first and the last batch of a snapshot were begun."""
    batches = one.evidence.batches
    if not len(batches):
        return None, None
    return int(batches.base_timestamps.min()), int(batches.max_timestamps.max())


def finished_by(quorum: Quorum, one: SnapshotView) -> tuple[int | None, str | None]:
    """The earliest time at which a snapshot is known to have been finished, and by what.

    A file's time that is later than every record by more than a copy takes is the copy's, which did
    not keep the files' own: it bounds nothing. What a copy cannot make late: a node begins its next
    snapshot after the one before. A time before the last batch was begun is none of the file's, unless
    by less than a tick of the clock by which Linux stamps files.
    """
    _, ended = written(one)
    if ended is None:
        return None, None
    times = [(one.evidence.modified_ms, "its file")]
    for two in twins_of(quorum, one):
        times.append((two.evidence.modified_ms, f"the copy of {two.replica}"))
    newest = newest_ms(quorum)
    if newest is not None:
        latest = newest + quorum.thresholds.copy_skew_ms
        times = [(at, what) for at, what in times if at <= latest]
    held = quorum.snapshots_of(one.replica)
    at = bisect_right(held, one.id, key=lambda two: two.id)
    following = held[at] if at < len(held) else None
    if following is not None and origin_of(quorum, following) == GENERATED:
        begun, _ = written(following)
        times += [] if begun is None else [(begun, "the next snapshot")]
    known = ((max(at, ended), what) for at, what in times if at >= ended - TICK_MS)
    return min(known, default=(None, None))


def _lag(quorum: Quorum, log: LogView, one: SnapshotView, newest: int | None) -> Row:
    """From the snapshot's end to the high watermark, which lies between the committed bounds."""
    end, bounds, upper = one.end_offset, quorum.bounds, upper_bound(quorum)
    row = log.index_at(end - 1)
    since = int(log.evidence.log.max_timestamps[log.rows[row]]) if row >= 0 else None
    since = one.last_contained_timestamp if since is None else since
    first = int(np.searchsorted(log.base, end, "left"))
    after = log.rows[first:]
    newest_own = int(log.evidence.log.max_timestamps[after[-1]]) if len(after) else since
    behind = None if since is None or newest_own is None else max(0, newest_own - since)
    return {
        "lag_offsets_min": max(0, bounds.lower - end),
        "lag_offsets_max": max(0, upper - end),
        "lag_bytes": int(log.evidence.log.sizes[after].sum()),
        "lag_records": int(log.evidence.log.record_counts[after].sum()),
        "lag_batches": len(after),
        "lag_ms": behind if newest is not None else None,
    }


def upper_bound(quorum: Quorum) -> int:
    """The high watermark is no further than this: the upper committed bound, or where the longest
    log ends, or what is known to be committed though no copy at hand holds it.
    """
    if quorum.bounds.upper is not None:
        return quorum.bounds.upper
    return max([quorum.bounds.lower, *(two.end_offset or 0 for two in quorum.peers)])


def _cadence(log: LogView, one: SnapshotView, before: SnapshotView | None) -> Row:
    """The distance to the replica's snapshot before it; of the first, to its log's beginning."""
    start = before.end_offset if before is not None else (log.start_offset or 0)
    stamps = (before and before.last_contained_timestamp, one.last_contained_timestamp)
    interval = None if None in stamps else stamps[1] - stamps[0]  # type: ignore[operator]
    covered = log.covers(start, one.end_offset) and start < one.end_offset
    span = (log.base >= start) & (log.base < one.end_offset)
    log_size = int(log.evidence.log.sizes[log.rows[span]].sum()) if covered else None
    amplified = write_amplification(one.evidence.size_bytes, log_size) if log_size else None
    return {
        "previous_end_offset": None if before is None else before.end_offset,
        "interval_offsets": one.end_offset - start,
        "interval_ms": interval,
        "interval_log_bytes": log_size,
        "write_amplification": amplified,
    }


def snapshots_per_day(quorum: Quorum, label: str) -> float | None:
    """Snapshots that a replica generated itself per day, by their headers' times; None for fewer
    than two.
    """
    stamps = [
        stamp
        for one in quorum.snapshots_of(label)
        if one.is_complete and one.end_offset > 0 and origin_of(quorum, one) == GENERATED
        if (stamp := one.last_contained_timestamp) is not None
    ]
    if len(stamps) < 2:
        return None
    return per_day(len(stamps) - 1, max(stamps) - min(stamps))


def twins_of(quorum: Quorum, one: SnapshotView) -> list[SnapshotView]:
    """The other replicas' snapshots with the same bytes: of one file, who fetched it from whom."""
    return [
        two
        for two in quorum.snapshots_by_id.get(one.id, ())
        if two.replica != one.replica and _same_bytes(one, two)
    ]


def origin_of(quorum: Quorum, one: SnapshotView) -> str:
    """Whether a replica generated a snapshot itself or fetched it from a peer; unknown where it is
    damaged.

    Each node stamps the batches of a snapshot when it writes them, so that two nodes' own snapshots
    of one state differ in their bytes: equal bytes were fetched by one of the two.
    A node that fetches a snapshot throws its log away and goes on at the snapshot's end, and one
    that holds the records before it needed none: so the logs tell, whatever times a copy has kept.
    Where they do not, the oldest of equal files was generated.
    """
    if not one.is_complete:
        return UNKNOWN
    twins = twins_of(quorum, one)
    if not twins:
        return GENERATED
    begin_there = {_begins_there(quorum, two) for two in twins}
    if len({_begins_there(quorum, one), *begin_there}) > 1:
        if _begins_there(quorum, one):
            return FETCHED
        if begin_there == {True}:
            return GENERATED
    times = [two.evidence.modified_ms for two in twins]
    if one.evidence.modified_ms < min(times):
        return GENERATED
    return FETCHED if one.evidence.modified_ms > min(times) else UNKNOWN


def _begins_there(quorum: Quorum, one: SnapshotView) -> bool:
    """Whether the replica's log begins at the snapshot's end."""
    return one.end_offset > 0 and quorum.by_label[one.replica].start_offset == one.end_offset


def _same_bytes(one: SnapshotView, two: SnapshotView) -> bool:
    mine, theirs = one.evidence, two.evidence
    if mine.size_bytes != theirs.size_bytes or len(mine.batches) != len(theirs.batches):
        return False
    return bool((mine.batches.ids == theirs.batches.ids).all())


def snapshot_metric_rows(quorum: Quorum, snapshots: Sequence[Row]) -> Iterator[Row]:
    """A row per replica, those without a snapshot too."""
    for log in quorum.logs:
        held = [one for one in snapshots if one["replica"] == log.label and one["complete"]]
        real = [one for one in held if one["end_offset"] > 0]
        newest = max(real, key=lambda one: (one["epoch"], one["end_offset"]), default=None)
        generated = [one for one in real if one["origin"] == GENERATED]
        yield {
            "replica": log.label,
            "end_offset": newest["end_offset"] if newest else None,
            **_generation(generated),
            "load_snapshot_latency_ms": newest["load_ms"] if newest else None,
            "snapshot_size_bytes": newest["size_bytes"] if newest else None,
            **_replica_lag(quorum, newest),
            "snapshot_age_ms": newest["age_ms"] if newest else None,
            "snapshot_count": len(real),
            "generated_count": len(generated),
            "fetched_count": sum(one["origin"] == FETCHED for one in real),
            "snapshots_size_bytes": sum(one["size_bytes"] for one in real),
        }


def _generation(generated: Sequence[Row]) -> Row:
    """Of the snapshots that the replica wrote itself: the newest, and the middle of all."""
    newest = max(generated, key=lambda one: (one["epoch"], one["end_offset"]), default=None)
    least = [one["generation_ms_min"] for one in generated if one["generation_ms_min"] is not None]
    return {
        "gen_snapshot_latency_ms_min": newest["generation_ms_min"] if newest else None,
        "gen_snapshot_latency_ms_max": newest["generation_ms_max"] if newest else None,
        "gen_snapshot_latency_ms_median": median(least) if least else None,
    }


def _replica_lag(quorum: Quorum, newest: Row | None) -> Row:
    """Without a snapshot the whole log lies behind none."""
    if newest is not None:
        return {
            "snapshot_lag_min": newest["lag_offsets_min"],
            "snapshot_lag_max": newest["lag_offsets_max"],
        }
    return {"snapshot_lag_min": quorum.bounds.lower, "snapshot_lag_max": upper_bound(quorum)}


def load_times(snapshots: Iterable[SnapshotView], records: Records) -> dict[str, float]:
    """Milliseconds that the whole of each snapshot took to load, by path; contents that several
    replicas hold are loaded once. One that cannot be read to its end any more is left out. Kafka
    keeps no LoadSnapshotLatencyMs: what is measured is this machine and this program, and compares
    snapshots, and days, with each other.
    """
    of_content: dict[bytes, float | None] = {}
    found = {}
    for one in snapshots:
        content = one.evidence.batches.ids.tobytes()
        if content not in of_content:
            of_content[content] = _measured(one, records)
        spent = of_content[content]
        if spent is not None:
            found[one.path] = spent
    return found


def _measured(snapshot: SnapshotView, records: Records) -> float | None:
    begun = time.perf_counter()
    is_whole = loaded(records, snapshot) is not None
    return (time.perf_counter() - begun) * 1000 if is_whole else None
