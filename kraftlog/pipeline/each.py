"""Many quorums in one start of Spark: one task audits one input, results come back as they are
ready.
"""

import json
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from kraftlog.config import Options
from kraftlog.log.storage import absolute
from kraftlog.pipeline.judge import Judged, audit_or_error

_RESULT = pa.schema([("number", pa.int32()), ("judged", pa.string())])

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def audit_each(
    spark: SparkSession, roots: list[str], options: Options
) -> Iterator[tuple[str, Judged]]:
    """(root, what its audit says), in the order of the roots."""
    paths = [absolute(root) for root in roots]
    numbers = spark.range(0, len(paths), 1, len(paths))
    rows = numbers.mapInArrow(_task(paths, options), from_arrow_schema(_RESULT))
    waiting: dict[int, Judged] = {}
    for row in rows.toLocalIterator(prefetchPartitions=True):
        known = json.loads(row["judged"])
        waiting[row["number"]] = Judged(known["rows"], known["exit_code"], known["error"])
    for number, root in enumerate(roots):
        yield root, waiting[number]


def _task(paths: list[str], options: Options) -> Task:
    def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbered in numbers:
            for number in numbered.column(0).to_pylist():
                judged = audit_or_error(paths[number], options)
                text = json.dumps(
                    {"rows": judged.rows, "exit_code": judged.exit_code, "error": judged.error}
                )
                yield pa.RecordBatch.from_pylist(
                    [{"number": number, "judged": text}], schema=_RESULT
                )

    return task
