"""Message specs as a page: each record type with its versions, fields, tags and secrets.

In: the specs that `schemas/` declares. Out: Markdown.
"""

from collections.abc import Iterable, Iterator

from kraftlog.message.catalogue import control_specs, metadata_specs, request_specs
from kraftlog.message.message_spec import FieldSpec, MessageSpec, Versions
from kraftlog.reference.markdown import code, markdown_table, page

_INTRODUCTION = """
Every record type that kraftlog decodes, from the JSON in `schemas/`: one file per message, all
versions in it. A record's type or version that is not here is kept raw. Columns are named in snake
case; JSON output has Kafka's own names. `uuid` and `bytes` are base64 text. What is marked secret
is masked unless `--reveal-secrets` is given. Requests and responses are KRaft's own protocol, by
api key.
"""


def messages_page() -> str:
    """`reference/messages.md`."""
    blocks = []
    protocol = [one for pair in request_specs().values() for one in pair]
    for title, specs in (
        ("Metadata records", list(metadata_specs().values())),
        ("Control records", list(control_specs().values())),
        ("Requests and responses", protocol),
    ):
        blocks.append(f"## {title}")
        blocks.append(_overview(specs))
        for one in specs:
            blocks += _message(one)
    return page("Messages", _INTRODUCTION, *blocks)


def _overview(specs: Iterable[MessageSpec]) -> str:
    rows = [
        (spec.id, f"[`{spec.type}`](#{spec.type.lower()})", spec.name, _range(spec.versions))
        for spec in specs
    ]
    return markdown_table(("id", "type", "message", "versions"), rows)


def _message(spec: MessageSpec) -> list[str]:
    heading = f"### {spec.type}"
    told = f"`{spec.name}`, id {spec.id}, versions {_range(spec.versions)}."
    if not spec.fields:
        return [heading, f"{told} It has no fields."]
    heads = ("column", "Kafka's name", "type", "versions", "nullable", "tag", "default", "secret")
    return [heading, told, markdown_table(heads, _rows(spec.fields))]


def _rows(fields: tuple[FieldSpec, ...], above: str = "") -> Iterator[tuple[object, ...]]:
    for one in fields:
        yield (
            code(above + one.name),
            code(one.json),
            code(one.type),
            _range(one.versions),
            _range(one.nullable),
            one.tag,
            "" if one.type.endswith("struct") or one.fields else code(one.default),
            _secret(one),
        )
        yield from _rows(one.fields, f"{above}{one.name}.")


def _range(versions: Versions) -> str:
    if versions.last < versions.first:
        return ""
    if versions.first == versions.last:
        return str(versions.first)
    return f"{versions.first}–{versions.last}"


def _secret(field: FieldSpec) -> str:
    if field.secret_unless is not None:
        return (
            f"unless Kafka declares the config named in {code(field.secret_unless.fields[1])} open"
        )
    return "always" if field.secret else ""
