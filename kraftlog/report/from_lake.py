"""`PageData` of a lake's newest run: small tables whole, large ones counted.

In: a lake. Out: `PageData`. Columns are projected and batches are streamed, so that memory does not
grow with the records of the log (`type_counts` holds a row per record batch).
"""

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.audit.run import HOLDS
from kraftlog.plain import counted
from kraftlog.report.type_counts import type_counts
from kraftlog.report.view import BrokerLoad, PageData, Row
from kraftlog.tables.lake import Lake
from kraftlog.tables.reports import (
    CHECK_RESULTS,
    FINDINGS,
    RESTART_PLAN,
    SETTINGS,
    VERDICTS,
)


def page_of_lake(lake: Lake) -> PageData:
    """What the lake's newest run found.

    Raises LakeError where the lake cannot be read."""
    run = lake.read("runs").sort_by("number").to_pylist()[-1]
    names = ("replicas", "epochs", "check_results", "snapshots", "contract_results")
    tables = {name: tuple(lake.rows_of_run(name, run["run_id"])) for name in names}
    return PageData(
        version=run["kraftlog_version"],
        created=run["finished"],
        inputs=tuple(run["inputs"]),
        scale=_scale(run),
        verdict=recorded_verdict(lake, run["run_id"]),
        replicas=tables["replicas"],
        epochs=tables["epochs"],
        findings=tuple(recorded_findings(lake, run["run_id"])),
        checks=tables["check_results"],
        snapshots=tables["snapshots"],
        loads=broker_loads(lake),
        type_counts=type_counts(lake),
        contracts=tables["contract_results"],
        restart=recorded_restart(lake, run["run_id"]),
        settings=tuple(recorded_settings(lake, run["run_id"])),
    )


def recorded_restart(lake: Lake, run_id: str) -> tuple[Row, ...]:
    """Whether each node may be restarted, as `restart_rows` gives it; nothing of a run that was
    only decoded.
    """
    rows = lake.rows_of_run(RESTART_PLAN.name, run_id)
    return tuple(row | {"lost": row["lost"] and json.loads(row["lost"])} for row in rows)


def recorded_settings(lake: Lake, run_id: str) -> list[Row]:
    """What the audit of a run went by, as `setting_rows` gives it."""
    return [
        {name: value for name, value in row.items() if name != "run_id"}
        for row in lake.rows_of_run(SETTINGS.name, run_id)
    ]


_FINDING = [field.name for field in FINDINGS.schema if field.name != "run_id"]


def recorded_findings(lake: Lake, run_id: str) -> list[Row]:
    """The findings of a run, whose evidence the table holds as text."""
    rows = lake.rows_of_run(FINDINGS.name, run_id, _FINDING)
    return [{**row, "evidence": json.loads(row["evidence"])} for row in rows]


def recorded_rows(lake: Lake, run_id: str) -> list[Row]:
    """What `AuditResult.rows` gave in a run: its findings, then every check that did not fail."""
    rows = recorded_findings(lake, run_id)
    nothing = dict.fromkeys(_FINDING)
    for row in lake.rows_of_run(CHECK_RESULTS.name, run_id):
        if row["result"] != "failed":
            known = {name: row[name] for name in ("check", "severity", "scope", "result")}
            message = row["reason"] or HOLDS
            evidence = {"judged": row["judged"]}
            rows.append({**nothing, **known, "message": message, "evidence": evidence})
    return rows


def recorded_verdict(lake: Lake, run_id: str) -> Row:
    """The verdict's row of a run, as `Verdict.as_row` gives it; of one that was only decoded, that
    nothing was judged.
    """
    row = next(iter(lake.rows_of_run(VERDICTS.name, run_id)), None)
    if row is None:
        return dict(_NOT_AUDITED)
    texts = ("not_judged", "lagging")
    told = {name: row[name] for name in row if name not in ("run_id", "headline", *texts)}
    return told | {name: json.loads(row[name]) for name in texts}


_NOT_AUDITED: Row = {
    "verdict": "incomplete",
    "voters": None,
    "missing_voters": [],
    "not_judged": [["every check", "this run has not been audited yet"]],
    "committed_lower": 0,
    "committed_upper": None,
    "lagging": [],
}


def _scale(run: Row) -> str:
    held = f"{counted(run['replica_count'], 'replica')}, {counted(run['file_count'], 'file')}"
    return f"run {run['number']} of this lake: {held}, {batches_read(run)}"


def batches_read(run: Row) -> str:
    """How many record batches a run has read, and how much of them was new."""
    new = f"{run['new_batch_count']:,} of them new, with {counted(run['record_count'], 'record')}"
    return f"{run['batch_count']:,} record batches read, {new}"


def broker_loads(lake: Lake) -> tuple[BrokerLoad, ...]:
    """How many partitions each broker leads, follows, and holds without a leader, in the newest
    state of `main`.
    """
    if not lake.exists("partitions"):
        return ()
    newest = (ds.field("lineage") == "main") & ds.field("is_current")
    scanner = lake.dataset("partitions").scanner(["partition_replicas", "leader"], filter=newest)
    holds: Counter[int] = Counter()
    leads: Counter[int] = Counter()
    without: Counter[int] = Counter()
    for batch in scanner.to_batches():
        holds += _counted(pc.list_flatten(batch.column("partition_replicas")))
        leads += _counted(batch.column("leader"))
        alone = batch.filter(pc.less(batch.column("leader"), 0))
        without += _counted(pc.list_flatten(alone.column("partition_replicas")))
    return tuple(
        BrokerLoad(
            broker,
            leads[broker],
            max(0, holds[broker] - leads[broker] - without[broker]),
            without[broker],
        )
        for broker in sorted(holds)
    )


def _counted(values: pa.Array) -> Counter[Any]:
    return Counter({one["values"]: one["counts"] for one in pc.value_counts(values).to_pylist()})
