"""The lives of the objects of a lake's history tables. Driver side.

In: a lake, and the shared lineage as it is now. Out: `Lives` per table. What a run has kept of
versions that had ended counts as long as that lineage has only grown since: the next one reads
versions that have ended later, and those that still hold.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftlog.metrics.known_lives import ENDED_VERSIONS, OBJECT_LIVES, known_lives
from kraftlog.metrics.lives import KEYS, VALIDITY, Gathered
from kraftlog.metrics.objects import Ends, Lives
from kraftlog.pipeline.lineage_digests import grown_from
from kraftlog.pipeline.run import last_writer
from kraftlog.quorum.evidence import Longs
from kraftlog.quorum.lineages import MAIN, Lineage
from kraftlog.state.window import ahead
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import open_parquet

LIVES_TABLE, ENDS_TABLE = "object_lives", "ended_versions"
KEPT = (LIVES_TABLE, ENDS_TABLE)
_RECORD, _END = "record_offset", "valid_to_offset"


@dataclass(frozen=True, slots=True)
class ObjectLives:
    """The lives by history table. The lake keeps those of versions that ended up to the offset
    `known_until`; None: of none.
    """

    by_table: dict[str, Lives]
    known_until: int | None


def lives_of(lake: Lake, main: Lineage) -> ObjectLives:
    """The lives of the shared lineage's objects."""
    known_until = grown_from(lake, main, LIVES_TABLE) if last_writer(lake, *KEPT) else None
    if known_until is None:
        return ObjectLives({name: _lives(lake, Gathered(name), -1) for name in KEYS}, None)
    lives, ends = lake.rows(LIVES_TABLE, OBJECT_LIVES.names), _ends(lake)
    found = {
        name: _lives(lake, known_lives(name, _of_kind(lives, name), ends.pop(name)), known_until)
        for name in KEYS
    }
    return ObjectLives(found, known_until)


def _of_kind(rows: pa.Table, name: str) -> pa.Table:
    return rows.filter(pc.equal(rows.column("object_kind"), name))


def _ends(lake: Lake) -> dict[str, list[Ends]]:
    """The kept ends of versions, by history table, each part in order: one for a row group's worth
    of rows, whatever many runs' rows were merged there.
    """
    kind, *columns = ENDED_VERSIONS.names
    parts: dict[str, list[Ends]] = {name: [] for name in KEYS}
    for file, _ in lake.files(ENDS_TABLE):
        with open_parquet(f"{lake.path(ENDS_TABLE)}/{file['path']}", [kind]) as source:
            for rows in source.iter_batches(1 << 20, columns=ENDED_VERSIONS.names):
                for name, places in _by_text(rows.column(kind)):
                    numbers = (rows.column(one).to_numpy() for one in columns)
                    parts[name].append(Ends.in_order(*(one[places] for one in numbers)))
    return parts


def _by_text(coded: pa.DictionaryArray) -> Iterator[tuple[str, slice | Longs]]:
    """The places of each text; a slice, where they follow each other."""
    codes = coded.indices.to_numpy()
    for code in np.flatnonzero(np.bincount(codes)):
        places = np.flatnonzero(codes == code)
        first, last = int(places[0]), int(places[-1])
        is_slice = last - first + 1 == len(places)
        yield coded[first].as_py(), slice(first, last + 1) if is_slice else places


def _lives(lake: Lake, gathered: Gathered, known_until: int) -> Lives:
    """The lives of one table, of which versions that ended so early are gathered already."""
    files = _files(lake, gathered.table, known_until)
    for rows in ahead(map(partial(_rows, gathered.table, known_until), files)):
        gathered.add(rows)
    return gathered.lives()


def _files(lake: Lake, name: str, known_until: int) -> Iterator[str]:
    """The files of a table that may hold versions that are to be read."""
    for file, values in lake.files(name):
        last = file.get(f"max.{_END}")
        if values["lineage"] == MAIN and (
            values["is_current"] or last is None or last > known_until
        ):
            yield f"{lake.path(name)}/{file['path']}"


def _rows(name: str, known_until: int, path: str) -> pa.Table:
    """When the versions of a file held, and of what; ids that many versions share stay codes of a
    dictionary.
    """
    keys = KEYS[name]
    with open_parquet(path, [one for one in keys if one == "topic_id"]) as file:
        columns = [one for one in (*VALIDITY, *keys) if one != _RECORD or _has_nulls(file)]
        rows = file.read(columns=columns, use_threads=False)
    if known_until < 0:
        return rows
    is_new = pc.greater(rows.column(_END), known_until)
    return rows.filter(pc.fill_null(is_new, True))


def _has_nulls(file: pq.ParquetFile) -> bool:
    """Whether a version of a file may stand in a base snapshot."""
    at = file.schema_arrow.names.index(_RECORD)
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    told = [group.column(at).statistics for group in groups]
    return any(one is None or one.null_count != 0 for one in told)
