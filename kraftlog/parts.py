"""What kraftlog can do without: the packages of its extras, and how to have one that is missing.

In: the name of a module that could not be imported. Out: one sentence with the command that brings
it. `pyproject.toml` declares the same packages for pip; a test holds both equal.
"""

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
