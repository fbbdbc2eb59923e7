"""Fewer copies never prove more, nor something else: what is said of some of a quorum's copies is
not contradicted by all of them.
"""

from itertools import combinations

import pytest

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.model import Quorum
from kraftlog.simulate.restart import Restart, restarts
from kraftlog.simulate.troubles import NEVER_COMMITTED, Safety
from tests.collecting import collect
from tests.golden.cases import replicas_of


def seen_by(case: str, nodes: tuple[str, ...]) -> tuple[Quorum, dict[int | None, Restart]]:
    folders = [str(one.folder) for one in replicas_of(case) if one.node in nodes]
    quorum = Quorum(collect(find_replicas(folders), Limits(), Redactor(None), replay=False))
    return quorum, {one.node_id: one for one in restarts(quorum)}


@pytest.mark.parametrize("case", ["isolated", "upgraded-3.9", "voter-replaced"])
def test_some_copies_say_nothing_that_all_of_them_contradict(case: str) -> None:
    nodes = tuple(one.node for one in replicas_of(case))
    whole, told = seen_by(case, nodes)
    some = [one for count in range(1, len(nodes)) for one in combinations(nodes, count)]
    for held in some:
        quorum, found = seen_by(case, held)
        assert whole.bounds.upper is None or quorum.bounds.lower <= whole.bounds.upper, held
        assert quorum.bounds.upper is None or quorum.bounds.upper >= whole.bounds.lower, held
        for node, one in found.items():
            loses = told[node].safety in (Safety.LOSES, Safety.UNSAFE)
            assert not (one.safety == Safety.SAFE and loses), (held, one, told[node])
            if one.reason.endswith(NEVER_COMMITTED):
                assert told[node].reason.endswith(NEVER_COMMITTED), (held, one, told[node])
