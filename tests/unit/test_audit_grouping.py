"""The known differences: where Kafka's own result depends on how its loader groups batches, the
finding says so.

Each history is written to all voters; one snapshot holds what Kafka may make of it.
"""

from __future__ import annotations

import shutil
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from kraftlog.audit.grouping import (
    ABORTED,
    FORGOTTEN,
    KEEP_SCRAM,
    LEAVE_FILES,
    LEFT_CONFIGS,
    LEFT_OUT,
    LOST_SCRAM,
    SET_RIGHT,
    TAKEN_OVER,
    UNCLEARED,
    WRITTEN_SINCE,
)
from kraftlog.audit.runner import Finding
from kraftlog.message.catalogue import spec_of
from kraftlog.report.actions import action_of
from kraftlog.state.encode import metadata_record
from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    TRANSACTION,
    Batch,
    audit,
    change,
    elected_without,
    feature,
    found,
    healthy_log,
    healthy_state,
    overwrite,
    partition,
    quorum,
    remove_topic,
    snapshot,
    topic,
    voters_batch,
)
from tests.unit.faults.table import AT

LATER = START_MS + 60_000
STATE = healthy_state()
"""What a snapshot of the healthy log holds: the topics a, b and c."""
ASIDE = "Set it aside: the node then begins with its 00000000000000000006-0000000001.checkpoint."


def value(record_type: str, **data: Any) -> bytes:
    spec = spec_of(record_type)
    assert spec is not None
    raw = metadata_record(spec, 0, data).value
    assert raw is not None
    return raw


def config(name: str, policy: str | None = "delete") -> bytes:
    data = {"resourceType": 2, "resourceName": name, "name": "cleanup.policy", "value": policy}
    return value("CONFIG_RECORD", **data)


def scram(name: str) -> bytes:
    secrets = dict.fromkeys(("salt", "storedKey", "serverKey"), b64encode(b"x").decode())
    named = {"name": name, "mechanism": 1, "iterations": 4096}
    return value("USER_SCRAM_CREDENTIAL_RECORD", **named, **secrets)


def batch(base: int, *values: bytes) -> Batch:
    return Batch(base, 2, values, None, LATER + base)


def of_snapshot(tmp_path: Path, log: list[Batch], state: list[Batch]) -> list[Finding]:
    """What is said of a snapshot of controller 1 at the end of a history of all voters."""
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(*log)
    end = log[-1].end
    nodes[0].checkpoint(end, 2).write_bytes(snapshot([*STATE, *state], 2, log[-1].ms))
    return found(audit(tmp_path), "snapshot_equals_replay")


def test_configs_that_a_topic_left_behind(tmp_path: Path) -> None:
    log = [batch(12, config("short"), topic("short", 9)), batch(14, remove_topic(9))]
    (one,) = of_snapshot(tmp_path, log, [batch(0, config("short"))])
    assert (one.severity, one.row.replica, one.row.offset) == ("info", "1", 15)
    assert LEFT_CONFIGS in one.row.message


def test_configs_that_a_topic_takes_over(tmp_path: Path) -> None:
    """One topic has left them behind, and another one of that name is there now."""
    gone = [batch(12, config("short"), topic("short", 9)), batch(14, remove_topic(9))]
    state = [batch(0, topic("short", 8), config("short"))]
    (one,) = of_snapshot(tmp_path / "one", [*gone, batch(15, topic("short", 8))], state)
    assert one.severity == "critical"
    assert one.row.message.endswith(f"{TAKEN_OVER} {LEAVE_FILES}")
    assert ASIDE not in one.row.message
    log = [*gone, batch(15, topic("short", 8), change(1))]
    (one,) = of_snapshot(tmp_path / "two", log, state)
    assert one.row.message.endswith(f"{ASIDE} {UNCLEARED} {TAKEN_OVER}")
    log = [*gone, batch(15, topic("short", 8), topic("d", 7))]
    (one,) = of_snapshot(tmp_path / "and what nothing explains", log, state)
    assert one.row.message.endswith(ASIDE)


