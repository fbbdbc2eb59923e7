"""Documents that cannot drift: generated pages are what is committed, every check has its guidance,
every link leads somewhere.
"""

import argparse
import re
from pathlib import Path

import pytest

from kraftlog.audit.every_check import CATALOGUE
from kraftlog.cli import build_parser, main
from kraftlog.config import option_names
from kraftlog.pipeline.every_table import derived_tables
from kraftlog.reference.pages import PAGES
from kraftlog.reference.tables import type_name
from kraftlog.relations import records
from kraftlog.tables.spec import decoded_tables, state_tables
from tests.documents import DOCS, ROOT, documents, indented

LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGES_WITH_LINKS = [*documents(), *sorted((DOCS / "reference").glob("*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_the_generated_one(name: str) -> None:
    committed = (DOCS / name).read_text(encoding="utf-8")
    assert committed == PAGES[name](), "write it anew with `make docs`"


def test_every_check_says_what_it_means_and_what_to_do() -> None:
    for check in CATALOGUE:
        assert check.meaning.endswith((".", ")")), check.name
        assert check.advice.endswith((".", ")")), check.name
        assert check.meaning.count("`") % 2 == check.advice.count("`") % 2 == 0


def test_reference_pages_are_complete() -> None:
    tables = PAGES["reference/tables.md"]()
    specs = decoded_tables() | state_tables() | derived_tables()
    assert {f"### {name}" for name in specs} <= set(tables.splitlines())
    options = PAGES["reference/options.md"]()
    assert all(f"| `{name}` |" in options for name in option_names())
    parser = build_parser()
    subparsers = argparse._SubParsersAction
    (chosen,) = (one for one in parser._actions if isinstance(one, subparsers))
    commands = PAGES["reference/commands.md"]()
    assert all(f"## kraftlog {name}\n" in commands for name in chosen.choices or ())


def test_known_lines_of_generated_pages() -> None:
    messages = PAGES["reference/messages.md"]().splitlines()
    assert (
        "| `salt` | `salt` | `bytes` | 0 |  |  |  | always |"
        in messages[messages.index("### USER_SCRAM_CREDENTIAL_RECORD") :]
    )
    assert (
        "| `topic_id` | `topicId` | `uuid` | 0–2 |  |  | `AAAAAAAAAAAAAAAAAAAAAA` |  |" in messages
    )
    tables = PAGES["reference/tables.md"]()
    assert "partitioned by `type`" in tables
    field = records().schema.field("partition_change_record")
    assert "isr:array<int>" in type_name(field.type)


@pytest.mark.parametrize("path", PAGES_WITH_LINKS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_what_the_readme_shows_is_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line, but for where lines end; … stands for what is left out."""
    main(["audit", "--input", str(ROOT / "examples" / "quorum")])
    printed = " ".join(capsys.readouterr().out.split())
    every = indented(ROOT / "README.md")
    shown = [one for one in every if "May I restart?" in one or "WARNING" in one]
    assert len(shown) == 2
    for block in shown:
        for piece in " ".join(block.split()).split("…"):
            assert piece.strip() in printed


def anchors(path: Path) -> set[str]:
    """Headings as GitHub names them: lower case, no punctuation, hyphens for spaces."""
    heads = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
