"""The plan of a new quorum over histories in memory, of which some disks are at hand: what it calls
proven was committed, what it says was not committed was not, and whatever was committed and is not
kept is told to be left out, or to be out of sight.
"""

from pathlib import Path

import pytest

from kraftlog.errors import InputError
from kraftlog.quorum.model import Quorum
from kraftlog.recover.source import Cause, recovered
from tests.property import raft
from tests.property.test_forgetful import forgetful
from tests.property.test_histories import seen_in, write
from tests.unit.audit_logs import HEADER_SIZE, batch_starts


def _copied(quorum: raft.Quorum, root: Path, share: float, damaged: int = 0) -> Quorum:
    """The disks at hand; or their logs alone, each with so many batches that cannot be read."""
    disks = quorum.nodes | quorum.observers
    for number, disk in disks.items():
        if disk.epoch and quorum.random.random() < share:
            write(quorum, number, disk, root)
    if damaged:
        for path in root.rglob("*.checkpoint"):
            path.unlink()
        for path in sorted(root.rglob("*.log")):
            raw = bytearray(path.read_bytes())
            for start in quorum.random.sample(
                starts := batch_starts(raw), min(damaged, len(starts))
            ):
                raw[start + HEADER_SIZE] ^= 0xFF
            path.write_bytes(raw)
    return seen_in(root)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_committed_is_kept_or_told(seed: int, tmp_path: Path) -> None:
    quorum = raft.history(seed, observers=2, waits=True)
    logs = {str(one): disk.log for one, disk in (quorum.nodes | quorum.observers).items()}
    try:
        seen = _copied(quorum, tmp_path, 0.7)
        plan = recovered(seen)
    except InputError:
        return
    kept = {*enumerate(logs[plan.image.replica][: plan.image.end_offset])}
    told = set()
    for one in plan.left_out:
        span = range(one.start_offset, one.end_offset)
        held = {(at, logs[one.replica][at]) for at in span}
        assert one.cause != Cause.UNCOMMITTED or not held & quorum.ever
        assert not held & kept
        told |= held
    for log in seen.logs:
        lacking = {*enumerate(logs[log.label])} & quorum.ever - kept - told
        assert not lacking, log.label


@pytest.mark.parametrize("seed", [*range(20), 2855, 2881, 20760, 738_778_941, 224_163_179])
def test_what_is_proven_was_committed(seed: int, tmp_path: Path) -> None:
    """Also where voters have forgotten what they held, and both sides committed what they hold."""
    quorum = forgetful(seed)
    seen = _copied(quorum, tmp_path, 0.95)
    if all(log.is_empty for log in seen.logs):
        return
    plan = recovered(seen)
    log = (quorum.nodes | quorum.observers)[int(plan.image.replica)].log
    proven = log[: plan.proven.offset]
    assert quorum.ever >= {*enumerate(proven)} or quorum.cannot_be_undone(proven)


@pytest.mark.parametrize("seed", [*range(1000, 1030), 366_378_491])
def test_what_is_proven_of_logs_put_together_was_committed(seed: int, tmp_path: Path) -> None:
    """Each batch of them is that of the log from which it is taken."""
    quorum = raft.history(seed, observers=2, waits=True)
    logs = {str(one): disk.log for one, disk in (quorum.nodes | quorum.observers).items()}
    try:
        seen = _copied(quorum, tmp_path, 0.9, damaged=2)
        plan = recovered(seen)
    except InputError:
        return
    links = seen.chain
    taken = {
        at: logs[links.logs[int(links.log[link])].label][at]
        for link in range(len(links))
        for at in range(int(links.base[link]), int(links.end[link]))
    }
    if len(plan.logs_of) > 1:
        proven = [taken[at] for at in range(plan.proven.offset)]
        assert quorum.ever >= {*enumerate(proven)} or quorum.cannot_be_undone(proven)
