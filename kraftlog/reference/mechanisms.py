"""What the design documents describe, mechanism by mechanism: which command, table or check reaches
each, and which test holds it.

In: `mechanisms.toml`. Out: Markdown. What a row names must exist: `tests/unit/test_mechanisms`.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kraftlog.reference.markdown import code, markdown_table, page

_FILE = Path(__file__).with_name("mechanisms.toml")
_INTRODUCTION = """
One row per mechanism that the design documents describe, by their sections: where kraftlog does it,
over copies of your own quorum, and the test that knows its values. What Kafka ships under another
name is in [compatibility](../compatibility.md).
"""


@dataclass(frozen=True, slots=True)
class Destination:
    """Something that a reader can go to: a command, a table or one of its columns, a check, an
    option, a page, or a name of `import kraftlog`.
    """

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Mechanism:
    source: str
    section: str
    what: str
    places: tuple[Destination, ...]
    test: str

    @property
    def test_file(self) -> str:
        """Below the project's root."""
        folder, _, name = self.test.partition("::")[0].rpartition("/")
        return f"tests/{folder}/test_{name}.py"

    @property
    def test_name(self) -> str:
        return f"test_{self.test.partition('::')[2]}"


@cache
def mechanisms() -> tuple[Mechanism, ...]:
    """Every row, in the order of the documents."""
    sections = tomllib.loads(_FILE.read_text(encoding="utf-8"))["section"]
    return tuple(
        Mechanism(one["source"], one["title"], what, _places(where), test)
        for one in sections
        for what, where, test in one["rows"]
    )


def _places(text: str) -> tuple[Destination, ...]:
    return tuple(Destination(*one.split(" ", 1)) for one in text.split("; ") if one)


def mechanisms_page() -> str:
    """`reference/mechanisms.md`."""
    groups: dict[str, dict[str, list[Mechanism]]] = {}
    for one in mechanisms():
        groups.setdefault(one.source, {}).setdefault(one.section, []).append(one)
    blocks = []
    for source, sections in groups.items():
        blocks.append(f"## {source}")
        for section, rows in sections.items():
            blocks.append(f"### {section}")
            blocks.append(
                markdown_table(("mechanism", "where", "test"), [_row(one) for one in rows])
            )
    return page("From the design documents to kraftlog", _INTRODUCTION, *blocks)


def _row(one: Mechanism) -> tuple[str, str, str]:
    shown = [_LINKS[place.kind](place.name) for place in one.places]
    return one.what, ", ".join(shown), code(f"{one.test_file}::{one.test_name}")


def _table_link(name: str) -> str:
    found, _, column = name.partition(".")
    return f"[`{found}`](tables.md#{found})" + (f" (`{column}`)" if column else "")


def _command_link(name: str) -> str:
    """`name` is a command, with the options that ask it for this."""
    command = name.partition(" --")[0]
    return f"[`kraftlog {name}`](commands.md#kraftlog-{command.replace(' ', '-')})"


_LINKS: dict[str, Callable[[str], str]] = {
    "command": _command_link,
    "table": _table_link,
    "check": lambda name: f"[`{name}`](../auditor.md#{name})",
    "option": lambda name: f"option [`{name}`](options.md)",
    "page": lambda name: f"[{name.removesuffix('.md')}](../{name})",
    "python": lambda name: f"[`kraftlog.{name}`](../python.md)",
}
