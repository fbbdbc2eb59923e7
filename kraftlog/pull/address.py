"""Where a node listens, and what can go wrong on the way to it.

In: HOST:PORT,… as Kafka's tools take it. Out: addresses. Knows no library.
"""

from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple

from kraftlog.errors import KraftlogError, UsageError
from kraftlog.plain import host_port


class PullError(KraftlogError):
    """The quorum cannot be pulled; the sentence says why, and what to do."""


class Unreachable(PullError):
    """Nobody answers at an address, the connection broke, or nobody leads yet: worth another try."""


class Address(NamedTuple):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return host_port(self.host, self.port)


def read_addresses(text: str) -> tuple[Address, ...]:
    """HOST:PORT,HOST:PORT,…; an IPv6 host stands in brackets.

    Raises UsageError for anything else."""
    found = []
    for part in text.split(","):
        host, _, port = part.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        is_port = port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16
        if not is_port or not _is_host(host):
            raise UsageError(
                f"{part.strip()!r} is not HOST:PORT; name controllers as c1:9093,c2:9093"
            )
        found.append(Address(host, int(port)))
    return tuple(found)


def _is_host(text: str) -> bool:
    """A name or an IPv4 address has no colon, an IPv6 address has some."""
    if ":" not in text:
        return bool(text)
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True
