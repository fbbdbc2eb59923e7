"""`plan join` and `plan failover` over small quorums on disk, as a reader asks."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftlog.audit.loss_words import NOTHING
from kraftlog.cli import main
from kraftlog.commands.plan_join import at_risk, at_risk_words
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords
from kraftlog.simulate.failover_rows import TruncationRule
from tests.collecting import collect
from tests.unit.audit_logs import (
    CLUSTER,
    LIMITS,
    START_MS,
    Node,
    describe,
    healthy_log,
    quorum,
    snapshot,
    voters_batch,
)

Row = dict[str, Any]


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[Row], str]:
    """The rows of a plan, and what was told beside them."""
    assert main(["plan", *arguments, "--format", "json"]) == 0
    told = capsys.readouterr()
    return [json.loads(line) for line in told.out.splitlines()], told.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code: object
    try:
        code = main(["plan", *arguments])
    except SystemExit as error:  # what argparse itself refuses
        code = error.code
    assert code == 2
    told = capsys.readouterr()
    assert told.out == ""
    return told.err


def test_a_new_node_takes_the_snapshot_and_the_log_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (node, *_) = quorum(tmp_path)
    size = node.checkpoint(6, 1).stat().st_size
    link = ("--bandwidth", "1000", "--latency", "10", "--chunk", "100")
    rows, told = asked(capsys, "join", "new", "--from", "1", "--input", str(tmp_path), *link)
    pieces = [row for row in rows if row["what"] == "piece"]
    assert [row["position"] for row in pieces] == list(range(0, size, 100))
    assert sum(row["size_bytes"] for row in pieces) == size
    assert {(row["snapshot_end_offset"], row["snapshot_epoch"]) for row in pieces} == {(6, 1)}
    assert "the leader names its snapshot anew" in pieces[0]["if_connection_breaks"]
    assert pieces[0]["if_snapshot_is_gone"] == (
        "SNAPSHOT_NOT_FOUND: deletes the .part and fetches from offset 0 again"
    )
    assert pieces[0]["if_node_stops"] == (
        "deletes the .part, fetches from offset 0: snapshot 6-1 from byte 0"
    )
    last = rows[-1]
    assert (last["what"], last["log_start_offset"], last["log_end_offset"]) == ("caught_up", 6, 12)
    log = sum(len(one.raw()) for one in healthy_log() if one.base >= 6)
    requests = len(pieces) + 4  # the leader's epoch, the snapshot's name, the log, the end
    assert last["request"] == requests
    assert last["at_ms"] == pytest.approx(requests * 10 + (size + log), abs=0.06)
    assert f"after {requests} requests, {size + log:,} bytes" in told


def test_a_voter_without_a_copy_begins_with_an_empty_disk_and_votes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = quorum(tmp_path)
    for path in sorted(nodes[2].home.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    rows, _ = asked(capsys, "join", "3", "--from", "1", "--input", str(tmp_path))
    (piece,) = (row for row in rows if row["what"] == "piece")
    assert "stands for election" in piece["if_connection_breaks"]


def test_a_node_that_knows_a_leader_and_no_voters_stops_at_the_first_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Voters are records here, and the disk of 3 has none: seen on Kafka 4.3.1 and 4.4.0."""
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=START_MS + 10_000))
    for path in [*nodes[2].folder.glob("*.log"), *nodes[2].folder.glob("*.checkpoint")]:
        path.unlink()
    nodes[2].segment(0).write_bytes(b"")
    where = ("--from", "1", "--input", str(tmp_path))
    (only,), told = asked(capsys, "join", "3", *where)
    assert only["what"] == "stopped"
    assert "Move quorum-state away" in only["note"]
    assert "3 never gets to the end of the log of 1" in told
    (nodes[2].folder / "quorum-state").unlink()
    rows, _ = asked(capsys, "join", "3", *where)
    assert rows[-1]["what"] == "caught_up"
    (piece,) = (row for row in rows if row["what"] == "piece")
    # It does not know that it votes, and would stop as before once it has known its leader.
    assert "asks the voters who leads" in piece["if_connection_breaks"]
    assert "Move quorum-state away" in piece["if_node_stops"]
    assert "loads snapshot 6-1" in rows[-1]["if_node_stops"]


