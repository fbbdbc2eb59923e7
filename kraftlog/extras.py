"""What kraftlog can do without: the packages of its extras, and how to have one that is missing.

In: the name of a module that could not be imported. Out: one sentence with the command that brings
it. `pyproject.toml` declares the same packages for pip; a test holds both equal.
"""

import sys
from collections.abc import Collection, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader, find_spec
from types import ModuleType

from kraftlog.errors import PlatformError

EXTRAS: dict[str, tuple[str, ...]] = {
    "page": ("jinja2", "vl_convert"),
    "pull": ("kafka", "cryptography"),
    "sql": ("duckdb",),
    "connect": ("grpc", "grpc_status", "zstandard"),
    "notebook": ("altair", "ipykernel", "nbclient"),
}
"""The modules that each extra brings; what no extra names is a plain dependency."""


def missing(module: str) -> str:
    """What to say where a module is not installed."""
    package = module.partition(".")[0]
    extra = next((name for name, held in EXTRAS.items() if package in held), None)
    what = f"'kraftlog[{extra}]'" if extra else "kraftlog"
    return f"{package} is not installed, which this needs: python -m pip install {what} brings it"


def require(extra: str) -> None:
    """Say before the work begins that an extra is missing.

    Raises PlatformError with the command that brings it."""
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise PlatformError(missing(module))


def leave_out(package: str) -> None:
    """Have this process, which must be kraftlog's own, do without a package, until it is let in."""
    sys.meta_path.insert(0, _LeftOut(package))


def let_in(package: str) -> None:
    """Take back that a package is left out."""
    sys.meta_path[:] = [
        one for one in sys.meta_path if not isinstance(one, _LeftOut) or one.package != package
    ]


def put_off(*modules: str) -> None:
    """Have this process, which must be kraftlog's own, read modules that others import when the first
    thing of them is asked for.
    """
    sys.meta_path.insert(0, _PutOff(modules))


class _LeftOut(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Raises ModuleNotFoundError where the package is asked for; knows nothing of any other."""
        if fullname == self.package:
            raise ModuleNotFoundError(name=fullname)


class _PutOff(MetaPathFinder):
    def __init__(self, modules: Collection[str]) -> None:
        self.modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module that is read later; nothing of any other."""
        if fullname not in self.modules:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec
