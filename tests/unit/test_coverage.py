"""What checks say that they have looked at, and why not at more; and the verdict that follows."""

import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kraftlog.audit import coverage
from kraftlog.audit.coverage import BASE, Coverage, JudgedRange, judged_ranges
from kraftlog.audit.verdict import Grade, Lag, Verdict, lagging, verdict_of
from kraftlog.config import Thresholds, default_thresholds
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import NO_SEGMENT, UNLISTED, find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.evidence import StateEvidence
from kraftlog.quorum.model import Quorum
from tests.collecting import collect
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    START_MS,
    Batch,
    Node,
    audit,
    healthy_log,
    leader_change,
    partition,
    quorum,
    snapshot,
    topic,
)
from tests.unit.audit_logs import found as found_of
from tests.unit.faults.ends import cut, writes_alone
from tests.unit.faults.health import broker, on_its_disks
from tests.unit.faults.table import AT, LATER
from tests.unit.test_directory import as_nobody


def quorum_of(
    root: Path, thresholds: Thresholds | None = None, vanish: tuple[Path, ...] = ()
) -> Quorum:
    """The quorum below a folder, of which some files are gone after they were listed."""
    replicas = find_replicas([str(root)])
    for path in vanish:
        path.unlink()
    limits = thresholds or default_thresholds()
    found = collect(replicas, LIMITS, Redactor(None), replay=False, thresholds=limits)
    return Quorum(found)


def test_a_reason_names_what_lacks_each_once() -> None:
    assert Coverage(("1",)).reason is None
    assert Coverage(("1",), (), "there is none").reason is None
    assert Coverage((), (), "there is none").reason == "there is none"
    assert Coverage(()).reason == "there is nothing of that kind"
    gaps = (("1", "torn"), (None, "no copy"), ("2", "torn"), ("1", "torn"))
    told = "1: torn; no copy; 2: torn"
    assert Coverage(("3",), gaps).reason == Coverage((), gaps).reason == told


ALL = ("1", "2", "3")


@pytest.mark.parametrize(
    ("subject", "nothing"),
    [
        (coverage.logs, None),
        (coverage.files, None),
        (coverage.snapshots, None),
        (coverage.every_snapshot, None),
        (coverage.batches, None),
        (coverage.copies, None),
        (coverage.copied_logs, None),
        (coverage.epoch_checkpoints, None),
        (coverage.quorum_states, None),
        (coverage.pairs, None),
        (coverage.voters, None),
        (coverage.committed_voters, None),
        (coverage.indexes, "no index is at hand"),
    ],
)
def test_the_whole_quorum(tmp_path: Path, subject: coverage.Subject, nothing: str | None) -> None:
    quorum(tmp_path)
    found = subject(quorum_of(tmp_path))
    assert found.judged == (() if nothing else ALL)
    assert (found.gaps, found.reason) == ((), nothing)


def _gone(*patterns: str) -> Callable[[list[Node]], None]:
    """Files of node 2 that are not there."""

    def damage(nodes: list[Node]) -> None:
        for pattern in patterns:
            for path in (*nodes[1].home.glob(pattern), *nodes[1].folder.glob(pattern)):
                path.unlink()

    return damage


NO_LOG = (("2", f"its log cannot be read ({NO_SEGMENT})"),)


@pytest.mark.parametrize(
    ("subject", "damage", "gaps"),
    [
        (coverage.logs, _gone("*.log"), NO_LOG),
        (coverage.snapshots, _gone("*.checkpoint"), ()),
        (coverage.every_snapshot, _gone("*.checkpoint"), ()),
        (coverage.batches, _gone("*.checkpoint", "*.log"), NO_LOG),
        (coverage.epoch_checkpoints, _gone("leader-epoch-checkpoint"), ()),
        (coverage.quorum_states, _gone("quorum-state"), ()),
        (coverage.pairs, _gone("*.log"), NO_LOG),
        (coverage.copied_logs, _gone("*.log"), NO_LOG),
        (coverage.voters, _gone("meta.properties"), ((None, "no copy of voter 2 is at hand"),)),
    ],
)
def test_what_one_node_lacks(
    tmp_path: Path,
    subject: coverage.Subject,
    damage: Callable[[list[Node]], None],
    gaps: tuple[coverage.Gap, ...],
) -> None:
    damage(quorum(tmp_path))
    found = subject(quorum_of(tmp_path))
    assert (found.judged, found.gaps) == (("1", "3"), gaps)


