"""The steps by name, and the pipeline that runs them in order."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from kraftlog.config import Options
from kraftlog.pipeline.audit import audit
from kraftlog.pipeline.decode import decode
from kraftlog.pipeline.materialize import materialize
from kraftlog.pipeline.metrics import metrics
from kraftlog.pipeline.progress import step

Step = Callable[[SparkSession, Options], int]


def decode_job(spark: SparkSession, options: Options) -> int:
    """Decode; findings are no business of this step."""
    with step("decode"):
        decode(spark, options)
    return 0


def materialize_job(spark: SparkSession, options: Options) -> int:
    """Materialize the newest run."""
    with step("materialize"):
        materialize(spark, options)
    return 0


def audit_job(spark: SparkSession, options: Options) -> int:
    """Audit the newest run; the exit code says whether there are findings at or above `fail_on`."""
    with step("audit"):
        return audit(spark, options)


def metrics_job(spark: SparkSession, options: Options) -> int:
    """Measure the newest run."""
    with step("metrics"):
        metrics(spark, options)
    return 0


def pipeline(spark: SparkSession, options: Options) -> int:
    """All four in order; the exit code is the audit's."""
    decode_job(spark, options)
    materialize_job(spark, options)
    code = audit_job(spark, options)
    metrics_job(spark, options)
    return code


STEPS: dict[str, Step] = {
    "decode": decode_job,
    "materialize": materialize_job,
    "audit": audit_job,
    "metrics": metrics_job,
    "pipeline": pipeline,
}
