"""Kafka's own tools against ours on the same logs: equal answers first, times second."""
