"""The history that the replicas hold together: one sequence of batches, each taken from the copies
that agree on it.

In: a quorum. Out: links in offset order, with the holes between them. Uncommitted tails are left
out; where copies differ, the majority's batch is taken. So each content is replayed once, and one
altered copy does not spoil the state of all. Source: R25, R119.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from kraftlog.audit.logview import LogView
from kraftlog.audit.quorum import Quorum


@dataclass(frozen=True, slots=True)
class Link:
    """One batch of the history: `log` and `row` are one copy of it, `labels` all that hold it."""

    base_offset: int
    end_offset: int
    log: LogView
    row: int
    labels: tuple[str, ...]

    @property
    def batch_id(self) -> str:
        return self.log.evidence.log.id_text(self.row)


@dataclass(slots=True)
class _Cursor:
    log: LogView
    index: int
    end: int

    @property
    def base(self) -> int:
        return int(self.log.base[self.index])

    def at_end(self) -> bool:
        return self.index >= self.end


def history(quorum: Quorum) -> Iterator[Link]:
    """The links in offset order; a link that does not begin where the one before it ended follows
    a hole.
    """
    cursors = [_cursor(quorum, log) for log in quorum.peers if not log.is_empty]
    cursors = [one for one in cursors if not one.at_end()]
    reached = 0
    while cursors:
        for one in cursors:
            while not one.at_end() and one.base < reached:
                one.index += 1
        cursors = [one for one in cursors if not one.at_end()]
        if not cursors:
            return
        base = min(one.base for one in cursors)
        link = _chosen([one for one in cursors if one.base == base], base)
        yield link
        reached = link.end_offset


def _cursor(quorum: Quorum, log: LogView) -> _Cursor:
    end = len(log.rows)
    tail = quorum.tail_starts.get(log.label)
    if tail is not None:
        end = int((log.base < tail).sum())
    return _Cursor(log, 0, end)


def _chosen(cursors: list[_Cursor], base: int) -> Link:
    """The batch that most of the copies hold at an offset; of equals that of the newest epoch."""
    groups: dict[bytes, list[_Cursor]] = defaultdict(list)
    for one in cursors:
        row = one.log.rows[one.index]
        groups[one.log.evidence.log.ids[row].tobytes()].append(one)
    best = max(groups.values(), key=lambda group: (len(group), _epoch(group[0])))
    first = best[0]
    end = int(first.log.last[first.index]) + 1
    labels = tuple(one.log.label for one in best)
    return Link(base, end, first.log, int(first.log.rows[first.index]), labels)


def _epoch(one: _Cursor) -> int:
    return int(one.log.epochs[one.index])
