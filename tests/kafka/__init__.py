"""Tests that ask Kafka's own classes while they run (marker `kafka`, see tests/java)."""
