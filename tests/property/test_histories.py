"""The audit of whole disks over histories of a correct quorum, all copied at one moment, some left
out: nothing is critical, the committed interval holds the truth, and where a node's log leaves the
committed history, the restart plan says so.
"""

from pathlib import Path

import pytest

from kraftlog.audit.runner import audit_of
from kraftlog.config import default_thresholds
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.model import Quorum
from kraftlog.simulate.restart import restarts
from kraftlog.simulate.troubles import Safety
from tests.collecting import collect
from tests.property import raft
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    START_MS,
    Batch,
    Node,
    leader_change,
    snapshot,
    topic,
)

SEEDS = range(32)


def batches(quorum: raft.Quorum, log: list[int]) -> list[Batch]:
    """The records of a log, each a batch: an epoch begins with its leader's election. Later records
    of a log are of later times.
    """
    found: list[Batch] = []
    for offset, epoch in enumerate(log):
        ms = START_MS + 1000 * (100 * epoch + offset)
        if not found or found[-1].epoch != epoch:
            leader, granted = quorum.leaders[epoch], sorted(quorum.granted[epoch])
            one = leader_change(offset, epoch, leader, ms, granted, sorted(quorum.nodes))
        else:
            number = 64 * (epoch % 4) + offset % 64
            value = NO_OP if offset % 2 else topic(f"t{epoch}-{offset}", number)
            one = Batch(offset, epoch, (value,), None, ms)
        found.append(one)
    return found


def write(quorum: raft.Quorum, number: int, disk: raft.Node, root: Path) -> None:
    """A node's folder, some with a snapshot, some with a log that begins there."""
    draw, node, log = quorum.random, Node(root, number), batches(quorum, disk.log)
    start, end = 0, draw.randint(0, disk.known)
    if end and draw.random() < 0.5:
        last = log[end - 1]
        stored = [one for one in log[:end] if one.keys is None and one.values != (NO_OP,)]
        node.checkpoint(end, last.epoch).write_bytes(snapshot(stored, last.epoch, last.ms))
        start = end if draw.random() < 0.5 else 0
    node.segment(start).write_bytes(b"".join(one.raw() for one in log[start:]))
    begins = {one.epoch: one.base for one in reversed(log[start:])}
    if (
        start and not begins
    ):  # Kafka keeps the epoch in which a log ends that has no record any more
        begins[log[-1].epoch] = start
    node.epochs(sorted(begins.items()))
    # Who elects a leader hears of it when it writes: one may stop before.
    is_led = disk.voted is None or disk.epoch in disk.log
    node.quorum_state(
        leaderId=quorum.leaders.get(disk.epoch, -1) if is_led else -1,
        leaderEpoch=disk.epoch,
        votedId=-1 if is_led or disk.voted is None else disk.voted,
        currentVoters=[{"voterId": one} for one in sorted(quorum.nodes)],
    )
    node.meta()


def write_some(quorum: raft.Quorum, root: Path, share: float | None = None) -> list[int]:
    """The folders of all nodes that have begun, or of a share of them; whose they are."""
    disks = quorum.nodes | quorum.observers
    begun = (one for one in disks if disks[one].epoch)
    copied = [one for one in begun if share is None or quorum.random.random() < share]
    for number in copied:
        write(quorum, number, disks[number], root)
    return copied


def seen_in(*roots: Path) -> Quorum:
    """The quorum of the copies in some folders, with all that is asked of its state."""
    replicas, key = find_replicas([*map(str, roots)]), Redactor(b"k" * 32)
    return Quorum(collect(replicas, LIMITS, key, thresholds=default_thresholds()))


@pytest.mark.parametrize("seed", [*range(2000, 2040), 28_963_871])
def test_nothing_legal_is_critical_where_most_copies_are_missing(seed: int, tmp_path: Path) -> None:
    quorum = raft.history(seed, observers=2, waits=True)
    for number, disk in (quorum.nodes | quorum.observers).items():
        if disk.epoch and quorum.random.random() < 0.3:
            write(quorum, number, disk, tmp_path)
    if not list(tmp_path.iterdir()):
        return
    seen = seen_in(tmp_path)
    assert not [one.row for one in audit_of(seen).findings if one.severity == "critical"]
    assert seen.bounds.upper is None or len(quorum.committed) <= seen.bounds.upper


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_legal_is_critical(seed: int, tmp_path: Path) -> None:
    quorum = raft.history(seed, observers=2, waits=True)
    disks = quorum.nodes | quorum.observers
    copied = write_some(quorum, tmp_path, 0.9)
    if not copied:
        return
    seen = seen_in(tmp_path)
    result = audit_of(seen)
    assert not [one for one in result.results if one.result == "errored"]
    assert not [one for one in result.findings if one.severity == "critical"]

    lower, upper = seen.bounds.lower, seen.bounds.upper
    assert any(quorum.cannot_be_undone(one.log[:lower]) for one in disks.values())
    assert upper is None or len(quorum.committed) <= upper

    for label, start in seen.tail_starts.items():
        is_committed = raft.shared(disks[int(label)].log, quorum.committed) > start
        assert not is_committed or (len(copied) < len(disks) and label not in seen.never_committed)

    for one in restarts(seen):
        log = disks[int(one.replica)].log
        leaves = raft.shared(log, quorum.committed)
        is_apart = leaves < min(len(log), len(quorum.committed))
        assert one.safety != Safety.UNSAFE, one.reason
        if is_apart and one.safety == Safety.LOSES:
            assert one.lost_from == leaves
        assert not is_apart or one.safety != Safety.SAFE, one.reason
