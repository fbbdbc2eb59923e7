"""Whatever lies in a file, the work and the memory that its audit takes stay below a line through
its size. Counted are steps, bytes read and bytes unpacked, so that no clock decides.

In: files of one kind of replica's files, made of hostile pieces again and again. Out: nothing,
where the whole audit stays below the line. A walk that looks at its window anew after each bad
batch, a bomb without a limit, a parser that copies its rest: each is far above it at these sizes.
"""

import sys
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kraftlog.log import codecs, storage
from kraftlog.log.resync import Search, _nothing_seen
from kraftlog.state.encode import encode_batch
from tests.benchmark.hostile import bad_crcs, bombs, empty_records, many_elements, no_ops
from tests.property.engines import sealed
from tests.property.test_fuzz import MEMORY
from tests.unit.audit_logs import NO_PRODUCERS, Node, audit, healthy_log

STEPS, STEPS_PER_BYTE, STEPS_PER_CHARACTER = 300_000, 10, 25
"""Calls. Two texts are read by a character at a time, the others and batches as a whole."""
READ, READ_PER_BYTE = 100_000, 12
UNPACKED, UNPACKED_PER_BYTE = 1 << 20, 6 * codecs.RATIO_LIMIT
MEMORY_FREE, MEMORY_PER_BYTE = 32 << 20, 8 * codecs.RATIO_LIMIT
POOLS: list[pa.MemoryPool] = []
"""To the end of the process: a column that a cache of ours keeps goes back to the pool that it came from,
and pyarrow does not hold that one for it.
"""


def unreadable_records(count: int) -> bytes:
    """A batch of records that are no records, under a CRC that is right."""
    head = bytearray(encode_batch([], 0, 1, 1))
    head[23:27] = (count - 1).to_bytes(4, "big")
    head[57:61] = count.to_bytes(4, "big")
    return sealed(bytes(head) + b"\x08\x00\x00\x00\x02" * count)


def far_header(size: int) -> bytes:
    """A header that claims so many bytes, which may follow or not."""
    head = bytearray(no_ops(1))
    head[8:12] = size.to_bytes(4, "big")
    return bytes(head)


BATCHES: dict[str, bytes] = {
    "good": no_ops(1),
    "bad crc": bad_crcs(1, 1),
    "far header": far_header(5000),
    "header far beyond": far_header(1 << 30),
    "negative length": no_ops(1)[:8] + b"\xff\xff\xff\xff" + no_ops(1)[12:],
    "cut": no_ops(1)[:-7],
    "zeros": bytes(71),
    "magic": b"\x00" * 16 + b"\x02" * 30,
    "text": b"what is this doing here, nobody knows ",
    "empty records": empty_records(200),
    "unreadable records": unreadable_records(150),
    "no-ops": no_ops(60),
    "elements": many_elements(400),
    "bomb gzip": bombs(1, "gzip"),
    "bomb snappy": bombs(1, "snappy in blocks")[:20_000],
    "bomb lz4": bombs(1, "lz4"),
    "bomb zstd": bombs(1, "zstd"),
}
TEXTS = [
    *(b"[", b'{"a":', b'{"leaderEpoch":1,', b"1 2\n", b"9" * 40, b"a=\\\n", b"\\u0041", b"\\"),
    *(b"\x00", b"\xff", b"\n", b"a=b\r", b"#\n", b'"\\ud800",', b'{"voterId":1},', b"- - -\n"),
]
FILES = {
    "quorum-state": b'{"currentVoters":[',
    "leader-epoch-checkpoint": b"0\n100000\n",
    "partition.metadata": b"version: 0\n",
    f"{6:020d}.index": b"",
    f"{6:020d}.timeindex": b"",
    f"{12:020d}.snapshot": NO_PRODUCERS,
    "../meta.properties": b"node.id=1\n",
    "../server.properties": b"a=b\n",
}


@dataclass
class Cost:
    """What an audit took."""

    steps: int = 0
    read: int = 0
    unpacked: int = 0
    memory: int = 0


