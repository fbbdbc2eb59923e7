"""Imports run one way: each room knows only the rooms below it, no circles, Spark stays up.

Read from the syntax trees, so that imports for type hints and imports inside functions count too.
The declarations come first; a new room is one word in `ROOMS`.
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# From the disk upwards. A module may import its own room and those before it.
ROOMS = (
    "kraftlog",  # the package itself: only its version
    "errors",
    "plain",  # what may be shown
    "extras",
    "garbage",
    "failures",
    "wire",
    "native",  # compiled loops over bytes
    "message",
    "relations",  # the columns of decoded records follow from the message specs
    "log",
    "decode",
    "config",
    "state",
    "quorum",
    "explain",
    "audit",
    "recover",
    "simulate",
    "pull",  # asks a real leader what simulate's follower would ask
    "metrics",
    "source",
    "tables",
    "report",
    "session",
    "contracts",
    "pipeline",
    "commands",
    "cli",
    "api",  # what `import kraftlog` gives: a door to all of them
    "reference",  # the pages are generated from what all the others declare
    "__main__",
    "jobs",
)

# Rooms that may import Spark anywhere; the others are free of it, but for the modules named below.
SPARK_ROOMS = {"source", "session", "contracts", "pipeline", "jobs"}
# Modules, or packages with all that lies in them, of the other rooms that work on DataFrames.
SPARK_MODULES: set[str] = set()
SPARK = {"pyspark", "py4j", "delta"}

# Which implementation of CRC-32C is taken, one module decides.
CHECKSUMS = {"crcmod", "google_crc32c"}


@dataclass(frozen=True)
class Import:
    """One import statement: who, what, and whether it runs as soon as the module is imported."""

    importer: str
    imported: str
    line: int
    at_start: bool

    def __str__(self) -> str:
        return f"{self.importer} line {self.line} imports {self.imported}"


# --- Reading ----------------------------------------------------------------------------------


def module_files(root: Path) -> dict[str, Path]:
    """The project's modules by dotted name; a package is named without `__init__`."""
    found = {}
    for top in ("kraftlog", "jobs"):
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(module: str, path: Path, modules: set[str]) -> Iterator[Import]:
    """Every import of a module; `from a import b` is an import of `a.b` where that is a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    late = _late_nodes(tree)
    for node in ast.walk(tree):
        at_start = id(node) not in late
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, at_start)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, path, node)
            for alias in node.names:
                deeper = f"{base}.{alias.name}"
                yield Import(module, deeper if deeper in modules else base, node.lineno, at_start)


def _late_nodes(tree: ast.AST) -> set[int]:
    """What does not run when the module is imported: bodies of functions and of TYPE_CHECKING."""
    late: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ):
            late.update(id(inner) for inner in ast.walk(node))
    return late


def _absolute(module: str, path: Path, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    above = package[: len(package) - node.level + 1]
    return ".".join([*above, node.module] if node.module else above)


def read_imports(root: Path) -> list[Import]:
    files = module_files(root)
    # A folder without `__init__` can be imported too.
    modules = set(files) | {name.rpartition(".")[0] for name in files}
    return [found for name, path in files.items() for found in imports_of(name, path, modules)]


# --- Judging ----------------------------------------------------------------------------------


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[0] if parts[0] == "jobs" or len(parts) == 1 else parts[1]


def is_ours(module: str) -> bool:
    return module.split(".")[0] in ("kraftlog", "jobs")


def upward(imports: list[Import]) -> list[str]:
    """Imports of a higher room; those of undeclared rooms are another test's business."""
    height = {room: index for index, room in enumerate(ROOMS)}
    return [
        str(found)
        for found in imports
        if is_ours(found.imported)
        and height.get(room_of(found.imported), 0) > height.get(room_of(found.importer), 0)
    ]


def circle(imports: list[Import]) -> list[str]:
    """The modules of one circle, or nothing."""
    graph: dict[str, set[str]] = {}
    for found in imports:
        if is_ours(found.imported) and found.imported != found.importer:
            graph.setdefault(found.importer, set()).add(found.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def forbidden_spark(imports: list[Import]) -> list[str]:
    """Imports of Spark by modules that are declared free of it."""
    return [
        str(found)
        for found in imports
        if found.imported.split(".")[0] in SPARK
        and room_of(found.importer) not in SPARK_ROOMS
        and not any(f"{found.importer}.".startswith(f"{module}.") for module in SPARK_MODULES)
    ]


def started_with(module: str, imports: list[Import]) -> set[str]:
    """All modules that run when this one is imported, packages on the way included."""
    direct: dict[str, set[str]] = {}
    for found in imports:
        if found.at_start:
            direct.setdefault(found.importer, set()).add(found.imported)
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(direct.get(name, ()))
            waiting.extend([name.rpartition(".")[0]] if "." in name else [])
    return seen


# --- The project ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return read_imports(ROOT)


def test_every_module_lies_in_a_declared_room() -> None:
    unknown = {name for name in module_files(ROOT) if room_of(name) not in ROOMS}
    assert not unknown, "add the room to ROOMS, at its height"


def test_no_module_imports_a_higher_room(imports: list[Import]) -> None:
    assert not upward(imports)


def test_the_api_and_the_commands_are_doors_side_by_side(imports: list[Import]) -> None:
    """What both give lies in the rooms below them."""
    api = [str(one) for one in imports if room_of(one.importer) == "api"]
    assert api
    assert not [one for one in api if "kraftlog.commands" in one]


def test_no_circle_among_modules(imports: list[Import]) -> None:
    assert not circle(imports)


def test_spark_stays_in_its_rooms(imports: list[Import]) -> None:
    assert not forbidden_spark(imports)


def test_one_module_decides_who_computes_checksums(imports: list[Import]) -> None:
    taken = {found.importer for found in imports if found.imported.split(".")[0] in CHECKSUMS}
    assert taken == {"kraftlog.log.crc"}


def test_no_noun_has_two_meanings() -> None:
    """Neither a class nor a function that others may call; what is declared by a decorator is called
    by nobody.
    """
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in module_files(ROOT).values())
    names = [
        one.name
        for tree in trees
        for one in tree.body
        if isinstance(one, ast.ClassDef)
        or (isinstance(one, ast.FunctionDef) and not one.decorator_list)
        if not one.name.startswith("_") and one.name != "main"
    ]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_no_file_name_stands_in_two_rooms() -> None:
    """But in `commands` and `reference`, whose files are called as what they are about is."""
    doors = {"commands", "reference", "jobs"}
    paths = [path for module, path in module_files(ROOT).items() if room_of(module) not in doors]
    names = Counter(path.stem for path in paths if not path.stem.startswith("__"))
    assert [name for name, count in names.items() if count > 1] == []


