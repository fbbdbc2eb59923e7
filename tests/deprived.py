"""`python -m tests.deprived WHAT COMMAND…`: kraftlog's command line on a full disk, or where
nothing may be written.

WHAT is a number of bytes beyond which no file can grow, or `read-only`: the mode of a folder then
binds root too. Both work for every user, in a container too, and leave the machine as it is.
"""

import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kraftlog.cli import main

_VERSION_3 = 0x20080522
_OVERRIDES_MODES = 1 << 1
"""CAP_DAC_OVERRIDE of capabilities(7)."""


@contextmanager
def full_disk(size_bytes: int) -> Iterator[None]:
    """No file can grow beyond a size: the write that would fails, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def bind_root() -> None:
    """Give up the right to write where a folder's mode forbids it."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    # Effective, permitted and inheritable, first the lower halves of all three, then the upper.
    held = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, held) == 0
    for at in range(3):
        held[at] &= ~_OVERRIDES_MODES
    assert libc.capset(header, held) == 0, os.strerror(ctypes.get_errno())


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "read-only":
        bind_root()
        sys.exit(main(words))
    with full_disk(int(what)):
        sys.exit(main(words))
