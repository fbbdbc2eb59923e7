"""Contracts of the published tables: declared, judged by Great Expectations, recorded, never passed
unjudged.
"""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kraftlog.audit.every_check import CATALOGUE
from kraftlog.config import load_options
from kraftlog.contracts import beside
from kraftlog.contracts.beside import JUDGE, Judge
from kraftlog.contracts.measures import Measure, Scans, parse_measure
from kraftlog.contracts.suites import (
    ERRORED_CHECKS,
    Suite,
    SuiteError,
    audit_suite,
    table_suites,
)
from kraftlog.errors import PlatformError
from kraftlog.pipeline import contracts as pipeline_contracts
from kraftlog.pipeline.audit import audit
from kraftlog.pipeline.contracts import contracts_step
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.metrics import COPIES, MEASURES, PLANS
from kraftlog.pipeline.run import Run
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import write_file
from kraftlog.tables.promise import Promise, known, none
from kraftlog.tables.reports import CHECK_RESULTS, CONTRACT_RESULTS, FINDINGS
from kraftlog.tables.spec import (
    TableSpec,
    state_tables,
)

SPECS = all_tables()
SUITES = table_suites(SPECS.values())
EVERY = [audit_suite(), *SUITES]
RUN = "0123456789abcdef"
NOW = datetime(2026, 11, 21, tzinfo=UTC)
Row = dict[str, Any]

RUN_ROW: Row = {
    "run_id": RUN,
    "number": 1,
    "started": NOW,
    "finished": NOW,
    "file_count": 2,
    "read_file_count": 2,
    "batch_count": 2,
    "new_batch_count": 1,
}
BATCH: Row = {
    "replica": "1",
    "path": "/r/1/0.log",
    "file_kind": "log",
    "position": 0,
    "size_bytes": 100,
    "base_offset": 0,
    "last_offset": 1,
    "batch_id": "a",
    "crc_valid": True,
}
CONTENT: Row = {
    "batch_id": "a",
    "base_offset": 0,
    "batch_leader_epoch": 1,
    "record_count": 2,
}
SETTING_ROWS: list[Row] = [
    {"run_id": RUN, "setting": name, "replica": replica, "source": source}
    for name, replica, source in (
        ("lag_offsets", None, "default"),
        ("disk_days", None, "argument"),
        ("broker.rack", "1", "server.properties"),
        ("broker.rack", "2", "server.properties"),
        ("metadata.max.retention.ms", "2", "Kafka's default"),
    )
]
RECORDS: list[Row] = [
    {
        "batch_id": "a",
        "record_index": index,
        "offset": index,
        "batch_leader_epoch": 1,
        "type": "NO_OP_RECORD",
    }
    for index in range(2)
]


def check_rows(**results: str) -> list[Row]:
    """A result for every check: passed, or what is given."""
    return [
        {
            "run_id": RUN,
            "check": check.name,
            "severity": check.severity,
            "scope": check.scope,
            "result": results.get(check.name, "passed"),
            "finding_count": int(results.get(check.name) == "failed"),
            "reason": "because" if results.get(check.name) in ("errored", "skipped") else None,
            "source": check.source,
        }
        for check in CATALOGUE
    ]


def finding(check: str, severity: str = "critical") -> Row:
    return {
        "run_id": RUN,
        "check": check,
        "severity": severity,
        "scope": "log",
        "result": "failed",
        "message": "It is damaged; replace it.",
        "evidence": "{}",
    }


def put(lake: Lake, spec: TableSpec, rows: list[Row], number: int = 1) -> None:
    """A table of the lake; rows need not hold every column, and lie in one partition."""
    table = pa.Table.from_pylist(rows, schema=spec.schema)
    values = {name: str(rows[0][name]) for name in spec.partition_by} if rows else {}
    lake.commit(spec, [write_file(lake.path(spec.name), table, values)] if rows else [], number)


def publish(lake: Lake, **tables: list[Row]) -> None:
    """A small lake that keeps its contracts, but for the tables that are given or there already."""
    good: dict[str, list[Row]] = {
        "batches": [BATCH],
        "contents": [CONTENT],
        "records": RECORDS,
        "control_records": [],
        "record_faults": [],
        "faults": [],
        "check_results": check_rows(),
        "findings": [],
        "settings": SETTING_ROWS,
        "runs": [RUN_ROW],
    }
    for name, rows in (good | tables).items():
        if not lake.exists(name):
            put(lake, SPECS[name], rows)


