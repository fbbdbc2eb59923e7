"""Measures of a quorum: what the KIPs argue with numbers, from what was decoded."""
