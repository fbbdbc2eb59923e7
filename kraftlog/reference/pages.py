"""All generated pages by their path below `kraftlog/docs`.

In: nothing but the code's declarations, and the hand-written part of `auditor.md`. Out: texts, or
files that are only touched where they change.
"""

from collections.abc import Callable, Iterator

from kraftlog.reference.checks import DOCS, auditor_page, checks_page
from kraftlog.reference.commands import commands_page, options_page
from kraftlog.reference.mechanisms import mechanisms_page
from kraftlog.reference.messages import messages_page
from kraftlog.reference.tables import tables_page

PAGES: dict[str, Callable[[], str]] = {
    "auditor.md": auditor_page,
    "reference/checks.md": checks_page,
    "reference/commands.md": commands_page,
    "reference/mechanisms.md": mechanisms_page,
    "reference/messages.md": messages_page,
    "reference/options.md": options_page,
    "reference/tables.md": tables_page,
}


def write_pages() -> Iterator[str]:
    """Write every page that has changed; yields their paths."""
    for name, build in PAGES.items():
        path, text = DOCS / name, build()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            yield name
