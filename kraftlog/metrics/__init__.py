"""Declared aggregates over what was decoded: DataFrames in, DataFrames out."""