def judged_here(lake: Lake, suites: Sequence[Suite], number: int = 1) -> list[Row]:
    """As the process that judges does it. Every worker collects these tests, and one runs them: the
    others are spared the seconds that Great Expectations takes to import.
    """
    from kraftlog.contracts.judge import run_contracts

    return run_contracts(lake, RUN, number, suites)


def judged(lake: Lake, *names: str) -> list[Row]:
    """The results of some suites."""
    return judged_here(lake, [one for one in EVERY if one.name in names])


def outcomes(results: list[Row], suite: str) -> Mapping[str, str]:
    """Result by subject."""
    return {one["subject"]: one["result"] for one in results if one["suite"] == suite}


@pytest.fixture
def small(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


# --- The suites are data that fits the tables ---------------------------------------------------


def test_every_contracted_table_has_a_suite() -> None:
    named = {table for suite in SUITES for table in suite.tables}
    wanted = "runs replicas files batches contents records control_records faults record_faults"
    assert named >= {*wanted.split(), "findings", "check_results", "snapshots", *state_tables()}


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_a_suite_names_tables_and_columns_that_are_declared(suite: Suite) -> None:
    for one in suite.contracts:
        columns = one.reads if one.counts is None else one.counts.columns
        assert set(columns) <= set(SPECS[one.table].schema.names)
        assert one.reason


def test_great_expectations_knows_every_expectation() -> None:
    from kraftlog.contracts.judge import expectation_class

    for suite in EVERY:
        for one in suite.contracts:
            assert expectation_class(one.expectation), one


@pytest.mark.parametrize(
    "promises",
    [
        (known("lineage", "why"),),
        (known("lineage", "why"), none("rows", "why", nulls_in=["lineage"])),
    ],
)
def test_a_suite_that_contradicts_itself_is_refused(promises: tuple[Promise, ...]) -> None:
    """Rows of several tables cannot be read as one, nor rows and counts together."""
    tables = [replace(one, promises=promises) for one in state_tables().values()]
    with pytest.raises(SuiteError):
        table_suites(tables)


def test_the_audit_suite_has_a_contract_for_every_check() -> None:
    columns = [column for one in audit_suite().contracts for column in one.columns]
    assert columns == [*(check.name for check in CATALOGUE), ERRORED_CHECKS]


# --- What is judged -----------------------------------------------------------------------------


def test_kept_contracts_pass_and_missing_tables_are_skipped(small: Lake) -> None:
    publish(small)
    results = judged_here(small, EVERY)
    assert {one["result"] for one in results} == {"passed", "skipped"}
    skipped = {one["table_name"] for one in results if one["result"] == "skipped"}
    named = {table for suite in SUITES for table in suite.tables}
    later = {one.spec.name for one in (*COPIES, *MEASURES, *PLANS)} & named
    assert {"snapshots", "truncation_plan"} <= later
    told = {"replicas", "files", "lineages", "restore_ranking"}
    assert skipped == {*told, *later, *state_tables()}
    assert all("not published yet" in (one["detail"] or "") for one in results if one["detail"])


def test_a_table_that_is_behind_the_run_is_skipped(small: Lake) -> None:
    publish(small)
    results = judged_here(small, EVERY, 2)
    assert {one["suite"] for one in results} == {"audit", *(one.name for one in SUITES)}
    assert {one["result"] for one in results} == {"skipped"}
    assert all("this run has not published" in str(one["detail"]) for one in results[:5])


def test_a_run_that_was_audited_with_other_limits_says_so(
    small: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    of: Row = {"run_id": RUN, "source": "argument"}
    judged_by = [
        {**of, "setting": "lag_offsets", "value": "5"},
        {**of, "setting": "disk_capacity_bytes", "value": None},
        {**of, "setting": "load_bytes_per_second", "value": "7"},
        {**of, "setting": "lease_seconds", "value": "1"},
    ]
    row = RUN_ROW | {"changed_in_place_count": 0} | Run(load_options(), small, pytest.fail).goes_by
    publish(
        small,
        runs=[row],
        settings=judged_by,
        verdicts=[],
        restart_plan=[],
        restore_ranking=[],
        judged=[],
    )
    same = {"lag_offsets": 5, "load_bytes_per_second": 7}
    options = load_options(same)
    assert audit(Run(options, small, pytest.fail)).exit_code(options) == 0
    assert capsys.readouterr().err == ""
    options = load_options({"disk_capacity_bytes": 9})
    assert audit(Run(options, small, pytest.fail)).exit_code(options) == 0
    told = "lag_offsets 5, disk_capacity_bytes unset, load_bytes_per_second 7"
    assert f"was audited before, with {told}: what was found" in capsys.readouterr().err


def test_a_setting_from_nowhere_or_twice_breaks_its_contract(small: Lake) -> None:
    double = {**SETTING_ROWS[2], "source": "hearsay"}
    publish(small, settings=[*SETTING_ROWS, double])
    found = [one for one in judged(small, "settings") if one["table_name"] == "settings"]
    failed = {one["subject"] for one in found if one["result"] == "failed"}
    assert failed == {"source", "setting, replica"}


def test_a_violated_contract_is_told_with_what_was_seen(small: Lake) -> None:
    publish(small, batches=[BATCH, BATCH], findings=[finding("no_such_check", "warning")])
    results = judged(small, "batches", "findings")
    failed = {
        (one["table_name"], one["subject"]): one for one in results if one["result"] == "failed"
    }
    assert set(failed) == {("batches", "repeated_places"), ("findings", "check")}
    repeated = failed["batches", "repeated_places"]
    assert json.loads(repeated["observed"] or "") == {"value": 1}
    assert "no_such_check" in str(failed["findings", "check"]["observed"])


def test_a_missing_column_is_errored(small: Lake) -> None:
    publish(small, contents=[], records=[])
    (small_batches,) = [suite for suite in SUITES if suite.name == "batches"]
    without = {"position", "crc_valid"}
    schema = pa.schema([one for one in SPECS["batches"].schema if one.name not in without])
    other = Lake(small.root + "-other")
    publish_without(other, TableSpec("batches", "rows", schema, "current", ("path",)))
    found = outcomes(judged(other, "batches"), "batches")
    assert found["empty_batches"] == "passed"
    affected = {
        str(one.arguments["column"])
        for one in small_batches.contracts
        if one.counts and without & set(one.counts.columns)
    }
    assert affected == {name for name, result in found.items() if result == "errored"}


def test_a_missing_column_of_a_table_that_is_read_is_errored(small: Lake) -> None:
    schema = FINDINGS.schema.remove(FINDINGS.schema.get_field_index("evidence"))
    publish_without(small, TableSpec("findings", "rows", schema, "per_run"))
    found = outcomes(judged(small, "findings"), "findings")
    assert found["evidence"] == "errored"
    assert found["severity"] == "passed"


def publish_without(lake: Lake, narrow: TableSpec) -> None:
    """The small lake, with one table that lacks columns."""
    rows: list[Row] = [BATCH] if narrow.name == "batches" else []
    known = [{key: row[key] for key in narrow.schema.names if key in row} for row in rows]
    put(lake, narrow, known)
    publish(lake)


def test_a_table_that_cannot_be_read_hides_no_other(small: Lake) -> None:
    publish(small, check_results=check_rows(record_decodes="failed"))
    for name in ("contents", "findings"):
        for file in Path(small.path(name)).glob("_delta_log/*.json"):
            file.write_text("no JSON\n", encoding="utf-8")
    results = judged(small, "contents", "findings", "records", "runs")
    assert set(outcomes(results, "contents").values()) == {"errored"}
    assert set(outcomes(results, "findings").values()) == {"errored"}
    assert set(outcomes(results, "records").values()) == {"passed", "errored"}
    assert set(outcomes(results, "runs").values()) == {"passed"}


# --- The audit's results ------------------------------------------------------------------------


def test_the_audit_suite_says_what_the_checks_said(small: Lake) -> None:
    results = check_rows(
        batch_crc_valid="failed", timestamps_monotonic="failed", log_matching="skipped"
    )
    found = [finding("batch_crc_valid"), finding("timestamps_monotonic", "info")]
    publish(small, check_results=results, findings=found)
    by_check = outcomes(judged(small, "audit"), "audit")
    assert by_check["batch_crc_valid"] == "failed"
    assert by_check["timestamps_monotonic"] == "passed"
    assert by_check["log_matching"] == "skipped"
    assert by_check[ERRORED_CHECKS] == "passed"


def test_a_check_that_errored_or_is_missing_never_passes(small: Lake) -> None:
    rows = [
        one for one in check_rows(record_rules="errored") if one["check"] != "isr_within_replicas"
    ]
    publish(small, check_results=rows)
    results = judged(small, "audit")
    by_check = outcomes(results, "audit")
    assert by_check["record_rules"] == "errored"
    assert by_check["isr_within_replicas"] == "errored"
    assert by_check[ERRORED_CHECKS] == "failed"
    assert [one["detail"] for one in results if one["subject"] == "record_rules"] == ["because"]


# --- Counting -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "declared, expected",
    [
        ({"rows_where": "b < a"}, 1),
        ({"rows_where": "a >= -1"}, 3),
        ({"nulls_in": ["a", "b"]}, 2),
        ({"outside": {"column": "k", "values": ["x"]}}, 1),
        ({"repeated": ["k"]}, 2),
        ({"repeated": ["k", "a"]}, 1),
        ({"orphans": {"column": "k", "missing_from": "other"}}, 1),
        ({"orphans": {"column": "k", "missing_from": "other", "when": "w"}}, 0),
        (
            {
                "incomplete": {
                    "column": "k",
                    "count": "a",
                    "parts": ["other", "other"],
                    "unless_in": "none",
                }
            },
            3,
        ),
    ],
)
def test_measures(small: Lake, declared: Row, expected: int) -> None:
    rows: list[Row] = [
        {"k": "x", "a": 1, "b": 2, "w": True},
        {"k": "x", "a": 1, "b": 0, "w": True},
        {"k": "y", "a": 3, "b": None, "w": False},
        {"k": "x", "a": None, "b": 5, "w": True},
    ]
    schema = pa.schema({"k": pa.string(), "a": pa.int32(), "b": pa.int64(), "w": pa.bool_()})
    tables: dict[str, list[Row]] = {"table": rows, "other": [{"k": "x"}], "none": []}
    for name, held in tables.items():
        spec = TableSpec(name, "rows", schema, "content")
        put(small, spec, [])
        # A file per row: what is counted must not depend on how rows lie in files.
        files = [
            write_file(small.path(name), pa.Table.from_pylist([one], schema=schema)) for one in held
        ]
        small.commit(spec, files, 2)
    measure = parse_measure(declared)
    assert set(measure.columns) <= {*schema.names}
    assert measure.count("table", Scans(small)) == expected


def test_a_file_that_is_cut_is_no_kept_contract(small: Lake) -> None:
    publish(small)
    (file,) = Path(small.path("batches")).glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-8])
    results = [one for one in judged(small, "batches", "contents") if one["suite"] == "batches"]
    assert {one["result"] for one in results} == {"errored"}
    assert all("Parquet" in str(one["detail"]) for one in results)


