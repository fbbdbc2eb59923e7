"""What the documents tell people to type: commands and Python, read from their Markdown.

Commands stand in blocks marked `sh` or `console`, in indented blocks, and as inline code that begins
with `kraftlog`. Blocks marked `text` are not for this machine (a cluster, a crontab).
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "kraftlog" / "docs"

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^ {4}.*\n)+", re.MULTILINE)
_INLINE = re.compile(r"`(kraftlog [^`]+)`")


def documents() -> list[Path]:
    """Every page written for people; reference pages are generated and hold no tasks."""
    own = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "kraftlog/ARCHITECTURE.md")
    return [
        *(ROOT / one for one in own),
        ROOT / "examples" / "README.md",
        *sorted(DOCS.glob("*.md")),
    ]


def blocks(path: Path, *languages: str) -> list[str]:
    """The fenced blocks of some languages."""
    found = _FENCE.findall(path.read_text(encoding="utf-8"))
    return [text for language, text in found if language in languages]


def commands(path: Path) -> list[str]:
    """Every command of a document in order, continued lines joined, prompts and remarks removed."""
    text = path.read_text(encoding="utf-8")
    told = blocks(path, "sh", "console") + [one for one in indented(path) if _is_shell(one)]
    lines = [line for block in told for line in _lines(block)]
    return lines + _INLINE.findall(_FENCE.sub("", text))


def indented(path: Path) -> list[str]:
    """The indented blocks: commands, queries, and what is printed."""
    return _INDENTED.findall(_FENCE.sub("", path.read_text(encoding="utf-8")))


def _is_shell(block: str) -> bool:
    first = block.split()[0]
    return "=" in first or first in ("make", "cp", "kraftlog", "spark-submit")


def _lines(block: str) -> Iterator[str]:
    for line in block.replace("\\\n", " ").splitlines():
        command = line.strip().removeprefix("$ ")
        if command:
            yield command


def arguments(command: str, places: dict[str, str]) -> list[str]:
    """The words of a command without its remark, pipe or file of its output, its places replaced by
    real ones. A place is a whole word, or the folder that a word begins with.
    """
    words = shlex.split(command.partition(" | ")[0], comments=True)
    words = words[: words.index(">")] if ">" in words else words
    # A folder may be called as a command is: kraftlog replicas --input replicas
    named = 3 if words[1:2] == ["plan"] else 2
    return words[:named] + [_placed(word, places) for word in words[named:] if word != "…"]


def _placed(word: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        if word == name or word.startswith((f"{name}/", f"{name}@")):
            return place + word.removeprefix(name)
    return word
