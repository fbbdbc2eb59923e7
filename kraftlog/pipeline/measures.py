"""Which function of `metrics` fills which table of measures."""

from kraftlog.metrics.snapshots import snapshot_rows
from kraftlog.pipeline.derive import Derived
from kraftlog.tables.measures import SNAPSHOTS

MEASURES: tuple[Derived, ...] = (Derived(SNAPSHOTS, lambda newest: snapshot_rows(newest.quorum)),)
