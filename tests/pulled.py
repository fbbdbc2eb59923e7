"""What a pull's tests share: the bytes of a log by offsets, read without kraftlog, and calls."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kraftlog.cli import main
from kraftlog.pull.address import Address, read_addresses
from kraftlog.pull.connection import Connection
from kraftlog.pull.folder import pulled_folder
from kraftlog.pull.leader import LeaderClient
from kraftlog.pull.puller import Puller
from kraftlog.pull.security import Security
from tests.kafka_judge import PARTITION


def batches(folder: Path) -> Iterator[tuple[int, int, bytes]]:
    """(base offset, offset after the last, bytes) of each batch of a log folder's segments."""
    for segment in sorted(folder.glob("*.log")):
        raw, at = segment.read_bytes(), 0
        while at + 61 <= len(raw):
            base, length = struct.unpack_from(">qi", raw, at)
            (last_delta,) = struct.unpack_from(">i", raw, at + 23)
            if length <= 0 or at + 12 + length > len(raw):
                break
            yield base, base + last_delta + 1, raw[at : at + 12 + length]
            at += 12 + length


def log_bytes(folder: Path, start: int = 0, end: int | None = None) -> bytes:
    """The bytes of the batches in [start, end) of a replica's folder."""
    found = batches(folder / PARTITION)
    return b"".join(
        raw for base, after, raw in found if base >= start and (end is None or after <= end)
    )


def ends(folder: Path) -> tuple[int, int]:
    """Where a replica's log begins and ends."""
    found = list(batches(folder / PARTITION))
    return found[0][0], found[-1][1]


def assert_same_bytes(pulled: Path, disk: Path) -> None:
    """What was pulled lies on a disk, byte for byte."""
    start, end = ends(pulled)
    assert log_bytes(pulled) == log_bytes(disk, start, end)
    assert end > start


def described(folder: Path) -> dict[str, str]:
    """The lines of a saved describe, or of the tool's own output."""
    return status((folder / "quorum-describe").read_text(encoding="utf-8"))


def status(text: str) -> dict[str, str]:
    """The `Name: value` lines of a describe."""
    return dict(re.findall(r"^(\w+):\s+(.*)$", text, re.MULTILINE))


def pull(addresses: str, out: Path, *more: object) -> int:
    """Run `kraftlog pull`."""
    words = ["pull", "--bootstrap-controller", addresses, "--out", str(out), *map(str, more)]
    return main(words)


def plaintext(address: Address) -> Connection:
    """A connection without TLS or SASL."""
    return Connection(address, Security())


def pull_once(
    addresses: str,
    out: Path,
    *,
    patience: float = 5.0,
    connect: Callable[[Address], Connection] = plaintext,
) -> None:
    """What the command does, with a patience and a way to connect of one's own."""
    client = LeaderClient(read_addresses(addresses), connect, patience_seconds=patience)
    try:
        client.meet()
        with pulled_folder(out) as folder:
            Puller(client, folder, lambda _: None).pull()
    finally:
        client.close()


def eventually(holds: Callable[[], object], seconds: float) -> bool:
    """Whether something comes to hold within a time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
