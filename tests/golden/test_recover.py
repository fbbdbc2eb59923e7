"""What `kraftlog recover` makes of real quorums, and of what is left of small ones. That Kafka
starts from it is held in tests/kafka.
"""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.log.directory import find_replicas
from kraftlog.plain import listed
from kraftlog.recover.source import Cause
from kraftlog.state.image import Image
from kraftlog.state.shapes import canonical_text
from tests.canonical import canonical_lines
from tests.golden.cases import DATA, PARTITION, Replica
from tests.images import built
from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    Batch,
    Node,
    deny,
    feature,
    healthy_log,
    healthy_state,
    partition,
    producer_ids,
    quorum,
    remove_topic,
    replace_batch,
    snapshot,
    stopped,
    topic,
)
from tests.unit.faults.borders import cut_at
from tests.unit.faults.ends import of_another_quorum, went_on_from_backups, went_on_without
from tests.unit.faults.health import broker, uuid, value
from tests.unit.faults.table import LATER
from tests.unit.test_directory import as_nobody

FIRST = "1@host1:9093:yD7wSNglQZe1f8nw8v9c1Q"
SECOND = "7@[::1]:9094:DmhVAByDzAsoIMGOut7ABg"
COMBINED = "11@host2:9093:RSmuYd6JQK2vTjcZ0Q9Xgw"


def recover(root: Path, out: Path, *more: str) -> dict[str, Any]:
    """Run the command; gives the plan's values."""
    words = ["recover", "--input", str(root), "--out", str(out), "--voters", FIRST, SECOND]
    assert main([*words, *more]) == 0
    values: dict[str, Any] = json.loads((out / "plan.json").read_text(encoding="utf-8"))
    return values


def image_in(folder: Path) -> Image:
    (replica,) = find_replicas([str(folder)])
    return built(replica, None)


def test_where_the_old_voters_can_go_on_the_plan_says_so_first(tmp_path: Path) -> None:
    def changed(one: Batch) -> bytes:
        return bytes([*one.raw()[:-1], one.raw()[-1] ^ 0xFF])

    nodes = quorum(tmp_path / "in")
    replace_batch(nodes[2], 10, changed)
    assert recover(tmp_path / "in", tmp_path / "one")["able_voters"] == [1, 2]
    head = (tmp_path / "one/plan.md").read_text(encoding="utf-8").split("\n\n")[2]
    assert head.startswith(
        "These copies do not ask for a new quorum. Voters 1 and 2 are a majority"
    )
    assert recover(tmp_path / "in", tmp_path / "at", "--at", "6")["able_voters"] == []
    replace_batch(nodes[1], 10, changed)
    assert recover(tmp_path / "in", tmp_path / "two")["able_voters"] == []
    assert "do not ask" not in (tmp_path / "two/plan.md").read_text(encoding="utf-8")


def test_voters_that_lack_what_is_committed_do_not_go_on_by_themselves(tmp_path: Path) -> None:
    """Two old disks of Kafka 4.3.1 beside a damaged log that holds all: by the plan they were a majority
    that may start again. They elected each other, and 218 committed offsets were not in their logs.
    """
    nodes = quorum(tmp_path / "in")
    cut_at(START_MS + 3_999)(nodes)
    assert recover(tmp_path / "in", tmp_path / "one")["able_voters"] == [1, 2, 3]
    replace_batch(nodes[0], 10, lambda one: bytes([*one.raw()[:-1], one.raw()[-1] ^ 0xFF]))
    assert recover(tmp_path / "in", tmp_path / "two")["able_voters"] == []


@pytest.mark.parametrize("case, best", [("isolated", "1"), ("offline", "2"), ("steady-live", "2")])
def test_the_state_is_that_of_the_furthest_copy_but_for_its_controllers_and_producer_ids(
    case: str, best: str, tmp_path: Path
) -> None:
    plan = recover(DATA / case / "replicas", tmp_path / "new")
    image = image_in(tmp_path / "new" / "7")
    expected = [
        canonical_text(row)
        for row in Replica(case, best).image()
        if row["type"] not in ("REGISTER_CONTROLLER_RECORD", "PRODUCER_IDS_RECORD")
    ]
    ids = [
        row["data"] for row in Replica(case, best).image() if row["type"] == "PRODUCER_IDS_RECORD"
    ]
    lines = canonical_lines(image.state)
    told = [one for one in lines if "PRODUCER_IDS_RECORD" in one]
    assert [one for one in lines if one not in told] == expected
    before = ids[0]["nextProducerId"] if ids else 0
    assert image.state.get("producer_ids", ()) == {
        "brokerId": -1, "brokerEpoch": -1, "nextProducerId": before + 1_000_000_000,
    }  # fmt: skip
    assert len(told) == 1
    assert image.end_offset == plan["end_offset"]
    voters = {key: row["endpoints"][0] for key, row in image.state.rows("voters").items()}
    assert voters == {
        (1, "yD7wSNglQZe1f8nw8v9c1Q"): {"name": "CONTROLLER", "host": "host1", "port": 9093},
        (7, "DmhVAByDzAsoIMGOut7ABg"): {"name": "CONTROLLER", "host": "::1", "port": 9094},
    }
    properties = (tmp_path / "new" / "7" / "meta.properties").read_text()
    assert "node.id=7\ndirectory.id=DmhVAByDzAsoIMGOut7ABg\n" in properties
    assert f"cluster.id={plan['cluster_id']}\n" in properties
    (checkpoint,) = (tmp_path / "new" / "7").glob("*/*.checkpoint")
    assert checkpoint.stat().st_mode & 0o077 == 0


