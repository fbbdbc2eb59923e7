"""Run all checks over one quorum: evidence → results, findings, an exit code.

A failed check hides no other, and one that breaks is `errored`, never passed. Pure: the same
evidence gives the same result. A message and its evidence have a few KB, with a word on what was
left out: a record of millions of replicas would else be a finding of many megabytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, get_args

from kraftlog.audit.check import RANK, BadRow, Check
from kraftlog.audit.coverage import Coverage, JudgedRange, judged_ranges
from kraftlog.audit.end_checks import voters_present
from kraftlog.audit.every_check import CATALOGUE
from kraftlog.audit.triage import and_more
from kraftlog.audit.verdict import Verdict, verdict_of
from kraftlog.config import FailOn, one_of
from kraftlog.failures import in_short
from kraftlog.quorum.capping import capped
from kraftlog.quorum.model import Quorum
from kraftlog.relations import Row

HOLDS = "it holds"
PASSED, FAILED, ERRORED, SKIPPED = "passed", "failed", "errored", "skipped"
MESSAGE_LIMIT = 2000
EVIDENCE_LIMIT = 6000
REASON_LIMIT = 800
_SHORTEST = 40
_NUMBER_SIZE = 8


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What became of one check. `judged` says over which copies and offsets. `reason` says why it
    was skipped or errored. `is_gap`: something that a person could supply was missing, so that it
    judged less than it should. `finding_count` counts what was cut off too.
    """

    check: str
    severity: str
    scope: str
    result: str
    reason: str | None
    finding_count: int
    judged: tuple[JudgedRange, ...] = ()
    is_gap: bool = False
    source: str = ""

    def as_row(self) -> Row:
        """The row of the table `check_results`."""
        row = {one.name: getattr(self, one.name) for one in fields(self)}
        return row | {"judged": [place._asdict() for place in self.judged]}


@dataclass(frozen=True, slots=True)
class Finding:
    """A bad row with its check, and the node that it is about."""

    check: str
    severity: str
    scope: str
    node_id: int | None
    row: BadRow

    def as_row(self) -> Row:
        """The JSON line of the command line's contract."""
        return _line(self.check, self.severity, self.scope, FAILED, self.node_id, self.row)


@dataclass(frozen=True, slots=True)
class AuditResult:
    """All results of one quorum; findings by severity, then in the order of the catalogue."""

    results: tuple[CheckResult, ...]
    findings: tuple[Finding, ...]
    verdict: Verdict

    def exit_code(self, fail_on: str = "critical", strict: bool = False) -> int:
        """0 nothing at or above `fail_on`, 1 findings at or above it, 2 some check broke. `strict`
        counts a critical check that could not judge everything as a finding.

        Raises UsageError for another `fail_on` than the option knows."""
        one_of("fail_on", fail_on, get_args(FailOn))
        return exit_code_of(*self._as_rows(), fail_on, strict)

    @property
    def is_complete(self) -> bool:
        """Every critical check judged all that it should."""
        return _is_complete(one.as_row() for one in self.results)

    def rows(self) -> Iterator[Row]:
        """JSON lines: every finding, then every check that did not fail."""
        return lines_of(*self._as_rows())

    def _as_rows(self) -> tuple[list[Row], list[Row]]:
        return [one.as_row() for one in self.findings], [one.as_row() for one in self.results]


def exit_code_of(findings: Sequence[Row], checks: Sequence[Row], fail_on: str, strict: bool) -> int:
    """`AuditResult.exit_code` of rows; a check that failed counts where its findings are lost."""
    if fail_on != "never":
        told = {one["check"] for one in findings}
        lost = (one for one in checks if one["result"] == FAILED and one["check"] not in told)
        if any(RANK[one["severity"]] <= RANK[fail_on] for one in (*findings, *lost)):
            return 1
        if strict and not _is_complete(checks):
            return 1
    return 2 if any(one["result"] == ERRORED for one in checks) else 0


def lines_of(findings: Iterable[Row], checks: Iterable[Row]) -> Iterator[Row]:
    """`AuditResult.rows`, of the rows of both."""
    yield from findings
    for one in checks:
        if one["result"] != FAILED:
            row = BadRow(None, one["reason"] or HOLDS, evidence={"judged": one["judged"]})
            yield _line(one["check"], one["severity"], one["scope"], one["result"], None, row)


def _line(
    check: str, severity: str, scope: str, result: str, node_id: int | None, row: BadRow
) -> Row:
    return {
        "check": check,
        "severity": severity,
        "scope": scope,
        "result": result,
        "replica": row.replica,
        "node_id": node_id,
        "path": row.path,
        "position": row.position,
        "offset": row.offset,
        "end_offset": row.end_offset,
        "batch_leader_epoch": row.batch_leader_epoch,
        "other_replica": row.other_replica,
        "message": row.message,
        "evidence": dict(row.evidence),
    }


