"""The steps by name, and the pipeline that runs them in order. Spark starts when a step first needs
it.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

from kraftlog.audit.told import Told
from kraftlog.config import Options
from kraftlog.contracts.beside import JUDGE
from kraftlog.pipeline.audit import audit
from kraftlog.pipeline.contracts import Contracts, contracts_step
from kraftlog.pipeline.decode import decode
from kraftlog.pipeline.materialize import materialize
from kraftlog.pipeline.metrics import looked_at, metrics
from kraftlog.pipeline.page import get_ready, write_lake_page
from kraftlog.pipeline.progress import step
from kraftlog.pipeline.run import Run, StartSpark
from kraftlog.pipeline.shared_measures import SharedMeasures
from kraftlog.pipeline.writing import compact_all, writing
from kraftlog.tables.spec import decoded_tables, state_tables

Step = Callable[[StartSpark, Options], int]

_decode = step("decode")(decode)
_materialize = step("materialize")(materialize)
_audit = step("audit")(audit)
_metrics = step("metrics")(metrics)
_contracts = step("contracts")(contracts_step)
_page = step("page")(write_lake_page)


def decode_job(start_spark: StartSpark, options: Options) -> int:
    """Decode; findings are no business of this step."""
    with _run(start_spark, options, reads_input=True) as run:
        _decode(run)
    return 0


def materialize_job(start_spark: StartSpark, options: Options) -> int:
    """Materialize the newest run."""
    with _run(start_spark, options) as run:
        _materialize(run)
    return 0


def audit_job(start_spark: StartSpark, options: Options) -> int:
    """Audit the newest run, judge the contracts of the tables that it has published, write its
    page.

    The exit code says whether there are findings at or above `fail_on`, or else a broken contract
    (2).
    """
    with _run(start_spark, options) as run:
        return _judged(run)


def metrics_job(start_spark: StartSpark, options: Options) -> int:
    """Measure the newest run."""
    with _run(start_spark, options) as run:
        _metrics(run)
    return 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a whole run came to: its exit code, and whether there was anything new to read."""

    exit_code: int
    is_new: bool


def pipeline(start_spark: StartSpark, options: Options) -> int:
    """All four in order, then the page; the exit code is the audit's."""
    return run_pipeline(start_spark, options).exit_code


def run_pipeline(start_spark: StartSpark, options: Options) -> Outcome:
    """The same, with what it came to. Contracts come after the metrics, which publish too."""
    with (
        _run(start_spark, options, reads_input=True) as run,
        ThreadPoolExecutor(8) as beside,
    ):

        def meanwhile() -> None:
            JUDGE.start()
            beside.submit(get_ready)

        is_new = _decode(run, meanwhile)
        contracts = Contracts(run)
        contracts.begin(beside)
        told = _materialize(run)
        begun = looked_at(run, beside)
        contracts.begin(beside)
        code = _audit(run, told)
        contracts.begin(beside)
        tidied = beside.submit(_tidied, run, begun)
        _metrics(run, begun, lambda: contracts.begin(beside))
        broken = _contracts(run, contracts)
        _page(run.lake)
        tidied.result()
        rotten = is_new and run.row["changed_in_place_count"] > 0
    rot = 1 if rotten and options.fail_on != "never" else 0
    return Outcome(code or broken or rot, is_new)


def _tidied(run: Run, begun: Future[SharedMeasures] | None) -> None:
    """Gather the small files of tables that no later step writes, when the long looks at them are
    over: what follows keeps one core busy, and this would come last.
    """
    if begun is not None:
        wait([begun])
        compact_all(run.lake, [*decoded_tables().values(), *state_tables().values()])


def audit_through_lake(start_spark: StartSpark, options: Options) -> tuple[Run, int]:
    """The newest run audited, and the exit code; of an input that is named, what is new is read
    first.
    """
    with _run(start_spark, options, reads_input=bool(options.input)) as run:
        told = None
        if options.input:
            _decode(run)
            told = _materialize(run)
        return run, _judged(run, told)


@contextmanager
def _run(start_spark: StartSpark, options: Options, *, reads_input: bool = False) -> Iterator[Run]:
    """A run over the lake that the options name, which is held as long."""
    with writing(options, reads_input=reads_input) as lake:
        yield Run(options, lake, start_spark)


def _judged(run: Run, told: Told | None = None) -> int:
    code, broken = _audit(run, told), _contracts(run)
    _page(run.lake)
    return code or broken


STEPS: dict[str, Step] = {
    "decode": decode_job,
    "materialize": materialize_job,
    "audit": audit_job,
    "metrics": metrics_job,
    "pipeline": pipeline,
}