def test_each_node_has_its_files_and_its_commands(tmp_path: Path) -> None:
    """Brokers as they registered, whether or not their disk was copied; a broker of the old
    versions, which named no directory, by its disk.
    """
    copies = tmp_path / "copies"
    shutil.copytree(DATA / "isolated" / "replicas", copies)
    shutil.rmtree(copies / "12")
    plan = recover(copies, tmp_path / "new")
    assert plan["brokers"] == [11, 12]
    assert list(plan["commands"]) == ["1", "7", "11", "12"]
    for one in (11, 12):
        text = (tmp_path / "new" / "brokers" / str(one) / "meta.properties").read_text()
        own = DATA / "isolated" / "replicas" / str(one) / "meta.properties"
        assert set(own.read_text().split()) >= set(text.split())
        assert f"cp -p brokers/{one}/meta.properties" in plan["commands"][str(one)][2]
    for node, commands in plan["commands"].items():
        assert f"--cluster-id {plan['cluster_id']}" in commands[-1]
        assert commands[-1].endswith("--no-initial-controllers") == (node in {"1", "7"})
        text = (tmp_path / "new" / "plan.md").read_text(encoding="utf-8")
        assert all(one in text for one in commands)
    old = recover(DATA / "legacy" / "replicas", tmp_path / "old")
    assert old["brokers"] == [11, 12]
    assert [one for one in old["commands"]["11"] if "meta.properties" in one] == []


