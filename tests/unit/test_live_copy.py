"""Files that change between the moment when they are listed and the one when they are read, as
those of a live node do.
"""

import errno
import os
import shutil
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import kraftlog
from kraftlog.audit.runner import AuditResult, Finding, audit_of
from kraftlog.commands.faults import fault_rows
from kraftlog.decode.redaction import Redactor
from kraftlog.explain.subject import subjects_of
from kraftlog.log.directory import IS_FOLDER, NO_SEGMENT, UNSEEN, find_replicas
from kraftlog.log.names import LAST_OFFSET
from kraftlog.log.storage import LocalBytes
from kraftlog.pipeline.decode import decode
from kraftlog.pipeline.explained import faults_in, moments_in
from kraftlog.pipeline.materialize import materialize
from kraftlog.pipeline.metrics import metrics
from kraftlog.quorum.model import Quorum
from kraftlog.relations import moment
from kraftlog.simulate.plan_rows import Plans
from kraftlog.simulate.restart import Restart, restarts
from kraftlog.simulate.troubles import Safety
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import statistics
from tests.collecting import collect
from tests.in_process import run_of
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    START_MS,
    Batch,
    Node,
    audit,
    healthy_log,
    leader_change,
    quorum,
    snapshot,
    topic,
)
from tests.unit.faults.table import AT, END_POSITION, LATER
from tests.unit.test_directory import as_nobody

NEXT = Batch(12, 2, (NO_OP,), None, LATER).raw()


def findings(root: Path, change: Callable[[list[Node]], object]) -> list[Finding]:
    """What an audit finds where files change after they were listed."""
    nodes = quorum(root)
    replicas = find_replicas([str(root)])
    change(nodes)
    return list(audit_of(Quorum(collect(replicas, LIMITS, Redactor(None)))).findings)


def grow(path: Path, more: bytes) -> None:
    path.write_bytes(path.read_bytes() + more)


def test_whole_batches_that_came_meanwhile_are_read(tmp_path: Path) -> None:
    found = findings(tmp_path, lambda nodes: [grow(one.segment(6), NEXT) for one in nodes])
    assert found == []


def test_a_batch_that_is_being_written_is_a_torn_tail(tmp_path: Path) -> None:
    """It is the end of the file as it was read, not the middle of the one that was listed."""
    for cut in (1, 40, 61, len(NEXT) - 1):
        root = tmp_path / str(cut)
        (one,) = findings(root, lambda nodes, cut=cut: grow(nodes[0].segment(6), NEXT[:cut]))
        assert (one.check, one.severity) == ("log_tail_complete", "warning")
        assert (one.row.position, one.row.offset) == (END_POSITION, 12)


def test_a_segment_that_was_cut_meanwhile_ends_there(tmp_path: Path) -> None:
    """Down to a batch's end: the log is shorter, and nothing in it is damaged."""

    def cut(nodes: list[Node]) -> None:
        path = nodes[0].segment(6)
        path.write_bytes(path.read_bytes()[: AT[11]])

    assert [one for one in findings(tmp_path, cut) if one.severity != "info"] == []


def test_a_segment_in_the_middle_that_grew_has_its_damage_at_its_end(tmp_path: Path) -> None:
    (one,) = findings(tmp_path, lambda nodes: grow(nodes[0].segment(0), NEXT[:40]))
    assert (one.check, one.severity) == ("segment_complete", "critical")
    size = sum(len(batch.raw()) for batch in healthy_log()[:4])
    assert (one.row.position, one.row.offset) == (size, 6)


def test_a_segment_that_is_gone_meanwhile_is_told_as_such(tmp_path: Path) -> None:
    found = findings(tmp_path, lambda nodes: nodes[0].segment(6).unlink())
    (one,) = [one for one in found if one.check == "file_readable"]
    assert (one.severity, one.row.replica) == ("info", "1")
    assert not [one for one in found if one.severity == "critical"]


