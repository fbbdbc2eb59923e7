"""Text from inputs, made safe to show: names of folders and topics can hold anything.

In: any text. Out: the same without what drives a terminal; `tell` prints it on stderr, where all
that is no row of an answer goes. `in_line` is for errors of stores, which come in several lines and
colours. `sentence`, `counted` and `offsets_text` are the small change of all sentences.
"""

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import IO

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SIGNATURE = re.compile(r"(?i)\b(sig|x-(?:amz|goog)-(?:signature|security-token))=[^&\s'\"]+")
_ARROW = re.compile(r"\s*(?:\u21b3|->)\s*")
_ERROR_LIMIT = 300


def printable(text: str) -> str:
    """The text without control characters (they could drive a terminal, or turn the direction of
    what follows) and without halves of surrogate pairs, which neither UTF-8 nor XML can hold; a
    replacement character stands for each.
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def sentence(text: str) -> str:
    """A text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def counted(count: int, noun: str) -> str:
    """A number with its noun: 1 finding, 1,234 findings."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def offsets_text(start: int, end: int | None) -> str:
    """Offsets [start, end) in words."""
    if end is None:
        return f"offset {start} and what follows"
    if end - start <= 1:
        return f"offset {start}"
    return f"offsets {start} to {end - 1}"


def offsets_are(start: int, end: int) -> str:
    """Offsets [start, end) and their verb: offset 3 is, or offsets 3 to 4 are."""
    return f"{offsets_text(start, end)} {'is' if end - start <= 1 else 'are'}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def some(labels: list[str], limit: int = 4, total: int | None = None) -> str:
    """Labels in words, the first few of them; `total` where there are more than were kept."""
    count = len(labels) if total is None else total
    if count > limit + 1:  # "and 1 more" is no shorter than its name
        return f"{', '.join(labels[:limit])} and {count - limit:,} more"
    return listed(labels) if labels else ""


def numbers(ids: Iterable[int], limit: int = 9) -> str:
    """Ids in words, as those of voters."""
    return some([str(one) for one in ids], limit)


def voters_text(ids: Collection[int]) -> str:
    """Voters in words: voter 1, voters 1 and 2."""
    return f"{'voter' if len(ids) == 1 else 'voters'} {numbers(ids)}"


def brokers_text(ids: Collection[int], limit: int = 9) -> str:
    """Brokers in words: broker 1, brokers 1 and 2."""
    return f"{'broker' if len(ids) == 1 else 'brokers'} {numbers(ids, limit)}"


def runs_text(numbers_of: Collection[int]) -> str:
    """Runs of a lake in words: run 1, runs 1 and 2."""
    return f"{'run' if len(numbers_of) == 1 else 'runs'} {numbers(numbers_of, 20)}"


def host_port(host: str, port: int | str) -> str:
    """HOST:PORT as Kafka's tools take it: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def natural(name: str) -> list[tuple[int, str]]:
    """A key for names with numbers: 1, 2, 11 is the order that people expect of 1, 11, 2."""
    return [(int(one) if one.isdecimal() else -1, one) for one in re.split(r"(\d+)", name)]


def unsigned(text: str) -> str:
    """The text without what signs the URLs in it: whoever has that can use them."""
    return _SIGNATURE.sub(r"\1=…", text)


def in_line(error: BaseException, limit: int | None = _ERROR_LIMIT) -> str:
    """What an error of a store says, as a part of a sentence."""
    text = unsigned(_ARROW.sub(": ", " ".join(_COLOUR.sub("", str(error)).split())))
    return text[:limit] or type(error).__name__


def reason_of(error: OSError) -> str:
    """What the system, or a store, says of a file, as a part of a sentence."""
    return error.strerror or in_line(error)


def tell(sentence: str) -> None:
    """Say something to whoever runs the command: one line on stderr."""
    tell_as("kraftlog", sentence)


def tell_as(speaker: str, text: str) -> None:
    """The same, said by a part of it."""
    with heard_or_not(sys.stderr):
        print(f"{speaker}: {printable(text)}", file=sys.stderr)


@contextmanager
def heard_or_not(stream: IO[str]) -> Iterator[None]:
    """What is printed meanwhile may go unread (`| head`): what is left of it then goes nowhere, and
    the command goes on, whose files and exit code are asked for all the same.
    """
    try:
        yield
        stream.flush()
    except BrokenPipeError:
        silence(stream)


def silence(stream: IO[str]) -> None:
    """Let what is still written to a stream whose reader has gone go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@lru_cache(maxsize=4096)
def tell_once(sentence: str) -> None:
    """The same, where the same is met again and again: the steps of a run list the input anew."""
    tell(sentence)
