"""A check: a declared query over a quorum that returns the bad rows; none = passed.

`Check` is what is declared, `BadRow` what its query returns. A query sees nothing but its
`Quorum`; what it judged, and what it could not, is said by the check's `over`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kraftlog.audit import coverage
from kraftlog.audit.coverage import Subject
from kraftlog.quorum.model import Quorum

Severity = Literal["critical", "warning", "info"]
Scope = Literal["log", "snapshot", "replica", "state"]
RANK: dict[str, int] = {"critical": 0, "warning": 1, "info": 2}

FINDING_LIMIT = 20
"""How many findings of one check are told apart for one replica; the last of them counts the rest.
"""


@dataclass(frozen=True, slots=True)
class BadRow:
    """One place where a check does not hold. `severity` overrides the check's own; `end_offset` is
    exclusive.
    """

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


@dataclass(frozen=True, slots=True)
class Check:
    """A name, how bad it is, what it looks at, its source, when it holds, the query, and what the
    query judges.
    """

    name: str
    severity: Severity
    scope: Scope
    source: str
    holds_when: str
    query: Callable[[Quorum], Iterable[BadRow]]
    over: Subject = coverage.logs
