"""The one place where a failure becomes a sentence and an exit code, foreseen or not.

In: the work of a command or a job. Out: its exit code: its own, or 2 where it could not do its
work, with one sentence on stderr and no stack trace (`--debug` shows it). None of an error's own
text is shown unless it was written for users, as it may hold what lies in a file.
"""

import logging
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from tempfile import gettempdir
from typing import Any

from kraftlog import __version__
from kraftlog.errors import KraftlogError
from kraftlog.extras import missing
from kraftlog.garbage import seldom_looked_for
from kraftlog.plain import heard_or_not, in_line, printable, silence, tell, unsigned

FAILED, INTERRUPTED = 2, 130
DEBUG = "--debug"
_TEXT_LIMIT = 300


def without_choice(
    arguments: Sequence[str], flag: str, choices: Sequence[str]
) -> tuple[list[str], str | None]:
    """A command line without an option that may stand anywhere and takes one of some words, and
    the word that stood there; what is none of them stays, for the parser to refuse.
    """
    words, chosen, given = list[str](), None, iter(arguments)
    for one in given:
        if one.startswith(f"{flag}=") and one.partition("=")[2] in choices:
            chosen = one.partition("=")[2]
        elif one == flag:
            value = next(given, None)
            if value in choices:
                chosen = value
            else:
                words += [one] if value is None else [one, value]
        else:
            words.append(one)
    return words, chosen


def without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """A command line without `--debug`, which may stand anywhere, and whether it stood there."""
    words = [one for one in arguments if one != DEBUG]
    return words, len(words) < len(arguments)


def guarded(work: Callable[[], int], debug: bool = False) -> int:
    """Do the work; returns the exit code. Ctrl-C is answered at once, whatever has to be put in
    order before the end; a second one waits for nothing.
    """
    before, hook = _answer_interrupts(), sys.unraisablehook
    _take_all_that_is_written()
    code = 0  # of a listing whose reader has gone: it ends quietly, as other tools do
    try:
        with heard_or_not(sys.stdout), seldom_looked_for():
            try:
                code = work()
            except SystemExit:  # after a help text, which may not have come through
                sys.stdout.flush()
                raise
    except KeyboardInterrupt:
        # One that has passed through an exec of text, as a dataclass does, counts as unhandled for
        # Python until the next one: it would end the process by the signal, whatever we return.
        exec("")
        return INTERRUPTED
    except Exception as error:
        if debug:
            with heard_or_not(sys.stderr):
                for line in traceback.format_exc().splitlines():
                    print(printable(unsigned(line)), file=sys.stderr)
        tell(sentence_of(error))
        return FAILED
    finally:
        try:
            sys.stdout.flush()
        except OSError:  # which has been told; Python would meet it again at its end
            silence(sys.stdout)
        if before is not None:
            signal.signal(signal.SIGINT, before)
            sys.unraisablehook = hook
            logging.disable(logging.NOTSET)
    return code


