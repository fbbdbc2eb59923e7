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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import Decoded
from kraftlog.log.segment import Limits, Window, walk
from kraftlog.log.storage import open_file
from kraftlog.message.catalogue import spec_of
from kraftlog.relations import payload_name
from kraftlog.state.arrow_events import data_of

CLEAR = Redactor(None)

Row = dict[str, Any]


def decoded(path: Path) -> Iterator[tuple[Window, Decoded]]:
    """Every window of a file with its records as Arrow columns: what a run's tasks do."""
    with open_file(str(path)) as file:
        for found in walk(file):
            if isinstance(found, Window):
                yield found, decode_window(found, None, CLEAR, Limits().decompressed_size_bytes)


def ours(path: Path) -> int:
    """Decode every record of a file; how many there were. This is what is timed."""
    return sum(
        table.num_rows
        for _, one in decoded(path)
        for table in (*one.records.values(), *one.control.values())
    )


def rows(path: Path) -> Iterator[Row]:
    """The same decoding as rows of the `records` command, secrets revealed, to compare answers."""
    for window, one in decoded(path):
        places = zip(window.batches.batch_ids, window.batches.positions.tolist(), strict=True)
        at = dict(places)
        found = [
            (at[row["batch_id"]], row["record_index"], row, is_control)
            for tables, is_control in ((one.records, False), (one.control, True))
            for table in tables.values()
            for row in table.to_pylist()
        ]
        for position, _, row, is_control in sorted(found, key=lambda item: item[:2]):
            yield _row(path, position, row, is_control)


def _row(path: Path, position: int, row: Row, is_control: bool) -> Row:
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
    wall, cpu, count = [], [], 0
    for _ in range(chosen.passes):
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        count = ours(chosen.path)
        wall.append(time.perf_counter() - wall_start)
        cpu.append(time.process_time() - cpu_start)
    print(json.dumps({"records": count, "wall_seconds": wall, "cpu_seconds": cpu}))


if __name__ == "__main__":
    main()
