"""The state at an offset, with where it came from. `quorum.rebuild` builds it."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from kraftlog.state.replay import FaultyRecord
from kraftlog.state.state import State


@dataclass(frozen=True, slots=True)
class Image:
    """A state and its provenance: of which replica, at which offset, from which snapshot (its path;
    None: from the log's beginning), how new.

    `epoch` and `timestamp` (ms) are of the last batch below the offset, or the snapshot's.
    `committed_offset` bounds what is known to be committed: an image beyond it may hold records
    that the quorum takes back. `open_since` is the offset of a transaction's Begin without an End,
    whose records are not in the state. `inside`: the batch, offsets [start, end), in which the
    offset lies. `unread`: of an image at the log's end, what lies behind it and cannot be read.
    `clusters`: what the files beside it call its cluster.
    """

    state: State
    replica: str
    end_offset: int
    epoch: int
    timestamp: int
    base: str | None
    faults: tuple[FaultyRecord, ...]
    open_since: int | None
    committed_offset: int
    inside: tuple[int, int] | None
    unread: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()

    @property
    def is_committed(self) -> bool:
        """Whether every record in it is known to be committed."""
        return self.end_offset <= self.committed_offset

    @property
    def base_name(self) -> str | None:
        """The name of the snapshot that it begins with."""
        return None if self.base is None else PurePosixPath(self.base).name
