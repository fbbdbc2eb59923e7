"""Numbers as Kafka's configs hold them: how a text is read, and what Java's int and long hold.

Source: Kafka's ConfigDef.parseType (4.3.1).
"""

import re

LARGEST_INT, LARGEST_LONG, LEAST_LONG = (1 << 31) - 1, (1 << 63) - 1, -(1 << 63)
"""Of Java's int and long, in which Kafka holds a number."""
_WHOLE = re.compile(r"[+-]?\d{1,30}", re.ASCII)


def java_number(text: str) -> int | None:
    """The number that Kafka reads from a config; None where it reads none."""
    return int(text) if _WHOLE.fullmatch(text.strip()) else None
