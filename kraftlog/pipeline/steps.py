"""The steps by name, and the pipeline that runs them in order. Spark starts when a step first needs
it.
"""

from collections.abc import Callable

from pyspark.sql import SparkSession

from kraftlog.config import Options
from kraftlog.pipeline.audit import audit
from kraftlog.pipeline.decode import decode
from kraftlog.pipeline.materialize import materialize
from kraftlog.pipeline.metrics import metrics
from kraftlog.pipeline.progress import step

StartSpark = Callable[[], SparkSession]
Step = Callable[[StartSpark, Options], int]


def decode_job(start_spark: StartSpark, options: Options) -> int:
    """Decode; findings are no business of this step."""
    with step("decode"):
        decode(start_spark, options)
    return 0


def materialize_job(start_spark: StartSpark, options: Options) -> int:
    """Materialize the newest run."""
    with step("materialize"):
        materialize(start_spark, options)
    return 0


def audit_job(start_spark: StartSpark, options: Options) -> int:
    """Audit the newest run; the exit code says whether there are findings at or above `fail_on`."""
    with step("audit"):
        return audit(options)


def metrics_job(start_spark: StartSpark, options: Options) -> int:
    """Measure the newest run."""
    with step("metrics"):
        metrics(options)
    return 0


def pipeline(start_spark: StartSpark, options: Options) -> int:
    """All four in order; the exit code is the audit's."""
    decode_job(start_spark, options)
    materialize_job(start_spark, options)
    code = audit_job(start_spark, options)
    metrics_job(start_spark, options)
    return code


STEPS: dict[str, Step] = {
    "decode": decode_job,
    "materialize": materialize_job,
    "audit": audit_job,
    "metrics": metrics_job,
    "pipeline": pipeline,
}
