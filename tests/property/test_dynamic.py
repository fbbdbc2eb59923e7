"""The audit over histories of a quorum whose voters change, some disks left out, some lost for good,
some nodes stopped: nothing is critical, the committed interval holds the truth, and a restart loses
what it says.
"""

from pathlib import Path

import pytest

from kraftlog.audit.runner import audit_of
from kraftlog.simulate.restart import restarts
from kraftlog.simulate.troubles import Safety
from tests.property import raft
from tests.property.dynamic_raft import dynamic, node_of, write_disk
from tests.property.test_histories import seen_in


@pytest.mark.parametrize("seed", [*range(40), 346, 186_745_998, 488_197_111])
@pytest.mark.parametrize("losing", [False, True])
def test_nothing_legal_is_critical_while_voters_change(
    seed: int, losing: bool, tmp_path: Path
) -> None:
    quorum = dynamic(seed, losing)
    quorum.stopped = quorum.random.choice([0, 0.9])
    share = quorum.random.choice([1, 0.6])
    disks = {number: one for number, one in quorum.disks.items() if one.epoch}
    copied = {str(node_of(n)): n for n in disks if quorum.random.random() < share}
    if not copied:
        return
    for number in copied.values():
        write_disk(quorum, number, tmp_path)
    seen = seen_in(tmp_path)
    result = audit_of(seen)
    assert not [one for one in result.results if one.result == "errored"]
    assert not [one.row.message for one in result.findings if one.severity == "critical"]

    lower, upper = seen.bounds.lower, seen.bounds.upper
    assert any(quorum.cannot_be_undone(one.log[:lower]) for one in quorum.disks.values())
    assert upper is None or len(quorum.committed) <= upper
    logs = {label: quorum.disks[number].log for label, number in copied.items()}
    for label, start in seen.tail_starts.items():
        is_committed = raft.shared(logs[label], quorum.committed) > start
        assert not is_committed or label not in seen.never_committed
    for one in restarts(seen):
        log = logs[one.replica]
        leaves = raft.shared(log, quorum.committed)
        is_apart = leaves < min(len(log), len(quorum.committed))
        assert one.safety != Safety.UNSAFE, one.reason
        assert not is_apart or one.safety != Safety.SAFE, one.reason
        if is_apart and one.safety == Safety.LOSES:
            assert one.lost_from == leaves
