"""`python -m tests.benchmark.hostile`: what files that mean ill cost, against their size.

Each case is made at two sizes, the second twice the first, and audited by a process of its own.
Out: a row per case and size with seconds of CPU, the most memory, and the answer's longest line.
The second must take at most some three times the first, and no line may be over a few KB, or the
program ends with an error: what is wrong with a file costs no more than a line through its size.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kraftlog.log.batch import HEADER_SIZE
from kraftlog.log.names import EPOCH_CHECKPOINT, LOG_FOLDER, segment_name
from kraftlog.message.catalogue import metadata_specs, spec_of
from kraftlog.state.encode import encode_batch, metadata_record
from tests.packing import packed
from tests.property.engines import sealed

NO_OP = metadata_record(metadata_specs()[20], 0, {})
LINE_LIMIT = 16_000
STEEPEST, START_SECONDS = 3.0, 2.0
"""Twice the size may take so many times as long, and so many seconds beside that: a process's start
and the noise of the machine.
"""


def no_ops(count: int) -> bytes:
    return encode_batch([NO_OP] * count, 0, 1, 1)


def bad_crcs(count: int, every: int) -> bytes:
    """Batches of one record, some of which have a wrong CRC."""
    raw = bytearray()
    for index in range(count):
        batch = bytearray(encode_batch([NO_OP], index, 1, 1))
        batch[-1] ^= index % every == 0
        raw += batch
    return bytes(raw)


def empty_records(count: int) -> bytes:
    """One batch of records of the least size: no key, no value."""
    head = bytearray(encode_batch([], 0, 1, 1))
    head[23:27] = (count - 1).to_bytes(4, "big")
    head[HEADER_SIZE - 4 :] = count.to_bytes(4, "big")
    return sealed(bytes(head) + b"\x0c\x00\x00\x00\x01\x01\x00" * count)


def many_elements(count: int) -> bytes:
    """One partition with so many replicas."""
    spec = spec_of("PARTITION_RECORD")
    assert spec is not None
    lists = {name: [1] for name in ("isr", "removingReplicas", "addingReplicas")}
    numbers = dict.fromkeys(("leader", "leaderEpoch", "partitionEpoch", "partitionId"), 0)
    data = {"topicId": "A" * 22, "replicas": [1] * count, "leaderRecoveryState": 0}
    return encode_batch([metadata_record(spec, 0, data | lists | numbers)], 0, 1, 1)


def bombs(count: int, packer: str) -> bytes:
    """Batches that unpack to a hundred times their size and more: zeros, and records."""
    zeros = sealed(encode_batch([NO_OP], 0, 1, 1) + bytes(8 << 20))
    whole = encode_batch([NO_OP] * 20_000, 0, 1, 1)
    return b"".join(packed(one, packer) for one in [zeros, whole] * count)


def noted_epochs(count: int) -> bytes:
    """An epoch checkpoint of so many epochs, whatever the log holds."""
    lines = "".join(f"{one} {one}\n" for one in range(count))
    return f"0\n{count}\n{lines}".encode()


@dataclass(frozen=True)
class Case:
    """A file of a replica's folder, made of `count` pieces, beside a log of one batch."""

    name: str
    make: Callable[[int], bytes]
    count: int
    file: str = segment_name(0)


CASES = (
    Case("every CRC is wrong", lambda count: bad_crcs(count, 1), 25_000),
    Case("one CRC in ten is wrong", lambda count: bad_crcs(count, 10), 25_000),
    Case("one batch of empty records", empty_records, 1_000_000),
    Case("one batch of no-ops", no_ops, 400_000),
    Case("one record of millions of elements", many_elements, 1_900_000),
    Case("an epoch checkpoint of many epochs", noted_epochs, 50_000, EPOCH_CHECKPOINT),
    *(
        Case(f"bombs, {packer}", lambda count, packer=packer: bombs(count, packer), 3)  # type: ignore[misc]
        for packer in ("gzip", "snappy in blocks", "lz4", "zstd")
    ),
)


@dataclass(frozen=True)
class Cost:
    """What one audit took."""

    size_bytes: int
    cpu_seconds: float
    memory_bytes: int
    longest_line: int


def cost_of(file: str, raw: bytes) -> Cost:
    """Audit one replica in a process of its own."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "1" / LOG_FOLDER
        folder.mkdir(parents=True)
        (folder / segment_name(0)).write_bytes(no_ops(1))
        (folder / file).write_bytes(raw)
        command = [sys.executable, "-m", "kraftlog", "audit", "--input", root, "--format", "json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            lines = child.stdout.read().splitlines()
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1) or not lines:
        raise SystemExit(f"the audit ended with {child.returncode} and {len(lines)} lines")
    for line in lines:
        json.loads(line)
    longest = max(map(len, lines))
    return Cost(len(raw), used.ru_utime + used.ru_stime, used.ru_maxrss << 10, longest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", help="only cases whose name holds this")
    chosen = parser.parse_args()
    print("| case | size | CPU | memory | longest line |\n|---|---|---|---|---|")
    steep = []
    for case in CASES:
        if chosen.case and chosen.case not in case.name:
            continue
        once, twice = (
            cost_of(case.file, case.make(count)) for count in (case.count, 2 * case.count)
        )
        for one in (once, twice):
            print(
                f"| {case.name} | {one.size_bytes:,} bytes | {one.cpu_seconds:.1f} s "
                f"| {one.memory_bytes / 1e9:.2f} GB | {one.longest_line:,} |",
                flush=True,
            )
        if twice.cpu_seconds > STEEPEST * once.cpu_seconds + START_SECONDS:
            steep.append(f"{case.name}: twice the size takes too much more")
        if twice.longest_line > LINE_LIMIT:
            steep.append(f"{case.name}: a line of {twice.longest_line:,} characters")
    if steep:
        raise SystemExit("\n".join(steep))


if __name__ == "__main__":
    main()
