"""The door to Spark: what is read where, as which rows. Only `datasource` and `parts` import
Spark.
"""