def test_a_segment_in_the_middle_that_is_gone_meanwhile_explains_the_hole(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    middle = b"".join(one.raw() for one in healthy_log() if 6 <= one.base < 9)
    last = node.segment(6).read_bytes().removeprefix(middle)
    node.segment(6).write_bytes(middle)
    node.segment(9).write_bytes(last)
    replicas = find_replicas([str(tmp_path)])
    node.segment(6).unlink()
    result = audit_of(Quorum(collect(replicas, LIMITS, Redactor(None))))
    assert [one.check for one in result.findings if one.row.replica == "1"] == ["file_readable"]
    assert "errored" not in {one.result for one in result.results}


SHUT = "could not be read (it is not a regular file)"
INDEX = "00000000000000000006.index"


def shut(path: Path) -> None:
    """A file that is listed as one, and that nobody can read."""
    path.unlink()
    path.mkdir()


def where_shut(root: Path, name: str) -> tuple[AuditResult, dict[str, Restart]]:
    """The audit, and who may restart, where a file beside the log of node 3 cannot be read."""
    node = quorum(root)[2]
    path = (node.home if name == "meta.properties" else node.folder) / name
    if name == INDEX:
        path.write_bytes(struct.pack(">iiii", 3, AT[9], 5, AT[11]))
        node.segment(6).write_bytes(node.segment(6).read_bytes()[: AT[11]])
    path.touch()
    replicas = find_replicas([str(root)])
    shut(path)
    found = Quorum(collect(replicas, LIMITS, Redactor(None)))
    return audit_of(found), {one.replica: one for one in restarts(found)}


@pytest.mark.parametrize(
    ("name", "not_judged"),
    [
        ("quorum-state", {"quorum_state_present", "epoch_within_quorum_state", "log_end_lost"}),
        ("leader-epoch-checkpoint", {"epoch_checkpoint_agrees", "log_end_lost"}),
        ("partition.metadata", {"meta_properties_valid"}),
        (INDEX, {"index_agrees", "log_end_lost"}),
    ],
)
def test_what_cannot_be_read_is_told_as_that_and_not_judged(
    tmp_path: Path, name: str, not_judged: set[str]
) -> None:
    """It is neither missing nor damaged; and a log may have lost what only this file tells of."""
    result, may = where_shut(tmp_path, name)
    (one,) = [one for one in result.findings if one.severity != "info"]
    assert (one.check, one.severity, one.row.replica) == ("file_readable", "warning", "3")
    assert one.row.message == (
        f"The file {name} {SHUT}. Nothing is known of what it holds. "
        "Make it readable or copy it again, then audit again."
    )
    assert {check for check, _ in result.verdict.not_judged} == not_judged
    assert {why for _, why in result.verdict.not_judged} == {f"3: {name} {SHUT}"}
    for each in result.results:
        assert each.check not in not_judged or "3" not in {one.replica for one in each.judged}
    again = f"{name} {SHUT}: make it readable or copy it again"
    assert may["3"] == Restart("3", 3, Safety.UNKNOWN, again)
    assert {may[label].reason for label in ("1", "2")} == {
        "nothing is lost; but while the node is down the others are a majority only with voter 3, of which a file could not be read"
    }


def test_whose_copy_it_is_cannot_be_read(tmp_path: Path) -> None:
    result, may = where_shut(tmp_path, "meta.properties")
    told = {one.check for one in result.findings if one.row.replica == "3"}
    assert told == {"file_readable"}
    assert dict(result.verdict.not_judged)["meta_properties_valid"] == f"3: meta.properties {SHUT}"
    assert may["3"].safety == Safety.UNKNOWN


def test_an_index_that_is_gone_meanwhile_is_told_as_such(tmp_path: Path) -> None:
    """A leader deletes those of old segments."""
    node = quorum(tmp_path)[0]
    index = node.segment(0).with_suffix(".index")
    index.write_bytes(b"")
    replicas = find_replicas([str(tmp_path)])
    index.unlink()
    (one,) = audit_of(Quorum(collect(replicas, LIMITS, Redactor(None)))).findings
    assert (one.check, one.severity, one.row.replica) == ("file_readable", "info", "1")


def test_of_a_folder_that_cannot_be_listed_nothing_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = quorum(tmp_path)[2]
    node.folder.chmod(0)
    as_nobody(monkeypatch, [node.folder])
    found = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    result = audit_of(found)
    told = [(one.check, one.severity) for one in result.findings if one.row.replica == "3"]
    assert told == [("file_readable", "critical")]
    assert {"quorum_state_present", "log_end_lost"} <= dict(result.verdict.not_judged).keys()
    may = {one.replica: one for one in restarts(found)}
    assert may["3"].safety == Safety.UNKNOWN
    assert "only with voter 3, of which a file could not be read" in may["1"].reason


def test_a_log_of_which_no_segment_was_copied_is_not_empty(tmp_path: Path) -> None:
    """Files that Kafka writes beside a segment only are here: nothing is said of what the log held,
    by an audit or by a plan. What Kafka makes of such a folder is an empty log.
    """
    node = quorum(tmp_path)[2]
    for segment in node.folder.glob("*.log"):
        segment.unlink()
    found = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    result = audit_of(found)
    (told,) = [one for one in result.findings if one.row.replica == "3"]
    assert (told.check, told.severity, told.row.path) == (
        "file_readable",
        "warning",
        str(node.folder),
    )
    assert f"({NO_SEGMENT})" in told.row.message
    assert {"voter_holds_committed_data", "log_end_lost"} <= dict(result.verdict.not_judged).keys()
    plans = Plans(found)
    elections = {one.candidate: one for one in plans.elections()}
    assert {one: elections[one].granted_by for one in elections} == {
        "1": ("1", "2"),
        "2": ("1", "2"),
    }
    assert [one.boots for one in plans.voters] == [True, True]
    assert plans.boots["3"].boots
    assert plans.boots["3"].reason == f"{NO_SEGMENT}; Kafka begins an empty log there"


def test_a_voter_that_has_not_started_yet_is_not_told_to_restore_its_vote(tmp_path: Path) -> None:
    """Two of three static voters had started (Kafka 4.3.1): the third had no vote to forget."""
    shutil.rmtree(quorum(tmp_path)[2].folder)
    told = {one.check: one for one in audit(tmp_path).findings}
    assert told.keys() == {"file_readable", "quorum_state_present"}
    assert told["quorum_state_present"].severity == "info"
    assert "Start it: it fetches all" in told["quorum_state_present"].row.message


def test_a_folder_that_cannot_be_listed_may_be_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it was not looked at is told, and leaves the verdict open; nobody knows of a file that is
    missing there, nor that it matters to the nodes that are at hand.
    """
    quorum(tmp_path)
    shut = tmp_path / "4"
    shut.mkdir()
    found = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    sound = [one.row.message for one in audit_of(found).findings]
    shut.chmod(0)
    as_nobody(monkeypatch, [shut])
    found = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    result = audit_of(found)
    told, *others = sorted(result.findings, key=lambda one: one.row.replica != "4")
    assert (told.check, told.severity, told.row.replica) == ("file_readable", "warning", "4")
    assert f"({UNSEEN}: Permission denied)" in told.row.message
    assert [one.row.message for one in others] == sound
    gaps = dict(result.verdict.not_judged)
    assert gaps["batch_crc_valid"] == f"4: {UNSEEN}: Permission denied"
    assert {one.safety for one in restarts(found) if one.replica != "4"} == {Safety.SAFE}


def test_what_nobody_looked_into_is_told_and_changes_no_verdict(tmp_path: Path) -> None:
    """An archive may be a node's, or have nothing to do with the quorum."""
    quorum(tmp_path / "copies")
    before = kraftlog.open(str(tmp_path / "copies")).audit()
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "copies" / "4").symlink_to(outside)
    (tmp_path / "copies" / "4.tar.gz").write_bytes(b"1234")
    (tmp_path / "copies" / os.fsdecode(b"\xff")).mkdir()
    copies = kraftlog.open(str(tmp_path / "copies"))
    after = copies.audit()
    told = [one for one in after.findings if one not in before.findings]
    why = ["it is a link that leads out of the input", "it is packed", "its name is not UTF-8"]
    assert {(one.check, one.severity, one.row.replica) for one in told} == {
        ("file_readable", "info", None)
    }
    assert [one.row.evidence["problem"] for one in told] == why
    assert after.verdict == before.verdict
    assert [row["detail"] for row in fault_rows(copies.view)] == why
    run = run_of(tmp_path / "copies", tmp_path / "lake")
    assert decode(run)
    assert [row["detail"] for row in faults_in(run.lake)] == why
    files = run.lake.rows("files", ["kind", "problem"]).to_pylist()
    assert [row["problem"] for row in files if row["kind"] == "left_out"] == why
    assert not decode(run_of(tmp_path / "copies", tmp_path / "lake"))