def test_configs_that_a_topic_took_over_until_they_were_set_right(tmp_path: Path) -> None:
    """Records have set and deleted them: the node's next snapshot agrees again, as long as it is
    whole.
    """
    nodes, taken = quorum(tmp_path), [batch(0, topic("short", 8), config("short"))]
    gone = [batch(12, config("short"), topic("short", 9)), batch(14, remove_topic(9))]
    again = batch(16, config("short"), config("short", None))
    for node in nodes:
        node.append(*gone, batch(15, topic("short", 8)), again)
    for end, state in ((16, taken), (18, [batch(0, topic("short", 8))])):
        nodes[0].checkpoint(end, 2).write_bytes(snapshot([*STATE, *state], 2, again.ms))
    (one,) = found(audit(tmp_path), "snapshot_equals_replay")
    assert (one.severity, one.row.offset) == ("info", 16)
    assert one.row.message.endswith(SET_RIGHT)
    newest = nodes[0].checkpoint(18, 2)
    newest.write_bytes(newest.read_bytes()[:-40])
    (one,) = found(audit(tmp_path), "snapshot_equals_replay")
    assert one.severity == "critical"
    assert one.row.message.endswith(f"{TAKEN_OVER} {LEAVE_FILES}")


def test_a_config_that_the_base_alone_could_have_taken_over(tmp_path: Path) -> None:
    """The history begins with a snapshot, and another replica stands by it: what the third one
    lacks may be what the two had left.
    """
    nodes, last = quorum(tmp_path), healthy_log()[-1].ms
    left = [*healthy_state(), batch(0, config("b"))]
    for node in nodes:
        node.append(batch(12, NO_OP))
        node.segment(0).unlink()
        node.checkpoint(6, 1).unlink()
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(left, 1, START_MS + 3000))
    nodes[1].checkpoint(12, 2).write_bytes(snapshot(left, 2, last))
    nodes[2].checkpoint(12, 2).write_bytes(snapshot(healthy_state(), 2, last))
    (one,) = found(audit(tmp_path), "snapshot_equals_replay")
    assert (one.severity, one.row.replica) == ("critical", "3")
    assert "of topic 'b' is missing" in one.row.message
    assert one.row.message.endswith(f"{TAKEN_OVER} {LEAVE_FILES}")


def test_a_config_that_differs_from_a_base_is_taken_over_by_nobody(tmp_path: Path) -> None:
    """Another value is not one that is missing."""
    nodes, last = quorum(tmp_path), healthy_log()[-1].ms
    for node in nodes:
        node.append(batch(12, NO_OP))
        node.segment(0).unlink()
        node.checkpoint(6, 1).unlink()
    held, other = ([*healthy_state(), batch(0, config("b", one))] for one in ("delete", "compact"))
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(held, 1, START_MS + 3000))
    nodes[1].checkpoint(12, 2).write_bytes(snapshot(held, 2, last))
    nodes[2].checkpoint(12, 2).write_bytes(snapshot(other, 2, last))
    (one,) = found(audit(tmp_path), "snapshot_equals_replay")
    assert (one.severity, one.row.replica) == ("critical", "3")
    assert one.row.message.endswith("Take the file of the same name from replica 2.")


def test_elrs_that_a_snapshot_left_out(tmp_path: Path) -> None:
    """Kafka leaves them out while their feature is off, and nothing else, and never while it is on."""
    on, off = (feature("eligible.leader.replicas.version", level) for level in (1, 0))
    first = batch(12, on, topic("d", 9), partition(9, [1, 2], [1], 1), change(9, isr=[1], elr=[2]))
    held, more = [topic("d", 9), partition(9, [1, 2], [1], 1, partition_epoch=1)], [topic("e", 8)]
    told = {}
    for name, turned, state in (("off", off, held), ("on", on, held), ("more", off, held + more)):
        log = [first, batch(16, turned), batch(17, on)]
        (one,) = of_snapshot(tmp_path / name, log, [batch(0, on, *state)])
        told[name] = one.severity, one.row.message
    assert told["off"][0] == "info"
    assert told["off"][1].endswith(LEFT_OUT)
    assert told["on"][0] == "critical"
    assert told["on"][1].endswith(f"{ASIDE} {UNCLEARED}")
    assert told["more"][0] == "critical"
    assert told["more"][1].endswith(ASIDE)


