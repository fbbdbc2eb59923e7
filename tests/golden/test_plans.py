"""The plans against what really happened: what isolated nodes cut when they came back, which
snapshot laggards were sent, and what Kafka 4.3.1's own KafkaRaftLog did with damaged copies.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kraftlog.cli import main
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.model import Quorum
from kraftlog.simulate.fetch import Dialect
from kraftlog.simulate.lost import counted_in_files
from kraftlog.simulate.plan_rows import boot_rows, election_rows, fetch_rows, truncation_rows
from tests.collecting import collect
from tests.golden.cases import DATA, NODES, PARTITION, Replica, scenario

Row = dict[str, Any]


def quorum_of(root: Path) -> Quorum:
    return Quorum(collect(find_replicas([str(root)]), Limits(), Redactor(None), replay=False))


@pytest.fixture(scope="module")
def quorums() -> dict[str, Quorum]:
    cases = ("isolated", "isolated-healed", "lagging", "lagging-caughtup")
    return {case: quorum_of(DATA / case / "replicas") for case in cases}


def truncations(quorum: Quorum) -> dict[tuple[str, str], Row]:
    rows = truncation_rows(quorum, counted_in_files(Limits()))
    return {(row["follower"], row["leader"]): row for row in rows}


def fetches(quorum: Quorum, dialect: Dialect = Dialect.SHIPPED) -> dict[tuple[str, str], Row]:
    return {(row["follower"], row["leader"]): row for row in fetch_rows(quorum, dialect)}


# --- isolated and isolated-healed ---------------------------------------------------------------


@pytest.mark.parametrize(("node", "records", "size"), [("2", 67, 4177), ("12", 66, 4105)])
def test_the_plan_is_what_the_healed_logs_hold(
    quorums: dict[str, Quorum], node: str, records: int, size: int
) -> None:
    """Cut at the planned offset and fetched from the new leader, a log is what the node holds after
    it came back."""
    facts = scenario("isolated-healed")["facts"]
    before, after = quorums["isolated"].by_label, quorums["isolated-healed"].by_label
    leader = before[str(facts["new_leader"])]
    row = truncations(quorums["isolated"])[node, leader.label]
    cut = row["truncation_offset"]
    assert cut == facts["high_watermark_while_alone"] == 176
    assert (row["records_lost"], row["size_bytes_lost"], row["committed_lost"]) == (
        records,
        size,
        0,
    )
    old, healed = before[node], after[node]
    kept = old.evidence.log.ids[old.rows[old.base < cut]]
    fetched = leader.evidence.log.ids[leader.rows[leader.base >= cut]]
    planned = np.concatenate([kept, fetched])
    assert len(planned) == 266
    assert (healed.evidence.log.ids[healed.rows][: len(planned)] == planned).all()


def test_the_types_that_are_lost_are_those_that_kafka_read(quorums: dict[str, Quorum]) -> None:
    row = truncations(quorums["isolated"])["2", "3"]
    lost = [
        record["type"]
        for record in Replica("isolated", "2").records()
        if str(record.get("path", record.get("file"))).endswith(".log")
        and record.get("offset", -1) >= 176
    ]
    assert sum(row["types_lost"].values()) == len(lost) == 67
    assert row["types_lost"] == {name: lost.count(name) for name in set(lost)}


def test_records_that_cannot_be_read_any_more_are_counted(tmp_path: Path) -> None:
    root = tmp_path / "replicas"
    shutil.copytree(DATA / "isolated" / "replicas", root, copy_function=shutil.copyfile)
    quorum = quorum_of(root)
    segment(root / "2" / PARTITION).unlink()
    overwrite(segment(root / "12" / PARTITION), 0, bytes(100_000))
    found = truncations(quorum)
    assert found["2", "3"]["types_lost"] == {"UNREADABLE": 67}
    assert found["12", "3"]["types_lost"] == {"UNREADABLE": 66}


def test_if_the_isolated_leader_led_again_all_that_followed_would_be_lost(
    quorums: dict[str, Quorum],
) -> None:
    row = truncations(quorums["isolated"])["1", "2"]
    assert (row["truncation_offset"], row["records_lost"], row["committed_lost"]) == (176, 186, 186)
    assert row["types_lost"]["LEADER_CHANGE"] == 1


def test_equal_replicas_have_no_row_and_healed_ones_lose_nothing(
    quorums: dict[str, Quorum],
) -> None:
    found = truncations(quorums["isolated"])
    assert {("1", "3"), ("1", "11"), ("3", "11")}.isdisjoint(found)
    assert len(found) == 14
    healed = truncations(quorums["isolated-healed"])
    # Brokers 11 and 12 had not fetched the last record yet: one leads to a cut, the other to none.
    assert {row["records_lost"] for row in healed.values()} == {0, 1}
    assert all(row["truncation_offset"] == 492 for row in healed.values())


def test_who_could_win_while_the_old_leader_is_back(quorums: dict[str, Quorum]) -> None:
    rows = {row["candidate"]: row for row in election_rows(quorums["isolated"])}
    assert {name: row["can_win"] for name, row in rows.items()} == {
        "1": True,
        "2": False,
        "3": True,
    }
    assert rows["2"]["granted_by"] == ["2"]
    assert rows["2"]["refused_by"] == ["1", "3"]
    assert rows["2"]["lacks_committed_from_offset"] == 176
    assert rows["1"]["lacks_committed_from_offset"] is None
    leader = str(scenario("isolated-healed")["facts"]["new_leader"])
    assert rows[leader]["can_win"]


def test_the_old_leader_is_told_where_its_epoch_ends(quorums: dict[str, Quorum]) -> None:
    row = fetches(quorums["isolated"])["2", "3"]
    assert (row["fetch_offset"], row["last_fetched_epoch"]) == (243, 1)
    assert row["answer"] == "diverging_epoch"
    assert (row["diverging_epoch"], row["diverging_end_offset"]) == (1, 176)


# --- lagging and lagging-caughtup ---------------------------------------------------------------


@pytest.mark.parametrize(("node", "fetch_offset"), [("1", 111), ("12", 125)])
@pytest.mark.parametrize("dialect", Dialect)
def test_laggards_are_sent_the_snapshot_that_they_then_held(
    quorums: dict[str, Quorum], node: str, fetch_offset: int, dialect: Dialect
) -> None:
    facts = scenario("lagging-caughtup")["facts"]
    row = fetches(quorums["lagging"], dialect)[node, "2"]
    if dialect == Dialect.V19 and not quorums["lagging"].snapshots_of(node):
        fetch_offset = 0  # without a snapshot its log counts as empty
    assert (row["fetch_offset"], row["answer"]) == (fetch_offset, "snapshot")
    end, epoch = row["snapshot_end_offset"], row["snapshot_epoch"]
    assert facts["first_segment_base_offset_after"][node] == end == 978
    caught_up = quorums["lagging-caughtup"]
    assert caught_up.by_label[node].start_offset == end
    assert (epoch, end) in [one.id for one in caught_up.snapshots_of(node)]
    parts = {one["node"]: one["part_files"] for one in facts["interrupted_downloads"]}
    assert all(name.startswith(f"{end:020d}-{epoch:010d}-") for name, _ in parts[int(node)])


def test_a_broker_that_kept_its_log_answers_with_records(quorums: dict[str, Quorum]) -> None:
    rows = fetches(quorums["lagging"])
    assert rows["1", "11"]["answer"] == "records"
    assert rows["2", "1"]["answer"] == "diverging_epoch"
    assert rows["2", "1"]["diverging_end_offset"] == 111


def test_after_catching_up_nobody_needs_a_snapshot(quorums: dict[str, Quorum]) -> None:
    answers = {row["answer"] for row in fetch_rows(quorums["lagging-caughtup"])}
    assert answers == {"records", "diverging_epoch"}
    longest = fetches(quorums["lagging-caughtup"])["12", "2"]
    assert (longest["fetch_offset"], longest["answer"]) == (2063, "records")


def test_a_laggard_loses_nothing_to_the_leader_and_could_not_win(
    quorums: dict[str, Quorum],
) -> None:
    row = truncations(quorums["lagging"])["1", "2"]
    assert (row["truncation_offset"], row["records_lost"]) == (111, 0)
    rows = {row["candidate"]: row for row in election_rows(quorums["lagging"])}
    assert rows["1"]["can_win"] is False
    assert rows["1"]["lacks_committed_from_offset"] == 111


# --- Boot ---------------------------------------------------------------------------------------

BOOTS: dict[str, dict[str, tuple[int | None, int | None, int]]] = {
    "isolated": {"1": (0, 0, 362), "2": (0, 0, 243), "12": (None, None, 242)},
    "lagging": {"2": (978, 1, 323), "11": (1261, 1, 40)},
    "lagging-caughtup": {"1": (2050, 1, 32)},
}
"""(snapshot end offset, snapshot epoch, replayed records), as KafkaRaftLog and its readers say."""


@pytest.mark.parametrize("case", BOOTS)
def test_every_node_starts_as_it_did(quorums: dict[str, Quorum], case: str) -> None:
    rows = {row["replica"]: row for row in boot_rows(quorums[case])}
    assert set(rows) == set(NODES[case])
    assert all(row["boots"] and row["reason"] is None for row in rows.values())
    assert all(row["discarded_from_offset"] is None for row in rows.values())
    for node, expected in BOOTS[case].items():
        row = rows[node]
        found = (row["snapshot_end_offset"], row["snapshot_epoch"], row["replay_records"])
        assert found == expected


def overwrite(path: Path, position: int, data: bytes) -> None:
    raw = bytearray(path.read_bytes())
    raw[position : position + len(data)] = data
    path.write_bytes(raw)


def segment(folder: Path) -> Path:
    return min(folder.glob("*.log"))


def latest(folder: Path) -> Path:
    return max(folder.glob("*.checkpoint"))


def fetched_snapshot(folder: Path) -> None:
    name = "00000000000000000978-0000000001.checkpoint"
    shutil.copy(Replica("lagging-caughtup", "1").log_dir / name, folder / name)


def without(folder: Path, *patterns: str) -> None:
    for path in [path for pattern in patterns for path in folder.glob(pattern)]:
        path.unlink()


Damage = Callable[[Path], object]
STATE = '{"leaderId":-1,"leaderEpoch":1,"votedId":-1,"data_version":9}'
FOREIGN_ID = "version: 0\ntopic_id: t4TPnc1PT4yP6H007pvzqQ"

STARTS: dict[str, tuple[str, Damage, int, int, int, int | None]] = {
    # case/node, damage, log end after the start, snapshot's end, replayed records, discarded from
    "a snapshot ahead of the log": ("lagging/1", fetched_snapshot, 978, 978, 0, 0),
    "damage below the snapshot": (
        "lagging/11", lambda d: overwrite(segment(d), 3000, b"\xff" * 3), 1261, 1261, 0, 0,
    ),
    "a first batch that is damaged": (
        "lagging-caughtup/1", lambda d: overwrite(segment(d), 40, b"\xff" * 3), 2050, 2050, 0, 978,
    ),
    "no log at all": (
        "lagging-caughtup/1", lambda d: without(d, "*.log", "*index"), 2050, 2050, 0, None,
    ),
    "no quorum-state": ("lagging-caughtup/1", lambda d: without(d, "quorum-state"), 2082, 2050, 32,
                        None),
    "a footer cut off": (
        "lagging-caughtup/1",
        lambda d: latest(d).write_bytes(latest(d).read_bytes()[:-7]), 2082, 2050, 32, None,
    ),
    "the latest snapshot never finished": (
        "lagging-caughtup/1",
        lambda d: latest(d).rename(d / f"{latest(d).stem}-7.checkpoint.part"),
        2082, 978, 1104, None,
    ),
    "a torn tail": (
        "isolated/1", lambda d: segment(d).write_bytes(segment(d).read_bytes()[:-7]), 361, 0, 361,
        361,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STARTS)
def test_a_damaged_node_starts_as_kafkas_own_log_does(tmp_path: Path, name: str) -> None:
    source, damage, end, snapshot_end, replayed, discarded = STARTS[name]
    quorum = damaged(tmp_path, source, damage)
    (row,) = boot_rows(quorum)
    assert row["boots"], row["reason"]
    assert row["snapshot_end_offset"] == snapshot_end
    assert row["replay_records"] == replayed
    assert row["discarded_from_offset"] == discarded
    assert replayed == end - snapshot_end


REFUSALS: dict[str, tuple[Damage, str]] = {
    "no snapshot": (lambda d: without(d, "*.checkpoint"), "the log start offset is 978"),
    "a segment with a foreign name": (lambda d: (d / "abc.log").touch(), "abc.log"),
    "a snapshot with a foreign name": (lambda d: (d / "abc.checkpoint").touch(), "abc.checkpoint"),
    "a snapshot with a wrong CRC": (
        lambda d: overwrite(latest(d), 500, b"\xff" * 3),
        "snapshot 2050-1 cannot be loaded: a batch's CRC is wrong",
    ),
    # The log opens with it; what loads it asks for the header (RecordsSnapshotReader).
    "a snapshot of no bytes": (
        lambda d: latest(d).write_bytes(b""), "it does not begin with a snapshot header",
    ),
    "a snapshot of zeros": (lambda d: latest(d).write_bytes(bytes(4000)), "4,000 zero bytes"),
    "an epoch checkpoint that is none": (
        lambda d: (d / "leader-epoch-checkpoint").write_text("0\nx\n"), "leader-epoch-checkpoint",
    ),
    "partition.metadata that is none": (
        lambda d: (d / "partition.metadata").write_text("version: 0\nfoo"), "partition.metadata",
    ),
    "another topic's id": (
        lambda d: (d / "partition.metadata").write_text(FOREIGN_ID), "another topic id",
    ),
    "a quorum-state that is not JSON": (
        lambda d: (d / "quorum-state").write_text("{"), "quorum-state cannot be read",
    ),
    "an empty quorum-state": (
        lambda d: (d / "quorum-state").write_text(""), "quorum-state cannot be read",
    ),
    "a quorum-state of a later version": (
        lambda d: (d / "quorum-state").write_text(STATE), "data_version 9",
    ),
    "an unformatted directory": (
        lambda d: (d.parent / "meta.properties").unlink(), "there is no meta.properties",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_kafka_refuses_to_start_with(tmp_path: Path, name: str) -> None:
    damage, reason = REFUSALS[name]
    (row,) = boot_rows(damaged(tmp_path, "lagging-caughtup/1", damage))
    assert not row["boots"]
    assert reason in row["reason"]


def damaged(root: Path, source: str, damage: Damage) -> Quorum:
    case, _, node = source.partition("/")
    shutil.copytree(Replica(case, node).folder, root / node, copy_function=shutil.copyfile)
    damage(root / node / PARTITION)
    return quorum_of(root)


# --- The commands -------------------------------------------------------------------------------

FIELDS = {
    "truncation": "follower leader truncation_offset by_snapshot records_lost size_bytes_lost "
    "types_lost committed_lost",
    "fetch": "follower leader fetch_offset last_fetched_epoch answer diverging_epoch "
    "diverging_end_offset snapshot_end_offset snapshot_epoch",
    "boot": "replica boots reason snapshot_end_offset snapshot_epoch replay_records "
    "discarded_from_offset",
    "election": "candidate can_win granted_by refused_by lacks_committed_from_offset",
}
ROWS: dict[str, Callable[[Quorum], list[Row]]] = {
    "truncation": lambda quorum: list(truncation_rows(quorum, counted_in_files(Limits()))),
    "fetch": lambda quorum: list(fetch_rows(quorum)),
    "boot": lambda quorum: list(boot_rows(quorum)),
    "election": lambda quorum: list(election_rows(quorum)),
}


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Row]:
    assert main(["plan", *arguments, "--format", "json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("plan", FIELDS)
@pytest.mark.parametrize("case", ["isolated", "lagging"])
def test_the_command_gives_the_rows_by_their_names(
    quorums: dict[str, Quorum], capsys: pytest.CaptureFixture[str], plan: str, case: str
) -> None:
    """Read by columns and control records only, a quorum has the same plans."""
    every = ["--all"] if plan == "truncation" else []
    rows = told(capsys, plan, "--input", str(DATA / case / "replicas"), *every)
    for row in rows if plan == "truncation" else ():
        assert bool(row["records_lost"]) or row["lost"] == []
        del row["lost"]
    assert rows == json.loads(json.dumps(ROWS[plan](quorums[case])))
    assert all(list(row) == FIELDS[plan].split() for row in rows)


@pytest.mark.parametrize(("case", "leader"), [("isolated", "3"), ("lagging", "2")])
def test_a_truncation_is_told_against_the_voter_that_would_lead(
    capsys: pytest.CaptureFixture[str], case: str, leader: str
) -> None:
    rows = told(capsys, "truncation", "--input", str(DATA / case / "replicas"))
    assert {row["leader"] for row in rows} == {leader}


def test_what_a_truncation_takes_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    where = str(DATA / "isolated" / "replicas")
    rows = told(capsys, "truncation", "--input", where)
    assert [row["follower"] for row in rows] == ["12", "2"]
    for row in rows:
        names = {(one["table"], one["change"]): one["names"] for one in row["lost"]}
        assert names["topics", "added"] == ["ghost-topic-a", "ghost-topic-b"]
        assert names["topics", "removed"] == ["base-2"]
        assert names["scram_credentials", "added"] == ["ghost (SCRAM-SHA-256)"]
    assert main(["plan", "truncation", "--input", where]) == 0
    assert "Lost: topics ghost-topic-a," in " ".join(capsys.readouterr().out.split())


def test_what_a_snapshot_replaces_is_counted(tmp_path: Path) -> None:
    """The leader's log begins behind the tail; a broker that follows it tells where they part."""
    copied = shutil.copytree(DATA / "isolated" / "replicas", tmp_path / "replicas")
    log = quorum_of(copied).by_label["3"]
    at = log.index_at(250)
    base, position = int(log.base[at]), int(log.evidence.log.positions[log.rows[at]])
    for node in ("1", "3"):
        folder = copied / node / PARTITION
        whole = segment(folder).read_bytes()
        for path in folder.glob(f"{0:020d}.*"):
            path.unlink()
        (folder / f"{base:020d}.log").write_bytes(whole[position:])
        stored = (folder / f"{0:020d}-{0:010d}.checkpoint").read_bytes()
        (folder / f"{base:020d}-{2:010d}.checkpoint").write_bytes(stored)
    row = truncations(quorum_of(copied))["2", "3"]
    assert row["by_snapshot"] == (base, 2)
    assert (row["truncation_offset"], row["records_lost"]) == (176, 67)


