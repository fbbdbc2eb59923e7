"""Step 4, metrics: measures and plans of the newest run. Driver side."""

from kraftlog.pipeline import copies, plans, quorum_measures, record_measures, snapshot_measures
from kraftlog.pipeline.derive import declared_in, derive
from kraftlog.pipeline.run import Run
from kraftlog.pipeline.shared_measures import SharedMeasures

COPIES, PLANS = declared_in(copies), declared_in(plans)
MEASURES = declared_in(snapshot_measures, record_measures, quorum_measures)


def metrics(run: Run) -> None:
    """Measure the newest run and plan what follows from it, once per run."""
    derive(run, COPIES, lambda: run)
    derive(run, MEASURES, lambda: SharedMeasures.prepared(run))
    derive(run, PLANS, lambda: run)
