"""Plans of small quorums on disk: what is told of a pair, a node, a voter, whatever is wrong."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.commands.faults import fault_rows
from kraftlog.config import load_options
from kraftlog.errors import InputError
from kraftlog.log.segment import Limits
from kraftlog.quorum.epochs import EpochVector
from kraftlog.simulate.extent import Extent
from kraftlog.simulate.fetch import Dialect
from kraftlog.simulate.join import Way
from kraftlog.simulate.join_rows import join_rows, leader_of
from kraftlog.simulate.liveness import Link
from kraftlog.simulate.lost import UNREADABLE, counted_in_files, lost_types
from kraftlog.simulate.plan_rows import boot_rows, election_rows, fetch_rows, truncation_rows
from kraftlog.source.collected import collected
from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    Batch,
    deny,
    feature,
    healthy_log,
    leader_change,
    overwrite,
    quorum,
    replace_batch,
    snapshot,
    topic,
)

Row = dict[str, Any]
LATER = START_MS + 60_000


def by(rows: Any, *names: str) -> dict[Any, Row]:
    keyed = {tuple(row[name] for name in names): row for row in rows}
    return {key[0] if len(names) == 1 else key: row for key, row in keyed.items()}


def plans(root: Path) -> tuple[dict[Any, Row], dict[Any, Row], dict[Any, Row], dict[Any, Row]]:
    """Truncation, fetch, boot and election rows of the quorum below a folder."""
    found = collected([str(root)], load_options())
    return (
        by(truncation_rows(found, counted_in_files(Limits())), "follower", "leader"),
        by(fetch_rows(found), "follower", "leader"),
        by(boot_rows(found), "replica"),
        by(election_rows(found), "candidate"),
    )


def test_a_healthy_quorum_has_nothing_to_cut(tmp_path: Path) -> None:
    quorum(tmp_path)
    truncations, fetches, boots, elections = plans(tmp_path)
    assert truncations == {}
    assert {row["answer"] for row in fetches.values()} == {"records"}
    assert boots["1"] == {
        "replica": "1",
        "boots": True,
        "reason": None,
        "snapshot_end_offset": 6,
        "snapshot_epoch": 1,
        "replay_records": 6,
        "discarded_from_offset": None,
    }
    assert all(row["can_win"] for row in elections.values())


def test_a_node_starts_with_an_empty_epoch_file_as_kafka_makes_it(tmp_path: Path) -> None:
    (node, *_) = quorum(tmp_path)
    (node.folder / "leader-epoch-checkpoint").write_bytes(b"")
    assert plans(tmp_path)[2]["1"]["boots"]
    (node.folder / "leader-epoch-checkpoint").write_bytes(b"\n")
    assert not plans(tmp_path)[2]["1"]["boots"]


def test_two_voters_that_lost_a_committed_tail_can_elect_each_other(tmp_path: Path) -> None:
    """The disaster of an election: a snapshot proves what is committed, one log alone holds it."""
    nodes = quorum(tmp_path)
    short = [one for one in healthy_log() if one.base < 10]
    for node in nodes[:2]:
        node.segment(6).write_bytes(b"".join(one.raw() for one in short if one.base >= 6))
    nodes[2].checkpoint(12, 2).write_bytes(snapshot(healthy_log()[1:2], 2, START_MS + 9000))
    truncations, fetches, _, elections = plans(tmp_path)
    assert elections["1"]["can_win"]
    assert elections["1"]["refused_by"] == ["3"]
    assert elections["1"]["lacks_committed_from_offset"] == 10
    assert elections["3"]["lacks_committed_from_offset"] is None
    row = truncations["3", "1"]
    assert (row["truncation_offset"], row["records_lost"], row["committed_lost"]) == (10, 2, 2)
    assert row["types_lost"] == {"NO_OP_RECORD": 1, "TOPIC_RECORD": 1}
    assert truncations["1", "3"]["records_lost"] == 0
    assert fetches["1", "3"]["answer"] == "records"


def test_nothing_is_cut_below_the_start_of_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Voter 3's log begins at 10, and the others' history leaves its epoch at 8: Kafka throws."""
    nodes = quorum(tmp_path)
    older = [one for one in healthy_log() if one.base < 8]
    tail = [Batch(base, 1, (NO_OP,), None, LATER) for base in range(8, 12)]
    nodes[2].write([*older, *tail])
    for path in nodes[2].folder.glob("*.log"):
        path.unlink()
    nodes[2].checkpoint(6, 1).unlink()
    nodes[2].checkpoint(10, 1).write_bytes(snapshot(healthy_log()[1:2], 1, LATER))
    nodes[2].segment(10).write_bytes(b"".join(one.raw() for one in tail[2:]))
    nodes[2].epochs([(1, 10)])
    row = plans(tmp_path)[0]["3", "2"]
    assert (row["truncation_offset"], row["by_snapshot"]) == (8, None)
    assert (row["records_lost"], row["size_bytes_lost"], row["types_lost"]) == (0, 0, {})
    assert main(["plan", "truncation", "--input", str(tmp_path)]) == 0
    told = "It would have to cut its log at offset 8, below its start at 10, where Kafka stops"
    assert told in " ".join(capsys.readouterr().out.split())


