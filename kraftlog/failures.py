"""The one place where a failure becomes a sentence and an exit code, foreseen or not.

In: the work of a command or a job. Out: its exit code: its own, or 2 where it could not do its
work, with one sentence on stderr and no stack trace (`--debug` shows it). None of an error's own
text is shown unless it was written for users, as it may hold what lies in a file.
"""

import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence

from kraftlog import __version__
from kraftlog.errors import KraftlogError
from kraftlog.parts import missing
from kraftlog.plain import printable, tell

FAILED, INTERRUPTED = 2, 130
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TEXT_LIMIT = 300
DEBUG = "--debug"


def without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """A command line without `--debug`, which may stand anywhere, and whether it stood there."""
    words = [one for one in arguments if one != DEBUG]
    return words, len(words) < len(arguments)


def guarded(work: Callable[[], int], debug: bool = False) -> int:
    """Do the work; returns the exit code."""
    try:
        return work()
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): end quietly, as other tools do.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        tell("interrupted")
        return INTERRUPTED
    except Exception as error:
        if debug:
            for line in traceback.format_exc().splitlines():
                print(printable(line), file=sys.stderr)
        tell(sentence_of(error))
        return FAILED


def sentence_of(error: Exception) -> str:
    """The one sentence that a user reads of an error."""
    if isinstance(error, KraftlogError):
        return str(error)
    if isinstance(error, OSError):
        return _of_system(error)
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("kraftlog"):
        return missing(error.name or "a package")
    if isinstance(error, MemoryError):
        return "the memory of this machine is used up; lower the limits of the options"
    return _of_defect(error)


def _of_system(error: OSError) -> str:
    """What the system refused, and about which file."""
    # Stores give no number but a text of their own, some of it in colours.
    text = _COLOUR.sub("", " ".join(str(error).split()))[:_TEXT_LIMIT]
    why = os.strerror(error.errno) if error.errno else text or type(error).__name__
    return f"{error.filename}: {why}" if error.filename else f"the system refused: {why}"


def _of_defect(error: Exception) -> str:
    """What nobody foresaw: where it is in our own code, and what helps to mend it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if f"{os.sep}kraftlog{os.sep}" in one.filename] or frames
    place = f"{own[-1].filename.rpartition(f'{os.sep}kraftlog{os.sep}')[2]} line {own[-1].lineno}"
    return (
        f"this is a defect of kraftlog {__version__} ({type(error).__name__} in {place}); run the "
        "same command with --debug and send what it prints to where you have kraftlog from"
    )
