"""The voters of the new quorum, as a person names them: `1@host:9093:directory-id`.

In: words of a command line. Out: `NewVoter`s, or one sentence. Source: KIP-853 (the form of
`kafka-storage format --initial-controllers`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kraftlog.errors import UsageError
from kraftlog.message.spec import ZERO_UUID
from kraftlog.state.declare import Data

_FORM = re.compile(r"(?P<id>\d+)@(?P<host>\[[^\]]+\]|[^:\[\]]+):(?P<port>\d+):(?P<directory>.+)")
_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
_LAST = "AQgw"
"""The last of 22 letters holds 2 of the 128 bits: with any other, one id would have several texts."""
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class NewVoter:
    """One voter: its id, where it listens, and the id of the directory that it gets."""

    id: int
    host: str
    port: int
    directory_id: str

    def record(self, listener: str) -> Data:
        """It as an element of a KRaftVoters record."""
        return {
            "voterId": self.id,
            "voterDirectoryId": self.directory_id,
            "endpoints": [{"name": listener, "host": self.host, "port": self.port}],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }


def voters_of(words: Iterable[str]) -> Sequence[NewVoter]:
    """The voters that the words name; several may stand in one word, with commas.

    Raises UsageError where one is no voter, or two are the same."""
    found = [_voter(text) for word in words for text in word.split(",") if text]
    if not found:
        raise UsageError("no voter is named: say --voters 1@host:9093:directory-id …")
    for kind, values in (
        ("node id", [one.id for one in found]),
        ("directory id", [one.directory_id for one in found]),
        ("address", [(one.host, one.port) for one in found]),
    ):
        if len(set(values)) < len(values):
            raise UsageError(f"two voters have the same {kind}")
    return sorted(found, key=lambda one: one.id)


def _voter(text: str) -> NewVoter:
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is not a voter: write 1@host:9093:directory-id")
    directory, port = found["directory"], int(found["port"])
    if not 0 < port <= _LAST_PORT:
        raise UsageError(f"{text!r}: {port} is not a port")
    if not _UUID.fullmatch(directory) or directory == ZERO_UUID or directory[-1] not in _LAST:
        raise UsageError(
            f"{directory!r} is not a directory id; kafka-storage random-uuid makes one"
        )
    return NewVoter(int(found["id"]), found["host"].strip("[]"), port, directory)
