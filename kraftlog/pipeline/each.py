"""Many quorums at once, each judged by itself: one task audits one input. A few small ones are
judged here, before Spark would be there.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from kraftlog.config import Options
from kraftlog.errors import KraftlogError
from kraftlog.failures import sentence_of
from kraftlog.log.directory import find_replicas
from kraftlog.log.storage import absolute
from kraftlog.pipeline.input_audit import audit_input
from kraftlog.pipeline.run import StartSpark
from kraftlog.pipeline.tasks import run_tasks
from kraftlog.report.judgement import Judged

FEW = 16
"""So many small quorums are judged in less time than Spark takes to start."""


def audit_each(
    start_spark: StartSpark, roots: list[str], options: Options
) -> Iterator[tuple[str, Judged]]:
    """(root, what its audit says), in the order of the roots."""
    paths = [absolute(root) for root in roots]
    spark = None if _are_few(paths, options.split_size_bytes) else start_spark()
    judged = run_tasks(spark, len(paths), partial(_audit, paths, options))
    return zip(roots, judged, strict=True)


def _are_few(paths: list[str], split_size: int) -> bool:
    """Whether these are few inputs, which all together fit one split."""
    return len(paths) <= FEW and sum(map(_size_bytes, paths)) <= split_size


def _size_bytes(path: str) -> int:
    """How much an input holds; of one that cannot be read its audit says why."""
    with suppress(KraftlogError):
        return sum(file.size_bytes for one in find_replicas([path]) for file in one.files)
    return 0


def _audit(paths: list[str], options: Options, number: int) -> Iterator[Judged]:
    """What one input meets, whatever it is, must not stop the others."""
    root = paths[number]
    try:
        judged = audit_input([root], options)
    except Exception as error:
        judged = Judged(error=sentence_of(error, f"audit {root} by itself"))
    yield judged