def test_a_record_that_is_missing_or_stored_twice_is_seen(small: Lake) -> None:
    publish(small, records=[*RECORDS, RECORDS[0]])
    assert outcomes(judged(small, "contents"), "contents")["incomplete_contents"] == "failed"


def test_a_batch_with_damage_inside_may_hold_fewer_records(small: Lake) -> None:
    fault = {
        "batch_id": "a",
        "fault": "record_value",
        "relative_position": 61,
        "size_bytes": 3,
        "detail": "it ends early",
    }
    publish(small, records=RECORDS[:1], record_faults=[fault])
    results = judged(small, "contents", "record_faults")
    assert set(outcomes(results, "contents").values()) == {"passed"}
    assert set(outcomes(results, "record_faults").values()) == {"passed"}


# --- The step -----------------------------------------------------------------------------------


def step(lake: Lake) -> int:
    """The step over the newest run of a lake."""
    return contracts_step(Run(load_options(), lake, pytest.fail))


def test_the_step_records_once_and_writes_nothing_else(
    small: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(small)
    before = {one.name for one in Path(small.root).iterdir()}
    assert step(small) == 0
    assert {one.name for one in Path(small.root).iterdir()} - before == {CONTRACT_RESULTS.name}
    assert "passed" in capsys.readouterr().err
    version = small.open(CONTRACT_RESULTS.name).version()
    assert step(small) == 0
    assert small.open(CONTRACT_RESULTS.name).version() == version
    rows = small.rows_of_run(CONTRACT_RESULTS.name, RUN)
    assert len(rows) == sum(len(one.contracts) for one in [audit_suite(), *SUITES])


def test_a_broken_contract_is_a_defect_and_said_again(
    small: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(small, batches=[BATCH, BATCH])
    for _ in range(2):
        assert step(small) == 2
        assert "a defect of kraftlog and not of the quorum" in capsys.readouterr().err


def test_damage_of_the_quorum_is_no_broken_contract(small: Lake) -> None:
    rows = check_rows(batch_crc_valid="failed")
    publish(small, check_results=rows, findings=[finding("batch_crc_valid")])
    assert step(small) == 0
    recorded = small.rows_of_run(CONTRACT_RESULTS.name, RUN, ["suite", "result"])
    assert {"suite": "audit", "result": "failed"} in recorded


def test_a_warning_is_recorded_and_does_not_fail_the_step(small: Lake) -> None:
    unknown = BATCH | {"batch_id": "b", "position": 100}
    publish(small, batches=[BATCH, unknown])
    assert step(small) == 0
    recorded = small.rows_of_run(CONTRACT_RESULTS.name, RUN, ["subject", "result"])
    assert {"subject": "unknown_contents", "result": "failed"} in recorded


# --- The process that judges --------------------------------------------------------------------


@pytest.fixture
def process() -> Iterator[Judge]:
    """One of its own, that has gone when the test has ended."""
    found = Judge()
    yield found
    found.stop()


def test_another_process_says_the_same(
    small: Lake, process: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is started: what lies in that folder is not imported."""
    publish(small, batches=[BATCH, BATCH])
    (tmp_path / "attrs.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert process.judge(small, RUN, 1, EVERY) == judged_here(small, EVERY)


def test_a_process_that_has_ended_is_said_and_started_anew(
    small: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(small)

    class Cut(Suite):
        """It ends the process in which it is unpickled."""

        def __reduce__(self) -> tuple[Any, ...]:
            return os._exit, (7,)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline_contracts, "audit_suite", lambda: Cut("audit", ()))
        assert step(small) == 2
    assert "the process that judges them ended with code 7" in capsys.readouterr().err
    assert not small.exists(CONTRACT_RESULTS.name)
    assert step(small) == 0


def test_what_the_process_lacks_is_one_sentence(
    small: Lake, process: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = tmp_path / "great_expectations.py"
    lacking.write_text("raise ModuleNotFoundError(name='great_expectations')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PlatformError, match="great_expectations is not installed"):
        process.judge(small, RUN, 1, EVERY)


def from_environment(table: str, scans: Scans) -> int:
    """What a variable of the environment says."""
    return int(os.environ["COUNTED"])


def test_the_process_goes_by_the_environment_of_now(
    small: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store may be named, or a key to it changed, after the process was started."""
    publish(small)
    JUDGE.start()
    (one, *_) = next(one for one in SUITES if one.name == "batches").contracts
    suite = Suite("batches", (replace(one, counts=Measure((), from_environment)),))
    for counted, result in (("0", "passed"), ("1", "failed")):
        monkeypatch.setenv("COUNTED", counted)
        assert [one["result"] for one in JUDGE.judge(small, RUN, 1, [suite])] == [result]


def test_great_expectations_is_imported_by_that_process_alone(small: Lake, tmp_path: Path) -> None:
    publish(small)
    code = (
        "import sys\n"
        "from kraftlog.config import load_options\n"
        "from kraftlog.pipeline.contracts import contracts_step\n"
        "from kraftlog.pipeline.run import Run\n"
        "from kraftlog.tables.lake import Lake\n"
        f"assert contracts_step(Run(load_options(), Lake({small.root!r}), None)) == 0\n"
        "sys.exit('great_expectations' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_process_that_was_killed_amid_its_answer_is_said(small: Lake, process: Judge) -> None:
    """By a host without memory, say."""
    half = "import pickle, sys; pickle.load(sys.stdin.buffer); sys.stdout.buffer.write(pickle.dumps(['a row'])[:-3])"
    process._process = child = subprocess.Popen(
        [sys.executable, "-c", half], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    with pytest.raises(PlatformError, match="the process that judges them ended with code 0"):
        process.judge(small, RUN, 1, EVERY)
    assert child.stdin.closed  # Python 3.13 says on stderr what a pipe left open could not write


@pytest.mark.parametrize("lacks", [0, 1, 90])
def test_that_process_ends_without_a_word_where_who_asked_was_killed(
    lacks: int, tmp_path: Path
) -> None:
    """Before it read the answer, or while it still asked."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", beside.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    environment = dict(os.environ)
    asked = pickle.dumps(beside._Asked(environment, str(tmp_path), "run", 1, ()))
    process.stdin.write(asked[: len(asked) - lacks])
    process.stdin.close()
    assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_nothing_imports_great_expectations_before_it_is_needed() -> None:
    code = (
        "import sys, kraftlog.cli, kraftlog.pipeline.steps\n"
        "sys.exit('great_expectations' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_check_result_table_is_declared_per_run() -> None:
    assert CHECK_RESULTS.mode == FINDINGS.mode == CONTRACT_RESULTS.mode == "per_run"
