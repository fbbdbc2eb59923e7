"""`spark.read.format("kraftlog")` and `spark.readStream`: the relations of a quorum's disks as a
Spark data source, for people who write their own SQL.

    from kraftlog.source.datasource import register
    register(spark)
    spark.read.format("kraftlog").option("relation", "records").load("replicas/")

Options: `relation` (default records), `columns` (comma-separated; fewer columns cost less), `tasks`,
and the options of `conf/kraftlog.toml` by their names; there are no others. The driver plans splits,
executors read them; both readers pickle. Secrets are masked under a random key per query, or under
the option `redaction_key`; only with that option do masks stay equal when a stream is started again.
"""

from collections.abc import Iterator, Sequence

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
from pyspark.sql.types import StructType

from kraftlog.log.directory import Replica, find_replicas, record_files
from kraftlog.source.files import file_rows
from kraftlog.source.parts import GivenRows, Whole, parts_of, rows_of
from kraftlog.source.pushdown import Pushed, push
from kraftlog.source.splits import Split
from kraftlog.source.stream import KraftlogStreamReader
from kraftlog.source.task_settings import (
    arrow_schema,
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
        return from_arrow_schema(arrow_schema(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        return KraftlogReader(dict(self.options), list(schema.names))

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

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Note what need not be read; Spark applies all filters again."""
        self._pushed = push(filters)
        yield from filters

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
