"""Nothing lives for tests alone: a run, a command or the Python interface reaches every name.

Marks from the doors (`python -m kraftlog`, the jobs, `import kraftlog`, Spark's own data source) by
what each piece of code names, and sweeps: a function, class, method or constant that no mark
reaches is there for its tests only. Names of methods are not resolved to a type: one that is called
anywhere in living code lives in every living class.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kraftlog import api
from tests.unit.test_imports import ROOT, module_files

DOORS = (
    "kraftlog", "kraftlog.__main__", "kraftlog.cli", "kraftlog.native.build",
    "kraftlog.reference.__main__",
    "kraftlog.session.__main__", "pyspark_kraftlog",
)  # fmt: skip
GIVEN = {
    "pyspark_kraftlog": ("DefaultSource",),
    "kraftlog.source.datasource": ("register",),
    "kraftlog.session": ("spark_session", "spark_for_tasks", "check_java"),
    "kraftlog.session.views": ("lake_views",),
    "kraftlog.native.build": ("CustomBuildHook",),
}
"""What the documents give to programs of others, besides `import kraftlog`."""
ASKED_BY_LIBRARIES = {
    "_sock_recv", "with_header", "expect_response", "get_response_class", "parse_header",
}  # fmt: skip
"""Methods that the Kafka library calls on objects of ours."""
ORDINARY = {"property", "cached_property", "classmethod", "staticmethod", "dataclass", "cache"}
"""Decorators that leave a function to those who call it; others hand it to somebody."""
QUIET = {"Protocol", "NamedTuple", "StrEnum", "IntEnum", "Exception", "ValueError", "KraftlogError"}
"""Bases from elsewhere that call no method of those that come from them."""
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")

Key = tuple[str, str]
"""A module's dotted name, and a name in it: `""` for the module itself, `Class.method`."""


@dataclass
class Piece:
    """What one definition names: other definitions, and attributes of whatever is at hand."""

    line: int
    names: set[Key] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    """Modules that it hands on as values: whoever gets one may go through all its constants."""


@dataclass
class Code:
    """All definitions; for a class its methods."""

    pieces: dict[Key, Piece] = field(default_factory=dict)
    methods: dict[Key, list[str]] = field(default_factory=dict)
    handed: set[Key] = field(default_factory=set)
    """Methods that live with their class: special ones, and those that a foreign base calls."""
    imported: dict[Key, Key] = field(default_factory=dict)
    """Where a name that a module has imported, and may give on, is defined."""


def read(files: dict[str, Path]) -> Code:
    """Takes the modules apart."""
    code = Code()
    for module, path in files.items():
        _Module(module, ast.parse(path.read_text(encoding="utf-8")), set(files), code).take()
    return code


class _Module:
    def __init__(self, name: str, tree: ast.Module, modules: set[str], code: Code) -> None:
        self.name, self.tree, self.modules, self.code = name, tree, modules, code
        self.bound: dict[str, Key] = {}
        for one in ast.walk(tree):
            match one:
                case ast.ImportFrom(module=str(source), names=names) if source in modules:
                    for each in names:
                        whole = f"{source}.{each.name}"
                        key = (whole, "") if whole in modules else (source, each.name)
                        self.bound[each.asname or each.name] = key
                case ast.Import(names=names):
                    for each in names:
                        if each.name in modules and each.asname:
                            self.bound[each.asname] = (each.name, "")
        code.imported |= {(name, own): key for own, key in self.bound.items()}
        self.bound |= {own: (name, own) for one in tree.body for own in _defined(one)}

    def take(self) -> None:
        top = self.code.pieces.setdefault((self.name, ""), Piece(1))
        for one in self.tree.body:
            names = list(_defined(one))
            if isinstance(one, ast.ClassDef):
                self._class(one)
            elif names and not _is_handed(one) and not names[0].startswith("__"):
                self._piece((self.name, names[0]), one, one)
                for further in names[1:]:
                    self._piece((self.name, further), one, one)
            else:
                for name in names:
                    self._piece((self.name, name), one, one)
                    top.names.add((self.name, name))
                self._mark(top, one)

    def _class(self, one: ast.ClassDef) -> None:
        key = (self.name, one.name)
        methods = [each for each in one.body if isinstance(each, ast.FunctionDef)]
        piece = self._piece(key, one, *(each for each in one.body if each not in methods))
        for each in (*one.bases, *one.keywords, *one.decorator_list):
            self._mark(piece, each)
        bases = {ast.unparse(each).partition("[")[0] for each in one.bases}
        foreign = bool(bases - self.bound.keys() - QUIET)
        if _is_handed(one):
            self.code.pieces[self.name, ""].names.add(key)
        self.code.methods[key] = [each.name for each in methods]
        for each in methods:
            own = (self.name, f"{one.name}.{each.name}")
            self._piece(own, each, each)
            if foreign or each.name.startswith("__") or _is_handed(each):
                self.code.handed.add(own)

    def _piece(self, key: Key, at: ast.stmt, *nodes: ast.AST) -> Piece:
        piece = self.code.pieces.setdefault(key, Piece(at.lineno))
        for node in nodes:
            self._mark(piece, node)
        piece.names.discard(key)
        return piece

    def _mark(self, piece: Piece, node: ast.AST) -> None:
        """What a piece of code names."""
        owners = {id(one.value) for one in ast.walk(node) if isinstance(one, ast.Attribute)}
        for one in ast.walk(node):
            match one:
                case ast.Name(id=name, ctx=ast.Load()) if name in self.bound:
                    piece.names.add(self.bound[name])
                    if self.bound[name][1] == "" and id(one) not in owners:
                        piece.modules.add(self.bound[name][0])
                case ast.Name(id="globals"):
                    piece.modules.add(self.name)
                case ast.Attribute(value=ast.Name(id=name), attr=attr) if (
                    name in self.bound and self.bound[name][1] == ""
                ):
                    piece.names.add((self.bound[name][0], attr))
                case ast.Attribute(attr=attr, ctx=ast.Load()):
                    piece.attributes.add(attr)
                case ast.ImportFrom(module=str(source), names=names) if source in self.modules:
                    piece.names.add((source, ""))
                    whole = {f"{source}.{each.name}" for each in names} & self.modules
                    piece.names.update((each, "") for each in whole)
                case ast.Import(names=names):
                    piece.names.update(
                        (each.name, "") for each in names if each.name in self.modules
                    )
                case ast.Constant(value=str(text)) if text in self.modules:
                    piece.names.add((text, ""))
                case ast.MatchClass(kwd_attrs=attributes):
                    piece.attributes.update(attributes)


