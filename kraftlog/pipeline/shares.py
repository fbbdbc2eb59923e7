"""The partitions' history, share by share: all records of a partition are of one share, which is
folded by columns.

In: the ids of the batches that count, what stood before them, and an outline. Out: Parquet files of
the tables `partitions` and `replay_faults`. Records that fit one share are folded in this process;
of more than that Spark's tasks fold one share each. The files of `records` hold partitions' records
by slices, so that a share reads the row groups of its own slices and nothing else.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from kraftlog.audit.issues import Issues
from kraftlog.audit.watch import rules_after
from kraftlog.decode.slices import hashes_of
from kraftlog.pipeline.histories import (
    holds_at,
    replay_fault_rows,
    since,
    write_faults,
    write_history,
)
from kraftlog.pipeline.run import StartSpark
from kraftlog.pipeline.tasks import run_tasks
from kraftlog.state.fold import Applied, Led, Watch, fold_partitions
from kraftlog.state.history import history_tables
from kraftlog.state.outline import Outline
from kraftlog.state.versions import (
    CHANGE,
    PUT,
    RECORD_COLUMNS,
    as_base,
    holding_at,
    no_rows,
    with_origins,
)
from kraftlog.tables.lake import Lake, offset_bounds
from kraftlog.tables.parquet import AddedFile, lake_filesystem, open_parquet, slices_of

BASE, STANDING = "base", "standing"

Tables = dict[str, pa.Table]


@dataclass(frozen=True, slots=True)
class KnownVersions:
    """The versions that hold at `offset`: `known`, or in files of `partitions`."""

    offset: int
    paths: tuple[str, ...]
    known: pa.Table | None = None

    def rows(self) -> pa.Table:
        """The versions that hold at the offset."""
        schema = history_tables()["partitions"].schema
        if self.known is not None:
            return self.known.cast(schema)
        if not self.paths:
            return schema.empty_table()
        filesystem, _ = lake_filesystem(self.paths[0])
        files = [lake_filesystem(path)[1] for path in self.paths]
        source = ds.dataset(files, schema=schema, filesystem=filesystem, format="parquet")
        return source.to_table(filter=holds_at(self.offset))


@dataclass(frozen=True, slots=True)
class Source:
    """A Parquet file of `records`, and what it is read for: PUT and CHANGE of the log, or BASE."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class ShareStretch:
    """What all shares of one stretch have in common; pickles.

    `standing` takes the place of the base snapshot where a fold goes on from known history. What
    stands at the offsets `asked` comes back; with a `watch` the records are judged too.
    """

    lake: Lake
    run_id: str
    lineage: str
    sources: tuple[Source, ...]
    log_ids: pa.Array
    base_ids: pa.Array | None
    standing: KnownVersions | None
    fork_offset: int
    asked: tuple[int, ...]
    count: int
    watch: Watch | None


@dataclass(frozen=True, slots=True)
class FoldedShare:
    """The files that wait for their commit, by table, the versions that hold at each offset that
    was asked for, and what the rules have found; `holds_records`: there were records of the log.
    """

    written: list[tuple[str, AddedFile]]
    standing: dict[int, pa.Table]
    issues: Issues
    led: dict[int, list[Led]]
    holds_records: bool


def fold_stretch(stretch: ShareStretch, outline: Outline, start_spark: StartSpark) -> FoldedShare:
    """Fold the partitions of a stretch."""
    if stretch.count == 1:
        return _fold(stretch, outline, 0)
    work = partial(_fold_share, stretch, outline)
    folded = run_tasks(start_spark(), stretch.count, work)
    return _joined(folded)


def _joined(folded: list[FoldedShare]) -> FoldedShare:
    """What all shares have come to."""
    issues, led = Issues(), defaultdict[int, list[Led]](list)
    for one in folded:
        issues.merge(one.issues)
        for at, found in one.led.items():
            led[at] += found
    return FoldedShare(
        [file for one in folded for file in one.written],
        {at: pa.concat_tables([one.standing[at] for one in folded]) for at in folded[0].standing},
        issues,
        led,
        any(one.holds_records for one in folded),
    )


