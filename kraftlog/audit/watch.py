"""The rules of the state, asked while records are applied.

In: what `state.known` shows of each record. Out: `Issues`. Records of small tables are judged one
by one; of the partitions' records those are judged that the fold has handed to the definition, as
nothing can be wrong with the others.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

from kraftlog.audit.issues import Issues
from kraftlog.audit.state_rules import (
    BEFORE,
    MassDeletion,
    Step,
    Told,
    Window,
    rules_after,
    rules_before,
)
from kraftlog.quorum.content import TRANSACTION_TYPES
from kraftlog.quorum.health import Past
from kraftlog.state.arrow_events import Event
from kraftlog.state.fold import Applied
from kraftlog.state.replay import FaultyRecord
from kraftlog.state.state import Change, State
from kraftlog.state.tables import TABLE

TOLD = 8
"""So many names stand in a sentence; the evidence has more."""


@dataclass(slots=True)
class Rules:
    """All rules over one history; `base_offsets` are those of its batches, as a list: one look into
    an array lets go of Python's lock, and waits for it behind other threads. `past` gathers what
    the newest state does not say of itself.
    """

    base_offsets: list[int]
    issues: Issues
    deletions: MassDeletion
    past: Past = field(default_factory=Past)

    def meets(self, event: Event, state: State) -> None:
        """See `known.Watcher`."""
        if event.is_control or event.data is None or event.origin.type not in BEFORE:
            return
        offset = event.origin.offset or 0
        at = bisect_right(self.base_offsets, offset) - 1
        base = self.base_offsets[at]
        step = Step(event.origin.type, event.data, offset, base, state, self.past.topics)
        self._tell(offset, *rules_before(step))

    def changed(
        self, event: Event, state: State, changes: tuple[Change, ...], faults: list[FaultyRecord]
    ) -> None:
        """See `known.Watcher`."""
        self.past.take(changes, event.origin.offset or 0, event.origin.timestamp)
        if event.is_control or event.data is None or event.origin.type in TRANSACTION_TYPES:
            return
        offset = event.origin.offset or 0
        for fault in faults:
            one = Applied(event.origin, event.data, changes, fault, None)
            self._tell(offset, *rules_after(one))
        for window in self.deletions.see(changes, state, event.origin.timestamp, offset):
            self._mass_deletion(window)

    def applied(self, one: Applied) -> None:
        """See `known.Watcher`."""
        self._tell(one.origin.offset or 0, *rules_after(one))

    def finish(self) -> None:
        """Tell what was still open at the end."""
        for window in self.deletions.rest():
            self._mass_deletion(window)

    def _mass_deletion(self, window: Window) -> None:
        first = window.first_offset
        what = TABLE[window.table].noun[1]
        told = Told(
            "mass_deletion",
            f"{window.removed} of {window.total} {what} were removed between offsets {first} and {window.last_offset}: {_first(window)}. "
            "If nobody meant it, stop the controllers now. "
            f"The state before offset {first} is still there: kraftlog checkpoint writes it.",
            {
                "kind": window.table,
                "names": window.names,
                "removed": window.removed,
                "total": window.total,
                "last_offset": window.last_offset,
            },
        )
        self._tell(first, told)

    def _tell(self, offset: int, *told: Told) -> None:
        for one in told:
            self.issues.add(offset, one)


def _first(window: Window) -> str:
    """The first names, and how many more there are."""
    told = window.names[:TOLD]
    more = window.removed - len(told)
    return ", ".join(told) + (f" and {more:,} more" if more else "")
