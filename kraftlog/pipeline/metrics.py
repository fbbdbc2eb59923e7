"""Step 4, metrics: measures and plans of the newest run. Driver side."""

from kraftlog.pipeline.copies import COPIES
from kraftlog.pipeline.derive import derive
from kraftlog.pipeline.measures import MEASURES
from kraftlog.pipeline.measuring import Measuring
from kraftlog.pipeline.plans import PLANS
from kraftlog.pipeline.run import Run


def metrics(run: Run) -> None:
    """Measure the newest run and plan what follows from it, once per run."""
    derive(run, COPIES, lambda: run)
    derive(run, MEASURES, lambda: Measuring.prepared(run))
    derive(run, PLANS, lambda: run)
