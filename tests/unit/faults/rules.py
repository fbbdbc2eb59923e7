"""The rules of the checks, as the code declares them, and which of them a run of an audit uses.

A rule is a place in `kraftlog/audit` that yields a bad row, or the words of one. So a new place is
a new rule, and it has no name of its own to be forgotten.
"""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import kraftlog.audit
from kraftlog.audit.check import BadRow
from kraftlog.audit.every_check import MODULES
from kraftlog.audit.state_rules import Said

FOLDER = Path(inspect.getfile(kraftlog.audit)).parent
FILES = [Path(inspect.getfile(one)) for one in MODULES]
YIELDED = {"Iterator[BadRow]", "Iterable[BadRow]", "Iterator[Said]", "Iterator[str]"}
RETURNED = {"str | None", "IndexProblem | None"}
Result = TypeVar("Result")


class Rule(NamedTuple):
    """A place in the code, by its function and its lines."""

    function: str
    first_line: int
    last_line: int


def _rules(path: Path) -> Iterator[Rule]:
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef) or function.returns is None:
            continue
        kind = ast.unparse(function.returns)
        name = f"{path.stem}.{function.name}"
        for node in ast.walk(function):
            told = isinstance(node, ast.Yield) and kind in YIELDED
            given = isinstance(node, ast.Return) and kind in RETURNED and not _is_none(node)
            if (told or given) and isinstance(node, ast.expr | ast.stmt):
                yield Rule(name, node.lineno, node.end_lineno or node.lineno)


def _is_none(node: ast.Return) -> bool:
    return node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)


DECLARED = {str(path): list(_rules(path)) for path in FILES}
"""The rules of each file."""


class Used(NamedTuple):
    """What was told at a place."""

    rule: Rule
    text: str


def used_by(run: Callable[[], Result]) -> tuple[Result, list[Used]]:
    """What a call returns, and each rule that told something meanwhile."""
    seen: list[Used] = []

    def inside(frame: FrameType, event: str, told: Any) -> Any:
        text = _text(told) if event == "return" else None
        if text:
            line = frame.f_lineno
            for rule in DECLARED[frame.f_code.co_filename]:
                if rule.first_line <= line <= rule.last_line:
                    seen.append(Used(rule, text))
        return inside

    def entered(frame: FrameType, event: str, told: Any) -> Any:
        if frame.f_code.co_filename not in DECLARED:
            return None
        frame.f_trace_lines = False
        return inside

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        return run(), seen
    finally:
        sys.settrace(before)


def _text(told: Any) -> str | None:
    if isinstance(told, BadRow):
        return told.message
    if isinstance(told, Said):
        return told.text
    if isinstance(told, tuple) and told and isinstance(told[-1], str):
        return told[-1]
    return told if isinstance(told, str) else None
