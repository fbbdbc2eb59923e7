"""What several checks derive: voters, bounds of the high watermark, roles, truncation, and the
runner itself.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kraftlog.audit.check import BadRow, Check, NotApplicable
from kraftlog.audit.collect import collect
from kraftlog.audit.run import audit_quorum, limited
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.describe import read_described
from kraftlog.quorum.divergence import relation, truncation_offset
from kraftlog.quorum.evidence import Described, QuorumEvidence
from kraftlog.quorum.model import Quorum
from tests.unit.audit_logs import NO_OP, START_MS, Batch, Node, healthy_log, leader_change, quorum

LATER = START_MS + 60_000


def evidence_of(root: Path) -> QuorumEvidence:
    return collect(find_replicas([str(root)]), Limits(), Redactor(b"k" * 32))


def quorum_of(root: Path) -> Quorum:
    return Quorum(evidence_of(root))


def test_a_majority_that_agrees_bounds_what_is_committed(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    bounds = quorum_of(tmp_path).bounds
    assert (bounds.lower, bounds.upper, bounds.majority) == (12, 12, 2)
    assert "a majority of the voters" in bounds.lower_reason


def test_with_one_voter_only_its_snapshot_is_certain(tmp_path: Path) -> None:
    Node(tmp_path, 1).write(healthy_log())
    found = quorum_of(tmp_path)
    assert (found.bounds.lower, found.bounds.upper) == (6, None)
    assert found.bounds.missing_voters == (2, 3)
    assert found.role(found.replicas[0]) == "voter"


def test_an_older_epoch_counts_only_under_one_of_the_newest(tmp_path: Path) -> None:
    # Voters 1 and 3 share epoch 2, but an observer has seen epoch 3, whose leader is missing.
    for number in (1, 3):
        Node(tmp_path, number).write(healthy_log())
    observer = Node(tmp_path, 9)
    observer.write([*healthy_log()[:-1], leader_change(11, 3, 2, LATER)])
    assert quorum_of(tmp_path).bounds.lower == 6


def test_describe_makes_the_bounds_exact(tmp_path: Path) -> None:
    Node(tmp_path, 1).write(healthy_log())
    evidence = replace(evidence_of(tmp_path), described=Described(9))
    assert Quorum(evidence).bounds.lower == Quorum(evidence).bounds.upper == 9


def test_describe_is_read_in_both_of_its_forms() -> None:
    status = "LeaderId:   2\nLeaderEpoch: 4\nHighWatermark: 1806\nCurrentVoters: [1,2,3]\n"
    assert read_described(status) == Described(1806, 2, 4, (1, 2, 3))
    newer = 'HighWatermark: 5\nCurrentVoters: [{"id": 1, "endpoints": []}]\n'
    assert read_described(newer).voters == (1,)
    assert read_described("nothing of the kind").high_watermark is None


def test_truncation_follows_the_epochs(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[2].append(Batch(12, 2, (NO_OP, NO_OP), None, LATER))
    nodes[0].append(leader_change(12, 3, 1, LATER))
    found = quorum_of(tmp_path)
    logs = found.by_label
    assert truncation_offset(logs["3"], logs["1"]) == 12
    assert truncation_offset(logs["2"], logs["1"]) == 12
    assert truncation_offset(logs["1"], logs["2"]) == 12
    pair = found.comparisons["3", "1"]
    assert relation(pair, found.bounds.lower, tail=True) == "diverged_uncommitted"
    assert relation(found.comparisons["2", "1"], 12, tail=False) == "ahead_uncommitted"
    assert relation(found.comparisons["2", "1"], 13, tail=False) == "behind"


def test_a_log_of_another_cluster_is_compared_with_nobody(tmp_path: Path) -> None:
    quorum(tmp_path)
    stranger = Node(tmp_path, 4)
    stranger.write([leader_change(0, 1, 3), *(Batch(n, 1, (NO_OP,)) for n in range(1, 9))])
    stranger.meta(cluster="elsewhere")
    result = audit_quorum(evidence_of(tmp_path))
    critical = {one.check for one in result.findings if one.severity == "critical"}
    assert "cluster_id_agrees" in critical
    assert not critical & {"committed_data_consistent", "log_matching", "single_leader_per_epoch"}


def _breaks(quorum: Quorum) -> Iterator[BadRow]:
    yield BadRow("1", "told before it broke")
    raise RuntimeError("boom")


def _skips(quorum: Quorum) -> Iterator[BadRow]:
    raise NotApplicable("no files of that kind")
    yield  # type: ignore[unreachable]


def _fails(quorum: Quorum) -> Iterator[BadRow]:
    yield BadRow("2", "bad")


def test_a_broken_check_is_errored_and_hides_no_other(tmp_path: Path) -> None:
    quorum(tmp_path)
    evidence = evidence_of(tmp_path)
    checks = [
        Check("breaks", "info", "log", "-", "-", _breaks),
        Check("skips", "info", "log", "-", "-", _skips),
        Check("fails", "warning", "log", "-", "-", _fails),
    ]
    result = audit_quorum(evidence, checks=checks)
    assert [one.result for one in result.results] == ["errored", "skipped", "failed"]
    assert result.exit_code("critical") == 2
    assert result.exit_code("warning") == 1
    rows = list(result.rows())
    assert [row["result"] for row in rows] == ["failed", "failed", "errored", "skipped"]
    assert rows[0]["node_id"] == 2
    assert "boom" in rows[2]["message"]


def test_a_flood_is_counted_and_not_told() -> None:
    told = list(limited([BadRow("1", "bad", offset=n) for n in range(1000)]))
    assert len(told) == 20
    assert told[-1].evidence["more"] == 980
    assert "980 more" in told[-1].message


@pytest.mark.parametrize("count", [1, 200])
def test_a_batch_that_replicas_share_is_known_once(tmp_path: Path, count: int) -> None:
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(
            *(Batch(12 + n, 2, (b"\x01\xc0\x21\x00\x00",), None, LATER) for n in range(count))
        )
    evidence = evidence_of(tmp_path)
    unknown = [one for one in evidence.contents if one.issues]
    assert len(unknown) == count
    columns = [one.log.content for one in evidence.replicas]
    assert all(np.array_equal(columns[0], one) for one in columns)
