"""What a damaged range means for a log, in offsets and in words, computed by hand on the small
quorum: offsets 0 to 11, batches at 0, 1 (two records), 3, 4 (two), 6, 7, 8, 9, 10 and 11.
"""

import os
import shutil
from pathlib import Path

import pytest

from kraftlog.audit.check import BadRow
from kraftlog.audit.triage import (
    and_more,
    at_same_place,
    called,
    fetch_again,
    head,
    holding,
    intact_elsewhere,
    offsets_of,
    remedy,
    replicas_text,
    restore_vote,
    told_once,
)
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.plain import counted, natural, numbers, offsets_are, offsets_text, sentence, some
from kraftlog.quorum.capping import capped
from kraftlog.quorum.model import Quorum
from tests.collecting import collect
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    Batch,
    Node,
    audit,
    copied_live,
    healthy_log,
    healthy_state,
    overwrite,
    quorum,
    replace_batch,
    snapshot,
)
from tests.unit.audit_logs import found as found_of
from tests.unit.faults.table import AT, END_POSITION, LATER


def quorum_of(root: Path) -> Quorum:
    return Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None), replay=False))


@pytest.mark.parametrize(
    ("segment", "position", "offsets"),
    [
        (0, 0, (0, 0)),
        (0, AT[1], (1, 1)),
        (0, AT[1] + 1, (3, 3)),
        (0, AT[4], (4, 4)),
        (0, AT[4] + 1, (6, 6)),
        (1, 0, (6, 6)),
        (1, AT[9] - 1, (9, 9)),
        (1, END_POSITION, (12, None)),
    ],
)
def test_offsets_of_a_range(
    tmp_path: Path, segment: int, position: int, offsets: tuple[int, int | None]
) -> None:
    quorum(tmp_path)
    assert offsets_of(quorum_of(tmp_path).by_label["1"], segment, position) == offsets


