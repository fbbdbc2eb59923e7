"""kraftlog: audit and analyse the disks of an Apache Kafka metadata quorum.

The package is read from the disk upwards: `wire` and `message` say what bytes mean, `log` finds
record batches in files, `decode` turns them into Arrow columns, `source` hands those to Spark,
`tables` keeps them in Delta, and `state`, `audit` and `metrics` answer questions. Importing
kraftlog imports nothing else; the names of `kraftlog.api` come when they are asked for
(`__init__.pyi` tells type checkers of them), and none of them imports Spark.
"""

from importlib import import_module

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


def __getattr__(name: str) -> object:
    """A name of the Python interface, or the version."""
    if name == "__version__":
        return _version()
    if name not in __all__:
        raise AttributeError(f"module 'kraftlog' has no attribute {name!r}")
    return getattr(import_module("kraftlog.api"), name)


def _version() -> str:
    # A fifth of what numpy and pyarrow take to import, and what reads no version does without.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kraftlog")
    except PackageNotFoundError:
        # On a worker the package lies in a zip on the path, without its metadata.
        return "0+zip"


def __dir__() -> list[str]:
    """What a notebook completes."""
    return [*__all__, "__version__"]
