"""What a suite is judged on: rows of a small table, counts over a large one, or the results of the
checks.

In: a lake and a run. Out: `SuiteRows`: a pandas frame per suite, or why there is none. Reads Delta
tables through Arrow; Spark takes no part.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from kraftlog.audit.runner import ERRORED, SKIPPED
from kraftlog.contracts.measures import Scans
from kraftlog.contracts.suites import ERRORED_CHECKS, Contract, Suite
from kraftlog.errors import LakeError
from kraftlog.failures import in_short
from kraftlog.plain import in_line
from kraftlog.tables.lake import Lake
from kraftlog.tables.reports import CHECK_RESULTS, FINDINGS

RUN_ID = "run_id"


@dataclass(frozen=True, slots=True)
class SuiteRows:
    """A suite with the rows that it is judged on; without any, `skipped` says why there is nothing
    to judge, or `broken` why it cannot be read. By column: why its contracts are skipped, and why
    it could not be counted.
    """

    suite: Suite
    frame: pd.DataFrame | None = None
    skipped: str | None = None
    broken: str | None = None
    skipped_columns: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


class RunOfLake:
    """A run and its lake; opens each table once."""

    def __init__(self, lake: Lake, run_id: str, number: int) -> None:
        # What has been opened under the run's lease is not known here.
        self._lake = Lake(lake.root, lake.token, {})
        self._run_id, self._number = run_id, number
        self._scans = Scans(self._lake)

    def table_subject(self, suite: Suite) -> SuiteRows:
        """The rows, or the counts, of a suite's tables."""
        if suite.is_counted:
            return self._counted(suite)
        (table,) = suite.tables
        unpublished = self._unpublished(table)
        if unpublished is not None:
            return SuiteRows(suite, skipped=unpublished)
        wanted = dict.fromkeys(name for one in suite.contracts for name in one.reads)
        return SuiteRows(suite, self._rows(table, list(wanted)).to_pandas())

    def audit_subject(self, suite: Suite) -> SuiteRows:
        """One row: per check that could be judged, how many critical findings it has.

        A check that errored, or that has no result, has no column: its contract errors."""
        unpublished = self._unpublished(CHECK_RESULTS.name) or self._unpublished(FINDINGS.name)
        if unpublished is not None:
            return SuiteRows(suite, skipped=unpublished)
        results = self._rows(CHECK_RESULTS.name, ["check", "result", "reason"]).to_pylist()
        findings = self._rows(FINDINGS.name, ["check", "severity"]).to_pylist()
        critical = Counter(one["check"] for one in findings if one["severity"] == "critical")
        why = {outcome: _reasons(results, outcome) for outcome in (ERRORED, SKIPPED)}
        row = {one["check"]: critical[one["check"]] for one in results}
        row = {check: count for check, count in row.items() if check not in why[ERRORED]}
        row[ERRORED_CHECKS] = len(why[ERRORED])
        frame = pd.DataFrame([row])
        return SuiteRows(suite, frame, skipped_columns=why[SKIPPED], problems=why[ERRORED])

    def _counted(self, suite: Suite) -> SuiteRows:
        """One row: what each contract counts, over all tables of the suite."""
        counts: dict[str, int] = {}
        skipped: dict[str, str] = {}
        problems: dict[str, str] = {}
        for table in suite.tables:
            contracts = [one for one in suite.contracts if one.table == table]
            unpublished = self._unpublished(table)
            if unpublished is not None:
                skipped |= {_column(one): unpublished for one in contracts}
                continue
            for one in contracts:
                try:
                    counts[_column(one)] = self._count(one)
                # What could not be counted has no column, and its contract errors; others go on.
                except Exception as error:
                    problems[_column(one)] = said(error)
        return SuiteRows(suite, pd.DataFrame([counts or {"": 0}]), None, None, skipped, problems)

    def _count(self, contract: Contract) -> int:
        assert contract.counts is not None
        known = self._scans.open(contract.table).schema.names
        absent = [name for name in contract.counts.columns if name not in known]
        if absent:
            raise LakeError(f"{contract.table} has no column {', '.join(absent)}")
        return contract.counts.count(contract.table, self._scans)

    def _unpublished(self, table: str) -> str | None:
        """Why a table cannot be judged yet."""
        if not self._lake.exists(table):
            return f"the table {table} is not published yet"
        if self._lake.run_number(table) < self._number:
            return f"this run has not published the table {table} yet"
        return None

    def _rows(self, table: str, columns: Sequence[str]) -> pa.Table:
        """The rows of this run, as far as the columns exist: a missing one is for the contract to
        find.
        """
        dataset = self._scans.open(table)
        names = dataset.schema.names
        of_run = ds.field(RUN_ID) == self._run_id if RUN_ID in names else None
        known = [name for name in columns if name in names]
        # A table without any of the columns still has a number of rows.
        return dataset.to_table(columns=known or names[:1], filter=of_run)


def _column(contract: Contract) -> str:
    return str(contract.arguments["column"])


def _reasons(results: Iterable[Mapping[str, Any]], outcome: str) -> dict[str, str]:
    return {one["check"]: one["reason"] or "" for one in results if one["result"] == outcome}


def said(error: Exception) -> str:
    """Why a table could not be judged."""
    if isinstance(error, pa.ArrowException | OSError):
        # Of a Parquet file of ours, in which nothing is that may not be shown.
        return f"{type(error).__name__}: {in_line(error)}"
    return in_short(error)
