"""kraftlog: audit and analyse the disks of an Apache Kafka metadata quorum.

The package is read from the disk upwards: `wire` and `message` say what bytes mean, `log` finds
record batches in files, `decode` turns them into Arrow columns, `source` hands those to Spark,
`tables` keeps them in Delta, and `state`, `audit` and `metrics` answer questions. Importing
kraftlog imports no Spark.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("kraftlog")
except (
    PackageNotFoundError
):  # on a worker the package lies in a zip on the path, without its metadata
    __version__ = "0+zip"
