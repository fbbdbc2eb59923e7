"""kraftlog: audit and analyse the disks of an Apache Kafka metadata quorum.

The package is read from the disk upwards: `wire` and `message` say what bytes mean, `log` finds
record batches in files, `decode` turns them into Arrow columns, `source` hands those to Spark,
`tables` keeps them in Delta, and `state`, `audit` and `metrics` answer questions. Importing
kraftlog imports nothing else; the names of `kraftlog.api` come when they are asked for
(`__init__.pyi` tells type checkers of them), and none of them imports Spark.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

try:
    __version__ = version("kraftlog")
except (
    PackageNotFoundError
):  # on a worker the package lies in a zip on the path, without its metadata
    __version__ = "0+zip"


def __getattr__(name: str) -> Any:
    """A name of the Python interface. `from kraftlog import relations` asks here first: a module of
    the package is none, and the interface, which imports it, must not be begun for its sake.
    """
    if name.startswith("_") or find_spec(f"kraftlog.{name}") is not None:
        raise AttributeError(f"module 'kraftlog' has no attribute {name!r}")
    interface = import_module("kraftlog.api")
    if name not in interface.__all__:
        raise AttributeError(f"module 'kraftlog' has no attribute {name!r}")
    return getattr(interface, name)