@pytest.mark.parametrize(
    ("subject", "nothing"),
    [
        (coverage.logs, "no log segment is at hand"),
        (coverage.snapshots, "no checkpoint is at hand"),
        (coverage.every_snapshot, "no checkpoint is at hand"),
        (coverage.batches, "no log segment and no checkpoint is at hand"),
        (coverage.epoch_checkpoints, "no leader-epoch-checkpoint is at hand"),
        (coverage.quorum_states, "no quorum-state is at hand"),
        (coverage.indexes, "no index is at hand"),
        (coverage.pairs, "no copy holds a record batch"),
    ],
)
def test_where_there_is_nothing_of_a_kind(
    tmp_path: Path, subject: coverage.Subject, nothing: str
) -> None:
    for node in quorum(tmp_path):
        for path in (*node.folder.iterdir(), node.home / "meta.properties"):
            path.unlink()
        (node.folder / "00000000000000000000.txnindex").write_bytes(b"")
    found = subject(quorum_of(tmp_path))
    assert (found.judged, found.gaps, found.reason) == ((), (), nothing)


def test_one_copy_of_three(tmp_path: Path) -> None:
    Node(tmp_path, 1).write(healthy_log())
    found = quorum_of(tmp_path)
    lacking = "no copies of voters 2 and 3 are at hand"
    alone = ((None, f"only one copy is at hand; {lacking}"),)
    assert coverage.copies(found) == coverage.pairs(found) == Coverage((), alone)
    assert coverage.voters(found) == Coverage(("1",), ((None, lacking),))
    assert coverage.committed_voters(found) == coverage.voters(found)
    assert coverage.missing_voters_text(found) == lacking


