"""`plan restart`: which nodes may start, what they lose, and whose copies would tell."""

import json
import shutil
import struct
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kraftlog.audit.check import BadRow, Severity, check
from kraftlog.audit.loss_words import UNKNOWN
from kraftlog.audit.replica_checks import committed_held
from kraftlog.audit.runner import AuditResult, Finding, audit_of
from kraftlog.cli import main
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import NO_SEGMENT, find_replicas
from kraftlog.message.message_spec import ZERO_UUID
from kraftlog.quorum.collector import Collector
from kraftlog.quorum.committed import candidates
from kraftlog.quorum.describe import COLUMNS, described_beside
from kraftlog.quorum.evidence import QuorumEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords
from kraftlog.quorum.shortfalls import LedEpoch, led_beyond, too_few_hold, written_alone
from kraftlog.report.actions import action_of
from kraftlog.report.answer import WAIT, answer_of
from kraftlog.report.headline import headline
from kraftlog.simulate.plan_rows import Plans, fetch_rows
from kraftlog.simulate.restart import Restart, restarts
from kraftlog.simulate.restart_rows import restart_rows, with_history
from kraftlog.simulate.troubles import Safety
from tests.collecting import collect
from tests.golden.cases import DATA
from tests.unit.audit_logs import (
    COPIED_MS,
    LIMITS,
    NO_OP,
    NO_PRODUCERS,
    START_MS,
    TRANSACTION,
    Batch,
    Node,
    audit,
    change,
    config,
    copied_at,
    copied_live,
    deny,
    describe,
    disk_text,
    feature,
    found,
    healthy_log,
    healthy_state,
    leader_change,
    led_next,
    overwrite,
    producer_ids,
    quorum,
    remove_topic,
    replace_batch,
    snapshot,
    stopped,
    topic,
    unregister_broker,
    uuid_text,
    voters_batch,
    voters_record,
)
from tests.unit.faults.borders import (
    cut_at,
    tail_that_may_return,
    tail_that_may_return_unseen,
    with_observer,
)
from tests.unit.faults.cases import free, joiner, looking_at, settings
from tests.unit.faults.ends import began_anew, cut, swapped, went_on_from_backups
from tests.unit.faults.health import (
    FIRST,
    HALF,
    HALF_OF_3_6,
    RUNNING,
    controller,
    folder,
    formatted_anew,
    level,
    on_another_disk,
    on_its_disks,
    on_zookeeper,
    voters,
    without_directory,
)
from tests.unit.faults.replica import elected_1
from tests.unit.faults.state import ONE_DIRECTORY
from tests.unit.faults.table import AT, FAULTS, LATER

THEN_FEW = ", then only as many others as make a majority with it, and the rest when it leads"


def model_of(root: Path) -> Quorum:
    collector = Collector(LIMITS, Redactor(b"k" * 32))
    replicas = tuple(collector.replica(one) for one in find_replicas([str(root)]))
    return Quorum(QuorumEvidence(replicas, tuple(collector.contents)))


def answers(root: Path) -> dict[str, Restart]:
    return {one.replica: one for one in restarts(model_of(root))}


def test_a_healthy_quorum_restarts_followers_first(tmp_path: Path) -> None:
    quorum(tmp_path)
    found = answers(tmp_path)
    assert {one.safety for one in found.values()} == {Safety.SAFE}
    assert [(label, one.order) for label, one in found.items()] == [("1", 1), ("3", 2), ("2", 3)]


@pytest.mark.parametrize("is_followed", [True, False])
def test_an_emptied_leader_waits_for_another_one(tmp_path: Path, is_followed: bool) -> None:
    """A real quorum of Kafka 4.3.1 was stopped, and its leader emptied: as a follower asked it as the
    leader, both ended with an IllegalStateException.
    """
    nodes = quorum(tmp_path)
    for file in nodes[1].folder.iterdir():
        file.unlink()
    for node in (nodes[0], nodes[2]):
        node.quorum_state(leaderId=2 if is_followed else -1, leaderEpoch=2)
    found = answers(tmp_path)
    first = "other nodes still follow it as their leader"
    assert found["2"].reason.startswith(first) is is_followed
    assert found["2"].order == (None if is_followed else 1)
    assert found["2"].safety == Safety.SAFE


def test_a_leader_whose_disk_was_set_back_waits_for_another_one(tmp_path: Path) -> None:
    """A real quorum of Kafka 4.3.1 was stopped, and its leader's folder put back from a backup: the
    first answer of a follower ended it with an IllegalStateException, at each start.
    """
    nodes = quorum(tmp_path)
    nodes[1].write(healthy_log()[:6])
    nodes[1].epochs([(1, 0)])
    nodes[1].quorum_state(leaderId=1, leaderEpoch=1)
    copied_at(nodes[1], START_MS + 5_000)
    found = answers(tmp_path)
    assert (found["2"].safety, found["2"].order) == (Safety.SAFE, 3)
    down = "; if it is down, start it when another one leads"
    assert down in found["2"].reason
    assert down not in found["1"].reason


@pytest.mark.parametrize("is_alone", [True, False])
def test_who_would_wait_for_good_gets_the_log_of_the_other(tmp_path: Path, is_alone: bool) -> None:
    """Two voters of Kafka 4.1.1, and of 4.3.1: the old disk of the leader whom the other one follows
    ended at each start, and nobody else can lead. With the other's log folder both went on.
    """
    nodes = quorum(tmp_path)
    nodes[0].checkpoint(12, 2).write_bytes(snapshot(healthy_state(), 2, LATER, voters=(1, 2)))
    if is_alone:
        shutil.rmtree(nodes[2].home)
    for node in nodes[::2] if not is_alone else nodes[:1]:
        node.append(voters_batch(12, 2, *((1, 2) if is_alone else (1, 2, 3)), ms=LATER))
    nodes[1].write(healthy_log()[:6])
    nodes[1].epochs([(1, 0)])
    nodes[1].quorum_state(leaderId=1, leaderEpoch=1)
    copied_at(nodes[1], START_MS + 5_000)
    reason = answers(tmp_path)["2"].reason
    todo = "put the log folder of replica 1 in the place of its own, with the quorum-state that is in it, as nobody can lead without it"
    assert (f"; if it is down, {todo}" in reason) is is_alone
    assert ("; if it is down, start it when another one leads" in reason) is not is_alone


@pytest.mark.parametrize("is_missing", [True, False])
@pytest.mark.parametrize("others", [(), (2, 3)])
def test_who_votes_alone_forgets_no_vote(
    tmp_path: Path, is_missing: bool, others: tuple[int, ...]
) -> None:
    """Nodes of Kafka 3.9.1 (static) and 4.3.1 went on without the file, and with an older one, also
    beside a broker that followed them; they were told to build a new quorum.
    """
    node = quorum(tmp_path)[0]
    node.append(voters_batch(12, 2, 1, *others))
    for other in (2, 3):
        if other not in others:
            shutil.rmtree(tmp_path / str(other))
    node.quorum_state(leaderId=1, leaderEpoch=1)
    if is_missing:
        (node.folder / "quorum-state").unlink()
    found = answers(tmp_path)["1"].safety
    assert found == (Safety.UNSAFE if others else Safety.SAFE)


@pytest.mark.parametrize("is_full", [True, False])
def test_a_node_that_cannot_go_on_waits_and_is_not_first(tmp_path: Path, is_full: bool) -> None:
    """Its disk is full, or it fetches and never arrives: nobody can wait for it in an order."""
    nodes = quorum(tmp_path)
    if is_full:
        free(0)(nodes)
        why = (
            "its disk is full, and Kafka does not start on it: give it room first; then nothing is"
        )
        weak = "only with voter 2, whose disk is full"
    else:
        joiner(nodes[1])
        nodes[1].quorum_state(leaderId=-1, leaderEpoch=7)
        why = "it tries to join and does not arrive: do first what controllers_catch_up says; then"
        weak = "only with voter 2, which must have caught up first"
    model = model_of(tmp_path)
    rows = restart_rows(model, audit_of(model))
    told = {row["replica"]: row for row in rows}
    assert [(row["replica"], row["order"]) for row in rows] == [("1", 1), ("3", 2), ("2", None)]
    assert told["2"]["reason"].startswith(why)
    assert weak in told["1"]["reason"]
    found = answer_of(rows, None, [])
    assert found.may["2"] == "not yet"
    assert found.sentence == (
        "Do not restart controller 2 yet. Each other node may be restarted, one at a time."
    )