def test_the_likely_leader_is_taken_where_none_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quorum(tmp_path)
    rows, told = asked(capsys, "join", "1", "--input", str(tmp_path))
    assert [row["what"] for row in rows] == ["started", "caught_up"]
    assert "1 is at the end of the log of 2, offset 12" in told


def epochs_of(rows: list[Row]) -> list[tuple[str, int]]:
    return [(row["what"], row["epoch"]) for row in rows]


@pytest.mark.parametrize(
    ("state", "follower"),
    [
        ({"leaderId": 1, "leaderEpoch": 1}, "3"),  # its quorum-state knows the leader before
        ({"leaderId": -1, "leaderEpoch": 0}, "3"),  # behind its log, which ends in epoch 1
        (None, "3"),
    ],
)
def test_a_node_of_an_older_epoch_is_told_the_leaders(
    state: dict[str, int] | None, follower: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Controller 2 leads epoch 2; the log of 3 ends at offset 8, before that epoch."""
    node = quorum(tmp_path)[2]
    node.segment(6).write_bytes(b"".join(one.raw() for one in healthy_log() if 6 <= one.base < 8))
    node.epochs([(1, 0)])
    (node.folder / "quorum-state").unlink()
    if state is not None:
        node.quorum_state(**state)
    rows, _ = asked(capsys, "join", follower, "--from", "2", "--input", str(tmp_path))
    assert epochs_of(rows) == [
        ("started", 1), ("FENCED_LEADER_EPOCH", 2), ("records", 2), ("caught_up", 2),
    ]  # fmt: skip
    fenced = rows[1]
    assert (fenced["request"], fenced["fetch_offset"], fenced["last_fetched_epoch"]) == (1, 8, 1)
    assert fenced["size_bytes"] == 0
    assert fenced["note"].startswith("the node's epoch is 1 and the leader's 2: it writes")
    assert rows[-1]["request"] == 3
    # The texts of KIP-630 leave epochs of requests to KIP-595.
    dialect = ("--dialect", "adopted")
    rows, _ = asked(capsys, "join", follower, "--from", "2", "--input", str(tmp_path), *dialect)
    assert [row["what"] for row in rows] == ["started", "records", "caught_up"]


def test_a_voter_of_a_later_epoch_costs_the_leader_its_office(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stood for election again and again, as in KAFKA-19541."""
    node = quorum(tmp_path)[2]
    node.quorum_state(leaderId=-1, leaderEpoch=7)
    rows, _ = asked(capsys, "join", "3", "--from", "2", "--input", str(tmp_path))
    assert epochs_of(rows) == [
        ("started", 7), ("UNKNOWN_LEADER_EPOCH", 7), ("new_election", 8), ("caught_up", 8),
    ]  # fmt: skip
    assert "asks for votes in epoch 7" in rows[2]["note"]
    assert "elected in epoch 8 at the least" in rows[2]["note"]
    assert [row["request"] for row in rows] == [None, 1, None, 2]


def test_an_observer_of_a_later_epoch_asks_in_vain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = quorum(tmp_path)
    nodes[2].home.rename(tmp_path / "9")
    other = tmp_path / "9" / nodes[2].folder.name
    (tmp_path / "9" / "meta.properties").write_text(f"version=1\nnode.id=9\ncluster.id={CLUSTER}\n")
    text = json.loads((other / "quorum-state").read_text())
    (other / "quorum-state").write_text(json.dumps(text | {"leaderEpoch": 7, "leaderId": -1}))
    rows, told = asked(capsys, "join", "9", "--from", "2", "--input", str(tmp_path))
    assert epochs_of(rows) == [("started", 7), ("UNKNOWN_LEADER_EPOCH", 7), ("stuck", 7)]
    assert "until the voters' own elections have passed epoch 7" in rows[-1]["note"]
    assert "9 never gets to the end of the log of 2" in told


def test_who_does_not_lead_yet_is_elected_in_an_epoch_above_all_that_voters_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = quorum(tmp_path)
    nodes[2].quorum_state(leaderId=-1, leaderEpoch=7)
    rows, _ = asked(capsys, "join", "3", "--from", "1", "--input", str(tmp_path))
    assert epochs_of(rows)[:2] == [("started", 7), ("FENCED_LEADER_EPOCH", 8)]
    assert "the node's epoch is 7 and the leader's 8" in rows[1]["note"]
    rows, _ = asked(capsys, "join", "1", "--from", "2", "--input", str(tmp_path))
    assert epochs_of(rows) == [("started", 2), ("caught_up", 2)]


def test_names_that_are_no_replicas_are_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = quorum(tmp_path)
    where = ("--input", str(tmp_path))
    assert "there is no replica 9: name one of 1, 2, 3" in refused(capsys, "join", "9", *where)
    assert "no replica 7" in refused(capsys, "join", "1", "--from", "7", *where)
    assert "2 is itself the likely leader" in refused(capsys, "join", "2", *where)
    assert "cannot follow itself" in refused(capsys, "join", "1", "--from", "1", *where)
    assert "9 is not a voter's copy" in refused(capsys, "failover", "--leader", "9", *where)
    assert "not a whole number" in refused(capsys, "join", "new", *where, "--bandwidth", "fast")
    (nodes[0].folder / "quorum-state").write_text("{")
    message = refused(capsys, "join", "2", "--from", "1", *where)
    assert "replica 1 cannot lead, as it does not start" in message
    alone = tmp_path / "observers"
    Node(alone, 9).write(healthy_log()[:6])
    message = refused(capsys, "failover", "--input", str(alone))
    assert "no voter's copy is at hand: nobody can take over" in message


def test_a_node_of_another_cluster_gets_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = quorum(tmp_path)
    nodes[2].meta(cluster="another-cluster-000000")
    for node, name in zip(nodes, (CLUSTER, CLUSTER, "another-cluster-000000"), strict=True):
        node.quorum_state(leaderId=2, leaderEpoch=2, clusterId=name)
    other = [replace(one, ms=one.ms + 1) for one in healthy_log()]
    nodes[2].write(other)
    nodes[2].meta(cluster="another-cluster-000000")
    message = refused(capsys, "join", "3", "--from", "1", "--input", str(tmp_path))
    assert "INCONSISTENT_CLUSTER_ID" in message


def test_a_replica_can_be_named_by_its_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = quorum(tmp_path)
    nodes[0].home.rename(tmp_path / "first")
    rows, _ = asked(capsys, "join", "3", "--from", "1", "--input", str(tmp_path))
    assert rows == asked(capsys, "join", "3", "--from", "first", "--input", str(tmp_path))[0]
    failed, _ = asked(capsys, "failover", "--leader", "1", "--input", str(tmp_path))
    assert {row["dies"] for row in failed} == {"first"}


def test_settings_are_the_followers_own_unless_they_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = quorum(tmp_path)
    (nodes[2].folder / "server.properties").write_text(
        "controller.quorum.fetch.max.bytes=100\ncontroller.quorum.fetch.timeout.ms: 3000\n"
        "controller.quorum.fetch.snapshot.max.bytes=none\n"
    )
    nodes[2].segment(6).unlink()
    rows, told = asked(capsys, "join", "3", "--from", "1", "--input", str(tmp_path))
    assert "fetch.max.bytes 100 (server.properties)" in told
    assert "timeout.ms 3000 (server.properties)" in told
    assert "snapshot.max.bytes is 1048576 (Kafka's default)" in told
    assert sum(row["what"] == "records" for row in rows) > 2
    given = ("--fetch-bytes", "5000", "--timeout", "7")
    rows, told = asked(capsys, "join", "3", "--from", "1", "--input", str(tmp_path), *given)
    assert "fetch.max.bytes 5000 (argument)" in told
    assert rows[-1]["what"] == "cancelled"
    (nodes[2].folder / "server.properties").write_text("controller.quorum.fetch.timeout.ms=0\n")
    rows, told = asked(capsys, "join", "3", "--from", "1", "--input", str(tmp_path))
    assert "timeout.ms 0 (server.properties)" in told
    assert rows[-1]["what"] == "cancelled"
    (nodes[2].folder / "server.properties").write_text("controller.quorum.fetch.timeout.ms=3000")
    slow = ("--bandwidth", "150", "--latency", "10", "--chunk", "400", "--fetch-bytes", "400")
    both = (*slow, "--request-timeout-ms", "3000")
    for way, comes in ((slow, "cancelled"), (both, "caught_up")):
        rows, told = asked(capsys, "join", "3", "--from", "1", "--input", str(tmp_path), *way)
        assert rows[-1]["what"] == comes
    assert "controller.quorum.request.timeout.ms 3000 (argument)" in told
    # The links of `plan snapshot` are held against the same timeout.
    links, _ = asked(capsys, "snapshot", "--input", str(tmp_path))
    assert {row["fetch_timeout_ms"] for row in links} == {3000}


def test_a_table_says_the_answer_first_and_each_step_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quorum(tmp_path)
    assert main(["plan", "join", "new", "--from", "1", "--input", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "new is at the end of the log of 1, offset 12" in told.err
    assert "of snapshot 6-1" in told.out
    assert "the leader names snapshot 6-1" in told.out


def test_failover_tells_what_is_committed_and_no_copy_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    describe(quorum(tmp_path)[0], 2, 2, 15)
    told = asked(capsys, "failover", "--input", str(tmp_path))[1]
    assert "Offsets 12 to 14 are committed too, but held by no copy at hand: copy again" in told


def test_failover_says_what_each_rule_loses_of_the_last_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last batch is one record that all three hold, and the followers' marks are before it."""
    quorum(tmp_path)
    rows, told = asked(capsys, "failover", "--leader", "2", "--input", str(tmp_path))
    assert len(rows) == 2 * len(TruncationRule)
    for row in rows:
        rule = TruncationRule(row["rule"])
        assert row["dies"] == "2"
        assert row["can_lead"] is True
        assert row["lost_if_leader_dies_too"] == (rule == TruncationRule.HIGH_WATERMARK)
        assert row["truncation_offset"] == (12 if rule == TruncationRule.LEADER_EPOCH else 11)
        held = rule == TruncationRule.HELD_ACKNOWLEDGEMENTS
        assert row["acknowledged_end_offset"] == (11 if held else 12)
    assert "replicas 1 and 3 can take over" in told


def test_a_voter_whose_removal_may_not_be_committed_takes_over_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Leader 2 has written that 3 is no voter any more, and nobody else has heard of it."""
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3))
    nodes[1].append(voters_batch(13, 2, 1, 2))
    rows, told = asked(capsys, "failover", "--leader", "2", "--input", str(tmp_path))
    assert {(row["leader"], row["can_lead"]) for row in rows} == {("1", True), ("3", True)}
    assert "replicas 1 and 3 can take over" in told


def test_who_needs_votes_of_voters_without_a_copy_may_take_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three copies of five voters: without the leader, two are no majority."""
    five = [{"voterId": one} for one in range(1, 6)]
    for node in quorum(tmp_path):
        node.quorum_state(leaderId=2, leaderEpoch=2, currentVoters=five)
    rows, told = asked(capsys, "failover", "--leader", "2", "--input", str(tmp_path))
    assert {row["can_lead"] for row in rows} == {None}
    votes = "if voters 4 and 5, of which no copy is at hand, vote for it"
    assert f"replicas 1 and 3 may take over, {votes}" in told
    assert "can take over" not in told


def test_what_is_at_risk_is_named(tmp_path: Path) -> None:
    """Topic c is at offset 10 of 12."""
    quorum(tmp_path)
    found = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    records = FileRecords(Redactor(None), LIMITS)

    words = [at_risk_words(found, 12, lost, records) for lost in range(3)]
    assert words == ["", f". {NOTHING}", ". Lost: topic c."]


def test_what_the_next_leader_lacks_is_at_risk() -> None:
    def risk(lost: int, lacks_from: int | None = None, can_lead: bool = True) -> int:
        row = {"lost_if_leader_dies_too": lost, "leader_lacks_from_offset": lacks_from}
        return at_risk([row | {"can_lead": can_lead, "acknowledged_end_offset": 12}])

    assert [risk(0), risk(2)] == [0, 2]
    assert [risk(0, 10), risk(1, 10)] == [2, 2], "that is lost at once"
    assert risk(2, 10, can_lead=False) == 0


def test_failover_costs_what_elections_and_writes_cost_a_day(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten batches and one election in nine seconds, two followers, 3 ms a round trip; the epoch in
    which the log begins is none.
    """
    quorum(tmp_path)
    where = ("--input", str(tmp_path), "--round-trip-ms", "3")
    rows, _ = asked(capsys, "failover", *where)
    costs = {row["rule"]: row["cost_ms_per_day"] for row in rows}
    a_day = 86_400 / 9
    assert costs == {
        "high_watermark": 0.0,
        "held_acknowledgements": 10 * a_day * 3,
        "leader_epoch": 1 * a_day * 2 * 3,
    }


def test_a_survivor_that_lacks_what_is_committed_cannot_lead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = quorum(tmp_path)
    short = [one for one in healthy_log() if 6 <= one.base < 10]
    nodes[0].segment(6).write_bytes(b"".join(one.raw() for one in short))
    nodes[2].checkpoint(12, 2).write_bytes(snapshot(healthy_log()[1:2], 2, START_MS + 9000))
    rows, told = asked(capsys, "failover", "--leader", "2", "--input", str(tmp_path))
    by = {(row["rule"], row["leader"]): row for row in rows}
    weak = by["leader_epoch", "1"]
    assert weak["can_lead"] is False
    assert weak["leader_lacks_from_offset"] == 10
    # Nobody can be elected after two deaths of three: by epochs nothing is lost then.
    assert weak["lost_if_leader_dies_too"] == 0
    assert by["leader_epoch", "3"]["can_lead"] is True
    assert by["leader_epoch", "3"]["leader_lacks_from_offset"] is None
    assert "3 can take over" in told


@pytest.mark.parametrize(
    ("voters", "copied", "says"),
    [
        ([1], [1], "no voter at hand can take over: the quorum stands still"),
        ([1, 2], [1, 2], "no voter at hand can take over: the quorum stands still"),
        ([1, 2], [1], "no voter at hand can take over: the quorum stands still"),
        (
            [1, 2, 3],
            [1, 2],
            "replica 2 may take over, if voter 3, of which no copy is at hand, votes for it. What its followers keep, no other copy tells",
        ),
        (
            [1, 2, 3, 4, 5],
            [1, 2],
            "replica 2 may take over, if voters 3, 4 and 5, of which no copy is at hand, vote for it.",
        ),
        ([1, 2, 3], [1], "nothing tells who could take over"),
    ],
)
def test_who_can_take_over_is_told_without_a_pair_of_survivors(
    voters: list[int],
    copied: list[int],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for node in quorum(tmp_path):
        node.quorum_state(
            leaderId=1, leaderEpoch=2, currentVoters=[{"voterId": one} for one in voters]
        )
        if node.node_id not in copied:
            shutil.rmtree(node.home)
    rows, told = asked(capsys, "failover", "--leader", "1", "--input", str(tmp_path))
    assert rows == []
    assert says in told
