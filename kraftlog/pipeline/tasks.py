"""Work in Spark's tasks: one number per task, a few objects back.

In: a function of a number, which pickles. Out: what it yields, in the order of the numbers. The
rows that a task decodes or folds go from its process to files; what comes back tells which.
Spark's SQL takes no part in that: planning and compiling its first query takes longer than many a
run's work.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from pyspark import SparkContext

from kraftlog.tables.parquet import AddedFile

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file of a table that a task has written, and that waits for its commit."""

    table: str
    added: AddedFile
    row_count: int


def run_tasks(spark: SparkContext, count: int, work: Callable[[int], Iterable[T]]) -> list[T]:
    """Run one task per number from 0 on; what all of them yield."""

    def task(numbers: Iterable[int]) -> Iterable[T]:
        for number in numbers:
            yield from work(number)

    if count == 0:
        return []
    return spark.parallelize(range(count), count).mapPartitions(task).collect()