def test_the_majority_tells_what_is_committed_and_not_the_longest_log(tmp_path: Path) -> None:
    """1 and 2 hold the same batches up to offset 12; 3 has another one at 10, and is longer."""
    nodes = quorum(tmp_path)
    replace_batch(nodes[2], 10, lambda one: replace(one, values=(topic("d", 2),)).raw())
    nodes[2].append(Batch(12, 2, (NO_OP,), None, LATER))
    elections = plans(tmp_path)[3]
    lacking = {label: row["lacks_committed_from_offset"] for label, row in elections.items()}
    assert lacking == {"1": None, "2": None, "3": 10}


def test_a_snapshot_that_is_not_newer_than_a_log_takes_nothing_from_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Voter 1 begins at offset 6, before which is epoch 1; there voter 3 has a record of epoch 5. Kafka
    3.9.1 and 4.3.1 end with an exception, and the log stays.
    """
    nodes = quorum(tmp_path)
    nodes[0].segment(0).unlink()
    nodes[2].segment(6).unlink()
    nodes[2].checkpoint(6, 1).unlink()
    replace_batch(nodes[2], 4, lambda one: replace(one, epoch=5).raw())
    nodes[2].epochs([(1, 0), (5, 4)])
    told = ["plan", "truncation", "--all", "--input", str(tmp_path)]
    assert main([*told, "--format", "json"]) == 0
    printed = by(map(json.loads, capsys.readouterr().out.splitlines()), "follower", "leader")
    row = printed["3", "1"]
    assert (row["by_snapshot"], row["records_lost"], row["lost"]) == ([6, 1], 0, [])
    assert printed["3", "2"]["records_lost"] == 2
    assert main(told) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "The snapshot is not newer than the node's log: Kafka stops" in text


def test_metadata_that_proves_a_commit_counts_what_a_truncation_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else at hand shows that the first record of epoch 2 is committed."""
    nodes = quorum(tmp_path)
    begins = [leader_change(0, 1, 1), Batch(1, 1, (feature("metadata.version", 20),))]
    written = [leader_change(2, 2, 2), Batch(3, 2, (NO_OP,))]
    nodes[0].write([*begins, Batch(2, 1, (NO_OP,)), Batch(3, 1, (NO_OP,))])
    nodes[1].write([*begins, *written])
    shutil.rmtree(nodes[2].home)
    for node in nodes[:2]:
        node.segment(6).unlink()
        node.checkpoint(6, 1).unlink()
        node.epochs([(1, 0), (2, 2)][: node.node_id])
    told = ["plan", "truncation", "--all", "--format", "json", "--input", str(tmp_path)]
    assert main(told) == 0
    printed = by(map(json.loads, capsys.readouterr().out.splitlines()), "follower", "leader")
    counts = ("truncation_offset", "records_lost", "committed_lost")
    assert [printed["2", "1"][one] for one in counts] == [2, 2, 1]
    assert [plans(tmp_path)[0]["2", "1"][one] for one in counts] == [2, 2, 1]


