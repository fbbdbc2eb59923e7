"""The logs that are measured: written once by ScaleGen, kept in an ignored folder beside this file.

In: a case and a size. Out: one file, either a segment or a checkpoint.
"""

from __future__ import annotations

import shutil
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
    # Compressed logs hold many more records for their size.
    share: int = 1

    def file(self, size_bytes: int) -> Path:
        """The file of this case, written when it is not there yet."""
        target = size_bytes // self.share
        folder = DATA / f"{self.codec}-{target}"
        if not folder.exists():
            _generate(folder, self.codec, target)
        return max(folder.glob(f"*{self.suffix}"))


CASES = (
    Case("log", ".log"),
    Case("checkpoint", ".checkpoint"),
    Case("zstd log", ".log", codec="zstd", share=8),
)


def parse_size(text: str) -> int:
    """Bytes of `100M` and its like."""
    unit = UNITS.get(text[-1:].upper())
    return int(text) if unit is None else int(text[:-1]) * unit


def _generate(folder: Path, codec: str, size_bytes: int) -> None:
    megabytes = max(1, size_bytes >> 20)
    unfinished = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    kafka_judge.scale_gen(
        unfinished,
        size=size_bytes,
        codec=codec,
        topics=50 * megabytes,
        partitions=2000 * megabytes,
        brokers=max(5, 2 * megabytes),
        snapshotEvery=size_bytes // 2,
        segment=SEGMENT_BYTES,
    )
    unfinished.rename(folder)
