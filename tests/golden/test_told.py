"""What a run tells of the shared history while it writes its versions is what the records say when
they are gone through for it: in one piece or in shares, at once or in runs over a growing input.
"""

import shutil
from pathlib import Path

import pytest

from kraftlog.audit.images import Images, Stations
from kraftlog.audit.state_history import StateHistory, judge_history
from kraftlog.audit.told import Told
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.pipeline import judged as judged_table
from kraftlog.pipeline import states
from kraftlog.pipeline.audit import audit
from kraftlog.pipeline.decode import decode
from kraftlog.pipeline.judged import goes_on_from
from kraftlog.pipeline.materialize import materialize
from kraftlog.pipeline.run import Run
from kraftlog.quorum.collector import Collector, evidence_by
from kraftlog.quorum.evidence import StateEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.state.arrow_events import Event
from kraftlog.state.replay import Origin
from kraftlog.tables.reports import JUDGED
from kraftlog.tables.spec import REPLAY_FAULTS, state_tables
from tests.golden.cases import DATA
from tests.in_process import run_of
from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    TRANSACTION,
    Batch,
    frame,
    healthy_log,
    leader_change,
    partition,
    quorum,
    snapshot,
    topic,
)

ROWS_PER_SHARE = 60
WHOLE = ("isolated", "lagging-caughtup", "legacy", "synthetic-semantics", "synthetic-torn",
         "upgraded-3.9", "voter-replaced")  # fmt: skip
GROWING = {"isolated": 20, "lagging-caughtup": 40, "synthetic-semantics": 3, "synthetic-torn": 2,
           "upgraded-3.9": 30}  # fmt: skip
"""Quorums, and how many KB of each of their files were there at first."""
NOT_PLAIN = ("synthetic-fuzz-1", "synthetic-transactions", "synthetic-every-type")


def told_by(run: Run) -> Told | None:
    """A run up to its audit."""
    assert decode(run)
    told = materialize(run)
    audit(run, told)
    return told


def judged(run: Run, told: Told | None) -> StateEvidence:
    stations = Stations.none(run.records) if told is None else Stations(told.images)
    return StateHistory(run.quorum, run.records, stations, told).run()


@pytest.mark.parametrize("case", WHOLE)
def test_a_run_tells_what_the_records_say(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "ROWS_PER_SHARE", ROWS_PER_SHARE)
    run = run_of(DATA / case / "replicas", tmp_path / "lake")
    assert decode(run)
    told = materialize(run)
    assert told is not None
    assert judged(run, told) == judged(run, None)


def test_a_record_stands_at_its_place_whatever_its_frame_says(tmp_path: Path) -> None:
    """As Kafka's loader counts a batch's records: the tables lacked it, or had it elsewhere."""
    nodes = quorum(tmp_path / "replicas")
    frames = frame(0, None, NO_OP) + frame(5, None, topic("odd", 77))
    odd = Batch(12, 2, (NO_OP, topic("odd", 77)), None, START_MS + 9000, payload=frames)
    for node in nodes:
        node.append(odd)
        node.append(Batch(14, 2, (topic("even", 78),), None, START_MS + 9500))
    run = run_of(tmp_path / "replicas", tmp_path / "lake")
    told = told_by(run)
    assert judged(run, told) == judged(run, None)
    assert judged(run, told) == judge_history(run.quorum, run.records.files)
    topics = run.lake.rows("topics", ["name", "valid_from_offset"]).to_pylist()
    seen = {row["name"]: row["valid_from_offset"] for row in topics}
    assert (seen["odd"], seen["even"]) == (14, 15)
    rows = run.lake.rows("records", ["offset", "offset_delta"]).to_pylist()
    assert {"offset": 13, "offset_delta": 5} in rows


def torn_apart(root: Path, steps: int) -> None:
    """Replica 3 goes another way within a transaction, so many batches behind the others' log."""
    begun = Batch(12, 2, (TRANSACTION["begin"], topic("in", 77)), None, START_MS + 9000)
    both = [begun, Batch(14, 2, (topic("in too", 78),), None, START_MS + 9100)]
    ended = Batch(16, 2, (TRANSACTION["end"], topic("tail too", 80)), None, START_MS + 9300)
    tail = [Batch(15, 2, (topic("tail", 79),), None, START_MS + 9200), ended]
    aborted = Batch(16, 3, (TRANSACTION["abort"], topic("other", 81)), None, START_MS + 9400)
    for node in quorum(root):
        own = tail if node.node_id == 3 else [leader_change(15, 3, 1), aborted]
        for batch in [*both, *own][:steps]:
            node.append(batch)


@pytest.mark.parametrize("steps", [(9,), (2, 9), (1, 3, 9)])
def test_copies_differ_within_a_transaction(steps: tuple[int, ...], tmp_path: Path) -> None:
    root = tmp_path / "replicas"
    for step in steps:
        shutil.rmtree(root, ignore_errors=True)
        torn_apart(root, step)
        run = run_of(root, tmp_path / "lake")
        told = told_by(run)
    assert judged(run, told) == judge_history(run.quorum, run.records.files)
    rows = run.lake.rows("topics", ["name", "lineage", "valid_from_offset"]).to_pylist()
    seen = {(row["lineage"], row["name"]): row["valid_from_offset"] for row in rows}
    own = {"in": 17, "in too": 17, "tail": 17, "tail too": 18}
    assert seen.items() > {("3", name): at for name, at in own.items()}.items()
    assert [one for one in seen if one[1] in (*own, "other") and one[0] != "3"] == [
        ("main", "other")
    ]