def test_declared_spark_modules_exist() -> None:
    assert set(module_files(ROOT)) >= SPARK_MODULES


NOT_FOR_DECODING = {"importlib.metadata", "numpy.ma", "pandas", "pyarrow.fs"}


def test_decoding_imports_no_part_that_others_need() -> None:
    """Each takes as long as decoding some megabytes, and one comes by what looks like a plain call:
    `pa.array` of numpy's numbers.
    """
    program = f"""
import sys
from pathlib import Path
from kraftlog.extras import leave_out
leave_out("pandas")
from tests.benchmark.ours import ours
assert sum(map(ours, Path("examples/quorum").rglob("*.log"))) > 400
print(*{NOT_FOR_DECODING} & set(sys.modules))
"""
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == b"\n"


NOT_FOR_CONTRACTS = {"altair.vegalite", "pyspark", "scipy.optimize"}


def test_contracts_are_judged_without_what_is_not_asked_there() -> None:
    """Half of what Great Expectations imports; what is put off is there when it is asked for."""
    program = f"""
import sys
from kraftlog.contracts import beside
assert beside._begin() is None
print(*{NOT_FOR_CONTRACTS} & set(sys.modules))
import altair, scipy.stats
print(altair.Chart.__name__, scipy.stats.norm.name)
"""
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == b"\nChart norm\n"


def test_the_command_line_starts_without_spark(imports: list[Import]) -> None:
    started = {name.split(".")[0] for name in started_with("kraftlog.cli", imports)}
    assert not started & SPARK


# --- The guard guards -------------------------------------------------------------------------


def tree(root: Path, sources: dict[str, str]) -> list[Import]:
    """The imports of a made-up project, its sources by path below the package."""
    for name, source in sources.items():
        path = root / "kraftlog" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return read_imports(root)


@pytest.mark.parametrize(
    "source",
    [
        "import kraftlog.state.fold",
        "from kraftlog.state import fold",
        "from kraftlog import state",
        "from ..state import fold",
        "def f():\n    from kraftlog.state import fold",
        "if TYPE_CHECKING:\n    from kraftlog.state.fold import Fold",
    ],
)
def test_every_kind_of_upward_import_is_seen(tmp_path: Path, source: str) -> None:
    found = tree(tmp_path, {"log/walk.py": source, "state/fold.py": ""})
    assert len(upward(found)) == 1


def test_downward_imports_and_own_room_are_allowed(tmp_path: Path) -> None:
    source = "from kraftlog.log import walk\nfrom kraftlog.state.put import Put"
    found = tree(tmp_path, {"state/fold.py": source, "state/put.py": "", "log/walk.py": ""})
    assert not upward(found)
    assert not circle(found)


def test_a_circle_inside_a_room_is_seen(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        {
            "log/a.py": "from kraftlog.log import b",
            "log/b.py": "def f():\n    import kraftlog.log.a",
        },
    )
    assert set(circle(found)) == {"kraftlog.log.a", "kraftlog.log.b"}


def test_spark_below_source_is_seen(tmp_path: Path) -> None:
    source = "def f():\n    from pyspark.sql import DataFrame"
    found = tree(tmp_path, {"decode/columns.py": source, "source/reader.py": source})
    assert forbidden_spark(found) == ["kraftlog.decode.columns line 2 imports pyspark.sql"]


def test_what_starts_with_a_module_leaves_late_imports_out(tmp_path: Path) -> None:
    late = "def f():\n    import kraftlog.source.reader"
    found = tree(tmp_path, {"cli.py": late, "source/reader.py": "import pyspark"})
    assert "pyspark" not in started_with("kraftlog.cli", found)
    found = tree(tmp_path, {"cli.py": "import kraftlog.source.reader"})
    assert "pyspark" in started_with("kraftlog.cli", found)
