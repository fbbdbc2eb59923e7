"""The audit of whole disks over histories in which voters go on with older copies of their disks,
with empty ones, or with cut logs, and in which what was committed can be lost: the bounds hold what
was ever committed, and with all voters at hand nobody is restarted whose disk alone keeps a leader
from losing it.
"""

import copy
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kraftlog.audit.runner import audit_of
from kraftlog.quorum.committed import committed_in
from kraftlog.simulate.restart import Restart, restarts
from tests.property import raft
from tests.property.test_histories import seen_in, write, write_some

SEEDS = (*range(60), 1772, 521_684_370, 359_987_767)


def forgetful(seed: int) -> raft.Quorum:
    """Some time, then a backup, some more time; up to all voters lose something of their disks,
    and often they go on from there.
    """
    draw = random.Random(seed)
    count = draw.choice([3, 3, 3, 5])
    quorum = raft.Quorum(draw, {one: raft.Node() for one in range(1, count + 1)}, waits=True)
    quorum.observers = {number: raft.Node() for number in (11, 12)}
    for _ in range(draw.randint(15, 50)):
        quorum.step()
    backup = copy.deepcopy(quorum.nodes)
    for _ in range(draw.randint(5, 40)):
        quorum.step()
    for number in draw.sample(list(quorum.nodes), draw.choice([1, 1, 2, 2, count])):
        now = quorum.nodes[number]
        kept = now.log[: draw.randint(0, len(now.log))]
        cut = replace(now, log=kept, known=min(now.known, len(kept)), leads=False)
        old = replace(backup[number], leads=False)
        quorum.forget(number, draw.choice([old, raft.Node(), cut]))
    if draw.random() < 0.5:
        for one in quorum.nodes.values():
            one.leads = False
        for _ in range(draw.randint(1, 30)):
            quorum.step()
    for one in (quorum.nodes | quorum.observers).values():
        one.known = min(one.known, len(one.log))
    return quorum


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_committed_once_lies_within_the_bounds(seed: int, tmp_path: Path) -> None:
    quorum = forgetful(seed)
    disks = quorum.nodes | quorum.observers
    if not write_some(quorum, tmp_path, 0.95):
        return
    seen = seen_in(tmp_path)
    assert not [one for one in audit_of(seen).results if one.result == "errored"]
    lower, upper = seen.bounds.lower, seen.bounds.upper
    logs = [one.log for one in disks.values()]
    assert any(
        quorum.ever >= {*enumerate(log[:lower])} or quorum.cannot_be_undone(log[:lower])
        for log in logs
        if len(log) >= lower
    )
    assert upper is None or all(place < upper for place, _ in quorum.ever)
    if not seen.bounds.missing_voters and not seen.fork_starts:
        assert _survives(quorum, [one for one in restarts(seen) if one.order is not None])


@pytest.mark.parametrize("seed", [*range(6000, 6010), 852_549_283])
def test_no_copy_is_told_to_hold_more_than_was_committed(seed: int, tmp_path: Path) -> None:
    """Also where few copies are at hand, and some of them have nothing but a snapshot."""
    quorum = forgetful(seed)
    logs = {}
    for number, disk in (quorum.nodes | quorum.observers).items():
        if disk.epoch and quorum.random.random() < 0.6:
            write(quorum, number, disk, tmp_path)
            logs[str(number)] = disk.log
    if not logs:
        return
    seen = seen_in(tmp_path)
    for log in seen.peers:
        told = logs[log.label][: committed_in(seen, log.label).offset]
        assert quorum.ever >= {*enumerate(told)} or quorum.cannot_be_undone(told), log.label


@pytest.mark.parametrize(
    "seed", [*range(5000, 5030), 366_460_424, 411_583_465, 479_978_096, 542_939_476]
)
def test_no_answer_goes_by_what_a_folder_is_called(seed: int, tmp_path: Path) -> None:
    quorum = forgetful(seed)
    write_some(quorum, tmp_path)
    told = _answers(tmp_path)
    folders = sorted(tmp_path.iterdir(), reverse=True)
    for place, folder in enumerate(folders):
        folder.rename(tmp_path / f"copy-{place}")
    assert _answers(tmp_path) == told


def _answers(root: Path) -> tuple[object, ...]:
    """What is committed, what is critical, and which nodes may be restarted, by their ids."""
    seen = seen_in(root)
    critical = [one for one in audit_of(seen).findings if one.severity == "critical"]
    return (
        (seen.bounds.lower, seen.bounds.upper),
        sorted((one.check, one.row.offset or 0) for one in critical),
        sorted((one.node_id or 0, one.safety, one.lost_from or 0) for one in restarts(seen)),
    )


def _survives(quorum: raft.Quorum, rolling: list[Restart]) -> bool:
    """Whether a rolling restart keeps what was committed and is on some voter's disk: while the leader
    is down, nobody may be elected without it. Who restarts fetches from the leader, and who is waited
    for has done so; the others have not, at the worst.
    """
    logs = {number: node.log for number, node in quorum.nodes.items()}
    kept = quorum.ever & {one for log in logs.values() for one in enumerate(log)}

    def elected(down: int | None) -> list[int]:
        keys = {one: raft.Node(log).key for one, log in logs.items() if one != down}
        return [
            one
            for one in keys
            if sum(other <= keys[one] for other in keys.values()) >= quorum.majority
        ]

    able = [one for one in elected(None) if kept <= {*enumerate(logs[one])}]
    if not able:
        return True
    leader = max(able, key=lambda one: raft.Node(logs[one]).key)
    for number, reason in ((one.node_id, one.reason) for one in rolling if one.node_id in logs):
        if number == leader:
            awaited = re.search(r"wait for voters? (.*) to hold .* in place of", reason)
            for one in re.findall(r"\d+", awaited[1]) if awaited else ():
                logs[int(one)] = logs[leader]
            return all(kept <= {*enumerate(logs[one])} for one in elected(leader))
        logs[number] = logs[leader]
    return True
