"""The history tables of a run: the lineages' records, folded stretch by stretch.

In: the lake's records and a quorum. Out: Parquet files of the history tables, waiting for their
commit. The small tables are replayed on the driver, record by record; partitions, which are nearly
everything, are folded by columns, and only from where their history is not known yet: the end of
the last run where the shared lineage has only grown since, or the offset at which a replica's own
lineage departs from it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import SparkSession

from kraftlog.audit.lineages import MAIN, Lineage, Stretch, stretches
from kraftlog.decode.rows import row_schema
from kraftlog.pipeline.comparisons import Comparisons, Judged
from kraftlog.pipeline.grown import base_ids_of
from kraftlog.pipeline.histories import fault_rows, since, write_faults, write_history
from kraftlog.pipeline.shares import Laid, fold_stretch, lay_out, scratch_folder, sources_of
from kraftlog.pipeline.shares import Stretch as ShareStretch
from kraftlog.pipeline.standing import Standing, outline_from
from kraftlog.state.arrow_events import Event, events_of, in_offset_order
from kraftlog.state.outline import PARTITION_TYPES, Outline, Outliner
from kraftlog.state.replay import Replay
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import AddedFile

StartSpark = Callable[[], SparkSession]

ROWS_PER_SHARE = 1_500_000
"""So many log records are folded at a time, in about 1 GB; a log of fewer needs no Spark job."""
_WITHOUT_EFFECT = frozenset({"NO_OP_RECORD", "ZK_MIGRATION_STATE_RECORD"})


@dataclass(slots=True)
class States:
    """Folds lineages of one lake; `written` gathers the files of each table.

    `grown_from` is the offset up to which the lake holds the shared lineage's partitions already.
    Rows that were read once are kept in `known`: lineages share most of theirs. `forks` holds the
    replay of the shared lineage as it stood where another one departs from it.
    """

    lake: Lake
    run_id: str
    start_spark: StartSpark
    comparisons: Comparisons
    grown_from: int | None = None
    written: dict[str, list[AddedFile]] = field(default_factory=lambda: defaultdict(list))
    known: dict[tuple[str, str], pa.Table] = field(default_factory=dict)
    sources: dict[str, tuple[ds.Dataset, list[str]]] = field(default_factory=dict)
    forks: dict[str, Outliner] = field(default_factory=dict)

    def fold(self, lineages: list[Lineage]) -> None:
        """Fold every stretch of every lineage that tells something which `main` does not."""
        forking = {one.name: one.fork_offset for one in lineages if one.fork_offset}
        with scratch_folder(self.lake) as folder, ThreadPoolExecutor(1) as ahead:
            for lineage in lineages:
                for stretch in stretches(lineage):
                    if stretch.is_last or stretch.end_offset > lineage.fork_offset:
                        share = self._share_stretch(lineage, stretch)
                        # Spark lays partitions out while the driver replays the small tables.
                        laid = ahead.submit(lay_out, share, folder, self.start_spark)
                        outline = self._small_tables(lineage, stretch, forking)
                        self._partitions(lineage, stretch, outline, folder, laid.result())

    def _small_tables(self, lineage: Lineage, stretch: Stretch, forking: dict[str, int]) -> Outline:
        outliner, links = self._begun(lineage, stretch)
        last_ms = outliner.outline.start_timestamp
        at = self._on_the_way(lineage, stretch, outliner, forking)
        for event in self._events(_ids(links)):
            while at and (event.origin.offset or 0) >= at[0][0]:
                at.pop(0)[1]()
            outliner.feed(event)
            last_ms = event.origin.timestamp
        for _, act in at:
            act()
        closes = () if stretch.is_last else (stretch.end_offset + 1, last_ms)
        outline = outliner.finish(*closes)
        for name, part in outliner.history.rows():
            if name != "partitions":
                rows = since(pa.Table.from_batches([part]), lineage.fork_offset)
                self._take(write_history(self.lake, name, lineage.name, rows))
        told = [
            one
            for one in outliner.replay.faults
            if one.origin.offset is None or one.origin.offset >= lineage.fork_offset
        ]
        self._take(write_faults(self.lake, fault_rows(self.run_id, lineage.name, told)))
        return outline

    def _begun(self, lineage: Lineage, stretch: Stretch) -> tuple[Outliner, pa.Table]:
        """An outliner of the stretch's beginning, and the links that it has yet to be fed."""
        fork = self.forks.get(lineage.name)
        if fork is not None and stretch.start_offset < lineage.fork_offset <= stretch.end_offset:
            fork.outline.end_offset = stretch.end_offset
            ends = stretch.links.column("end_offset")
            return fork, stretch.links.filter(pc.greater(ends, lineage.fork_offset))
        base = stretch.base
        timestamp = (base.last_contained_timestamp if base else None) or 0
        outliner = Outliner(stretch.start_offset, timestamp, stretch.end_offset)
        if base is not None:
            for event in self._events(base_ids_of(stretch)):
                outliner.base(event)
        return outliner, stretch.links

    def _on_the_way(
        self, lineage: Lineage, stretch: Stretch, outliner: Outliner, forking: dict[str, int]
    ) -> list[tuple[int, Callable[[], None]]]:
        """What is to be done when a replay of the shared lineage has reached an offset."""
        if lineage.name != MAIN:
            return []
        begin = max(stretch.start_offset, self.grown_from or 0)
        judged = self.comparisons.within(begin, stretch.end_offset)
        acts = [(one.end_offset, partial(self._compare, one, outliner, stretch)) for one in judged]
        for name, offset in forking.items():
            if stretch.start_offset < offset <= stretch.end_offset:
                acts.append((offset, partial(self._fork, name, outliner)))
        return sorted(acts, key=lambda act: act[0])

    def _fork(self, name: str, outliner: Outliner) -> None:
        twin = outliner.fork()
        if twin is not None:
            self.forks[name] = twin

    def _judged(self, lineage: Lineage, start: int, end: int) -> tuple[Judged, ...]:
        """The snapshots that are held against this part of the shared lineage."""
        return self.comparisons.within(start, end) if lineage.name == MAIN else ()

    def _compare(self, judged: Judged, outliner: Outliner, stretch: Stretch) -> None:
        """Keep the small tables as they stand, and as the snapshot has them."""
        snapshot = Replay()
        for event in self._events(judged.ids):
            apply = snapshot.apply_control if event.is_control else snapshot.apply
            apply(event.origin, event.data)
        base = "the log from offset 0 on"
        if stretch.base is not None:
            base = f"{stretch.base.evidence.name} of {stretch.base.replica} and the log after it"
        self.comparisons.expected[judged.number] = outliner.replay.state.fork()
        self.comparisons.found[judged.number] = snapshot.state
        self.comparisons.basis[judged.number] = f"the replay of {base}"

    def _events(self, ids: pa.Array) -> Iterator[Event]:
        """All records of some batches but those of partitions, in offset order."""
        streams = []
        for table, is_control in (("records", False), ("control_records", True)):
            for kind in self._source(table)[1]:
                if kind not in PARTITION_TYPES | _WITHOUT_EFFECT:
                    streams.append(events_of(self._rows(table, kind, ids), is_control))
        return in_offset_order(streams)

    def _source(self, table: str) -> tuple[ds.Dataset, list[str]]:
        """A table as a dataset, and the record types that it holds."""
        if table not in self.sources:
            types = sorted({one["type"] for one in self.lake.open(table).partitions()})
            self.sources[table] = self.lake.dataset(table), types
        return self.sources[table]

    def _rows(self, table: str, kind: str, ids: pa.Array) -> pa.Table:
        """The records of one type that lie in some batches, in offset order."""
        at = table, kind
        if at not in self.known:
            source, _ = self._source(table)
            names = [name for name in row_schema(kind).names if name in source.schema.names]
            rows = source.to_table(columns=names, filter=ds.field("type") == kind)
            self.known[at] = rows.sort_by([("offset", "ascending")])
        rows = self.known[at]
        return rows.filter(pc.is_in(rows.column("batch_id"), value_set=ids))

    def _partitions(
        self, lineage: Lineage, stretch: Stretch, outline: Outline, folder: str, laid: Laid
    ) -> None:
        """Fold the partitions, from known history where there is some."""
        found = laid.stretch.standing
        follows = outline if found is None else outline_from(outline, found.offset)
        if follows is None:
            whole = self._whole_stretch(lineage, stretch)
            laid, follows = lay_out(whole, folder, self.start_spark), outline
        folded = fold_stretch(laid, follows, self.start_spark)
        self._take(folded.written)
        for one in folded.differing:
            self.comparisons.take(one)

    def _share_stretch(self, lineage: Lineage, stretch: Stretch) -> ShareStretch:
        """What is to be folded, on top of known history where there is some."""
        found = self._standing(lineage, stretch)
        if found is None:
            return self._whole_stretch(lineage, stretch)
        return self._stretch_from(lineage, stretch, found.offset, None, found)

    def _whole_stretch(self, lineage: Lineage, stretch: Stretch) -> ShareStretch:
        base_ids = base_ids_of(stretch) if stretch.base is not None else None
        return self._stretch_from(lineage, stretch, stretch.start_offset, base_ids, None)

    def _stretch_from(
        self,
        lineage: Lineage,
        stretch: Stretch,
        start: int,
        base_ids: pa.Array | None,
        found: Standing | None,
    ) -> ShareStretch:
        links = stretch.links
        links = links.filter(pc.greater(links.column("end_offset"), start))
        judged = self._judged(lineage, start, stretch.end_offset)
        return ShareStretch(
            self.lake,
            self.run_id,
            lineage.name,
            sources_of(self.lake, start, stretch.end_offset, base_ids, judged),
            _ids(links),
            base_ids,
            found,
            lineage.fork_offset,
            judged,
            max(0, stretch.end_offset - start) // ROWS_PER_SHARE + 1,
        )

    def _standing(self, lineage: Lineage, stretch: Stretch) -> Standing | None:
        """Known history from which the fold of a stretch can go on."""
        if lineage.name == MAIN:
            if self.grown_from is None or not stretch.is_last:
                return None
            return Standing(self.grown_from, self._files_of_main(current=True))
        if not stretch.start_offset < lineage.fork_offset <= stretch.end_offset:
            return None
        written = [one for one in self.written["partitions"] if _is_of(one, MAIN)]
        paths = tuple(f"{self.lake.path('partitions')}/{one.path}" for one in written)
        if self.grown_from is not None:
            paths += self._files_of_main(current=False)
        return Standing(lineage.fork_offset, paths)

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


def _is_of(file: AddedFile, lineage: str) -> bool:
    return file.partition_values["lineage"] == lineage


def _ids(links: pa.Table) -> pa.Array:
    return links.column("batch_id").combine_chunks()
