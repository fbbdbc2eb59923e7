"""The golden cases: metadata logs in the repository and the answers of Kafka's own classes.

`data/<case>/replicas/<node>/` is a node's metadata directory, `data/<case>/expected/<node>/` what
Kafka's own classes read in it (those of 4.4.0 in the cases that it wrote, else of 4.3.1),
`data/<case>/scenario.json` (real quorums only) what was done to the cluster. A missing folder
raises: a golden test fails without its data, it never skips.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]

DATA = Path(__file__).parent / "data"
PARTITION = "__cluster_metadata-0"

KAFKA_4_4 = ("ghosts-4.4", "offline", "unregistered-4.4", "voter-readded", "voter-replaced")
"""The cases of a quorum of Kafka 4.4.0."""

NODES: dict[str, tuple[str, ...]] = {
    "combined": ("1",),
    "ghosts-4.4": ("1", "2", "3", "4", "5", "11", "12"),
    "isolated": ("1", "2", "3", "11", "12"),
    "isolated-healed": ("1", "2", "3", "11", "12"),
    "lagging": ("1", "2", "3", "11", "12"),
    "lagging-caughtup": ("1", "2", "3", "11", "12"),
    "legacy": ("1", "2", "3", "11", "12"),
    "offline": ("1", "2", "3", "11", "12", "13", "14", "15"),
    "steady-live": ("1", "2", "3", "11", "12", "13", "14"),
    "unregistered-4.4": ("1", "2", "3", "4", "5", "11", "12"),
    "upgraded-3.9": ("1", "2", "3", "11", "12"),
    "voter-readded": ("1", "2", "3", "11", "12"),
    "voter-replaced": ("1", "2", "3", "11", "12"),
    "synthetic-client-batches": ("0",),
    "synthetic-compress-gzip": ("0",),
    "synthetic-compress-lz4": ("0",),
    "synthetic-compress-snappy": ("0",),
    "synthetic-compress-zstd": ("0",),
    "synthetic-every-control": ("0",),
    "synthetic-every-type": ("0",),
    "synthetic-fuzz-1": ("0",),
    "synthetic-semantics": ("0",),
    "synthetic-snapshots": ("0",),
    "synthetic-torn": ("0",),
    "synthetic-transactions": ("0",),
}
CASES = tuple(NODES)


class GoldenMissing(Exception):
    """A golden folder or file is not where it must be."""


@dataclass(frozen=True)
class Replica:
    """One node's copy of the metadata log in one case."""

    case: str
    node: str

    def __str__(self) -> str:
        return f"{self.case}/{self.node}"

    @property
    def release(self) -> str:
        """The release of Kafka whose classes gave the expected answers."""
        return "4.4.0" if self.case in KAFKA_4_4 else "4.3.1"

    @property
    def folder(self) -> Path:
        """The node's metadata directory, which holds meta.properties where a real node wrote it."""
        return _present(DATA / self.case / "replicas" / self.node)

    @property
    def log_dir(self) -> Path:
        return _present(self.folder / PARTITION)

    def file(self, name: str) -> Path:
        """The file that an expected row names: in the log's folder or (the bootstrap) above it."""
        inside = self.log_dir / name
        return inside if inside.exists() else _present(self.folder / name)

    def batches(self) -> list[Row]:
        """A row per record batch of every segment and checkpoint, and a summary row per file."""
        return self._expected("batches")

    def records(self) -> list[Row]:
        """A row per record, and a summary row per file."""
        return self._expected("records")

    @property
    def has_image(self) -> bool:
        """False for the two logs that are for decoders only: replaying them makes no sense."""
        return self.case not in ("synthetic-every-type", "synthetic-every-control")

    def image(self) -> list[Row]:
        """The state at the end of the log: type, version, data; sorted by canonical text."""
        return self._expected("image")

    def image_digests(self) -> list[Row]:
        """SHA-256 of the state after every batch, and of each snapshot met on the way."""
        return self._expected("image-digests")

    def _expected(self, what: str) -> list[Row]:
        path = DATA / self.case / "expected" / self.node / f"{what}.jsonl.gz"
        with gzip.open(_present(path), "rt", encoding="utf-8", newline="\n") as lines:
            return [json.loads(line) for line in lines]


REPLICAS = tuple(Replica(case, node) for case, nodes in NODES.items() for node in nodes)
REPLAYED = tuple(one for one in REPLICAS if one.case != "synthetic-every-type")
"""Without a log for decoders: half of its records are faults, most of which lose a whole delta of Kafka's."""


def replicas_of(case: str) -> tuple[Replica, ...]:
    """All nodes of one case."""
    return tuple(Replica(case, node) for node in NODES[case])


def scenario(case: str) -> Row:
    """What was done to a real quorum and what is true of it."""
    path = _present(DATA / case / "scenario.json")
    row: Row = json.loads(path.read_text(encoding="utf-8"))
    return row


def _present(path: Path) -> Path:
    if not path.exists():
        raise GoldenMissing(f"{path} is missing: the golden data belong to the repository")
    return path
