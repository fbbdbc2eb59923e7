"""Work in Spark's tasks: one number per task, a few objects back.

In: a function of a number, which pickles. Out: what it yields, in the order of the numbers. The
rows that a task decodes or folds go from its process to files; what comes back tells which.
Spark's SQL takes no part in that: planning and compiling its first query takes longer than many a
run's work. Spark Connect has nothing but SQL: there the numbers are the rows of a DataFrame, and
what comes back is pickled. Little work needs no Spark: without one, it is done here.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pyarrow as pa

from kraftlog.garbage import not_looked_for_in_what_is_there
from kraftlog.tables.parquet import AddedFile

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from typing_extensions import TypeIs

T = TypeVar("T")
Spark: TypeAlias = "SparkContext | SparkSession"
"""A classic Spark, or the session of a remote one. Little work does without, and imports neither."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file of a table that a task has written, and that waits for its commit."""

    table: str
    added: AddedFile
    row_count: int


def run_tasks(spark: "Spark | None", count: int, work: Callable[[int], Iterable[T]]) -> list[T]:
    """Run one task per number from 0 on, one after the other where there is no Spark; what all of
    them yield.
    """
    if count == 0 or spark is None:
        return [done for number in range(count) for done in work(number)]
    if _is_remote(spark):
        return _by_rows(spark, count, work)
    return _by_rdd(spark, count, work)


def setting_of(spark: Spark, key: str, default: str) -> str:
    """A setting as its owner chose it."""
    settings = spark.conf if _is_remote(spark) else spark.getConf()
    return settings.get(key, default) or default


def _is_remote(spark: Spark) -> "TypeIs[SparkSession]":
    """Whether tasks go to a remote Spark; the other one is this machine's or cluster's."""
    from pyspark import SparkContext

    return not isinstance(spark, SparkContext)


def _by_rdd(spark: "SparkContext", count: int, work: Callable[[int], Iterable[T]]) -> list[T]:
    def task(numbers: Iterable[int]) -> Iterable[T]:
        with not_looked_for_in_what_is_there():
            for number in numbers:
                yield from work(number)

    return spark.parallelize(range(count), count).mapPartitions(task).collect()


def _by_rows(spark: "SparkSession", count: int, work: Callable[[int], Iterable[T]]) -> list[T]:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with not_looked_for_in_what_is_there():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    done = pickle.dumps(list(work(number)))
                    yield pa.RecordBatch.from_pydict({"number": [number], "done": [done]})

    numbers = spark.range(0, count, 1, count)
    told = numbers.mapInArrow(task, "number long, done binary").toArrow().sort_by("number")
    return [one for done in told.column("done").to_pylist() for one in pickle.loads(done)]
