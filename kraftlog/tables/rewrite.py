"""Parquet files of one table → fewer, with the same rows, or without those of some batches or
runs.

In: files as `Lake.files` tells them. Out: a `Rewritten` per group of files that have the same
partition values and slices: what to add, and what it takes the place of; or its commit. Rows that lie
by slices go on to (see `parquet.write_file`). Memory is that of one group.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.relations import Row
from kraftlog.tables.lake import Lake, Rewritten, partition_texts
from kraftlog.tables.parquet import open_parquet, slices_of, write_file
from kraftlog.tables.spec import TableSpec


def merged_files(
    table_path: str, files: Sequence[tuple[Row, Row]], least: int, most_bytes: int
) -> Iterator[Rewritten]:
    """One file for each group of at least so many; several where it would hold more bytes of files
    than `most_bytes`.
    """
    sizes = {file["path"]: int(file["size_bytes"]) for file, _ in files}
    for (values, _), paths in _groups(table_path, files).items():
        if len(paths) >= least:
            for some in _bounded(paths, sizes, most_bytes):
                yield _rewritten(table_path, dict(values), some, None)


def _bounded(paths: list[str], sizes: Mapping[str, int], most_bytes: int) -> Iterator[list[str]]:
    """Neighbours of so many bytes together; none that would stay alone."""
    some: list[str] = []
    held = 0
    for path in paths:
        if some and held + sizes[path] > most_bytes:
            yield from [some] if len(some) > 1 else []
            some, held = [], 0
        some.append(path)
        held += sizes[path]
    yield from [some] if len(some) > 1 else []


class Without(NamedTuple):
    """Rows that are to go: those that have one of some values in a column."""

    column: str
    values: pa.Array

    def found_in(self, rows: pa.Table) -> pa.ChunkedArray:
        """For each row whether it goes."""
        return pc.is_in(rows.column(self.column), self.values)


def take_out(lake: Lake, spec: TableSpec, gone: Without) -> None:
    """Take rows out of a table: each file that holds some of them is written anew without them."""
    path, done = lake.path(spec.name), list[Rewritten]()
    for file, values in lake.files(spec.name):
        with open_parquet(f"{path}/{file['path']}") as source:
            held = source.read(columns=[gone.column])
        if pc.any(gone.found_in(held), min_count=0).as_py():
            done.append(_rewritten(path, partition_texts(values), [file["path"]], gone))
    if done:
        lake.replace(spec, done, is_data=True)


_Group = tuple[tuple[tuple[str, str | None], ...], int]


def _groups(table_path: str, files: Iterable[tuple[Row, Row]]) -> dict[_Group, list[str]]:
    """Paths by their partition values and their number of slices."""
    found: dict[_Group, list[str]] = defaultdict(list)
    for file, values in sorted(files, key=lambda one: one[0]["modification_time"]):
        with open_parquet(f"{table_path}/{file['path']}") as source:
            count, _ = slices_of(source.metadata)
        found[tuple(partition_texts(values).items()), count].append(file["path"])
    return found


def _rewritten(
    table_path: str, values: dict[str, str | None], paths: list[str], gone: Without | None
) -> Rewritten:
    slices: dict[int, list[pa.Table]] = defaultdict(list)
    count = 1
    for path in paths:
        with open_parquet(f"{table_path}/{path}") as file:
            count, held = slices_of(file.metadata)
            for group, number in enumerate(held):
                rows = file.read_row_group(group)
                if gone is not None:
                    rows = rows.filter(pc.invert(gone.found_in(rows)))
                slices[number].append(rows)
    parts = [_joined(slices[one]) for one in sorted(slices)]
    rows = pa.concat_tables(parts, promote_options="permissive") if parts else None
    if rows is None or not rows.num_rows:
        return Rewritten(None, tuple(paths))
    sizes = [sum(part.num_rows for part in slices[number]) for number in range(count)]
    added = write_file(table_path, rows, values, sizes if count > 1 else ())
    return Rewritten(added, tuple(paths))


def _joined(parts: list[pa.Table]) -> pa.Table:
    """Rows as one table; in the order of their offsets, where they have any."""
    rows = pa.concat_tables(parts, promote_options="permissive")
    return rows.sort_by("offset") if "offset" in rows.column_names else rows
