"""Options as a page: `conf/kraftlog.toml` is the declaration, its comments are the text.

In: the packaged TOML and the `Options` value. Out: Markdown.
"""

import re
from typing import Literal, get_args, get_origin, get_type_hints

from kraftlog.config import Options, option_texts, packaged_text
from kraftlog.reference.markdown import code, page, table

_SECTION = re.compile(r"# --- (.+?) -+$")
_OPTION = re.compile(r"(\w+) = (.+)$")

_INTRODUCTION = """
An option may stand in a TOML file that `--conf FILE` names, or on the command line of
`kraftlog run`, `kraftlog audit` and every job as `--its-name VALUE`; the command line wins. The
data source takes the same names with `.option(…)`. An empty text means that the option is not
given.
"""


def options_page() -> str:
    """`reference/options.md`."""
    blocks: list[str] = []
    rows: list[tuple[str, str, str, str]] = []
    texts = option_texts()
    for line in packaged_text().splitlines():
        section, option = _SECTION.match(line), _OPTION.match(line)
        if section:
            blocks += [*_finished(rows), f"## {section[1]}"]
            rows = []
        elif option:
            name, default = option[1], option[2]
            rows.append((code(name), _kind(name), code(default), texts[name]))
    return page("Options", _INTRODUCTION, *blocks, *_finished(rows))


def _finished(rows: list[tuple[str, str, str, str]]) -> list[str]:
    return [table(("option", "type", "default", "what for"), rows)] if rows else []


def _kind(name: str) -> str:
    """The type of an option in words. Raises KeyError for one that `Options` does not have."""
    kind = get_type_hints(Options)[name]
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "list of texts"
    plain = next(iter(get_args(kind)), kind)  # of `int | None` the first
    return {bool: "true or false", int: "whole number"}.get(plain, "text")
