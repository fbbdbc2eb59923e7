"""Mutants of the rules, and which of them the tests let live."""
