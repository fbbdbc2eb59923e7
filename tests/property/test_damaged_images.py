"""Whatever is damaged in a copy: what it says can be rebuilt can be, and is what the whole copy
gives.
"""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import pytest

from kraftlog.log.directory import find_replicas
from kraftlog.quorum.holdings import Held
from kraftlog.state.state import State
from tests.golden.cases import DATA
from tests.images import built, held_by
from tests.unit.audit_logs import batch_starts

CASES = (
    ("combined", "1"),
    ("isolated", "1"),
    ("legacy", "1"),
    ("synthetic-snapshots", "0"),
    ("synthetic-transactions", "0"),
    ("upgraded-3.9", "1"),
)
"""Where Kafka's own snapshots are what the log gives."""
KNOWN_VOTERS = 10
"""Below this offset the voters of a new quorum are in its first checkpoint alone."""


@cache
def whole(case: str, node: str) -> Held:
    (found,) = find_replicas([str(DATA / case / "replicas" / node)])
    return held_by(found)


@cache
def state_of(case: str, node: str, offset: int) -> State:
    return built(whole(case, node), offset).state


def flip(raw: bytearray, chance: Random) -> None:
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)


def flip_in_header(raw: bytearray, chance: Random) -> None:
    """Some bytes of a header no CRC covers."""
    start = chance.choice(batch_starts(bytes(raw)) or [0])
    raw[min(start + chance.randrange(21), len(raw) - 1)] ^= 1 << chance.randrange(8)


def cut(raw: bytearray, chance: Random) -> None:
    del raw[chance.randrange(len(raw)) :]


def zero(raw: bytearray, chance: Random) -> None:
    at = chance.randrange(len(raw))
    end = min(len(raw), at + chance.choice([1, 50, 4096]))
    raw[at:end] = bytes(end - at)


def repeat_batch(raw: bytearray, chance: Random) -> None:
    start, end = _batch(raw, chance)
    raw[start:start] = raw[start:end]


def drop_batch(raw: bytearray, chance: Random) -> None:
    start, end = _batch(raw, chance)
    del raw[start:end]


def _batch(raw: bytearray, chance: Random) -> tuple[int, int]:
    starts = batch_starts(bytes(raw))
    bounds = [*starts, len(raw)] if starts else [0, len(raw)]
    index = chance.randrange(len(bounds) - 1)
    return bounds[index], bounds[index + 1]


DAMAGES = (flip, flip_in_header, cut, zero)
OF_LOGS = (*DAMAGES, repeat_batch, drop_batch)
"""That a whole batch of a checkpoint is gone, or there twice, nothing in it says."""


@pytest.mark.parametrize("seed", range(40))
def test_no_state_of_a_damaged_copy_is_another_one(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    case, node = chance.choice(CASES)
    root = tmp_path / node
    shutil.copytree(DATA / case / "replicas" / node, root)
    files = [one for one in sorted(root.rglob("*")) if one.suffix in (".log", ".checkpoint")]
    for _ in range(chance.choice([1, 1, 2, 3])):
        damage_one(chance.choice(files), chance)
    (found,) = find_replicas([str(root)])
    held = held_by(found)
    for low, high in held.ranges:
        for offset in {low, high, chance.randint(low, high)}:
            state = built(held, offset).state
            assert offset < KNOWN_VOTERS or state == state_of(case, node, offset)


def damage_one(path: Path, chance: Random) -> None:
    raw = bytearray(path.read_bytes() if path.exists() else b"")
    if not raw:
        return
    path.chmod(0o644)
    if chance.random() < 0.1:
        path.unlink()
        return
    choices: tuple[Callable[[bytearray, Random], None], ...] = (
        OF_LOGS if path.suffix == ".log" else DAMAGES
    )
    chance.choice(choices)(raw, chance)
    path.write_bytes(raw)
