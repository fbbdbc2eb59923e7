"""Pieces of a snapshot → the whole file: `.part` → validated → renamed.

In: `Piece`s of FetchSnapshot answers, in any sizes, and a folder of one's own. Out: the checkpoint
under Kafka's name. A crash at any point leaves a `.part` that the next assembler goes on with, or
the whole file. Source: KIP-630 "Response Handling".
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kraftlog.decode.redaction import Redactor
from kraftlog.errors import KraftlogError
from kraftlog.log.directory import find_replicas
from kraftlog.log.names import checkpoint_name, classify
from kraftlog.log.segment import Limits
from kraftlog.pull.folder import open_own, rename, write_all
from kraftlog.quorum.collector import Collector
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.simulate.extent import SnapshotId
from kraftlog.simulate.snapshot_server import Piece


class AssemblyError(KraftlogError):
    """A piece that does not fit, or a whole that is no snapshot."""


@dataclass(frozen=True)
class Assembler:
    """Gathers one snapshot in `folder`; what its `.part` holds already counts as fetched."""

    folder: Path
    snapshot: SnapshotId

    @property
    def target(self) -> Path:
        return self.folder / checkpoint_name(self.snapshot.end_offset, self.snapshot.epoch)

    @property
    def part(self) -> Path:
        return self.target.with_name(self.target.name + ".part")

    @property
    def position(self) -> int:
        """Where the next piece begins."""
        return self.part.stat().st_size if self.part.exists() else 0

    def resume(self) -> Path | None:
        """The finished file where nothing is left to ask for: it is there, or its `.part` is whole
        and only the renaming is missing. Kafka's leader would refuse to be asked at its end.
        """
        if self.target.exists():
            return self.target
        return self._finish() if self.part.exists() and why_invalid(self.part) is None else None

    def take(self, piece: Piece) -> Path | None:
        """Add a piece; the finished file where it was the last one.

        Raises AssemblyError for an error, for a piece of another snapshot, for a gap or an overlap,
        and for a whole that is not valid: its `.part` is then removed, as nothing tells which of
        its bytes are wrong.
        """
        self._check(piece)
        self.folder.mkdir(parents=True, exist_ok=True)
        with open_own(self.part, os.O_APPEND) as handle:
            write_all(handle, piece.content)
            os.fsync(handle)
        return self._finish() if self.position == piece.size_bytes else None

    def _check(self, piece: Piece) -> None:
        name = self.target.name
        if piece.error is not None:
            raise AssemblyError(f"{name}: the leader answered {piece.error}")
        if piece.snapshot != self.snapshot:
            raise AssemblyError(f"{name}: the piece is of another snapshot, {piece.snapshot.name}")
        if piece.position != self.position:
            raise AssemblyError(
                f"{name}: the piece begins at byte {piece.position}, and {self.position} is next"
            )
        end = piece.position + len(piece.content)
        if end > piece.size_bytes:
            raise AssemblyError(f"{name}: {end} bytes are more than its {piece.size_bytes}")

    def _finish(self) -> Path:
        """Validate, rename, and make the name last."""
        reason = why_invalid(self.part)
        if reason is not None:
            self.part.unlink()
            raise AssemblyError(f"{self.target.name}: {reason}; it must be fetched again")
        rename(self.part, self.target)
        return self.target


def why_invalid(fetched: Path) -> str | None:
    """Why a fetched file is no snapshot (CRCs, records, header, footer); None where it is one. Kafka itself
    compares only the size, and finds the rest when it loads the file.
    """
    (one,) = find_replicas([str(fetched)])
    parsed = classify(fetched.name.removesuffix(".part"))
    collector = Collector(Limits(), Redactor(None))
    found = collector.snapshot(replace(one.files[0], parsed=parsed))
    return SnapshotView(one.label, found, tuple(collector.contents)).why_incomplete


def transfer(assembler: Assembler, answer: Callable[[int], Piece]) -> Path:
    """Ask for the piece at each position until the snapshot is there; a file that is there already
    is not asked for.

    Raises AssemblyError as `Assembler.take` does, and for an empty answer that is not the last.
    """
    finished = assembler.resume()
    while finished is None:
        piece = answer(assembler.position)
        finished = assembler.take(piece)
        if finished is None and not piece.content:
            raise AssemblyError(f"{assembler.target.name}: an empty piece brings nothing new")
    return finished
