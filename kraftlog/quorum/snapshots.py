"""What a checkpoint file says of itself: whether it is complete, and what its header, voters and
footer hold.

In: the evidence of one file. Out: a frozen view. Source: KIP-630 "Snapshot Control Records",
KIP-853.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kraftlog.log import names
from kraftlog.log.batch import CONTROL, PREFIX_SIZE
from kraftlog.log.fault import READING_KINDS, Fault, FaultKind
from kraftlog.message.message_spec import ZERO_UUID
from kraftlog.quorum.content import KRAFT_VERSION, KRAFT_VOTERS, refused_voter
from kraftlog.quorum.evidence import (
    UNREMARKABLE,
    Content,
    ControlRecord,
    RecordIssue,
    SnapshotEvidence,
)
from kraftlog.state.shapes import KNOWN_LEVELS
from kraftlog.state.shapes import KRAFT_VERSION as KRAFT_LEVEL

BEFORE_EPOCHS = "nothing comes before offset 0"
"""Why a snapshot that ends there is of no epoch."""
HEADER, FOOTER = "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER"
LAST_KRAFT_VERSION = KNOWN_LEVELS[KRAFT_LEVEL]


@dataclass(frozen=True)
class SnapshotView:
    """A checkpoint of one replica."""

    replica: str
    evidence: SnapshotEvidence
    contents: tuple[Content, ...]

    @property
    def path(self) -> str:
        return self.evidence.path

    @property
    def end_offset(self) -> int:
        return self.evidence.end_offset or 0

    @property
    def epoch(self) -> int:
        return self.evidence.epoch or 0

    @property
    def id(self) -> tuple[int, int]:
        """(epoch, end offset): the order in which Kafka sees snapshots."""
        return self.epoch, self.end_offset

    @property
    def precedes_epochs(self) -> bool:
        """It ends where no epoch has begun, and says one."""
        return not self.end_offset and self.epoch > 0

    @property
    def epoch_of_batches(self) -> int | None:
        """The epoch of its first batch, where none is of that in its name: Kafka writes all batches of
        a snapshot with it, so that the file is of another one. No CRC covers the epoch of a batch:
        where some have that of the name, the others are damaged.
        """
        epochs = self.evidence.batches.epochs
        return None if (epochs == self.epoch).any() or not len(epochs) else int(epochs[0])

    @property
    def is_live(self) -> bool:
        """A file that a node reads as a snapshot of its log; not the bootstrap checkpoint, nor a
        leftover.
        """
        return self.evidence.kind == names.CHECKPOINT and self.evidence.end_offset is not None

    @property
    def is_named_as_shipped(self) -> bool:
        """Whether Kafka takes the name for what it says."""
        return self.evidence.name_form == names.SHIPPED

    @property
    def is_bootstrap(self) -> bool:
        """The file from which a start takes the first records of an empty log."""
        return self.evidence.kind == names.BOOTSTRAP

    @property
    def is_leftover(self) -> bool:
        """A file that no node loads: never finished, or waiting to be removed."""
        return self.evidence.kind in (names.CHECKPOINT_PART, names.CHECKPOINT_DELETED)

    @cached_property
    def controls(self) -> tuple[tuple[int, ControlRecord], ...]:
        """Its control records of known types in file order, each with its batch's row."""
        batches = self.evidence.batches
        return tuple(
            (row, one)
            for row, index in enumerate(batches.content.tolist())
            if index != UNREMARKABLE
            for one in self.contents[index].controls
            if not one.type.startswith("UNKNOWN")
        )

    def _first(self, kind: str) -> ControlRecord | None:
        return next((one for _, one in self.controls if one.type == kind), None)

    @property
    def starts_with_header(self) -> bool:
        """The first record of the first batch is the header; what a newer Kafka may write before it
        is not looked at.
        """
        first = next(iter(self.controls), None)
        if first is None or self.starts_damaged:
            return False
        row, one = first
        return row == 0 and one.type == HEADER

    @property
    def starts_damaged(self) -> bool:
        """What stands at the file's start cannot be read, so that it is not known whether it is a
        header. Of bytes that are left after the records of its batch nobody takes note.
        """
        batches = self.evidence.batches
        if len(batches) and batches.positions[0] == 0:
            issue = self._breaks(0)
            is_broken = issue is not None and issue.kind != FaultKind.BATCH_TRAILING
            return is_broken or not batches.crc_valid[0]
        return any(fault.position == 0 for fault in self.evidence.faults)

    @property
    def ends_damaged(self) -> bool:
        """The last batch is whole by its length and holds a control batch that cannot be read."""
        batches = self.evidence.batches
        if not len(batches) or self.bytes_after_last_batch:
            return False
        if not batches.attributes[-1] & CONTROL:
            return False
        return not batches.crc_valid[-1] or self._breaks(len(batches) - 1) is not None

    def _breaks(self, row: int) -> RecordIssue | None:
        """The first record of a batch that cannot be decoded."""
        index = int(self.evidence.batches.content[row])
        issues = () if index == UNREMARKABLE else self.contents[index].issues
        return next((one for one in issues if one.byte_in_batch is not None), None)

    @property
    def end_of_batches(self) -> int:
        """Where in the file the last batch ends."""
        batches = self.evidence.batches
        return int(batches.positions[-1] + batches.sizes[-1]) if len(batches) else 0

    @property
    def bytes_after_last_batch(self) -> int:
        """Bytes at the file's end that are no batch."""
        end = self.end_of_batches
        return max(0, sum(f.size_bytes for f in self.evidence.faults if f.position >= end))

    @property
    def noticed_damage(self) -> str | None:
        """What Kafka does not load it for; None where it loads all that is there. Behind a header, it
        stops at a torn batch, or fewer bytes than a batch begins with, as at the end of the file.
        """
        if not self.evidence.batches.crc_valid.all():
            return "a batch's CRC is wrong"
        if self._empty_batches:
            return "a batch in it holds no record"
        noticed = (
            fault.detail
            for fault in self.evidence.faults
            if fault.kind not in READING_KINDS and not self._is_taken_for_the_end(fault)
        )
        without = None if self.starts_with_header else "it does not begin with a snapshot header"
        return next(noticed, without)

    @property
    def _empty_batches(self) -> list[int]:
        """The rows of whole batches without a record: Kafka's Batch.data takes none (4.3.1, 4.4.0)."""
        batches = self.evidence.batches
        return np.flatnonzero(batches.crc_valid & (batches.record_counts < 1)).tolist()

    def _is_taken_for_the_end(self, fault: Fault) -> bool:
        is_short = fault.kind == FaultKind.TORN_BATCH or fault.size_bytes < PREFIX_SIZE
        return is_short and fault.position >= self.end_of_batches

    @property
    def has_footer(self) -> bool:
        """It holds a footer, be it its last record or not."""
        return self._first(FOOTER) is not None

    @property
    def ends_with_footer(self) -> bool:
        """The last record of the last batch is the footer, the only one, and nothing known
        follows.
        """
        if not self.controls or self.bytes_after_last_batch or self._count(FOOTER) > 1:
            return False
        row, one = self.controls[-1]
        return row == len(self.evidence.batches) - 1 and one.type == FOOTER

    @property
    def is_damaged(self) -> bool:
        """Some byte of it cannot be read."""
        return self._damage is not None

    @cached_property
    def _damage(self) -> str | None:
        """The first thing in it that cannot be read."""
        batches, found = self.evidence.batches, list[tuple[int, str, str]]()
        for fault in self.evidence.faults[:1]:
            found.append((fault.position, str(fault.kind), fault.detail))
        for row in np.flatnonzero(~batches.crc_valid)[:1].tolist():
            base = int(batches.base_offsets[row])
            told = f"the CRC-32C of the batch at offset {base} is wrong"
            found.append((int(batches.positions[row]), str(FaultKind.BATCH_CRC), told))
        for row in self._empty_batches[:1]:
            told = f"the batch at offset {int(batches.base_offsets[row])} holds no record"
            found.append((int(batches.positions[row]), str(FaultKind.RECORD_COUNT), told))
        for row in np.flatnonzero(batches.content != UNREMARKABLE).tolist():
            if (issue := self._breaks(row)) is not None:
                found.append((int(batches.positions[row]), issue.kind, issue.text))
                break
        if not found:
            return None
        position, kind, told = min(found)
        return f"{kind} at byte {position}: {told}"

    @property
    def not_read(self) -> str | None:
        """Why nobody knows whether it is complete: it, or a batch over the limit, was not read."""
        large = (
            one.detail for one in self.evidence.faults if one.kind == FaultKind.BATCH_TOO_LARGE
        )
        return self.evidence.problem or next(large, None)

    @cached_property
    def why_incomplete(self) -> str | None:
        """Why a state cannot be taken from it; None for a complete one: header first, footer last,
        every record decodes.
        """
        if self._damage is not None:
            return self._damage
        if not len(self.evidence.batches):
            return "it is empty"
        if not self.starts_with_header:
            return "it does not begin with a snapshot header"
        return None if self.ends_with_footer else "it does not end with a snapshot footer"

    @property
    def is_complete(self) -> bool:
        """Header first, footer last, every record decodes."""
        return self.why_incomplete is None

    @property
    def record_count(self) -> int:
        """How many records its batches say that they hold, control records included."""
        return int(self.evidence.batches.record_counts.sum())

    def _count(self, kind: str) -> int:
        return sum(one.type == kind for _, one in self.controls)

    @property
    def header_count(self) -> int:
        return self._count(HEADER)

    @property
    def refused_control(self) -> str | None:
        """The first control record at which Kafka throws when it loads the file, as of 3.9: it takes
        one set of voters and one kraft.version, of a level that it knows.
        """
        return next((text for text, _ in self._refused_controls()), None)

    @property
    def impossible_control(self) -> str | None:
        """The first of them that a newer Kafka does not write either."""
        return next((text for text, is_newer in self._refused_controls() if not is_newer), None)

    def _refused_controls(self) -> Iterator[tuple[str, bool]]:
        """(in words, whether it is a level that a newer Kafka may know) of each."""
        seen = set[str]()
        for _, one in self.controls:
            if one.type in seen:
                yield f"it holds a second {one.type} record", False
            seen |= {one.type} & {KRAFT_VOTERS, KRAFT_VERSION}
            if one.data is None:
                continue
            level = one.data["kRaftVersion"] if one.type == KRAFT_VERSION else 0
            if not 0 <= level <= LAST_KRAFT_VERSION:
                text = f"its kraft.version is {level}, and only 0 to {LAST_KRAFT_VERSION} are known"
                yield text, level > LAST_KRAFT_VERSION
            if one.type == KRAFT_VOTERS and (refused := refused_voter(one.data)):
                yield refused, False

    @property
    def last_contained_timestamp(self) -> int | None:
        header = self._first(HEADER)
        told = None if header is None else header.data
        return None if told is None else told["lastContainedLogTimestamp"]

    @property
    def metadata_version(self) -> int | None:
        """The level that it sets metadata.version to, where it was looked at."""
        told = self.evidence.batches.content
        contents = (self.contents[index] for index in told[told != UNREMARKABLE].tolist())
        levels = (one.metadata_version for one in contents)
        return next((level for level in levels if level is not None), None)

    @property
    def voters(self) -> "tuple[tuple[int, str | None], ...] | None":
        """(voter id, directory id) by its KRaftVoters record; None without one that can be read."""
        found = self._first(KRAFT_VOTERS)
        return None if found is None or found.data is None else voters_of(found.data)

    @property
    def voter_listeners(self) -> "dict[int, frozenset[str]]":
        """The listeners of each voter by its KRaftVoters record."""
        found = self._first(KRAFT_VOTERS)
        return {} if found is None or found.data is None else listeners_of(found.data)

    @property
    def names_no_voter(self) -> bool:
        """Whether it is whole, and has no KRaftVoters record, as of a quorum with static voters."""
        return self.is_complete and self._first(KRAFT_VOTERS) is None

    @property
    def has_unread_voters(self) -> bool:
        """Its KRaftVoters record is in a newer shape: whom it names is not known."""
        found = self._first(KRAFT_VOTERS)
        return found is not None and found.data is None


def by_replica(snapshots: Iterable[SnapshotView]) -> dict[str, list[SnapshotView]]:
    """Snapshots by replica, in the order in which they come."""
    found: dict[str, list[SnapshotView]] = {}
    for one in snapshots:
        found.setdefault(one.replica, []).append(one)
    return found


def voters_of(data: Mapping[str, Any]) -> tuple[tuple[int, str | None], ...]:
    """(voter id, directory id) of a KRaftVoters or LeaderChange record, sorted: as Kafka takes it,
    with the last entry of each voter (VoterSet), and no directory where it is all zeros (ReplicaKey).
    """
    named = {one["voterId"]: one.get("voterDirectoryId") for one in data["voters"]}
    return tuple(
        (voter, None if directory == ZERO_UUID else directory)
        for voter, directory in sorted(named.items())
    )


def listeners_of(data: Mapping[str, Any]) -> dict[int, frozenset[str]]:
    """The listeners of each voter of a KRaftVoters record, in capitals, as Kafka compares them
    (ListenerName.normalised).
    """
    return {
        one["voterId"]: frozenset(place["name"].upper() for place in one["endpoints"])
        for one in data["voters"]
    }