def audit_of(quorum: Quorum, checks: Sequence[Check] = CATALOGUE) -> AuditResult:
    """Run the checks over one quorum."""
    results: list[CheckResult] = []
    findings: list[Finding] = []
    for check in checks:
        result, found = run_check(check, quorum)
        results.append(result)
        findings += found
    findings.sort(key=lambda one: RANK[one.severity])
    verdict = verdict_of(
        quorum,
        (one.severity for one in findings if one.check != voters_present.name),
        [(one.check, one.reason or "") for one in results if one.is_gap],
        is_complete=_is_complete(one.as_row() for one in results),
        is_broken=any(one.result == ERRORED for one in results),
    )
    return AuditResult(tuple(results), tuple(findings), verdict)


def _is_complete(checks: Iterable[Row]) -> bool:
    return not any(one["is_gap"] and one["severity"] == "critical" for one in checks)


def run_check(check: Check, quorum: Quorum) -> tuple[CheckResult, list[Finding]]:
    """What one check says of a quorum; where it breaks, that it did, and nothing is raised."""
    rows: list[BadRow] = []
    covered = Coverage(())
    broke = None
    try:
        covered = check.over(quorum)
        for row in check.query(quorum):
            rows.append(row)
    # Whatever a check stumbles over, the others still run; KeyboardInterrupt and the like pass.
    except Exception as error:
        broken = brief_text(in_short(error), 300)
        broke = f"the check broke: {broken}"
    reason = brief_text(broke or covered.reason or "", REASON_LIMIT) or None
    outcome = ERRORED if broke else FAILED if rows else SKIPPED if reason else PASSED
    rows.sort(key=lambda row: RANK[_severity(check, row)])
    count = sum(1 + _more(row) for row in rows)
    kept = [_finding(check, quorum, row) for row in limited(rows)]
    gap = bool(covered.gaps)
    judged = judged_ranges(quorum, covered, check.scope == "state")
    result = CheckResult(
        check.name, check.severity, check.scope, outcome, reason, count, judged, gap, check.source
    )
    return result, kept


def limited(rows: Iterable[BadRow]) -> Iterator[BadRow]:
    """The first findings of each replica and kind; the last one that is told counts those that are
    not. Rows come with the worst first, so that no warning takes the place of what is critical.
    """
    kept: dict[str | None, list[BadRow]] = {}
    for row, more in capped(rows, lambda one: (one.replica, one.evidence.get("kind")), _more):
        told, known = row, _more(row)
        if more != known:
            message = row.message.removesuffix(and_more(known)) + and_more(more)
            told = replace(row, message=message, evidence={**row.evidence, "more": more})
        kept.setdefault(row.replica, []).append(told)
    yield from chain.from_iterable(kept.values())


def _more(row: BadRow) -> int:
    """How many more a finding stands for."""
    return int(row.evidence.get("more") or 0)


def _severity(check: Check, row: BadRow) -> str:
    return row.severity or check.severity


def _finding(check: Check, quorum: Quorum, row: BadRow) -> Finding:
    told = replace(row, message=brief_text(row.message), evidence=brief(row.evidence))
    node_id = quorum.node_id(row.replica)
    return Finding(check.name, _severity(check, row), check.scope, node_id, told)


def brief_text(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The text; of one longer than the limit its beginning and its end, which says what to do."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 2 // 3], text[-limit // 4 :]
    return f"{head} … ({len(text) - len(head) - len(tail):,} more characters) … {tail}"


def brief(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence under all its keys, with values of about EVIDENCE_LIMIT characters together."""
    room = _Room(EVIDENCE_LIMIT)
    return {key: _kept(value, room) for key, value in evidence.items()}


@dataclass
class _Room:
    left: int


def _kept(value: Any, room: _Room) -> Any:
    if isinstance(value, str):
        text = brief_text(value, max(room.left, _SHORTEST))
        room.left -= len(text)
        return text
    if isinstance(value, Mapping):
        kept = zip(value, _elements(list(value.values()), room), strict=False)
        return {_kept(key, room): one for key, one in kept}
    if isinstance(value, list | tuple | set | frozenset):
        return _elements(list(value), room)
    room.left -= _NUMBER_SIZE
    return value


def _elements(values: list[Any], room: _Room) -> list[Any]:
    kept: list[Any] = []
    for value in values:
        if room.left <= 0:
            return [*kept, f"… {len(values) - len(kept):,} more"]
        kept.append(_kept(value, room))
    return kept
