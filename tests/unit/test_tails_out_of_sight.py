"""An old copy's uncommitted tail begins where retention has removed the other copies' records.

Golden `isolated`: 2 and 12 hold a tail of epoch 1 from offset 176 on, to 243 and 242; 1, 3 and 11
go on in epoch 2 to 362.
"""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kraftlog.audit.health_checks import DOUBT
from kraftlog.audit.runner import AuditResult
from kraftlog.cli import main
from kraftlog.quorum.committed import committed_in
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.replica_rows import replica_rows
from kraftlog.quorum.restorable import restorable
from kraftlog.recover.ranking import restore_rows
from kraftlog.recover.recovery_plan import unknown
from kraftlog.recover.source import Cause, recovered
from kraftlog.simulate.restart import Restart, restarts
from kraftlog.simulate.troubles import Safety
from tests.golden.cases import DATA
from tests.unit.audit_logs import FOLDER, audit, batch_starts
from tests.unit.test_audit_quorum import quorum_of
from tests.unit.test_copies import printed

GOOD = ("1", "3", "11")
STALE = ("2", "12")
"""By the golden."""


def copied(
    root: Path,
    labels: Iterable[str],
    trimmed: Iterable[str],
    begins: int,
    case: str = "isolated",
) -> Path:
    """Copies of the golden; some hold a snapshot, and their log from its end on."""
    source = DATA / case / "replicas"
    out = root / "taken"
    argv = ["checkpoint", str(source / "11"), "--at", str(begins), "--out", str(out)]
    assert main(argv) == 0
    (taken,) = out.rglob(f"{begins:020d}-*.checkpoint")
    replicas = root / "replicas"
    for label in labels:
        shutil.copytree(source / label, replicas / label)
    for label in trimmed:
        folder = replicas / label / FOLDER
        for path in folder.glob("0000*"):
            path.unlink()
        shutil.copy(taken, folder)
        raw = (source / "11" / FOLDER / f"{0:020d}.log").read_bytes()
        (folder / f"{begins:020d}.log").write_bytes(raw[_position(raw, begins) :])
        epoch = int(taken.stem.rpartition("-")[2])
        (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} {begins}\n")
    return replicas


def _position(raw: bytes, base: int) -> int:
    return next(at for at in batch_starts(raw) if int.from_bytes(raw[at : at + 8], "big") >= base)


def ends_at(replicas: Path, label: str, end: int) -> None:
    """A copy whose log ends earlier."""
    path = replicas / label / FOLDER / f"{0:020d}.log"
    raw = path.read_bytes()
    path.write_bytes(raw[: _position(raw, end)])
    for side in (*path.parent.glob("*.snapshot"), *path.parent.glob("*index")):
        side.unlink()


def critical(result: AuditResult) -> set[tuple[str, str | None]]:
    return {(one.check, one.row.replica) for one in result.findings if one.severity == "critical"}


def restart_of(quorum: Quorum, label: str) -> Restart:
    return next(one for one in restarts(quorum) if one.replica == label)


@pytest.mark.parametrize("stale", [("2",), ("12",), STALE])
def test_it_speaks_against_no_snapshot(tmp_path: Path, stale: tuple[str, ...]) -> None:
    replicas = copied(tmp_path, (*GOOD, *stale), GOOD, 200)
    result = audit(replicas)
    assert critical(result) == set()
    assert not [one for one in result.findings if one.check == "snapshot_timestamp_agrees"]
    rows = [one.row for one in result.findings if one.check == "uncommitted_tail_diverged"]
    assert [one.replica for one in rows] == list(stale)
    for row in rows:
        assert "carries an uncommitted tail from offset 200 or below on" in row.message
        assert "what it holds from offset 0 on may be lost as well" in row.message
        assert row.evidence["confirmed_end_offset"] == 0
    found = quorum_of(replicas)
    assert {one.replica for one in found.credible_snapshots if one.end_offset} == set(GOOD)
    # Two copies of a tail do not confirm each other.
    assert found.confirmed_ends == dict.fromkeys(stale, 0)
    assert int(found.chain.base[0]) == 200
    for label in stale:
        told = restart_of(found, label)
        assert told.safety == Safety.UNKNOWN
        assert told.reason.startswith("records from offset 200 or below on are cut")
        assert committed_in(found, label).offset == 0
    assert {restart_of(found, label).safety for label in GOOD} == {Safety.SAFE}


