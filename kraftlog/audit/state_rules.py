"""How a rule of the state is declared: below the check that its findings are of.

Asked of a record before it is applied, of a row that a record has left behind, or of a record that
could not be applied. Whoever goes through records, `audit.watch` asks all rules for him; nothing is
kept between two records. A rule over partitions says over columns too which versions it may have
something to say of.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from kraftlog.audit.check import Check
from kraftlog.quorum.health import Since
from kraftlog.state.declare import Data, Key
from kraftlog.state.fold import Applied
from kraftlog.state.partition_events import Suspects, every_version
from kraftlog.state.replay import FaultyRecord
from kraftlog.state.state import State


class Incoming(NamedTuple):
    """One record: what it says, where it stands, where its controller took its batch to begin, and
    the state that it meets (and then changes in place); `gone` are the topics that were deleted
    before it, by id.
    """

    type: str
    data: Data
    offset: int
    batch_base_offset: int
    expected_base_offset: int
    state: State
    gone: Mapping[str, tuple[str, Since]] = {}


class Version(NamedTuple):
    """A row that a record has left behind, and the one that it met under its key."""

    by: Applied
    key: Key
    before: Data | None
    after: Data


class Refused(NamedTuple):
    """A record that could not be applied, and why."""

    by: Applied
    fault: FaultyRecord


CONTROLLERS, NODES = "controllers", "nodes"
"""Who stops at a record, as `stops` of a finding's evidence: each controller, or each node."""


class Said(NamedTuple):
    """What is wrong, as a sentence and for machines. `stops` is why a controller that replays the
    record stops, in words that need no offset; empty where it goes on.
    """

    text: str
    evidence: dict[str, Any]
    stops: str = ""


class Issue(NamedTuple):
    """The same, with the check whose rule says so."""

    check: str
    text: str
    evidence: dict[str, Any]


Asked = TypeVar("Asked")
Ask = Callable[[Asked], Iterator[Said]]


@dataclass(frozen=True, slots=True)
class Rule(Generic[Asked]):
    """A rule, and the check that its findings are of."""

    check: str
    ask: Ask[Asked]

    def told(self, asked: Asked) -> Iterator[Issue]:
        for text, evidence, _ in self.ask(asked):
            yield Issue(self.check, text, evidence)


@dataclass(frozen=True, slots=True)
class RecordRule(Rule[Incoming]):
    """Asked of each record of some types, with the state that it meets; not of partitions'."""

    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowRule(Rule[Version]):
    """Asked of each row that a record leaves in a table. `suspects`: by columns, for partitions."""

    table: str
    suspects: Suspects


@dataclass(frozen=True, slots=True)
class FaultRule(Rule[Refused]):
    """Asked of each record that could not be applied."""


def on_record(check: Check, *types: str) -> Callable[[Ask[Incoming]], RecordRule]:
    """Declare a rule over records of some types."""
    return lambda ask: RecordRule(check.name, ask, types)


def on_row(
    check: Check, table: str, suspects: Suspects = every_version
) -> Callable[[Ask[Version]], RowRule]:
    """Declare a rule over the rows of a state table."""
    return lambda ask: RowRule(check.name, ask, table, suspects)


def on_fault(check: Check) -> Callable[[Ask[Refused]], FaultRule]:
    """Declare a rule over records that have no effect."""
    return lambda ask: FaultRule(check.name, ask)
