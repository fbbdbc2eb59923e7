"""Step 4, metrics: measures and plans of the newest run. Driver side."""

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache, partial

from kraftlog.pipeline import copies, plans, quorum_measures, record_measures, snapshot_measures
from kraftlog.pipeline.derive import derive, tables_in
from kraftlog.pipeline.object_lives import KEPT
from kraftlog.pipeline.run import Run
from kraftlog.pipeline.shared_measures import SharedMeasures

COPIES, PLANS = tables_in(copies), tables_in(plans)
_MEASURED = [tables_in(one) for one in (snapshot_measures, record_measures, quorum_measures)]
MEASURES = [one for some in _MEASURED for one in some]
_KEPT = [one for one in MEASURES if one.spec.name in KEPT]


def looked_at(run: Run, beside: Executor) -> Future[SharedMeasures] | None:
    """The long looks at the lake that the measures are taken from, begun beside other work; None
    where the newest run has been measured.
    """
    if not run.lacks(*(one.spec.name for one in MEASURES)):
        return None
    run.quorum  # noqa: B018 what both threads need is looked up once
    return beside.submit(_prepared, run)


def _prepared(run: Run) -> SharedMeasures:
    """The two long looks at the lake, side by side: at its records, which takes longest, and at its
    history, of which is written meanwhile what the next run goes on from.
    """
    found = SharedMeasures(run)
    read = partial(getattr, found)
    for name in ("log", "brokers"):  # what both of them need
        read(name)
    with ThreadPoolExecutor(1) as aside:
        scanned = aside.submit(read, "scanned")
        read("simulator")
        derive(run, _KEPT, lambda: found)
        scanned.result()
    return found


def metrics(
    run: Run,
    begun: Future[SharedMeasures] | None = None,
    on_the_way: Callable[[], object] = lambda: None,
) -> None:
    """Plan what follows from the newest run and measure it, once per run; `on_the_way` is called
    when some tables are written.
    """
    derive(run, COPIES, lambda: run)
    derive(run, PLANS, lambda: run)  # while what was begun goes on
    measured = cache(begun.result if begun else partial(_prepared, run))
    for some in _MEASURED:
        on_the_way()
        derive(run, some, measured)
