"""Which function of `metrics` fills which table of measures, in the order of their writing."""

from collections.abc import Callable

from kraftlog.metrics.amplification import amplification_rows
from kraftlog.metrics.churn import churn_rows
from kraftlog.metrics.compaction_rows import compaction_rows
from kraftlog.metrics.configuration import configuration_rows
from kraftlog.metrics.cost_rows import cost_rows
from kraftlog.metrics.disk import disk_rows
from kraftlog.metrics.elections import election_rows
from kraftlog.metrics.joiner import catch_up_rows
from kraftlog.metrics.policy_rows import policy_rows
from kraftlog.metrics.record_rows import growth_rows, record_size_rows, sizes_of_snapshot
from kraftlog.metrics.retention import retention_rows
from kraftlog.metrics.snapshots import snapshot_rows
from kraftlog.pipeline.derive import Derived, Newest, Row
from kraftlog.pipeline.measuring import Measuring, measuring_of
from kraftlog.tables import measures as tables
from kraftlog.tables.spec import TableSpec


def _snapshots(run: Measuring) -> list[Row]:
    sizes = sizes_of_snapshot(run.totals)
    return snapshot_rows(run.quorum, sizes, run.load_ms, run.load_rate)


def _disk(run: Measuring) -> list[Row]:
    files = run.newest.lake.read("files", ["replica", "kind", "size_bytes"]).to_pylist()
    return disk_rows(run.quorum, files, run.newest.options.disk_capacity_bytes)


def _events(run: Measuring) -> list[Row]:
    return amplification_rows(run.scanned.bursts, len(run.quorum.peers))


_ROWS: tuple[tuple[TableSpec, Callable[[Measuring], list[Row]]], ...] = (
    (tables.SNAPSHOTS, _snapshots),
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
    (tables.COST_MODELS, lambda run: cost_rows(run.costs())),
    (tables.CONFIGURATION_LINT, lambda run: configuration_rows(run.quorum, run.racks)),
)


def _derived(spec: TableSpec, rows: Callable[[Measuring], list[Row]]) -> Derived:
    def of_run(newest: Newest) -> list[Row]:
        return rows(measuring_of(newest))

    return Derived(spec, of_run)


MEASURES: tuple[Derived, ...] = tuple(_derived(spec, rows) for spec, rows in _ROWS)
