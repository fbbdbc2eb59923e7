"""The partitions' history, share by share: all records of a partition are of one share, which is
folded by columns.

In: the ids of the batches that count, what stood before them, and an outline. Out: Parquet files of
the tables `partitions` and `replay_faults`. Records that fit one share are folded in this process.
Of more than that, Spark's tasks first lay every file's records out by share, in files below the
lake, and then fold one share each: a shuffle of nested rows through the JVM took minutes for 1.9
million records where this takes seconds.
"""

import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from kraftlog.pipeline.comparisons import Judged, differing_partitions, kind_of
from kraftlog.pipeline.histories import fault_rows, since, write_faults, write_history
from kraftlog.pipeline.scan import SCAN, added_row
from kraftlog.pipeline.standing import (
    CHANGE,
    PUT,
    RECORD_COLUMNS,
    Standing,
    as_base,
    no_rows,
    with_origins,
)
from kraftlog.state.fold import fold_partitions
from kraftlog.state.outline import Outline
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import AddedFile, filesystem_of

BASE, STANDING = "base", "standing"

Tables = dict[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Source:
    """A Parquet file of `records`, and what it is read for: PUT and CHANGE of the log, BASE, or a
    snapshot that is judged.
    """

    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """What all shares of one stretch have in common; pickles.

    `standing` takes the place of the base snapshot where a fold goes on from known history.
    """

    lake: Lake
    run_id: str
    lineage: str
    sources: tuple[Source, ...]
    log_ids: pa.Array
    base_ids: pa.Array | None
    standing: Standing | None
    fork_offset: int
    judged: tuple[Judged, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Folded:
    """The files that wait for their commit, by table, and what differs in judged snapshots."""

    written: list[tuple[str, AddedFile]]
    differing: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Laid:
    """The rows of a stretch: files per share, or in memory where one share is all."""

    stretch: Stretch
    tables: Tables
    shares: tuple[tuple[str, ...], ...] = ()


@contextmanager
def scratch_folder(lake: Lake) -> Iterator[str]:
    """A folder below the lake for the files of shares; made when the first of them is written, and
    deleted in the end, whatever happens.
    """
    folder = f"{lake.root.rstrip('/')}/_shares-{uuid.uuid4()}"
    try:
        yield folder
    finally:
        filesystem, path = filesystem_of(folder)
        filesystem.delete_dir_contents(path, missing_dir_ok=True)
        if filesystem.get_file_info(path).type == pafs.FileType.Directory:
            filesystem.delete_dir(path)


def lay_out(stretch: Stretch, folder: str, start_spark: Callable[[], SparkSession]) -> Laid:
    """Read what is to be folded; of more than one share by Spark's tasks, into files of a
    folder.
    """
    inputs = _inputs(stretch)
    if stretch.count == 1:
        return Laid(stretch, _together([_read(stretch, one) for one in inputs]))
    filesystem, path = filesystem_of(folder)
    filesystem.create_dir(path, recursive=True)
    laid = _mapped(start_spark(), len(inputs), partial(_lay_out, stretch, folder, inputs))
    paths: dict[int, list[str]] = defaultdict(list)
    for _, path, share in laid:
        paths[share].append(path)
    shares = tuple(tuple(paths.get(share, ())) for share in range(stretch.count))
    return Laid(stretch, {}, shares)


def fold_stretch(laid: Laid, outline: Outline, start_spark: Callable[[], SparkSession]) -> Folded:
    """Fold what was laid out."""
    stretch = laid.stretch
    if stretch.count == 1:
        return _fold(stretch, outline, laid.tables)
    work = partial(_fold_share, stretch, outline, laid.shares)
    folded = _mapped(start_spark(), stretch.count, work)
    return Folded(
        [(name, AddedFile.from_json(told)) for name, told, _ in folded if name != _DIFFERING],
        [json.loads(told) for name, told, _ in folded if name == _DIFFERING],
    )


_DIFFERING = "differing"


Row = tuple[str, str, int]


def _mapped(spark: SparkSession, count: int, work: Callable[[int], Iterable[Row]]) -> list[Row]:
    """Run one task per number, and gather the rows of SCAN that tell what each has written."""

    def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbered in numbers:
            for number in numbered.column(0).to_pylist():
                for table, added, row_count in work(number):
                    yield added_row(table, added, row_count)
        yield from SCAN.empty_table().to_batches()

    rows = spark.range(0, count, 1, count).mapInArrow(task, from_arrow_schema(SCAN))
    return [(row["table"], row["added"], row["row_count"]) for row in rows.collect()]


def _inputs(stretch: Stretch) -> list[Source | None]:
    """What is to be read; None stands for the history before."""
    return [*stretch.sources, *([None] if stretch.standing is not None else [])]


def _read(stretch: Stretch, source: Source | None) -> tuple[str, pa.Table]:
    """The rows of one input that belong to the stretch."""
    if source is None:
        assert stretch.standing is not None
        return STANDING, stretch.standing.rows()
    record_type = CHANGE if source.kind == CHANGE else PUT
    ids = {BASE: stretch.base_ids} | {kind_of(one): one.ids for one in stretch.judged}
    filesystem, path = filesystem_of(source.path)
    wanted = ["batch_id", *RECORD_COLUMNS, record_type.lower()]
    rows = pq.read_table(
        path, columns=wanted, filesystem=filesystem, read_dictionary=["batch_id"], partitioning=None
    )
    rows = rows.filter(_is_in(rows.column("batch_id"), ids.get(source.kind, stretch.log_ids)))
    return source.kind, rows.drop_columns(["batch_id"])


def _is_in(column: pa.ChunkedArray, ids: pa.Array) -> pa.ChunkedArray:
    """Whether each value is one of the ids: asked once per distinct value."""
    chunks = []
    for chunk in column.chunks:
        known = pc.is_in(chunk.dictionary, value_set=ids)
        chunks.append(known.take(chunk.indices))
    return pa.chunked_array(chunks, pa.bool_())


def _lay_out(stretch: Stretch, folder: str, inputs: list[Source | None], at: int) -> Iterator[Row]:
    """Write the rows of one input to a file per share."""
    kind, rows = _read(stretch, inputs[at])
    share = _share_of(kind, rows, stretch.count)
    order = np.argsort(share, kind="stable")
    ends = np.searchsorted(share[order], np.arange(stretch.count + 1))
    for number in range(stretch.count):
        chosen = order[ends[number] : ends[number + 1]]
        if len(chosen):
            path = f"{folder}/{kind}-{number}-{uuid.uuid4()}.arrow"
            _write_rows(path, rows.take(chosen))
            yield kind, path, number


def _share_of(kind: str, rows: pa.Table, count: int) -> np.ndarray:
    """The share of each row, by its partition."""
    if kind == STANDING:
        topics, partitions = rows.column("topic_id"), rows.column("partition_id")
    else:
        payload = rows.column(CHANGE.lower() if kind == CHANGE else PUT.lower())
        topics, partitions = (
            pc.struct_field(payload, name) for name in ("topic_id", "partition_id")
        )
    encoded = pa.chunked_array(topics).combine_chunks().dictionary_encode()
    codes = [google_crc32c.value(str(one).encode()) for one in encoded.dictionary.to_pylist()]
    of_topic = np.array([*codes, 0], np.int64)
    indexes = encoded.indices.fill_null(len(codes)).to_numpy(zero_copy_only=False)
    numbers = partitions.fill_null(0).to_numpy()
    shares: np.ndarray = (of_topic[indexes] + numbers) % count
    return shares


def _write_rows(path: str, rows: pa.Table) -> None:
    filesystem, inner = filesystem_of(path)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with (
        filesystem.open_output_stream(inner) as stream,
        pa.ipc.new_file(stream, rows.schema, options=options) as writer,
    ):
        writer.write_table(rows)


def _fold_share(
    stretch: Stretch, outline: Outline, shares: tuple[tuple[str, ...], ...], share: int
) -> Iterator[Row]:
    """Fold the rows that were laid out for one share."""
    parts = []
    for path in shares[share]:
        filesystem, inner = filesystem_of(path)
        with filesystem.open_input_file(inner) as file, pa.ipc.open_file(file) as reader:
            parts.append((inner.rsplit("/", 1)[1].split("-")[0], reader.read_all()))
    folded = _fold(stretch, outline, _together(parts))
    # The worker stays; what it does not need now, the driver may need later.
    pa.default_memory_pool().release_unused()
    for table, added in folded.written:
        yield table, added.to_json(), 0
    for one in folded.differing:
        yield _DIFFERING, json.dumps(one), 0


def _together(parts: list[tuple[str, pa.Table]]) -> Tables:
    """The rows of each kind as one table."""
    gathered: dict[str, list[pa.Table]] = defaultdict(list)
    for kind, rows in parts:
        gathered[kind].append(rows)
    return {kind: pa.concat_tables(tables) for kind, tables in gathered.items()}


def _fold(stretch: Stretch, outline: Outline, tables: Tables) -> Folded:
    base = tables.get(BASE)
    standing = tables.get(STANDING)
    if base is not None:
        base = base.sort_by("offset")
    if standing is not None:
        base = as_base(standing)
    puts, changes = (tables.get(kind, no_rows(kind)) for kind in (PUT, CHANGE))
    folded = fold_partitions(outline, base, puts, changes)
    rows = folded.rows
    if standing is not None:
        rows = with_origins(rows, standing, outline.start_offset)
    found = (
        differing_partitions(rows, tables.get(kind_of(one), no_rows(PUT)), one)
        for one in stretch.judged
    )
    differing = [one for one in found if one is not None]
    rows = since(rows, stretch.fork_offset)
    faults = fault_rows(stretch.run_id, stretch.lineage, folded.faults)
    written = write_history(stretch.lake, "partitions", stretch.lineage, rows)
    return Folded(written + write_faults(stretch.lake, faults), differing)


def sources_of(
    lake: Lake, low: int, end: int, base_ids: pa.Array | None, judged: tuple[Judged, ...]
) -> tuple[Source, ...]:
    """The files of `records` that may hold partitions' records of offsets [low, end), by their
    statistics; and those with records of the base snapshot, and of the judged ones.
    """
    found = []
    snapshots = {kind_of(one): one.ids for one in judged}
    if base_ids is not None:
        snapshots[BASE] = base_ids
    for file, values in lake.files("records"):
        path = f"{lake.path('records')}/{file['path']}"
        if values["type"] not in (PUT, CHANGE):
            continue
        least, most = file.get("min.offset"), file.get("max.offset")
        if least is None or most is None or (least < end and most >= low):
            found.append(Source(values["type"], path))
        if values["type"] == PUT and snapshots:
            held = _batches_in(path)
            found += [
                Source(kind, path)
                for kind, ids in snapshots.items()
                if pc.any(pc.is_in(ids, value_set=held), min_count=0).as_py()
            ]
    return tuple(found)


def _batches_in(path: str) -> pa.Array:
    """The batches that a file holds records of."""
    filesystem, inner = filesystem_of(path)
    rows = pq.read_table(
        inner,
        columns=["batch_id"],
        filesystem=filesystem,
        partitioning=None,
        read_dictionary=["batch_id"],
    )
    return pc.unique(rows.column("batch_id").cast(pa.string()))