def _defined(one: ast.stmt) -> Iterator[str]:
    """The names that a statement at a module's top gives."""
    match one:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            for target in targets:
                named = target.elts if isinstance(target, ast.Tuple) else [target]
                yield from (each.id for each in named if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _is_handed(one: ast.stmt) -> bool:
    """Whether a decorator hands the function or class to somebody who calls it."""
    for each in getattr(one, "decorator_list", ()):
        words = IDENTIFIER.findall(ast.unparse(each))
        if not ORDINARY & set(words) and "overload" not in words:
            return True
    return False


def _found(asked: set[Key], code: Code) -> set[Key]:
    """The definitions behind names, with the modules that are run for them."""
    while passed := asked & code.imported.keys():
        asked = (asked - passed) | {code.imported[key] for key in passed}
    packages = {(each, "") for module, _ in asked for each in _upwards(module)}
    return (asked | packages) & code.pieces.keys()


def _upwards(module: str) -> Iterator[str]:
    """A module and the packages around it: all of them are run."""
    while module:
        yield module
        module = module.rpartition(".")[0]


def unreached(code: Code, doors: set[Key], given: set[str]) -> list[tuple[str, int]]:
    """The definitions that no door leads to, with their lines; `given` are attributes that others
    (templates, users of the interface) name.
    """
    living: set[Key] = set()
    named = set(given)
    loose: set[str] = set()
    asked = set(doors)
    while fresh := _found(asked, code) - living:
        living |= fresh
        asked = set()
        for key in fresh:
            piece = code.pieces[key]
            asked |= piece.names
            named |= piece.attributes
            loose |= piece.modules
        for key in living:
            for method in code.methods.get(key, ()):
                own = (key[0], f"{key[1]}.{method}")
                if method in named or own in code.handed:
                    asked.add(own)
        asked |= {
            (module, name)
            for module, name in code.pieces
            if module in loose and (name in named or name.isupper())
        }
    return [
        (f"{module}.{name}".rstrip("."), piece.line)
        for (module, name), piece in sorted(code.pieces.items())
        if (module, name) not in living
    ]


def public_methods(code: Code, module: str) -> set[str]:
    """What users of a module may ask of its objects."""
    of_module = (names for key, names in code.methods.items() if key[0] == module)
    return {name for names in of_module for name in names if not name.startswith("_")}


def test_everything_is_reached_without_the_tests() -> None:
    files = module_files(ROOT)
    files["pyspark_kraftlog"] = ROOT / "pyspark_kraftlog.py"
    code = read(files)
    doors = {(one, "") for one in (*DOORS, *files) if one in DOORS or one.startswith("jobs")}
    doors |= {("kraftlog.api", one) for one in api.__all__}
    doors |= {(module, name) for module, names in GIVEN.items() for name in names}
    templates = ROOT.glob("kraftlog/report/templates/*")
    given = {word for one in templates for word in IDENTIFIER.findall(one.read_text("utf-8"))}
    given |= ASKED_BY_LIBRARIES | public_methods(code, "kraftlog.api")
    assert [f"{one}, line {line}" for one, line in unreached(code, doors, given)] == []


LIVE = """
import sys
from kraftlog.low import used, Base

class Kind(Base):
    def called(self): return helper()
    def idle(self): return forgotten()
    def __len__(self): return 1

def helper(): return used(lambda kind: kind.called())
def forgotten(): return 1
def idle_too(): return idle_too()

ONE, TWO = 1, 2
print(helper(), Kind(), ONE)
"""
LOW = """
class Base: ...
def used(of): return of
def unused(): return used(1)
"""


def test_what_is_not_reached_is_found(tmp_path: Path) -> None:
    """What only dead code or itself names is dead, and so is a module that nobody imports."""
    files = {}
    for name, text in (("kraftlog", ""), ("kraftlog.live", LIVE), ("kraftlog.low", LOW)):
        files[name] = tmp_path / f"{name}.py"
        files[name].write_text(text, encoding="utf-8")
    files["kraftlog.alone"] = files["kraftlog"]
    found = unreached(read(files), {("kraftlog.live", "")}, set())
    names = "alone live.Kind.idle live.TWO live.forgotten live.idle_too low.unused"
    assert [one for one, _ in found] == [f"kraftlog.{name}" for name in names.split()]


OF_KAFKA = {"PartitionChangeBuilder"}
"""Classes of Kafka that documents of ours name."""


def test_classes_that_docstrings_name_are_there() -> None:
    trees = [ast.parse(path.read_text()) for path in module_files(ROOT).values()]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    known = OF_KAFKA.copy()
    named = set()
    for node in nodes:
        known.update(
            getattr(node, field) for field in ("id", "attr", "name") if hasattr(node, field)
        )
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            told = ast.get_docstring(node) or ""
            named.update(re.findall(r"`([A-Z][A-Z0-9]*[a-z]\w*)`", told))
    assert named <= known
