"""Which function of `metrics` fills which table of measures, in the order of their writing."""

from collections.abc import Callable

from kraftlog.metrics.amplification import amplification_rows
from kraftlog.metrics.churn import churn_rows
from kraftlog.metrics.compaction_rows import compaction_rows
from kraftlog.metrics.configuration import configuration_rows
from kraftlog.metrics.cost_rows import cost_rows
from kraftlog.metrics.disk import disk_rows
from kraftlog.metrics.elections import election_rows
from kraftlog.metrics.horizons import horizon_rows
from kraftlog.metrics.joiner import catch_up_rows, newest_snapshot
from kraftlog.metrics.policy_rows import policy_rows
from kraftlog.metrics.record_rows import growth_rows, record_size_rows
from kraftlog.metrics.retention import retention_rows
from kraftlog.metrics.snapshot_advice import advice_rows
from kraftlog.metrics.snapshot_metrics import snapshot_metric_rows
from kraftlog.pipeline.derive import Derived
from kraftlog.pipeline.run import Row
from kraftlog.pipeline.shared_measures import SharedMeasures
from kraftlog.quorum.growth import per_day
from kraftlog.tables import measures as tables
from kraftlog.tables.spec import TableSpec


def _snapshot_metrics(run: SharedMeasures) -> list[Row]:
    return list(snapshot_metric_rows(run.quorum, run.snapshots))


def _snapshot_advice(run: SharedMeasures) -> list[Row]:
    """By the newest snapshot of each replica, and by how the shared log grows."""
    daily = per_day(run.log.size_bytes, run.log.span_ms)
    newest = [(log, newest_snapshot(run.quorum, log.label)) for log in run.quorum.logs]
    return [
        row
        for log, one in newest
        if one is not None and daily is not None
        for row in advice_rows(log, one.evidence.size_bytes, daily, run.load_rate)
    ]


def _disk(run: SharedMeasures) -> list[Row]:
    files = run.run.lake.read("files", ["replica", "kind", "size_bytes"]).to_pylist()
    return disk_rows(run.quorum, files, run.run.options.disk_capacity_bytes)


def _events(run: SharedMeasures) -> list[Row]:
    return amplification_rows(run.scanned.bursts, len(run.quorum.peers))


_ROWS: tuple[tuple[TableSpec, Callable[[SharedMeasures], list[Row]]], ...] = (
    (tables.SNAPSHOTS, lambda run: run.snapshots),
    (tables.SNAPSHOT_METRICS, _snapshot_metrics),
    (tables.SNAPSHOT_ADVICE, _snapshot_advice),
    (tables.SNAPSHOT_POLICY, lambda run: policy_rows(run.simulator, run.quorum, run.object_bytes)),
    (tables.RETENTION_ADVICE, lambda run: retention_rows(run.quorum)),
    (tables.RECORD_SIZES, lambda run: record_size_rows(run.totals)),
    (tables.GROWTH, lambda run: growth_rows(run.totals)),
    (tables.CHURN, lambda run: churn_rows(run.log, run.lives)),
    (tables.EVENT_AMPLIFICATION, _events),
    (tables.ELECTIONS, lambda run: election_rows(run.log)),
    (tables.DISK, _disk),
    (tables.CATCH_UP, lambda run: catch_up_rows(run.quorum, run.load_rate)),
    (tables.COMPACTION, lambda run: compaction_rows(run.log, run.offsets, run.lives)),
    (tables.TOMBSTONE_HORIZONS, lambda run: list(horizon_rows(run.quorum, run.lives.values()))),
    (tables.COST_MODELS, lambda run: cost_rows(run.costs())),
    (tables.CONFIGURATION_LINT, lambda run: configuration_rows(run.quorum, run.racks)),
)


MEASURES = tuple(Derived(spec, rows) for spec, rows in _ROWS)
