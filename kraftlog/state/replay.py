"""Replay: records in offset order → the state that everyone may see, and what became visible when.

The definition is one record after the other, each on the state before it. Kafka gathers records
into deltas first, and differs from this in histories that depend on the gathering: ARCHITECTURE.md
names them, `audit.grouping` finds them. Metadata transactions (KIP-868): nothing from a Begin on is
visible until its End; an Abort drops it; one that is open when the log ends was never there. Control
records stand outside of them. In a snapshot they are faults, and hide nothing.
"""

from typing import Any, NamedTuple

from kraftlog.state.apply import apply
from kraftlog.state.declare import ReplayFault
from kraftlog.state.state import Change, State
from kraftlog.state.tables import BEGIN, END, OPERATIONS, TRANSACTION_TYPES


class Origin(NamedTuple):
    """The record behind a change. `timestamp` is in ms; a checkpoint's record has no offset of its
    own.
    """

    offset: int | None
    timestamp: int
    batch_leader_epoch: int
    type: str


class FaultyRecord(NamedTuple):
    """A record that has no effect: Kafka's replay throws on it, or it could not be decoded."""

    origin: Origin
    kind: str
    detail: str


def unknown_record(origin: Origin) -> FaultyRecord:
    """A record that nobody here knows."""
    detail = f"{origin.type} is of an unknown type or version"
    return FaultyRecord(origin, "unknown_record", detail)


_IN_SNAPSHOT = "no transaction can be in a snapshot"


def of_snapshot(origin: Origin) -> FaultyRecord:
    """The Begin, End or Abort of a transaction in a snapshot: Kafka throws at it, and at no other
    record for its sake.
    """
    return FaultyRecord(origin, "transaction", _IN_SNAPSHOT)


class Visible(NamedTuple):
    """A change that everyone sees from `since_offset` on (exclusive end of the record that made it
    visible).
    """

    change: Change
    origin: Origin
    since_offset: int
    since_timestamp: int


class Replay:
    """A state that records are folded into.

    `state` is what everyone may see; `faults` holds the records that had no effect, in order;
    `open_since` is the offset of a Begin without an End.
    """

    def __init__(self, state: State | None = None) -> None:
        self.state = State() if state is None else state
        self.faults: list[FaultyRecord] = []
        self.open_since: int | None = None
        self._hidden: State | None = None
        self._waiting: list[tuple[Change, Origin]] = []

    @property
    def current(self) -> State:
        """The state that the next record meets: inside a transaction, with its records so far."""
        return self.state if self._hidden is None else self._hidden

    def apply(self, origin: Origin, data: dict[str, Any] | None) -> list[Visible]:
        """Take in one metadata record; returns what became visible by it. `data` is None for one of
        an unknown type.
        """
        try:
            if origin.type in TRANSACTION_TYPES:
                return self._transaction(origin)
            if data is None:
                self.faults.append(unknown_record(origin))
                return []
            changes = apply(self.current, origin.type, data)
        except ReplayFault as fault:
            self.faults.append(FaultyRecord(origin, fault.kind, fault.detail))
            return []
        if self._hidden is not None:
            self._waiting += [(change, origin) for change in changes]
            return []
        return [_visible(change, origin, origin) for change in changes]

    def apply_control(self, origin: Origin, data: dict[str, Any] | None) -> list[Visible]:
        """Take in one control record: voters and kraft.version; others have no effect."""
        if data is None or origin.type not in OPERATIONS:
            return []
        changes = apply(self.state, origin.type, data)
        if self._hidden is not None:
            apply(self._hidden, origin.type, data)
        return [_visible(change, origin, origin) for change in changes]

    def take(
        self, origin: Origin, data: dict[str, Any] | None, is_control: bool
    ) -> tuple[tuple[Change, ...], list[Visible]]:
        """Take in a record: its changes, visible or not, and what became visible by it."""
        hidden = len(self._waiting)
        seen = self.apply_control(origin, data) if is_control else self.apply(origin, data)
        if origin.type in TRANSACTION_TYPES:
            return (), seen
        changes = [one.change for one in seen] or [one for one, _ in self._waiting[hidden:]]
        return tuple(changes), seen

    def goes_on(self) -> "Replay":
        """A replay of its own that goes on from here."""
        twin = Replay(self.state.fork())
        if self._hidden is not None:
            twin._hidden, twin.open_since = self._hidden.fork(), self.open_since
            twin._waiting = self._waiting.copy()
        return twin

    def _transaction(self, origin: Origin) -> list[Visible]:
        if origin.offset is None:
            raise ReplayFault("transaction", _IN_SNAPSHOT)
        if origin.type == BEGIN:
            if self._hidden is not None:
                raise ReplayFault("transaction", "a transaction begins inside another one")
            self._hidden, self.open_since = self.state.fork(), origin.offset
            return []
        if self._hidden is None:
            raise ReplayFault("transaction", "no transaction is open")
        seen: list[Visible] = []
        if origin.type == END:
            self.state = self._hidden
            seen = [_visible(change, cause, origin) for change, cause in self._waiting]
        self._hidden, self.open_since, self._waiting = None, None, []
        return seen


def _visible(change: Change, origin: Origin, shown: Origin) -> Visible:
    end = 0 if shown.offset is None else shown.offset + 1
    return Visible(change, origin, end, shown.timestamp)
