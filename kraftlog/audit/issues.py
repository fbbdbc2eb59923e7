"""What the rules of the state tell, gathered while a history goes by.

In: sentences with the offset of their record. Out: `StateIssue`s in offset order. Of each check and
kind the first thousand are kept and all are counted: many of one kind never hide another, and no
limit turns a failed check into one that has passed.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from kraftlog.audit.state_rules import Issue
from kraftlog.quorum.chain import Chain
from kraftlog.quorum.evidence import StateIssue
from kraftlog.quorum.model import Quorum

ISSUE_LIMIT = 1000
"""So many of each check and kind are kept."""


@dataclass(slots=True)
class _Kind:
    kept: list[tuple[int, Issue]] = field(default_factory=list)
    dropped: int = 0

    def add(self, offset: int, told: Issue) -> None:
        self.kept.append((offset, told))
        if len(self.kept) > 2 * ISSUE_LIMIT:
            self.trim()

    def trim(self) -> None:
        """Keep the first ones."""
        self.kept.sort(key=lambda one: one[0])
        self.dropped += max(0, len(self.kept) - ISSUE_LIMIT)
        del self.kept[ISSUE_LIMIT:]

    def merge(self, other: "_Kind") -> None:
        self.kept += other.kept
        self.dropped += other.dropped
        self.trim()


@dataclass(slots=True)
class Issues:
    """All issues of one history."""

    _kinds: dict[tuple[str, str], _Kind] = field(default_factory=lambda: defaultdict(_Kind))

    def add(self, offset: int, told: Issue) -> None:
        """Take in what a rule says of the record at an offset."""
        kind = str(told.evidence.get("kind", ""))
        self._kinds[told.check, kind].add(offset, told)

    def merge(self, other: "Issues") -> None:
        """Take in those of another part of the history."""
        for name, kind in other._kinds.items():
            self._kinds[name].merge(kind)

    def kinds(self) -> Iterator[tuple[list[tuple[int, Issue]], int]]:
        """What is kept of each check and kind, and how many there are beyond."""
        for kind in self._kinds.values():
            kind.trim()
            yield kind.kept, kind.dropped

    def drop(self, told: Issue, count: int) -> None:
        """Count more of a kind, without keeping them."""
        self._kinds[told.check, str(told.evidence.get("kind", ""))].dropped += count

    def excuse(self, check: str, kind: str, offset: int) -> None:
        """Take back what was told of a check and kind from an offset on."""
        found = self._kinds.pop((check, kind), _Kind())
        kept = [one for one in found.kept if one[0] < offset]
        if kept:
            self._kinds[check, kind] = _Kind(kept)

    def told(self) -> Iterator[tuple[int, Issue]]:
        """What is kept, in offset order; the last of each kind says how many more there are."""
        found: list[tuple[int, Issue]] = []
        for _, kind in sorted(self._kinds.items()):
            kind.trim()
            found += kind.kept[:-1]
            offset, last = kind.kept[-1]
            more = {"more": kind.dropped} if kind.dropped else {}
            found.append((offset, last._replace(evidence={**last.evidence, **more})))
        yield from sorted(found, key=lambda one: one[0])


def placed_in(quorum: Quorum, chain: Chain, issues: Issues) -> Iterator[StateIssue]:
    """Each issue with one copy of its record, and all replicas that hold it."""
    for offset, told in issues.told():
        at = chain.link_at(offset)
        log, row = chain.logs[int(chain.log[at])], int(chain.row[at])
        replicas = {"replicas": list(_holders(quorum, chain, at))}
        index = offset - int(chain.base[at])
        evidence = {**told.evidence, **replicas}
        yield StateIssue(told.check, log.label, row, index, told.text, evidence)


def _holders(quorum: Quorum, chain: Chain, at: int) -> Iterator[str]:
    """The replicas that hold a batch of the history, but for uncommitted tails."""
    base = int(chain.base[at])
    for log in chain.logs:
        index = log.index_at(base)
        if index < 0 or int(log.base[index]) != base:
            continue
        is_equal = (log.evidence.log.ids[log.rows[index]] == chain.ids[at]).all()
        if is_equal and base < quorum.tail_starts.get(log.label, base + 1):
            yield log.label
