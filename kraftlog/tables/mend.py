"""A damaged lake → one that the next steps make whole: what others have written into it is undone,
what is broken is taken out of the tables, and whatever is not there is written again from the input.

In: `Damage`s, under our lease. Out: what is `Taken` out of the lake: record batches that are to be
decoded again, and rows of runs, of which only those of the last can be told again.
Tables of contents keep every batch that they still hold in full, as the disks may not hold it any
more; tables of what is, and of what follows, are told anew; tables that hold rows per run keep
those of earlier runs that are left.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.relations import Row
from kraftlog.tables.damage import Damage
from kraftlog.tables.lake import Lake, Rewritten, held_by_all
from kraftlog.tables.parquet import lake_filesystem, write_file
from kraftlog.tables.rewrite import Without, take_out
from kraftlog.tables.spec import CONTENT, PER_RUN, RUN_ID, TableSpec, decoded_tables

CONTENTS = ("records", "control_records", "record_faults", "contents")
ON_DISKS = ("files", "batches", "faults")
_NO_IDS = pa.array([], pa.string())


class Taken(NamedTuple):
    """What a lake has lost: the ids of the contents that are no longer stored in full; by table, the
    ids of the runs whose rows may be among those that are gone; the numbers of runs of which that is
    so in the table of runs itself.
    """

    contents: pa.Array
    runs: Mapping[str, frozenset[str]]
    numbers: frozenset[int]


def mend(lake: Lake, found: Sequence[Damage], number: int) -> Taken:
    """Take out what is broken; `number` is that of the last run."""
    for one in found:
        if one.whole is not None:
            lake.set_back(one.table, one.whole)
    found = [one for one in found if one.whole is None or one.lost]
    runs, numbers = {}, frozenset[int]()
    for damage in sorted(found, key=lambda one: one.table != "runs"):
        spec = damage.spec
        if spec.name == "runs":
            numbers = _may_be_lost(lake, damage, "number", range(1, number + 1))
        elif spec.mode == PER_RUN:
            known = lake.rows("runs", [RUN_ID.name]) if lake.exists("runs") else None
            ids = [] if known is None else known.column(0).to_pylist()
            runs[spec.name] = _may_be_lost(lake, damage, RUN_ID.name, ids)
        if not damage.has_log:
            lake.begin_again(spec, number if spec.mode == CONTENT or spec.name == "runs" else 0)
        elif spec.mode == CONTENT or spec.name == "runs":
            if damage.lost:
                lake.replace(spec, [Rewritten(None, tuple(damage.lost))], is_data=True)
            lake.mark(spec, number)
        elif spec.mode == PER_RUN:
            _keep_earlier_runs(lake, spec, damage.lost, number)
        else:
            lake.empty(spec)
    names = {one.table for one in found}
    if not names & set(decoded_tables()):
        return Taken(_NO_IDS, runs, numbers)
    # Without these the next run reads every file again, and says anew what lies on the disks.
    for name in ON_DISKS:
        if lake.exists(name):
            lake.empty(decoded_tables()[name], number)
    return Taken(_forget_incomplete(lake) if names & set(CONTENTS) else _NO_IDS, runs, numbers)


def _may_be_lost(lake: Lake, damage: Damage, column: str, values: Iterable[Any]) -> frozenset[Any]:
    """Those of some values of a column that the files may hold which cannot be read any more: all,
    where the table's log does not tell.
    """
    if not damage.is_log_whole or not damage.lost or damage.whole is not None:
        return frozenset(values)
    lost = [file for file, _ in lake.files(damage.table) if file["path"] in damage.lost]
    bounds = [[file.get(f"{end}.{column}") for end in ("min", "max")] for file in lost]
    return frozenset(
        one
        for one in values
        for low, high in bounds
        if (one if low is None else low) <= one <= (one if high is None else high)
    )


def _keep_earlier_runs(lake: Lake, spec: TableSpec, lost: frozenset[str], number: int) -> None:
    """The rows of the last run are written again by its steps, as far as some are lost: if the input
    has grown, they are not, and those of other runs never are.
    """
    runs = {row["number"]: row["run_id"] for row in lake.rows("runs").to_pylist()}
    last = runs.get(number, "")
    filesystem, folder = lake_filesystem(lake.path(spec.name))
    parts: dict[bool, list[Row]] = {True: [], False: []}
    for file, values in lake.files(spec.name):
        parts[file["path"] in lost].append(held_by_all(file, values) | {"path": file["path"]})
    whole = [f"{folder}/{one['path']}" for one in parts[False]]
    source = ds.dataset(whole, schema=spec.schema, filesystem=filesystem, format="parquet")
    rows = source.to_table()
    of_last = pc.equal(rows.column(RUN_ID.name), last)
    # What a run writes of a table goes from file to file together.
    is_whole = pc.any(of_last).as_py() and all(one.get(RUN_ID.name) != last for one in parts[True])
    if not is_whole:
        rows = rows.filter(pc.invert(of_last))
    added = [write_file(lake.path(spec.name), rows)] if rows.num_rows else []
    lake.empty(spec, number if is_whole else number - 1, added)


def _forget_incomplete(lake: Lake) -> pa.Array:
    """Take every batch that is not stored in full out of all tables of contents."""
    for name in CONTENTS:
        lake.ensure(decoded_tables()[name])
    ids = _incomplete(lake)
    if len(ids):
        forget_contents(lake, ids)
    return ids


def forget_contents(lake: Lake, ids: pa.Array) -> None:
    """Take some batches out of all tables of contents: the next run decodes what the disks hold of
    them.
    """
    for name in CONTENTS:
        take_out(lake, decoded_tables()[name], Without("batch_id", ids))


def _incomplete(lake: Lake) -> pa.Array:
    """The ids of batches of which a table holds fewer or more rows than their header says, or that
    only some tables know. Where a record could not be read nobody can tell: such batches count.
    """
    declared = _rows_of(lake, "contents", ["batch_id", "record_count"])
    stored = pa.concat_tables([_counted(lake, name) for name in ("records", "control_records")])
    stored = stored.group_by("batch_id").aggregate([("rows", "sum")])
    faulty = pc.unique(_rows_of(lake, "record_faults", ["batch_id"]).column("batch_id"))
    ids = declared.column("batch_id").combine_chunks()
    counts = stored.column("rows_sum").combine_chunks()
    place = pc.index_in(ids, value_set=stored.column("batch_id").combine_chunks())
    held = np.where(
        place.is_valid().to_numpy(zero_copy_only=False),
        counts.take(place).fill_null(0).to_numpy(zero_copy_only=False),
        0,
    )
    wrong = ids.filter(pa.array(held != declared.column("record_count").to_numpy()))
    known = pc.is_in(stored.column("batch_id"), value_set=ids)
    strangers = stored.column("batch_id").filter(pc.invert(known)).combine_chunks()
    return pc.unique(pa.concat_arrays([wrong, strangers, faulty]))


def _counted(lake: Lake, name: str) -> pa.Table:
    """How many rows of each batch a table holds."""
    rows = _rows_of(lake, name, ["batch_id"])
    counted = rows.group_by("batch_id").aggregate([([], "count_all")])
    return counted.rename_columns(["batch_id", "rows"])


def _rows_of(lake: Lake, name: str, columns: list[str]) -> pa.Table:
    return lake.bare_dataset(name).to_table(columns=columns)
