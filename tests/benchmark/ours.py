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

Row = dict[str, Any]


def ours(path: Path) -> int:
    """Decode every record of a file; how many there were. This is what is timed."""
    return sum(1 for _ in rows(path))


def rows(path: Path) -> Iterator[Row]:
    """The same decoding as rows of the `records` command, secrets revealed, to compare answers."""
    from kraftlog.decode.listing import RecordFilter, record_rows
    from kraftlog.decode.redaction import Redactor
    from kraftlog.log.directory import find_replicas
    from kraftlog.log.segment import Limits

    yield from record_rows(find_replicas([str(path)]), Limits(), Redactor(None), RecordFilter())


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
