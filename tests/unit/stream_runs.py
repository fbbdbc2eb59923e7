"""Runs of a stream without Spark: its calls in Spark's order, with everything that Spark sends
between processes sent through JSON and pickle.
"""

import json
import pickle
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kraftlog.relations import all_relations
from kraftlog.source.datasource import KraftlogReader, KraftlogStreamReader, Offset

Rows = Counter[str]


def as_rows(batches: Iterable[pa.RecordBatch]) -> Rows:
    """Rows as text, with how often each occurs."""
    return Counter(
        json.dumps(row, default=str, sort_keys=True) for one in batches for row in one.to_pylist()
    )


def fields(rows: Rows, name: str) -> list[Any]:
    """One column of all rows, sorted."""
    return sorted(json.loads(row)[name] for row in rows.elements())


def options_of(root: Path, relation: str, **more: str) -> dict[str, str]:
    return {"path": str(root), "relation": relation, "redaction_key": "k" * 32, **more}


def batch_rows(root: Path, relation: str, **more: str) -> Rows:
    """What `spark.read` gives now."""
    columns = all_relations()[relation].schema.names
    reader = KraftlogReader(options_of(root, relation, **more), columns)
    return as_rows(one for part in reader.partitions() for one in reader.read(part))


class Stream:
    """A query with `availableNow` that is started again and again, on one checkpoint."""

    def __init__(
        self, root: Path, relation: str, columns: list[str] | None = None, **more: str
    ) -> None:
        self.options = options_of(root, relation, **more)
        self.columns = columns or all_relations()[relation].schema.names
        self.checkpoint: Offset | None = None
        self.rows: Rows = Counter()

    def reader(self) -> KraftlogStreamReader:
        return KraftlogStreamReader(self.options, self.columns)

    def plan(self) -> tuple[Offset, Offset, list[InputPartition]]:
        """The offsets of the next micro-batch, and its partitions."""
        reader = self.reader()
        reader.prepareForTriggerAvailableNow()
        start = reader.initialOffset() if self.checkpoint is None else self.checkpoint
        end = json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable())))
        assert reader.latestOffset(end, ReadAllAvailable()) == end
        parts = pickle.loads(pickle.dumps(reader.partitions(start, end)))
        return start, end, list(parts)

    def read(self, parts: Iterable[InputPartition]) -> Rows:
        executor = pickle.loads(pickle.dumps(self.reader()))
        return as_rows(one for part in parts for one in executor.read(part))

    def run(self) -> Rows:
        """One run: the rows that it adds."""
        _, self.checkpoint, parts = self.plan()
        added = self.read(parts)
        self.rows += added
        return added
