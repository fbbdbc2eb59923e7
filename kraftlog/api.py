"""kraftlog in Python: open copies of a quorum, and ask what the commands ask.

`import kraftlog` gives these names. Everything here is a door to what lies below and holds no logic
of its own; nothing starts Spark. Rows are plain mappings, those that the command of the same name
prints; secrets are masked unless `reveal_secrets` is given.

    import kraftlog

    quorum = kraftlog.open("replicas")
    print(quorum.audit().verdict.grade)
    print(kraftlog.diff(quorum["1"].image(176), quorum["1"].image()))
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from kraftlog.audit.origins import setting_rows
from kraftlog.audit.runner import AuditResult, Finding, audit_of
from kraftlog.config import Options, load_options, require_of_reading, whole_number
from kraftlog.decode.columnar import decode_window
from kraftlog.decode.foreign import Decoder, ForeignRecord, read_partition, versioned
from kraftlog.decode.listing import RecordFilter, batch_rows, record_rows
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError, KraftlogError, UsageError
from kraftlog.explain.subject import subjects_of
from kraftlog.explain.timeline import entry_rows, file_history, first_told
from kraftlog.log.directory import Replica, find_replicas, record_files, walk_file
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits
from kraftlog.message.catalogue import record_types
from kraftlog.quorum.bounds import Bounds
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.pairs import divergence_rows
from kraftlog.quorum.rebuild import Place, image_of
from kraftlog.quorum.record_windows import FileRecords
from kraftlog.quorum.replica_rows import replica_rows
from kraftlog.quorum.restorable import restorable
from kraftlog.quorum.voter_changes import voter_change_rows
from kraftlog.recover.ranking import restore_rows
from kraftlog.relations import Row
from kraftlog.simulate.failover_rows import failover, failover_rows
from kraftlog.simulate.fetch import Dialect
from kraftlog.simulate.join_rows import BANDWIDTH, joined
from kraftlog.simulate.liveness import Link, snapshot_transfer_rows
from kraftlog.simulate.lost import counted_in_files
from kraftlog.simulate.plan_rows import boot_rows, election_rows, fetch_rows, truncation_rows
from kraftlog.simulate.replica_selection import cluster_of, rack_rows, select_all
from kraftlog.simulate.restart_rows import restart_rows, with_history
from kraftlog.simulate.selectors import RackAwareReplicaSelector
from kraftlog.simulate.staleness import staleness_rows
from kraftlog.source.collected import furthest_image, quorum_of
from kraftlog.source.task_settings import limits_of, redactor_of
from kraftlog.state.difference import Difference, differences
from kraftlog.state.image import Image

__all__ = [
    "AuditResult",
    "Copies",
    "Copy",
    "Decoder",
    "Difference",
    "Fault",
    "Finding",
    "ForeignRecord",
    "Image",
    "InputError",
    "KraftlogError",
    "UsageError",
    "diff",
    "open",
    "read_partition",
    "versioned",
]


def open(  # the name that readers of files expect; this module opens no file itself
    *roots: str, reveal_secrets: bool = False, **options: Any
) -> "Copies":
    """The copies below some roots, as one quorum. Options are those of `conf/kraftlog.toml` that
    say how copies are read and judged, by name: `quorum_describe`, `lag_offsets` and so on.

    Raises InputError where no copy lies there, UsageError for an option that does not exist, or
    would do nothing here, and where no root is named.
    """
    if not roots:
        raise UsageError("no folder is named; open takes those that hold the copies")
    require_of_reading(options)
    given = {"input": list(map(str, roots)), **options}
    if reveal_secrets is not False:  # else it is the default that says so, and no argument
        given["reveal_secrets"] = reveal_secrets
    settings = load_options(given)
    return Copies(settings, tuple(find_replicas(settings.input)))


def diff(before: Image, after: Image) -> list[Difference]:
    """What differs between two images, by object and field."""
    return list(differences(before.state, after.state))


@dataclass(frozen=True)
class Copy:
    """One node's copy of the metadata log."""

    copies: "Copies"
    replica: Replica

    def __repr__(self) -> str:
        return f"Copy({self.label!r})"

    @property
    def label(self) -> str:
        """Its path below the root that was opened."""
        return self.replica.label

    @property
    def folder(self) -> str:
        return self.replica.folder

    def batches(self) -> Iterator[Row]:
        """One row per record batch, and one with `fault` per damaged range."""
        return batch_rows([self.replica], self.copies.limits)

    def records(
        self,
        types: Iterable[str] | None = None,
        from_offset: int | None = None,
        to_offset: int | None = None,
        key: str | None = None,
    ) -> Iterator[Row]:
        """One row per decoded record of segments and checkpoints, and one with `fault` per place
        that cannot be read.

        Raises UsageError for a type that no record has, and for what is no offset.
        """
        bounds = _whole("from_offset", from_offset), _whole("to_offset", to_offset)
        wanted = RecordFilter(_types(types), *bounds, key=key)
        return record_rows([self.replica], self.copies.limits, self.copies.redactor, wanted)

    def arrow(self, types: Iterable[str] | None = None) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The same records in columns, some of one type at a time: the type, and what the table
        `records` holds of it. Millions a minute.

        Raises UsageError for a type that no record has.
        """
        wanted, limits = _types(types), self.copies.limits
        for file in record_files([self.replica]):
            for found in walk_file(file, limits):
                if not isinstance(found, Fault):
                    most = limits.decompressed_size_bytes
                    for decoded in decode_window(found, wanted, self.copies.redactor, most):
                        yield from decoded.records.items()

    def image(self, at: int | None = None, at_ms: int | None = None) -> Image:
        """The state of all records below an offset, or before a time; at the log's end without
        either.

        Raises InputError where it cannot be rebuilt, UsageError where both are given, or no number.
        """
        if at is not None and at_ms is not None:
            raise UsageError("an image is taken at an offset or at a time, not at both")
        # One of another cluster than the copies that are looked at speaks for itself.
        view = self.copies.view if self.label in self.copies.view.by_label else None
        place = Place(_whole("at", at), _whole("at_ms", at_ms))
        given = place, self.copies.limits, self.copies.redactor
        return image_of(self.replica, self.label, view, *given)[0]


@dataclass(frozen=True)
class Copies:
    """The copies of one quorum."""

    options: Options
    replicas: tuple[Replica, ...]

    def __repr__(self) -> str:
        return f"Copies({', '.join(repr(one.label) for one in self)})"

    def __len__(self) -> int:
        return len(self.replicas)

    def __iter__(self) -> Iterator[Copy]:
        return (Copy(self, one) for one in self.replicas)

    def __getitem__(self, label: str) -> Copy:
        """Raises InputError for a label that no copy has."""
        for one in self:
            if one.label == label:
                return one
        raise InputError(f"there is no copy {label!r}; there are {', '.join(self.labels)}")

    @property
    def labels(self) -> list[str]:
        return [one.label for one in self.replicas]

    @cached_property
    def redactor(self) -> Redactor:
        """Masks secrets, with one key for all that is asked of this quorum."""
        return redactor_of(self.options)

    @cached_property
    def limits(self) -> Limits:
        """How files are read."""
        return limits_of(self.options, self.redactor)

    @cached_property
    def view(self) -> Quorum:
        """What the copies hold together: logs, snapshots, epochs, voters, bounds. Read once."""
        return quorum_of(self.replicas, self.options, self.redactor)

    @cached_property
    def _replayed(self) -> Quorum:
        return with_history(self.view, FileRecords(self.redactor, self.limits))

    @property
    def committed(self) -> Bounds:
        """The interval that holds the high watermark, and why."""
        return self.view.bounds

    def audit(self) -> AuditResult:
        """Every check, its findings, and the verdict."""
        return audit_of(self._replayed)

    def rows(self) -> list[Row]:
        """One row per copy: who it is, and what it holds."""
        return replica_rows(self.view)

    def pairs(self) -> list[Row]:
        """How far each copy agrees with each other, and what it is to it."""
        return list(divergence_rows(self.view))

    def voters(self) -> list[Row]:
        """How the set of voters changed."""
        return list(voter_change_rows(self.view))

    def settings(self) -> list[Row]:
        """Every value that this quorum is judged by, and where each comes from."""
        return list(setting_rows(self.view, self.options))

    def restorable(self) -> list[Row]:
        """Which states can be rebuilt, and from whose files."""
        return [asdict(one) for one in restorable(self.view)]

    def best(self) -> list[Row]:
        """The copies to restore from, the best one first, with reasons."""
        return list(restore_rows(self._replayed))

    def image(self, at: int | None = None) -> Image:
        """The newest state that is known to be committed, or that at an offset, of the copy that
        holds most of it.
        """
        return furthest_image(self.view, self.redactor, _whole("at", at))

    def explain(
        self, *what: str, between_ms: tuple[int | None, int | None] = (None, None)
    ) -> list[Row]:
        """The timeline of one object, a row per record that concerns it: `explain("topic", "a")`,
        with the words of `kraftlog explain`. Times are ms since 1970, both inclusive.

        Raises UsageError for words that name nothing.
        """
        history = file_history(self.view, self.redactor)
        return list(entry_rows(first_told(subjects_of(what), history, between_ms)[1] or ()))

    def plan(self, name: str, dialect: str = "shipped") -> list[Row]:
        """What Kafka would do next: `boot`, `election`, `truncation`, `fetch`, `restart`,
        `snapshot`, `replicas`, `staleness` or `failover`. A truncation is told for each leader, as
        by `--all`. An election and a fetch know the dialects `v19` and `adopted` of KIP-630 too.

        Raises UsageError for any other name.
        """
        if name not in _PLANNED:
            raise UsageError(f"there is no plan {name!r}; there are {', '.join(_PLANNED)}")
        rules = _dialect(dialect)
        if rules != Dialect.SHIPPED and name not in ("election", "fetch"):
            raise UsageError(f"plan {name} goes by what Kafka does, and has no other dialect")
        return list(_PLANNED[name](self, rules))

    def join(
        self,
        follower: str,
        leader: str | None = None,
        *,
        bytes_per_second: int = BANDWIDTH,
        round_trip_ms: int = 100,
        chunk_bytes: int | None = None,
        fetch_bytes: int | None = None,
        timeout_ms: int | None = None,
        request_timeout_ms: int | None = None,
        dialect: str = "shipped",
    ) -> list[Row]:
        """The way of a follower to the leader's end over a link, a row per step. Who follows is a
        label, the id of a voter without a copy, or `new`; who leads, where nobody is named, the
        voter that would be elected. Limits that are not given are those of the follower's own
        server.properties, else Kafka's.

        Raises InputError where the two cannot be leader and follower.
        """
        link = Link(bytes_per_second, round_trip_ms)
        given = (chunk_bytes, fetch_bytes, timeout_ms, request_timeout_ms)
        return joined(self.view, follower, leader, link, given, _dialect(dialect)).rows


def _types(given: Iterable[str] | None) -> frozenset[str] | None:
    """A name alone is meant as one type, not as its letters."""
    if given is None:
        return None
    return record_types([given] if isinstance(given, str) else [*given]) or frozenset()


def _whole(name: str, value: object) -> int | None:
    """An offset or a time, where one is given."""
    return None if value is None else whole_number(name, value, 0)


def _dialect(name: str) -> Dialect:
    if name not in list(Dialect):
        raise UsageError(f"there is no dialect {name!r}; there are {', '.join(Dialect)}")
    return Dialect(name)


_PLANNED: dict[str, Callable[[Copies, Dialect], Iterable[Row]]] = {
    "boot": lambda one, _: boot_rows(one.view),
    "truncation": lambda one, _: truncation_rows(one.view, counted_in_files(one.limits)),
    "restart": lambda one, _: restart_rows(one._replayed, one.audit()),
    "snapshot": lambda one, _: snapshot_transfer_rows(one.view, one.options.load_bytes_per_second),
    "replicas": lambda one, _: rack_rows(
        select_all(cluster_of(one.image().state), RackAwareReplicaSelector())
    ),
    "staleness": lambda one, _: staleness_rows(one.view),
    "failover": lambda one, _: failover_rows(failover(one.view, None), 1),
    "election": lambda one, dialect: election_rows(one.view, dialect),
    "fetch": lambda one, dialect: fetch_rows(one.view, dialect),
}
