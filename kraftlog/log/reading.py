"""Walk one listed file, whatever state it is in: what cannot be opened or read is a fault, never an
exception.

In: a `LogFile` and a range. Out: windows of record batches and faults, in file order.
"""

from collections.abc import Iterator

from kraftlog.log.directory import LogFile
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.segment import Limits, Window, walk
from kraftlog.log.storage import open_file
from kraftlog.plain import reason_of


def walk_file(
    file: LogFile, limits: Limits, start: int = 0, end: int | None = None
) -> Iterator[Window | Fault]:
    """The batches that begin in [start, end) of a file, and its faults there."""
    if file.problem is not None:
        yield Fault(FaultKind.UNREADABLE, 0, file.size_bytes, file.problem)
        return
    try:
        with open_file(file.path) as handle:
            yield from walk(handle, start, end, limits)
    except FileNotFoundError:
        yield Fault(FaultKind.VANISHED, 0, file.size_bytes, "the file is gone")
    except OSError as error:
        yield Fault(FaultKind.UNREADABLE, 0, file.size_bytes, reason_of(error))