def test_a_scram_credential_that_was_lost(tmp_path: Path) -> None:
    remove = value("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", name="ann", mechanism=1)
    log = [batch(12, scram("ann")), batch(13, remove, scram("bob"))]
    (one,) = of_snapshot(tmp_path, log, [])
    # A user who cannot log in is bad enough, whoever lost the credential.
    assert one.severity == "critical"
    assert "SCRAM credential 1 bob is missing" in one.row.message
    assert one.row.message.endswith(f"wrong state. {LOST_SCRAM} {KEEP_SCRAM}")
    assert one.row.evidence["set_again"] == ["bob (SCRAM-SHA-256)"]
    assert action_of(one.as_row()) == "watch"


def test_a_config_that_is_taken_over_is_told_beside_the_users_that_were_set_again(
    tmp_path: Path,
) -> None:
    """Until the topic is there, nothing goes by the same config."""
    remove = value("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", name="ann", mechanism=1)
    nodes, left = quorum(tmp_path), batch(0, config("short"))
    lost = [batch(12, scram("ann")), batch(13, remove, scram("bob"))]
    gone = [batch(15, config("short"), topic("short", 9)), batch(17, remove_topic(9))]
    again = [batch(18, scram("bob")), batch(19, topic("short", 8))]
    for node in nodes:
        node.append(*lost, *gone, *again)
    nodes[0].checkpoint(18, 2).write_bytes(snapshot([*STATE, left], 2, gone[1].ms))
    nodes[0].checkpoint(20, 2).write_bytes(snapshot([*STATE, left, *again], 2, again[1].ms))
    first, second = sorted(
        found(audit(tmp_path), "snapshot_equals_replay"), key=lambda one: one.row.offset or 0
    )
    assert first.severity == "info"
    assert first.row.message.endswith(WRITTEN_SINCE)
    assert second.severity == "critical"
    assert second.row.message.endswith(f"{TAKEN_OVER} {LEAVE_FILES}")


def test_a_snapshot_of_another_log_is_set_aside_and_no_log_is_replaced(tmp_path: Path) -> None:
    """Of the same id in a file of this log, the end of the log is missing."""
    nodes = quorum(tmp_path)
    held = nodes[0].checkpoint(6, 1).read_bytes()
    nodes[0].checkpoint(50, 5).write_bytes(held)
    (one,) = found(audit(tmp_path), "snapshot_ahead_of_log")
    assert action_of(one.as_row()) == "snapshot"
    nodes[0].checkpoint(50, 5).write_bytes(snapshot(STATE, 5, START_MS + 60_000))
    (one,) = found(audit(tmp_path), "snapshot_ahead_of_log")
    assert action_of(one.as_row()) == "refetch"


@pytest.mark.parametrize(("begins", "asks"), [(12, "keep"), (13, "refetch")])
def test_no_log_is_replaced_that_gives_way_to_a_snapshot_of_its_quorum(
    begins: int, asks: str, tmp_path: Path
) -> None:
    """The others have dropped what its old log lacks, and go on from there, or further on."""
    first, *others = quorum(tmp_path)
    first.checkpoint(12, 2).write_bytes(snapshot(STATE, 2, healthy_log()[-1].ms))
    first.segment(6).unlink()
    first.epochs([(1, 0)])
    for node in others:
        for path in node.folder.glob("*.log"):
            path.unlink()
        node.segment(begins).write_bytes(Batch(begins, 2, (NO_OP,), None, LATER).raw())
        node.epochs([(2, begins)])
    (one,) = found(audit(tmp_path), "snapshot_ahead_of_log")
    assert action_of(one.as_row()) == asks


@pytest.mark.parametrize("end", [12, 14])
def test_a_snapshot_does_not_hold_what_nobody_else_does(end: int, tmp_path: Path) -> None:
    """The node led epoch 1, and wrote on alone, when epoch 2 began at offset 8."""
    first = quorum(tmp_path)[0]
    first.checkpoint(12, 2).write_bytes(snapshot(STATE, 2, healthy_log()[-1].ms))
    first.segment(6).unlink()
    first.segment(0).unlink()
    alone = [Batch(base, 1, (NO_OP,), None, LATER) for base in range(8, end)]
    first.write([*healthy_log()[:6], *alone])
    first.epochs([(1, 0)])
    (one,) = found(audit(tmp_path), "snapshot_ahead_of_log")
    assert "The snapshot holds" not in one.row.message


