"""kraftlog: audit and analyse the disks of an Apache Kafka metadata quorum.

The package is read from the disk upwards: `wire` and `message` say what bytes mean, `log` finds
record batches in files, `decode` turns them into Arrow columns, `source` hands those to Spark,
`tables` keeps them in Delta, and `state`, `audit` and `metrics` answer questions. Importing
kraftlog imports nothing else; the names of `kraftlog.api` come when they are asked for
(`__init__.pyi` tells type checkers of them), and none of them imports Spark.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("kraftlog")
except (
    PackageNotFoundError
):  # on a worker the package lies in a zip on the path, without its metadata
    __version__ = "0+zip"


# Written out, as `from kraftlog import relations` asks for an attribute before it imports a module:
# to look into the interface for that name would import all of it, in the middle of another import.
__all__ = [
    "AuditResult",
    "Copies",
    "Copy",
    "Decoder",
    "Difference",
    "Fault",
    "Finding",
    "ForeignRecord",
    "Image",
    "InputError",
    "KraftlogError",
    "UsageError",
    "diff",
    "open",
    "read_partition",
    "versioned",
]


def __getattr__(name: str) -> Any:
    """A name of the Python interface."""
    if name not in __all__:
        raise AttributeError(f"module 'kraftlog' has no attribute {name!r}")
    return getattr(import_module("kraftlog.api"), name)


def __dir__() -> list[str]:
    """What a notebook completes."""
    return [*__all__, "__version__"]
