"""The page from the design documents to kraftlog: every row names something that exists, and a test
that is collected.
"""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from kraftlog import api
from kraftlog.audit.every_check import BY_NAME
from kraftlog.cli import build_parser
from kraftlog.commands.command import every_parser
from kraftlog.config import option_names
from kraftlog.pipeline.every_table import all_tables
from kraftlog.reference.mechanisms import Destination, Mechanism, mechanisms, mechanisms_page
from tests.documents import DOCS, ROOT

ROWS = mechanisms()
EXPLAINED = {
    "Keep snapshots in Kafka's own Log",
    "Why not Kafka's Log: the format, or that it never ends",
    "Several partitions share a response",
}
"""Designs that were not taken, or that no quorum can show: there is nothing to reach."""


@cache
def commands() -> dict[str, set[str]]:
    """Every command, and its options."""
    return {
        parser.prog.removeprefix("kraftlog "): set(parser._option_string_actions)
        for parser in every_parser(build_parser())
    }


@cache
def collected_in(path: Path) -> set[str]:
    """The tests that pytest collects from a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        one.name
        for one in tree.body
        if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
    }


def exists(place: Destination) -> bool:
    name, _, column = place.name.partition(".")
    match place.kind:
        case "command":
            command, *options = place.name.split(" --")
            known = commands().get(command)
            return known is not None and {f"--{one}" for one in options} <= known
        case "table":
            found = all_tables().get(name)
            return found is not None and (not column or column in found.schema.names)
        case "check":
            return place.name in BY_NAME
        case "option":
            return place.name in option_names()
        case "page":
            return (DOCS / place.name).is_file()
        case "python":
            return place.name in api.__all__
    return False


@pytest.mark.parametrize("one", ROWS, ids=lambda one: f"{one.source}: {one.what}")
def test_each_row_names_what_there_is(one: Mechanism) -> None:
    assert one.places
    assert one.test
    assert [place for place in one.places if not exists(place)] == []
    assert one.test_name in collected_in(ROOT / one.test_file)
    assert one.what in EXPLAINED or {place.kind for place in one.places} != {"page"}


def test_no_row_stands_twice_and_none_is_a_number() -> None:
    counted = Counter((one.source, one.section, one.what) for one in ROWS)
    assert [key for key, count in counted.items() if count > 1] == []
    assert len(ROWS) >= 230
    text = mechanisms_page()
    assert not [one for one in ROWS if one.what[:1] in "RX" and one.what[1:2].isdigit()]
    assert all(f"| {one.what} |" in text for one in ROWS)


OWN_NUMBER = re.compile(r"(?<![\w&\\])(?:[RX]\d{1,3}|#\d{2})(?![\w-])")
READ = ("kraftlog/**/*.py", "kraftlog/**/*.md", "tests/**/*.py", "jobs/*.py", "*.md", "examples/*")


def test_sources_are_named_and_not_numbered() -> None:
    """A number of a list of ours would lead a reader nowhere; a section of a document does."""
    assert OWN_NUMBER.findall("(R12), X5, R25 and #13, but not #fff, R12-a or &#39;") == [
        "R12", "X5", "R25", "#13",
    ]  # fmt: skip
    own = [
        f"{path.relative_to(ROOT)}: {number}"
        for pattern in READ
        for path in sorted(ROOT.glob(pattern))
        if path.is_file() and path != Path(__file__)
        for number in OWN_NUMBER.findall(path.read_text(encoding="utf-8"))
    ]
    assert own == []


@pytest.mark.parametrize(
    "place",
    [
        Destination("command", "plan coup"), Destination("command", "plan join --coup"),
        Destination("table", "nothing"), Destination("table", "runs.nothing"),
        Destination("check", "x"), Destination("option", "x"), Destination("page", "x.md"), Destination("python", "x"),
        Destination("", ""),
    ],
)  # fmt: skip
def test_what_is_not_there_is_seen(place: Destination) -> None:
    assert not exists(place)
