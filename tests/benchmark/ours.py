"""Our side of the benchmark: the functions to adapt when the decoder changes, and a process.

`python -m tests.benchmark.ours FILE [--passes N]` decodes the file N times and prints one JSON line
with the record count and the seconds of each pass. With one pass, the whole process is the
counterpart of Kafka's dump tool; with several, the passes after the first are the counterpart of
Kafka's decoding loop in a warm virtual machine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import Decoded
from kraftlog.extras import leave_out
from kraftlog.garbage import seldom_looked_for
from kraftlog.log.segment import Limits, Window, walk
from kraftlog.log.storage import open_file
from kraftlog.message.catalogue import spec_of
from kraftlog.native.kernel import Numbers
from kraftlog.relations import payload_name

CLEAR = Redactor(None)

Row = dict[str, Any]


def decoded(path: Path) -> Iterator[tuple[Window, Decoded]]:
    """Every window of a file with its records as Arrow columns: what a run's tasks do."""
    with open_file(str(path)) as file:
        for found in walk(file):
            if isinstance(found, Window):
                limit = Limits().decompressed_size_bytes
                for part in decode_window(found, None, CLEAR, limit):
                    yield found, part


def ours(path: Path) -> int:
    """Decode every record of a file; how many there were. This is what is timed."""
    return sum(
        table.num_rows
        for _, one in decoded(path)
        for table in (*one.records.values(), *one.control.values())
    )


def sampled(path: Path, every: int) -> tuple[Counter[str], list[Row]]:
    """The same decoding, to compare answers: records per type, and every so many-th record in file
    order as the `records` command would give it, secrets revealed.
    """
    counts: Counter[str] = Counter()
    samples, seen = [], 0
    for window, one in decoded(path):
        assert not one.faults, one.faults[0]
        tables = [*((rows, False) for rows in one.records.values())]
        tables += [(rows, True) for rows in one.control.values()]
        starts = np.cumsum([0, *(rows.num_rows for rows, _ in tables)])
        places = [_places(window, rows) for rows, _ in tables]
        positions, indexes = (np.concatenate([one[at] for one in places]) for at in (0, 1))
        order = np.lexsort((indexes, positions))
        for place in order[-seen % every :: every].tolist():
            table = int(np.searchsorted(starts, place, "right")) - 1
            rows, is_control = tables[table]
            (row,) = rows.slice(place - starts[table], 1).to_pylist()
            samples.append(_row(path, int(positions[place]), row, is_control))
        for rows, _ in tables:
            counts[str(rows.column("type")[0])] += rows.num_rows
        seen += len(order)
    return counts, samples


def _places(window: Window, rows: pa.RecordBatch) -> tuple[Numbers, Numbers]:
    """The positions of the batches of some records, and the records' places in them."""
    at = dict(zip(window.batches.batch_ids, window.batches.positions.tolist(), strict=True))
    ids = rows.column("batch_id")
    held = np.array([at.get(one, -1) for one in ids.dictionary.to_pylist()], np.int64)
    return held[ids.indices.to_numpy()], rows.column("record_index").to_numpy().astype(np.int64)


def _row(path: Path, position: int, row: Row, is_control: bool) -> Row:
    # What decoding does without is not part of the process that is timed.
    from kraftlog.state.arrow_events import data_of

    spec = spec_of(row["type"])
    data = None
    if spec is not None and row["raw"] is None:
        payload = row.get(payload_name(spec))
        data = data_of(spec, row["record_version"], payload)
    result = {
        "path": str(path),
        "position": position,
        "offset": row["offset"],
        "timestamp": round(row["timestamp"].timestamp() * 1000),
        "batch_leader_epoch": row["batch_leader_epoch"],
        "is_control": is_control,
        "type": row["type"],
        "record_version": row["record_version"],
        "data": data,
    }
    if row["unknown_tagged_fields"]:
        result["unknown_tagged_fields"] = row["unknown_tagged_fields"]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--passes", type=int, default=1)
    chosen = parser.parse_args()
    leave_out("pandas")
    wall, cpu, count = [], [], 0
    with seldom_looked_for():  # as each command does
        for _ in range(chosen.passes):
            wall_start, cpu_start = time.perf_counter(), time.process_time()
            count = ours(chosen.path)
            wall.append(time.perf_counter() - wall_start)
            cpu.append(time.process_time() - cpu_start)
    print(json.dumps({"records": count, "wall_seconds": wall, "cpu_seconds": cpu}))


if __name__ == "__main__":
    main()
