"""`spark.read.format("kraftlog")`: the relations of a quorum's disks as a Spark data source, for
people who write their own SQL.

    from kraftlog.source.datasource import register
    register(spark)
    spark.read.format("kraftlog").option("relation", "records").load("replicas/")

Options: `relation` (default records), `columns` (comma-separated; fewer columns cost less), and the
options of `conf/kraftlog.toml` by their names. The driver plans splits, executors read them;
`KraftlogReader` pickles.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kraftlog import relations
from kraftlog.config import Options, load_options, option_names
from kraftlog.errors import UsageError
from kraftlog.log.directory import LogFile, Replica, find_replicas, record_files
from kraftlog.log.names import LOG
from kraftlog.log.storage import absolute
from kraftlog.source.files import file_rows
from kraftlog.source.plan import Split, pack, plan_splits
from kraftlog.source.pushdown import Pushed, push
from kraftlog.source.read import Reading, read_quorum, read_split
from kraftlog.source.settings import limits_of, redactor_of

_OF_A_QUORUM = frozenset({"replicas", "epochs"})
_TASKS = 8
"""Tasks that a read is spread over, unless option `tasks` says otherwise; never more than there are
splits.
"""


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(KraftlogDataSource)


class KraftlogDataSource(DataSource):
    """The `kraftlog` format."""

    @classmethod
    def name(cls) -> str:
        return "kraftlog"

    def schema(self) -> StructType:
        return from_arrow_schema(arrow_schema(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        return KraftlogReader(dict(self.options), list(schema.names))


def arrow_schema(options: Mapping[str, str]) -> pa.Schema:
    """The columns of the relation that the options ask for.

    Raises UsageError for a relation or column that does not exist."""
    name = options.get("relation", "records")
    every = relations.all_relations()
    if name not in every:
        raise UsageError(f"there is no relation {name!r}; there are {', '.join(every)}")
    schema = every[name].schema
    if "columns" not in options:
        return schema
    wanted = [one.strip() for one in options["columns"].split(",")]
    for one in wanted:
        if one not in schema.names:
            raise UsageError(f"relation {name!r} has no column {one!r}")
    return pa.schema([schema.field(one) for one in wanted])


def _roots(options: Mapping[str, str]) -> list[str]:
    roots = options.get("path") or options.get("input")
    if not roots:
        raise UsageError("no input is named: say .load(FOLDER)")
    return [absolute(one.strip()) for one in roots.split(",")]


def _settings(options: Mapping[str, str]) -> Options:
    known = set(option_names()) - {"input"}
    return load_options({key: value for key, value in options.items() if key in known})


class Part(InputPartition):
    """The splits that one task reads."""

    def __init__(self, splits: Sequence[Split]) -> None:
        self.splits = list(splits)


class Whole(InputPartition):
    """All replicas: what is said of one depends on the others."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.replicas = list(replicas)


class Listed(InputPartition):
    """Rows that the driver already has."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows


class KraftlogReader(DataSourceReader):
    """Plans on the driver, reads in executors."""

    def __init__(self, options: dict[str, str], columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._pushed = Pushed()

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Note what need not be read; Spark applies all filters again."""
        self._pushed = push(filters)
        yield from filters

    def partitions(self) -> Sequence[InputPartition]:
        """One partition per group of splits; `files` needs none, the driver has listed them."""
        replicas = self._replicas()
        if self._relation == "files":
            return [Listed(file_rows(replicas)[0])]
        if self._relation in _OF_A_QUORUM:
            return [Whole(replicas)]
        files = [file for file in record_files(replicas) if self._may_see(file)]
        splits = plan_splits(files, _settings(self._options).split_size_bytes)
        sizes = [split.size_bytes for split in splits]
        groups = pack(sizes, max(1, int(self._options.get("tasks", _TASKS))))
        return [Part([splits[index] for index in sorted(group)]) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in an executor."""
        schema = arrow_schema({**self._options, "columns": ",".join(self._columns)})
        if isinstance(partition, Listed):
            yield from partition.rows.select(schema.names).to_batches()
            return
        settings = _settings(self._options)
        reading = Reading(
            self._relation, schema, limits_of(settings), redactor_of(settings), self._pushed
        )
        if isinstance(partition, Whole):
            yield from read_quorum(partition.replicas, reading)
        for split in partition.splits if isinstance(partition, Part) else ():
            yield from read_split(split, reading)

    @property
    def _relation(self) -> str:
        return self._options.get("relation", "records")

    def _replicas(self) -> list[Replica]:
        wanted = None if self._relation in _OF_A_QUORUM else self._pushed.replicas
        found = find_replicas(_roots(self._options))
        return [one for one in found if wanted is None or one.label in wanted]

    def _may_see(self, file: LogFile) -> bool:
        """A segment that begins after the last offset that the query can see need not be opened."""
        last = self._pushed.last_offset
        return last is None or file.kind != LOG or (file.parsed.base_offset or 0) <= last
