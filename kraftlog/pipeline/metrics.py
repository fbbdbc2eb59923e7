"""Step 4, metrics: measures and plans of the newest run. Driver side."""

from kraftlog.pipeline.copies import COPIES
from kraftlog.pipeline.derive import derive
from kraftlog.pipeline.measures import MEASURES
from kraftlog.pipeline.plans import PLANS
from kraftlog.pipeline.run import Run
from kraftlog.pipeline.shared_measures import SharedMeasures


def metrics(run: Run) -> None:
    """Measure the newest run and plan what follows from it, once per run."""
    derive(run, COPIES, lambda: run)
    derive(run, MEASURES, lambda: SharedMeasures.prepared(run))
    derive(run, PLANS, lambda: run)
