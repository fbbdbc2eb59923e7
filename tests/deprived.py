"""`python -m tests.deprived WHAT COMMAND…`: kraftlog's command line on a full disk, where nothing
may be written, or where nobody is to be reached.

WHAT is a number of bytes beyond which no file can grow, or `read-only`: the mode of a folder then
binds root too. Both work for every user, in a container too, and leave the machine as it is. Below
`unshare --net --map-root-user` it may be `offline`: a network that leads nowhere, and that has seen
whoever asked for more than this machine.
"""

import ctypes
import fcntl
import os
import resource
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kraftlog.cli import main

_VERSION_3 = 0x20080522
_OVERRIDES_MODES = 1 << 1
"""CAP_DAC_OVERRIDE of capabilities(7)."""
_SET_FLAGS, _UP = 0x8914, 0x1
"""SIOCSIFFLAGS and IFF_UP of netdevice(7)."""


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


def only_loopback() -> None:
    """Let this machine reach itself, as the processes of Spark do, in a network of its own."""
    names = [name for _, name in socket.if_nameindex()]
    assert names == ["lo"], names
    with socket.socket() as one:
        fcntl.ioctl(one, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))


def asked_outside() -> int:
    """How often somebody in this network, whatever its process and language, has sent anything to
    an address that is not this machine's: `OutNoRoutes` of proc_net_snmp(5).
    """
    names, counts = (
        line.split()
        for line in Path("/proc/net/snmp").read_text().splitlines()
        if line.startswith("Ip:")
    )
    newer = dict(line.split() for line in Path("/proc/net/snmp6").read_text().splitlines())
    return int(counts[names.index("OutNoRoutes")]) + int(newer["Ip6OutNoRoutes"])


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "offline":
        only_loopback()
        if words[0] == "connect":
            with suppress(OSError):
                socket.create_connection((words[1], 443), 5)
            sys.exit(f"{asked_outside()} times")
        code = main(words)
        sys.exit(f"{asked_outside()} times" if asked_outside() else code)
    if what == "read-only":
        bind_root()
        sys.exit(main(words))
    with full_disk(int(what)):
        sys.exit(main(words))
