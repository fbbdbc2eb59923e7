"""SQL over a lake, by DuckDB in this process: no Spark, and nothing is written.

In: a lake's folder, one statement. Out: its rows. Each table is a view of the version that the
newest whole run has published; only those that the statement names are opened. DuckDB may touch no
file and no network by itself: what it reads comes through delta-rs and Arrow.
"""

import base64
import math
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from kraftlog.errors import UsageError
from kraftlog.log.stores import side_by_side
from kraftlog.tables.lake import Lake
from kraftlog.tables.place import lake_at

_ROWS_AT_A_TIME = 1000
_LOCKED: dict[str, Any] = {"enable_external_access": "false", "python_enable_replacements": "false"}
_READING = ("SELECT", "EXPLAIN")
_SEVERAL = "MULTI"
"""What DuckDB takes a statement for in which a PIVOT stands that does not name its columns' values."""
_WRITING = {"create", "insert", "copy"}
_AS_IN_SPARK = "CREATE MACRO unix_millis(t) AS epoch_ms(t); CREATE MACRO size(l) AS len(l)"
_OF_ALL_TABLES = ("information_schema", "duckdb_", "pg_", "sqlite_", "show")
"""How words begin that ask which tables and columns there are."""
_UNREAD = re.compile(r"reading the stream registered as '(\w+)' failed")
_NO_SENTENCE = "syntax error at or near"
_RESERVED = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'"
_BARE = re.compile(r'(?<![\w."])\w+(?![\w"])')
"""A word of a statement without double quotes, or its table, before it."""


def answer(root: str, statement: str) -> Iterator[dict[str, Any]]:
    """The rows that one statement asks for, its values as JSON takes them.

    Raises LakeError where there is no lake, UsageError where the statement is no query of it."""
    import duckdb

    lake = lake_at(root)
    with duckdb.connect(":memory:", config=_LOCKED) as database:
        # Kafka's times read the same on every machine.
        database.execute(f"{_AS_IN_SPARK}; SET TimeZone = 'UTC'; SET lock_configuration = true")
        tables = _named(statement, lake.versions)
        try:
            _require_query(database.extract_statements(statement), _words(statement))
            _register(database, lake, tables)
            reader = database.sql(statement).to_arrow_reader(_ROWS_AT_A_TIME)
            for batch in reader:
                for row in batch.to_pylist(maps_as_pydicts="lossy"):
                    yield {name: _plain(value) for name, value in row.items()}
        except duckdb.Error as error:
            raise UsageError(_sentence(error, statement, lake, tables)) from error


def _require_query(statements: list[Any], words: set[str]) -> None:
    if len(statements) != 1:
        raise UsageError(f"this takes one query, and here are {len(statements)}")
    kind = statements[0].type.name
    if kind == _SEVERAL:
        kind = next(iter(map(str.upper, sorted(words & _WRITING))), _READING[0])
    if kind not in _READING:
        raise UsageError(f"only queries are answered here, and this is {kind}: a lake is read only")


def _named(statement: str, tables: Iterable[str]) -> list[str]:
    """The tables whose names stand in the statement; all of them where none does, or where it asks
    which there are.
    """
    words = _words(statement)
    if any(word.startswith(_OF_ALL_TABLES) for word in words):
        return list(tables)
    return [name for name in tables if name in words] or list(tables)


def _words(statement: str) -> set[str]:
    return {word.lower() for word in re.findall(r"\w+", statement)}


def _register(database: Any, lake: Lake, tables: list[str]) -> None:
    for name, dataset in zip(tables, side_by_side(lake.dataset, tables), strict=True):
        database.register(name, dataset)


def _plain(value: Any) -> Any:
    """A value as JSON has it: times and intervals in ISO 8601, bytes as base64, whole sums as whole
    numbers; what is no number of JSON's as text, as Spark writes it.
    """
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, pa.MonthDayNano):
        return f"P{value.months}M{value.days}DT{value.nanoseconds / 1e9:.6f}S"
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)


def _sentence(error: Exception, statement: str, lake: Lake, tables: list[str]) -> str:
    """What DuckDB says, without the drawing of where; of a word of SQL that is a column, too, how; of
    a table that cannot be read, what does.
    """
    import duckdb

    text = " ".join(str(error).partition("\nLINE ")[0].split())
    if unread := _UNREAD.search(text):
        return f"{lake.path(unread[1])} cannot be read: kraftlog lake check --lake {lake.root} says what is missing, and the next run rebuilds it"
    if _NO_SENTENCE in text:
        names = {name for one in tables for name in lake.dataset(one).schema.names}
        words = duckdb.execute(_RESERVED).fetchall()
        meant = names.intersection(word for (word,) in words)
        if bare := next((one for one in _BARE.findall(statement) if one.lower() in meant), None):
            text += f'; where the column is meant, write it in double quotes: "{bare}"'
    return text