def test_a_damaged_range_is_a_row_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged(tmp_path, "isolated/1", lambda d: overwrite(segment(d), 2960, b"\xff"))
    for plan in ("boot", "fetch", "truncation"):
        *_, fault = told(capsys, plan, "--input", str(tmp_path))
        assert fault["fault"] == "batch_crc"
        assert fault["path"].endswith("1/__cluster_metadata-0/00000000000000000000.log")
        assert fault["position"] <= 2960 < fault["position"] + fault["size_bytes"]


def test_a_single_checkpoint_starts_nothing_and_breaks_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = Replica("lagging", "11").log_dir / "00000000000000000834-0000000001.checkpoint"
    (row,) = told(capsys, "boot", "--input", str(path))
    assert (row["snapshot_end_offset"], row["replay_records"]) == (834, 0)


@pytest.mark.parametrize(
    ("case", "nodes", "answer"),
    [
        ("isolated", "123", "replicas 1 and 3 can win an election"),
        ("lagging", "123", "replicas 2 and 3 can win an election"),
        ("isolated", "1", "of replica 1 it is open: voters decide of whom nothing is known"),
        (
            "lagging",
            "12",
            "replica 2 can win an election; of replica 1 it is open: voters decide of whom nothing is known; "
            "if replica 1 won, what is committed from offset 111 on would be lost: kraftlog plan restart says who is started first",
        ),
    ],
)
def test_who_can_win_is_the_answer(
    case: str, nodes: str, answer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in nodes:
        shutil.copytree(DATA / case / "replicas" / node, tmp_path / node)
    assert main(["plan", "election", "--input", str(tmp_path)]) == 0
    assert capsys.readouterr().err == f"kraftlog: {answer}\n"


def test_an_election_without_known_voters_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "1" / PARTITION).mkdir(parents=True)
    assert main(["plan", "election", "--input", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("kraftlog: no voters are known")


@pytest.mark.parametrize(
    "command", ["plan failover", "plan truncation", "plan election", "plan boot", "explain topic"]
)
def test_a_describe_of_another_cluster_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says of a high watermark would be taken for this quorum's."""
    described = tmp_path / "describe.txt"
    described.write_text("ClusterId: elsewhere\nHighWatermark: 9\n", encoding="utf-8")
    words = [*command.split(), *(["nothing"] if command.startswith("explain") else [])]
    given = ["--input", str(DATA / "isolated" / "replicas"), "--quorum-describe", str(described)]
    assert main([*words, *given]) == 2
    assert "it describes cluster elsewhere" in capsys.readouterr().err