def test_no_restart_is_asked_for_where_a_tail_may_have_been_committed(tmp_path: Path) -> None:
    """Of two brokers, whose voters were not copied, nothing else shows it."""
    nodes = quorum(tmp_path)
    nodes[0].write([*healthy_log()[:6], Batch(8, 1, (NO_OP,), None, LATER)])
    elected_without(nodes[1:], 1)
    (one,) = found(audit(tmp_path), "uncommitted_tail_diverged")
    assert (one.row.evidence["is_proven_uncommitted"], action_of(one.as_row())) == (True, "restart")
    shutil.rmtree(nodes[2].home)
    for node in nodes[:2]:
        node.meta(node_id=10 + node.node_id)
    (one,) = found(audit(tmp_path), "uncommitted_tail_diverged")
    assert "do not start the node before you know" in one.row.message
    assert action_of(one.as_row()) == "copy"


def test_a_damaged_snapshot_is_set_aside_and_no_log_is_replaced(tmp_path: Path) -> None:
    """Of the same check as a damaged batch of a log."""
    nodes = quorum(tmp_path)
    path = nodes[0].checkpoint(6, 1)
    overwrite(path, path.stat().st_size // 2, b"\x55")
    (one,) = found(audit(tmp_path), "batch_crc_valid")
    assert one.row.message.split(". ")[1] == "This snapshot cannot be loaded"
    assert action_of(one.as_row()) == "snapshot"
    # What no node loads may show that the copy is damaged.
    path.rename(path.with_name(f"{path.name}.deleted"))
    (one,) = found(audit(tmp_path), "batch_crc_valid")
    assert action_of(one.as_row()) == "copy"
    overwrite(nodes[1].segment(0), AT[4] + 70, b"\x55")
    log, _ = sorted(found(audit(tmp_path), "batch_crc_valid"), key=lambda one: one.severity)
    assert action_of(log.as_row()) == "refetch"


def test_a_scram_credential_that_nothing_could_lose(tmp_path: Path) -> None:
    """Nobody was removed from its mechanism, below the snapshot's end."""
    remove = value("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", name="ann", mechanism=1)
    nodes, log = quorum(tmp_path), [batch(12, scram("ann"), scram("bob")), batch(14, remove)]
    for node in nodes:
        node.append(*log)
    held = snapshot([*STATE, batch(0, scram("ann"))], 2, log[0].ms)
    nodes[0].checkpoint(14, 2).write_bytes(held)
    (one,) = found(audit(tmp_path), "snapshot_equals_replay")
    assert one.row.message.endswith(ASIDE)
    assert action_of(one.as_row()) == "snapshot"


@pytest.mark.parametrize("does_again", [True, False])
def test_a_lost_scram_credential_that_was_set_again(does_again: bool, tmp_path: Path) -> None:
    remove = value("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", name="ann", mechanism=1)
    nodes, log = quorum(tmp_path), [batch(12, scram("ann")), batch(13, remove, scram("bob"))]
    for node in nodes:
        node.append(*log, batch(15, scram("bob" if does_again else "cat")))
    nodes[0].checkpoint(15, 2).write_bytes(snapshot(STATE, 2, log[-1].ms))
    (one,) = found(audit(tmp_path), "snapshot_equals_replay")
    assert one.severity == ("info" if does_again else "critical")
    assert one.row.message.endswith(WRITTEN_SINCE if does_again else KEEP_SCRAM)


def test_more_lost_scram_credentials_than_are_told_hide_nothing_else(tmp_path: Path) -> None:
    remove = value("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", name="ann", mechanism=1)
    many = [scram(f"user-{number}") for number in range(30)]
    log = [batch(12, scram("ann")), batch(13, remove, *many)]
    (one,) = of_snapshot(tmp_path / "alone", log, [])
    assert one.row.message.endswith(KEEP_SCRAM)
    (one,) = of_snapshot(tmp_path / "with another", log, [batch(0, topic("zz", 8))])
    assert "topic zz" in one.row.message
    assert "set_again" not in one.row.evidence


def test_records_of_an_aborted_transaction_that_show(tmp_path: Path) -> None:
    abort = value("ABORT_TRANSACTION_RECORD", reason="a controller changed its mind")
    log = [batch(12, TRANSACTION["begin"], topic("d", 8), abort), batch(15, NO_OP)]
    (one,) = of_snapshot(tmp_path, log, [batch(0, topic("d", 8))])
    assert one.severity == "critical"
    assert "topic d" in one.row.message
    assert one.row.message.endswith(ABORTED)


def test_a_transaction_that_was_aborted_later_explains_nothing(tmp_path: Path) -> None:
    """The snapshot ends where it begins."""
    nodes, abort = quorum(tmp_path), value("ABORT_TRANSACTION_RECORD", reason="too late")
    last = batch(12, NO_OP)
    for node in nodes:
        node.append(last, batch(13, TRANSACTION["begin"], topic("d", 8), abort))
    held = snapshot([*STATE, batch(0, topic("d", 8))], 2, last.ms)
    nodes[0].checkpoint(13, 2).write_bytes(held)
    (one,) = found(audit(tmp_path), "snapshot_equals_replay")
    assert one.row.message.endswith(ASIDE)


@pytest.mark.parametrize(("held", "is_excused"), [((), True), ((1, 2, 9), False)])
def test_voters_that_a_running_node_reads_no_more(
    held: tuple[int, ...], *, is_excused: bool, tmp_path: Path
) -> None:
    """It forgets voters, and invents none."""
    nodes, voting = quorum(tmp_path), voters_batch(12, 2, 1, 2, 3, ms=LATER)
    for node in nodes:
        node.append(voting)
    nodes[0].checkpoint(13, 2).write_bytes(snapshot(STATE, 2, LATER, voters=held))
    (one,) = found(audit(tmp_path), "snapshot_equals_replay")
    assert (one.severity, one.row.replica) == ("critical", "1")
    assert "voter 3 AAAAAAAAAAAAAAAAAAAAZw is missing" in one.row.message
    assert one.row.message.endswith(FORGOTTEN) is is_excused


def test_an_epoch_that_a_cleared_elr_did_not_count(tmp_path: Path) -> None:
    (one,) = of_snapshot(tmp_path, [batch(12, change(1))], [])
    assert one.severity == "critical"
    assert "partitionEpoch is 0, not 1" in one.row.message
    assert one.row.message.endswith(UNCLEARED)


@pytest.mark.parametrize(("held", "is_excused"), [({"elr": []}, True), ({"elr": [3]}, False)])
def test_an_elr_that_a_snapshot_of_another_time_has_lost(
    held: dict[str, list[int]], *, is_excused: bool, tmp_path: Path
) -> None:
    """The feature was off for a time, and is on again."""
    log = [batch(12, feature("eligible.leader.replicas.version", 1), change(1, elr=[2]))]
    state = [batch(0, feature("eligible.leader.replicas.version", 1), change(1, **held))]
    (one,) = of_snapshot(tmp_path, log, state)
    assert one.severity == "critical"
    assert one.row.message.endswith(UNCLEARED) is is_excused


def test_without_such_a_history_nothing_is_excused(tmp_path: Path) -> None:
    (one,) = of_snapshot(tmp_path, [batch(12, NO_OP)], [batch(0, topic("d", 8))])
    assert one.row.message.endswith(ASIDE)


@pytest.mark.parametrize(
    "record, note",
    [
        (
            value("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", id="A" * 21 + "E"),
            "was removed twice in one step of Kafka's loader, it does not fail there",
        ),
        (
            value(
                "PARTITION_CHANGE_RECORD",
                topicId="A" * 21 + "E",
                partitionId=0,
                leader=-2,
                isr=None,
                replicas=None,
                removingReplicas=None,
                addingReplicas=None,
                leaderRecoveryState=-1,
            ),
            "Kafka drops all records of that step of its loader",
        ),
    ],
)
def test_a_record_whose_failure_depends_on_grouping(
    record: bytes, note: str, tmp_path: Path
) -> None:
    for node in quorum(tmp_path):
        node.append(batch(12, record))
    (one,) = found(audit(tmp_path), "references_exist")
    assert one.row.offset == 12
    assert note in one.row.message