def test_offsets_that_a_damaged_batch_held(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    for base in (0, 4):
        overwrite(node.segment(0), AT[base] + 17, b"\xaa\xbb\xcc")
    log = quorum_of(tmp_path).by_label["1"]
    assert offsets_of(log, 0, AT[0]) == (0, 1)
    assert offsets_of(log, 0, AT[4]) == (4, 6)


def test_who_holds_offsets_intact(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for number in (11, 4):
        Node(tmp_path, number).write(healthy_log())
    overwrite(nodes[1].segment(0), AT[4] + 17, b"\xaa\xbb\xcc")
    found = quorum_of(tmp_path)
    # Of node 2 the batch of offsets 4 and 5 is damaged; names are in the order of their numbers.
    assert intact_elsewhere(found, "1", 0, 4) == ["2", "3", "4", "11"]
    assert intact_elsewhere(found, "1", 3, 5) == ["3", "4", "11"]
    assert intact_elsewhere(found, "1", 5, 6) == ["3", "4", "11"]
    assert intact_elsewhere(found, "1", 6, 12) == ["2", "3", "4", "11"]
    assert intact_elsewhere(found, "1", 6, 13) == []
    # Without an end, or with an empty range, one offset is asked for.
    assert intact_elsewhere(found, "3", 11, None) == ["1", "2", "4", "11"]
    assert intact_elsewhere(found, "3", 4, 4) == ["1", "4", "11"]
    assert intact_elsewhere(found, "3", 4, 3) == ["1", "4", "11"]
    assert intact_elsewhere(found, "3", 12, None) == []


def test_who_holds_other_records_at_the_same_offsets(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    left = [Batch(at, 1, (NO_OP,), None, LATER) for at in (8, 9, 10)]
    for node in (nodes[1], Node(tmp_path, 4)):
        node.write([*healthy_log()[:6], *left])
        node.epochs([(1, 0)])
    overwrite(nodes[0].segment(6), AT[9] + 17, b"\xaa\xbb\xcc")
    found = quorum_of(tmp_path)
    # Nodes 2 and 4 carry a tail from offset 8 on, which they hold alike.
    assert intact_elsewhere(found, "1", 7, 8) == ["2", "3", "4"]
    assert intact_elsewhere(found, "1", 9, 10) == ["3"]
    assert "4" in intact_elsewhere(found, "2", 9, 10)


def test_no_log_is_fetched_from_who_may_give_a_damaged_snapshot(tmp_path: Path) -> None:
    """Kafka 4.4: the leader sent the file as it lay, and the node that had been emptied died with it."""
    nodes = quorum(tmp_path)
    overwrite(nodes[0].segment(0), AT[4] + 17, b"\xaa\xbb\xcc")
    assert remedy(quorum_of(tmp_path), "1", 4, 6)[0].endswith("it fetches the log again.")
    overwrite(nodes[1].checkpoint(6, 1), 80, b"\xaa\xbb\xcc")
    told, _ = remedy(quorum_of(tmp_path), "1", 4, 6)
    assert "put the log folder of replica 3 in the place of its own" in told


@pytest.mark.parametrize("copied", [(1, 2, 3), (1, 3), (3,)])
@pytest.mark.parametrize(
    ("up", "is_whole"), [((1, 2), True), ((1, 2, 3), True), ((2, 3), False), ((), False)]
)
def test_voters_that_keep_up_are_a_majority_without_newer_copies(
    copied: tuple[int, ...], up: tuple[int, ...], is_whole: bool, tmp_path: Path
) -> None:
    """Nodes that run were copied before the leader was pulled: what they lack there, they have."""
    nodes = copied_live(tmp_path, keeping_up=up)
    overwrite(nodes[2].segment(0), AT[4] + 17, b"\xaa\xbb\xcc")
    for number in {1, 2, 3} - {*copied}:
        shutil.rmtree(nodes[number - 1].home)
    (finding,) = found_of(audit(tmp_path), "batch_crc_valid")
    again = "it fetches the log again" in str(finding.row.message)
    assert again == is_whole, finding.row.message


def test_a_voter_that_keeps_up_with_a_damaged_log_is_not_whole(tmp_path: Path) -> None:
    nodes = copied_live(tmp_path, keeping_up=(1, 2))
    for node, base in ((nodes[2], 4), (nodes[0], 3)):
        overwrite(node.segment(0), AT[base] + 17, b"\xaa\xbb\xcc")
    told = [str(one.row.message) for one in found_of(audit(tmp_path), "batch_crc_valid")]
    assert all("Do not empty its log folder" in one for one in told[1:]), told


def test_what_to_do_about_lost_offsets(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    rest = (
        "the same offsets intact. Set its log folder aside, and start the node when the others have "
        "a leader: it fetches the log again."
    )
    both = quorum_of(tmp_path)
    assert remedy(both, "1", 3, 4) == (
        f"Replicas 2 and 3 hold {rest}",
        {"held_intact_by": ["2", "3"]},
    )
    for node in nodes[1:]:
        overwrite(node.segment(0), AT[4] + 17, b"\xaa\xbb\xcc")
    overwrite(nodes[1].segment(0), AT[3] + 17, b"\xaa\xbb\xcc")
    found = quorum_of(tmp_path)
    words, evidence = remedy(found, "1", 3, 4)
    assert words.startswith("Replica 3 holds the same offsets intact. Do not empty its log folder")
    assert evidence == {"held_intact_by": ["3"], "asks": "stop"}
    path = str(nodes[0].checkpoint(6, 1))
    told = {"held_intact_by": [], "covered_by_snapshot": path}
    overwrite(nodes[0].segment(0), AT[4] + 17, b"\xaa\xbb\xcc")
    found = quorum_of(tmp_path)
    kept, asks = fetch_again(found, "1")
    assert kept.startswith("Do not empty its log folder")
    assert asks == {"asks": "stop"}
    kept, asks = fetch_again(found, "1", is_damage=True)
    assert "move the files of its segments before 00000000000000000006.log out" in kept
    assert not asks
    for label, whose, folders in (
        ("1", "this replica", "this folder"),
        ("2", "replica 1", "both folders"),
    ):
        covered = (
            "No other log at hand holds the same offsets intact, but a snapshot holds the state "
            f"after them: {nodes[0].checkpoint(6, 1).name} of {whose}. "
            f"Keep a copy of {folders}. {kept}"
        )
        for end in (6, 5, None):
            assert remedy(found, label, 4, end) == (covered, told | asks), (label, end)
    none = "No other replica at hand holds the same offsets intact. Keep a copy of this folder"
    assert remedy(found, "1", 4, 7) == (f"{none}. {kept}", {"held_intact_by": [], **asks})
    behind = (f"{none} before the node starts.", {"held_intact_by": []})
    assert remedy(found, "1", 12, None) == behind


@pytest.mark.parametrize("lost", ["hole", "bad bytes", "vote", "old vote", "other bytes", "end"])
def test_no_majority_of_the_voters_is_emptied(tmp_path: Path, lost: str) -> None:
    """Each of two damaged voters may be told to begin anew only if the other one is whole."""
    nodes = quorum(tmp_path)
    overwrite(nodes[0].segment(0), AT[4] + 17, b"\xaa\xbb\xcc")
    words, _ = remedy(quorum_of(tmp_path), "1", 4, 6)
    assert words.endswith("when the others have a leader: it fetches the log again.")
    if lost == "hole":
        replace_batch(nodes[1], 7, lambda one: b"")
    elif lost == "bad bytes":
        overwrite(nodes[1].segment(6), AT[11] + 17, b"\xaa\xbb\xcc")
    elif lost == "vote":
        (nodes[1].folder / "quorum-state").unlink()
    elif lost == "old vote":
        nodes[1].quorum_state(leaderId=2, leaderEpoch=1)
    elif lost == "other bytes":
        replace_batch(nodes[1], 7, lambda one: Batch(7, 1, (NO_OP,), None, LATER).raw())
    else:
        os.truncate(nodes[1].segment(6), AT[11])
        nodes[2].append(Batch(12, 2, (NO_OP,), None, LATER))
        stored = snapshot(healthy_state(), 2, healthy_log()[-1].ms)
        nodes[2].checkpoint(12, 2).write_bytes(stored)
    found = quorum_of(tmp_path)
    words, _ = remedy(found, "1", 4, 6)
    assert "Do not empty its log folder: too few" in words
    assert "put the log folder of replica 3 in the place of its own" in words
    assert "Do not let the node join anew" in restore_vote(found, found.by_label["1"], "Risk.")
    (nodes[2].folder / "quorum-state").unlink()
    words, _ = remedy(quorum_of(tmp_path), "1", 4, 6)
    assert "move the files of its segments before 00000000000000000006.log out" in words
    nodes[0].checkpoint(6, 1).unlink()
    words, _ = remedy(quorum_of(tmp_path), "1", 4, 6)
    assert words.endswith("kraftlog recover puts together what can be read in any of them.")


@pytest.mark.parametrize("own_epoch", [1, 2])
def test_a_vote_of_before_is_not_put_beside_a_newer_log(tmp_path: Path, own_epoch: int) -> None:
    """By the older one, the node could vote once more in the log's newest epoch."""
    nodes = quorum(tmp_path)
    for node in nodes[:2]:
        overwrite(node.segment(0), AT[4] + 17, b"\xaa\xbb\xcc")
    nodes[0].quorum_state(leaderId=2, leaderEpoch=own_epoch)
    kept = "the quorum-state that is" if own_epoch == 1 else "its own quorum-state"
    told = f"put the log folder of replica 3 in the place of its own, with {kept} in it."
    words, _ = remedy(quorum_of(tmp_path), "1", 4, 6)
    assert words.endswith(told)


def test_the_furthest_snapshot_covers_best(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    stored = healthy_state()
    nodes[1].checkpoint(12, 2).write_bytes(snapshot(stored, 2, healthy_log()[-1].ms))
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    words, evidence = remedy(quorum_of(tmp_path), "1", 11, 12)
    # Leader 2 has lost what it sent to voter 1 alone: that log is not to be emptied.
    assert evidence == {"held_intact_by": ["2", "3"], "asks": "stop"}
    for node in nodes[1:]:
        overwrite(node.segment(6), AT[6] + 17, b"\xaa\xbb\xcc")
    words, evidence = remedy(quorum_of(tmp_path), "1", 6, 7)
    assert evidence["covered_by_snapshot"] == str(nodes[1].checkpoint(12, 2))
    assert f"{nodes[1].checkpoint(12, 2).name} of replica 2. Keep a copy of both" in words


def test_a_voter_that_begins_with_a_snapshot_of_before_is_replaced(tmp_path: Path) -> None:
    """Kafka 4.1.1 cut such a log at its first batch and began with the node's own older snapshot. It
    voted for a voter that lagged, and 34 committed records were cut from the log of the third one.
    With a snapshot of all that is committed it votes for nobody who lacks that.
    """
    nodes = quorum(tmp_path)
    overwrite(nodes[0].segment(0), 17, b"\xaa\xbb\xcc")
    for node in nodes[1:]:
        node.segment(0).unlink()
    words, _ = remedy(quorum_of(tmp_path), "1", 0, 1)
    assert words.endswith(
        "Keep a copy of this folder. Set its log folder aside, and start the node when the others have a leader: it fetches the log again."
    )
    whole = snapshot(healthy_state(), 2, healthy_log()[-1].ms)
    nodes[0].checkpoint(12, 2).write_bytes(whole)
    words, _ = remedy(quorum_of(tmp_path), "1", 0, 1)
    assert words.endswith("Keep a copy of this folder before this node starts.")


def test_what_others_hold_at_the_same_place(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    rest = "another batch there. Set its log folder aside, and start the node when the others have "
    other = Batch(7, 1, (NO_OP,), None, LATER)
    replace_batch(nodes[0], 7, lambda one: other.raw())
    row = 5  # of offset 7: batches at 0, 1, 3, 4, 6 come before
    found = quorum_of(tmp_path)
    words, evidence = at_same_place(found, found.by_label["1"], row)
    assert words == f"Replicas 2 and 3 hold {rest}a leader: it fetches the log again."
    assert evidence == {"same_bytes_on": [], "other_bytes_on": ["2", "3"]}
    words, evidence = at_same_place(found, found.by_label["2"], row)
    assert words.startswith(
        "Replica 3 holds the same bytes, and replica 1 holds another batch of that epoch: one of them was changed after it was written."
    )
    assert evidence == {"same_bytes_on": ["3"], "other_bytes_on": ["1"]}
    for node in nodes[1:]:
        replace_batch(node, 7, lambda one: other.raw())
    found = quorum_of(tmp_path)
    words, evidence = at_same_place(found, found.by_label["2"], row)
    assert words == "Replicas 1 and 3 hold the same bytes, so its leader wrote it that way."
    nodes[2].segment(6).unlink()
    nodes[1].segment(6).unlink()
    found = quorum_of(tmp_path)
    words, evidence = at_same_place(found, found.by_label["1"], row)
    assert words == "No other copy at hand holds that offset."
    assert evidence == {"same_bytes_on": [], "other_bytes_on": []}


def test_one_other_copy_with_another_batch(tmp_path: Path) -> None:
    nodes = [Node(tmp_path, number) for number in (1, 2)]
    for node in nodes:
        node.write(healthy_log())
    replace_batch(nodes[0], 7, lambda one: Batch(7, 1, (NO_OP,), None, LATER).raw())
    found = quorum_of(tmp_path)
    words, _ = at_same_place(found, found.by_label["1"], 5)
    assert words.startswith("Replica 2 holds another batch there. Do not empty its log folder")


@pytest.mark.parametrize(
    ("labels", "limit", "told"),
    [
        ([], 4, ""),
        (["1"], 4, "1"),
        (["1", "2"], 4, "1 and 2"),
        (["1", "2", "3"], 4, "1, 2 and 3"),
        (list("12345"), 4, "1, 2, 3, 4 and 5"),
        (list("123456"), 4, "1, 2, 3, 4 and 2 more"),
        (list("1234"), 2, "1, 2 and 2 more"),
    ],
)
def test_labels_in_words(labels: list[str], limit: int, told: str) -> None:
    assert some(labels, limit) == told
    if limit == 4:
        assert some(labels) == told


def test_names_that_were_not_kept_are_counted() -> None:
    assert some(["a", "b", "c"], 2, 1002) == "a, b and 1,000 more"


def test_the_last_row_that_is_told_counts_the_rest() -> None:
    assert list(capped([])) == []
    assert list(capped([7, 8])) == [(7, 0), (8, 0)]
    twenty = [(row, 0) for row in range(20)]
    assert list(capped(range(20))) == twenty
    assert list(capped(iter(range(23)))) == [*twenty[:-1], (19, 3)]


def test_the_last_row_of_each_kind_counts_those_of_its_kind() -> None:
    rows = [*("a" for _ in range(22)), "b", *("c" for _ in range(20))]
    told = list(capped(rows, lambda row: row, lambda row: 5 if row == "c" else 0))
    assert told == [*[("a", 0)] * 19, ("a", 2), ("b", 0), *[("c", 5)] * 20]
    assert list(capped(["c"] * 21, more_of=lambda row: 5))[-1] == ("c", 11)


def test_equal_rows_of_several_replicas_are_one() -> None:
    rows = [
        BadRow("1", "bad.", offset=3, evidence={"batch_id": "a", "n": 1}),
        BadRow("2", "bad.", offset=3, evidence={"batch_id": "a", "n": 2}),
        BadRow("2", "bad.", offset=3, evidence={"batch_id": "a"}),
        BadRow("3", "bad.", offset=4, evidence={"batch_id": "a"}),
        BadRow("3", "bad.", offset=3, evidence={"batch_id": "b"}),
        BadRow("3", "worse", offset=3, evidence={"batch_id": "a"}),
        BadRow("3", "bad.", offset=3, severity="info", evidence={"batch_id": "a"}),
        BadRow(None, "bad.", offset=3, evidence={"batch_id": "a"}),
    ]
    told = [(one.replica, one.message, dict(one.evidence)) for one in told_once(rows)]
    assert told[0] == (
        "1", "bad. Replicas 1 and 2 hold it.", {"batch_id": "a", "n": 1, "replicas": ["1", "2"]},
    )  # fmt: skip
    assert told[1:] == [
        ("3", "bad.", {"batch_id": "a", "replicas": ["3"]}),
        ("3", "bad.", {"batch_id": "b", "replicas": ["3"]}),
        ("3", "worse", {"batch_id": "a", "replicas": ["3"]}),
        ("3", "bad.", {"batch_id": "a", "replicas": ["3"]}),
    ]


def test_replicas_as_people_call_them(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    Node(tmp_path, 12).write(healthy_log())
    (tmp_path / "12").rename(tmp_path / "at home")
    found = quorum_of(tmp_path)
    names = {label: called(found, log) for label, log in found.by_label.items()}
    assert names["1"] == "controller 1"
    assert names["at home"] == "broker 12 (at home)"
    # One that is to become a voter is none yet.
    (tmp_path / "at home" / "server.properties").write_text("process.roles=controller\n")
    joining = quorum_of(tmp_path)
    assert called(joining, joining.by_label["at home"]) == "controller 12 (at home)"
    # Two copies of one node are told apart by their folders.
    nodes[1].meta(node_id=1)
    again = quorum_of(tmp_path)
    assert called(again, again.by_label["1"]) == "controller 1 (1)"
    assert called(again, again.by_label["2"]) == "controller 1 (2)"
    (nodes[2].home / "meta.properties").unlink()
    without = quorum_of(tmp_path)
    assert called(without, without.by_label["3"]) == "replica 3"


def test_small_words() -> None:
    assert [counted(one, "finding") for one in (0, 1, 2, 1234)] == [
        "0 findings", "1 finding", "2 findings", "1,234 findings",
    ]  # fmt: skip
    assert offsets_text(3, None) == "offset 3 and what follows"
    assert [offsets_text(3, end) for end in (3, 4, 5)] == ["offset 3", "offset 3", "offsets 3 to 4"]
    assert [offsets_are(3, end) for end in (4, 5)] == ["offset 3 is", "offsets 3 to 4 are"]
    assert and_more(0) == ""
    assert and_more(1) == " 1 more like it is on this replica."
    assert and_more(1234) == " 1,234 more like it are on this replica."
    assert replicas_text(["1"]) == "replica 1"
    assert replicas_text(["1", "2", "3"]) == "replicas 1, 2 and 3"
    assert replicas_text(["1", "11", "12", "2", "3", "4"]) == "replicas 1, 2, 3, 4 and 2 more"
    assert [holding(["1"]), holding(["1", "2"])] == ["replica 1 holds", "replicas 1 and 2 hold"]
    assert numbers(range(1, 11)) == "1, 2, 3, 4, 5, 6, 7, 8, 9 and 10"
    assert numbers(range(1, 12)) == "1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    assert [sentence("it ends"), sentence("")] == ["It ends", ""]
    assert sorted(["11", "2", "a10", "a9", "1"], key=natural) == ["1", "2", "11", "a9", "a10"]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("it ends here: look at it", "it ends here"),
        ("it ends here; look at it", "it ends here"),
        ("it ends here. Look at it", "it ends here"),
        ("it ends here.", "it ends here"),
        ("it ends (here) now", "it ends now"),
        ("of topic a (id b) it ends: look", "of topic a it ends"),
        ("it ends, so that it is over", "it ends"),
        ("at 12:30 of 1.5 it ends", "at 12:30 of 1.5 it ends"),
        ("x" * 140, "x" * 140),
        ("x" * 141, "x" * 139 + "…"),
        (f"it ends here, {'x' * 140}", "it ends here…"),
    ],
)
def test_a_message_in_a_few_words(message: str, told: str) -> None:
    assert head(message) == told


@pytest.mark.parametrize(
    "name",
    ["kafka-12.example.com", "12 (old)", "of c. 12", "c: 12", "c; 12", "c, so that 12", "..."],
)
def test_no_name_ends_the_few_words(name: str) -> None:
    """Whatever a folder is called."""
    names = [name, "1", f"not {name}"]
    for begin in (f"broker 12 ({name}) ends", f"replicas {name} and 1 end", f"it ends in {name}"):
        assert head(f"{begin}: look at it", names) == begin
        assert head(f"{begin} (here): now", names) == begin
        assert head(f"{begin}. Look at it", names) == begin
        assert head(f"{begin}.", names) == begin
    long = f"{name} {'x' * 140}"
    assert head(long, names) == long[: len(name) + 139] + "…"