def test_the_plan_says_by_name_what_only_a_dead_leader_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = recover(DATA / "isolated" / "replicas", tmp_path / "new")
    (both,) = plan["lost"]
    assert (both["replicas"], both["start_offset"], both["end_offset"]) == (["12", "2"], 176, 243)
    assert any("topic ghost-topic-a" in one and "is created" in one for one in both["objects"])
    assert any("User:ghost" in one for one in both["objects"])
    moves = [one for one in both["objects"] if ": ISR [" in one or ": leader " in one]
    assert len(moves) == 27
    assert both["objects"][-27:] == moves
    assert "ghost-topic-a" not in plan["topics"]
    text = (tmp_path / "new" / "plan.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == text
    # What the cluster does by itself is counted, and does not hide what a person must do again.
    assert "leader and replicas in sync of 27 partitions" in text
    assert not [one for one in moves if one in text]
    for word in ("## Kept", "## Lost", "## Unknown", "## Steps", "ghost-topic-a", "cp -Rp 7/."):
        assert word in text


def test_the_steps_name_ipv6_addresses_as_kafka_takes_them(tmp_path: Path) -> None:
    out = tmp_path / "new"
    words = ["--input", str(DATA / "isolated" / "replicas"), "--out", str(out)]
    assert main(["recover", *words, "--voters", "1@[::1]:9093:nxOpeKMeTXCDlz7dwIMJkA"]) == 0
    text = (out / "plan.md").read_text(encoding="utf-8")
    assert text.count("[::1]:9093") == 3
    assert " ::1:9093" not in text


def test_from_one_voter_what_is_not_proven_is_named(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    shutil.copytree(DATA / "voter-readded" / "replicas" / "3", copies / "3")
    plan = recover(copies, tmp_path / "new")
    assert (plan["end_offset"], plan["proven_offset"]) == (147, 123)
    told = " ".join(plan["unknown"])
    assert "offsets 123 to 146" in told
    assert "voters 1 and 2 held" in told
    proven = recover(copies, tmp_path / "proven", "--at", "123")
    assert (proven["end_offset"], proven["proven_offset"]) == (123, 123)


def test_one_copys_snapshot_and_anothers_log(tmp_path: Path) -> None:
    """Node 1 has lost its first segment and its snapshot, node 2 all but its snapshot."""
    nodes = quorum(tmp_path / "copies")
    nodes[0].segment(0).unlink()
    nodes[0].checkpoint(6, 1).unlink()
    for segment in (0, 6):
        nodes[1].segment(segment).unlink()
    shutil.rmtree(nodes[2].home)
    plan = recover(tmp_path / "copies", tmp_path / "new")
    assert (plan["logs_of"], plan["snapshot_of"], plan["end_offset"]) == (["1"], "2", 12)
    assert plan["topics"] == ["a", "b", "c"]


def test_of_logs_that_are_all_damaged_each_record_counts_that_can_be_read(tmp_path: Path) -> None:
    nodes = quorum(tmp_path / "copies")
    whole = recover(tmp_path / "copies", tmp_path / "whole")
    for node, base in zip(nodes, (1, 4, 10), strict=True):
        for snapshot_file in node.folder.glob("*.checkpoint"):
            snapshot_file.unlink()
        replace_batch(node, base, lambda one: bytes([*one.raw()[:-1], one.raw()[-1] ^ 0xFF]))
    plan = recover(tmp_path / "copies", tmp_path / "new")
    assert (plan["logs_of"], plan["snapshot_of"], plan["end_offset"]) == (["1", "2"], None, 12)
    assert (plan["topics"], plan["kept"], plan["lost"]) == (whole["topics"], whole["kept"], [])
    text = (tmp_path / "new" / "plan.md").read_text(encoding="utf-8")
    assert "It comes from the logs of 1 and 2, from offset 0 up to that one." in text
    assert "None of these logs gives that state alone" in text
    earlier = recover(tmp_path / "copies", tmp_path / "earlier", "--at", "6")
    assert (earlier["logs_of"], earlier["topics"]) == (["3"], ["a", "b"])
    states = [image_in(tmp_path / one / "1").state for one in ("whole", "new")]
    assert canonical_lines(states[0]) == canonical_lines(states[1])


def test_of_logs_put_together_is_proven_what_any_of_those_proves_that_hold_it(
    tmp_path: Path,
) -> None:
    """What the last log holds otherwise further in front is none of the records that are taken: it is
    lost by name, and not what those hold whose records are taken in its place.
    """

    def damaged(one: Batch) -> bytes:
        return bytes([*one.raw()[:-1], one.raw()[-1] ^ 0xFF])

    nodes = quorum(tmp_path / "copies")
    replace_batch(nodes[0], 11, lambda _: b"")
    replace_batch(nodes[0], 7, damaged)
    replace_batch(nodes[1], 9, lambda one: replace(one, values=(topic("z", 9),)).raw())
    replace_batch(nodes[2], 10, damaged)
    plan = recover(tmp_path / "copies", tmp_path / "new")
    assert (plan["logs_of"], plan["end_offset"], plan["proven_offset"]) == (["1", "2"], 12, 10)
    assert plan["topics"] == ["a", "b", "c"]
    text = (tmp_path / "new" / "plan.md").read_text(encoding="utf-8")
    assert "every record below offset 10 (a majority of the voters (1, 3) holds" in text
    assert "Whether offsets 10 to 11 were committed" in text
    assert text.count("Left out: ") == text.count("Left out: offset 9 of replica 2.") == 1
    assert "- topic z (id " in text


def test_records_count_and_no_snapshot_that_says_otherwise(tmp_path: Path) -> None:
    """The newest snapshots lack topic b, as a node's own state may: a node would go on without it.
    Where the log begins behind offset 0, the oldest snapshot that leads up to its end is the base.
    """
    wrong = snapshot([healthy_log()[1]], 1, START_MS + 6000)
    nodes = quorum(tmp_path / "copies")
    for node in nodes:
        node.checkpoint(8, 1).write_bytes(wrong)
    plan = recover(tmp_path / "copies", tmp_path / "whole")
    assert (plan["snapshot_of"], plan["topics"]) == (None, ["a", "b", "c"])
    at_word = "taken at its word"
    assert at_word not in (tmp_path / "whole" / "plan.md").read_text(encoding="utf-8")
    for node in nodes[1:]:
        node.segment(0).unlink()
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    plan = recover(tmp_path / "copies", tmp_path / "furthest", "--at", "12")
    assert (plan["logs_of"], plan["snapshot_of"], plan["topics"]) == (["1"], None, ["a", "b", "c"])
    assert [one["objects"] for one in plan["lost"]] == [[]]
    nodes[0].segment(0).unlink()
    plan = recover(tmp_path / "copies", tmp_path / "short")
    assert (plan["snapshot_of"], plan["topics"]) == ("1", ["a", "b", "c"])
    text = (tmp_path / "short" / "plan.md").read_text(encoding="utf-8")
    assert "It comes from 00000000000000000006-0000000001.checkpoint of 1, and" in text
    assert at_word in text
    for node in nodes:
        node.segment(6).unlink()
    recover(tmp_path / "copies", tmp_path / "bare")
    text = (tmp_path / "bare" / "plan.md").read_text(encoding="utf-8")
    assert "It comes from 00000000000000000008-0000000001.checkpoint of 1. That" in text


def test_behind_a_hole_the_snapshot_counts_that_lies_behind_it(tmp_path: Path) -> None:
    """What is damaged in the log ends what leads up to the offset."""
    nodes = quorum(tmp_path / "copies")
    for node in nodes:
        node.checkpoint(10, 2).write_bytes(snapshot(healthy_state()[:2], 2, START_MS + 7000))
        replace_batch(node, 7, lambda one: bytes([*one.raw()[:-1], 0xFF]))
    plan = recover(tmp_path / "copies", tmp_path / "new")
    assert (plan["snapshot_of"], plan["end_offset"]) == ("1", 12)
    assert plan["topics"] == ["a", "b", "c"]


def test_what_a_snapshot_says_is_no_change_of_what_is_left_out(tmp_path: Path) -> None:
    """What comes after the offset that was asked for is told by its records, too."""
    nodes = quorum(tmp_path / "copies")
    for node in nodes:
        node.checkpoint(8, 1).write_bytes(snapshot([healthy_log()[1]], 1, START_MS + 6000))
    plan = recover(tmp_path / "copies", tmp_path / "new", "--at", "7")
    told = [text for one in plan["lost"] for text in one["objects"]]
    assert told == [f"topic c (id {uuid(3)}) is created"]


def test_what_a_record_without_effect_was_to_do_is_unknown(tmp_path: Path) -> None:
    for node in quorum(tmp_path / "copies"):
        node.append(Batch(12, 2, (partition(99, [1], [1], 1),), None, LATER))
    plan = recover(tmp_path / "copies", tmp_path / "new")
    assert plan["unknown"][-1] == (
        f"What the record at offset 12 did, which has no effect here: there is no topic {uuid(99)}."
    )


def test_what_the_checkpoints_cannot_hold_is_to_be_settled(tmp_path: Path) -> None:
    """ELRs are on, and metadata.version 22 has no place for them: the partition is kept."""
    shrunk = value(
        "PARTITION_RECORD", 2, partitionId=0, topicId=uuid(1), replicas=[1, 2], isr=[1],
        removingReplicas=[], addingReplicas=[], leader=1, leaderRecoveryState=0, leaderEpoch=1,
        partitionEpoch=1, directories=[], eligibleLeaderReplicas=[2], lastKnownElr=None,
    )  # fmt: skip
    levels = (feature("metadata.version", 22), feature("eligible.leader.replicas.version", 1))
    for node in quorum(tmp_path / "copies"):
        node.append(Batch(12, 2, (*levels, shrunk), None, LATER))
    plan = recover(tmp_path / "copies", tmp_path / "new")
    assert plan["notes"] == [
        "The checkpoints lack a part of the state: 1 value cannot be written at this metadata.version, the first: eligibleLeaderReplicas needs metadata.version 23."
    ]
    state = image_in(tmp_path / "new" / "7").state
    assert state.rows("partitions")[uuid(1), 0]["isr"] == [1]


def test_a_quorum_of_an_older_level_needs_a_newer_kafka(tmp_path: Path) -> None:
    """Its records name the voters either way, and Kafka 3.9 is the first that begins with such."""
    (note,) = recover(DATA / "legacy" / "replicas", tmp_path / "new")["notes"]
    assert note.startswith("metadata.version is 7, from before 3.9. Start these nodes with Kafka")
    assert "controller.quorum.voters" not in note
    assert "# and no controller.quorum.voters" in (tmp_path / "new" / "plan.md").read_text()


def test_kafka_4_does_not_take_the_level_of_a_quorum_of_3_3(tmp_path: Path) -> None:
    """Kafka 4.0: "No MetadataVersion with feature level 6. Valid feature levels are from 7 to 26." """
    for node in quorum(tmp_path / "copies"):
        node.append(Batch(12, 2, (feature("metadata.version", 6),), None, LATER))
    (note,) = recover(tmp_path / "copies", tmp_path / "new")["notes"]
    assert "Start these nodes with Kafka 3.9, as printed" in note
    assert note.endswith("and from 4.0 on none takes that level.")


@pytest.mark.parametrize("migrating", [True, False])
def test_from_a_migration_the_way_leads_back_to_zookeeper(migrating: bool, tmp_path: Path) -> None:
    """Kafka 3.9: "Should not have ZK migrations enabled on a cluster that was created in KRaft mode"
    ends the new leader, and "Controller does not support registering ZK brokers" refuses the broker.
    """
    for node in quorum(tmp_path / "copies"):
        records = (feature("metadata.version", 21), broker(11, 13, migrating=migrating))
        node.append(Batch(12, 2, records, None, LATER))
    notes = recover(tmp_path / "copies", tmp_path / "new")["notes"]
    assert ["Broker 11 had not finished its migration" in one for one in notes] == [
        True
    ] * migrating
    assert ["set it up for KRaft before step 3" in one for one in notes] == [True] * migrating
    assert "nor zookeeper.metadata.migration.enable" in (tmp_path / "new" / "plan.md").read_text()


@pytest.mark.parametrize("name", ["", " ", "CONTROLLER,SSL", "CONTROLLER://:9093"])
def test_a_listener_that_kafka_takes_for_none_or_for_several_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka loads no voters with a blank one: the audit of such a kit says that no node starts."""
    words = ["recover", "--input", str(tmp_path), "--out", str(tmp_path / "new"), "--voters", FIRST]
    with pytest.raises(SystemExit, match=r"^2$"):
        main([*words, "--listener", name])
    assert "is not the name of a listener" in capsys.readouterr().err


@pytest.mark.parametrize(
    "voter, said",
    [
        ("1@host:9093", "is not a voter"),
        ("1@host:0:yD7wSNglQZe1f8nw8v9c1Q", "is not a port"),
        ("1@host:9093:short", "is not a directory id"),
        ("1@other:9093:DmhVAByDzAsoIMGOut7ABg", "same node id"),
        ("2@host1:9093:DmhVAByDzAsoIMGOut7ABg", "same address"),
        ("2@other:9093:yD7wSNglQZe1f8nw8v9c1Q", "same directory id"),
    ],
)
def test_voters_that_cannot_be_are_one_sentence(
    voter: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = DATA / "offline" / "replicas"
    words = ["recover", "--input", str(root), "--out", str(tmp_path / "new"), "--voters", FIRST]
    assert main([*words, voter]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_cluster_is_to_be_named_where_no_copy_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies, new = tmp_path / "copies", tmp_path / "new"
    for node in "123":
        shutil.copytree(
            DATA / "isolated" / "replicas" / node / PARTITION, copies / node / PARTITION
        )
    words = ["recover", "--input", str(copies), "--out", str(new), "--voters", FIRST]
    assert main(words) == 2
    assert (
        "no copy says which cluster it is of: name it with --cluster-id" in capsys.readouterr().err
    )
    assert not new.exists()


def test_nothing_is_written_but_a_new_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies = tmp_path / "copies"
    shutil.copytree(DATA / "voter-readded" / "replicas" / "3", copies / "3")
    (tmp_path / "link").symlink_to(copies)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    for out, said in (
        (copies / "new", "below the input"),
        (tmp_path / "link" / "new", "below the input"),
        (tmp_path / "full", "is not empty"),
    ):
        words = ["recover", "--input", str(copies), "--out", str(out), "--voters", FIRST]
        assert main(words) == 2
        assert said in capsys.readouterr().err
    assert sorted(path.name for path in copies.iterdir()) == ["3"]
    words = ["recover", "--input", str(copies), "--out", str(tmp_path / "new"), "--at", "999"]
    assert main([*words, "--voters", FIRST]) == 2
    assert (
        "no state at 999 that the quorum can have committed can be rebuilt"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "damage, topics, left_out",
    [
        (lambda nodes: went_on_without(nodes, snapshotted=True), ["a", "b", "c"], ["9"]),
        (went_on_from_backups, ["a", "b", "c", "theirs"], ["2", "3"]),
    ],
    ids=["the voters hold the newer history", "one voter does"],
)
def test_of_two_histories_one_is_kept_and_the_other_is_named(
    damage: Any, topics: list[str], left_out: list[str], tmp_path: Path
) -> None:
    """What is left out begins where the histories part, whoever holds it."""
    damage(quorum(tmp_path / "copies"))
    plan = recover(tmp_path / "copies", tmp_path / "new")
    assert plan["topics"] == topics
    (lost,) = plan["lost"]
    assert (lost["replicas"], lost["start_offset"]) == (left_out, 12)
    named = [one for one in lost["objects"] if "topic theirs" in one]
    assert bool(named) == ("theirs" not in topics)
    text = (tmp_path / "new" / "plan.md").read_text(encoding="utf-8")
    assert ("has two histories" in "".join(plan["notes"])) == (Cause.SECOND_HISTORY in text)
    assert Cause.SECOND_HISTORY in text or Cause.UNPROVEN in text


def test_what_was_not_asked_for_is_no_contradiction(tmp_path: Path) -> None:
    recover(DATA / "isolated" / "replicas", tmp_path / "new", "--at", "150")
    text = (tmp_path / "new" / "plan.md").read_text(encoding="utf-8")
    assert Cause.ASKED in text
    assert Cause.UNCOMMITTED not in text


def test_what_is_proven_never_to_have_been_committed_is_said_so(tmp_path: Path) -> None:
    recover(DATA / "isolated" / "replicas", tmp_path / "new")
    text = (tmp_path / "new" / "plan.md").read_text(encoding="utf-8")
    assert Cause.UNCOMMITTED in text


@pytest.mark.parametrize("odd", [1, 3])
def test_what_a_copy_holds_instead_of_what_is_committed_is_told(odd: int, tmp_path: Path) -> None:
    """It goes on as the others do, so that it has no tail; the image is that of the others."""
    nodes = quorum(tmp_path / "copies")
    replace_batch(nodes[odd - 1], 6, lambda one: replace(one, values=(topic("odd", 9),)).raw())
    plan = recover(tmp_path / "copies", tmp_path / "new")
    assert "odd" not in plan["topics"]
    (lost,) = plan["lost"]
    assert (lost["replicas"], lost["start_offset"], lost["end_offset"]) == ([str(odd)], 6, 7)
    assert lost["objects"] == ["topic odd (id AAAAAAAAAAAAAAAAAAAACQ) is created"]
    assert Cause.DIFFERENT in (tmp_path / "new" / "plan.md").read_text(encoding="utf-8")


BEGIN, END = b"\x01\x17\x00\x00", b"\x01\x18\x00\x00"


def test_an_open_transaction_is_named_and_what_is_committed_is_not_unknown(tmp_path: Path) -> None:
    for one in quorum(tmp_path / "copies"):
        one.append(Batch(12, 2, (BEGIN, topic("inside", 9))), Batch(14, 2, (END,)))
        one.append(Batch(15, 2, (NO_OP,)), Batch(16, 2, (BEGIN, topic("open", 10))))
    for at, start in ((["--at", "13"], 12), ([], 16)):
        out = tmp_path / f"new{start}"
        plan = recover(tmp_path / "copies", out, *at)
        assert (plan["end_offset"], "inside" in plan["topics"]) == (start, start == 16)
        text = (out / "plan.md").read_text(encoding="utf-8")
        assert f"The open transaction from offset {start} on is left out. " in text
        assert (
            f"{Cause.OPEN} Those below offset 18 are committed, and lost with this choice." in text
        )
        assert Cause.AFTER not in text
        assert f"from offset {start} on was committed" not in text
    recover(tmp_path / "copies", tmp_path / "asked", "--at", "12")
    text = (tmp_path / "asked" / "plan.md").read_text(encoding="utf-8")
    assert Cause.ASKED in text
    assert "open transaction" not in text
    assert "from offset 12 on was committed" not in text


LED_BY_MISTAKE = "could lead, and the others would cut acknowledged records to its end"
EMPTY, OR_LATE = (
    "A broker with an empty disk, be it one of several,",
    " or one that stopped or fell behind after that, ",
)
NEXT = "those that have all of their data come before those with an empty disk"
STRAY = "it renames the folders of topics that are not under Kept to -stray"


def test_brokers_that_did_more_than_the_state_tells_do_not_all_start_at_once(
    tmp_path: Path,
) -> None:
    """A real broker that had stopped, or had deleted a topic, leads by an older state, and the others
    cut what they hold to its end (Kafka 4.3.1): tests/kafka/test_recover.py. So does one on an
    empty disk by any state: 40 of 40 acknowledged records were lost, and none in this order. One that
    had lost one of two disks led as well: 106 of 106 of three partitions, and none in this order.
    """
    for one in quorum(tmp_path / "copies"):
        stopped(one, 12)
    texts = {}
    for at in (12, 10):
        out = tmp_path / f"new{at}"
        plan = recover(tmp_path / "copies", out, "--at", str(at))
        assert plan["upper_offset"] == 12
        texts[at] = (out / "plan.md").read_text(encoding="utf-8")
    assert f"{EMPTY} {LED_BY_MISTAKE}" in texts[12]
    assert f"{EMPTY}{OR_LATE}{LED_BY_MISTAKE}" in texts[10]
    # Beside an empty one, who stopped early lost 33 of 33 (4.0.0): it kept 25 of them in this order.
    assert [NEXT in texts[at] for at in (12, 10)] == [False, True]
    assert [STRAY in texts[at] for at in (12, 10)] == [False, True]
    assert "6. Start first only the brokers that have all of their data, with" in texts[12]
    assert (
        "brokers that ran until the old quorum ended, and have all of their data, with" in texts[10]
    )
    for at, text in texts.items():
        assert f"replicas in sync are those of offset {at}" in text
        assert "--election-type unclean" in text


@pytest.mark.parametrize(
    "known, following", [((1 << 62), (1 << 62) + 10**9), ((1 << 63) - 9, (1 << 63) - 9)]
)
def test_no_producer_id_is_given_out_twice(known: int, following: int, tmp_path: Path) -> None:
    """Kafka 4.3.1 acknowledged the first record of a producer that got an id again, and wrote none."""
    for one in quorum(tmp_path / "copies"):
        one.append(Batch(12, 2, (producer_ids(known),), None, LATER))
    recover(tmp_path / "copies", tmp_path / "new")
    state = image_in(tmp_path / "new" / "7").state
    assert state.rows("producer_ids")[()]["nextProducerId"] == following
    text = (tmp_path / "new" / "plan.md").read_text(encoding="utf-8")
    assert "Producer ids go on 1,000,000,000 further" in text


def test_topics_whose_deletion_is_left_out_are_told_with_what_became_of_their_records(
    tmp_path: Path,
) -> None:
    for one in quorum(tmp_path / "copies"):
        one.append(Batch(12, 2, (remove_topic(1),), None, LATER))
        one.append(Batch(13, 2, (topic("d", 4), remove_topic(4)), None, LATER))
    plan = recover(tmp_path / "copies", tmp_path / "new", "--at", "12")
    assert plan["topics_there_again"] == ["a"]
    text = (tmp_path / "new" / "plan.md").read_text(encoding="utf-8")
    assert "There again: a. Brokers that ran have deleted its records." in text
    assert "copy the folders of these partitions from a broker that was down then" in text
    whole = recover(tmp_path / "copies", tmp_path / "whole")
    assert whole["topics_there_again"] == []
    assert "There again" not in (tmp_path / "whole" / "plan.md").read_text(encoding="utf-8")


def test_what_was_never_committed_no_broker_has_done(tmp_path: Path) -> None:
    """The dead leader deleted a topic, and moved partitions: nobody knows of that."""
    plan = recover(DATA / "isolated" / "replicas", tmp_path / "new")
    assert any("base-2" in one and "is removed" in one for one in plan["lost"][0]["objects"])
    assert plan["topics_there_again"] == []


def test_old_files_are_set_aside_and_nothing_is_put_over_them(tmp_path: Path) -> None:
    """The plan's lines for a voter, as a person pastes them: a new log beside an old quorum-state is
    a second history, so that nothing is copied where the old one could not be moved.
    """
    recover(DATA / "isolated" / "replicas", tmp_path / "new")
    text = (tmp_path / "new" / "plan.md").read_text(encoding="utf-8")
    lines = [one.strip() for one in text.splitlines() if "_OF_1" in one and "_OF_11" not in one]
    lines = [one for one in lines if "_OF_12" not in one]
    node = tmp_path / "node"
    shutil.copytree(DATA / "isolated" / "replicas" / "1", node)
    script = "\n".join(lines).replace("METADATA_LOG_DIR_OF_1", str(node))
    script = script.replace("kafka-storage format", "true")

    def names() -> set[str]:
        return {str(one.relative_to(node)) for one in node.rglob("*") if one.is_file()}

    bootstrap = {"bootstrap.checkpoint"}
    old, aside = names(), tmp_path / "node.old-metadata"

    def run() -> int:
        return subprocess.run(["sh", "-c", script], cwd=tmp_path / "new").returncode

    aside.write_text("in the way")
    assert run() != 0
    assert names() == old
    aside.unlink()
    assert run() == 0
    assert {
        str(one.relative_to(aside)) for one in aside.rglob("*") if one.is_file()
    } == old - bootstrap
    new = names()
    assert len(new - bootstrap) == 2
    assert run() != 0
    assert names() == new
    assert {
        str(one.relative_to(aside)) for one in aside.rglob("*") if one.is_file()
    } == old - bootstrap


def test_a_directory_id_with_two_texts_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka reads 16 bytes from 22 letters: the last letter's surplus bits would make two of one."""
    words = ["--voters", "1@c1:9093:nxOpeKMeTXCDlz7dwIMJkB"]
    copies = str(DATA / "isolated" / "replicas")
    assert main(["recover", "--input", copies, "--out", str(tmp_path / "new"), *words]) == 2
    assert "'nxOpeKMeTXCDlz7dwIMJkB' is not a directory id" in capsys.readouterr().err


def test_a_node_of_both_roles_keeps_the_id_of_its_directory(tmp_path: Path) -> None:
    """Nothing of the old metadata log stays beside the new one, and the partitions' directory goes
    on under its id.
    """
    plan = recover(DATA / "isolated" / "replicas", tmp_path / "new", "--voters", COMBINED)
    text = (tmp_path / "new" / "plan.md").read_text(encoding="utf-8")
    assert "# of 11: process.roles=broker,controller" in text
    assert "Of 11, those that step 6 starts later begin with process.roles=controller" in text
    (note,) = plan["notes"]
    assert note.startswith("Node 11 is a broker, too.")
    own = (DATA / "isolated" / "replicas" / "11" / "meta.properties").read_text()
    (known,) = [one[13:] for one in own.split() if one.startswith("directory.id=")]
    assert f"Then give {known} as the directory id of voter 11" in note
    assert "A directory on an empty disk gets another id" in note
    again = COMBINED.replace("RSmuYd6JQK2vTjcZ0Q9Xgw", known)
    assert (
        recover(DATA / "isolated" / "replicas", tmp_path / "own", "--voters", again)["notes"] == []
    )


def test_what_is_of_another_quorum_is_no_part_of_the_plan(tmp_path: Path) -> None:
    nodes = quorum(tmp_path / "copies")
    of_another_quorum(nodes, 9, 0, 5)
    raw = snapshot([healthy_log()[1]], 4, START_MS, voters=(21, 22, 23))
    nodes[0].checkpoint(40, 4).write_bytes(raw)
    plan = recover(tmp_path / "copies", tmp_path / "new")
    assert (plan["topics"], plan["end_offset"]) == (["a", "b", "c"], 13)
    (note,) = (one for one in plan["notes"] if one.startswith("Of another quorum"))
    assert "replica 9 and 00000000000000000040-0000000004.checkpoint of replica 1." in note


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_log_that_could_not_be_read_leaves_nothing_out_of_sight(
    is_listed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it begins is known by the name of its segment at most."""
    nodes = quorum(tmp_path / "old")
    nodes[0].segment(0).unlink()
    if is_listed:
        deny(monkeypatch, nodes[0])
    else:
        as_nobody(monkeypatch, [nodes[0].folder])
    plan = recover(tmp_path / "old", tmp_path / "new")
    told = [one for one in plan["unknown"] if " of 1 " in one or "What 1 holds" in one]
    what = "00000000000000000006.log could not be read (Permission denied)"
    if not is_listed:
        what = "its log could not be read (its folder cannot be listed: Permission denied)"
    again = "Make it readable or copy it again, then plan anew"
    assert told == [f"What 1 holds: {what}. {again}: it may hold what no other copy does."]


def test_what_could_not_be_read_is_told_before_a_new_quorum_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two of three voters: they may hold what no other copy does."""
    nodes = quorum(tmp_path / "old")
    deny(monkeypatch, *nodes[:2])
    plan = recover(tmp_path / "old", tmp_path / "new")
    told = [one for one in plan["unknown"] if "could not be read" in one]
    assert [one[:12] for one in told] == [
        "What 1 holds",
        "What 1 holds",
        "What 2 holds",
        "What 2 holds",
    ]
    assert told[0] == (
        "What 1 holds: 00000000000000000000.log could not be read (Permission denied). "
        "Make it readable or copy it again, then plan anew: it may hold what no other copy does."
    )
    assert capsys.readouterr().err.count("could not be read (Permission denied)") == 4


def _changed_in(nodes: list[Node]) -> None:
    """A record that all their snapshots hold otherwise."""
    for node in nodes:
        replace_batch(
            node, 4, lambda one: replace(one, values=(producer_ids(2000), one.values[1])).raw()
        )


@pytest.mark.parametrize("changed", [2, 3])
def test_snapshots_that_the_records_do_not_give_are_told(changed: int, tmp_path: Path) -> None:
    _changed_in(quorum(tmp_path / "old")[:changed])
    unknown = recover(tmp_path / "old", tmp_path / "new")["unknown"]
    (text,) = (one for one in unknown if one.startswith("Whether the records are as they were"))
    names = [f"00000000000000000006-0000000001.checkpoint of replica {one}" for one in "123"]
    assert f"the state of {listed(names)} (kraftlog audit: snapshot_equals_replay)" in text
    assert "What differs: next producer id: nextProducerId is 1000, not 2000." in text
    assert "Nothing: all voters are at hand" not in (tmp_path / "new/plan.md").read_text()


def test_snapshots_bear_out_the_records_that_are_taken(tmp_path: Path) -> None:
    """One copy alone was changed: the plan goes on with the others, and its own snapshot agrees."""
    _changed_in(quorum(tmp_path / "old")[2:])
    unknown = recover(tmp_path / "old", tmp_path / "new")["unknown"]
    assert not [one for one in unknown if one.startswith("Whether the records are as they were")]
