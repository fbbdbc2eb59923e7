"""The tables of a lake as views of a Spark session, all as of one run.

In: a session, and the folder of a lake. Out: a temporary view per table, of the version that the
newest whole run has published: what a run at work has written so far is not seen. Delta wants
absolute paths, and so do views.
"""

import re
from typing import TYPE_CHECKING

from kraftlog.errors import PlatformError
from kraftlog.log.stores import is_remote, side_by_side
from kraftlog.tables.place import lake_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_CLIENT = re.compile(
    r"No FileSystem for scheme|ClassNotFoundException: Class org\.apache\.hadoop\.fs\."
)


def lake_views(spark: "SparkSession", lake: str) -> None:
    """Make a view of every table; those of an earlier call are replaced.

    Raises LakeError where no run has finished, PlatformError where Spark cannot reach its store."""
    found = lake_at(lake)

    def view(table: tuple[str, int]) -> None:
        name, version = table
        path = found.path(name)
        # Without its scheme a local path is one of whatever store Hadoop is set up for.
        place = path if is_remote(path) else f"file://{path}"
        rows = spark.read.format("delta").option("versionAsOf", version).load(place)
        rows.createOrReplaceTempView(name)

    try:
        side_by_side(view, found.versions.items())
    except Exception as error:  # py4j's, which may not be imported here
        if not _NO_CLIENT.search(str(error)):
            raise
        raise PlatformError(
            f"{found.root}: this Spark has no client for that store; give it the jars of Hadoop's, or ask kraftlog sql, deltalake, Polars or DuckDB"
        ) from error