def test_the_only_voter(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    node.write(healthy_log())
    node.quorum_state(leaderId=1, leaderEpoch=2, currentVoters=[{"voterId": 1}])
    found = quorum_of(tmp_path)
    assert found.bounds.missing_voters == ()
    for subject in (coverage.copies, coverage.pairs):
        assert subject(found) == Coverage((), (), "only one copy is at hand")


def test_copies_without_an_offset_in_common(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node, kept in zip(nodes, (0, 6, None), strict=True):
        for base in {0, 6} - {kept}:
            node.segment(base).unlink()
    for path in nodes[2].folder.iterdir():
        path.unlink()
    found = coverage.pairs(quorum_of(tmp_path))
    assert (found.judged, found.reason) == ((), "no two copies hold the same offsets")


def test_where_nothing_is_known_to_be_committed(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    node.write(healthy_log()[:7])
    node.checkpoint(6, 1).unlink()
    quorum_here = quorum_of(tmp_path)
    assert quorum_here.bounds.lower == 0
    found = coverage.committed_voters(quorum_here)
    assert found == Coverage((), ((None, quorum_here.bounds.lower_reason),))


def test_who_votes_is_not_known(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    node.write([one for one in healthy_log() if one.base not in (0, 8)])
    (node.folder / "quorum-state").unlink()
    gaps = ((None, "nothing at hand says who votes"),)
    assert coverage.voters(quorum_of(tmp_path)) == Coverage((), gaps)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    node = quorum(tmp_path)[1]
    found = quorum_of(tmp_path, vanish=(node.segment(0), node.checkpoint(6, 1)))
    log = ("2", f"its {node.segment(0).name} cannot be read (the file is gone)")
    snapshot = ("2", "a checkpoint cannot be read (the file is gone)")
    assert coverage.logs(found) == Coverage(("1", "3"), (log,), "no log segment is at hand")
    assert coverage.snapshots(found).judged == coverage.every_snapshot(found).judged == ("1", "3")
    assert coverage.snapshots(found).gaps == coverage.every_snapshot(found).gaps == (snapshot,)
    assert coverage.batches(found).judged == ("1", "3")
    assert coverage.batches(found).gaps == (log, snapshot)
    assert coverage.voters(found) == Coverage(ALL, (log,))


def unread(node: Node, base: int) -> None:
    """A segment that is listed, and that nobody can read: of its size nothing is known either."""
    node.segment(base).unlink(missing_ok=True)
    node.segment(base).symlink_to(node.home / "absent")


BESIDE = ("file_readable", "log_end_lost", "epoch_checkpoint_agrees", "epoch_within_quorum_state",
          "snapshot_header_first", "snapshot_leftover", "snapshots_agree", "snapshot_equals_replay",
          "snapshot_record_allowed", "quorum_state_present", "log_matching")  # fmt: skip


def test_nothing_has_passed_of_a_folder_that_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows what lies in it: no name of a file in it is told either."""
    node = quorum(tmp_path)[1]
    as_nobody(monkeypatch, [node.folder])
    result = audit(tmp_path)
    gap = f"2: {UNLISTED}: Permission denied"
    assert {check for check, why in result.verdict.not_judged if why == gap} >= {*BESIDE}
    (told,) = found_of(result, "file_readable")
    assert told.severity == "critical"
    begins = f"The log could not be read ({UNLISTED}: Permission denied). "
    assert told.row.message.startswith(begins)


@pytest.mark.parametrize("reads", [True, False])
def test_a_snapshot_that_is_not_whole_agrees_with_none_of_its_id(
    reads: bool, tmp_path: Path
) -> None:
    node = quorum(tmp_path)[1]
    file = node.checkpoint(6, 1)
    raw = snapshot([healthy_log()[1], healthy_log()[3]], 1, START_MS + 3000, footer=False)
    file.unlink()
    file.write_bytes(raw) if reads else file.symlink_to(node.home / "absent")
    gaps = dict(audit(tmp_path).verdict.not_judged)
    why = "is not complete" if reads else "cannot be read (it is a link that leads nowhere)"
    assert gaps["snapshots_agree"] == gaps["snapshot_equals_replay"] == f"2: {file.name} {why}"


IN_PART = ("batch_crc_valid", "record_decodes", "log_matching", "epoch_checkpoint_agrees",
           "single_leader_per_epoch", "log_ends_on_batch", "voter_holds_committed_data",
           "epoch_within_quorum_state", "index_agrees", "snapshot_taken")  # fmt: skip


@pytest.mark.parametrize(("base", "more"), [(0, set()), (6, {"snapshot_ahead_of_log"})])
def test_of_a_log_that_was_read_in_part_no_check_has_passed(
    tmp_path: Path, base: int, more: set[str]
) -> None:
    """Nor does one say anything of what lies where nothing was read: neither that a snapshot is
    ahead of the log, nor that an index is wrong.
    """
    node = quorum(tmp_path)[2]
    node.checkpoint(8, 1).write_bytes(node.checkpoint(6, 1).read_bytes())
    node.segment(base).with_suffix(".index").write_bytes(struct.pack(">ii", 1, 61))
    unread(node, base)
    result = audit(tmp_path)
    gap = f"3: its {node.segment(base).name} cannot be read (it is a link that leads nowhere)"
    told = {check for check, why in result.verdict.not_judged if gap in why}
    assert told >= {*IN_PART, *more}
    found = {one.check: one.severity for one in result.findings if one.row.replica == "3"}
    assert found.pop("file_readable") == "critical"
    assert not found.keys() & {"snapshot_ahead_of_log", "index_agrees", "log_end_lost"}


@pytest.mark.parametrize(
    "change",
    [
        # Node 2 led epoch 2, and the others hold more of that.
        lambda nodes: (cut(nodes[1], AT[10]), unread(nodes[1], 10)),
        # Voter 2 has written on by itself, unless voter 3 holds that, too.
        lambda nodes: (writes_alone(nodes, 61_000), unread(nodes[2], 12)),
        # Voter 1 was elected by itself, unless voter 2 holds that, too.
        lambda nodes: (
            [one.quorum_state(leaderId=1, leaderEpoch=5) for one in nodes],
            nodes[0].append(leader_change(12, 5, 1, LATER)),
            unread(nodes[1], 12),
        ),
    ],
)
def test_nothing_is_told_of_what_may_lie_where_nothing_was_read(
    tmp_path: Path, change: Callable[[list[Node]], object]
) -> None:
    change(quorum(tmp_path))
    result = audit(tmp_path)
    checks = {"log_end_lost", "voter_holds_committed_data", "newest_leader_commits"}
    assert not [one.row.message for one in result.findings if one.check in checks]
    assert checks <= dict(result.verdict.not_judged).keys()


def test_a_log_of_which_nothing_can_be_read(tmp_path: Path) -> None:
    node = quorum(tmp_path)[1]
    found = quorum_of(tmp_path, vanish=(node.segment(0), node.segment(6)))
    gap = ("2", "its log cannot be read (the file is gone)")
    assert coverage.logs(found) == Coverage(("1", "3"), (gap,), "no log segment is at hand")
    assert coverage.voters(found) == Coverage(ALL, (gap,))
    assert coverage.batches(found).judged == ("1", "3", "2")
    assert coverage.batches(found).gaps == (gap,)
    # Nor is it said to lag.
    assert lagging(found) == ()


def test_what_the_replay_has_judged(tmp_path: Path) -> None:
    quorum(tmp_path)
    plain = quorum_of(tmp_path)
    subject = coverage.state("references_exist")
    assert subject(plain) == Coverage((), ((None, "the records were not replayed"),))
    begins = f"x {BASE}"
    skipped = (
        ("references_exist", "1", "torn"),
        ("leader_in_isr", "2", "also torn"),
        ("references_exist", "3", begins),
    )
    for judged in ((), ("references_exist",), ("leader_in_isr",)):
        state = StateEvidence(judged=judged, skipped=skipped, ranges=((0, 6), (8, 12)))
        found = Quorum(replace(plain.evidence, state=state))
        nothing = "no record that it looks at is at hand"
        own = judged == ("references_exist",)
        # Where it has judged anything, what lies before the replay is no gap.
        gaps = (("1", "torn"),) if own else (("1", "torn"), ("3", begins))
        assert subject(found) == Coverage(ALL if own else (), gaps, nothing)
        both = (JudgedRange(None, 0, 6), JudgedRange(None, 8, 12))
        assert judged_ranges(found, subject(found), of_state=True) == (both if own else ())


def test_where_a_check_has_looked(tmp_path: Path) -> None:
    quorum(tmp_path)[1].segment(0).unlink()
    found = quorum_of(tmp_path)
    told = (JudgedRange("2", 6, 12), JudgedRange("1", 0, 12))
    assert judged_ranges(found, Coverage(("2", "1")), of_state=False) == told
    # Where nothing was replayed a check of the state tells the logs, too.
    assert judged_ranges(found, Coverage(("2", "1")), of_state=True) == told


# --- the verdict ---------------------------------------------------------------------------------


def graded(found: Quorum, *severities: str, complete: bool = True, broken: bool = False) -> Verdict:
    return verdict_of(
        found, severities, [("a", "why")], is_complete=complete, is_broken=broken
    )  # fmt: skip


def test_grades(tmp_path: Path) -> None:
    quorum(tmp_path)
    found = quorum_of(tmp_path)
    assert graded(found) == Verdict(Grade.SOUND, (1, 2, 3), (), (("a", "why"),), 12, None, ())
    assert graded(found, "info").grade == Grade.SOUND
    assert graded(found, "info", complete=False).grade == Grade.INCOMPLETE
    assert graded(found, "warning", complete=False).grade == Grade.ATTENTION
    assert graded(found, broken=True).grade == Grade.ATTENTION
    assert graded(found, "info", "critical", "warning").grade == Grade.CRITICAL


def test_without_a_voters_copy_nothing_is_sound(tmp_path: Path) -> None:
    Node(tmp_path, 1).write(healthy_log())
    found = graded(quorum_of(tmp_path))
    assert (found.grade, found.missing_voters) == (Grade.INCOMPLETE, (2, 3))
    assert found.as_row() == {
        "verdict": "incomplete", "voters": [1, 2, 3], "missing_voters": [2, 3],
        "not_judged": [["a", "why"]], "committed_lower": 8, "committed_upper": None, "lagging": [],
    }  # fmt: skip


def test_without_voters_nothing_is_sound(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    node.write([one for one in healthy_log() if one.base not in (0, 8)])
    (node.folder / "quorum-state").unlink()
    found = graded(quorum_of(tmp_path))
    assert (found.grade, found.voters) == (Grade.INCOMPLETE, None)
    assert found.as_row()["voters"] is None


def behind(root: Path, lag: int) -> tuple[Lag, ...]:
    return lagging(quorum_of(root, replace(default_thresholds(), lag_offsets=lag)))


def test_who_lags(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    observer = Node(tmp_path, 9)
    observer.write(healthy_log())
    for node in nodes[:2]:
        node.append(*(Batch(12 + n, 2, (NO_OP,), None, LATER + n) for n in range(5)))
    mine = Lag("3", "controller 3", 5, False, True, 3)
    other = Lag("9", "broker 9", 5, False, False, 9)
    assert behind(tmp_path, 4) == (mine, other)
    assert behind(tmp_path, 5) == ()
    # A snapshot of its own is as good as the log below it.
    observer.checkpoint(14, 2).write_bytes(observer.checkpoint(6, 1).read_bytes())
    assert behind(tmp_path, 4) == (mine,)
    assert behind(tmp_path, 2)[1] == Lag("9", "broker 9", 3, False, False, 9)


def test_an_earlier_copy_of_a_node_does_not_lag(tmp_path: Path) -> None:
    """Nor does what was pulled earlier: it is no node's."""
    for node in quorum(tmp_path):
        shutil.copytree(node.home, tmp_path / f"{node.home.name}-before")
        node.append(*(Batch(12 + n, 2, (NO_OP,), None, LATER + n) for n in range(5)))
    pulled = Node(tmp_path, 9)
    pulled.write(healthy_log())
    assert behind(tmp_path, 4) == (Lag("9", "broker 9", 5, False, False, 9),)
    pulled.meta(node_id=-1, directory=9)
    (pulled.folder / "quorum-state").unlink()
    assert behind(tmp_path, 4) == ()


def test_who_needs_a_snapshot_lags_however_little_it_lacks(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node in nodes[:2]:
        node.segment(0).unlink()
    nodes[2].segment(6).unlink()
    nodes[2].checkpoint(6, 1).unlink()
    assert behind(tmp_path, 1000) == ()  # it ends at 6, where the others begin
    first = nodes[2].segment(0)
    first.write_bytes(first.read_bytes()[: -len(healthy_log()[3].raw())])
    assert behind(tmp_path, 1000) == (Lag("3", "controller 3", 8, True, True, 3),)
    found = quorum_of(tmp_path)
    assert graded(found).grade == Grade.ATTENTION
    nodes[2].meta(node_id=9, directory=9)
    (lag,) = behind(tmp_path, 1000)
    assert (lag.who, lag.is_voter) == ("broker 9 (3)", False)


def test_a_lag_as_a_row(tmp_path: Path) -> None:
    quorum(tmp_path)
    one = Lag("3", "controller 3", 8, True, False, None)
    row = replace(graded(quorum_of(tmp_path)), lagging=(one,), committed_upper=13).as_row()
    assert row["committed_upper"] == 13
    assert row["lagging"] == [
        {
            "replica": "3", "who": "controller 3", "behind": 8, "needs_snapshot": True,
            "is_voter": False, "node_id": None, "fell_behind": False,
        }
    ]  # fmt: skip


# --- checks with a reason of their own -----------------------------------------------------------


def reasons(root: Path) -> dict[str, str | None]:
    return {one.check: one.reason for one in audit(root).results if one.result == "skipped"}


def test_why_directories_of_voters_are_not_compared(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    check = "voter_directories_agree"
    assert reasons(tmp_path)[check] == "the voter set names no directories (kraft.version 0)"
    on_its_disks(nodes)
    assert check not in reasons(tmp_path)
    for node in nodes:
        (node.home / "meta.properties").unlink()
    assert reasons(tmp_path)[check] == "no voter's meta.properties is at hand"


def test_since_when_is_told_of_the_first_offset_too(tmp_path: Path) -> None:
    """A log that begins with its metadata: the broker is fenced since offset 0, the topic's
    partition without a leader since offset 2.
    """
    first = Batch(0, 1, (broker(1, 0, fenced=True), topic("a", 1)), None, LATER)
    lost = Batch(2, 1, (partition(1, [1], [1], -1),), None, LATER)
    for number in (1, 2, 3):
        node = Node(tmp_path, number)
        node.write([first, lost])
        node.checkpoint(6, 1).unlink()
    found = {one.check: one.row.evidence for one in audit(tmp_path).findings}
    assert found["brokers_unfenced"]["since_offset"] == 0
    (told,) = found["partitions_have_leaders"]["partitions"]
    assert told["since_offset"] == 2


def test_what_a_limit_keeps_from_being_read_is_not_judged(tmp_path: Path) -> None:
    """Neither are the offsets of such a batch missing, nor is a snapshot with one not complete."""
    nodes, large = quorum(tmp_path), Batch(12, 2, (topic("x" * 600, 9),), None, LATER)
    for node in nodes:
        node.append(large, Batch(13, 2, (NO_OP,), None, LATER))
        node.segment(0).unlink()
        node.checkpoint(6, 1).write_bytes(snapshot([large], 1, START_MS))
    result = audit(tmp_path, limits=Limits(window_size_bytes=256, batch_size_bytes=512))
    assert {(one.check, one.severity) for one in result.findings} == {("record_decodes", "warning")}
    gaps = dict(result.verdict.not_judged)
    large_ones = "batches over batch_limit_bytes (1) were not read: raise it"
    assert gaps["offsets_contiguous"] == "; ".join(f"{one}: {large_ones}" for one in ALL)
    for check in ("log_start_covered", "snapshot_equals_replay"):
        assert gaps[check].startswith(
            f"1: {nodes[0].checkpoint(6, 1).name} cannot be read (a valid"
        )
    for check in ("snapshot_footer_last", "record_decodes"):
        assert gaps[check].startswith("1: a checkpoint cannot be read (a valid batch of")
