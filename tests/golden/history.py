"""A state read back from history rows: the one filter that an analyst writes, in two forms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.state.history import SHOWN, History
from kraftlog.state.replay import Origin, Visible
from kraftlog.state.state import Change, State

Rows = dict[str, list[str]]
"""The objects of each history table, as text, sorted; tables without any are left out."""


def state_rows(state: State) -> Rows:
    """A state's values in the columns of the history tables."""
    history = History()
    found: dict[str, list[str]] = defaultdict(list)
    for table, key, value in state:
        history.take([Visible(Change(table, key, None, value), Origin(0, 0, 0, ""), 0, 0)])
    history.close()
    for name, rows in history.rows():
        found[name] = _values(name, rows)
    return dict(found)


def rows_at_offset(tables: Mapping[str, pa.Table], offset: int) -> Rows:
    """`valid_from_offset <= N AND (valid_to_offset IS NULL OR N < valid_to_offset)`."""
    return _held(tables, "valid_from_offset", "valid_to_offset", offset)


def rows_at_time(tables: Mapping[str, pa.Table], time_ms: int) -> Rows:
    """`valid_from <= t AND (valid_to IS NULL OR t < valid_to)`."""
    moment = pa.scalar(time_ms * 1000, tables["topics"].schema.field("valid_from").type)
    return _held(tables, "valid_from", "valid_to", moment)


def _held(tables: Mapping[str, pa.Table], begin: str, end: str, at: Any) -> Rows:
    found = {}
    for name, rows in tables.items():
        begun = pc.less_equal(rows.column(begin), at)
        holds = pc.or_kleene(pc.is_null(rows.column(end)), pc.greater(rows.column(end), at))
        kept = rows.filter(pc.and_kleene(begun, holds))
        if kept.num_rows:
            found[name] = _values(name, kept)
    return found


def _values(name: str, rows: pa.Table) -> list[str]:
    shown = SHOWN[name]
    columns = [shown.column_name(one) for one in shown.fields]
    return sorted(map(repr, rows.select(columns).to_pylist()))