@pytest.mark.parametrize("gone", [(0, 6), (6,)])
def test_a_folder_in_the_place_of_a_segment_is_one_that_cannot_be_read(
    tmp_path: Path, gone: tuple[int, ...]
) -> None:
    """Where it is not the only segment, it may lie beside the log: Kafka looks at no folder."""
    node = quorum(tmp_path)[2]
    for base in gone:
        node.segment(base).unlink()
    node.segment(gone[-1]).mkdir()
    found = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    result = audit_of(found)
    (told,) = [one for one in result.findings if one.row.replica == "3"]
    severity = "critical" if len(gone) > 1 else "warning"
    assert (told.check, told.severity) == ("file_readable", severity)
    assert told.row.path == str(node.segment(gone[-1]))
    assert f"({IS_FOLDER})" in told.row.message
    assert {"batch_crc_valid", "log_end_lost"} <= dict(result.verdict.not_judged).keys()
    boot = Plans(found).boots["3"]
    assert (boot.boots, boot.discarded_from_offset) == (len(gone) == 1, None)
    told_of = "cannot be read: it is a folder, not a file"
    if len(gone) == 1:
        told_of = "is a folder, and Kafka passes over it without its records"
    assert boot.reason == f"{node.segment(gone[-1]).name} {told_of}"


