"""`spark.read.format("kraftlog")` and `spark.readStream`: the relations of a quorum's disks as a
Spark data source, for people who write their own SQL.

    from kraftlog.source.datasource import register
    register(spark)
    spark.read.format("kraftlog").option("relation", "records").load("replicas/")

Options: `relation` (default records), `columns` (comma-separated; fewer columns cost less), `tasks`,
`pushdown` (what the filters of one query rule out is not read), and the options of `conf/kraftlog.toml` by their names; there are no others. The driver plans splits,
executors read them; both readers pickle. Secrets are masked under a random key per query, or under
the option `redaction_key`; only with that option do masks stay equal when a stream is started again.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kraftlog.errors import UsageError
from kraftlog.log.directory import Replica, find_replicas, record_files
from kraftlog.source.files import file_rows
from kraftlog.source.parts import GivenRows, Whole, parts_of, rows_of
from kraftlog.source.pushdown import Pushed, push
from kraftlog.source.splits import Split
from kraftlog.source.stream_progress import (
    advanced,
    changed_files,
    from_json,
    listed_files,
    new_ranges,
    to_json,
)
from kraftlog.source.task_settings import (
    arrow_schema,
    limits_of,
    pushes_filters,
    relation_of,
    roots_of,
    settings_of,
    source_redactor,
    tasks_of,
)

_OF_A_QUORUM = frozenset({"replicas", "epochs"})


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(KraftlogDataSource)


class KraftlogDataSource(DataSource):
    """The `kraftlog` format."""

    @classmethod
    def name(cls) -> str:
        return "kraftlog"

    def schema(self) -> StructType:
        settings_of(self.options)  # a wrong option is told now, and not when rows are asked for
        tasks_of(self.options)
        pushes_filters(self.options)
        return from_arrow_schema(arrow_schema(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        kind = PushingReader if pushes_filters(self.options) else KraftlogReader
        return kind(dict(self.options), list(schema.names))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return KraftlogStreamReader(dict(self.options), list(schema.names))


class KraftlogReader(DataSourceReader):
    """Plans on the driver, reads in executors."""

    def __init__(self, options: dict[str, str], columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._relation = relation_of(options)
        self._redactor = source_redactor(options)
        self._pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        """One partition per group of splits; `files` needs none, the driver has listed them."""
        replicas = self._replicas()
        if self._relation == "files":
            return [GivenRows(file_rows(replicas, self._redactor.id_key)[0])]
        if self._relation in _OF_A_QUORUM:
            return [Whole(replicas, self._redactor)]
        return parts_of(map(Split, record_files(replicas)), self._options, self._redactor)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in an executor."""
        yield from rows_of(partition, self._options, self._columns, self._pushed)

    def _replicas(self) -> list[Replica]:
        wanted = None if self._relation in _OF_A_QUORUM else self._pushed.replicas
        found = find_replicas(roots_of(self._options))
        return [one for one in found if wanted is None or one.label in wanted]


class PushingReader(KraftlogReader, DataSourceReader):
    """The same for the filters of one query. Spark 4.2 keeps what was planned for them, and gives it
    to the next query of the same frame or view, whatever that asks, and to both sides of a join: so
    only who reads anew for each query may ask for it.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Note what need not be read; Spark applies all filters again."""
        self._pushed = push(filters)
        yield from filters


STREAMED = ("files", "batches", "records", "control_records", "faults")
"""Relations whose rows come from one file each. Those of a whole quorum are judged anew with every
byte that is added: no row of theirs is ever final.
"""

Offset = dict[str, Any]


class KraftlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What is new since the last micro-batch, whose offset comes from Spark's checkpoint: the driver
    lists, compares and plans (`stream_progress`), executors read.

    A stream only appends. A log that grew gives its new batches, once. Of a log that was truncated and
    written on, what is there now comes after what was there before, from the last mark before the place
    on: a few batches come twice. Rows of files that are gone stay; a file that was renamed is a new
    file. So a reader who wants each content once drops duplicates by `batch_id` (`records`: and
    `record_index`), and one who wants what lies on the disks now uses `spark.read`. Raises UsageError
    for a relation that is no stream.
    """

    def __init__(self, options: dict[str, str], columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)
        self._relation = relation_of(options)
        if self._relation not in STREAMED:
            raise UsageError(
                f"relation {self._relation!r} is told of all replicas at once and cannot be streamed: use spark.read, or one of {', '.join(STREAMED)}"
            )
        self._redactor = source_redactor(options)
        self._pinned: list[Replica] | None = None
        self._target: Offset | None = None

    def initialOffset(self) -> Offset:
        """Nothing has been read."""
        return self._offset({})

    def prepareForTriggerAvailableNow(self) -> None:
        """What is listed now is all that this run of the query reads."""
        self._pinned = self._replicas()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The offset after all that is there; `start` itself where nothing is new."""
        if self._target is not None:
            return self._target
        before = from_json(self._replicas_of(start))
        if self._relation == "files":
            after = listed_files(self._pinned or self._replicas())
        else:
            limits = limits_of(settings_of(self._options), self._redactor)
            replicas = self._pinned or self._replicas()
            after = advanced(before, replicas, self._tells_tails, limits)
        offset = self._offset(to_json(after))
        if self._pinned is not None:
            self._target = offset
        return offset

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The ranges of files between two offsets; the listing of `files` needs no task."""
        before, after = (from_json(self._replicas_of(one)) for one in (start, end))
        if self._relation == "files":
            changed = [file for file, _, _ in changed_files(before, after)]
            given = [Replica("", "", "", tuple(changed))]
            rows, _ = file_rows(given, self._redactor.id_key)
            return [GivenRows(rows)] if changed else []
        ranges = new_ranges(before, after, self._tells_tails)
        return parts_of(ranges, self._options, self._redactor)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in an executor."""
        yield from rows_of(partition, self._options, self._columns, Pushed())

    @property
    def _tells_tails(self) -> bool:
        return self._relation == "faults"

    def _replicas(self) -> list[Replica]:
        return find_replicas(roots_of(self._options))

    def _offset(self, replicas: Offset) -> Offset:
        return {"relation": self._relation, "replicas": replicas}

    def _replicas_of(self, offset: Offset) -> Offset:
        if offset.get("relation") != self._relation:
            raise UsageError(
                f"the checkpoint belongs to a stream of {offset.get('relation')!r}, this one is of {self._relation!r}: give it a checkpointLocation of its own"
            )
        replicas: Offset = offset["replicas"]
        return replicas
