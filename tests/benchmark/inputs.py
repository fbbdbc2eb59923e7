"""The logs that are measured: written once by ScaleGen, kept in an ignored folder beside this file.

In: a case and a size. Out: one file, either a segment or a checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests import kafka_judge

DATA = Path(__file__).parent / ".data"
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# One file may hold all of a log: Kafka's own readers address 2 GiB.
SEGMENT_BYTES = 2_000_000_000


@dataclass(frozen=True)
class Case:
    """What is measured: which kind of file, and how its batches are compressed."""

    name: str
    suffix: str
    codec: str = "none"
    # Compressed logs, and idle ones, take longer for their size.
    share: int = 1
    # Hours in which next to nothing happens: batches of one record, most of them a NoOpRecord.
    is_idle: bool = False

    def file(self, size_bytes: int) -> Path:
        """The file of this case, written when it is not there yet."""
        target = size_bytes // self.share
        folder = written_once(
            f"{'idle' if self.is_idle else self.codec}-{target}",
            lambda out: _generate(
                out, self.codec, target, _IDLE if self.is_idle else busy_cluster(target)
            ),
        )
        return max(folder.glob(f"*{self.suffix}"))


CASES = (
    Case("log", ".log"),
    Case("checkpoint", ".checkpoint"),
    Case("idle log", ".log", share=4, is_idle=True),
    Case("zstd log", ".log", codec="zstd", share=8),
)


def parse_size(text: str) -> int:
    """Bytes of `100M` and its like."""
    unit = UNITS.get(text[-1:].upper())
    return int(text) if unit is None else int(text[:-1]) * unit


_LARGEST = 100
_IDLE = {"topics": 50, "partitions": 500, "brokers": 5, "noops": 4000, "wave": 1}


def busy_cluster(size_bytes: int) -> dict[str, int]:
    """How large a cluster is that writes so many bytes: beyond 100 MB the log grows, and the
    cluster hardly does.
    """
    megabytes = max(1, size_bytes >> 20)
    held = min(megabytes, _LARGEST)
    topics = 50 * min(megabytes, 4 * _LARGEST)
    return {"topics": topics, "partitions": 2000 * held, "brokers": max(5, 2 * held)}


def written_once(name: str, write: Callable[[Path], None]) -> Path:
    """The folder of that name; where it is not there yet, what `write` puts into it, as a whole."""
    folder = DATA / name
    if not folder.exists():
        unfinished = folder.with_name(f"{name}.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        write(unfinished)
        unfinished.rename(folder)
    return folder


def _generate(folder: Path, codec: str, size_bytes: int, cluster: dict[str, int]) -> None:
    kafka_judge.scale_gen(
        folder,
        size=size_bytes,
        codec=codec,
        snapshotEvery=size_bytes // 2,
        segment=SEGMENT_BYTES,
        **cluster,
    )