def test_the_state_is_that_of_the_others(tmp_path: Path) -> None:
    found = quorum_of(copied(tmp_path, (*GOOD, "2"), GOOD, 200))
    plan = recovered(found)
    assert (plan.image.end_offset, plan.image.epoch) == (362, 2)
    topics = {value["name"] for value in plan.image.state.rows("topics").values()}
    assert "real-1" in topics
    assert "ghost-topic-a" not in topics
    assert any(text.startswith("What of 2 is lost from offset 0 on") for text in unknown(plan))
    ranked = [(one["replica"], one["restores_to_offset"]) for one in restore_rows(found)]
    assert ranked == [("1", 362), ("3", 362), ("11", 362), ("2", 0)]
    (reasons,) = (one["reasons"] for one in restore_rows(found) if one["replica"] == "2")
    assert any(one.startswith("no copy confirms it from offset 0 on") for one in reasons)


def test_one_whole_copy_brings_it_into_sight(tmp_path: Path) -> None:
    found = quorum_of(copied(tmp_path, (*GOOD, "2"), ("1", "3"), 200))
    assert (found.tail_starts, found.confirmed_ends) == ({"2": 176}, {"2": 176})
    assert restart_of(found, "2").reason.startswith("records from offset 176 on are cut")


def test_an_older_snapshot_confirms_what_leads_up_to_it(tmp_path: Path) -> None:
    """It was left behind when the log was trimmed."""
    replicas = copied(tmp_path, (*GOOD, "2"), GOOD, 200)
    out = tmp_path / "older"
    source = str(DATA / "isolated" / "replicas" / "11")
    assert main(["checkpoint", source, "--at", "170", "--out", str(out)]) == 0
    (older,) = out.rglob(f"{170:020d}-*.checkpoint")
    shutil.copy(older, replicas / "1" / FOLDER)
    found = quorum_of(replicas)
    assert (found.tail_starts, found.confirmed_ends) == ({"2": 200}, {"2": 170})
    assert int(found.chain.end[found.chain.end <= 200][-1]) == 170


def test_a_wrong_name_is_told_by_a_log_that_goes_on(tmp_path: Path) -> None:
    """Whether a tail is in sight beside it or not."""
    replicas = copied(tmp_path, (*GOOD, *STALE), ("1", "3"), 200)
    folder = replicas / "3" / FOLDER
    right = folder / f"{200:020d}-{2:010d}.checkpoint"
    right.rename(folder / f"{200:020d}-{1:010d}.checkpoint")
    assert ("snapshot_epoch_agrees", "3") in critical(audit(replicas))
    assert ("snapshot_epoch_agrees", "1") not in critical(audit(replicas))


def test_a_wrong_name_confirms_no_tail(tmp_path: Path) -> None:
    """Its own log goes on in the midst of epoch 2."""
    replicas = copied(tmp_path, (*GOOD, "2"), GOOD, 200)
    folder = replicas / "3" / FOLDER
    right = folder / f"{200:020d}-{2:010d}.checkpoint"
    right.rename(folder / f"{200:020d}-{1:010d}.checkpoint")
    assert quorum_of(replicas).confirmed_ends == {"2": 0}
    assert ("snapshot_epoch_agrees", "1") not in critical(audit(replicas))


def test_a_wrong_name_beside_the_tail_is_told(tmp_path: Path) -> None:
    """12 holds the same tail as 2, and a snapshot within it of an epoch that its own log belies."""
    replicas = copied(tmp_path, (*GOOD, *STALE), GOOD, 200)
    out = tmp_path / "older"
    source = str(DATA / "isolated" / "replicas" / "11")
    assert main(["checkpoint", source, "--at", "170", "--out", str(out)]) == 0
    (older,) = out.rglob(f"{170:020d}-*.checkpoint")
    shutil.copy(older, replicas / "12" / FOLDER / f"{170:020d}-{2:010d}.checkpoint")
    assert ("snapshot_epoch_agrees", "12") in critical(audit(replicas))
    found = quorum_of(replicas)
    assert (170, 2) not in {one.id for one in found.credible_snapshots}


def test_a_log_that_ends_where_the_others_begin_is_no_base(tmp_path: Path) -> None:
    """No offset is in both, but 200 is in the midst of epoch 2 there."""
    replicas = copied(tmp_path, (*GOOD, "12"), GOOD, 200)
    ends_at(replicas, "12", 200)
    assert critical(audit(replicas)) == set()
    found = quorum_of(replicas)
    assert (found.tail_starts, found.confirmed_ends) == ({}, {"12": 0})
    assert int(found.chain.base[0]) == 200
    told = restart_of(found, "12")
    assert told.safety == Safety.UNKNOWN
    assert "records below offset 200 are cut" in told.reason
    assert committed_in(found, "12").offset == 0
    assert recovered(found).image.end_offset == 362


