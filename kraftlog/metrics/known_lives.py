"""What a run keeps of versions that have ended, so that the next one reads those alone that have
ended since: lives as rows, and back.

In: `Lives` by table. Out: rows of the tables `object_lives` and `ended_versions`; and `Gathered` of
them, to go on from. Of a life that goes on, what is kept ends where its last version began: that one
is read again.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.decode.tabular import repeated_text, timestamps
from kraftlog.metrics.lives import KEYS, Gathered, ms_of
from kraftlog.metrics.numbering import as_lists, of_lists
from kraftlog.metrics.objects import UNKNOWN_MS, Ends, Lives
from kraftlog.quorum.evidence import Flags, Longs
from kraftlog.relations import BOOL, LONG, TEXT, TIMESTAMP, column
from kraftlog.state.history import history_tables

OBJECT_KIND = column("object_kind", TEXT, "the history table that holds the objects")
OBJECT_LIVES = pa.schema(
    [
        OBJECT_KIND,
        column("key", pa.list_(TEXT), "the fields of the object's key"),
        column("began_offset", LONG, "where its first version began"),
        column("ended_offset", LONG, "where its last version that has ended did"),
        column("first_ended_offset", LONG, "where its first version ended"),
        column("last_began_offset", LONG, "where the last one began; null: the life goes on"),
        column("last_from", TIMESTAMP, "the time of that"),
        column("last_to", TIMESTAMP, "the time of the last one's end"),
        column("is_born_based", BOOL, "whether the first version stands in a base snapshot"),
        column("is_last_based", BOOL, "whether the last one does"),
        column("last_base_offset", LONG, "where the kind's newest version in one began; −1: none"),
    ]
)
ENDED_VERSIONS = pa.schema(
    [
        OBJECT_KIND,
        column("ended_offset", LONG, "where the version ended"),
        column(
            "before_ended_offset", LONG, "where the object's version before it did; −1: its first"
        ),
    ]
)


def life_rows(every: Mapping[str, Lives]) -> pa.Table:
    """Rows of `object_lives`."""
    parts = [_lives(name, one) for name, one in every.items()]
    return pa.concat_tables([OBJECT_LIVES.empty_table(), *parts])


def _lives(name: str, lives: Lives) -> pa.Table:
    gone = lives.gone
    kept = np.flatnonzero(gone | (lives.last_began > lives.began))
    goes_on = ~gone[kept]
    columns = {
        "object_kind": pa.repeat(name, len(kept)),
        "key": as_lists([one.take(pa.array(kept)) for one in lives.keys], len(kept)),
        "began_offset": lives.began[kept],
        "ended_offset": np.where(goes_on, lives.last_began[kept], lives.ended[kept]),
        "first_ended_offset": lives.first_ended[kept],
        "last_began_offset": pa.array(lives.last_began[kept], mask=goes_on),
        "last_from": _times(lives.last_from_ms[kept], goes_on),
        "last_to": _times(lives.last_to_ms[kept], goes_on),
        "is_born_based": lives.born_based[kept],
        "is_last_based": lives.last_based[kept] & ~goes_on,
        "last_base_offset": np.full(len(kept), lives.last_base),
    }
    return pa.table(columns).cast(OBJECT_LIVES)


def _times(ms: Longs, is_unknown: Flags) -> pa.Array:
    return pc.if_else(pa.array(is_unknown | (ms == UNKNOWN_MS)), None, timestamps(ms))


def end_rows(every: Mapping[str, Lives], since: int) -> pa.Table:
    """Rows of `ended_versions`: of versions that ended behind an offset, in the order of their ends
    in each kind. The kinds are dictionaries, so that none is written out for each row.
    """
    parts = ((name, part.after(since)) for name, one in every.items() for part in one.ends)
    return pa.concat_tables(
        pa.table(
            [repeated_text(name, len(one.offsets)), one.offsets, one.before], ENDED_VERSIONS.names
        )
        for name, one in parts
    )


def known_lives(name: str, lives: pa.Table, ends: list[Ends]) -> Gathered:
    """What such rows of one table tell."""
    found = Gathered(name)
    if not lives.num_rows:
        return found
    kinds = [history_tables()[name].schema.field(one).type for one in KEYS[name]]
    began = lives.column("began_offset")
    stretches = {
        "began": began,
        "ended": lives.column("ended_offset"),
        "first_ended": lives.column("first_ended_offset"),
        "last_began": pc.coalesce(lives.column("last_began_offset"), began),
        "last_from_ms": ms_of(lives.column("last_from")),
        "last_to_ms": ms_of(lives.column("last_to")),
        "born_based": lives.column("is_born_based"),
        "last_based": lives.column("is_last_based"),
    }
    found.know(
        of_lists(lives.column("key"), kinds),
        {column: np.asarray(values) for column, values in stretches.items()},
        ends,
        int(lives.column("last_base_offset")[0].as_py()),
    )
    return found
