"""The whole audit on folders as nobody would leave them: any damage to any file, whatever it is.

In: a small quorum made up here, one voter of it alone, and one of Kafka's own with a compressed
log. Out: nothing, where every audit ends with its checks judged, in exit code 0, 1 or 2, and each
finding within a few KB.

`make fuzz` runs it for a minute with other damages each time, `make fuzz SECONDS=36000` for hours:
it prints how many it has tried, and at a failure Hypothesis prints the smallest damage that shows
it.
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from kraftlog.errors import KraftlogError
from kraftlog.log.batch import CRC_POSITION, LENGTH_POSITION, PREFIX_SIZE
from tests.golden.cases import Replica
from tests.property.engines import sealed
from tests.unit.audit_logs import Node, audit, batch_starts, healthy_log, quorum

LINE_LIMIT = 16_000
"""Characters of a finding: message, evidence and all."""
CASES = ("made", "made", "made", "made", "alone", "alone", "alone", "compressed")
"""The compressed log takes three times as long as the others."""
KINDS = (
    *("flip", "write", "cut", "drop", "insert", "zero", "repeat", "reseal"),
    *("rename", "remove", "exchange"),
)
MEMORY = Path("/dev/shm")
"""Where there is one, folders that live for milliseconds never reach a disk."""


class Damage(NamedTuple):
    """What is done to a file: `at` and `size` are shares of it, in thousandths."""

    file: int
    kind: str
    at: int
    size: int
    data: bytes


THOUSANDTHS = st.integers(0, 1000)
DATA = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"\xff" * 8, b"\x80" * 12, b"\x7f" + b"\xff" * 7, bytes(16), b"1e999", b"["]),
)
DAMAGES = st.lists(
    st.builds(Damage, st.integers(0, 99), st.sampled_from(KINDS), THOUSANDTHS, THOUSANDTHS, DATA),
    min_size=1,
    max_size=6,
)


def changed(raw: bytes, damage: Damage) -> bytes:
    """The file's bytes after some damage."""
    at = len(raw) * damage.at // 1000
    end = min(len(raw), at + max(1, len(raw) * damage.size // 1000))
    match damage.kind:
        case "flip":
            place = min(at, len(raw) - 1)
            bit = bytes([raw[place] ^ (1 << damage.size % 8)]) if raw else b""
            return raw[:place] + bit + raw[place + 1 :]
        case "write":
            return raw[:at] + damage.data + raw[at + len(damage.data) :]
        case "cut":
            return raw[:at]
        case "drop":
            return raw[:at] + raw[end:]
        case "insert":
            return raw[:at] + damage.data + raw[at:]
        case "zero":
            return raw[:at] + bytes(end - at) + raw[end:]
        case "repeat":
            return raw[:end] + raw[at:]
        case _:
            return resealed(raw, damage)


def resealed(raw: bytes, damage: Damage) -> bytes:
    """One batch with other bytes in it, under a CRC that is right."""
    starts = batch_starts(raw)
    if not starts:
        return raw
    start = starts[damage.at % len(starts)]
    end = start + PREFIX_SIZE + int.from_bytes(raw[start + LENGTH_POSITION :][:4], "big")
    batch = bytearray(raw[start:end])
    place = CRC_POSITION + 4 + (len(batch) - CRC_POSITION - 4) * damage.size // 1001
    batch[place : place + max(1, len(damage.data))] = damage.data or b"\x00"
    return raw[:start] + sealed(bytes(batch)) + raw[end:]


def damaged(root: Path, damages: list[Damage]) -> None:
    for damage in damages:
        files = sorted(one for one in root.rglob("*") if one.is_file())
        if not files:
            return
        path = files[damage.file % len(files)]
        if damage.kind == "remove":
            path.unlink()
        elif damage.kind == "rename":
            path.rename(path.with_name(f"{damage.at:020d}-{damage.size:010d}.checkpoint.part"))
        elif damage.kind == "exchange":
            other = files[(damage.file + damage.at) % len(files)]
            raw, theirs = path.read_bytes(), other.read_bytes()
            path.write_bytes(theirs)
            other.write_bytes(raw)
        else:
            path.write_bytes(changed(path.read_bytes(), damage))


@contextmanager
def copied(case: str) -> Iterator[Path]:
    """A fresh copy of a case."""
    where = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="kraftlog-fuzz-", dir=where) as folder:
        root = Path(folder)
        if case == "made":
            quorum(root)
        elif case == "alone":
            Node(root, 1).write(healthy_log())
        else:
            replica = Replica("synthetic-compress-zstd", "0")
            shutil.copytree(replica.folder, root / "0", copy_function=shutil.copy)
        yield root


def assert_audited(case: str, damages: list[Damage]) -> None:
    with copied(case) as root:
        damaged(root, damages)
        try:
            result = audit(root)
        except KraftlogError:
            return  # one sentence, and nothing is judged
        broken = [one for one in result.results if one.result == "errored"]
        assert not broken, broken
        assert result.exit_code() in (0, 1)
        for row in result.rows():
            line = json.dumps(row)
            assert len(line) < LINE_LIMIT, line[:300]
            line.encode()


@given(case=st.sampled_from(CASES), damages=DAMAGES)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_damage_to_any_file_is_judged(case: str, damages: list[Damage]) -> None:
    assert_audited(case, damages)


FOUND = {
    "partitions change after the year 9999": ("compressed", [Damage(0, "reseal", 87, 69, b"\x01")]),
    "a replica of another cluster has a log of its own": (
        "made",
        [
            Damage(29, "flip", 345, 0, b""),
            Damage(42, "cut", 0, 0, b""),
            Damage(98, "exchange", 281, 0, b""),
        ],
    ),
}
"""What `make fuzz` has found."""


@pytest.mark.parametrize("name", FOUND)
def test_what_broke_an_audit_once_is_judged(name: str) -> None:
    assert_audited(*FOUND[name])


ROUND = 200


def main(seconds: float) -> None:
    """Go on with other damages until the time is over."""
    until, first = time.monotonic() + seconds, time.time_ns() & 0xFFFFFFFF
    folders = damages_done = 0

    def counted(case: str, damages: list[Damage]) -> None:
        nonlocal folders, damages_done
        folders, damages_done = folders + 1, damages_done + len(damages)
        assert_audited(case, damages)

    number = first
    while time.monotonic() < until:
        one_round = given(case=st.sampled_from(CASES), damages=DAMAGES)(counted)
        with_settings = settings(
            max_examples=ROUND,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )(one_round)
        seed(number)(with_settings)()
        number += 1
        told = f"{folders:,} folders with {damages_done:,} damages"
        print(f"{told}, seeds {first} to {number - 1}: all judged", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
