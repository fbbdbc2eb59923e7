"""Snapshots as states, loaded when they are asked for, and what two states hold differently.

In: snapshots, and where their records are read from. Out: `Image`s, and differences in words. The
small tables are compared as rows; of the partitions only those become rows that differ by columns.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from kraftlog.audit.image_words import images_differ
from kraftlog.log.batch import CONTROL
from kraftlog.quorum.content import UNKNOWN
from kraftlog.quorum.evidence import UNREMARKABLE, Difference
from kraftlog.quorum.history import Records, loaded
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.known import Known
from kraftlog.state.standing import Topics, differing

_KEPT = 4
"""So many images are kept: those of one id, each content once."""


@dataclass(frozen=True, slots=True)
class Image:
    """The state of a snapshot; `doubt` says what a newer Kafka wrote into it."""

    known: Known
    doubt: str | None


@dataclass(slots=True)
class Images:
    """The images of snapshots, by their content."""

    records: Records
    topics: Topics
    _known: OrderedDict[bytes, Image | None] = field(default_factory=OrderedDict)

    def of(self, view: SnapshotView) -> Image | None:
        """The image of a snapshot; None where its file cannot be read any more."""
        content = view.evidence.batches.ids.tobytes()
        if content not in self._known:
            self._known[content] = self._loaded(view)
        self._known.move_to_end(content)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return self._known[content]

    def _loaded(self, view: SnapshotView) -> Image | None:
        known = loaded(self.records, view, self.topics)
        return None if known is None else Image(known, doubt_of(view))


def doubt_of(view: SnapshotView) -> str | None:
    """What a newer Kafka wrote into a snapshot, so that its state is not known whole."""
    batches = view.evidence.batches
    for row, index in enumerate(batches.content.tolist()):
        if index == UNREMARKABLE or batches.attributes[row] & CONTROL:
            continue
        for issue in view.contents[index].issues:
            if issue.kind == UNKNOWN:
                return f"in the snapshot {issue.text}"
    return None


def images_apart(expected: Known, found: Known) -> tuple[tuple[Difference, ...], int]:
    """(the first differences, how many there are) of a state against the one that is expected, as
    everyone may see them.
    """
    one, other = expected.small.state.fork(), found.small.state.fork()
    for key, mine, theirs in differing(expected.visible, found.visible):
        one.set("partitions", key, mine)
        other.set("partitions", key, theirs)
    return images_differ(one, other)


def are_equal(one: Known, other: Known) -> bool:
    """Whether two states are the same, as everyone may see them."""
    same_small = one.small.state == other.small.state
    return same_small and not differing(one.visible, other.visible)