@pytest.mark.parametrize(
    ("record_type", "is_control", "holds"),
    [
        ("TOPIC_RECORD", False, True),
        ("BEGIN_TRANSACTION_RECORD", False, False),
        ("KRAFT_VOTERS", True, False),
    ],
)
def test_which_records_can_break_a_rule(record_type: str, is_control: bool, holds: bool) -> None:
    told = Told(None, 0, (), None, None)  # type: ignore[arg-type]
    told.note(Event(Origin(1, 0, 1, record_type), is_control, {}))
    assert told.holds_records is holds


def cut(root: Path, size_bytes: int) -> None:
    """Leave the beginning of each log, and the snapshots that it leads up to."""
    for log in root.rglob("*.log"):
        log.write_bytes(log.read_bytes()[:size_bytes])
    collector = Collector(Limits(), Redactor(None))
    found = Quorum(evidence_by(collector, find_replicas([str(root)]), None))
    end = max(one.end_offset or 0 for one in found.logs)
    for one in found.own_snapshots:
        if one.end_offset > end:
            Path(one.path).unlink()


@pytest.mark.parametrize("case", GROWING)
def test_a_run_over_grown_input_tells_it_too(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, root = DATA / case / "replicas", tmp_path / "replicas"
    shutil.copytree(whole, root)
    cut(root, GROWING[case] << 10)
    first = told_by(run_of(root, tmp_path / "lake"))
    shutil.copytree(whole, root, dirs_exist_ok=True)
    monkeypatch.setattr(states, "ROWS_PER_SHARE", ROWS_PER_SHARE)
    run = run_of(root, tmp_path / "lake")
    told = told_by(run)
    assert first is not None
    assert told is not None
    assert told.before is not None, "it goes on from what the first run has judged"
    assert judged(run, told) == judged(run, None)
    for known in (told.partitions, told.small):
        assert not set(first.asked[:-1]) & set(known), "what is known is not folded again"
    anew = run_of(root, tmp_path / "anew")
    told_by(anew)
    for name in (*state_tables(), "replay_faults", "judged"):
        assert contents(run, name) == contents(anew, name), name


def test_a_snapshot_that_cannot_be_loaded_is_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run over grown input still knows; also where the history begins with it."""
    nodes = quorum(tmp_path / "replicas")
    stored = [healthy_log()[1], healthy_log()[3], Batch(0, 1, (partition(9, [1], [1], 1),))]
    for node in nodes:
        node.segment(0).unlink()
        node.checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000))
    first = run_of(tmp_path / "replicas", tmp_path / "lake")
    told = told_by(first)
    refused = judged(first, told).refusals
    assert [one.detail for one in refused.values()] == [
        "there is no topic AAAAAAAAAAAAAAAAAAAACQ"
    ] * 3
    for node in nodes:
        node.append(Batch(12, 2, (NO_OP,), None, START_MS + 20_000))
    monkeypatch.setattr(Images, "of", lambda images, view: pytest.fail("it is known"))
    run = run_of(tmp_path / "replicas", tmp_path / "lake")
    told = told_by(run)
    assert told is not None
    assert judged(run, told).refusals == refused


@pytest.mark.parametrize("why", ["other limits", "a table was rebuilt", "two of one name"])
def test_what_cannot_be_gone_on_with_is_told_anew(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, root = DATA / "isolated" / "replicas", tmp_path / "replicas"
    shutil.copytree(whole, root)
    cut(root, GROWING["isolated"] << 10)
    if why == "two of one name":
        monkeypatch.setattr(judged_table, "tells_whole", lambda state: False)
    first = run_of(root, tmp_path / "lake")
    assert told_by(first) is not None
    if why == "a table was rebuilt":
        first.lake.empty(state_tables()["topics"])
    shutil.copytree(whole, root, dirs_exist_ok=True)
    limits = {"mass_deletion_percent": 7} if why == "other limits" else {}
    run, anew = (run_of(root, tmp_path / lake, **limits) for lake in ("lake", "anew"))
    told = told_by(run)
    assert told is not None
    assert told.before is None
    told_by(anew)
    for name in (*state_tables(), "replay_faults", "judged"):
        assert contents(run, name) == contents(anew, name), name


def test_where_what_had_no_effect_is_lost_all_is_told_anew(tmp_path: Path) -> None:
    """A damaged lake is taken back by table: that of the last run's faults lacks them by now."""
    run = run_of(DATA / "isolated" / "replicas", tmp_path / "lake")
    assert told_by(run) is not None
    run.lake.empty(JUDGED)
    assert goes_on_from(run.lake, 100, run.quorum.thresholds) == (100, None)
    run.lake.empty(REPLAY_FAULTS)
    assert goes_on_from(run.lake, 100, run.quorum.thresholds) == (None, None)


def contents(run: Run, name: str) -> list[str]:
    """A table's rows, or those of this run; snapshots have other names in each lake."""
    rows = run.lake.rows(name).to_pylist()
    own = [row for row in rows if row.pop("run_id", run.run_id) == run.run_id]
    for row in own:
        if row.get("shown") in ("snapshot_compared", "snapshot_refused"):
            del row["message"]
    return sorted(map(repr, own))


@pytest.mark.parametrize("case", NOT_PLAIN)
def test_of_a_history_that_is_not_plain_the_records_are_asked(case: str, tmp_path: Path) -> None:
    run = run_of(DATA / case / "replicas", tmp_path / "lake")
    told_by(run)
    assert run.lake.rows("judged").num_rows == 0 or case == "synthetic-every-type"
