"""Values on the command line: paths of this machine, the file of options, numbers, times."""

import argparse
import re
from datetime import UTC, datetime
from pathlib import Path

from kraftlog.errors import UsageError
from kraftlog.log.stores import is_remote
from kraftlog.relations import moment

_MS = re.compile(r"-?[0-9]{1,18}")


def local_argument(text: str) -> Path:
    """A path of this machine.

    Raises ArgumentTypeError for a URI: written as a path, it would make a folder named `s3:`."""
    if is_remote(text):
        raise argparse.ArgumentTypeError(
            f"{text} is not a path of this machine, and this option needs one; to copy from or to a store, use its own tool"
        )
    return Path(text)


def add_conf(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--conf", type=local_argument, metavar="FILE", help="options as TOML")


def number_from(least: int, text: str) -> int:
    """A whole number of an argument; raises ArgumentTypeError for anything else."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    return int(text)


def time_ms(text: str | None) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time (UTC if it names no zone), or a plain number."""
    if text is None:
        return None
    if _MS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a time: write 2026-11-21T12:03:00Z, or ms") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def millis_text(stamp: int) -> str | int | None:
    """A time for people, in UTC. Kafka's -1 is no time; what no calendar has stays a number."""
    if stamp == -1:
        return None
    at = moment(stamp)
    return stamp if at is None else f"{at:%Y-%m-%d %H:%M:%S}.{stamp % 1000:03}"