@pytest.mark.parametrize("kept", ["", "00000000000000000006-0000000001.checkpoint"])
def test_a_folder_that_no_node_has_started_with_holds_an_empty_log(
    tmp_path: Path, kept: str
) -> None:
    """It was formatted, or a snapshot was put into it."""
    node = quorum(tmp_path)[2]
    for file in node.folder.iterdir():
        if file.name != kept:
            file.unlink()
    found = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)))
    assert not [one for one in audit_of(found).findings if one.check == "file_readable"]
    assert [one.boots for one in Plans(found).voters] == [True, True, True]
    (third,) = [one for one in restarts(found) if one.replica == "3"]
    assert third.safety == Safety.SAFE
    assert third.reason.startswith("nothing is lost if its folder is as empty as the copy")


@pytest.mark.parametrize("count", [1, 2])
def test_voters_that_cannot_be_read_have_lost_nothing(tmp_path: Path, count: int) -> None:
    """Nor does anybody know what the others lack, where too few are left."""
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(leader_change(12, 3, 1, LATER, granted=(1, 2, 3)))
        node.epochs([(1, 0), (2, 8), (3, 12)])
        node.quorum_state(leaderId=1, leaderEpoch=3)
    nodes[0].append(Batch(13, 3, (NO_OP,), None, LATER))
    replicas = find_replicas([str(tmp_path)])
    for node in nodes[1 : 1 + count]:
        for path in (*node.folder.glob("*.log"), node.folder / "quorum-state"):
            shut(path)
    may = {one.replica: one for one in restarts(Quorum(collect(replicas, LIMITS, Redactor(None))))}
    if count == 1:
        assert may["1"].safety == Safety.SAFE
        return
    why = "the copies of voters 2 and 3 could not be read: nothing shows what this one lacks"
    assert may["1"] == Restart("1", 1, Safety.UNKNOWN, why, needs=(2, 3))


def test_a_snapshot_that_cannot_be_read_may_reach_the_start_of_its_log(tmp_path: Path) -> None:
    """Nothing is lost that it may hold, and nobody knows whether the node starts."""
    node = quorum(tmp_path)[2]
    node.segment(0).unlink()
    replicas, path = find_replicas([str(tmp_path)]), node.checkpoint(6, 1)
    shut(path)
    found = Quorum(collect(replicas, LIMITS, Redactor(None)))
    result = audit_of(found)
    (one,) = [one for one in result.findings if one.severity != "info"]
    assert (one.check, one.severity, one.row.replica) == ("file_readable", "warning", "3")
    unread = f"3: {path.name} cannot be read (it is not a regular file)"
    assert dict(result.verdict.not_judged)["log_start_covered"] == unread
    assert dict(result.verdict.not_judged)["snapshot_equals_replay"] == unread
    may = {one.replica: one for one in restarts(found)}
    again = f"{path.name} {SHUT}: make it readable or copy it again"
    assert may["3"] == Restart("3", 3, Safety.UNKNOWN, again)


@pytest.mark.parametrize("name", ["00000000000000000006.log", "quorum-state"])
def test_a_file_that_was_made_readable_is_read_by_the_next_run(tmp_path: Path, name: str) -> None:
    """Its size and time are as they were."""
    path = quorum(tmp_path / "in")[2].folder / name
    raw, times = path.read_bytes(), path.stat().st_mtime_ns
    first, second, third = (run_of(tmp_path / "in", tmp_path / "lake") for _ in range(3))
    assert first.replicas
    shut(path)
    assert decode(first)
    path.rmdir()
    path.write_bytes(raw)
    os.utime(path, ns=(times, times))
    assert decode(second)
    faults = Lake(str(tmp_path / "lake")).rows("faults", ["path", "fault"])
    assert faults.num_rows == 0
    assert not decode(third)


