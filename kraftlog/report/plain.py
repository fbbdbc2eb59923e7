"""Text from inputs, made safe to show: names of folders and topics can hold anything."""

import re

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """The text without control characters (they could drive a terminal, or turn the direction of
    what follows) and without halves of surrogate pairs, which neither UTF-8 nor XML can hold; a
    replacement character stands for each.
    """
    return _UNPRINTABLE.sub("\ufffd", text)
