"""Our side of the replay's benchmark: a log folder → every version of every object, in one process.

`python -m tests.benchmark.replay DIR [--last]` replays the log from its start, without snapshots,
and prints one JSON line: what is there at the end, to be held against Kafka's image. With `--last`
no versions of partitions are made but the last ones, as Kafka's image has them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.decode.redaction import Redactor
from kraftlog.extras import leave_out
from kraftlog.garbage import seldom_looked_for
from kraftlog.log.directory import Replica, find_replicas
from kraftlog.log.names import LOG
from kraftlog.state.fold import fold_last
from kraftlog.state.outline import Outline
from tests.golden.replica_fold import folded_history, histories

TABLES = {"topics": "TOPIC_RECORD", "partitions": "PARTITION_RECORD", "configs": "CONFIG_RECORD"}
EPOCHS = {"partition_epoch": "partitionEpoch", "leader_epoch": "leaderEpoch"}
PARTS = 8
"""So many folds, one after the other, as a run has shares."""
Answer = dict[str, int]


def ours(folder: Path, is_last: bool = False) -> Answer:
    """Fold the whole log, every version or the last ones of partitions alone; how many objects hold
    at its end, and the sums of their epochs.
    """
    answer: Counter[str] = Counter()
    fold = _last if is_last else histories
    for name, rows in folded_history(log_only(folder), Redactor(None), PARTS, fold=fold):
        if "valid_to_offset" in rows.schema.names:
            rows = rows.filter(pc.is_null(rows.column("valid_to_offset")))
        if name in TABLES:
            _count(answer, name, rows)
    return dict(answer)


def _last(outline: Outline, base: pa.Table, puts: pa.Table, changes: pa.Table) -> pa.Table:
    return fold_last(outline, base, puts, changes, None).rows


def _count(answer: Counter[str], name: str, held: pa.Table) -> None:
    answer[TABLES[name]] += held.num_rows
    for column, json_name in EPOCHS.items() if name == "partitions" else ():
        answer[json_name] += pc.sum(held.column(column)).as_py() or 0


def log_only(folder: Path) -> Replica:
    """The replica in a folder, without its checkpoints."""
    files = [file for path in folder.glob("*.log") for file in find_replicas([str(path)])[0].files]
    return Replica("log", str(folder), str(folder), tuple(one for one in files if one.kind == LOG))


def kafkas(rows: list[dict[str, Any]]) -> Answer:
    """The same of an image that Kafka's classes gave."""
    answer: Counter[str] = Counter()
    for row in rows:
        if row["type"] in TABLES.values():
            answer[row["type"]] += 1
        if row["type"] == "PARTITION_RECORD":
            for name in EPOCHS.values():
                answer[name] += row["data"][name]
    return dict(answer)


if __name__ == "__main__":
    leave_out("pandas")
    with seldom_looked_for():  # as each command does
        print(json.dumps(ours(Path(sys.argv[1]), sys.argv[2:] == ["--last"])))
