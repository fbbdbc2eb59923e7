"""Logs that real Kafka quorums wrote, and what Kafka's own classes read in them."""