def test_a_lake_takes_times_of_no_calendar(tmp_path: Path) -> None:
    """What is beyond years 1 to 9999 is null, as no reader knows it; the first year is told in full."""
    times = (10**15, -62_135_596_800_000, -62_135_596_800_001, 1 << 62, -(1 << 63))
    for node in quorum(tmp_path / "in"):
        node.append(*(Batch(12 + n, 2, (NO_OP,), None, ms) for n, ms in enumerate(times)))
        node.append(Batch(17, 2, (topic("d", 4),), None, 10**15))
    run = run_of(tmp_path / "in", tmp_path / "lake")
    assert decode(run)
    rows = run.lake.rows("batches", ["replica", "base_offset", "base_timestamp"]).to_pylist()
    wild = {one["base_offset"]: one["base_timestamp"] for one in rows if one["replica"] == "1"}
    first = datetime.min.replace(tzinfo=UTC)
    assert [wild[12 + n] for n in range(5)] == [None, first, None, None, None]
    told = statistics(pa.table({"at": pa.array([first])}))
    assert told["minValues"] == {"at": "0001-01-01T00:00:00.000Z"}
    materialize(run)
    (created,) = moments_in(run.lake, subjects_of(["topic", "d"])[0])
    assert moment(created.timestamp) is None


def test_a_lake_takes_figures_beyond_64_bits_as_null(tmp_path: Path) -> None:
    """What lies between the first and the last time that a header can tell is more than a column holds."""
    stored = [healthy_log()[1], healthy_log()[3]]
    for node, ms in zip(
        quorum(tmp_path / "in"), ((1 << 63) - 1, -(1 << 63), START_MS), strict=True
    ):
        node.checkpoint(3, 1).write_bytes(snapshot(stored[:1], 1, -(1 << 63)))
        node.checkpoint(6, 1).write_bytes(snapshot(stored, 1, ms))
    run = run_of(tmp_path / "in", tmp_path / "lake")
    decode(run)
    materialize(run)
    metrics(run)
    rows = run.lake.rows("snapshots", ["replica", "end_offset", "interval_ms"]).to_pylist()
    told = {one["replica"]: one["interval_ms"] for one in rows if one["end_offset"] == 6}
    assert told == {"1": None, "2": 0, "3": None}


def test_a_lake_explains_up_to_the_last_offset_that_there_can_be(tmp_path: Path) -> None:
    quorum(tmp_path / "in")
    run = run_of(tmp_path / "in", tmp_path / "lake")
    decode(run)
    materialize(run)
    (asked,) = subjects_of(["offsets", f"10-{LAST_OFFSET}"])
    assert [one.offset for one in moments_in(run.lake, asked)][-2:] == [10, 11]


def test_a_lake_knows_what_could_not_be_read(tmp_path: Path) -> None:
    """The next run reads a file again that can be read."""
    path = quorum(tmp_path / "in")[2].segment(6)
    run = run_of(tmp_path / "in", tmp_path / "lake")
    assert run.replicas
    shut(path)
    assert decode(run)
    (row,) = faults_in(run.lake)
    assert (row["path"], row["fault"], row["position"]) == (str(path), "unreadable", 0)
    assert row["detail"] == "it is not a regular file"


def test_a_place_that_cannot_be_read_makes_no_new_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file opens, as before: of a dying disk, only some bytes fail."""
    bad = quorum(tmp_path / "in")[2].segment(6)
    opened, read = LocalBytes.__init__, LocalBytes.read
    handles = set[int]()

    def opens(self: LocalBytes, path: str) -> None:
        opened(self, path)
        (handles.add if path == str(bad) else handles.discard)(id(self))

    def reads(self: LocalBytes, position: int, size_bytes: int) -> bytes:
        if id(self) in handles and position + size_bytes > 100:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(self, position, size_bytes)

    monkeypatch.setattr(LocalBytes, "__init__", opens)
    monkeypatch.setattr(LocalBytes, "read", reads)
    first, second = (run_of(tmp_path / "in", tmp_path / "lake") for _ in range(2))
    assert decode(first)
    faults = Lake(str(tmp_path / "lake")).rows("faults", ["path", "fault"]).to_pylist()
    assert faults == [{"path": str(bad), "fault": "unreadable"}]
    assert first.quorum, "nothing has changed since"
    assert not decode(second)
