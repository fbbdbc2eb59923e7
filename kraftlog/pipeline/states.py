"""The history tables of a run: the lineages' records, folded stretch by stretch.

In: the lake's records and a quorum. Out: Parquet files of the history tables, waiting for their
commit. The small tables are replayed on the driver, record by record; partitions, which are nearly
everything, are folded by columns: both only from where their history is not known yet, the end of
the last run where the shared lineage has only grown since, or the offset at which a replica's own
lineage departs from it.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.dataset as ds

from kraftlog.audit.told import Told
from kraftlog.decode.rows import row_schema
from kraftlog.pipeline.histories import (
    replay_fault_rows,
    since,
    small_tables_at,
    write_faults,
    write_history,
)
from kraftlog.pipeline.lineage_digests import base_ids_of
from kraftlog.pipeline.run import StartSpark
from kraftlog.pipeline.shares import (
    FoldedShare,
    KnownVersions,
    ShareStretch,
    fold_stretch,
    of_batches,
    shares_of,
    sources_of,
)
from kraftlog.quorum.chain import Chain
from kraftlog.quorum.evidence import id_texts
from kraftlog.quorum.lineages import MAIN, Lineage, Stretch, stretches
from kraftlog.state.arrow_events import Event, in_offset_order
from kraftlog.state.history import HeldVersions, milliseconds
from kraftlog.state.outline import OUTLINE_TYPES, PARTITION_TYPES, Outline, Outliner, outline_from
from kraftlog.state.tables import BEGIN, NO_EFFECT, TRANSACTION_TYPES
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import AddedFile

ROWS_PER_SHARE = 1_500_000
"""At most so many log records are folded at a time, in about 1 GB; a log of fewer needs no Spark
job.
"""


@dataclass(slots=True)
class States:
    """Folds lineages of one lake; `written` gathers the files of each table.

    `told` is what the audit asks of the shared lineage (None: nothing). `grown_from` is the offset
    up to which the lake holds that lineage's partitions already; `held` are the offsets at which it
    holds its other tables too, with all that was judged of them. Rows that were read once are kept
    in `known`: lineages share most of theirs. `forks` holds the replay of the shared lineage as it
    stood where another one departs from it, `standing` its partitions there, and `stood` what the
    lake holds of its other tables.
    """

    lake: Lake
    run_id: str
    start_spark: StartSpark
    told: Told | None = None
    grown_from: int | None = None
    held: range = range(0)
    written: dict[str, list[AddedFile]] = field(default_factory=lambda: defaultdict(list))
    known: dict[tuple[str, str, int], pa.Table] = field(default_factory=dict)
    sources: dict[str, tuple[ds.Dataset, list[str]]] = field(default_factory=dict)
    forks: dict[str, Outliner] = field(default_factory=dict)
    standing: dict[int, pa.Table] = field(default_factory=dict)
    stood: dict[int, dict[str, HeldVersions]] = field(default_factory=dict)

    def fold(self, lineages: list[Lineage]) -> None:
        """Fold every stretch of every lineage that tells something which `main` does not."""
        forking = {one.name: one.fork_offset for one in lineages if one.fork_offset}
        asked = sorted({*forking.values(), *(() if self.told is None else self.told.asked)})
        self._settle(lineages[0])
        with ThreadPoolExecutor(1) as aside:
            for lineage in lineages:
                for stretch in stretches(lineage):
                    if self._is_kept(lineage, stretch):
                        self._small_tables(lineage, stretch, forking)
                    elif lineage.name == MAIN:
                        # Spark's tasks fold partitions while the driver replays the small tables
                        # and loads the snapshots that the audit will hold against them.
                        outline = self._outline(lineage, stretch)
                        folded = aside.submit(
                            self._partitions, lineage, stretch, outline, tuple(asked)
                        )
                        self._small_tables(lineage, stretch, forking)
                        if self.told is not None:
                            if not forking:
                                self.known.clear()  # nobody asks for them again
                            self.told.load()
                        self._tell(outline, folded.result())
                    elif stretch.is_last or stretch.end_offset > lineage.fork_offset:
                        outline = self._small_tables(lineage, stretch, forking)
                        self._take(self._partitions(lineage, stretch, outline).written)

    def _settle(self, main: Lineage) -> None:
        """Have all of the shared lineage's partitions told anew where the last stretch cannot go on:
        whether those before it are kept is to be known before they are folded.
        """
        if self.grown_from is not None:
            *earlier, last = stretches(main)
            if earlier and outline_from(self._outline(main, last), self.grown_from) is None:
                self.grown_from = None

    def _is_kept(self, lineage: Lineage, stretch: Stretch) -> bool:
        """Whether the lake holds the partitions of a stretch: before a hole all versions have ended,
        and stay where the shared lineage has only grown.
        """
        return lineage.name == MAIN and self.grown_from is not None and not stretch.is_last

    def _outline(self, lineage: Lineage, stretch: Stretch) -> Outline:
        """The outline of a stretch of the shared lineage, before its small tables are replayed."""
        outliner, links = self._begun(lineage, stretch, is_outline=True)
        ids = id_texts(links.ids)
        for event in self._events(ids, OUTLINE_TYPES, outliner.outline.start_offset):
            outliner.feed(event)
        return outliner.finish(*self._closes(stretch, ids))

    def _closes(self, stretch: Stretch, ids: pa.Array) -> tuple[int, int] | tuple[()]:
        """Where what holds at the end of a stretch is closed: behind it, at the time of its last
        record of a small table; nowhere at the end of all.
        """
        if stretch.is_last:
            return ()
        last = (-1, _start_timestamp(stretch))
        parts = [self._rows(table, kind) for table, kind in self._small_types()]
        for rows in of_batches(parts, ids):
            if rows.num_rows:
                end = rows.slice(rows.num_rows - 1)
                times = milliseconds(end.column("timestamp"))
                last = max(last, (end.column("offset")[0].as_py(), times[0].as_py()))
        return stretch.end_offset + 1, last[1]

    def _small_tables(self, lineage: Lineage, stretch: Stretch, forking: dict[str, int]) -> Outline:
        outliner, links = self._begun(lineage, stretch)
        at = self._on_the_way(lineage, stretch, outliner, forking)
        ids = id_texts(links.ids)
        for event in self._events(ids, None, outliner.outline.start_offset):
            while at and (event.origin.offset or 0) >= at[0][0]:
                at.pop(0)[1]()
            outliner.feed(event)
            if lineage.name == MAIN and self.told is not None:
                self.told.note(event)
        for _, act in at:
            act()
        outline = outliner.finish(*self._closes(stretch, ids))
        for name, part in outliner.history.rows():
            if name != "partitions":
                rows = since(part, lineage.fork_offset)
                self._take(write_history(self.lake, name, lineage.name, rows))
        told = [
            one
            for one in outliner.replay.faults
            if one.origin.offset is None or one.origin.offset >= lineage.fork_offset
        ]
        self._take(write_faults(self.lake, replay_fault_rows(self.run_id, lineage.name, told)))
        return outline

    def _begun(
        self, lineage: Lineage, stretch: Stretch, *, is_outline: bool = False
    ) -> tuple[Outliner, Chain]:
        """An outliner of what is known in a stretch or, fed with its base's records, of its
        beginning; and the links that it has yet to be fed. With `is_outline` it knows topics alone.
        """
        fork = self.forks.get(lineage.name)
        if fork is not None and _departs_in(lineage, stretch):
            fork.outline.end_offset = stretch.end_offset
            return fork, stretch.links.above(lineage.fork_offset)
        rules = self.told.rules if lineage.name == MAIN and self.told is not None else None
        start, held = self._held(lineage, stretch)
        span = start, _start_timestamp(stretch), stretch.end_offset
        outliner = Outliner(*span, None if is_outline else rules, is_outline=is_outline)
        if held is not None:
            outliner.goes_on({"topics": held["topics"]} if is_outline else held)
            return outliner, stretch.links.above(start)
        if stretch.base is not None:
            types = OUTLINE_TYPES if is_outline else None
            for event in self._events(base_ids_of(stretch), types):
                outliner.base(event)
        return outliner, stretch.links

    def _held(
        self, lineage: Lineage, stretch: Stretch
    ) -> tuple[int, dict[str, HeldVersions] | None]:
        """Where the small tables of a stretch are replayed from, and what the lake holds there: not
        within a transaction, where it does not hold what is hidden yet.
        """
        is_main = lineage.name == MAIN
        offset = self.held.stop - 1 if is_main else lineage.fork_offset
        is_in = stretch.is_last and (is_main or _departs_in(lineage, stretch))
        if offset not in self.held or not is_in:
            return stretch.start_offset, None
        if offset not in self.stood:
            marks = self._events(id_texts(stretch.links.ids), TRANSACTION_TYPES)
            before = [one.origin.type for one in marks if (one.origin.offset or 0) < offset]
            if before[-1:] == [BEGIN]:
                return stretch.start_offset, None
            self.stood[offset] = small_tables_at(self.lake, offset)
        return offset, self.stood[offset]

    def _on_the_way(
        self, lineage: Lineage, stretch: Stretch, outliner: Outliner, forking: dict[str, int]
    ) -> list[tuple[int, Callable[[], None]]]:
        """What is to be done when a replay of the shared lineage has reached an offset."""
        if lineage.name != MAIN:
            return []
        start = outliner.outline.start_offset
        acts = [
            (offset, partial(self._fork, name, outliner))
            for name, offset in forking.items()
            if start < offset <= stretch.end_offset
        ]
        if self.told is not None:
            reach, asked = self.told.reach, self.told.asked
            acts += [(at, partial(reach, at, outliner.replay)) for at in asked if at >= start]
        return sorted(acts, key=lambda act: act[0])

    def _fork(self, name: str, outliner: Outliner) -> None:
        twin = outliner.fork()
        if twin is not None:
            self.forks[name] = twin

    def _events(
        self, ids: pa.Array, types: Container[str] | None = None, start: int = 0
    ) -> Iterator[Event]:
        """The records of some batches in offset order, from an offset on: of some types, or of all
        small tables.
        """
        wanted = [one for one in self._small_types() if types is None or one[1] in types]
        parts = [self._rows(table, kind, start) for table, kind in wanted]
        chosen: dict[str, list[pa.Table]] = {"records": [], "control_records": []}
        for (table, _), rows in zip(wanted, of_batches(parts, ids), strict=True):
            chosen[table].append(rows)
        return in_offset_order(*chosen.values())

    def _small_types(self) -> list[tuple[str, str]]:
        """All types of records but those of partitions, and their tables."""
        return [
            (table, kind)
            for table in ("records", "control_records")
            for kind in self._source(table)[1]
            if kind not in PARTITION_TYPES | NO_EFFECT
        ]

    def _source(self, table: str) -> tuple[ds.Dataset, list[str]]:
        """A table as a dataset, and the record types that it holds."""
        if table not in self.sources:
            types = sorted({one["type"] for one in self.lake.open(table).partitions()})
            self.sources[table] = self.lake.dataset(table), types
        return self.sources[table]

    def _rows(self, table: str, kind: str, start: int = 0) -> pa.Table:
        """The records of one type in offset order, their batches' ids as codes of a dictionary.
        Where the lake holds what was before, only those from an offset on are read.
        """
        at = table, kind, start if self.held else 0
        if at not in self.known:
            source, _ = self._source(table)
            names = [name for name in row_schema(kind).names if name in source.schema.names]
            wanted = ds.field("type") == kind
            if at[2]:
                wanted &= ds.field("offset") >= at[2]
            rows = source.to_table(columns=names, filter=wanted)
            rows = rows.sort_by([("offset", "ascending")])
            ids = rows.column("batch_id").combine_chunks().dictionary_encode()
            self.known[at] = rows.drop_columns(["batch_id"]).append_column("batch_id", ids)
        return self.known[at]

    def _partitions(
        self, lineage: Lineage, stretch: Stretch, outline: Outline, asked: tuple[int, ...] = ()
    ) -> FoldedShare:
        """Fold the partitions, from known history where there is some."""
        known = self._standing(lineage, stretch)
        follows = outline if known is None else outline_from(outline, known.offset)
        if follows is None:
            known, follows = None, outline
            if lineage.name == MAIN:
                self.grown_from = None  # its versions are told anew, all of them
        start = stretch.start_offset if known is None else known.offset
        base_ids = base_ids_of(stretch) if known is None and stretch.base is not None else None
        share = ShareStretch(
            self.lake,
            self.run_id,
            lineage.name,
            sources_of(self.lake, start, stretch.end_offset, base_ids),
            id_texts(stretch.links.above(start).ids),
            base_ids,
            known,
            lineage.fork_offset,
            tuple(one for one in asked if start <= one <= stretch.end_offset),
            shares_of(stretch.end_offset - start, ROWS_PER_SHARE),
            self.told.watch() if lineage.name == MAIN and self.told is not None else None,
        )
        return fold_stretch(share, follows, self.start_spark)

    def _tell(self, outline: Outline, folded: FoldedShare) -> None:
        """Gather what the fold of the shared lineage has come to."""
        self._take(folded.written)
        self.standing |= folded.standing
        if any(one.shown_offset is None for one in outline.hidden):
            self.told = None  # nobody ever sees those records, but they are judged
        if self.told is not None:
            self.told.take(folded.issues, folded.standing, folded.led, folded.holds_records)

    def _standing(self, lineage: Lineage, stretch: Stretch) -> KnownVersions | None:
        """Known history from which the fold of a stretch can go on."""
        if lineage.name == MAIN:
            if self.grown_from is None:
                return None
            return KnownVersions(self.grown_from, self._files_of_main(current=True))
        if not _departs_in(lineage, stretch):
            return None
        if lineage.fork_offset in self.standing:
            return KnownVersions(lineage.fork_offset, (), self.standing[lineage.fork_offset])
        written = [
            one for one in self.written["partitions"] if one.partition_values["lineage"] == MAIN
        ]
        paths = tuple(f"{self.lake.path('partitions')}/{one.path}" for one in written)
        if self.grown_from is not None:
            paths += self._files_of_main(current=False)
        return KnownVersions(lineage.fork_offset, paths)

    def _files_of_main(self, *, current: bool) -> tuple[str, ...]:
        """The lake's files of the shared lineage's partitions."""
        wanted = {"lineage": MAIN, "is_current": current}
        return tuple(
            f"{self.lake.path('partitions')}/{file['path']}"
            for file, values in self.lake.files("partitions")
            if values == wanted
        )

    def _take(self, written: list[tuple[str, AddedFile]]) -> None:
        for name, added in written:
            self.written[name].append(added)


def _departs_in(lineage: Lineage, stretch: Stretch) -> bool:
    """Whether a lineage leaves the shared one within a stretch: what holds there counts for it."""
    return stretch.start_offset < lineage.fork_offset <= stretch.end_offset


def _start_timestamp(stretch: Stretch) -> int:
    """The time at which what a stretch begins with has come to hold."""
    return (stretch.base.last_contained_timestamp if stretch.base else None) or 0