def test_a_tail_on_most_voters_is_not_what_a_newer_leader_committed(tmp_path: Path) -> None:
    """Voters 1 and 3 hold a tail of epoch 1, 3 by a mistake: the leader of epoch 2 wrote metadata."""
    nodes = quorum(tmp_path)
    begins = [leader_change(0, 1, 1), Batch(1, 1, (feature("metadata.version", 20),))]
    tail = [Batch(2, 1, (NO_OP,)), Batch(3, 1, (NO_OP,))]
    for node in nodes:
        node.write([*begins, *tail])
        node.segment(6).unlink()
        node.checkpoint(6, 1).unlink()
        node.epochs([(1, 0)])
    nodes[1].write([*begins, leader_change(2, 2, 2), Batch(3, 2, (NO_OP,))])
    nodes[1].epochs([(1, 0), (2, 2)])
    elections = plans(tmp_path)[3]
    lacking = {label: row["lacks_committed_from_offset"] for label, row in elections.items()}
    assert lacking == {"1": 2, "2": None, "3": 2}


def test_an_uncommitted_tail_is_lost_and_nothing_committed_with_it(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    older = [one for one in healthy_log() if one.base < 8]
    nodes[0].write([*older, Batch(8, 1, (NO_OP, topic("ghost", 9)), None, LATER)])
    truncations, _, _, elections = plans(tmp_path)
    row = truncations["1", "2"]
    assert (row["truncation_offset"], row["records_lost"], row["committed_lost"]) == (8, 2, 0)
    assert row["size_bytes_lost"] == len(Batch(8, 1, (NO_OP, topic("ghost", 9))).raw())
    assert row["types_lost"] == {"NO_OP_RECORD": 1, "TOPIC_RECORD": 1}
    back = truncations["2", "1"]
    assert (back["truncation_offset"], back["records_lost"], back["committed_lost"]) == (8, 4, 4)
    assert ("2", "3") not in truncations
    assert elections["1"]["can_win"] is False
    assert elections["1"]["lacks_committed_from_offset"] == 8


def test_what_differs_within_an_epoch_is_cut_by_nobody(tmp_path: Path) -> None:
    """Kafka compares epochs, never bytes: the follower fetches on behind the batch at 4. Of two
    differences, the one of another epoch is cut.
    """
    nodes = quorum(tmp_path)
    replace_batch(nodes[2], 4, lambda one: replace(one, ms=one.ms + 1).raw())
    row = plans(tmp_path)[0]["3", "2"]
    assert (row["truncation_offset"], row["by_snapshot"], row["records_lost"]) == (12, None, 0)
    older = [replace(one, ms=one.ms + (one.base == 4)) for one in healthy_log() if one.base < 8]
    nodes[2].write([*older, Batch(8, 1, (NO_OP,), None, LATER)])
    nodes[2].epochs([(1, 0)])
    row = plans(tmp_path)[0]["3", "2"]
    assert (row["truncation_offset"], row["by_snapshot"], row["records_lost"]) == (8, None, 1)


def test_a_replica_of_another_cluster_is_refused_and_cut_by_nobody(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    strange = [leader_change(0, 7, 9), Batch(1, 7, (topic("elsewhere", 77),), None, LATER)]
    nodes[2].segment(6).unlink()
    nodes[2].write(strange)
    nodes[2].meta("another-cluster", 9)
    nodes[2].checkpoint(6, 1).unlink()
    truncations, fetches, boots, elections = plans(tmp_path)
    assert not [pair for pair in truncations if "3" in pair]
    assert fetches["3", "1"]["answer"] == fetches["1", "3"]["answer"] == "INCONSISTENT_CLUSTER_ID"
    assert fetches["1", "2"]["answer"] == "records"
    assert boots["3"]["boots"]
    assert set(elections) == {"1", "2"}


def test_a_damaged_batch_makes_the_node_drop_what_follows(tmp_path: Path) -> None:
    """Offset 9 of node 1 is damaged: it starts with offsets below, and as it stands then it lacks
    what is committed, though nobody has to cut anything for it."""
    nodes = quorum(tmp_path)
    segment = nodes[0].segment(6)
    before = sum(len(one.raw()) for one in healthy_log() if 6 <= one.base < 9)
    overwrite(segment, before + 40, b"\xff\xff")
    truncations, fetches, boots, elections = plans(tmp_path)
    assert boots["1"]["discarded_from_offset"] == 9
    assert boots["1"]["replay_records"] == 3
    assert f"at byte {before} of {segment.name}" in boots["1"]["reason"]
    assert fetches["1", "2"]["fetch_offset"] == 9
    assert truncations["1", "2"]["records_lost"] == 0
    assert truncations["2", "1"]["truncation_offset"] == 9
    assert elections["1"]["lacks_committed_from_offset"] == 9
    assert elections["1"]["can_win"] is False
    found = collected([str(tmp_path)], load_options())
    assert [(row["fault"], row["position"]) for row in fault_rows(found)] == [("batch_crc", before)]


def test_a_missing_segment_is_not_noticed_by_kafka_but_told(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    log = healthy_log()
    node.segment(6).unlink()
    node.segment(9).write_bytes(b"".join(one.raw() for one in log if one.base >= 9))
    _, _, boots, elections = plans(tmp_path)
    assert boots["1"]["boots"]
    assert boots["1"]["reason"] == "offsets 6 to 8 are missing, and Kafka does not notice"
    assert elections["1"]["lacks_committed_from_offset"] == 6


def test_records_of_a_file_that_is_gone_are_counted_as_unreadable(tmp_path: Path) -> None:
    """Of 1, as a leader's whole log is cut that began elsewhere: six records in each segment."""
    (node, *_) = quorum(tmp_path)
    found = collected([str(tmp_path)], load_options())
    node.segment(0).unlink()
    log = found.by_label["1"]
    assert lost_types(log, log.rows, counted_in_files(Limits())) == {
        UNREADABLE: 6, "NO_OP_RECORD": 4, "LEADER_CHANGE": 1, "TOPIC_RECORD": 1,
    }  # fmt: skip


def test_what_a_snapshot_holds_is_not_lacking(tmp_path: Path) -> None:
    """Offset 3 is missing, below the snapshot that ends at 6."""
    node = quorum(tmp_path)[0]
    log = [one.raw() for one in healthy_log() if one.base < 6 and one.base != 3]
    node.segment(0).write_bytes(b"".join(log))
    _, _, boots, elections = plans(tmp_path)
    assert "offset 3 is missing" in boots["1"]["reason"]
    assert elections["1"]["lacks_committed_from_offset"] is None


def test_an_unpadded_name_stops_a_node(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    node.checkpoint(6, 1).rename(node.folder / f"{6:020d}-1.checkpoint")
    _, _, boots, _ = plans(tmp_path)
    assert boots["1"]["reason"] == f"{6:020d}-1.checkpoint is not a name that Kafka can parse"


@pytest.mark.parametrize("name", ["foo.index", "foo.snapshot", "backup.checkpoint.part"])
def test_a_name_that_kafka_cannot_parse_stops_a_node(tmp_path: Path, name: str) -> None:
    (quorum(tmp_path)[0].folder / name).touch()
    _, _, boots, _ = plans(tmp_path)
    assert boots["1"]["boots"] is False
    assert boots["1"]["reason"] == f"{name} is not a name that Kafka can parse"


def test_a_name_that_kafka_does_not_look_at_stops_nobody(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    (node.folder / f"{6:020d}.old.log").touch()
    _, _, boots, _ = plans(tmp_path)
    assert boots["1"]["boots"]


def test_a_misnamed_snapshot_is_not_found(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    kip = node.folder / f"{6:020d}-{1:018d}.checkpoint"
    node.checkpoint(6, 1).rename(kip)
    _, _, boots, _ = plans(tmp_path)
    assert boots["1"]["snapshot_end_offset"] is None
    assert kip.name in boots["1"]["reason"]


def test_a_record_that_cannot_be_decoded_stops_a_node(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].append(Batch(12, 2, (topic("d", 4)[:-3],), None, LATER))
    _, _, boots, _ = plans(tmp_path)
    assert not boots["1"]["boots"]
    assert boots["1"]["reason"].startswith("Kafka cannot read on at offset 12: record 0: ")
    assert boots["2"]["boots"]


@pytest.mark.parametrize("followed", [False, True])
def test_a_batch_without_a_record_stops_a_node(tmp_path: Path, followed: bool) -> None:
    """Also where it is the last one, of which nothing else says that the log reaches there."""
    nodes = quorum(tmp_path)
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER, payload=b"", count=0))
    if followed:
        nodes[0].append(Batch(13, 2, (NO_OP,), None, LATER))
    _, _, boots, _ = plans(tmp_path)
    assert not boots["1"]["boots"]
    assert (
        boots["1"]["reason"] == "Kafka cannot read on at offset 12: the batch there holds no record"
    )
    assert boots["2"]["boots"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version=1\nnode.id=1\n", "Kafka does not take meta.properties: it names no cluster.id"),
        (
            "version=7\nnode.id=1\ncluster.id=c\n",
            "Kafka does not take meta.properties: its version",
        ),
        (
            "version=x\nnode.id=1\ncluster.id=c\n",
            "Kafka does not take meta.properties: its version",
        ),
        ("broker.id=1\nversion=1\ncluster.id=c\n", "Kafka does not take meta.properties: it names"),
        ("version=1\nnode.id=x\n", "meta.properties cannot be read"),
    ],
)
def test_a_node_without_an_identity_does_not_start(tmp_path: Path, text: str, reason: str) -> None:
    node = quorum(tmp_path)[0]
    (node.home / "meta.properties").write_text(text)
    _, _, boots, _ = plans(tmp_path)
    assert not boots["1"]["boots"]
    assert reason in boots["1"]["reason"]


def test_a_log_folder_by_itself_says_nothing_of_the_node(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    (node.home / "meta.properties").unlink()
    _, _, boots, _ = plans(tmp_path)
    assert boots["1"]["boots"]


def test_by_version_19_a_voter_without_its_snapshot_helps_a_log_that_lacks_committed_data(
    tmp_path: Path,
) -> None:
    """1 begins at 6 without a snapshot, 3 ends at 11, and offset 11 is on 2 and in its snapshot.
    By the adopted text, and in Kafka, 1 does not start; by version 19 it votes as an empty log.
    """
    nodes = quorum(tmp_path)
    nodes[0].segment(0).unlink()
    nodes[0].checkpoint(6, 1).unlink()
    nodes[1].checkpoint(12, 2).write_bytes(snapshot(healthy_log()[1:2], 2, LATER))
    short = [one for one in healthy_log() if 6 <= one.base < 11]
    nodes[2].segment(6).write_bytes(b"".join(one.raw() for one in short))
    found = collected([str(tmp_path)], load_options())
    for dialect in (Dialect.ADOPTED, Dialect.SHIPPED):
        rows = by(election_rows(found, dialect), "candidate")
        assert rows["1"]["granted_by"] == rows["1"]["refused_by"] == []
        assert (rows["3"]["can_win"], rows["3"]["granted_by"]) == (False, ["3"])
    rows = by(election_rows(found, Dialect.V19), "candidate")
    assert (rows["1"]["can_win"], rows["1"]["granted_by"]) == (False, ["1"])
    assert (rows["3"]["can_win"], rows["3"]["granted_by"]) == (True, ["1", "3"])
    assert rows["3"]["lacks_committed_from_offset"] == 11
    # All that it does goes by that.
    assert rows["1"]["lacks_committed_from_offset"] == 0
    fetches = by(fetch_rows(found, Dialect.V19), "follower", "leader")
    asked = fetches["1", "2"]
    assert (asked["fetch_offset"], asked["last_fetched_epoch"]) == (0, 0)
    assert (asked["answer"], asked["snapshot_end_offset"]) == ("records", None)
    assert fetches["2", "1"]["answer"] == "diverging_epoch"
    assert fetches["2", "1"]["next_fetch_offset"] == 0
    assert leader_of(found, "1", Dialect.V19).extent == Extent(0, EpochVector((), 0))
    with pytest.raises(InputError, match="replica 1 cannot lead, as it does not start"):
        leader_of(found, "1")
    steps = list(join_rows(found, "new", "1", Way(Link(1000, 10), dialect=Dialect.V19)))
    assert [one["what"] for one in steps] == ["started", "caught_up"]
    assert steps[-1]["log_end_offset"] == 0


def test_a_log_that_cannot_be_read_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows what 1 would cut, fetch, answer, lack, or vote: 2 and 3 have a majority still."""
    nodes = quorum(tmp_path)
    nodes[2].append(Batch(12, 2, (NO_OP,)))
    deny(monkeypatch, nodes[0])
    truncations, fetches, boots, elections = plans(tmp_path)
    assert (boots["1"]["boots"], "Permission denied" in boots["1"]["reason"]) == (False, True)
    assert set(truncations) == {("2", "3"), ("3", "2")}
    assert set(fetches) == {("2", "3"), ("3", "2")}
    assert {one: row["can_win"] for one, row in elections.items()} == {"2": None, "3": True}
    assert (elections["2"]["granted_by"], elections["2"]["refused_by"]) == (["2"], ["3"])


@pytest.mark.parametrize("name", ["quorum-state", "*.checkpoint"])
def test_whether_a_voter_wins_that_may_start_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A file that its node may read well: 1 may stand and vote. What could not be read is a row."""
    nodes = quorum(tmp_path)
    nodes[2].append(Batch(12, 2, (NO_OP,)))
    deny(monkeypatch, nodes[0], named=name)
    *_, elections = plans(tmp_path)
    told = {one: (row["can_win"], row["granted_by"]) for one, row in elections.items()}
    assert told == {"1": (None, ["1", "2"]), "2": (None, ["1", "2"]), "3": (True, ["1", "2", "3"])}
    deny(monkeypatch, *nodes[:2], named=name)
    assert {row["can_win"] for row in plans(tmp_path)[-1].values()} == {None}
    found = fault_rows(collected([str(tmp_path)], load_options()))
    paths = [str(path) for node in nodes[:2] for path in node.folder.glob(name)]
    assert [(row["fault"], row["path"]) for row in found] == [("unreadable", one) for one in paths]


def test_who_waits_for_a_vote_of_a_log_that_cannot_be_read_may_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = quorum(tmp_path)
    deny(monkeypatch, *nodes[:2])
    *_, elections = plans(tmp_path)
    assert {one: row["can_win"] for one, row in elections.items()} == {"3": None}
    monkeypatch.undo()
    deny(monkeypatch, nodes[0])
    assert main(["plan", "failover", "--leader", "2", "--input", str(tmp_path)]) == 0
    says = "replica 3 may take over, if voter 1, of which no readable copy is at hand, votes for it. What its followers keep, no other copy tells"
    assert says in capsys.readouterr().err
