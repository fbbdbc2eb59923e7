"""The steps by name, and the pipeline that runs them in order. Spark starts when a step first needs
it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module

from pyspark import SparkContext

from kraftlog.config import Options
from kraftlog.pipeline.audit import audit
from kraftlog.pipeline.contracts import contracts_step
from kraftlog.pipeline.decode import decode
from kraftlog.pipeline.materialize import materialize
from kraftlog.pipeline.metrics import metrics
from kraftlog.pipeline.page import write_lake_page
from kraftlog.pipeline.progress import step
from kraftlog.pipeline.run import lake_of, newest_run
from kraftlog.pipeline.writing import writing

StartSpark = Callable[[], SparkContext]
Step = Callable[[StartSpark, Options], int]


def decode_job(start_spark: StartSpark, options: Options) -> int:
    """Decode; findings are no business of this step."""
    with writing(options, reads_input=True), step("decode"):
        decode(start_spark, options)
    return 0


def materialize_job(start_spark: StartSpark, options: Options) -> int:
    """Materialize the newest run."""
    with writing(options), step("materialize"):
        materialize(start_spark, options)
    return 0


def audit_job(start_spark: StartSpark, options: Options) -> int:
    """Audit the newest run, judge the contracts of the tables that it has published, write its
    page.

    The exit code says whether there are findings at or above `fail_on`, or else a broken contract.
    """
    with writing(options):
        code = _audit(options)
        broken = _contracts(options)
        _page(options)
    return code or broken


def metrics_job(start_spark: StartSpark, options: Options) -> int:
    """Measure the newest run."""
    with writing(options), step("metrics"):
        metrics(options)
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
    start_spark = _meanwhile(start_spark)
    with writing(options, reads_input=True) as lake:
        before = lake.run_number("runs")
        decode_job(start_spark, options)
        is_new = lake.run_number("runs") > before
        materialize_job(start_spark, options)
        code = _audit(options)
        metrics_job(start_spark, options)
        broken = _contracts(options)
        _page(options)
        rotten = is_new and newest_run(lake)["changed_in_place_count"] > 0
    told = 1 if rotten and options.fail_on != "never" else 0
    return Outcome(code or broken or told, is_new)


def _meanwhile(start_spark: StartSpark) -> StartSpark:
    """Great Expectations, which takes seconds to import, is read while Spark starts and works."""

    reader = ThreadPoolExecutor(1)

    def start() -> SparkContext:
        # Where this fails, the contracts step meets the same error, and tells it.
        reader.submit(import_module, "kraftlog.contracts.run")
        return start_spark()

    return start


def _audit(options: Options) -> int:
    with step("audit"):
        return audit(options)


def _contracts(options: Options) -> int:
    with step("contracts"):
        return contracts_step(lake_of(options))


def _page(options: Options) -> None:
    with step("page"):
        write_lake_page(lake_of(options))


STEPS: dict[str, Step] = {
    "decode": decode_job,
    "materialize": materialize_job,
    "audit": audit_job,
    "metrics": metrics_job,
    "pipeline": pipeline,
}
