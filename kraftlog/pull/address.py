"""Where a node listens, and what can go wrong on the way to it.

In: HOST:PORT,… as Kafka's tools take it. Out: addresses. Knows no library.
"""

from typing import NamedTuple

from kraftlog.errors import KraftlogError, UsageError


class PullError(KraftlogError):
    """The quorum cannot be pulled; the sentence says why, and what to do."""


class Unreachable(PullError):
    """Nobody answers at an address, or the connection broke: worth another try."""


class Address(NamedTuple):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_addresses(text: str) -> tuple[Address, ...]:
    """HOST:PORT,HOST:PORT,…; an IPv6 host stands in brackets.

    Raises UsageError for anything else."""
    found = []
    for part in text.split(","):
        host, _, port = part.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise UsageError(
                f"{part.strip()!r} is not HOST:PORT; name controllers as c1:9093,c2:9093"
            )
        found.append(Address(host, int(port)))
    return tuple(found)
