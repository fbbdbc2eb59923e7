"""Input roots of whole quorums: replicas of one generated log, some of them damaged, diverged, cut.

In: a size. Out: folders as `kraftlog run --input` takes them, written once beside the other data.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO

from kraftlog.log.batch import HEADER_SIZE, PREFIX_SIZE
from kraftlog.log.segment import Window, walk
from kraftlog.log.storage import open_file
from tests import kafka_judge
from tests.benchmark.inputs import busy_cluster, written_once
from tests.property.engines import sealed

LOG = "00000000000000000000.log"
_LONG = Struct(">q")
_TIMES = 27
"""Where a batch's base timestamp lies; its max timestamp follows."""
_DIVERGED = 3
_SHORT_SHARE = 100
"""A cut replica lacks the last hundredth of its log."""


def quorum(size_bytes: int) -> Path:
    """A root with replicas 1, 2 with a damaged batch in the middle, 3 with another tail; and beside
    it, in `twin`, an exact copy of 1, and in `cut`, 1 without its last hundredth.
    """
    return written_once(f"quorum-{size_bytes}", lambda root: _write(root, size_bytes))


def log_folder(replica: Path) -> Path:
    """Where the log of a replica lies."""
    return replica / kafka_judge.PARTITION


def _write(root: Path, size_bytes: int) -> None:
    first = log_folder(root / "replicas/1")
    first.mkdir(parents=True)
    kafka_judge.scale_gen(
        first,
        size=size_bytes,
        codec="none",
        snapshotEvery=size_bytes // 4,
        segment=1 << 30,
        **busy_cluster(size_bytes),
    )
    batches = list(_batches(first / LOG))
    epoch = max(epoch for _, _, epoch in batches)
    for place in ("replicas/2", "replicas/3", "twin/4", "cut/1"):
        shutil.copytree(first, log_folder(root / place))
    with (log_folder(root / "replicas/2") / LOG).open("r+b") as file:
        _damage(file, batches[len(batches) // 2][0])
    with (log_folder(root / "replicas/3") / LOG).open("r+b") as file:
        for position, size, _ in batches[-_DIVERGED:]:
            _tell_otherwise(file, position, size)
    end = batches[len(batches) - len(batches) // _SHORT_SHARE][0]
    for segment in log_folder(root / "cut/1").glob("*.log"):
        if segment.name == LOG:
            os.truncate(segment, end)
        else:
            segment.unlink()  # it lies behind the cut
    for place in ("replicas/1", "replicas/2", "replicas/3", "twin/4", "cut/1"):
        _identify(root / place, epoch)


def _batches(path: Path) -> Iterator[tuple[int, int, int]]:
    """Position, size and leader epoch of each batch."""
    with open_file(str(path)) as file:
        for found in walk(file):
            assert isinstance(found, Window), found
            sizes = found.batches.headers["length"].astype(int) + PREFIX_SIZE
            epochs = found.batches.headers["batch_leader_epoch"].tolist()
            positions = found.batches.positions.tolist()
            yield from zip(positions, sizes.tolist(), epochs, strict=True)


def _damage(file: BinaryIO, position: int) -> None:
    """Flip three bytes of a batch's records."""
    place = position + HEADER_SIZE + 9
    file.seek(place)
    flipped = bytes(byte ^ 0x55 for byte in file.read(3))
    file.seek(place)
    file.write(flipped)


def _tell_otherwise(file: BinaryIO, position: int, size: int) -> None:
    """The batch a second later, with a CRC that is right for it."""
    file.seek(position)
    batch = bytearray(file.read(size))
    for place in (_TIMES, _TIMES + 8):
        _LONG.pack_into(batch, place, _LONG.unpack_from(batch, place)[0] + 1000)
    file.seek(position)
    file.write(sealed(bytes(batch)))


def _identify(replica: Path, epoch: int) -> None:
    """The side files that name a node and what it knew of the quorum."""
    node = 9000 + int(replica.name) - 1
    (replica / "meta.properties").write_text(
        f"version=1\nnode.id={node}\ncluster.id=ZRMnDiaeTTeyp03kUua0OA\n"
    )
    known = {
        "leaderId": -1, "leaderEpoch": epoch, "votedId": -1, "data_version": 1,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA",
    }  # fmt: skip
    (log_folder(replica) / "quorum-state").write_text(json.dumps(known))