@pytest.mark.parametrize("label", STALE)
def test_where_no_copy_overlaps_no_more_is_promised_than_seen(tmp_path: Path, label: str) -> None:
    """Whether it lags, or holds a tail: both look the same."""
    found = quorum_of(copied(tmp_path, (*GOOD, label), GOOD, 300))
    told = restart_of(found, label)
    assert told.safety == Safety.SAFE
    assert told.reason.startswith("nothing that is known to be committed is lost")
    assert "whether it holds a tail of its own cannot be seen" in told.reason
    # Of those that go on in the newest epoch nothing is out of sight.
    assert "cannot be seen" not in restart_of(found, "11").reason
    assert (found.tail_starts, found.confirmed_ends) == ({}, {})
    why = "no log of a newer epoch at hand reaches down to what it holds from offset 0 on"
    assert committed_in(found, label) == (0, why)
    shown = {row["replica"]: row["shown_end_offset"] for row in replica_rows(found)}
    assert shown == {**dict.fromkeys(GOOD, 362), label: 0}


NOT_KNOWN = ("truncation_offset", "records_lost", "size_bytes_lost", "types_lost", "committed_lost")


def test_what_a_snapshot_takes_out_of_sight_is_not_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Golden truth: 66 and 67 records of a tail go."""
    replicas = copied(tmp_path, (*GOOD, *STALE), GOOD, 300)
    capsys.readouterr()
    rows = printed(capsys, "plan", "truncation", "--input", str(replicas))
    assert {row["follower"] for row in rows} == set(STALE)
    for row in rows:
        assert row["by_snapshot"] == [300, 2]
        assert {row[name] for name in NOT_KNOWN} == {None}
        assert row["lost"] == []
    assert main(["plan", "truncation", "--input", str(replicas)]) == 0
    assert "Whether it loses records" in capsys.readouterr().out
    with_tail = printed(capsys, "replicas", "--input", str(replicas), "--pairs")
    sources = [one for one in restorable(quorum_of(replicas)) if one.source in STALE]
    assert {one.same_history for one in sources if one.replica == "3" and one.start_offset} == {
        None
    }
    said = [text for text in unknown(recovered(quorum_of(replicas))) if "from offset 0 on" in text]
    assert [text.split(" is lost")[0] for text in said] == ["What of 12", "What of 2"]
    (reason,) = (one["reason"] for one in with_tail if one["kinship"] == "ahead_uncommitted")
    assert reason.endswith("nothing proves that its records from offset 242 on are committed")


def test_what_is_out_of_sight_is_told_as_not_known_to_be_committed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replicas = copied(tmp_path, (*GOOD, "2"), GOOD, 300)
    capsys.readouterr()
    wanted = ["topic", "ghost-topic-a", "--input", str(replicas)]
    assert {row["committed"] for row in printed(capsys, "explain", *wanted)} == {None}
    wanted = ["topic", "real-1", "--input", str(replicas)]
    assert {row["committed"] for row in printed(capsys, "explain", *wanted)} == {True}
    argv = ["checkpoint", str(replicas / "2"), "--at", "committed", "--quorum", str(replicas)]
    assert main([*argv, "--out", str(tmp_path / "out")]) == 2
    assert "nothing is known to be committed" in capsys.readouterr().err
    # Where nothing else is left, it is recovered all the same, as what it is.
    for label in GOOD:
        for path in (replicas / label / FOLDER).glob("*.checkpoint"):
            path.unlink()
    plan = recovered(quorum_of(replicas))
    assert (plan.image.end_offset, plan.proven.offset, plan.unseen) == (243, 0, ())


def test_who_holds_nothing_but_a_newer_snapshot_shows_no_tail_to_be_committed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """3 has just loaded the snapshot (300, 2): its log is empty, and 2 ends in epoch 1."""
    replicas = copied(tmp_path, ("2", "3"), ("3",), 300)
    (replicas / "3" / FOLDER / f"{300:020d}.log").write_bytes(b"")
    found = quorum_of(replicas)
    assert (found.bounds.lower, found.seen_ends) == (300, {"2": 0, "3": 300})
    assert committed_in(found, "2").offset == 0
    assert "it holds a tail of its own cannot be seen" in restart_of(found, "2").reason
    capsys.readouterr()
    wanted = ["topic", "ghost-topic-a", "--input", str(replicas)]
    assert {row["committed"] for row in printed(capsys, "explain", *wanted)} == {None}
    (row,) = printed(capsys, "plan", "truncation", "--input", str(replicas))
    assert (row["follower"], row["records_lost"]) == ("2", None)
    told = [one.row for one in audit(replicas).findings if one.check == "partitions_have_leaders"]
    assert [one.message.endswith(DOUBT.format(243)) for one in told] == [True]


def test_the_newest_state_is_committed_whatever_an_old_copy_holds_below_it(tmp_path: Path) -> None:
    """12 holds a tail that ends before the logs of the others begin."""
    found = quorum_of(copied(tmp_path, (*GOOD, "12"), GOOD, 300))
    assert (found.seen_ends["12"], found.bounds.lower) == (0, 362)
    health = found.state.health
    assert health is not None
    assert (health.offset, health.is_committed) == (362, True)


def test_a_leader_that_wrote_on_shows_what_came_before(tmp_path: Path) -> None:
    """Offset 170 is of epoch 1 in the others' logs as well, and 12 ends below it."""
    replicas = copied(tmp_path, (*GOOD, "12"), GOOD, 170)
    ends_at(replicas, "12", 120)
    found = quorum_of(replicas)
    assert not found.comparisons["12", "3"].shares_offsets
    assert found.seen_ends == {**dict.fromkeys(GOOD, 362), "12": 120}
    assert (
        restart_of(found, "12").reason == "nothing is lost; what is missing comes from the leader"
    )


