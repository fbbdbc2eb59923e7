"""Records → state: declared tables, one replay that folds them, and what Kafka itself would write
of the result.
"""
