"""What a quorum's copies tell does not hang on what lies beside them: on the order in which they are
given, or on a further copy that shows nothing new. Who can win an election is told by the logs.
"""

import random
import shutil
from pathlib import Path

import pytest

from kraftlog.audit.runner import audit_of
from kraftlog.quorum.model import Quorum
from kraftlog.simulate.plan_rows import Plans
from kraftlog.simulate.restart import restarts
from kraftlog.simulate.troubles import Safety
from tests.property import raft
from tests.property.dynamic_raft import dynamic, node_of, write_disk
from tests.property.test_forgetful import forgetful
from tests.property.test_histories import seen_in, write, write_some

BROKER = 77
"""A node that no quorum here has."""


def forgotten(seed: int, root: Path) -> raft.Quorum:
    """A quorum in which some have lost what they held, and the copies of most of its nodes."""
    quorum = forgetful(seed)
    for number, disk in (quorum.nodes | quorum.observers).items():
        if disk.epoch and quorum.random.random() < 0.9:
            write(quorum, number, disk, root)
    return quorum


def answers_of(seen: Quorum) -> list[list[str]]:
    """What is told, each in an order of its own."""
    found = [str((one.severity, one.check, one.row)) for one in audit_of(seen).findings]
    plans = map(str, restarts(seen))
    return [sorted(found), sorted(plans), [str((seen.bounds.lower, seen.bounds.upper))]]


@pytest.mark.parametrize("seed", range(4000, 4006))
def test_copies_tell_the_same_in_any_order(seed: int, tmp_path: Path) -> None:
    forgotten(seed, tmp_path)
    folders = sorted(tmp_path.iterdir())
    if not folders:
        return
    given = [folders, random.Random(seed).sample(folders, len(folders))]
    first, other = (answers_of(seen_in(*one)) for one in given)
    assert first == other


@pytest.mark.parametrize("seed", range(4100, 4108))
def test_a_copy_that_shows_nothing_new_takes_nothing_away(seed: int, tmp_path: Path) -> None:
    quorum = raft.history(seed, observers=2, waits=True)
    disks = quorum.nodes | quorum.observers
    copied = write_some(quorum, tmp_path, 0.8)
    if not copied:
        return
    before = seen_in(tmp_path)
    asked = {one.replica: one.safety for one in restarts(before)}
    one = disks[quorum.random.choice(copied)]
    held = quorum.random.randint(0, one.known)
    shown = raft.Node(one.log[:held], one.log[held - 1] if held else 0, known=held)
    write(quorum, BROKER, shown, tmp_path)
    after = seen_in(tmp_path)
    assert after.bounds.lower >= before.bounds.lower
    assert not [one.row for one in audit_of(after).findings if one.severity == "critical"]
    for answer in restarts(after):
        was = asked.get(answer.replica, answer.safety)
        assert (was, answer.safety) != (Safety.UNKNOWN, Safety.SAFE), answer.reason
        assert (was, answer.safety) != (Safety.SAFE, Safety.UNSAFE), answer.reason


@pytest.mark.parametrize("seed", range(4200, 4212))
def test_who_can_win_is_told_by_the_logs(seed: int, tmp_path: Path) -> None:
    """By the voters that each disk knows; those that were not copied may decide."""
    quorum = dynamic(seed, losing=bool(seed % 2))
    disks = {node_of(number): number for number, one in quorum.disks.items() if one.epoch}
    copied = [node for node in disks if quorum.random.random() < 0.9]
    if not copied:
        return
    for node in copied:
        write_disk(quorum, disks[node], tmp_path)
    for one in Plans(seen_in(tmp_path)).elections():
        number = disks[int(one.candidate)]
        voters, key = quorum.voters(number), quorum.disks[number].key
        if number not in voters:
            assert not one.can_win
            continue
        here = [node for node in copied if disks[node] in voters]
        grants = {node for node in here if quorum.disks[disks[node]].key <= key}
        assert {int(label) for label in one.granted_by} == grants
        is_sure, missing = len(grants) > len(voters) // 2, len(voters) - len(here)
        may_be = len(grants) + missing > len(voters) // 2
        assert one.can_win == (True if is_sure else None if may_be else False)


@pytest.mark.parametrize("seed", range(4300, 4310))
def test_a_copy_less_never_shows_more_to_be_committed(seed: int, tmp_path: Path) -> None:
    quorum = raft.history(seed, observers=2, waits=True)
    copied = write_some(quorum, tmp_path)
    if len(copied) < 2:
        return
    before = seen_in(tmp_path).bounds.lower
    shutil.rmtree(tmp_path / str(quorum.random.choice(copied)))
    assert seen_in(tmp_path).bounds.lower <= before