def test_who_is_out_of_sight_shows_no_other(tmp_path: Path) -> None:
    """12 ends in epoch 3 and 11 goes on to epoch 4: the voters' logs begin in the midst of epoch 8."""
    voters = ("1", "2", "3")
    replicas = copied(tmp_path, (*voters, "11", "12"), voters, 1700, "upgraded-3.9")
    for label, end in (("11", 600), ("12", 300)):
        ends_at(replicas, label, end)
        for snapshot in (replicas / label / FOLDER).glob("*.checkpoint"):
            snapshot.unlink()
    found = quorum_of(replicas)
    assert {label: found.by_label[label].last_epoch for label in ("11", "12")} == {"11": 4, "12": 3}
    assert {label: found.seen_ends[label] for label in ("11", "12")} == {"11": 0, "12": 0}


def test_a_majority_of_its_voters_shows_what_it_holds(tmp_path: Path) -> None:
    """The voters 1 and 2 held the same in epoch 1, and it was committed then."""
    replicas = copied(tmp_path, ("2", "3", "11"), ("3", "11"), 300)
    shutil.copytree(replicas / "2", replicas / "1")
    meta = (DATA / "isolated" / "replicas" / "1" / "meta.properties").read_text()
    (replicas / "1" / "meta.properties").write_text(meta)
    assert quorum_of(replicas).seen_ends == {"1": 243, "2": 243, "3": 362, "11": 362}


def test_who_lags_in_sight_of_the_others_loses_nothing(tmp_path: Path) -> None:
    replicas = copied(tmp_path, (*GOOD, "12"), ("1", "3"), 300)
    ends_at(replicas, "12", 150)
    told = restart_of(quorum_of(replicas), "12")
    assert told.safety == Safety.SAFE
    assert told.reason == "nothing is lost; what is missing comes from the leader"


# --- what only an epoch checkpoint tells ------------------------------------------------------------


def cut_at(folder: Path, end: int) -> None:
    """A log that ends earlier, with its side files as they were."""
    path = folder / FOLDER / f"{0:020d}.log"
    raw = path.read_bytes()
    path.write_bytes(raw[: _position(raw, end)])


def cut_logs(root: Path, labels: Iterable[str], lost: Iterable[str]) -> Path:
    """Copies of the golden, of which some have lost their logs from offset 120 on."""
    replicas = root / "replicas"
    for label in labels:
        shutil.copytree(DATA / "isolated" / "replicas" / label, replicas / label)
    for label in lost:
        cut_at(replicas / label, 120)
    return replicas


