"""The digest of a state: SHA-256 over its canonical lines, kept up to date change by change.

Two images are equal exactly where their digests are. The lines are kept sorted, so that a digest
after every batch costs one pass of the hash and not one of the writer.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from hashlib import sha256

from kraftlog.state.declare import Data, Key
from kraftlog.state.state import Change, State
from kraftlog.state.write import IMAGE_TABLES, WriteLevels, canonical_line, image_record


def digest_of(lines: Iterable[str]) -> str:
    """SHA-256 over sorted canonical lines."""
    whole = sha256()
    for line in lines:
        whole.update((line + "\n").encode())
    return whole.hexdigest()


class Digest:
    """The canonical lines of a state that changes."""

    def __init__(self, state: State) -> None:
        self._lines: list[bytes] = []
        self._of: dict[tuple[str, Key], bytes] = {}
        self._rewrite(state)

    def update(self, state: State, changes: Iterable[Change]) -> None:
        """Follow changes that have been made to the state."""
        changed = list(changes)
        if (
            any(one.table == "features" for one in changed)
            and WriteLevels.of(state) != self._versions
        ):
            self._rewrite(state)
            return
        for table, key, _, after in changed:
            if table in IMAGE_TABLES:
                self._set(table, key, after)

    def hexdigest(self) -> str:
        """The digest now."""
        return sha256(b"".join(self._lines)).hexdigest()

    def _rewrite(self, state: State) -> None:
        self._versions = WriteLevels.of(state)
        self._of = {
            (table, key): line
            for table in IMAGE_TABLES
            for key, value in state.rows(table).items()
            if (line := self._line(table, value)) is not None
        }
        self._lines = sorted(self._of.values())

    def _line(self, table: str, value: Data) -> bytes | None:
        record = image_record(table, value, self._versions)
        return None if record is None else (canonical_line(record) + "\n").encode()

    def _set(self, table: str, key: Key, value: Data | None) -> None:
        old = self._of.pop((table, key), None)
        if old is not None:
            del self._lines[bisect_left(self._lines, old)]
        line = None if value is None else self._line(table, value)
        if line is not None:
            self._of[table, key] = line
            insort(self._lines, line)
