"""Contracts: what the lake's tables promise their readers, judged by Great Expectations.

Nothing here is imported before a run's contracts are judged: Great Expectations takes seconds to
import.
"""
