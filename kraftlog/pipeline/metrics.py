"""Step 4, metrics: measures and plans of the newest run. Driver side."""

from kraftlog.config import Options
from kraftlog.pipeline.copies import COPIES
from kraftlog.pipeline.derive import Newest, derive
from kraftlog.pipeline.measures import MEASURES
from kraftlog.pipeline.plans import PLANS
from kraftlog.pipeline.run import lake_of, newest_run


def metrics(options: Options) -> None:
    """Measure the newest run and plan what follows from it, once per run."""
    lake = lake_of(options)
    derive(Newest(lake, options, newest_run(lake)), (*COPIES, *MEASURES, *PLANS))
