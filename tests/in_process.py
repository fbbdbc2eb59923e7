"""Spark's tasks in this process: what a pipeline asks of a SparkContext, and no more."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from kraftlog.config import load_options
from kraftlog.pipeline.run import Run
from kraftlog.tables.lake import Lake
from tests.lakes import FOR_SPARK


class InProcess(SparkContext):
    """Stands for a SparkContext that has started."""

    def __init__(self) -> None:
        """Start nothing."""

    def getConf(self) -> dict[str, str]:  # type: ignore[override]
        return {}

    def parallelize(self, numbers: Iterable[int], _: int) -> "_Numbers":  # type: ignore[override]
        return _Numbers(list(numbers))


@dataclass(frozen=True)
class _Numbers:
    numbers: list[int]

    def mapPartitions(self, task: Callable[[Iterable[int]], Iterable[Any]]) -> "_Done":
        return _Done([one for number in self.numbers for one in task([number])])


@dataclass(frozen=True)
class _Done:
    found: list[Any]

    def collect(self) -> list[Any]:
        return self.found


def run_of(root: Path, lake: Path, **limits: int) -> Run:
    """A run over a root, whose tasks stay in this process."""
    named: dict[str, object] = {
        "input": [str(root)],
        "lake": str(lake),
        "redaction_key": "one for all lakes".ljust(32, "."),
    }
    options = load_options({**named, **FOR_SPARK, **limits})
    return Run(options, Lake(str(lake)), InProcess)
