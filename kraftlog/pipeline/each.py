"""Many quorums in one start of Spark: one task audits one input."""

from collections.abc import Iterator
from functools import partial

from kraftlog.config import Options
from kraftlog.log.storage import absolute
from kraftlog.pipeline.judge import Judged, audit_or_error
from kraftlog.pipeline.tasks import Spark, run_tasks


def audit_each(spark: Spark, roots: list[str], options: Options) -> Iterator[tuple[str, Judged]]:
    """(root, what its audit says), in the order of the roots."""
    paths = [absolute(root) for root in roots]
    judged = run_tasks(spark, len(paths), partial(_audit, paths, options))
    return zip(roots, judged, strict=True)


def _audit(paths: list[str], options: Options, number: int) -> Iterator[Judged]:
    yield audit_or_error(paths[number], options)
