"""The four steps of a run, each one library call: decode, materialize, audit, metrics. Driver side;
the work is in Spark tasks.
"""
