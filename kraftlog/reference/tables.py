"""The lake's tables as a page: grain, way of writing, partitioning, columns with their comments.

In: the declared table specs and relations. Out: Markdown.
"""

import pyarrow as pa

from kraftlog import relations
from kraftlog.pipeline.every_table import derived_tables
from kraftlog.reference.markdown import code, markdown_table, page
from kraftlog.tables.spec import (
    CONTENT,
    CURRENT,
    GROWING,
    PER_RUN,
    TableSpec,
    decoded_tables,
    state_tables,
)

_MODES = {
    CONTENT: "grows by what is new; rows never change",
    CURRENT: "replaced by each run with what holds now",
    GROWING: "grows with the shared log; replaced where that has not only grown",
    PER_RUN: "one set of rows per run",
}
_NAMES = {
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float64(): "double",
    relations.TIMESTAMP: "timestamp",
}

_INTRODUCTION = """
Every table lies below the lake in a folder of its name, as a plain Delta table; each table and
column carries its comment there too. Times are UTC. Offsets called start or from are inclusive,
ends are exclusive, `last_…` is inclusive. How to ask them is in the
[analyst's guide](../analyst.md).
"""


def tables_page() -> str:
    """`reference/tables.md`."""
    groups = {
        "What lies on the disks": decoded_tables(),
        "What the state was": state_tables(),
        "What follows": derived_tables(),
    }
    blocks = []
    for title, specs in groups.items():
        blocks.append(f"## {title}")
        for spec in sorted(specs.values(), key=lambda one: one.name):
            blocks += _table(spec)
    return page("Tables", _INTRODUCTION, *blocks)


def _table(spec: TableSpec) -> list[str]:
    way = _MODES[spec.mode]
    by = ", ".join(code(name) for name in spec.partition_by)
    grain = spec.grain[0].upper() + spec.grain[1:]
    told = f"{grain}; {way}{f'; partitioned by {by}' if by else ''}."
    payloads = [field for field in spec.schema if _is_payload(field)]
    rows = [
        (code(field.name), code(type_name(field.type)), _comment(field))
        for field in spec.schema
        if field not in payloads
    ]
    blocks = [f"### {spec.name}", told, markdown_table(("column", "type", "what it holds"), rows)]
    if payloads:
        listed = ", ".join(code(field.name) for field in payloads)
        blocks.append(
            f"And one struct column per record type, null in rows of other types, with the fields of [the message](messages.md) in snake case: {listed}."
        )
    return blocks


def _is_payload(field: pa.Field) -> bool:
    return pa.types.is_struct(field.type) and _comment(field).startswith("fields of ")


def _comment(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"comment", b""), "utf-8")


def type_name(kind: pa.DataType) -> str:
    """An Arrow type as Spark's SQL calls it."""
    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        inner = ",".join(f"{one.name}:{type_name(one.type)}" for one in kind)
        return f"struct<{inner}>"
    return _NAMES.get(kind, str(kind))