def shares_of(row_count: int, rows_per_share: int) -> int:
    """How many shares so many records are folded in: a power of two, as slices are."""
    return 1 << max(0, row_count // rows_per_share).bit_length()


def _fold_share(stretch: ShareStretch, outline: Outline, share: int) -> Iterator[FoldedShare]:
    folded = _fold(stretch, outline, share)
    # The worker stays; what it does not need now, the driver may need later.
    pa.default_memory_pool().release_unused()
    yield folded


def _read(stretch: ShareStretch, share: int) -> Tables:
    """The rows of a stretch that belong to a share, by what they are read for."""
    gathered: dict[str, list[pa.Table]] = defaultdict(list)
    of_base = [one for one in stretch.sources if one.kind == BASE]
    of_log = [one for one in stretch.sources if one.kind != BASE]
    for sources, ids in ((of_base, stretch.base_ids), (of_log, stretch.log_ids)):
        parts = [_read_source(one, share, stretch.count) for one in sources]
        for source, rows in zip(sources, of_batches(parts, ids), strict=True):
            gathered[source.kind].append(rows)
    found = {kind: pa.concat_tables(parts) for kind, parts in gathered.items()}
    if stretch.standing is not None:
        standing = stretch.standing.rows()
        topics, partitions = standing.column("topic_id"), standing.column("partition_id")
        found[STANDING] = _of_share(standing, topics, partitions, share, stretch.count)
    return found


def _read_source(source: Source, share: int, count: int) -> pa.Table:
    """The rows of one file that belong to a share. Texts that many rows share stay dictionaries."""
    payload = (CHANGE if source.kind == CHANGE else PUT).lower()
    texts = ("batch_id", f"{payload}.topic_id", f"{payload}.directories.list.element")
    wanted = ["batch_id", *RECORD_COLUMNS, payload]
    filesystem, path = lake_filesystem(source.path)
    with filesystem.open_input_file(path) as stream:
        told = pq.read_metadata(stream)
        present = {told.schema.column(at).path for at in range(told.num_columns)}
        repeated = [one for one in texts if one in present]
        file = pq.ParquetFile(stream, metadata=told, read_dictionary=repeated)
        slices, held = slices_of(told)
        common = min(slices, count)
        # One group at a time: Arrow cannot read several when texts in structs are dictionaries.
        groups = [
            file.read_row_group(at, columns=wanted, use_threads=count == 1)
            for at, one in enumerate(held)
            if (one - share) % common == 0
        ]
        rows = (
            pa.concat_tables(groups) if groups else file.schema_arrow.empty_table().select(wanted)
        )
    struct = rows.column(payload)
    topics, partitions = (pc.struct_field(struct, name) for name in ("topic_id", "partition_id"))
    return rows if common == count else _of_share(rows, topics, partitions, share, count)


def _of_share(
    rows: pa.Table, topics: pa.ChunkedArray, partitions: pa.ChunkedArray, share: int, count: int
) -> pa.Table:
    """The rows whose partitions belong to a share."""
    if count == 1:
        return rows
    numbers = partitions.fill_null(0).to_numpy().astype(np.int64)
    hashes = hashes_of(topics.combine_chunks(), numbers)
    return rows.filter(pa.array(hashes & (count - 1) == share))


def of_batches(parts: list[pa.Table], ids: pa.Array | None) -> Iterator[pa.Table]:
    """The rows of some batches, without their ids: asked once per distinct id of a part, of all
    parts together, and copied only where a part has others too.
    """
    dictionaries = [one.dictionary for part in parts for one in part.column("batch_id").chunks]
    if not parts:
        return
    known = pc.is_in(pa.concat_arrays([pa.array([], pa.string()), *dictionaries]), value_set=ids)
    flags, at = known.to_numpy(zero_copy_only=False), 0
    for part in parts:
        kept = [np.empty(0, np.bool_)]
        for chunk in part.column("batch_id").chunks:
            kept.append(flags[at + chunk.indices.to_numpy()])
            at += len(chunk.dictionary)
        wanted, part = np.concatenate(kept), part.drop_columns(["batch_id"])
        yield part if wanted.all() else part.filter(pa.array(wanted))


def _fold(stretch: ShareStretch, outline: Outline, share: int) -> FoldedShare:
    tables = _read(stretch, share)
    base = tables.get(BASE)
    standing = tables.get(STANDING)
    if base is not None:
        base = base.sort_by("offset")
    if standing is not None:
        base = as_base(standing)
    puts, changes = (tables.get(kind, no_rows(kind)) for kind in (PUT, CHANGE))
    folded = fold_partitions(outline, base, puts, changes, stretch.watch)
    rows = folded.rows
    if standing is not None:
        rows = with_origins(rows, standing, outline.start_offset)
    stands = {offset: holding_at(rows, offset) for offset in stretch.asked}
    rows = since(rows, stretch.fork_offset)
    faults = replay_fault_rows(stretch.run_id, stretch.lineage, folded.faults)
    written = write_history(stretch.lake, "partitions", stretch.lineage, rows)
    return FoldedShare(
        written + write_faults(stretch.lake, faults),
        stands,
        _judged(folded.applied) if stretch.watch is not None else Issues(),
        folded.led,
        puts.num_rows + changes.num_rows > 0,
    )


def _judged(applied: list[Applied]) -> Issues:
    """What the rules of the state say of records of the log."""
    issues = Issues()
    for one in applied:
        if one.origin.offset is not None:
            for told in rules_after(one):
                issues.add(one.origin.offset, told)
    return issues


def sources_of(lake: Lake, low: int, end: int, base_ids: pa.Array | None) -> tuple[Source, ...]:
    """The files of `records` that may hold partitions' records of offsets [low, end), by their
    statistics; and those with records of the base snapshot.
    """
    found = []
    for file, values in lake.files("records"):
        path = f"{lake.path('records')}/{file['path']}"
        if values["type"] not in (PUT, CHANGE):
            continue
        least, most = offset_bounds(file)
        if least < end and most >= low:
            found.append(Source(values["type"], path))
        if values["type"] == PUT and base_ids is not None:
            held = pc.is_in(base_ids, value_set=_batches_in(path))
            if pc.any(held, min_count=0).as_py():
                found.append(Source(BASE, path))
    return tuple(found)


def _batches_in(path: str) -> pa.Array:
    """The batches that a file holds records of."""
    with open_parquet(path, ["batch_id"]) as file:
        rows = file.read(columns=["batch_id"])
    dictionaries = [one.dictionary for one in rows.column("batch_id").chunks]
    return pa.concat_arrays([pa.array([], pa.string()), *dictionaries])
