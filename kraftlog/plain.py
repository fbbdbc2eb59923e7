"""Text from inputs, made safe to show: names of folders and topics can hold anything.

In: any text. Out: the same without what drives a terminal; `tell` prints it on stderr, where all
that is no row of an answer goes.
"""

import re
import sys
from functools import lru_cache

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """The text without control characters (they could drive a terminal, or turn the direction of
    what follows) and without halves of surrogate pairs, which neither UTF-8 nor XML can hold; a
    replacement character stands for each.
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def tell(sentence: str) -> None:
    """Say something to whoever runs the command: one line on stderr."""
    print(f"kraftlog: {printable(sentence)}", file=sys.stderr, flush=True)


@lru_cache(maxsize=4096)
def tell_once(sentence: str) -> None:
    """The same, where the same is met again and again: the steps of a run list the input anew."""
    tell(sentence)