@contextmanager
def counted(cost: Cost) -> Iterator[None]:
    """Count calls, bytes and the most memory while the block lasts."""
    was_read, was_unpacked = storage.LocalBytes.read, codecs.decompress

    def read(self: storage.LocalBytes, position: int, size_bytes: int) -> bytes:
        found = was_read(self, position, size_bytes)
        cost.read += len(found)
        return found

    def decompress(codec: int, packed: bytes, limit: int) -> bytes:
        # What goes beyond the limit has been unpacked, too.
        cost.unpacked += limit
        found = was_unpacked(codec, packed, limit)
        cost.unpacked += len(found) - limit
        return found

    def step(frame: FrameType, event: str, argument: Any) -> None:
        cost.steps += event in ("call", "c_call")

    arrow, was_pool = pa.proxy_memory_pool(pa.system_memory_pool()), pa.default_memory_pool()
    POOLS.append(arrow)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage.LocalBytes, "read", read)
        patch.setattr(codecs, "decompress", decompress)
        pa.set_memory_pool(arrow)
        tracemalloc.start()
        sys.setprofile(step)
        try:
            yield
        finally:
            sys.setprofile(None)
            cost.memory = tracemalloc.get_traced_memory()[1] + arrow.max_memory()
            tracemalloc.stop()
            pa.set_memory_pool(was_pool)


def cost_of(root: Path, name: str, raw: bytes) -> Cost:
    """The cost of the audit of a node, one of whose files holds some bytes."""
    node = Node(root, 1)
    node.write(healthy_log())
    (node.folder / name).write_bytes(raw)
    cost = Cost()
    with counted(cost):
        audit(root)
    return cost


def assert_below_the_line(name: str, raw: bytes, steps_per_byte: int) -> None:
    where = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="kraftlog-line-", dir=where) as folder:
        cost = cost_of(Path(folder), name, raw)
    size = len(raw)
    assert cost.steps <= STEPS + steps_per_byte * size, (cost, size)
    assert cost.read <= READ + READ_PER_BYTE * size, (cost, size)
    assert cost.unpacked <= UNPACKED + UNPACKED_PER_BYTE * size, (cost, size)
    assert cost.memory <= MEMORY_FREE + MEMORY_PER_BYTE * size, (cost, size)


def repeated(pieces: list[bytes], size: int) -> bytes:
    whole = b"".join(pieces)
    return (whole * (size // len(whole) + 1))[:size]


UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck))
SIZES = st.sampled_from([40_000, 80_000, 160_000])


@given(
    name=st.sampled_from([f"{12:020d}.log", f"{12:020d}-{2:010d}.checkpoint"]),
    pieces=st.lists(st.sampled_from(sorted(BATCHES)), min_size=1, max_size=4),
    size=SIZES,
)
@example(f"{12:020d}.log", ["bad crc"], 160_000)
@example(f"{12:020d}.log", ["good", "bad crc", "far header"], 160_000)
@example(f"{12:020d}.log", ["far header", "cut"], 160_000)
@settings(UNHURRIED, max_examples=20)
def test_files_of_batches(name: str, pieces: list[str], size: int) -> None:
    raw = repeated([BATCHES[one] for one in pieces], size)
    assert_below_the_line(name, raw, STEPS_PER_BYTE)


@given(
    name=st.sampled_from(sorted(FILES)),
    pieces=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3),
    size=SIZES,
)
@settings(UNHURRIED, max_examples=15)
def test_files_of_text(name: str, pieces: list[bytes], size: int) -> None:
    raw = FILES[name] + repeated(pieces, size)
    assert_below_the_line(name, raw, STEPS_PER_CHARACTER)


def test_a_walk_that_forgets_is_above_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the property is for: a search that looks at the same places again and again."""
    was = Search.next_batch

    def forgetful(self: Search, position: int) -> int:
        self._known, self._seen = None, _nothing_seen()
        return was(self, position)

    monkeypatch.setattr(Search, "next_batch", forgetful)
    raw = repeated([BATCHES["bad crc"]], 20_000)
    with pytest.raises(AssertionError):
        assert_below_the_line(f"{12:020d}.log", raw, STEPS_PER_BYTE)
