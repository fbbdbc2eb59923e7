"""What one task of a read gets, batch or stream, and the rows that it makes of it.

In: partitions, which the driver has planned; they pickle. Out: Arrow record batches with the
columns that the reader wants. Runs in executors.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import Replica
from kraftlog.source.pushdown import Pushed
from kraftlog.source.read import Reading, read_quorum, read_split
from kraftlog.source.splits import Split, cut, pack
from kraftlog.source.task_settings import (
    arrow_schema,
    limits_of,
    relation_of,
    settings_of,
    tasks_of,
)


class Part(InputPartition):
    """The splits that one task reads. All tasks mask under the driver's key, so that equal secrets
    stay equal.
    """

    def __init__(self, splits: Sequence[Split], redactor: Redactor) -> None:
        self.splits = list(splits)
        self.redactor = redactor


class Whole(InputPartition):
    """All replicas: what is said of one depends on the others."""

    def __init__(self, replicas: Sequence[Replica], redactor: Redactor) -> None:
        self.replicas = list(replicas)
        self.redactor = redactor


class GivenRows(InputPartition):
    """Rows that the driver already has."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows


def parts_of(
    ranges: Iterable[Split], options: Mapping[str, str], redactor: Redactor
) -> list[InputPartition]:
    """Ranges of files, cut to the split size, and dealt out to tasks."""
    size = settings_of(options).split_size_bytes
    splits = [part for one in ranges for part in cut(one, size)]
    sizes = [split.size_bytes for split in splits]
    groups = pack(sizes, tasks_of(options))
    return [Part([splits[index] for index in sorted(group)], redactor) for group in groups]


def rows_of(
    partition: InputPartition,
    options: Mapping[str, str],
    columns: Sequence[str],
    pushed: Pushed,
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition."""
    schema = arrow_schema({**options, "columns": ",".join(columns)})
    if isinstance(partition, GivenRows):
        yield from partition.rows.select(schema.names).to_batches()
    elif isinstance(partition, Part | Whole):
        limits = limits_of(settings_of(options), partition.redactor)
        reading = Reading(relation_of(options), schema, limits, partition.redactor, pushed)
        if isinstance(partition, Whole):
            yield from read_quorum(partition.replicas, reading)
            return
        for split in partition.splits:
            yield from read_split(split, reading)