def test_of_whom_a_majority_needs_each_is_told_with_its_reason(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    free(0)(nodes)
    free(0)(nodes[1:])
    both = "only with voter 2, whose disk is full, and voter 3, whose disk is full"
    assert both in told(tmp_path, "1")[1]


def test_a_leader_whose_record_was_pruned_is_known_by_quorum_state(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    rest = b"".join(one.raw() for one in healthy_log() if one.base >= 9)
    for node in nodes:
        node.checkpoint(6, 1).rename(node.checkpoint(9, 2))
        for base in (0, 6):
            node.segment(base).unlink()
        node.segment(9).write_bytes(rest)
        node.quorum_state(leaderId=1, leaderEpoch=2)
    found = answers(tmp_path)
    assert [(label, one.order) for label, one in found.items()] == [("2", 1), ("3", 2), ("1", 3)]


def test_a_voter_that_lost_the_end_of_its_log_stays_down(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    cut(nodes[2], AT[8])
    found = answers(tmp_path)
    assert found["3"].safety == Safety.UNSAFE
    assert found["3"].order is None
    assert "lost its log from offset 8 on" in found["3"].reason
    assert {found[one].safety for one in "12"} == {Safety.SAFE}


def test_what_is_committed_may_be_on_no_voter_but_one(tmp_path: Path) -> None:
    """Of the others one was set back to before, and the third one was not copied: with one that was,
    they would elect a leader without it.
    """
    nodes = quorum(tmp_path)
    nodes[0].checkpoint(12, 2).write_bytes(snapshot(healthy_state(), 2, START_MS + 9000))
    nodes[2].write(healthy_log()[:6])
    nodes[2].epochs([(1, 0)])
    nodes[2].quorum_state(leaderId=1, leaderEpoch=1)
    assert answers(tmp_path)["1"].safety == Safety.SAFE
    shutil.rmtree(nodes[1].home)
    one = answers(tmp_path)["1"]
    assert (one.safety, one.needs, one.order) == (Safety.UNKNOWN, (2,), None)
    assert one.reason == (
        f"what it holds from offset 8 on may have been committed, and others seem to have lost it; if it is down already, start it first{THEN_FEW}"
    )


@pytest.mark.parametrize("state", [None, {"leaderId": 2, "leaderEpoch": 1}])
def test_a_voter_that_forgot_its_vote_stays_down(tmp_path: Path, state: dict[str, int]) -> None:
    nodes = quorum(tmp_path)
    (nodes[0].folder / "quorum-state").unlink()
    if state is not None:
        nodes[0].quorum_state(**state)
    found = answers(tmp_path)["1"]
    assert (found.safety, "vote twice" in found.reason) == (Safety.UNSAFE, True)


def test_a_tail_that_may_be_elected_is_not_known_to_be_cut(tmp_path: Path) -> None:
    tail_that_may_return(quorum(tmp_path))
    found = answers(tmp_path)["3"]
    assert (found.safety, found.lost_from) == (Safety.UNKNOWN, 12)
    assert found.reason == (
        "records from offset 12 on are cut, or become the quorum's history: by the copies at hand controller 3 could be elected with them"
    )


def test_a_voter_without_a_copy_may_elect_who_holds_a_tail(tmp_path: Path) -> None:
    """It led no newer epoch, and nothing shows that what replaced the tail was committed."""
    tail_that_may_return_unseen(quorum(tmp_path))
    found = answers(tmp_path)["3"]
    assert (found.safety, found.lost_from, found.needs) == (Safety.UNKNOWN, 12, (2,))
    assert found.reason == (
        "records from offset 12 on are cut, or become the quorum's history: with voter 2, of which no copy is at hand, controller 3 could be elected with them"
    )


def test_a_voter_without_a_copy_that_led_later_elects_nobody_with_a_tail(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    led_next(nodes[2], 3, 3, granted=(2, 3))
    led_next(nodes[0], 4, 2)
    shutil.rmtree(nodes[1].home)
    found = answers(tmp_path)["3"]
    assert (found.safety, found.lost_from) == (Safety.LOSES, 12)


def test_a_tail_is_lost_where_it_is_proven_uncommitted(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    led_next(nodes[2], 3, 3, granted=(2, 3))
    for node in nodes[:2]:
        led_next(node, 4, 1)
    found = answers(tmp_path)
    assert (found["3"].safety, found["3"].lost_from) == (Safety.LOSES, 12)
    # Until it has cut its log, the others are no majority while one more is down.
    assert [one for one in found if found[one].order is not None] == ["3", "2", "1"]


def test_who_led_with_a_tail_and_elected_a_leader_without_it_proves_nothing(
    tmp_path: Path,
) -> None:
    """Voter 2 wrote the tail, and has lost it since: so it may have been committed before."""
    nodes = quorum(tmp_path)
    led_next(nodes[2], 3, 2, granted=(2, 3))
    for node in nodes[:2]:
        led_next(node, 5, 1)
    broker = Node(tmp_path, 9)
    broker.write(healthy_log())
    led_next(broker, 4, 3, granted=(1, 3))
    found = answers(tmp_path)
    assert found["9"].safety == Safety.UNKNOWN  # So may voter 1 have lost that.
    assert (found["3"].safety, found["3"].lost_from) == (Safety.UNKNOWN, 12)
    assert found["3"].reason == "records from offset 12 on are cut, and may have been committed"
    assert (found["1"].safety, found["2"].safety) == (Safety.SAFE, Safety.UNKNOWN)
    assert found["2"].reason == (
        "it once held what controller 3 holds from offset 12 on, and voted in epoch 5 without it: that is lost here, and may have been committed"
    )


def test_metadata_of_a_later_leader_proves_what_lies_before_its_epoch(tmp_path: Path) -> None:
    """Voter 3 led twice, and wrote a topic: all before that was committed. Then the others went on
    without it, with the disks of before.
    """
    nodes = quorum(tmp_path)
    led_next(nodes[2], 3, 3, granted=(1, 3))
    nodes[2].append(
        leader_change(13, 4, 3, LATER, granted=(2, 3)), Batch(14, 4, (topic("d", 4),), None, LATER)
    )
    nodes[2].quorum_state(leaderId=3, leaderEpoch=4)
    nodes[2].epochs([(1, 0), (2, 8), (3, 12), (4, 13)])
    for node in nodes[:2]:
        led_next(node, 5, 1)
    for node, end in zip(nodes, (13, 13, 15), strict=True):
        stopped(node, end)
    found = answers(tmp_path)["3"]
    assert found.safety == Safety.UNSAFE
    assert found.reason == "from offset 12 on it holds another history than replica 1"
    # All voters ended there; but the other history was committed up to offset 12 at least.
    verdict = audit(tmp_path).verdict
    assert (verdict.committed_lower, verdict.committed_upper) == (13, None)


def test_a_tail_has_no_say_however_often_it_was_copied(tmp_path: Path) -> None:
    """Four of seven copies hold it, and three what is committed."""
    root = tmp_path / "replicas"
    shutil.copytree(DATA / "isolated" / "replicas", root)
    for label in ("13", "14"):
        shutil.copytree(root / "12", root / label)
    committed = {"1": Safety.SAFE, "3": Safety.SAFE, "11": Safety.SAFE}
    assert {label: one.safety for label, one in answers(root).items()} == {
        **committed, **dict.fromkeys(("2", "12", "13", "14"), Safety.LOSES),
    }  # fmt: skip


def test_too_few_copies_leave_it_unknown(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node in nodes[1:]:
        shutil.rmtree(node.home)
    Node(tmp_path, 9).write(healthy_log())
    found = answers(tmp_path)
    assert {label: (one.safety, one.needs) for label, one in found.items()} == {
        "1": (Safety.UNKNOWN, (2, 3)), "9": (Safety.UNKNOWN, (2, 3)),
    }  # fmt: skip
    shutil.rmtree(nodes[0].home)
    assert told(tmp_path, "9") == (
        Safety.UNKNOWN,
        "less than a majority of the voters was copied: nothing shows whether the leader holds what this one does",
        None,
    )


def test_where_too_many_voters_have_lost_their_disks_nobody_can_be_elected(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    on_its_disks(nodes)
    for number, node in enumerate(nodes[1:], 2):
        path = node.home / "meta.properties"
        path.write_text(path.read_text().replace(disk_text(number), disk_text(90 + number)))
    told = answers(tmp_path)
    assert told["1"].safety == Safety.UNKNOWN
    assert "no leader can be elected without the old disks of voters 2 and 3" in told["2"].reason
    advised = [one.row.message for one in found(audit(tmp_path), "voter_directories_agree")]
    assert len(advised) == 2
    assert all("kraftlog recover" in one and "remove the voter" not in one for one in advised)


def test_an_old_disk_of_a_voter_has_no_place_beside_its_new_one(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    on_its_disks(nodes)
    shutil.copytree(nodes[2].home, tmp_path / "3-old")
    path = tmp_path / "3-old" / "meta.properties"
    path.write_text(path.read_text().replace(disk_text(3), disk_text(93)))
    assert told(tmp_path, "3-old") == (
        Safety.UNSAFE,
        "it is an old disk of node 3, which votes with that of replica 3: only one of both can run",
        None,
    )
    assert answers(tmp_path)["3"].safety == Safety.SAFE


def removed_3(nodes: list[Node], *holders: int) -> None:
    """Voter 3 is removed, by the log of some nodes, of which the first goes on for a minute."""
    on_its_disks(nodes)
    for at in holders:
        nodes[at].append(voters(FIRST + 1, 1, 2))
    nodes[holders[0]].append(Batch(FIRST + 2, 2, (NO_OP,), None, LATER + 61_000))


@pytest.mark.parametrize("holders", [(0,), (0, 1)])
def test_a_removed_voter_that_does_not_know_it_elects_whom_its_log_names(
    holders: tuple[int, ...], tmp_path: Path
) -> None:
    """A real quorum of 4.4.0 elected a leader so, which cut what had been committed since."""
    removed_3(quorum(tmp_path), *holders)
    one = answers(tmp_path)["3"]
    if len(holders) == 2:  # No voter but itself goes by the old set.
        assert one.safety == Safety.SAFE
        return
    assert one.safety == Safety.UNSAFE
    assert one.reason == (
        "its log tells of no removal, so it votes, and controller 2 could be elected without what controller 1 holds from offset 13 on: start it beside a leader that holds that"
    )


def test_a_removed_voter_that_votes_with_another_disk_does_not_join_again(tmp_path: Path) -> None:
    """Its old disk would; `auto.join` has put the new one in its place."""
    nodes = quorum(tmp_path)
    removed_3(nodes, 0, 1, 2)
    settings(nodes[2], controller_quorum_auto_join_enable="true")
    assert found(audit(tmp_path), "voters_removed_stay_away")
    on_other_disks = voters(FIRST + 3, 1, 2, 3)
    old, new = (b64decode(f"{disk_text(number)}==", "-_") for number in (3, 93))
    values = tuple(one.replace(old, new) for one in on_other_disks.values)
    for node in nodes:
        node.append(replace(on_other_disks, values=values))
    assert not found(audit(tmp_path), "voters_removed_stay_away")


def test_a_removed_voter_holds_nothing_behind_its_removal(tmp_path: Path) -> None:
    """A leader that was elected, and stopped before its first record."""
    nodes = quorum(tmp_path)
    removed_3(nodes, 1, 0)
    nodes[0].append(Batch(FIRST + 2, 2, (NO_OP,), None, LATER + 61_000))
    shutil.rmtree(nodes[2].home)
    nodes[0].quorum_state(leaderId=1, leaderEpoch=3)
    nodes[0].epochs([(1, 0), (2, 8), (3, FIRST + 3)])
    assert {one.severity for one in found(audit(tmp_path), "log_end_lost")} == {"info"}


def test_a_broker_is_not_safe_where_new_voters_would_cut_what_it_alone_holds(
    tmp_path: Path,
) -> None:
    """Without a voter set on their new disks the controllers elect nobody, and nothing is cut."""
    nodes = quorum(tmp_path)
    formatted_anew(nodes, ())
    assert answers(tmp_path)["8"].safety == Safety.SAFE
    shutil.rmtree(tmp_path / "8")
    formatted_anew(nodes)
    assert answers(tmp_path)["8"].safety == Safety.UNKNOWN
    (one, *_) = found(audit(tmp_path), "voter_holds_committed_data")
    assert "Bring back an old disk of voters 1, 2 and 3 that holds them" in one.row.message


def test_a_voter_that_loses_a_tail_may_have_forgotten_its_vote_as_well(tmp_path: Path) -> None:
    """The leader of epoch 4 has its vote; by its own files it never heard of that epoch."""
    nodes = quorum(tmp_path)
    led_next(nodes[2], 3, 2, granted=(2, 3))
    for node in nodes[:2]:
        led_next(node, 4, 1, granted=(1, 3))
    nodes[2].quorum_state(leaderId=1, leaderEpoch=4)
    assert answers(tmp_path)["3"].safety == Safety.LOSES
    nodes[2].quorum_state(leaderId=2, leaderEpoch=3)
    one = answers(tmp_path)["3"]
    assert one.safety == Safety.UNKNOWN
    assert "it had a part in the election of epoch 4" in one.reason


def test_who_waits_until_others_hold_what_it_holds_is_not_first(tmp_path: Path) -> None:
    """Voter 3 could be elected without it while 1 is down, if 2 has nothing."""
    nodes = quorum(tmp_path)
    nodes[1].segment(0).unlink()
    nodes[1].segment(6).unlink()
    cut(nodes[2], AT[11])
    one, other = answers(tmp_path)["1"], answers(tmp_path)["3"]
    assert "wait until another voter holds offset 11 as well" in one.reason
    assert (other.order, one.order) == (1, 2)


def test_a_start_would_make_up_the_directory_id_that_a_voter_has_lost(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    without_directory(nodes[1])
    assert answers(tmp_path)["2"].safety == Safety.SAFE
    on_its_disks(nodes)
    told = answers(tmp_path)
    assert {label: one.safety for label, one in told.items()} == {
        "1": Safety.SAFE, "2": Safety.UNSAFE, "3": Safety.SAFE,
    }  # fmt: skip
    assert f"write back directory.id={disk_text(2)}" in told["2"].reason


def test_a_voter_in_another_directory_starts_and_does_not_vote(tmp_path: Path) -> None:
    """As where its log was moved from one of its log directories to another (Kafka 3.9.1, 4.3.1)."""
    on_another_disk(quorum(tmp_path))
    why = "nothing is lost; what is missing comes from the leader; but with this directory it does not vote"
    assert told(tmp_path, "2") == (Safety.SAFE, why, None)


def test_one_of_two_voters_is_too_many_to_lose(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    on_its_disks(nodes)
    for node in nodes:
        node.append(voters(FIRST + 1, 1, 2))
    path = nodes[1].home / "meta.properties"
    path.write_text(path.read_text().replace(disk_text(2), disk_text(92)))
    assert answers(tmp_path)["3"].reason == (
        "nothing is lost; but no leader can be elected without the old disk of voter 2: what starts waits for one"
    )
    for path in nodes[1].folder.iterdir():
        path.unlink()
    assert answers(tmp_path)["2"].reason == (
        "nothing is lost: its log is empty, but no leader can be elected without the old disk of voter 2: what starts waits for one"
    )


@pytest.mark.parametrize("holders", [(0,), (0, 2)])
def test_a_node_with_a_new_disk_is_no_ghost_while_its_removal_may_not_be_committed(
    holders: tuple[int, ...], tmp_path: Path
) -> None:
    """Its old disk is gone: no copy of that is asked for, and none of it is awaited."""
    nodes = quorum(tmp_path)
    swapped(nodes, *holders)
    for at in holders:
        nodes[at].append(Batch(14, 2, (level(15), controller(1), controller(2)), None, LATER))
    told = {label: one.reason for label, one in answers(tmp_path).items()}
    ghosts = found(audit(tmp_path), "controllers_are_voters")
    assert told["2"] == "nothing is lost; what is missing comes from the leader"
    if len(holders) == 2:
        assert [one.row.evidence["controller_id"] for one in ghosts] == [2]
        return
    assert ghosts == []
    assert told["1"].endswith(
        f"wait until another voter holds offsets 13 to 16 as well, or start it first if it is down already{THEN_FEW}"
    )
    shutil.rmtree(nodes[1].home)
    assert answers(tmp_path)["1"].reason.endswith(
        "without a copy of voter 2 nothing tells whether the next leader cuts that"
    )
    (ghost,) = found(audit(tmp_path), "controllers_are_voters")
    assert ghost.row.evidence["controller_id"] == 2


def test_a_voter_that_has_not_heard_of_the_others_elects_itself(tmp_path: Path) -> None:
    """There are two voters by the newest record; the log of the first ends before it, and the third
    node is none, and counts nobody.
    """
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(voters(FIRST, 1))
    for node in nodes[1:]:
        node.append(voters(FIRST + 1, 1, 2))
    replicas = find_replicas([str(tmp_path)])
    model = Quorum(collect(replicas, LIMITS, Redactor(b"k" * 32)))
    assert model.voter_set is not None
    assert model.voter_set.ids == (1, 2)
    assert [one.label for one in model.electors] == ["1", "2"]
    elected = {one.candidate: one.can_win for one in Plans(model).elections()}
    assert elected == {"1": True, "2": True}
    assert {one.log.label: one.wins for one in candidates(model)} == elected


def test_a_start_that_cuts_committed_records_is_unsafe_for_a_voter(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    overwrite(nodes[0].segment(6), AT[9] + 70, b"\x55")
    found = answers(tmp_path)["1"]
    assert (found.safety, found.lost_from) == (Safety.UNSAFE, 9)


def test_a_start_that_cuts_what_its_own_snapshot_holds_loses_nothing_committed(
    tmp_path: Path,
) -> None:
    nodes = quorum(tmp_path)
    stored = healthy_state()
    nodes[0].checkpoint(12, 2).write_bytes(snapshot(stored, 2, START_MS + 9000))
    overwrite(nodes[0].segment(6), AT[9] + 70, b"\x55")
    why = "nothing is lost: its own snapshot holds what its start throws away from offset 0 on"
    assert told(tmp_path, "1") == (Safety.SAFE, why, None)
    nodes[0].checkpoint(12, 2).rename(nodes[0].checkpoint(11, 2))
    assert answers(tmp_path)["1"].safety == Safety.UNSAFE


def test_where_nobody_says_who_votes_each_node_is_told_of(tmp_path: Path) -> None:
    for number in (1, 2):
        node = Node(tmp_path, number)
        node.segment(0).write_bytes(b"".join(Batch(n, 1, (NO_OP,)).raw() for n in range(9)))
        node.meta()
    why = "nothing at hand says who votes"
    assert [told(tmp_path, label) for label in "12"] == [(Safety.UNKNOWN, why, None)] * 2
    (tmp_path / "2" / "meta.properties").unlink()
    assert told(tmp_path, "2") == (Safety.UNKNOWN, why, None), "both are not known"


def told(root: Path, label: str) -> tuple[Safety, str, int | None]:
    one = answers(root)[label]
    assert (one.order is None) == (one.safety in (Safety.UNSAFE, Safety.UNKNOWN))
    return one.safety, one.reason, one.lost_from


def rows_of(root: Path) -> dict[str, dict[str, Any]]:
    redactor = Redactor(None)
    evidence = collect(find_replicas([str(root)]), LIMITS, redactor, replay=False)
    read = with_history(Quorum(evidence), FileRecords(redactor, LIMITS))
    return {row["replica"]: row for row in restart_rows(read, audit_of(read, ()))}


def test_an_empty_copy_says_why_it_would_not_start_and_whose_copies_would_tell(
    tmp_path: Path,
) -> None:
    nodes = quorum(tmp_path)
    for path in nodes[0].folder.iterdir():
        path.unlink()
    assert rows_of(tmp_path)["1"]["verdict"] == "safe"
    shutil.rmtree(nodes[2].home)
    alone = rows_of(tmp_path)["1"]
    assert (alone["verdict"], alone["needs"]) == ("unknown", [3])
    assert "too few other voters at hand are whole" in alone["reason"]
    (nodes[0].home / "meta.properties").write_text("version=1\nnode.id=1\n")
    told = rows_of(tmp_path)["1"]
    assert told["verdict"] == "unsafe"
    assert told["reason"].startswith("it would not start: Kafka does not take meta.properties")


def test_nothing_is_said_of_a_log_that_was_not_copied(tmp_path: Path) -> None:
    for path in quorum(tmp_path)[0].folder.glob("*.log"):
        path.unlink()
    assert told(tmp_path, "1") == (Safety.UNKNOWN, f"its log cannot be read ({NO_SEGMENT})", None)


def test_a_broker_on_zookeeper_lacks_no_log(tmp_path: Path) -> None:
    on_zookeeper("version=0\nbroker.id=9\n")(quorum(tmp_path))
    safety, reason, _ = told(tmp_path, "9")
    assert safety == Safety.UNKNOWN
    assert reason.startswith("it was set up as a broker on ZooKeeper, which has no metadata log")


def test_nothing_is_said_of_a_copy_of_nobody(tmp_path: Path) -> None:
    (quorum(tmp_path)[0].home / "meta.properties").unlink()
    stranger = Node(tmp_path, 4)
    stranger.write([leader_change(0, 1, 3), *(Batch(n, 1, (NO_OP,)) for n in range(1, 9))])
    stranger.meta(cluster="elsewhere")
    why = "nothing tells whose copy it is"
    assert told(tmp_path, "1") == (Safety.UNKNOWN, why, None)
    why = "it is of another cluster than most copies"
    assert told(tmp_path, "4") == (Safety.UNKNOWN, why, None)
    assert answers(tmp_path)["4"].node_id == 4


def test_a_node_that_would_not_start_is_left_alone(tmp_path: Path) -> None:
    (quorum(tmp_path)[0].folder / "leader-epoch-checkpoint").write_text("what is this\n")
    safety, reason, start = told(tmp_path, "1")
    assert (safety, start) == (Safety.UNSAFE, None)
    assert reason.startswith("it would not start: leader-epoch-checkpoint cannot be read: ")


def test_a_voter_that_could_be_elected_without_what_is_committed(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node in nodes[1:]:
        node.segment(6).unlink()
        node.epochs([(1, 0)])
        node.quorum_state(leaderId=1, leaderEpoch=2)
    stored = healthy_state()
    nodes[0].checkpoint(12, 2).write_bytes(snapshot(stored, 2, START_MS + 9000))
    why = "it could be elected without what is committed from offset 6 on"
    assert told(tmp_path, "3") == (Safety.UNSAFE, why, 6)


def test_a_copy_that_stands_alone_below_the_bound(tmp_path: Path) -> None:
    changed = (producer_ids(2000), topic("b", 2))
    replace_batch(quorum(tmp_path)[2], 4, lambda one: replace(one, values=changed).raw())
    why = "it differs from replica 1 at offset 4, which is committed"
    assert told(tmp_path, "3") == (Safety.UNSAFE, why, None)
    # The majority is not to blame for it.
    assert told(tmp_path, "1")[0] == Safety.SAFE


@pytest.mark.parametrize("altered", [1, 2])
def test_a_copy_that_stands_alone_blames_nobody_whatever_it_is_called(
    altered: int, tmp_path: Path
) -> None:
    """Also where the voters that hold what is committed are no majority that is alike: the first of
    the newest logs was what all others were held against.
    """
    nodes = quorum(tmp_path)
    nodes[2].write(healthy_log()[:6])
    nodes[2].epochs([(1, 0)])
    stored = snapshot(healthy_state(), 2, START_MS + 9000)
    with_observer(nodes).checkpoint(12, 2).write_bytes(stored)
    changed = (producer_ids(2000),)
    replace_batch(nodes[altered - 1], 9, lambda one: replace(one, values=changed).raw())
    found = answers(tmp_path)
    assert found.pop(str(altered)).safety == Safety.UNSAFE
    assert {one.safety for one in found.values()} == {Safety.SAFE}


def test_copies_that_differ_in_one_epoch_are_no_nodes_to_restart(tmp_path: Path) -> None:
    """Above what is known to be committed, too: by epochs nobody cuts either, and no majority of the
    copies tells who is right.
    """
    nodes = quorum(tmp_path)
    nodes[1].write([*healthy_log()[:-2], replace(healthy_log()[-2], values=(topic("z", 7),))])
    nodes[0].write(healthy_log()[:-1])
    shutil.rmtree(nodes[2].home)
    why = "it differs from replica {} at offset 10 in the same epoch, which no start mends"
    assert told(tmp_path, "1") == (Safety.UNSAFE, why.format(2), None)
    assert told(tmp_path, "2") == (Safety.UNSAFE, why.format(1), None)


def test_a_copy_that_differs_loses_what_only_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Topic z stands where the others have b; what follows, c among it, is fetched again."""
    nodes = quorum(tmp_path)
    changed = (producer_ids(1000), topic("z", 7))
    replace_batch(nodes[2], 4, lambda one: replace(one, values=changed).raw())
    assert rows_of(tmp_path)["3"]["lost"] == [
        {"table": "topics", "change": "removed", "count": 1, "names": ["b"]},
        {"table": "topics", "change": "added", "count": 1, "names": ["z"]},
    ]
    asked = ["plan", "restart", "--input", str(tmp_path), "--format"]
    assert main([*asked, "json"]) == 0
    rows = {one["replica"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}
    assert {(one["change"], one["table"]) for one in rows["3"]["lost"]} == {
        ("added", "topics"), ("removed", "topics"),
    }  # fmt: skip
    assert main([*asked, "table"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "Only replica 3 has: topic z." in words
    assert "Lost:" not in words


def test_a_tail_whose_rival_nobody_elected_may_have_been_committed(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[2].append(Batch(12, 2, (NO_OP,), None, LATER))
    for node in nodes[:2]:
        node.append(Batch(12, 3, (NO_OP,), None, LATER))
        node.epochs([(1, 0), (2, 8), (3, 12)])
        node.quorum_state(leaderId=1, leaderEpoch=3)
    why = "records from offset 12 on are cut, and may have been committed"
    assert told(tmp_path, "3") == (Safety.UNKNOWN, why, 12)


def test_a_second_history_is_never_started(tmp_path: Path) -> None:
    (damage,) = [one for one in FAULTS if one.says == "Two histories"]
    damage.damage(quorum(tmp_path))
    why = "from offset 12 on it holds another history than replica 1"
    assert told(tmp_path, "3") == (Safety.UNSAFE, why, 12)


def test_what_goes_with_a_second_history_is_named(tmp_path: Path) -> None:
    (damage,) = [one for one in FAULTS if "Only replica 3 has: topic theirs" in one.says]
    damage.damage(quorum(tmp_path))
    rows = rows_of(tmp_path)
    assert rows["3"]["lost"] == [
        {"table": "topics", "change": "added", "count": 1, "names": ["theirs"]}
    ]


def test_what_both_histories_have_alike_is_lost_with_neither(tmp_path: Path) -> None:
    (damage,) = [one for one in FAULTS if "Only replica 3 has: topic theirs" in one.says]
    nodes = quorum(tmp_path)
    damage.damage(nodes)
    nodes[2].append(Batch(14, 3, (topic("of both", 78),), None, LATER))
    for node in nodes[:2]:
        node.append(Batch(13, 4, (topic("of both", 78),), None, LATER))
    assert rows_of(tmp_path)["3"]["lost"] == [
        {"table": "topics", "change": "added", "count": 1, "names": ["theirs"]}
    ]


def begun_anew(root: Path) -> Quorum:
    """Voters 1 and 3 came back with emptied folders, elected voter 3 and committed; so the running
    leader was pulled. Voter 2 was down, and holds with two brokers what all had committed.
    """
    old = [leader_change(0, 2, 2, granted=(1, 2)), Batch(1, 2, (topic("a", 1),), None, START_MS)]
    old += [Batch(base, 2, (NO_OP,), None, START_MS + 500 * base) for base in range(2, 8)]
    anew = [leader_change(0, 1, 3, LATER, (1, 3)), Batch(1, 1, (NO_OP,), None, LATER)]
    for number in (1, 2, 3, 8, 9, 10):
        node, is_old = Node(root, number), number in (2, 9, 10)
        node.write(old if is_old else anew)
        node.checkpoint(6, 1).unlink()
        if is_old:
            stored = [Batch(0, 2, (topic("a", 1),), None, START_MS)]
            node.checkpoint(6, 2).write_bytes(snapshot(stored, 2, START_MS + 2500))
        node.epochs([(2 if is_old else 1, 0)])
        leader, epoch = (2, 2) if is_old else (3, 1)
        node.quorum_state(leaderId=leader, leaderEpoch=epoch)
        if number == 8:
            node.append(Batch(2, 1, (NO_OP,), None, LATER + 500))
            (node.folder / "quorum-state").unlink()
            node.meta(node_id=-1, directory=8)
            describe(node, 3, 1, 3, keeping_up=(1, 3))
        elif not is_old:
            copied_at(node, LATER + 100)
    replicas = find_replicas([str(root)])
    return Quorum(collect(replicas, LIMITS, Redactor(None), described_beside(replicas)))


def test_no_moment_of_copying_excuses_another_history(tmp_path: Path) -> None:
    """Seen with Kafka 3.9.1: the voter that was down came back beside the two, and cut all it had."""
    model = begun_anew(tmp_path)
    answer = {one.replica: one for one in restarts(model)}
    assert answer["3"].safety == answer["1"].safety == Safety.UNSAFE
    assert "start it first" not in answer["2"].reason
    assert "do not start it while a node of the other history runs" in answer["2"].reason
    lacking = [
        (one.row.replica, one.severity, "comes from the leader" in str(one.row.message))
        for one in found(audit_of(model), "voter_holds_committed_data")
        if one.row.replica in ("1", "3")
    ]
    assert lacking == [("1", "critical", False), ("3", "critical", False)]


@pytest.mark.parametrize("starts", [True, False])
def test_what_a_voter_would_be_elected_without_is_named(tmp_path: Path, starts: bool) -> None:
    """Also where it would not start: it may run still, and starts once its file is mended."""
    nodes = quorum(tmp_path)
    for node in nodes[1:]:
        node.segment(6).unlink()
        node.epochs([(1, 0)])
        node.quorum_state(leaderId=1, leaderEpoch=1)
        if not starts:
            (node.folder / "leader-epoch-checkpoint").write_bytes(b"\xff")
    stored = healthy_state()
    nodes[0].checkpoint(12, 2).write_bytes(snapshot(stored, 2, START_MS + 9000))
    lost = [{"table": "topics", "change": "added", "count": 1, "names": ["c"]}]
    rows = rows_of(tmp_path)
    assert {label: (row["verdict"], row["lost"]) for label, row in rows.items()} == {
        "1": ("unsafe", []), "2": ("unsafe", lost), "3": ("unsafe", lost),
    }  # fmt: skip
    assert (rows["1"]["order"], rows["1"]["reason"]) == (
        None,
        f"while it is down, controller 2 could be elected without what is committed from offset 6 on; if it is down already, start it first{THEN_FEW}",
    )


def test_none_of_two_that_nothing_decides_between_is_to_start_first(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    cut_at(START_MS + 4_000)(nodes)
    replace_batch(with_observer(nodes), 10, lambda one: replace(one, values=(topic("d", 4),)).raw())
    assert rows_of(tmp_path)["1"]["reason"] == (
        "while it is down, controller 2 could be elected without what is committed from offset 6 on; it differs from replica 9, and no majority decides which one is right"
    )


def test_what_goes_where_starts_cut_most_voters_is_named(tmp_path: Path) -> None:
    """Their logs hold what they would be elected without until they start. One node alone fetches what
    its start throws away, and nothing is lost.
    """
    nodes = quorum(tmp_path)
    overwrite(nodes[0].segment(6), AT[9] + 70, b"\x55")
    alone = rows_of(tmp_path)
    assert (alone["1"]["verdict"], alone["1"]["lost_from"], alone["1"]["lost"]) == ("unsafe", 9, [])
    overwrite(nodes[1].segment(6), AT[9] + 70, b"\x55")
    nodes[2].checkpoint(12, 2).write_bytes(snapshot(healthy_state(), 2, START_MS + 9000))
    rows = rows_of(tmp_path)
    assert {label: (row["lost_from"], bool(row["lost"])) for label, row in rows.items()} == {
        "1": (9, True), "2": (9, True), "3": (None, False),
    }  # fmt: skip


@pytest.mark.parametrize("voters", [[1], [1, 2, 3]])
def test_what_all_voters_throw_away_is_told_by_name(tmp_path: Path, voters: list[int]) -> None:
    """Each begins with its snapshot: what lies behind that is lost, and nothing before it."""
    log = [leader_change(0, 1, 1, granted=voters, voters=voters), *healthy_log()[1:5]]
    log.append(Batch(7, 1, (topic("c", 3),), None, START_MS + 5000))
    for voter in voters:
        node = Node(tmp_path, voter)
        node.write(log)
        node.epochs([(1, 0)])
        ids = [{"voterId": one} for one in voters]
        node.quorum_state(leaderId=1, leaderEpoch=1, currentVoters=ids)
        place = len(log[3].raw()) + 3
        overwrite(node.segment(0), node.segment(0).stat().st_size - place, b"\x55")
    lost = [{"table": "topics", "change": "added", "count": 1, "names": ["c"]}]
    found = [(row["lost_from"], row["lost"]) for row in rows_of(tmp_path).values()]
    assert found == [(6, lost)] * len(voters)


def test_what_an_observer_throws_away_it_fetches_again(tmp_path: Path) -> None:
    quorum(tmp_path)
    observer = Node(tmp_path, 9)
    observer.write(healthy_log())
    why = "nothing is lost; what is missing comes from the leader"
    assert told(tmp_path, "9") == (Safety.SAFE, why, None)
    overwrite(observer.segment(6), AT[9] + 70, b"\x55")
    safety, reason, start = told(tmp_path, "9")
    assert (safety, start) == (Safety.LOSES, 9)
    assert reason.startswith("its start throws records away from offset 9 on: recovery cuts")
    assert [one for one, found in answers(tmp_path).items() if found.order] == ["1", "3", "2", "9"]


def test_torn_bytes_behind_the_last_batch_are_no_loss(tmp_path: Path) -> None:
    path = quorum(tmp_path)[0].segment(6)
    path.write_bytes(path.read_bytes() + b"\x01\x02\x03")
    assert told(tmp_path, "1")[0] == Safety.SAFE


def test_a_voter_that_lags_and_one_whose_stop_stops_the_quorum(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node in nodes[:2]:
        node.append(Batch(12, 2, (NO_OP,), None, LATER))
    why = "nothing is lost: what is missing from offset 12 on comes from the leader"
    assert told(tmp_path, "3") == (Safety.SAFE, why, None)
    waits = "nothing is lost; but while the node is down the others are a majority only with voter 3, which must have caught up first"
    assert told(tmp_path, "1") == (Safety.SAFE, waits, None)
    assert rows_of(tmp_path)["3"]["order"] == 1
    shutil.rmtree(nodes[2].home)
    assert told(tmp_path, "1")[1] == (
        "nothing is lost, but the quorum stands still while the node is down: the other voters at "
        "hand are not a majority"
    )


@pytest.mark.parametrize(
    ("voters", "unread", "needed"),
    [
        (5, (4, 5), "{4}, or {5}"),
        (5, (5,), ""),
        (7, (4, 5), ""),
        (7, (4, 5, 6), "{4}, or {5}, or {6}"),
        (7, (4, 5, 6, 7), "2 of these: {4}, and {5}, and {6}, and {7}"),
    ],
)
def test_how_many_of_those_that_may_not_help_a_majority_needs(
    voters: int, unread: tuple[int, ...], needed: str, tmp_path: Path
) -> None:
    """One voter may go down while as many of the others as it takes are as they should be."""
    every = tuple(range(1, voters + 1))
    log = [
        leader_change(one.base, one.epoch, one.epoch, one.ms, every, every) if one.keys else one
        for one in healthy_log()
    ]
    for number in every:
        node = Node(tmp_path, number)
        node.write(log)
        node.quorum_state(leaderId=2, leaderEpoch=2, currentVoters=[{"voterId": n} for n in every])
        if number in unread:
            (node.folder / "quorum-state").unlink()
            (node.folder / "quorum-state").mkdir()
    why = "nothing is lost; the other voters are a majority while they run"
    if needed:
        names = [f"voter {n}, of which a file could not be read" for n in range(voters + 1)]
        why = f"nothing is lost; but while the node is down the others are a majority only with {needed.format(*names)}"
    assert told(tmp_path, "3") == (Safety.SAFE, why, None)


def test_a_voter_that_lags_stops_the_quorum_as_well_where_the_others_are_too_few(
    tmp_path: Path,
) -> None:
    """As one does that alone holds something: what is to be waited for is told after that."""
    nodes = quorum(tmp_path)
    shutil.rmtree(nodes[1].home)
    cut(nodes[0], AT[10])
    nodes[2].checkpoint(12, 2).write_bytes(snapshot(healthy_state(), 2, healthy_log()[-1].ms))
    nodes[2].append(Batch(12, 2, (NO_OP,), None, LATER))
    still = ", but the quorum stands still while the node is down: the other voters at hand are not a majority"
    lags, alone = (told(tmp_path, one)[1] for one in "13")
    assert (
        lags == f"nothing is lost: what is missing from offset 10 on comes from the leader{still}"
    )
    assert alone.startswith(
        f"nothing that is known to be committed is lost{still}; and wait until another voter holds"
    )


@pytest.mark.parametrize("behind", [3, 2])
def test_a_voter_whose_copy_ends_a_moment_before_the_others_starts_first(
    behind: int, tmp_path: Path
) -> None:
    """It was copied before them, or has been down since then: its copy is the same. But nobody leads
    who lags.
    """
    nodes = quorum(tmp_path)
    for number, node in enumerate(nodes, 1):
        if number != behind:
            node.append(Batch(12, 2, (NO_OP,), None, LATER))
    copied_at(nodes[behind - 1], LATER - 200)
    found, followers = answers(tmp_path), {3: [3, 1, 2], 2: [1, 3, 2]}
    assert [one.node_id for one in found.values()] == followers[behind]
    lacks = "nothing is lost: what is missing from offset 12 on comes from the leader"
    assert (found[str(behind)].safety, found[str(behind)].reason) == (Safety.SAFE, lacks)
    waits = {
        3: "nothing is lost; but while the node is down the others are a majority only with voter 3, which must have caught up first",
        2: "nothing is lost; the other voters are a majority while they run",
    }
    assert found["1"].reason == waits[behind]


def test_a_voter_that_would_not_start_is_not_counted_on(tmp_path: Path) -> None:
    node = quorum(tmp_path)[2]
    (node.folder / "quorum-state").write_text("{")
    waits = "nothing is lost; but while the node is down the others are a majority only with voter 3, which would not start"
    assert told(tmp_path, "1") == (Safety.SAFE, waits, None)


def test_a_critical_finding_outweighs_what_the_log_says(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].meta(cluster="another")
    evidence = collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None))
    result = audit_of(Quorum(evidence))
    rows = {row["replica"]: row for row in restart_rows(Quorum(evidence), result)}
    assert (rows["1"]["verdict"], rows["1"]["order"]) == ("unsafe", None)
    assert rows["1"]["reason"] == (
        "The meta.properties of 1 says cluster another, but the others say "
        "cluster-of-the-tests-0 (cluster_id_agrees)"
    )
    assert [(one, row["order"]) for one, row in rows.items()] == [
        ("3", None), ("2", None), ("1", None),
    ]  # fmt: skip
    waits = "safe, once the critical finding is settled"
    assert rows["3"] == {
        "replica": "3", "node_id": 3, "who": "controller 3", "role": "voter", "verdict": "safe",
        "reason": waits, "lost_from": None, "lost": [], "needs": [], "order": None,
    }  # fmt: skip
    # The audit's own answer is the same.
    answer = answer_of([*rows.values()], None, [])
    assert (answer.may, answer.order) == ({"3": "not yet", "2": "not yet", "1": "no"}, None)
    # Without a replay nothing is known of objects.
    bare = Quorum(replace(evidence, state=None))
    assert [row["lost"] for row in restart_rows(bare, audit_of(bare, ()))] == [[], [], []]


def test_what_a_changed_copy_holds_otherwise_is_not_lacking_elsewhere(tmp_path: Path) -> None:
    """Both logs prove the same, and a third one ends before: the name of a folder decides nothing."""
    nodes = quorum(tmp_path)
    cut(nodes[1], AT[7])
    values = (topic("z", 9),)
    replace_batch(nodes[0], 6, lambda one: replace(one, values=values).raw())
    rows = judged(tmp_path)
    assert rows["1"]["verdict"] == "unsafe"
    assert rows["3"]["reason"] == "safe, once the critical findings are settled"


@pytest.mark.breaks_a_check
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"a": "critical"}, "safe, once the check that broke can be run (a)"),
        ({"a": "critical", "b": "warning", "c": "critical"}, "safe, once the checks that broke can be run (a and c)"),
        ({"b": "warning"}, "nothing is lost; the other voters are a majority while they run"),
    ],
)  # fmt: skip
def test_nobody_restarts_while_something_critical_could_not_be_looked_for(
    broken: dict[str, Severity], reason: str, tmp_path: Path
) -> None:
    quorum(tmp_path)
    declared = partial(
        check, scope="log", source="-", holds_when="-", meaning="-", advice="-", action="know"
    )
    model = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    result = audit_of(model, [declared(name, broken[name])(_breaks) for name in broken])
    rows = restart_rows(model, result)
    assert [row["reason"] for row in rows] == [reason] * 3
    answer = answer_of(rows, result.verdict.as_row(), [])
    if "critical" in broken.values():
        assert answer.sentence == "Do not restart controllers 1, 2 and 3 yet."
        assert (set(answer.may.values()), answer.order) == ({"not yet"}, None)
    else:
        assert answer.sentence == "Each node may be restarted, one at a time."


def _breaks(quorum: Quorum) -> Iterator[BadRow]:
    yield from ()
    raise RuntimeError


@pytest.mark.parametrize("is_behind", [False, True])
def test_of_two_folders_of_a_disk_that_are_alike_neither_starts(
    is_behind: bool, tmp_path: Path
) -> None:
    """Nothing tells them apart but their names; one that is behind is likely the old one."""
    nodes = quorum(tmp_path)
    shutil.copytree(nodes[1].home, tmp_path / "2-copy")
    if is_behind:
        cut(nodes[1], AT[11])
    evidence = collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None))
    result = audit_of(Quorum(evidence))
    rows = {row["replica"]: row["verdict"] for row in restart_rows(Quorum(evidence), result)}
    assert {label for label, told in rows.items() if told == "unsafe"} == (
        {"2"} if is_behind else {"2", "2-copy"}
    )


def test_nothing_is_said_of_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    quorum(tmp_path)
    evidence = collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None), replay=False)
    first, *others = evidence.replicas
    unread = tuple(replace(one, problem="the disk fails") for one in first.segments)
    changed = replace(evidence, replicas=(replace(first, segments=unread), *others))
    (found,) = [one for one in restarts(Quorum(changed)) if one.replica == "1"]
    assert found == Restart("1", 1, Safety.UNKNOWN, "its log cannot be read (the disk fails)")
    # The others stand for election, and are held against what is committed.
    assert [one.log.label for one in candidates(Quorum(changed))] == ["2", "3"]


def test_the_command_names_what_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    replicas = str(DATA / "isolated" / "replicas")
    assert main(["plan", "restart", "--input", replicas, "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    by_node = {row["node_id"]: row for row in rows}
    assert [row["verdict"] for row in rows] == ["loses", "safe", "safe", "safe", "loses"]
    lost = {(one["table"], one["change"], str(one["key"])) for one in by_node[2]["lost"]}
    topics = [one["after"]["name"] for one in by_node[2]["lost"] if one["table"] == "topics"
              and one["change"] == "added"]  # fmt: skip
    assert "ghost-topic-a" in topics
    assert ("features", "removed", "['eligible.leader.replicas.version']") in lost
    assert by_node[1]["lost"] == []


def test_what_one_voter_alone_holds_is_to_be_on_another_one_first(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[1].append(Batch(12, 2, (NO_OP,), None, LATER), Batch(13, 2, (NO_OP,), None, LATER))
    assert told(tmp_path, "2") == (
        Safety.SAFE,
        f"nothing that is known to be committed is lost; but wait until another voter holds offsets 12 to 13 as well, or start it first if it is down already{THEN_FEW}",
        None,
    )
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    assert "another voter holds offset 13 as well" in told(tmp_path, "2")[1]
    assert told(tmp_path, "1")[1].endswith("only with voter 3, which must have caught up first")


@pytest.mark.parametrize("is_closed", [False, True])
def test_who_was_stopped_with_what_it_alone_holds_starts_first(
    is_closed: bool, tmp_path: Path
) -> None:
    """While it runs it is the leader, and the last to be restarted; who reads the order is told what
    holds where all are down.
    """
    nodes = quorum(tmp_path)
    nodes[1].append(Batch(12, 2, (NO_OP,), None, LATER))
    if is_closed:
        nodes[1].segment(6).with_suffix(".index").write_bytes(b"")
        (nodes[1].folder / f"{13:020d}.snapshot").write_bytes(NO_PRODUCERS)
    found = answers(tmp_path)
    assert {one.safety for one in found.values()} == {Safety.SAFE}
    assert [*found] == (["2", "1", "3"] if is_closed else ["1", "3", "2"])
    order = answer_of(list(rows_of(tmp_path).values()), None, []).order or ""
    down = f" If all are down already, start controller 2 first{THEN_FEW}."
    assert order.endswith(down) != is_closed
    lost = "nothing that is known to be committed is lost; "
    waits = f"but wait until another voter holds offset 12 as well, or start it first if it is down already{THEN_FEW}"
    first = f"it was stopped, and no majority holds offset 12: start it first{THEN_FEW}"
    assert found["2"].reason == lost + (first if is_closed else waits)


def test_who_is_to_wait_for_another_voter_is_not_the_first_of_them(tmp_path: Path) -> None:
    """It holds what the others' copies lack, and one record more, on which it is to wait."""
    behind_a_snapshot(tmp_path)[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    found = answers(tmp_path)
    assert "wait until another voter holds offset 12 as well" in found["1"].reason
    assert [*found] == ["3", "1", "2"], "node 2 leads"
    assert "if it is down, start controller 1 first" in found["3"].reason
    order = answer_of(list(rows_of(tmp_path).values()), None, []).order or ""
    assert order.endswith(f"If all are down already, start controller 1 first{THEN_FEW}.")


def test_who_is_to_wait_for_another_voter_is_not_the_first_of_all(tmp_path: Path) -> None:
    """The other voters do not start, so that nobody before it can come to hold what it does."""
    nodes = quorum(tmp_path)
    nodes[1].append(Batch(12, 2, (NO_OP,), None, LATER))
    for node in nodes[::2]:
        wrong = f"version: 0\ntopic_id: {uuid_text(2)}"
        (node.folder / "partition.metadata").write_text(wrong)
    for number in (8, 9):
        Node(tmp_path, number).write(healthy_log())
    found = answers(tmp_path)
    assert "wait until another voter holds offset 12 as well" in found["2"].reason
    assert {label: one.order for label, one in found.items()} == {
        "8": 1, "9": 2, "2": None, "1": None, "3": None,
    }  # fmt: skip
    page = answer_of(list(rows_of(tmp_path).values()), None, [])
    assert page.may["2"] == WAIT
    assert "controller" not in (page.order or "")


@pytest.mark.parametrize("apart_ms", [60_000, 60_001])
def test_no_leader_writes_alone_for_longer_than_copying_takes(
    apart_ms: int, tmp_path: Path
) -> None:
    """The others have been set back, or were copied long before; one that was not copied may hold
    it.
    """
    nodes = quorum(tmp_path)
    alone = [Batch(12, 2, (NO_OP,), None, LATER), Batch(13, 2, (NO_OP,), None, LATER + apart_ms)]
    nodes[1].append(*alone)
    found = answers(tmp_path)
    is_long = apart_ms > 60_000
    assert {one.safety for one in found.values()} == {Safety.UNKNOWN if is_long else Safety.SAFE}
    warned = [one for one in committed_held.query(model_of(tmp_path)) if one.severity == "warning"]
    assert [(one.replica, one.offset, one.end_offset) for one in warned] == [
        ("2", 12, 14)
    ] * is_long
    if is_long:
        again = "that is lost, or the voters were copied too early: copy them again"
        why = f"alone holds offsets 12 to 13, written over 60 s, and a leader stops soon where no majority follows: {again}"
        assert found["1"].reason == found["3"].reason == f"of all voters controller 2 {why}"
        assert (
            found["2"].reason
            == f"of all voters it {why}; if it is down already, start it first{THEN_FEW}"
        )
    shutil.rmtree(nodes[0].home)
    assert {one.safety for one in answers(tmp_path).values()} == {Safety.SAFE}


@pytest.mark.parametrize(("set_by_ms", "seconds"), [(3_600_000, None), (-3_600_000, 61), (0, 61)])
def test_a_clock_that_is_set_is_no_time_of_writing_alone(
    set_by_ms: int, seconds: int | None, tmp_path: Path
) -> None:
    """In a log that is written every half second, set once behind what the others hold: ahead in
    what took no time, or back in what took a minute.
    """
    nodes = quorum(tmp_path)
    many = 2 if seconds is None else 2 * seconds + 2
    times = [LATER + 500 * at + (set_by_ms if at >= 60 else 0) for at in range(59 + many)]
    log = [Batch(12 + at, 2, (NO_OP,), None, ms) for at, ms in enumerate(times)]
    for node, end in zip(nodes, (59, len(log), 59), strict=True):
        node.append(*log[:end])
    found = written_alone(model_of(tmp_path))
    assert (found and found.seconds) == seconds


@pytest.mark.parametrize("fetch_timeout_ms", [40_000, 40_001, None])
def test_what_was_not_read_may_hold_it_and_a_slow_leader_resigns_late(
    fetch_timeout_ms: int | None, tmp_path: Path
) -> None:
    nodes = quorum(tmp_path)
    alone = [Batch(12, 2, (NO_OP,), None, LATER), Batch(13, 2, (NO_OP,), None, LATER + 60_001)]
    nodes[1].append(*alone)
    if fetch_timeout_ms is None:
        raw = bytearray(nodes[0].segment(6).read_bytes())
        raw[-1] ^= 1
        nodes[0].segment(6).write_bytes(raw)
    else:
        text = f"controller.quorum.fetch.timeout.ms={fetch_timeout_ms}\n"
        (nodes[1].folder / "server.properties").write_text(text)
    found = written_alone(model_of(tmp_path))
    assert (found is not None) == (fetch_timeout_ms == 40_000)


def test_what_the_others_have_lost_may_be_with_one_voter_alone(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node in nodes[:2]:
        cut(node, AT[8])
    safety, reason, start = told(tmp_path, "3")
    assert (safety, start) == (Safety.UNKNOWN, None)
    assert reason.startswith("what it holds from offset 8 on may have been committed, and others")


@pytest.mark.parametrize("is_live", [False, True])
def test_what_brokers_alone_hold_is_kept_until_the_voters_are_copied_again(
    is_live: bool, tmp_path: Path
) -> None:
    """The leader had it; a live copy of the voters is only a moment older."""
    nodes = quorum(tmp_path)
    broker = Node(tmp_path, 9)
    broker.write([*healthy_log(), Batch(12, 2, (topic("d", 9),), None, LATER)])
    if is_live:
        for node in nodes:
            copied_at(node, LATER - 1000)
        assert {row["verdict"] for row in rows_of(tmp_path).values()} == {"safe"}
        assert not found(audit(tmp_path), "log_end_lost")
        return
    rows = rows_of(tmp_path)
    assert {label: (row["verdict"], row["lost_from"]) for label, row in rows.items()} == {
        "1": ("unknown", None), "2": ("unknown", None), "3": ("unknown", None), "9": ("unknown", 12),
    }  # fmt: skip
    again = "that is lost, or the voters were copied too early: copy them again"
    assert {label: row["reason"] for label, row in rows.items()} == {
        "1": f"broker 9 holds offset 12, which no voter at hand does: {again}",
        "2": f"it led epoch 2, and lacks offset 12 of it, which others hold: {again}",
        "3": f"broker 9 holds offset 12, which no voter at hand does: {again}",
        "9": f"no voter at hand holds offset 12 any more: {again}, and keep what is held here, which the next leader would cut",
    }
    assert rows["9"]["lost"] == [{"table": "topics", "change": "added", "count": 1, "names": ["d"]}]
    assert not audit(tmp_path).is_complete
    # What a finding asks of the state, whoever holds the record, asks for no new copy.
    asked = {"check": "mass_deletion", "scope": "state", "severity": "warning", "message": "Many."}
    beside = {"replica": "9", "node_id": 9, "offset": 3, "evidence": {}, "path": None}
    todo = answer_of([*rows.values()], None, [asked | beside]).todo
    assert "Broker 9: no voter at hand holds offset 12" in todo[-1].text
    (lost,) = answer_of([*rows.values()], None, []).lost
    assert (lost.nodes, lost.doubt) == ("broker 9", ", if that is cut, which is not known")


def test_a_log_that_begins_in_a_later_epoch_holds_nothing_of_one_before(tmp_path: Path) -> None:
    """Leader 2 died at the end of its epoch, and the copy of broker 9 begins behind it."""
    nodes = quorum(tmp_path)
    later = Batch(13, 3, (NO_OP,), None, LATER + 200_000)
    for node in (nodes[0], nodes[2]):
        node.append(leader_change(12, 3, 1, LATER), later)
        node.epochs([(1, 0), (2, 8), (3, 12)])
        node.quorum_state(leaderId=1, leaderEpoch=3)
    broker = Node(tmp_path, 9)
    broker.write([later])
    broker.epochs([(3, 13)])
    broker.quorum_state(leaderId=1, leaderEpoch=3)
    model = model_of(tmp_path)
    assert [led_beyond(model, log) for log in model.logs] == [None] * 4


@pytest.mark.parametrize(("leader", "is_told"), [(2, True), (7, False), (-1, True)])
def test_an_epoch_of_that_number_of_another_leader_is_none_of_a_node(
    leader: int, is_told: bool, tmp_path: Path
) -> None:
    """What is left of an older quorum under the same cluster id shares no offset with this one."""
    nodes = quorum(tmp_path)
    broker = Node(tmp_path, 9)
    broker.write([Batch(base, 2, (NO_OP,), None, START_MS - 9000) for base in (40, 41)])
    broker.checkpoint(6, 1).unlink()
    broker.epochs([(2, 40)])
    broker.quorum_state(leaderId=leader, leaderEpoch=2)
    model = model_of(tmp_path)
    told = led_beyond(model, model.by_label[str(nodes[1].node_id)])
    assert told == (LedEpoch(2, 42, ["9"]) if is_told else None)


def test_a_broker_whose_end_another_history_replaces_keeps_nobody_waiting(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    broker = Node(tmp_path, 9)
    lost = [Batch(base, 2, (NO_OP,), None, LATER) for base in (12, 13, 14)]
    broker.write([*healthy_log(), *lost])
    for node in nodes:
        led_next(node, 3, 1, granted=(1, 3))
    assert {label: one.safety for label, one in answers(tmp_path).items()} == {
        "1": Safety.SAFE, "2": Safety.SAFE, "3": Safety.SAFE, "9": Safety.LOSES,
    }  # fmt: skip


def test_a_voter_with_another_history_does_not_hold_what_a_broker_alone_has(
    tmp_path: Path,
) -> None:
    """Voter 2's log reaches further, in an older epoch; those who elected epoch 3 have lost it."""
    nodes = quorum(tmp_path)
    nodes[1].append(*(Batch(base, 2, (NO_OP,), None, LATER) for base in (12, 13, 14)))
    broker = Node(tmp_path, 9)
    broker.write([*healthy_log(), leader_change(12, 3, 1, LATER)])
    broker.epochs([(1, 0), (2, 8), (3, 12)])
    broker.quorum_state(leaderId=1, leaderEpoch=3)
    found = answers(tmp_path)
    assert (found["9"].safety, found["9"].lost_from) == (Safety.UNKNOWN, 12)
    assert found["9"].reason.startswith("no voter at hand holds offset 12 any more")
    assert {found[one].safety for one in ("1", "3")} == {Safety.UNKNOWN}


def test_nobody_knows_what_a_voter_lacks_that_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (damage,) = [one for one in FAULTS if "without one of voters 2 and 3" in one.says]
    nodes = quorum(tmp_path)
    damage.damage(nodes)
    assert too_few_hold(model_of(tmp_path)) == {"2", "3"}
    deny(monkeypatch, nodes[2])
    assert too_few_hold(model_of(tmp_path)) == frozenset()


def test_who_has_lost_what_is_committed_gets_the_log_of_who_holds_it(tmp_path: Path) -> None:
    """Copied again, they lack it still, and nothing was told: with 4.3.1 that log led both."""
    (damage,) = [one for one in FAULTS if "without one of voters 2 and 3" in one.says]
    damage.damage(quorum(tmp_path))
    lacking = found(audit(tmp_path), "voter_holds_committed_data")
    told = [one.row.message for one in lacking if one.row.replica == "3"]
    todo = "put the log folder of replica 1 in the place of its own, with the quorum-state that is in it"
    rest = "If anything was committed from offset 12 on, that is lost then."
    assert told[0].endswith(f" If this one has lost them: before it starts, {todo}. {rest}")


def test_where_too_few_voters_hold_what_is_committed_none_is_safe(tmp_path: Path) -> None:
    """Voter 1 alone, which has a snapshot of it."""
    (damage,) = [one for one in FAULTS if "without one of voters 2 and 3" in one.says]
    damage.damage(quorum(tmp_path))
    found = answers(tmp_path)
    assert found["3"].safety == Safety.UNKNOWN
    assert found["3"].reason == (
        "too few voters hold what is committed below offset 12: that is lost, or the voters were copied too early: copy them again"
    )
    assert Safety.SAFE not in {one.safety for one in found.values()}


@pytest.mark.parametrize("described, is_elected", [(13, False), (9, True)])
def test_a_voter_that_went_on_since_it_was_copied_elects_nobody_with_less(
    described: int, is_elected: bool, tmp_path: Path
) -> None:
    """Voters 1 and 3 end alike in their copies; by a describe 1 has held all of the leader's log since."""
    more = Batch(12, 2, (NO_OP,), None, START_MS + 9900)
    nodes = quorum(tmp_path)
    nodes[1].append(more)
    for node in (nodes[0], nodes[2]):
        node.segment(6).write_bytes(
            b"".join(one.raw() for one in healthy_log() if 6 <= one.base < 9)
        )
    describe(nodes[1], 2, 2, 13, keeping_up=(1, 2))
    path = nodes[1].home / "quorum-describe"
    ends = path.read_text().replace("\n3\t13", "\n3\t9").replace("\n1\t13", f"\n1\t{described}")
    path.write_text(ends)
    for node in nodes:
        copied_at(node, START_MS + 11_000)
    rows = found(audit(tmp_path), "voter_holds_committed_data")
    losing = [one.row.replica for one in rows if one.severity == "critical"]
    assert losing == (["1", "3"] if is_elected else [])
    replicas = find_replicas([str(tmp_path)])
    told = restarts(Quorum(collect(replicas, LIMITS, Redactor(None), described_beside(replicas))))
    assert (Safety.UNSAFE in {one.safety for one in told}) == is_elected


@pytest.mark.parametrize("holding, safety", [(12, Safety.SAFE), (9, Safety.UNKNOWN)])
def test_who_voted_before_a_change_may_have_committed_what_the_voters_lack(
    holding: int, safety: Safety, tmp_path: Path
) -> None:
    """Voters 1 and 2 had committed all up to a snapshot when 1 removed 2, which is not committed: 3 lags
    behind. Where voter 2 lacks it too, nobody can have committed it.
    """
    for node, end in zip(quorum(tmp_path), (13, holding, 7), strict=True):
        log = [*healthy_log(), voters_batch(12, 2, 1, 3, ms=LATER)]
        log[1:2] = [replace(log[1], values=log[1].values[:1]), voters_batch(2, 1, 1, 2, 3)]
        for path in node.folder.glob("0*"):
            path.unlink()
        node.segment(0).write_bytes(b"".join(one.raw() for one in log if one.end <= end))
        node.epochs([(1, 0), (2, 8)][: 1 + (end > 8)])
        if node.node_id == 1:
            raw = snapshot(healthy_state(), 2, START_MS + 9000, voters=(1, 2, 3))
            node.checkpoint(12, 2).write_bytes(raw)
    rows = found(audit(tmp_path), "voter_holds_committed_data")
    (told,) = [one.severity for one in rows if one.row.replica == "3"]
    assert told == ("info" if safety == Safety.SAFE else "warning")
    assert answers(tmp_path)["3"].safety == safety


@pytest.mark.parametrize(
    ("granted", "is_live", "safety"),
    [((1, 3), False, Safety.UNKNOWN), ((1, 3), True, Safety.SAFE), ((1, 2), False, Safety.SAFE)],
)
def test_a_voter_whose_copy_knows_nothing_of_its_vote(
    granted: tuple[int, ...], is_live: bool, safety: Safety, tmp_path: Path
) -> None:
    nodes = quorum(tmp_path)
    for node in nodes[:2]:
        node.append(leader_change(12, 3, 1, LATER, granted))
        node.epochs([(1, 0), (2, 8), (3, 12)])
        node.quorum_state(leaderId=1, leaderEpoch=3)
    stopped(nodes[2], 12)
    if is_live:
        copied_at(nodes[2], LATER - 500)
    why = "it had a part in the election of epoch 3, of which its copy knows nothing: that is lost, or the voters were copied too early: copy them again"
    said = told(tmp_path, "3")
    assert (said[0], said[1] == why) == (safety, safety == Safety.UNKNOWN)
    words = [one.row.message for one in found(audit(tmp_path), "quorum_state_present")]
    assert len(words) == (safety == Safety.UNKNOWN)
    assert all("the node had a part in the election of epoch 3" in one for one in words)


@pytest.mark.parametrize("entry", [(), ((3, 12),)])
@pytest.mark.parametrize("holds", [True, False])
def test_a_leader_that_stopped_before_its_first_record(
    holds: bool, entry: tuple[tuple[int, int], ...], tmp_path: Path
) -> None:
    """Voter 3 elected it, and notes that; no log holds a record of its epoch, or voter 2's does."""
    nodes = quorum(tmp_path)
    nodes[0].epochs([(1, 0), (2, 8), *entry])
    nodes[0].quorum_state(leaderId=1, leaderEpoch=3)
    nodes[2].quorum_state(leaderId=1, leaderEpoch=3)
    if holds:
        nodes[1].append(leader_change(12, 3, 1, LATER, (1, 2)))
        nodes[1].epochs([(1, 0), (2, 8), (3, 12)])
        nodes[1].quorum_state(leaderId=1, leaderEpoch=3)
    (row,) = [one.row for one in found(audit(tmp_path), "log_end_lost")]
    assert (row.severity == "info", "The node may start." in row.message) == (not holds,) * 2
    assert (told(tmp_path, "1")[0] == Safety.SAFE) is not holds


@pytest.mark.parametrize(
    ("granted", "voted", "is_told"),
    [((1, 3), 1, False), ((1, 3), -1, False), ((1, 2), 3, False), ((1, 3), 3, True)],
)
def test_a_voter_whose_quorum_state_holds_another_vote(
    granted: tuple[int, ...], voted: int, is_told: bool, tmp_path: Path
) -> None:
    """From 4.0 on a follower keeps its vote in the epoch, be it for itself; before, none."""
    elected_1(quorum(tmp_path), *granted, voted=voted)
    why = "its quorum-state says that it voted for node 3 in epoch 3, though it elected node 1, so it could vote twice"
    assert (told(tmp_path, "3") == (Safety.UNSAFE, why, None)) is is_told
    assert bool(found(audit(tmp_path), "quorum_state_present")) is is_told


def test_a_reason_that_several_nodes_have_in_common_is_of_each(tmp_path: Path) -> None:
    for node in quorum(tmp_path)[::2]:
        (node.folder / "quorum-state").unlink()
    told, safe = answer_of([*rows_of(tmp_path).values()], None, []).restart
    assert told.nodes == "each of controllers 1 and 3"
    assert told.why == "its quorum-state is missing, so it could vote twice"
    assert safe.nodes == "controller 2"


def test_where_no_copy_has_a_quorum_state_it_was_likely_left_out(tmp_path: Path) -> None:
    """As where only logs were copied; a voter that has lost its log is not to be started all the same."""
    nodes = quorum(tmp_path)
    for node in nodes:
        (node.folder / "quorum-state").unlink()
    why = "no copy at hand has a quorum-state, so it was likely left out: copy it, too"
    assert told(tmp_path, "1") == (Safety.UNKNOWN, why, None)
    nodes[0].epochs([(1, 0), (2, 8), (3, 12)])
    assert told(tmp_path, "1")[0] == Safety.UNSAFE
    assert told(tmp_path, "2") == (Safety.UNKNOWN, why, None)


def test_a_quorum_state_that_was_set_back_behind_an_epoch_that_the_node_led(tmp_path: Path) -> None:
    """It was stopped before it wrote anything."""
    node = quorum(tmp_path)[2]
    stopped(node, 12)
    node.epochs([(1, 0), (2, 8), (3, 12)])
    node.quorum_state(leaderId=-1, leaderEpoch=3)
    assert told(tmp_path, "3")[0] == Safety.SAFE
    node.quorum_state(leaderId=-1, leaderEpoch=2)
    why = "its quorum-state is older than its leader-epoch-checkpoint, so it could vote twice"
    assert told(tmp_path, "3") == (Safety.UNSAFE, why, None)


@pytest.mark.parametrize(("age_ms", "safety"), [(500, Safety.SAFE), (120_000, Safety.UNSAFE)])
def test_voters_that_were_set_back_are_not_excused_by_what_came_a_moment_later(
    age_ms: int, safety: Safety, tmp_path: Path
) -> None:
    """What follows their last record was written half a second later, and the rest up to now."""
    nodes = quorum(tmp_path)
    nodes[2].append(
        Batch(12, 2, (NO_OP,), None, LATER), Batch(13, 2, (NO_OP,), None, LATER + age_ms)
    )
    state = snapshot(healthy_state(), 2, LATER + age_ms)
    nodes[2].checkpoint(14, 2).write_bytes(state)
    for node in nodes[:2]:
        copied_at(node, LATER - 500)
    found = answers(tmp_path)
    assert {found["1"].safety, found["2"].safety} == {safety}
    # The same of the files beside a log that alone was set back.
    nodes[0].epochs([(1, 0), (2, 8), (3, 13)])
    beside = Safety.UNKNOWN if safety == Safety.SAFE else Safety.UNSAFE
    assert answers(tmp_path)["1"].safety == beside


def behind_a_snapshot(root: Path) -> list[Node]:
    """Voters 2 and 3 end at offset 6 since a moment before what follows; a snapshot of voter 1
    tells that all up to 12 was committed.
    """
    nodes = quorum(root)
    cut_at(START_MS + 3_999)(nodes)
    return nodes


def test_who_holds_what_copies_or_disks_lack_starts_first(tmp_path: Path) -> None:
    """Running voters were only copied before; those that are down may have lost it."""
    behind_a_snapshot(tmp_path)
    found = answers(tmp_path)
    assert {label: (one.safety, one.order) for label, one in found.items()} == {
        "1": (Safety.SAFE, 1), "2": (Safety.SAFE, 3), "3": (Safety.SAFE, 2),
    }  # fmt: skip
    why = f"nothing is lost if it runs: it was copied, or last written, before offset 6, and has fetched that since; if it is down, start controller 1 first{THEN_FEW}"
    only = "; but while the node is down the others are a majority only with voter 3, which must have caught up first"
    late = why.replace("the rest when", "the rest, this one among them, when")
    assert (found["2"].reason, found["3"].reason) == (late + only, why), "node 2 leads"


def test_whose_own_log_names_no_other_voter_does_not_start_with_it(tmp_path: Path) -> None:
    """A real node of Kafka 4.3.1, from a quorum begun with --standalone, had its folder put back from
    before the others joined. It led epoch 2 by itself; started again, epoch 9, beside a leader of
    epoch 8: the others followed it, and cut what they had committed, or ended.
    """
    nodes = behind_a_snapshot(tmp_path)
    nodes[0].append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
    stored = [healthy_log()[1], healthy_log()[3]]
    alone = snapshot(stored, 1, START_MS + 3_000, voters=[3])
    for node in nodes:
        node.checkpoint(6, 1).write_bytes(alone)
    found = answers(tmp_path)
    never = "; if it is down, do not start it with this log, which names no other voter, so that it leads at once"
    assert (never in found["3"].reason, never in found["1"].reason) == (True, False)
    assert "start controller" not in found["3"].reason


def test_a_voters_former_disk_elects_who_is_as_old(tmp_path: Path) -> None:
    """Kafka 4.3.1: voter 3 had its disk replaced, and the one of before put back; it elected an old
    disk of 2, and 160 committed offsets were cut from 1. As 2 led, and 1 follows it, it ends at each
    start; with the log folder of 1 both went on.
    """
    nodes = behind_a_snapshot(tmp_path)
    replaced = voters_record([(1, 1), (2, 2), (3, 99)], (0, 1), "CONTROLLER")
    nodes[0].append(Batch(12, 2, (replaced,), (struct.pack(">hh", 0, 6),), LATER))
    stored = [healthy_log()[1], healthy_log()[3]]
    for node in nodes:
        before = snapshot(stored, 1, START_MS + 3_000, voters=[1, 2, 3])
        node.checkpoint(6, 1).write_bytes(before)
    reasons = {label: one.reason for label, one in answers(tmp_path).items()}
    todo = "put the log folder of replica 1 in the place of its own, with the quorum-state that is in it, as nobody can lead without it"
    assert f"; if it is down, {todo}" in reasons["2"]
    assert reasons["3"].endswith("; if it is down, start it when another one leads")
    result = audit(tmp_path)
    (disk,) = found(result, "voter_directories_agree")
    assert "remove the voter (3, " in disk.row.message
    assert "put directory.id=" not in disk.row.message, "its own records name it with this disk"
    lacking = found(result, "voter_holds_committed_data")
    told = [one.row.message for one in lacking if one.row.replica == "2"]
    assert f"If it is down, {todo}." in told[0]


def test_who_is_elected_by_fewer_starts_when_another_one_leads(tmp_path: Path) -> None:
    """Two of three voters, put back from before two more had joined, elected each other in two of
    four starts of Kafka 4.3.1, although the one that held all was started first.
    """
    nodes = behind_a_snapshot(tmp_path)
    nodes[0].append(voters_batch(12, 2, 1, 2, 3, 4, 5, ms=LATER))
    stored = [healthy_log()[1], healthy_log()[3]]
    three = snapshot(stored, 1, START_MS + 3_000, voters=[1, 2, 3])
    for node in nodes:
        node.checkpoint(6, 1).write_bytes(three)
    found = answers(tmp_path)
    late = "if it is down, start controller 1 first, then only as many others as make a majority with it, and the rest, this one among them, when it leads"
    assert [late in found[one].reason for one in "123"] == [False, True, True]


@pytest.mark.parametrize("forgets, first", [(1, 4), (4, 1)])
def test_of_two_that_hold_it_the_one_that_knows_its_vote_starts_first(
    tmp_path: Path, forgets: int, first: int
) -> None:
    nodes = [*quorum(tmp_path), Node(tmp_path, 4), Node(tmp_path, 5)]
    for node in nodes[3:]:
        node.write(healthy_log())
    cut_at(START_MS + 3_999)([nodes[0], nodes[1], nodes[2], nodes[4]])
    shutil.copy2(nodes[0].checkpoint(12, 2), nodes[3].folder)
    five = [{"voterId": one} for one in range(1, 6)]
    for number, node in enumerate(nodes, 1):
        epoch = 2 if number in (1, 4) else 1
        node.quorum_state(leaderId=epoch, leaderEpoch=epoch, currentVoters=five)
    (nodes[forgets - 1].folder / "quorum-state").unlink()
    found = answers(tmp_path)
    assert f"if it is down, start controller {first} first" in found["3"].reason


def test_who_starts_first_has_those_beside_it_that_go_on_from_its_end(tmp_path: Path) -> None:
    """Two of five hold more than a majority, one of them more than the other."""
    nodes = [*quorum(tmp_path), Node(tmp_path, 4), Node(tmp_path, 5)]
    for node in nodes[3:]:
        node.write(healthy_log())
    five = [{"voterId": one} for one in range(1, 6)]
    for node in nodes:
        node.quorum_state(leaderId=2, leaderEpoch=2, currentVoters=five)
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    nodes[1].append(Batch(12, 2, (NO_OP,), None, LATER), Batch(13, 2, (NO_OP,), None, LATER))
    found = answers(tmp_path)
    few = ", then only as many others as make a majority with them, and the rest when one of them leads"
    assert found["1"].reason.endswith(
        f"start it first if it is down already, beside controller 2, where the log goes on{few}"
    )
    assert found["2"].reason.endswith(f"start it first if it is down already{THEN_FEW}")
    newer = Node(tmp_path / "newer", 1)
    shutil.copytree(nodes[0].home, newer.home, dirs_exist_ok=True)
    shutil.rmtree(nodes[1].home)
    newer.append(Batch(13, 2, (NO_OP,), None, LATER))
    assert "beside" not in answers(tmp_path)["1"].reason, "both are disks of one node"


@pytest.mark.parametrize("is_missing", [False, True])
def test_what_no_voter_at_hand_holds_is_not_excused(is_missing: bool, tmp_path: Path) -> None:
    """Only a broker's snapshot tells of it."""
    nodes, broker = quorum(tmp_path), Node(tmp_path, 9)
    broker.write(healthy_log())
    cut_at(START_MS + 3_999)([broker, *nodes])
    if is_missing:
        shutil.rmtree(nodes[0].home)
    found = answers(tmp_path)
    assert {one.safety for one in found.values()} == {Safety.UNKNOWN}
    why = "of what is committed, no voter at hand holds offsets 6 to 11: that is lost, or the voters were copied too early: copy them again"
    assert (found["2"].reason, found["3"].reason) == (why, why)
    assert found["9"].reason.startswith("no voter at hand holds offsets 6 to 11 any more")
    assert found["2"].needs == ((1,) if is_missing else ())
    told = {one.severity for one in findings_of(tmp_path, "voter_holds_committed_data")}
    assert told == {"info"}


def test_a_voter_that_was_stopped_lacks_it_on_its_disk_as_well(tmp_path: Path) -> None:
    """A copy of a log that was closed where it ends was taken too early for nothing."""
    for node in behind_a_snapshot(tmp_path)[1:]:
        (node.folder / f"{6:020d}.snapshot").write_bytes(NO_PRODUCERS)
        (node.folder / f"{0:020d}.index").touch()
    found = answers(tmp_path)
    assert {label: one.safety for label, one in found.items()} == dict.fromkeys(
        "123", Safety.UNSAFE
    )
    assert "start it first" in found["1"].reason
    told = {one.severity for one in findings_of(tmp_path, "voter_holds_committed_data")}
    assert told == {"critical"}


def findings_of(root: Path, check: str) -> list[Finding]:
    evidence = collect(find_replicas([str(root)]), LIMITS, Redactor(None))
    return [one for one in audit_of(Quorum(evidence)).findings if one.check == check]


# --- Copies of a quorum that runs ----------------------------------------------------------------


def beside_the_leader(root: Path) -> dict[str, Restart]:
    found = find_replicas([str(root)])
    evidence = collect(found, LIMITS, Redactor(None), described_beside(found))
    return {one.replica: one for one in restarts(Quorum(evidence))}


def test_copies_that_are_older_than_the_pulled_leader_lose_nothing(tmp_path: Path) -> None:
    """All of them end below what is committed, as each was copied before it was written."""
    copied_live(tmp_path)
    found = beside_the_leader(tmp_path)
    assert {one.safety for one in found.values()} == {Safety.SAFE}
    written = "nothing is lost: what is missing from offset {} on comes from the leader"
    only = "; but while the node is down the others are a majority only with "
    one, three = (f"voter {node}, which must have caught up first" for node in (1, 3))
    assert {label: one.reason for label, one in found.items()} == {
        "1": written.format(12) + only + three,
        "2": written.format(13) + only + f"{one}, and {three}",
        "3": written.format(14) + only + one,
    }, "node 2 leads, and lags behind nobody"


def test_copies_that_were_there_when_it_was_written_have_lost_it(tmp_path: Path) -> None:
    """The same copies, but their files were written to after what they lack."""
    for node in copied_live(tmp_path):
        copied_at(node, START_MS + 60_000)
    found = beside_the_leader(tmp_path)
    why = "it could be elected without what is committed from offset 14 on"
    assert (found["3"].safety, found["3"].reason) == (Safety.UNSAFE, why)


@pytest.mark.parametrize(
    ("later_ms", "safety"), [(1, Safety.LOSES), (-1, Safety.UNSAFE)], ids=["before", "after"]
)
def test_what_a_newer_leader_went_without_comes_with_a_later_one(
    later_ms: int, safety: Safety, tmp_path: Path
) -> None:
    """Leader 1 of epoch 4 was cut off when it was copied. It had not got the first record of epoch 3,
    which was a second older; leader 3 of epoch 5 had, and wrote before or after the copy.
    """
    nodes, copied = quorum(tmp_path), COPIED_MS + 1000
    for node in nodes:
        copied_at(node, COPIED_MS)
    nodes[0].append(leader_change(12, 4, 1, copied))
    nodes[0].epochs([(1, 0), (2, 8), (4, 12)])
    nodes[0].quorum_state(leaderId=1, leaderEpoch=4)
    copied_at(nodes[0], copied)
    later = [leader_change(13, 5, 3, copied + later_ms), Batch(14, 5, (NO_OP,), None, copied + 2)]
    live = Node(tmp_path, 9)
    live.write([*healthy_log(), leader_change(12, 3, 2, COPIED_MS + 1), *later])
    live.epochs([(1, 0), (2, 8), (3, 12), (5, 13)])
    (live.folder / "quorum-state").unlink()
    live.meta(node_id=-1, directory=9)
    describe(live, 3, 5, 15)
    assert beside_the_leader(tmp_path)["1"].safety == safety


NOW = START_MS + 12_001


def described(root: Path, *rows: tuple[object, ...]) -> None:
    """The table of a describe, behind what there is: node, directory, end, last fetch, caught up."""
    text = ["\t".join(COLUMNS)]
    for node, directory, end, fetched, caught_up in rows:
        text.append("\t".join(map(str, (node, directory, end, 0, fetched, caught_up, "Follower"))))
    with next(root.glob("*/quorum-describe")).open("a", encoding="utf-8") as file:
        file.write("\n".join(["", *text, ""]))


@pytest.mark.parametrize(
    ("end", "fetched_ms", "directory", "safety"),
    [
        (15, NOW, disk_text(3), Safety.SAFE),
        (15, NOW, ZERO_UUID, Safety.SAFE),
        (14, NOW, disk_text(3), Safety.UNSAFE),
        (15, NOW - 1, disk_text(3), Safety.UNSAFE),
        (15, NOW + 60_000, disk_text(3), Safety.UNSAFE),
        (15, NOW, disk_text(2), Safety.UNSAFE),
    ],
)
def test_what_a_node_has_asked_for_since_it_was_copied_is_not_lost(
    end: int, fetched_ms: int, directory: str, safety: Safety, tmp_path: Path
) -> None:
    """Its files were written to a moment after what they lack, by the clocks; it had it later."""
    copied_at(copied_live(tmp_path)[2], NOW - 1)
    old = (3, disk_text(4), 9, NOW - 60_000, NOW - 60_000)
    described(tmp_path, (3, directory, end, fetched_ms, fetched_ms), old)
    assert beside_the_leader(tmp_path)["3"].safety == safety


@pytest.mark.parametrize("caught_up_ms", [NOW - 3000, NOW - 3001, -1])
def test_a_voter_that_does_not_keep_up_starts_first(caught_up_ms: int, tmp_path: Path) -> None:
    """The others wait for it, as there is no majority without it and one of them."""
    copied_live(tmp_path)
    described(
        tmp_path, (2, ZERO_UUID, 15, NOW, NOW), (3, ZERO_UUID, 15, NOW - 20, NOW - 40),
        (1, ZERO_UUID, 15, caught_up_ms, caught_up_ms), (11, ZERO_UUID, 15, NOW, NOW),
    )  # fmt: skip
    found = beside_the_leader(tmp_path)
    assert {one.safety for one in found.values()} == {Safety.SAFE}
    ends = {label: one.reason.partition("from the leader")[2] for label, one in found.items()}
    if caught_up_ms == NOW - 3000:
        left = "; voters {} kept up with the leader, and are a majority while the node is down"
        assert ends == {
            "1": left.format("2 and 3"), "2": left.format("1 and 3"), "3": left.format("1 and 2")
        }  # fmt: skip
        assert {label: one.order for label, one in found.items()} == {"1": 1, "3": 2, "2": 3}
        return
    still = ", but the quorum stands still while the node is down: voter 1 did not keep up with the leader"
    first = "; it did not keep up with the leader when that was described, so start it first"
    assert ends == {"1": first, "2": still, "3": still}
    assert {label: one.order for label, one in found.items()} == {"1": 1, "3": 2, "2": 3}


def test_who_did_not_keep_up_waits_for_nobody_with_what_it_alone_holds(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    for node in nodes[1:]:
        copied_at(node, LATER - 500)
    describe(nodes[1], 2, 2, 12)
    rows = ((one, ZERO_UUID, 12, NOW, NOW) for one in (2, 3))
    described(tmp_path, *rows, (1, ZERO_UUID, 11, NOW - 60_000, NOW - 60_000))
    one = beside_the_leader(tmp_path)["1"]
    why = f"it did not keep up with the leader when that was described, and no majority holds offset 12: start it first{THEN_FEW}"
    told = f"nothing that is known to be committed is lost; {why}"
    assert (one.order, one.reason) == (1, told)


@pytest.mark.parametrize(
    ("told_ms", "safety", "severity", "grade"),
    [
        (None, Safety.UNKNOWN, "info", "incomplete"),
        (NOW, Safety.UNSAFE, "critical", "critical"),
        (NOW + 1, Safety.UNKNOWN, "info", "incomplete"),
        (NOW + 600_000, Safety.UNKNOWN, "info", "incomplete"),
    ],
)
def test_what_a_describe_alone_tells_is_lost_only_where_it_is_older_than_the_copies(
    told_ms: int | None, safety: Safety, severity: str, grade: str, tmp_path: Path
) -> None:
    """All voters end before its high watermark: they were copied before it, or lost their ends."""
    nodes = quorum(tmp_path)
    status = "LeaderId: 2\nLeaderEpoch: 2\nHighWatermark: 15\nCurrentVoters: [1,2,3]\n"
    (nodes[1].home / "quorum-describe").write_text(status)
    if told_ms is not None:
        described(tmp_path, *((one, ZERO_UUID, 15, told_ms, told_ms) for one in (1, 2, 3)))
    for node in nodes:
        copied_at(node, NOW)
    found = beside_the_leader(tmp_path)
    why = "no copy at hand holds offsets 12 to 14, which the describe tells to be committed: that is lost, or"
    assert {one.safety for one in found.values()} == {safety}
    assert {one.reason.startswith(why) for one in found.values()} == {safety == Safety.UNKNOWN}
    replicas = find_replicas([str(tmp_path)])
    evidence = collect(replicas, LIMITS, Redactor(None), described_beside(replicas))
    result = audit_of(Quorum(evidence))
    severities = {
        one.severity for one in result.findings if one.check == "voter_holds_committed_data"
    }
    assert severities == {severity}
    assert result.verdict.grade == grade


def test_nobody_starts_where_a_describe_names_voters_of_which_no_record_tells(
    tmp_path: Path,
) -> None:
    """What those hold may be committed, and missing here."""
    nodes = quorum(tmp_path)
    status = "LeaderId: 2\nLeaderEpoch: 2\nHighWatermark: 12\nCurrentVoters: [1,2,3,4,5]\n"
    (nodes[1].home / "quorum-describe").write_text(status)
    found = beside_the_leader(tmp_path).values()
    assert {(one.safety, one.needs, one.order) for one in found} == {(Safety.UNKNOWN, (4, 5), None)}
    assert all("copy all that it names" in one.reason for one in found)


@pytest.mark.parametrize("told_ms", [START_MS + 11_000 - 60_000, START_MS + 11_000 - 60_001])
@pytest.mark.parametrize("epoch", [2, 1])
def test_a_describe_from_long_before_says_nothing_of_who_keeps_up(
    epoch: int, told_ms: int, tmp_path: Path
) -> None:
    """The newest record at hand is of START_MS + 11,000, and of epoch 2."""
    copied_live(tmp_path)
    place = next(tmp_path.glob("*/quorum-describe"))
    status = place.read_text(encoding="utf-8").replace("Epoch: 2", f"Epoch: {epoch}")
    place.write_text(status, encoding="utf-8")
    described(tmp_path, *((one, ZERO_UUID, 15, told_ms, told_ms) for one in (1, 2, 3)))
    is_of_now = epoch == 2 and told_ms == START_MS - 49_000
    reasons = [one.reason for one in beside_the_leader(tmp_path).values()]
    assert ["kept up with the leader" in one for one in reasons] == 3 * [is_of_now]


@pytest.mark.parametrize(
    ("voters", "why"),
    [((1,), "no other node votes"), ((1, 2), "the other voters are not a majority")],
)
def test_where_all_voters_keep_up_and_none_may_be_down(
    voters: tuple[int, ...], why: str, tmp_path: Path
) -> None:
    nodes, live = [Node(tmp_path, one) for one in voters], Node(tmp_path, 9)
    for one in (*nodes, live):
        one.write([*healthy_log(), voters_batch(12, 2, *voters)])
    (live.folder / "quorum-state").unlink()
    live.meta(node_id=-1, directory=9)
    status = f"LeaderId: 1\nLeaderEpoch: 2\nHighWatermark: 13\nCurrentVoters: {list(voters)}\n"
    (live.home / "quorum-describe").write_text(status, encoding="utf-8")
    described(tmp_path, *((one, ZERO_UUID, 13, NOW, NOW) for one in voters))
    told = f"nothing is lost, but the quorum stands still while the node is down: {why}"
    assert beside_the_leader(tmp_path)["1"].reason == told


def test_a_leader_that_does_not_keep_up_any_more_starts_first(tmp_path: Path) -> None:
    """Node 2 led the newest epoch at hand; another leader does not hear of it."""
    copied_live(tmp_path)
    place = next(tmp_path.glob("*/quorum-describe"))
    place.write_text(place.read_text(encoding="utf-8").replace("LeaderId: 2", "LeaderId: 3"))
    described(tmp_path, (3, ZERO_UUID, 15, NOW, NOW), (1, ZERO_UUID, 15, NOW, NOW))
    found = beside_the_leader(tmp_path)
    assert {label: one.order for label, one in found.items()} == {"2": 1, "1": 2, "3": 3}


@pytest.mark.parametrize("is_late", [False, True])
def test_one_disk_beside_the_pulled_leader(is_late: bool, tmp_path: Path) -> None:
    """The leader shows what it lacks; the other disks are not needed unless it lacks what was
    written before it was copied.
    """
    nodes = copied_live(tmp_path)
    for node in nodes[1:]:
        shutil.rmtree(node.home)
    if is_late:
        copied_at(nodes[0], START_MS + 60_000)
    one = beside_the_leader(tmp_path)["1"]
    if is_late:
        assert (one.safety, one.needs) == (Safety.UNKNOWN, (2, 3))
        return
    assert one.safety == Safety.SAFE
    assert one.reason.startswith(
        "nothing is lost: what is missing from offset 12 on comes from the leader"
    )
    assert one.reason.endswith(
        "see in quorum-describe that the voters which keep up are a majority without it"
    )


def test_a_log_that_was_copied_before_its_index_tells_nothing(tmp_path: Path) -> None:
    nodes = copied_live(tmp_path)
    nodes[0].epochs([(1, 0), (2, 8), (3, 14)])
    found = beside_the_leader(tmp_path)["1"]
    why = "its log was copied before the files beside it, while the node was writing"
    assert (found.safety, found.reason) == (Safety.UNKNOWN, why)


def test_only_a_tail_is_said_to_be_never_committed(tmp_path: Path) -> None:
    """A broker that throws a damaged end away fetches it again."""
    quorum(tmp_path)
    observer = Node(tmp_path, 9)
    observer.write(healthy_log())
    overwrite(observer.segment(6), AT[9] + 70, b"\x55")
    rows = list(rows_of(tmp_path).values())
    assert answer_of(rows, None, []).sentence.endswith("Broker 9 loses records by it.")


def test_who_could_be_elected_over_another_history_loses_that_history(tmp_path: Path) -> None:
    """Voters that went on from older copies of their disks have a history of their own: what their
    election costs is what the other one holds.
    """
    went_on_from_backups(quorum(tmp_path))
    rows = rows_of(tmp_path)
    for label in ("2", "3"):
        assert rows[label]["reason"].startswith("it could be elected without what is committed")
        assert rows[label]["lost_from"] == 12
        (lost,) = rows[label]["lost"]
        assert (lost["table"], lost["names"]) == ("topics", ["theirs"])


STOPPING = {
    "references_exist": Batch(12, 2, (remove_topic(9),), None, LATER),
    "isr_within_replicas": Batch(12, 2, (ONE_DIRECTORY,), None, LATER),
    "topic_identity_unique": Batch(12, 2, (topic("a", 8),), None, LATER),
    "record_replays": Batch(12, 2, (level(0),), None, LATER),
    "transactions_well_formed": Batch(12, 2, (TRANSACTION["end"],), None, LATER),
}


@pytest.mark.parametrize("check", STOPPING)
def test_a_record_that_stops_loaders_stops_each_node_that_holds_it(
    check: str, tmp_path: Path
) -> None:
    for node in quorum(tmp_path)[:2]:
        node.append(STOPPING[check])
    model = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    rows = restart_rows(model, audit_of(model))
    assert {row["replica"]: row["verdict"] for row in rows} == {
        "1": "unsafe", "2": "unsafe", "3": "safe",
    }  # fmt: skip
    assert all(row["reason"].endswith(f"({check})") for row in rows if row["replica"] != "3")


def judged(root: Path) -> dict[str, dict[str, Any]]:
    """What is said of each replica's restart, by what its audit finds."""
    model = Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None)))
    return {row["replica"]: row for row in restart_rows(model, audit_of(model))}


def test_who_begins_with_a_snapshot_behind_a_record_does_not_stop_there(tmp_path: Path) -> None:
    for node in quorum(tmp_path):
        node.append(STOPPING["references_exist"])
        if node.node_id != 3:
            node.checkpoint(13, 2).write_bytes(snapshot(healthy_state(), 2, LATER))
    rows = judged(tmp_path)
    assert {label: row["verdict"] for label, row in rows.items()} == {
        "1": "safe", "2": "safe", "3": "unsafe",
    }  # fmt: skip
    assert rows["1"]["reason"].startswith("safe, once the critical finding is settled")


CONTROLLERS_STOP = {
    "producer_ids_increase": Batch(12, 2, (producer_ids(1),), None, LATER),
    "topic_identity_unique": Batch(12, 2, (topic("a", 8),), None, LATER),
    "references_exist": Batch(12, 2, (unregister_broker(7, 12),), None, LATER),
    "record_replays": Batch(12, 2, (feature("kraft.version", -1),), None, LATER),
}


@pytest.mark.parametrize("check", CONTROLLERS_STOP)
def test_a_record_that_stops_controllers_stops_no_broker(check: str, tmp_path: Path) -> None:
    """Brokers take it, whoever of all that hold it the finding names."""
    nodes = [*quorum(tmp_path)[:2], Node(tmp_path, 0)]
    nodes[2].write(healthy_log())
    for node in nodes:
        node.append(CONTROLLERS_STOP[check])
    model = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    result = audit_of(model)
    (one,) = found(result, check)
    assert (one.row.replica, one.row.evidence["stops"]) == ("0", "controllers")
    rows = {row["replica"]: row for row in restart_rows(model, result)}
    assert {label: row["verdict"] for label, row in rows.items()} == {
        "0": "safe", "1": "unsafe", "2": "unsafe", "3": "safe",
    }  # fmt: skip


def test_a_config_that_brokers_do_not_take_stops_also_one_that_is_not_registered(
    tmp_path: Path,
) -> None:
    nodes = [*quorum(tmp_path), Node(tmp_path, 0)]
    nodes[3].write(healthy_log())
    for node in nodes:
        node.append(Batch(12, 2, (config(2, "a", "retention.ms", "-2"),), None, LATER))
    rows = judged(tmp_path)
    assert {label: row["verdict"] for label, row in rows.items()} == {
        "0": "unsafe", "1": "safe", "2": "safe", "3": "safe",
    }  # fmt: skip
    assert rows["0"]["reason"].endswith("(topic_configs_taken)")


@pytest.mark.parametrize(
    ("keeping_up", "fell"), [((1, 2, 3), []), ((1, 2), ["3"]), ((2,), ["1", "3"]), ((), [])]
)
def test_copies_that_are_alike_are_not_sound_where_a_voter_fell_behind(
    keeping_up: tuple[int, ...], fell: list[str], tmp_path: Path
) -> None:
    """What a describe shows of the running quorum counts, too; one without the table shows nothing."""
    nodes = quorum(tmp_path)
    for node in nodes:
        copied_at(node, COPIED_MS)
    describe(nodes[1], 2, 2, 12, keeping_up=keeping_up)
    verdict = audit(tmp_path).verdict
    assert [one.replica for one in verdict.lagging if one.fell_behind] == fell
    assert verdict.grade == ("attention" if fell else "sound")


@pytest.mark.parametrize("is_known", [True, False])
def test_who_knows_a_leader_and_no_voters_waits_for_a_snapshot(
    is_known: bool, tmp_path: Path
) -> None:
    """A voter of Kafka 4.3.1 whose folder was set aside was stopped in its download, and ended at each
    start: nothing on its disk said who votes. Its leader unknown, it starts.
    """
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
    joiner(nodes[2])
    nodes[2].quorum_state(leaderId=2 if is_known else -1, leaderEpoch=2)
    row = judged(tmp_path)["3"]
    assert row["reason"].startswith("Kafka 4 stops with an error at the first answer") is is_known
    assert (row["order"] is None) is is_known


@pytest.mark.parametrize("brokers", [HALF, HALF_OF_3_6, RUNNING], ids=["3.7", "3.6", "runs"])
def test_a_broker_that_may_delete_a_folder_waits_for_its_copy(
    brokers: tuple[bytes, ...], tmp_path: Path
) -> None:
    """Brokers of Kafka 3.3 to 3.6 delete it for good at their start; later ones rename it."""
    folder(9, "a-0", 1, brokers)(quorum(tmp_path))
    row = judged(tmp_path)["2"]
    told = (
        "copy folder a-0 first: Kafka before 3.7 deletes it when it starts (folders_match_topics)"
    )
    is_told = row["reason"].startswith(f"{told}; then nothing is lost")
    assert is_told is (row["order"] is None) is (brokers == HALF_OF_3_6)


def test_a_node_that_does_not_support_the_level_of_a_feature_may_not_restart(
    tmp_path: Path,
) -> None:
    """Voter 2 registered with older software; the others support that level."""
    registered = [controller(1, 25), controller(2, 20), controller(3, 25)]
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, (level(25), *registered), None, LATER))
    rows = judged(tmp_path)
    assert {label: row["verdict"] for label, row in rows.items()} == {
        "1": "safe", "2": "unsafe", "3": "safe",
    }  # fmt: skip
    assert rows["2"]["reason"].startswith("The metadata.version is 25, but these nodes do not")
    assert rows["2"]["reason"].endswith("(features_upgradable)")


def test_what_is_wrong_in_the_history_and_stops_nobody_lets_all_nodes_wait(tmp_path: Path) -> None:
    """It is of no copy more than of another one that the state is wrong."""
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, (change(1, leader=9),), None, LATER))
    model = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    result = audit_of(model)
    (one,) = found(result, "leader_in_isr")
    assert (one.severity, one.row.replica) == ("critical", "1")
    rows = restart_rows(model, result)
    assert [(row["verdict"], row["order"]) for row in rows] == [("safe", None)] * 3
    (told,) = answer_of(rows, None, []).restart
    assert (told.may, told.nodes) == ("not yet", "controllers 1, 2 and 3")
    findings = [one.as_row() for one in result.findings if one.severity == "critical"]
    words = headline(result.verdict.as_row(), findings, [])
    assert words.startswith("1 critical finding, from offset 12 on: settle it")


def test_what_two_damaged_logs_would_throw_away_is_lost_and_asks_to_keep_both(
    tmp_path: Path,
) -> None:
    """Each holds what the other one's start cuts; no third one does."""
    nodes = quorum(tmp_path)
    cut(nodes[1], AT[9])
    overwrite(nodes[0].segment(0), AT[4] + 70, b"\x55")
    overwrite(nodes[2].segment(6), AT[9] + 70, b"\x55")
    model = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    result = audit_of(model)
    rows = {row["replica"]: row for row in restart_rows(model, result)}
    assert [(rows[one]["verdict"], rows[one]["lost"]) for one in "13"] == [("unsafe", None)] * 2
    answer = answer_of([*rows.values()], None, [one.as_row() for one in result.findings])
    assert [one.lists for one in answer.lost if one.nodes != "controller 2"] == [
        ((UNKNOWN, ()),), ((UNKNOWN, ()),),
    ]  # fmt: skip
    assert "stop" in {one.key for one in answer.todo}
    # The first begins anew behind its damage, where its own snapshot reaches.
    assert asked(result) == {"1": "refetch", "3": "stop"}
    nodes[0].checkpoint(6, 1).unlink()
    assert asked(audit(tmp_path)) == {"1": "stop", "3": "stop"}


def asked(result: AuditResult) -> dict[str | None, str]:
    """What is to be done about damaged batches, by replica."""
    damaged = found(result, "batch_crc_valid")
    return {one.row.replica: action_of(one.as_row()) for one in damaged}


# --- Nodes without a log -------------------------------------------------------------------------


def emptied(node: Node) -> None:
    """What `kafka-storage format` leaves: no file of a log that was opened."""
    shutil.rmtree(node.folder)
    node.folder.mkdir()


def test_a_quorum_that_was_formatted_and_never_started(tmp_path: Path) -> None:
    """No vote was given, so none is forgotten."""
    for node in quorum(tmp_path):
        emptied(node)
        bootstrap = snapshot([], 0, START_MS, voters=(1, 2, 3))
        node.checkpoint(0, 0).write_bytes(bootstrap)
    found = answers(tmp_path)
    why = "nothing is lost: its log is empty, and it was formatted, and has not started yet"
    assert {(one.safety, one.reason) for one in found.values()} == {(Safety.SAFE, why)}
    assert findings_of(tmp_path, "quorum_state_present") == []
    shutil.rmtree(tmp_path / "3")
    assert {one.safety for one in answers(tmp_path).values()} == {Safety.UNKNOWN}


@pytest.mark.parametrize("elects", ["nobody", "another", "itself"])
def test_one_that_was_started_alone_and_elected_nobody(elects: str, tmp_path: Path) -> None:
    """It opens an empty log, and those that wait for their first start are what it lacks."""
    one, *others = quorum(tmp_path)
    for node in (one, *others):
        emptied(node)
        bootstrap = snapshot([], 0, START_MS, voters=(1, 2, 3))
        node.checkpoint(0, 0).write_bytes(bootstrap)
    one.segment(0).write_bytes(b"")
    voted = {"nobody": -1, "another": 2, "itself": 1}[elects]
    one.quorum_state(leaderId=-1, leaderEpoch=3, votedId=voted, data_version=1)
    found = answers(tmp_path)
    is_new = elects != "another"
    assert {found[one].safety for one in "23"} == {Safety.SAFE if is_new else Safety.UNKNOWN}
    assert ("has not started yet" in found["2"].reason) == is_new
    assert (findings_of(tmp_path, "quorum_state_present") == []) == is_new


@pytest.mark.parametrize("whole", [True, False])
def test_a_voter_without_a_log_begins_anew_while_the_others_are_whole(
    whole: bool, tmp_path: Path
) -> None:
    nodes = quorum(tmp_path)
    emptied(nodes[2])
    if not whole:
        (nodes[1].folder / "quorum-state").unlink()
    found = answers(tmp_path)["3"]
    assert found.safety == (Safety.SAFE if whole else Safety.UNKNOWN)
    assert ("the other voters that are whole are a majority" in found.reason) == whole


def test_what_a_lost_log_may_have_held_with_one_other_is_not_given_up(tmp_path: Path) -> None:
    """Voter 3 may have committed with 1 what 2 lacks; empty, it would elect 2."""
    nodes = quorum(tmp_path)
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    emptied(nodes[2])
    assert answers(tmp_path)["3"].safety == Safety.UNKNOWN


@pytest.mark.parametrize("others_too", [True, False])
def test_a_log_that_is_gone_on_the_node_has_a_way_out(others_too: bool, tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node in nodes[1 if others_too else 2 :]:
        for segment in node.folder.glob("*.log"):
            segment.unlink()
    told = {one.row.message for one in findings_of(tmp_path, "file_readable")}
    assert all(("kraftlog recover" in one) == others_too for one in told)
    assert all(("move the folder away" in one) != others_too for one in told)
    assert told


def test_a_broker_without_a_log_fetches_it(tmp_path: Path) -> None:
    quorum(tmp_path)
    broker = Node(tmp_path, 9)
    broker.meta()
    found = answers(tmp_path)["9"]
    why = "nothing is lost: its log is empty, and all of it comes from the leader"
    assert (found.safety, found.reason) == (Safety.SAFE, why)


def test_a_voters_new_disk_waits_for_a_leader(tmp_path: Path) -> None:
    """Beside voters that only start, it ended with an exception in 3 of 4 starts of 4.0.0, 4.1.1 and
    4.3.1; after them in none of five.
    """
    nodes = quorum(tmp_path)
    on_another_disk(nodes)
    emptied(nodes[1])
    found = answers(tmp_path)["2"]
    why = "nothing is lost: its log is empty, and all of it comes from the leader; if it is down, start it when another one leads"
    assert found.safety == Safety.SAFE
    assert found.reason.endswith(why)


def test_a_voter_without_a_batch_is_held_against_nobody(tmp_path: Path) -> None:
    """One that has just fetched a snapshot, or whose last segment was emptied, says where its log
    ends, and not when that was written: the others tell that.
    """
    root = tmp_path / "replicas"
    shutil.copytree(DATA / "lagging" / "replicas", root)
    joined = root / "3" / "__cluster_metadata-0"
    for path in [*joined.glob("*.log"), *joined.glob("*index"), *joined.glob("*.snapshot")]:
        path.unlink()
    (joined / f"{978:020d}.log").touch()
    (joined / "leader-epoch-checkpoint").write_text("0\n0\n")
    found = answers(root)
    assert found["3"].safety == Safety.UNSAFE
    assert "too few voters hold what is committed below offset 1261" in found["1"].reason


def test_what_follows_something_else_is_not_of_what_a_leader_wrote(tmp_path: Path) -> None:
    """One voter's copy differs, and goes on: the leader has lost nothing of that."""
    nodes = quorum(tmp_path)
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    (before,) = found(audit(tmp_path), "log_end_lost")
    assert before.node_id == 2
    replace_batch(nodes[0], 10, lambda one: replace(one, values=(topic("d", 4),)).raw())
    assert found(audit(tmp_path), "committed_data_consistent")
    assert not found(audit(tmp_path), "log_end_lost")


def test_an_epoch_that_a_log_does_not_have_is_claimed_by_its_node(tmp_path: Path) -> None:
    """Kafka takes the last entry of the file for the log's last epoch: the voter with a tail wins,
    and the others cut what is committed. Kafka 4.3.1's KafkaRaftLog gives these answers.
    """
    root = tmp_path / "replicas"
    shutil.copytree(DATA / "isolated" / "replicas", root)
    claims = root / "2" / "__cluster_metadata-0" / "leader-epoch-checkpoint"
    claims.chmod(0o600)
    claims.write_text("0\n2\n1 0\n3 176\n")
    (row,) = found(audit(root), "epoch_checkpoint_agrees")
    assert (row.severity, row.row.offset) == ("warning", 176)
    assert [one.node_id for one in found(audit(root), "voter_holds_committed_data")] == [2]
    model = model_of(root)
    answer = next(one for one in restarts(model) if one.replica == "2")
    assert answer.safety == Safety.UNSAFE
    assert answer.reason.startswith("its leader-epoch-checkpoint claims epoch 3")
    wins = {one.candidate: one.can_win for one in Plans(model).elections()}
    assert wins["2"]
    fetches = {(one["follower"], one["leader"]): one for one in fetch_rows(model)}
    cut = fetches["1", "2"]
    assert (cut["answer"], cut["diverging_epoch"], cut["diverging_end_offset"]) == (
        "diverging_epoch", 1, 176,
    )  # fmt: skip


def test_an_epoch_that_a_file_has_lost_is_lost_to_its_node(tmp_path: Path) -> None:
    """Kafka adds to the file only what is above all its entries. So epoch 1 seems to end where the
    first one left begins, and a tail of epoch 1 is taken for the leader's own; Kafka 4.3.1's
    KafkaRaftLog gives these answers.
    """
    nodes = quorum(tmp_path)
    for node in nodes[:2]:
        node.append(leader_change(12, 3, 1, LATER), Batch(13, 3, (NO_OP,), None, LATER))
        node.epochs([(1, 0), (2, 8), (3, 12)])
    tail = [Batch(8 + one, 1, (NO_OP,), None, LATER) for one in range(4)]
    nodes[2].write([*healthy_log()[:6], *tail])
    nodes[2].epochs([(1, 0)])
    for lost in ([(3, 12)], [(1, 0), (3, 12)]):
        nodes[0].epochs(lost)
        rows = found(audit(tmp_path), "epoch_checkpoint_agrees")
        assert [one.node_id for one in rows] == [1] * (3 - len(lost))
        fetches = fetch_rows(model_of(tmp_path))
        told = {one["leader"]: one for one in fetches if one["follower"] == "3"}
        assert (told["1"]["fetch_offset"], told["1"]["answer"]) == (12, "records")
        assert told["2"]["diverging_end_offset"] == 8


def test_a_node_goes_by_an_older_epoch_where_its_file_lacks_the_last_one(tmp_path: Path) -> None:
    """An entry where the log ends hides from Kafka that the last epoch is not in the file."""
    nodes = quorum(tmp_path)
    nodes[0].epochs([(1, 0), (3, 12)])
    assert answers(tmp_path)["1"].safety == Safety.UNSAFE
    told = {one["follower"]: one for one in fetch_rows(model_of(tmp_path)) if one["leader"] == "2"}
    assert (told["1"]["last_fetched_epoch"], told["1"]["diverging_end_offset"]) == (1, 8)


def test_a_tail_under_the_epoch_that_replaces_it_is_not_cut(tmp_path: Path) -> None:
    """The leader takes it for its own: no record is cut, and the two go on apart."""
    root = tmp_path / "replicas"
    shutil.copytree(DATA / "isolated" / "replicas", root)
    for label in ("2", "12"):
        claims = root / label / "__cluster_metadata-0" / "leader-epoch-checkpoint"
        claims.chmod(0o600)
        claims.write_text("0\n2\n1 0\n2 176\n")
        answer = answers(root)[label]
        assert answer.safety == Safety.UNSAFE
        assert "claims epoch 2" in answer.reason
    fetches = {(one["follower"], one["leader"]): one for one in fetch_rows(model_of(root))}
    assert (fetches["2", "3"]["fetch_offset"], fetches["2", "3"]["answer"]) == (243, "records")


def test_a_voter_that_knows_no_endpoint_of_another_one_halts(tmp_path: Path) -> None:
    """Whatever its log: so it grants no vote either."""
    nodes = quorum(tmp_path)
    looking_at("CTRL", "CONTROLLER")(nodes)
    model = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    boot = Plans(model).boots["1"]
    why = "it halts when it looks for the other voters: it knows no endpoint for its listener CTRL of voters 2 and 3"
    assert (boot.boots, boot.reason) == (False, why)
    rows = {one["replica"]: one for one in restart_rows(model, audit_of(model, ()))}
    assert (rows["1"]["verdict"], rows["1"]["reason"]) == ("unsafe", f"it would not start: {why}")
    told = {one.candidate: (one.can_win, one.granted_by) for one in Plans(model).elections()}
    assert told == {"1": (False, ()), "2": (True, ("2", "3")), "3": (True, ("2", "3"))}


@pytest.mark.parametrize(
    ("ms", "safety"),
    [(healthy_log()[-1].ms + 1, Safety.UNKNOWN), (healthy_log()[-1].ms, Safety.SAFE)],
)
def test_who_began_anew_does_not_go_on_before_it_is_known_what_was_lost(
    ms: int, safety: Safety, tmp_path: Path
) -> None:
    """What was written meanwhile elsewhere is another quorum's, and nobody here ever held it."""
    began_anew(quorum(tmp_path), ms)
    told = answers(tmp_path)
    assert told["3"].safety == Safety.UNSAFE
    for label in ("1", "2"):
        assert told[label].safety == safety
        assert told[label].needs == ()
        assert ("replica 3 may hold what the voters held" in told[label].reason) == (
            safety == Safety.UNKNOWN
        )
