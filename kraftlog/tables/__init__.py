"""The lake: Delta tables, declared, commented, written once per run. The only room that knows how
Delta is written.
"""
