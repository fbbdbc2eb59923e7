"""Paths on the command line that have to be on this machine."""

import argparse
from pathlib import Path

from kraftlog.log.stores import is_remote


def local_path(text: str) -> Path:
    """A path of this machine.

    Raises ArgumentTypeError for a URI: written as a path, it would make a folder named `s3:`."""
    if is_remote(text):
        raise argparse.ArgumentTypeError(
            f"{text} is no path of this machine, which this option needs; name one, and copy from "
            "or to the store with its own tool"
        )
    return Path(text)
