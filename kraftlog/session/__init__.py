"""Spark with Delta, quiet and checked; the only room that starts it."""

from kraftlog.session.java import check_java
from kraftlog.session.start import spark_for_tasks, spark_session

__all__ = ["check_java", "spark_for_tasks", "spark_session"]
