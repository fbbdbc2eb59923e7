"""What kraftlog can do without: the packages of its extras, and how to have one that is missing.

In: the name of a module that could not be imported. Out: one sentence with the command that brings
it. `pyproject.toml` declares the same packages for pip; a test holds both equal.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec

from kraftlog.errors import PlatformError

EXTRAS: dict[str, tuple[str, ...]] = {
    "page": ("altair", "jinja2", "vl_convert"),
    "pull": ("kafka", "cryptography"),
    "sql": ("duckdb",),
    "connect": ("grpc", "grpc_status", "zstandard"),
    "notebook": ("ipykernel", "nbclient"),
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


def leave_out_pandas() -> None:
    """Have this process, which must be kraftlog's own, do without pandas for good.

    pyarrow imports it at its first array, which takes longer than most answers, and uses it for
    frames alone: those of the contracts that a run holds its tables to, and of nobody else."""
    sys.meta_path.insert(0, _NoPandas())


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Raises ModuleNotFoundError where pandas is asked for; knows nothing of any other."""
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)
