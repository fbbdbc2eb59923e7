"""Makes `spark.read.format("kraftlog")` known to every session whose Python has kraftlog installed.

Spark looks for modules named `pyspark_*` on the Python path, and takes a `DefaultSource` in them as
a data source; it does so once, when a session first meets a format that is not Java's. So nothing
has to be imported or registered where the wheel is installed. A worker that only has the wheel as a
zip still needs `kraftlog.source.datasource.register`.
"""

from kraftlog.source.datasource import KraftlogDataSource as DefaultSource

__all__ = ["DefaultSource"]
