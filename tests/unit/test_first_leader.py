"""The first leader of a log, as Kafka 3.3 to 3.5 lets it begin: its LeaderChange, dated to the election,
may come behind the first records that it wrote (KAFKA-15345). Seen on quorums of 3.3.2, 3.4.1 and 3.5.2.
"""

from dataclasses import replace
from pathlib import Path

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.model import Quorum
from tests.collecting import collect
from tests.unit.audit_logs import NO_OP, START_MS, Batch, audit, healthy_log, leader_change, quorum


def test_a_leader_change_behind_the_first_records_is_no_step_back(tmp_path: Path) -> None:
    for node in quorum(tmp_path):
        first = [Batch(0, 1, (NO_OP,), None, START_MS + 97), leader_change(1, 1, 1)]
        rest = [Batch(2, 1, (NO_OP,), None, START_MS + 98), *healthy_log()[2:]]
        node.write([*first, *rest])
    told = {one.check for one in audit(tmp_path).findings}
    assert not told & {"timestamps_monotonic", "leader_change_starts_epoch"}
    model = Quorum(collect(find_replicas([str(tmp_path)]), Limits(), Redactor(None)))
    assert [one.leaders for one in model.logs] == [{1: 1, 2: 2}] * 3


def test_another_record_that_is_older_is_one(tmp_path: Path) -> None:
    for node in quorum(tmp_path):
        first = [Batch(0, 1, (NO_OP,), None, START_MS + 97), Batch(1, 1, (NO_OP,))]
        rest = [Batch(2, 1, (NO_OP,), None, START_MS + 98), *healthy_log()[2:]]
        node.write([*first, *rest])
    assert "timestamps_monotonic" in {one.check for one in audit(tmp_path).findings}


def test_a_first_record_that_does_not_decode_is_not_said_to_be_another_one(tmp_path: Path) -> None:
    """What it is, is not known: `record_decodes` tells of it."""
    for node in quorum(tmp_path):
        elected = leader_change(12, 3, 1, START_MS + 20_000)
        node.append(replace(elected, values=(elected.values[0][:-1],)))
    told = {one.check for one in audit(tmp_path).findings}
    assert "record_decodes" in told
    assert "leader_change_starts_epoch" not in told