@pytest.mark.parametrize(
    ("labels", "lost"), [(("2", "3", "12"), ("3",)), (("1", "2", "3"), ("1", "3"))]
)
def test_a_checkpoint_tells_what_a_newer_leader_was_elected_without(
    tmp_path: Path, labels: tuple[str, ...], lost: tuple[str, ...]
) -> None:
    replicas = cut_logs(tmp_path, labels, lost)
    found, stale = quorum_of(replicas), set(labels) & set(STALE)
    assert found.tail_starts == dict.fromkeys(stale, 176)
    assert set(found.replaced) == stale
    assert found.replaced["2"][:4] == (176, 1, 2, 176)
    plan = recovered(found)
    assert (plan.image.end_offset, plan.image.epoch) == (176, 1)
    topics = {value["name"] for value in plan.image.state.rows("topics").values()}
    assert "ghost-topic-a" not in topics
    assert {(one.replica, one.start_offset, one.cause) for one in plan.left_out} == {
        (label, 176, Cause.REPLACED) for label in stale
    }
    # The quorum went on, and what it wrote is named.
    assert [(one.replica, one.start_offset, one.end_offset) for one in plan.lost_ends] == [
        (label, 176, 315) for label in lost
    ]
    assert any(f"What {lost[0]} held at offsets 176 to 314: " in text for text in unknown(plan))
    for label in stale:
        told = restart_of(found, label)
        assert (told.safety, told.lost_from) == (Safety.UNKNOWN, 176)
        assert "bring them back as the quorum's history" in told.reason
        assert "start it first" not in told.reason
    rows = [one.row for one in audit(replicas).findings if one.check == "uncommitted_tail_diverged"]
    assert {(row.replica, row.offset, row.other_replica) for row in rows} == {
        (label, 176, lost[0]) for label in stale
    }
    assert all("nothing of the tail was committed before that" in row.message for row in rows)


def _older_state(folder: Path) -> None:
    path = folder / "quorum-state"
    path.write_text(path.read_text().replace('"leaderEpoch":2', '"leaderEpoch":1'))


def _of_another_log(folder: Path) -> None:
    (folder / "leader-epoch-checkpoint").write_text("0\n3\n1 0\n2 100\n3 176\n")


def _amid_a_batch(folder: Path) -> None:
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n2 173\n")


def _of_the_same_epoch(folder: Path) -> None:
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")


@pytest.mark.parametrize(
    "change", [_older_state, _of_another_log, _amid_a_batch, _of_the_same_epoch]
)
def test_a_checkpoint_that_nothing_bears_out_tells_nothing(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    replicas = cut_logs(tmp_path, ("2", "3", "12"), ("3",))
    assert quorum_of(replicas).replaced
    change(replicas / "3" / FOLDER)
    found = quorum_of(replicas)
    assert (found.replaced, found.tail_starts) == ({}, {})
    assert recovered(found).image.end_offset == 243


def test_a_checkpoint_is_not_believed_against_what_was_committed(tmp_path: Path) -> None:
    """A majority holds the records, or a snapshot holds their state."""
    replicas = cut_logs(tmp_path, ("2", "3", "12"), ("3",))
    out = tmp_path / "taken"
    assert main(["checkpoint", str(replicas / "2"), "--at", "200", "--out", str(out)]) == 0
    (taken,) = out.rglob(f"{200:020d}-*.checkpoint")
    placed = Path(shutil.copy(taken, replicas / "12" / FOLDER))
    assert quorum_of(replicas).replaced == {}
    placed.unlink()
    assert quorum_of(replicas).replaced
    shutil.rmtree(replicas / "12")
    shutil.copytree(replicas / "2", replicas / "1")
    meta = (DATA / "isolated" / "replicas" / "1" / "meta.properties").read_text()
    (replicas / "1" / "meta.properties").write_text(meta)
    assert quorum_of(replicas).replaced == {}


def test_a_log_of_a_still_newer_epoch_is_not_replaced(tmp_path: Path) -> None:
    """Its own checkpoint tells so, though its own log has lost that epoch as well."""
    replicas = cut_logs(tmp_path, ("2", "3", "12"), ("3",))
    folder = replicas / "2" / FOLDER
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n3 243\n")
    state = folder / "quorum-state"
    state.write_text(state.read_text().replace('"leaderEpoch":1', '"leaderEpoch":3'))
    found = quorum_of(replicas)
    assert set(found.replaced) == {"12"}
    assert found.tail_starts == {"12": 176}


def test_a_log_that_shows_the_newer_epoch_tells_more(tmp_path: Path) -> None:
    found = quorum_of(cut_logs(tmp_path, ("1", "2", "3"), ("3",)))
    assert (found.tail_starts, found.replaced) == ({"2": 176}, {})
    plan = recovered(found)
    assert (plan.image.end_offset, plan.lost_ends) == (362, ())