def _take_all_that_is_written() -> None:
    """What the locale's encoding lacks is written as its code; a stream that the caller has closed
    takes everything, and says nothing.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Whoever answers Ctrl-C goes on to do so. Spark takes the signal for itself when it starts,
    and first asks its JVM.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and before is not None and signal.getsignal(signal.SIGINT) is not _ended:
            signal.signal(signal.SIGINT, before)


def _answer_interrupts() -> Any:
    """Let Ctrl-C be answered here; what answered it before, None where this is not ours to say."""
    if threading.current_thread() is not threading.main_thread():
        return None
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
        return None  # as in the background of a script
    return signal.signal(signal.SIGINT, _interrupted)


def _interrupted(number: int, frame: object) -> None:
    # First of all: who has read what follows may press again at once.
    signal.signal(signal.SIGINT, _ended)
    sys.unraisablehook = _dropped
    # Written past the streams: the signal may come while one of them is being written.
    with suppress(OSError):
        os.write(2, _STOPPING)
    # Libraries that are told of it on their way (py4j) log it, with a trace.
    logging.disable()
    raise KeyboardInterrupt


def _dropped(one: "sys.UnraisableHookArgs") -> None:
    """What is raised while an object goes away is dropped there, and the work would go on: an interrupt
    is raised once more, a moment later.
    """
    if one.exc_type is KeyboardInterrupt:
        signal.signal(signal.SIGINT, _raised_again)
        # To the thread itself: a system call that it waits for has to end.
        again = signal.pthread_kill, (threading.get_ident(), signal.SIGINT)
        later = threading.Timer(_A_MOMENT_S, *again)
        later.daemon = True  # which work that has ended meanwhile does not wait for
        later.start()
    else:
        sys.__unraisablehook__(one)


def _raised_again(number: int, frame: object) -> None:
    signal.signal(signal.SIGINT, _ended)
    raise KeyboardInterrupt


def _ended(number: int, frame: object) -> None:
    os._exit(INTERRUPTED)


_A_MOMENT_S = 0.01


_STOPPING = b"kraftlog: interrupted, stopping; Ctrl-C again ends it at once\n"


def sentence_of(error: Exception, again: str = "run the same command") -> str:
    """The one sentence that a user reads of an error; `again` does the work with its trace shown."""
    return _foreseen(error) or _of_defect(error, again)


def in_short(error: Exception) -> str:
    """What went wrong in a part of the work, where the rest goes on: as `guarded` would say it."""
    return _foreseen(error) or _place(error)


def _foreseen(error: Exception) -> str | None:
    if isinstance(error, KraftlogError):
        return str(error)
    if isinstance(error, OSError):
        return _of_system(error)
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("kraftlog"):
        return missing(error.name or "a package")
    if isinstance(error, MemoryError):
        return "the memory of this machine is used up; lower the limits of the options"
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return "the system gives no further thread: let this user, or this container, have more of them"
    return _of_spark(error)


_NO_THREAD = "can't start new thread"
"""How Python says it, which has no error of its own for that."""


def _of_system(error: OSError) -> str:
    # Stores give no number but a text of their own.
    why = os.strerror(error.errno) if error.errno else in_line(error)
    return f"{error.filename}: {why}" if error.filename else f"the system refused: {why}"


_SYSTEM_S = re.compile(r"(?:java\.io\.\w*Exception|OSError): ((?!java)[^\n]*)")
"""How the system's refusals stand in what Spark says: its own, and those of its Python workers."""


_LACKS = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH\].*?(3\.\d+).*?(3\.\d+)")
_HAS_ENDED = re.compile(r"SparkContext (?:has been|was) shut ?down|stopped SparkContext")


def _of_spark(error: Exception) -> str | None:
    """What Spark, or a Python of its workers, has met that a user can mend; of nothing else, as
    what tasks say may hold what lies in a file. Spark cannot be imported here.
    """
    if type(error).__name__ not in ("Py4JJavaError", "PythonException"):
        return None
    said = str(error)
    if lacks := _LACKS.search(said):
        return f"the Python of Spark's workers has no {lacks[1]}: ship kraftlog by --py-files and the packages by --archives, or install both there"
    if versions := _OTHER_PYTHON.search(said):
        return f"Spark's workers have Python {versions[1]} and this is {versions[2]}: name one of the same version in PYSPARK_PYTHON"
    if _HAS_ENDED.search(said):
        return "Spark has ended before its work was done: its master does not answer, or stopped it"
    found = _SYSTEM_S.findall(said)
    if not found:
        return None
    why = unsigned(found[-1].strip())[:_TEXT_LIMIT]
    return f"Spark was refused by the system: {why}; it writes to the lake and below {gettempdir()}"


def _of_defect(error: Exception, again: str) -> str:
    """What nobody foresaw: where it is in our own code, and what helps to mend it."""
    return f"this is a defect of kraftlog {__version__} ({_place(error)}); {again} with --debug and send what it prints to where you have kraftlog from"


def _place(error: Exception) -> str:
    """The kind of an error, and where in our own code it was met."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if f"{os.sep}kraftlog{os.sep}" in one.filename] or frames
    if not own:
        return type(error).__name__
    file = own[-1].filename.rpartition(f"{os.sep}kraftlog{os.sep}")[2]
    return f"{type(error).__name__} in {file} line {own[-1].lineno}"
