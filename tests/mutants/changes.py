"""Changes of one place in a module, as mutmut's operators make them.

In: a file's path. Out: its changes, each with the lines that a test must run to see it. Nothing is
written and nothing imported: `runner` puts the code of a changed function into the function itself.
Left out are what mutmut leaves out (annotations, calls of `len` and `isinstance`), what runs when
the module is imported, the words of sentences, and arguments that assert (`strict`, `encoding`).
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType

import libcst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import Mutation, MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode


@dataclass(frozen=True)
class Within:
    """A function or a class of a module, and where its text begins there."""

    module: libcst.Module
    node: libcst.CSTNode
    text: str
    begin: int


@dataclass(frozen=True)
class Change:
    """One change; its key stays the same as long as its function does."""

    path: str
    function: str
    key: str
    lines: frozenset[int]
    within: "Within"
    old: libcst.CSTNode
    new: libcst.CSTNode

    @cached_property
    def text(self) -> str:
        """The function, or the class of the method, with the change."""
        changed = self.within.node.deep_replace(self.old, self.new)
        return self.within.module.code_for_node(changed)  # type: ignore[arg-type]

    def code(self) -> CodeType:
        """The code of the changed function."""
        source, begin = self.within.module.code, self.within.begin
        rest = source[begin + len(self.within.text) :]
        compiled = compile(f"{source[:begin]}{self.text}{rest}", self.path, "exec")
        return next(_codes(compiled, self.function))

    def difference(self) -> tuple[str, str]:
        """The lines that the change takes away and those that it puts in."""
        old, new = self.within.text.splitlines(), self.text.splitlines()
        first = next(at for at, line in enumerate(old) if new[at : at + 1] != [line])
        last = 0
        while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
            last += 1
        return _joined(old[first : len(old) - last]), _joined(new[first : len(new) - last])


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)


def _codes(code: CodeType, name: str) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if one.co_qualname == name:
                yield one
            yield from _codes(one, name)


class _Visitor(MutationVisitor):
    """mutmut's own, which also goes into decorated functions, as nothing is called to change them,
    but not into the defaults of parameters, which do not belong to a function's code.
    """

    def __init__(self) -> None:
        super().__init__(mutation_operators, IgnoredCode(set(), set(), set()))
        self.inside: list[str] = []
        self.lines: list[tuple[int, int]] = []
        self.found: list[tuple[str, tuple[int, int], Mutation]] = []

    def on_visit(self, node: libcst.CSTNode) -> bool:
        position = self.get_metadata(PositionProvider, node, None)
        if position is not None:
            self.lines.append((position.start.line, position.end.line))
        else:
            self.lines.append(self.lines[-1] if self.lines else (1, 1))
        if isinstance(node, libcst.ClassDef | libcst.FunctionDef):
            self.inside.append(node.name.value)
        before = len(self.mutations)
        goes_on = super().on_visit(node)
        for one in self.mutations[before:]:
            if isinstance(one.contained_by_top_level_function, libcst.FunctionDef):
                parts = self.inside[: 2 if self._is_method() else 1]
                self.found.append((".".join(parts), self.lines[-1], one))
        return goes_on

    def on_leave(self, original_node: libcst.CSTNode) -> None:
        self.lines.pop()
        if isinstance(original_node, libcst.ClassDef | libcst.FunctionDef):
            self.inside.pop()
        super().on_leave(original_node)

    def _is_method(self) -> bool:
        return bool(self.inside) and self.inside[0] in self.classes

    classes: frozenset[str] = frozenset()

    def _skip_node_and_children(self, node: libcst.CSTNode) -> bool:
        if isinstance(node, libcst.FunctionDef):
            return False
        return (
            isinstance(node, libcst.Param)
            or _is_assertion(node)
            or super()._skip_node_and_children(node)
        )


def _is_assertion(node: libcst.CSTNode) -> bool:
    """`zip(…, strict=True)` asserts what holds anyway, and files are read as UTF-8 everywhere."""
    keyword = node.keyword if isinstance(node, libcst.Arg) else None
    return keyword is not None and keyword.value in ("strict", "encoding")


def _touches_assertion(old: libcst.CSTNode, new: libcst.CSTNode) -> bool:
    """Whether a call lost such an argument, or has another one in its place."""
    if not (isinstance(old, libcst.Call) and isinstance(new, libcst.Call)):
        return False
    kept = [one for one in old.args if not _is_assertion(one)]
    left = [one for one in new.args if not _is_assertion(one)]
    return (
        len(kept) < len(old.args)
        and len(kept) == len(left)
        and all(one.value is other.value for one, other in zip(kept, left, strict=True))
    )


def changes(path: Path, root: Path) -> Iterator[Change]:
    """Every change of a module, in the order of its lines."""
    source = (root / path).read_text()
    tree = ast.parse(source)
    visitor = _Visitor()
    visitor.classes = frozenset(one.name for one in tree.body if isinstance(one, ast.ClassDef))
    module = MetadataWrapper(libcst.parse_module(source), unsafe_skip_copy=True)
    module.visit(visitor)
    statements = [one for one in ast.walk(tree) if isinstance(one, ast.stmt)]
    seen: Counter[str] = Counter()
    withins = dict(_withins(module.module))
    for function, (first, last), one in visitor.found:
        if _is_wording(one.original_node):
            continue
        if _touches_assertion(one.original_node, one.mutated_node):
            continue
        old, new = (_code(module.module, each) for each in (one.original_node, one.mutated_node))
        told = f"{path} {function}: {old} -> {new}"
        seen[told] += 1
        lines = frozenset(_statement(statements, first, last) | {first})
        key = f"{told} #{seen[told]}"
        within = withins[id(one.contained_by_top_level_function)]
        yield Change(str(path), function, key, lines, within, one.original_node, one.mutated_node)


def _withins(module: libcst.Module) -> Iterator[tuple[int, Within]]:
    begin = sum(len(module.code_for_node(one)) for one in module.header)
    for node in module.body:
        text = module.code_for_node(node)
        within = Within(module, node, text, begin)
        yield id(node), within
        if isinstance(node, libcst.ClassDef):
            yield from ((id(one), within) for one in node.body.body)
        begin += len(text)


def _code(module: libcst.Module, node: libcst.CSTNode) -> str:
    code = " ".join(module.code_for_node(node).split())
    mark = hashlib.blake2b(code.encode(), digest_size=4).hexdigest()
    return code if len(code) <= 60 else f"{code[:50]}…{mark}"


def _is_wording(node: libcst.CSTNode) -> bool:
    return isinstance(node, libcst.SimpleString) and " " in str(node.evaluated_value)


def _statement(statements: list[ast.stmt], first: int, last: int) -> set[int]:
    """The lines of the smallest statement around a node; of one with a body, its head."""
    around = [one for one in statements if one.lineno <= first and (one.end_lineno or 0) >= last]
    least = max(around, key=lambda one: (one.lineno, -(one.end_lineno or 0)))
    body = getattr(least, "body", getattr(least, "cases", None))
    if not body:
        return set(range(least.lineno, (least.end_lineno or 0) + 1))
    begin = body[0].lineno if isinstance(body[0], ast.stmt) else body[0].pattern.lineno
    return set(range(least.lineno, max(begin, least.lineno + 1)))
