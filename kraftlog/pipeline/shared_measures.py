"""What several measures of one run share, each read once: the shared log, totals of records, lives
of objects, the offset map. Driver side.

In: the newest run. Out: values of `metrics`. Memory is that of a few row groups of `records`, the
batches of the shared log, and what is kept per object and version.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa

from kraftlog.metrics import compaction
from kraftlog.metrics.amplification import events_of
from kraftlog.metrics.costs import Measured, Placement, placement
from kraftlog.metrics.elections import elections_per_day
from kraftlog.metrics.objects import Changes, Lives
from kraftlog.metrics.policy import PolicyLimits, Simulator
from kraftlog.metrics.record_totals import mean_size_bytes, sizes_of_snapshot
from kraftlog.metrics.shared_log import SharedLog, shared_log
from kraftlog.metrics.snapshot_metrics import load_times, snapshot_rows, snapshots_per_day
from kraftlog.pipeline.histories import shared_versions
from kraftlog.pipeline.known_records import scanned
from kraftlog.pipeline.object_lives import ObjectLives, lives_of
from kraftlog.pipeline.record_scan import Scanned
from kraftlog.pipeline.run import Run, last_writer
from kraftlog.quorum.growth import DAY_MS, per_day
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import newest_snapshot
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.relations import Row, moment


@dataclass(frozen=True)
class SharedMeasures:
    """Everything that a run's measures are taken from."""

    run: Run

    @cached_property
    def quorum(self) -> Quorum:
        return self.run.quorum

    @cached_property
    def log(self) -> SharedLog:
        return shared_log(self.quorum)

    @cached_property
    def scanned(self) -> Scanned:
        """What the records of the log, and of every checkpoint at hand, add up to."""
        snapshots = (one.evidence.batches for one in self.quorum.every_snapshot)
        return scanned(self.run.lake, self.log, snapshots, events_of(self.brokers))

    @property
    def totals(self) -> pa.Table:
        """Totals of the shared log's records, and of those of every checkpoint at hand."""
        return self.scanned.totals

    @property
    def offsets(self) -> compaction.OffsetMap:
        """The offset map of a compaction of the shared log."""
        return self.scanned.offsets

    @cached_property
    def objects(self) -> ObjectLives:
        """The objects of the shared lineage."""
        return lives_of(self.run.lake, self.run.lineages[0])

    @property
    def lives(self) -> dict[str, Lives]:
        return self.objects.by_table

    @cached_property
    def simulator(self) -> Simulator:
        """The snapshot policies over the shared log."""
        return Simulator(
            self.log, Changes(self.lives.values(), self.log.unbroken_from), PolicyLimits()
        )

    @cached_property
    def brokers(self) -> list[Row]:
        columns = ["valid_from_offset", "valid_to_offset", "record_offset", "record_type"]
        columns += ["broker_id", "fenced", "in_controlled_shutdown", "rack"]
        rows: list[Row] = shared_versions(self.run.lake, "brokers", columns).to_pylist()
        return rows

    @property
    def racks(self) -> dict[int, str | None]:
        return {
            one["broker_id"]: one["rack"] for one in self.brokers if one["valid_to_offset"] is None
        }

    @cached_property
    def snapshots(self) -> list[Row]:
        sizes = sizes_of_snapshot(self.totals)
        return snapshot_rows(self.quorum, sizes, self.loaded, self.load_rate)

    @property
    def loaded(self) -> dict[str, float]:
        """How many milliseconds the newest snapshot of each replica took to load, by path; each
        file is timed once.
        """
        newest = [newest_snapshot(self.quorum, log.label) for log in self.quorum.logs]
        timed = self._timed_before()
        known = {
            one.path: timed[file]
            for one in newest
            if one is not None and (file := _file(one)) in timed
        }
        new = (one for one in newest if one is not None and one.path not in known)
        return known | load_times(new, self.run.records)

    def _timed_before(self) -> dict[tuple[Any, ...], float]:
        """What the run before has measured, by path, size and time of the file."""
        name, columns = "snapshots", ["path", "size_bytes", "modified", "load_ms"]
        writer = last_writer(self.run.lake, name)
        rows = self.run.lake.rows_of_run(name, writer["run_id"], columns) if writer else []
        return {(*row.values(),)[:3]: row["load_ms"] for row in rows if row["load_ms"] is not None}

    @property
    def load_rate(self) -> int:
        """Bytes per second at which nodes load."""
        return self.run.options.load_bytes_per_second

    @cached_property
    def placement(self) -> Placement:
        columns = ("topic_id", "partition_replicas")
        return placement(shared_versions(self.run.lake, "partitions", columns, holding=True))

    @property
    def object_bytes(self) -> float | None:
        """Bytes per object of the state: in the newest snapshot, else as the log's records are."""
        kinds = [kind for kind, how in compaction.KEYS.items() if not how.is_patch]
        held = [one for one in self.quorum.credible_snapshots if one.end_offset > 0]
        newest = max(held, key=lambda one: one.id, default=None)
        count = sum(newest.evidence.type_counts.get(kind, 0) for kind in kinds) if newest else 0
        if newest is not None and count:
            return newest.evidence.size_bytes / count
        return mean_size_bytes(self.totals, kinds)

    def costs(self) -> Measured:
        """The measured values that cost models are fed with."""
        quorum, log = self.quorum, self.log
        survivors = self.offsets.survivors()
        source = quorum.leading_log
        snapshot = newest_snapshot(quorum, source.label) if source else None
        daily = per_day(log.size_bytes, log.span_ms)
        return Measured(
            replicas=len(quorum.peers),
            voters=len(quorum.voters),
            placement=self.placement,
            partition_change_bytes=mean_size_bytes(self.totals, ["PARTITION_CHANGE_RECORD"]),
            broker_change_bytes=mean_size_bytes(
                self.totals, ["BROKER_REGISTRATION_CHANGE_RECORD", "FENCE_BROKER_RECORD"]
            ),
            state_bytes=compaction.state_bytes(self.offsets),
            tombstone_bytes=int(survivors.sizes[survivors.tombstones].sum()),
            log_rate=None if daily is None else daily / (DAY_MS / 1000),
            snapshot_bytes=snapshot.evidence.size_bytes if snapshot else 0,
            elections_per_day=elections_per_day(log),
            writes_per_day=per_day(len(log), log.span_ms),
            snapshots_per_day=snapshots_per_day(quorum, source.label) if source else None,
            compacted_objects=int((~survivors.tombstones).sum()),
            live_objects=self.simulator.changes.alive_at(log.end_offset),
        )


def _file(snapshot: SnapshotView) -> tuple[str, int, datetime | None]:
    """What tells a file from what it was at another time."""
    held = snapshot.evidence
    return snapshot.path, held.size_bytes, moment(held.modified_ms)
