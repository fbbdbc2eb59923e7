"""The door to Spark: what is read where, as which rows. Only `datasource`, `stream` and `parts`
import Spark.
"""
