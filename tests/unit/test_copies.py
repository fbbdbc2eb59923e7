"""Copies held against each other: the kind of each pair, replicas as places to restore from, and
changes of the voter set, on small quorums whose answers are known by hand, and on real ones.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.cli import main
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import IS_FOLDER, find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.epochs import EpochVector, common_end
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.pairs import Kinship, divergence_rows
from kraftlog.quorum.replica_rows import replica_rows
from kraftlog.quorum.voter_changes import voter_change_rows
from kraftlog.recover.ranking import restore_rows
from kraftlog.recover.source import recovered
from kraftlog.relations import moment
from tests.collecting import collect
from tests.golden.cases import DATA
from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    Batch,
    Node,
    begun_apart,
    change_snapshot,
    elected_without,
    healthy_log,
    leader_change,
    overwrite,
    quorum,
    replace_batch,
    snapshot,
    topic,
    voters_batch,
)
from tests.unit.faults.ends import went_on_from_backups

Row = dict[str, Any]
LATER = START_MS + 60_000
SIZE = len(Batch(12, 2, (NO_OP,)).raw())
"""Bytes of a batch with one no-op: 61 of the header, 11 of the record."""


def quorum_of(root: Path, *, replay: bool = False) -> Quorum:
    return Quorum(collect(find_replicas([str(root)]), Limits(), Redactor(None), replay=replay))


def golden(case: str) -> Quorum:
    return quorum_of(DATA / case / "replicas")


def kinds(found: Quorum) -> dict[tuple[str, str], Row]:
    return {(row["replica"], row["other_replica"]): row for row in divergence_rows(found)}


# --- pairs ---------------------------------------------------------------------------------------


def test_what_a_copy_holds_more_is_not_committed_where_the_others_hold_something_else(
    tmp_path: Path,
) -> None:
    """9 ends at offset 8. 1 and 3 both go on from there, and 3 has another batch at offset 10."""
    nodes = quorum(tmp_path)
    replace_batch(nodes[2], 10, lambda one: replace(one, values=(topic("z", 7),)).raw())
    Node(tmp_path, 9).write(healthy_log()[:6])
    rows = kinds(quorum_of(tmp_path))
    assert rows["1", "9"]["kinship"] == Kinship.AHEAD
    assert rows["3", "9"]["kinship"] == Kinship.AHEAD_UNCOMMITTED
    assert "from offset 10 on" in rows["3", "9"]["reason"]


def test_what_two_voter_sets_have_committed_differs_in_what_is_committed(tmp_path: Path) -> None:
    went_on_from_backups(quorum(tmp_path))
    row = kinds(quorum_of(tmp_path))["1", "2"]
    assert row["kinship"] == Kinship.COMMITTED
    assert row["reason"] == "the voters of its own epoch had committed what differs"


def test_nothing_decides_between_two_batches_of_one_epoch_above_the_bound(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    nodes[2].append(Batch(12, 2, (topic("z", 9),), None, LATER))
    row = kinds(quorum_of(tmp_path))["1", "3"]
    assert row["kinship"] == Kinship.UNDECIDED
    assert row["reason"] == "they differ above the committed bound 12"


def test_equal_logs(tmp_path: Path) -> None:
    quorum(tmp_path)
    rows = kinds(quorum_of(tmp_path))
    assert len(rows) == 6
    for row in rows.values():
        assert (row["kinship"], row["common_start_offset"]) == ("equal", 0)
        assert (row["common_end_offset"], row["epochs_agree_until"]) == (12, 12)
        assert (row["difference_count"], row["own_record_count"]) == (0, 0)


def test_a_log_that_lags_and_one_that_runs_ahead(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node in nodes[:2]:
        node.append(Batch(12, 2, (NO_OP, NO_OP), None, LATER))
    nodes[0].append(Batch(14, 2, (NO_OP,), None, LATER))
    rows = kinds(quorum_of(tmp_path))
    # Two of three voters hold offsets 12 and 13, so that they are committed; 14 is not known to be.
    assert {pair: row["kinship"] for pair, row in rows.items()} == {
        ("1", "2"): "ahead_uncommitted",
        ("1", "3"): "ahead_uncommitted",
        ("2", "1"): "behind",
        ("2", "3"): "ahead_committed",
        ("3", "1"): "behind",
        ("3", "2"): "behind",
    }
    assert rows["3", "1"]["reason"] == "it lacks offsets 12 to 14, 2 of them known to be committed"
    assert rows["2", "1"]["reason"] == "it lacks offset 14, none known to be committed"
    own = rows["1", "3"]
    assert (own["own_record_count"], own["own_size_bytes"]) == (3, SIZE + SIZE + 11)
    assert own["common_end_offset"] == 12


def test_a_tail_that_a_restart_cuts(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    tail = [Batch(8, 1, (NO_OP,)), Batch(9, 1, (topic("d", 4), NO_OP))]
    nodes[2].write([*healthy_log()[:6], *tail])
    elected_without(nodes[:2], 1)
    rows = kinds(quorum_of(tmp_path))
    told = rows["3", "1"]
    assert told["kinship"] == rows["1", "3"]["kinship"] == "diverged_uncommitted"
    assert "tail of 3" in told["reason"]
    assert "tail of 3" in rows["1", "3"]["reason"]
    assert (told["difference_start_offset"], told["difference_end_offset"]) == (8, 11)
    assert (told["batch_leader_epoch"], told["other_batch_leader_epoch"]) == (1, 2)
    assert (told["common_end_offset"], told["epochs_agree_until"]) == (8, 8)
    assert (told["own_record_count"], rows["1", "3"]["own_record_count"]) == (3, 4)
    assert (told["truncation_offset"], told["differs_within_epoch"]) == (8, False)


def test_a_tail_of_which_nothing_is_proven(tmp_path: Path) -> None:
    """Epoch 9 says nothing of who elected its leader: the tail may have been committed."""
    nodes = quorum(tmp_path)
    nodes[2].append(Batch(12, 2, (NO_OP,), None, LATER))
    nodes[0].append(Batch(12, 9, (NO_OP,), None, LATER))
    row = kinds(quorum_of(tmp_path))["3", "1"]
    assert row["kinship"] == "diverged_undecided"
    assert row["reason"] == "a tail of 3; nothing proves that it was not committed"


def test_other_bytes_below_the_committed_bound(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    replace_batch(nodes[1], 10, lambda one: Batch(10, 2, (topic("x", 3),), None, one.ms).raw())
    rows = kinds(quorum_of(tmp_path))
    told = rows["2", "3"]
    assert told["kinship"] == rows["3", "2"]["kinship"] == "diverged_committed"
    assert (told["common_end_offset"], told["epochs_agree_until"]) == (10, 12)
    assert (told["difference_start_offset"], told["difference_end_offset"]) == (10, 11)
    assert told["differs_within_epoch"]
    assert told["agrees_again"]
    assert rows["1", "3"]["kinship"] == "equal"


def test_logs_without_a_common_offset(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[2].segment(0).unlink()
    nodes[1].segment(6).unlink()
    row = kinds(quorum_of(tmp_path))["2", "3"]
    assert (row["kinship"], row["common_end_offset"]) == ("no_common_offsets", None)
    assert row["reason"] == "no offset is in both: 2 holds 0 to 5, 3 holds 6 to 11"
    assert row["own_record_count"] == 0


def test_how_far_a_log_goes_whose_end_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    """What it lacks of a longer log is not, and what both share is."""
    nodes = quorum(tmp_path)
    nodes[2].segment(6).unlink()
    nodes[2].segment(6).mkdir()
    rows = kinds(quorum_of(tmp_path))
    for pair in (("3", "1"), ("1", "3")):
        row = rows[pair]
        assert (row["kinship"], row["common_end_offset"]) == ("unknown", 6)
        assert row["reason"].startswith("00000000000000000006.log of 3 cannot be read (it is a fo")
        assert {row[one] for one in ("own_record_count", "truncation_offset")} == {None}
    assert rows["1", "2"]["kinship"] == "equal"


def test_a_log_with_a_damaged_batch_is_not_equal_to_a_whole_one(tmp_path: Path) -> None:
    """Both end alike, and what is left of the one the other holds, too."""
    nodes = quorum(tmp_path)
    segment = nodes[2].segment(6)
    held = bytearray(segment.read_bytes())
    held[-len(healthy_log()[-1].raw()) - 1] ^= 1  # the batch before the last one
    segment.write_bytes(held)
    rows = kinds(quorum_of(tmp_path))
    for pair in (("3", "1"), ("1", "3")):
        assert (rows[pair]["kinship"], rows[pair]["common_end_offset"]) == ("unknown", 10)
        reason = "of 3 offset 10 is missing or damaged; what else both hold is equal"
        assert rows[pair]["reason"] == reason
    assert rows["1", "2"]["kinship"] == "equal"


def test_what_a_log_lacks_of_one_whose_end_cannot_be_read_it_lacks(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].segment(12).mkdir()
    cut = nodes[2].segment(6)
    cut.write_bytes(cut.read_bytes()[: -len(healthy_log()[-1].raw())])
    rows = kinds(quorum_of(tmp_path))
    assert (rows["3", "1"]["kinship"], rows["1", "3"]["kinship"]) == ("behind", "ahead_committed")
    assert rows["2", "1"]["kinship"] == rows["1", "2"]["kinship"] == "unknown"


def test_logs_whose_common_offsets_cannot_be_read(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[1].segment(6).unlink()
    nodes[2].segment(0).unlink()
    nodes[2].segment(0).mkdir()
    row = kinds(quorum_of(tmp_path))["2", "3"]
    assert (row["kinship"], row["common_end_offset"]) == ("unknown", None)


@pytest.mark.parametrize("more", [[], ["--pairs"], ["--voters"]])
def test_what_cannot_be_read_is_a_row_with_its_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    nodes = quorum(tmp_path)
    nodes[1].segment(12).mkdir()
    raw = nodes[2].segment(6).read_bytes()
    nodes[2].segment(6).write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]) + b"garbage")
    assert main(["replicas", "--input", str(tmp_path), "--format", "json", *more]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = [(row["path"], row["fault"]) for row in rows if "fault" in row]
    assert found[0] == (str(nodes[1].segment(12)), "unreadable")
    assert {path for path, _ in found[1:]} == {str(nodes[2].segment(6))}
    assert "batch_crc" in {fault for _, fault in found[1:]}


def test_the_isolated_nodes_of_a_real_quorum() -> None:
    """By the scenario: 2 led epoch 1 alone from offset 176 on, 12 followed it for 66 records."""
    rows = kinds(golden("isolated"))
    assert {pair for pair, row in rows.items() if row["kinship"] == "diverged_uncommitted"} == {
        (one, other)
        for one in ("1", "3", "11", "2", "12")
        for other in ("1", "3", "11", "2", "12")
        if (one in ("2", "12")) != (other in ("2", "12"))
    }
    assert (rows["2", "1"]["own_record_count"], rows["2", "1"]["own_size_bytes"]) == (67, 4177)
    assert rows["12", "2"]["kinship"] == "behind"
    # What 2 holds more than 12 lies in a tail: it is below the bound, and not committed.
    assert rows["2", "12"]["kinship"] == "ahead_uncommitted"


@pytest.mark.parametrize("case", ["isolated", "lagging", "steady-live", "legacy"])
def test_both_directions_tell_the_same(case: str) -> None:
    rows = kinds(golden(case))
    for (one, other), row in rows.items():
        kinship, back = row["kinship"], rows[other, one]["kinship"]
        if kinship == "behind":
            assert back in ("ahead_committed", "ahead_uncommitted")
        elif not kinship.startswith("ahead"):
            assert kinship == back


STARTS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=6)


def vector(start: int, steps: list[tuple[int, int]]) -> EpochVector:
    """Steps of (epochs further, offsets)."""
    entries, epoch, at = [], 0, start
    for further, count in steps:
        epoch += further
        entries.append((epoch, at))
        at += count
    return EpochVector(tuple(entries), at)


@given(st.integers(0, 5), STARTS, st.integers(0, 5), STARTS)
def test_vectors_agree_as_far_as_offset_by_offset(
    start: int, steps: list[tuple[int, int]], other: int, others: list[tuple[int, int]]
) -> None:
    one, two = vector(start, steps), vector(other, others)
    held = range(max(start, other), min(one.end_offset, two.end_offset))
    differs = (at for at in held if one.epoch_at(at) != two.epoch_at(at))
    assert common_end(one, two) == (next(differs, held.stop) if held else None)


def test_vector_sizes(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[1].segment(0).unlink()
    nodes[2].segment(0).unlink()
    nodes[2].epochs([(1, 6), (2, 8)])
    rows = {row["replica"]: row for row in replica_rows(quorum_of(tmp_path))}
    names = ("epoch_count", "epoch_checkpoint_count", "epoch_checkpoint_pruned")
    assert [rows["1"][name] for name in names] == [2, 2, True]
    assert [rows["2"][name] for name in names] == [2, 2, False]
    assert [rows["3"][name] for name in names] == [2, 2, True]


# --- the best replica to restore from ------------------------------------------------------------


def ranked(found: Quorum) -> list[Row]:
    return list(restore_rows(found))


@pytest.mark.parametrize(
    ("case", "labels", "reach"),
    [
        ("isolated", ["1", "3", "11", "2", "12"], [362, 362, 362, 176, 176]),
        ("lagging", ["11", "2", "3", "12", "1"], [1301, 1301, 1301, 125, 111]),
    ],
)
def test_replicas_of_real_quorums_in_order(case: str, labels: list[str], reach: list[int]) -> None:
    """Those that hold what is committed come first; of them those that reach further back."""
    rows = ranked(golden(case))
    assert [row["replica"] for row in rows] == labels
    assert [row["restores_to_offset"] for row in rows] == reach
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("case", ["isolated", "lagging", "legacy", "voter-readded"])
def test_recover_takes_a_state_as_new_as_the_best(case: str) -> None:
    found = recovered(golden(case))
    assert ranked(golden(case))[0]["restores_to_offset"] == found.image.end_offset


def test_who_differs_from_a_majority_counts_up_to_there(tmp_path: Path) -> None:
    """Kafka takes the changed record of replica 1 for good; it was the first one to restore from."""
    nodes = quorum(tmp_path)
    nodes[0].write([*healthy_log()[:-1], replace(healthy_log()[-1], values=(topic("z", 9),))])
    rows = ranked(quorum_of(tmp_path))
    assert [row["replica"] for row in rows] == ["2", "3", "1"]
    assert rows[2]["restores_to_offset"] == 11
    assert (
        "from offset 11 on it differs from what most copies hold: all that is left out"
        in rows[2]["reasons"]
    )


def test_of_two_that_differ_nothing_tells_which_is_right(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].write([*healthy_log()[:-1], replace(healthy_log()[-1], values=(topic("z", 9),))])
    shutil.rmtree(nodes[2].home)
    for row in ranked(quorum_of(tmp_path)):
        other = "2" if row["replica"] == "1" else "1"
        assert (
            f"it differs from replica {other}, and nothing tells which one is right: compare both with a backup"
            in row["reasons"]
        )


def test_damage_puts_a_replica_behind(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    overwrite(nodes[0].segment(6), 70, b"\xee")  # the no-op at offset 6
    rows = ranked(quorum_of(tmp_path))
    assert [row["replica"] for row in rows] == ["2", "3", "1"]
    assert rows[0]["reasons"] == [
        "its own files give every state from offset 0 to 12",
        "it holds all that is known to be committed, below offset 12",
        "it is the copy of a voter",
    ]
    assert rows[2]["restores_to_offset"] == 6
    assert rows[2]["committed_offsets_lacking"] == 6
    assert rows[2]["reasons"][1:3] == [
        "it lacks committed offsets 6 to 11",
        "1 place of its files cannot be read",
    ]


def test_files_of_a_restore(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].segment(0).unlink()
    row = next(one for one in ranked(quorum_of(tmp_path)) if one["replica"] == "1")
    assert row["rank"] == 3  # it reaches back to its snapshot only
    assert (row["restores_from_offset"], row["restores_to_offset"]) == (6, 12)
    files = [nodes[0].checkpoint(6, 1), nodes[0].segment(6)]
    assert [row["snapshot_path"], *row["segment_paths"]] == [str(one) for one in files]
    assert row["size_bytes"] == sum(one.stat().st_size for one in files)


@pytest.mark.parametrize(("held", "order"), [((1, 2, 3), ["2", "3", "1"]), ((1, 3), ["1", "3"])])
def test_a_snapshot_that_others_contradict_is_nothing_to_begin_with(
    tmp_path: Path, held: tuple[int, ...], order: list[str]
) -> None:
    """Where nothing decides between two, either is told."""
    begun_apart(tmp_path, held)
    rows = ranked(quorum_of(tmp_path, replay=True))
    assert [row["replica"] for row in rows] == order
    told = {row["replica"]: " | ".join(row["reasons"]) for row in rows}
    if len(held) == 3:
        assert "its snapshot 00000000000000000006-0000000001.checkpoint does not count" in told["1"]
        assert rows[-1]["restores_to_offset"] is None
    else:
        assert "is right, or that of 3, which differs" in told["1"]
        assert "is right, or that of 1, which differs" in told["3"]


def test_a_snapshot_that_the_log_contradicts_is_left_out(tmp_path: Path) -> None:
    """What the log leads up to from offset 0 needs no snapshot."""
    change_snapshot(quorum(tmp_path)[0])
    rows = ranked(quorum_of(tmp_path, replay=True))
    (row,) = (one for one in rows if one["replica"] == "1")
    assert row["snapshot_path"] is None
    assert any("does not count: it differs from" in one for one in row["reasons"])


def test_a_replica_that_gives_nothing(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].segment(0).unlink()
    nodes[0].checkpoint(6, 1).unlink()
    row = ranked(quorum_of(tmp_path))[-1]
    assert (row["replica"], row["restores_to_offset"]) == ("1", None)
    assert row["committed_offsets_lacking"] == 12
    assert row["reasons"][0].startswith("its own files give no state")


def test_what_an_unread_log_holds_is_not_known(tmp_path: Path) -> None:
    """With a snapshot beside it that gives a state, and without one: it may lack nothing."""
    node = quorum(tmp_path)[0]
    node.segment(6).unlink()
    node.segment(6).mkdir()
    why = f"{node.segment(6).name} cannot be read ({IS_FOLDER})"
    told = f"whether it holds committed offsets 6 to 11 is not known: {why}"
    for state, reason in ((6, told), (None, f"nothing is known of what its own files give: {why}")):
        row = ranked(quorum_of(tmp_path))[-1]
        assert (row["replica"], row["restores_to_offset"]) == ("1", state)
        assert row["committed_offsets_lacking"] is None
        assert reason in row["reasons"]
        node.segment(0).unlink(missing_ok=True)
        node.checkpoint(6, 1).unlink(missing_ok=True)


# --- changes of the voter set --------------------------------------------------------------------


def changes(found: Quorum) -> list[Row]:
    return list(voter_change_rows(found))


def test_a_voter_that_left_and_came_back_on_a_new_disk() -> None:
    """The golden case removes voter 2 and adds it again, formatted anew. Kafka itself says at each
    start, of the checkpoint 0-0: "Latest kraft.version is KRAFT_VERSION_1 at offset -1".
    """
    rows = changes(golden("voter-readded"))
    told = [(row["offset"], row["source"], row["kraft_version"]) for row in rows]
    assert told == [
        (0, "LEADER_CHANGE", 1),
        (2, "KRAFT_VOTERS", 1),
        (111, "KRAFT_VOTERS", 1),
        (115, "KRAFT_VOTERS", 1),
    ]
    left, back = rows[2]["removed"], rows[3]["added"]
    assert [one.split("-")[0] for one in (*left, *back)] == ["2", "2"]
    assert left != back
    assert rows[1]["added"] == rows[1]["removed"] == []  # the same voters, with directories
    assert all(row["standing"] == "committed" and row["majority"] == 2 for row in rows)
    assert [row["majorities_meet"] for row in rows] == [None, True, True, True]


def dynamic(root: Path) -> list[Node]:
    """A quorum whose records name its voters from offset 12 on."""
    nodes = quorum(root)
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3))
    return nodes


def test_one_voter_more_and_two_at_once(tmp_path: Path) -> None:
    nodes = dynamic(tmp_path)
    for node in nodes:
        node.append(voters_batch(13, 2, 1, 2, 3, 4), voters_batch(14, 2, 1, 2, 5, 6))
    rows = changes(quorum_of(tmp_path))
    assert [row["offset"] for row in rows] == [0, 12, 13, 14]
    assert [len(row["added"]) for row in rows] == [0, 0, 1, 2]
    assert [len(row["removed"]) for row in rows] == [0, 0, 0, 2]
    assert [row["majority"] for row in rows] == [2, 2, 3, 3]
    # {1,2,3,4} → {1,2,5,6}: {1,3,4} and {2,5,6} are majorities, and share nobody.
    assert [row["majorities_meet"] for row in rows] == [None, True, True, False]


def test_voters_of_a_snapshot_whose_log_begins_behind_it(tmp_path: Path) -> None:
    """The log holds no record that names them any more."""
    for node in quorum(tmp_path):
        raw = snapshot([healthy_log()[1]], 1, START_MS + 3000, voters=(1, 2, 4))
        node.checkpoint(6, 1).write_bytes(raw)
        node.segment(0).unlink()
    row = changes(quorum_of(tmp_path))[0]
    assert (row["source"], row["offset"], row["batch_leader_epoch"]) == ("SNAPSHOT", 6, 1)
    assert [one.split("-")[0] for one in row["voters"]] == ["1", "2", "4"]
    assert row["timestamp"] == moment(START_MS + 3000)


def test_a_change_that_waits_for_its_majority(tmp_path: Path) -> None:
    nodes = dynamic(tmp_path)
    nodes[0].append(voters_batch(13, 2, 1, 2, 3, 4))
    row = changes(quorum_of(tmp_path))[-1]
    assert (row["offset"], row["replicas"], row["standing"]) == (13, ["1"], "pending")


def test_a_change_that_a_new_leader_took_back(tmp_path: Path) -> None:
    nodes = dynamic(tmp_path)
    nodes[2].append(voters_batch(13, 2, 1, 2, 3, 4))
    for node in nodes[:2]:
        node.append(leader_change(13, 3, 1, LATER), voters_batch(14, 3, 1, 2))
    rows = changes(quorum_of(tmp_path))
    assert [(row["offset"], row["batch_leader_epoch"]) for row in rows[2:]] == [(13, 2), (14, 3)]
    assert [row["standing"] for row in rows[2:]] == ["uncommitted", "committed"]
    # The one after it changes what was before, and not what never held.
    assert (rows[3]["added"], len(rows[3]["removed"])) == ([], 1)


def test_the_configuration_of_an_old_quorum_tells_by_its_elections(tmp_path: Path) -> None:
    quorum(tmp_path)
    rows = changes(quorum_of(tmp_path))
    assert [(row["source"], row["voters"]) for row in rows] == [("LEADER_CHANGE", ["1", "2", "3"])]


# --- on the command line -------------------------------------------------------------------------


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[Row]:
    assert main([*words, "--format", "json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = quorum(tmp_path)
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    given = ("--input", str(tmp_path))
    pairs = printed(capsys, "replicas", *given, "--pairs")
    assert [row["kinship"] for row in pairs] == [
        Kinship.AHEAD_UNCOMMITTED, Kinship.AHEAD_UNCOMMITTED,
        Kinship.BEHIND, Kinship.EQUAL,
        Kinship.BEHIND, Kinship.EQUAL,
    ]  # fmt: skip
    voters = printed(capsys, "replicas", *given, "--voters")
    assert voters[0]["timestamp"] == "2023-11-14T22:13:20.000+00:00"  # START_MS
    assert [row["replica"] for row in printed(capsys, "restorable", *given, "--best")] == [
        "1", "2", "3",
    ]  # fmt: skip
