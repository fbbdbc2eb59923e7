"""A check: a declared query over a quorum that returns the bad rows; none = passed.

`Check` is what is declared, `BadRow` what its query returns. A query sees nothing but its
`Quorum`; what it judged, and what it could not, is said by the check's `over`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal, NotRequired, TypedDict, Unpack

from kraftlog.audit import coverage
from kraftlog.audit.coverage import Subject
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum

Severity = Literal["critical", "warning", "info"]
Scope = Literal["log", "snapshot", "replica", "state"]
ActionKey = Literal[
    "stop", "refetch", "snapshot", "identity", "origin",
    "deleted", "copy", "rebuild", "watch", "restart", "keep", "know",
]  # fmt: skip
"""What a finding asks for; `report.actions` says it in words."""
RANK: dict[str, int] = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class BadRow:
    """Where a check fails. `severity` overrides the check's own; `end_offset` is exclusive."""

    replica: str | None
    message: str
    path: str | None = None
    position: int | None = None
    offset: int | None = None
    end_offset: int | None = None
    batch_leader_epoch: int | None = None
    other_replica: str | None = None
    severity: Severity | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


def at_batch(
    log: LogView,
    row: int,
    message: str,
    offset: int | None = None,
    end_offset: int | None = None,
    *,
    epoch: int | None = None,
    other_replica: str | None = None,
    severity: Severity | None = None,
    evidence: Mapping[str, Any],
) -> BadRow:
    """A bad row at a batch of a log; offset and epoch are those of its header if none are given."""
    columns = log.evidence.log
    return BadRow(
        log.label,
        message,
        log.path(row),
        int(columns.positions[row]),
        int(columns.base_offsets[row]) if offset is None else offset,
        end_offset,
        int(columns.epochs[row]) if epoch is None else epoch,
        other_replica,
        severity,
        evidence,
    )


Query = Callable[[Quorum], Iterable[BadRow]]


@dataclass(frozen=True, slots=True)
class Check:
    """A name, how bad it is, what it looks at, its source, when it holds, and the query.

    `meaning` and `advice` are for people: what a finding tells and when it is normal, and what to
    do; sentences without markup but `code`. `action` is the group of the page that its findings
    belong to. `over` is what the query judges, `goes_by` names the options, settings of nodes and
    things known of the quorum that it asks for. People read the checks of a scope in the order of
    their declarations, but that one with an `after` follows that check.
    """

    name: str
    severity: Severity
    scope: Scope
    source: str
    holds_when: str
    query: Query
    meaning: str
    advice: str
    action: ActionKey
    over: Subject = coverage.logs
    after: str | None = None
    goes_by: tuple[str, ...] = ()


class Words(TypedDict):
    """What people are told of a check, as `Check` has it; texts may be broken into lines."""

    meaning: str
    advice: str
    action: ActionKey
    after: NotRequired[str]
    goes_by: NotRequired[tuple[str, ...]]


def check(
    name: str,
    severity: Severity,
    scope: Scope,
    source: str,
    holds_when: str,
    *,
    over: Subject = coverage.logs,
    **words: Unpack[Words],
) -> Callable[[Query], Check]:
    """Declare the check whose query follows."""
    texts = " ".join(words["meaning"].split()), " ".join(words["advice"].split())
    told = (*texts, words["action"], over, words.get("after"), words.get("goes_by", ()))
    return lambda query: Check(name, severity, scope, source, holds_when, query, *told)


def checks_in(module: ModuleType) -> list[Check]:
    """The checks of a module, in the order of their declarations."""
    return [one for one in vars(module).values() if isinstance(one, Check)]
