"""CRC-32C, by the fastest implementation that is compiled here, and by a second one that checks it.

In: bytes. Out: their checksum. google-crc32c has wheels with a compiled part for most platforms and
does 5 GB/s; where it has none, crcmod does the work, which pip compiles where there is a C
compiler. Both fall back to plain Python in silence, at a hundredth of that: that is told once per
process. The two share no line of code, so that `--verify` lets each check the other.
"""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from kraftlog.errors import PlatformError
from kraftlog.plain import tell_once


@dataclass(frozen=True, slots=True)
class Implementation:
    """One implementation: `value` of some bytes, `extend` of a value by more bytes."""

    name: str
    value: Callable[[bytes], int]
    extend: Callable[[int, bytes], int]
    compiled: bool


def google() -> Implementation | None:
    """google-crc32c; None where it is not installed."""
    try:
        with warnings.catch_warnings():
            # It warns of its slow part; what we say of that names the way out.
            warnings.simplefilter("ignore", RuntimeWarning)
            import google_crc32c as given
    except ImportError:
        return None
    return Implementation("google-crc32c", given.value, given.extend, given.implementation == "c")


def crcmod() -> Implementation | None:
    """crcmod; None where it is not installed."""
    try:
        from crcmod.predefined import mkPredefinedCrcFun
    except ImportError:
        return None
    value = mkPredefinedCrcFun("crc-32c")
    # Its module of the same name says which part it has found.
    compiled = bool(sys.modules["crcmod.crcmod"]._usingExtension)
    return Implementation("crcmod", value, lambda crc, data: int(value(data, crc)), compiled)


def chosen(
    first: Implementation | None, second: Callable[[], Implementation | None]
) -> Implementation:
    """The first where it is compiled, else the second where that is; else what there is.

    Raises PlatformError where there is neither."""
    if first is not None and first.compiled:
        return first
    other = second()
    if other is not None and (other.compiled or first is None):
        return other
    if first is None:
        raise PlatformError(
            "neither google-crc32c nor crcmod is installed, and one of them has to check every batch: python -m pip install google-crc32c"
        )
    return first


_OURS = chosen(google(), crcmod)
value, extend = _OURS.value, _OURS.extend
"""The checksum of some bytes; of bytes whose beginning has the given one."""


def checked(ours: Implementation, other: Implementation | None) -> Callable[[bytes], int]:
    """A function that has the other implementation compute each checksum too. Where that one is
    missing, the same, or slow, ours stands alone, and that is told once.
    """
    if other is None or other.name == ours.name or not other.compiled:
        tell_once(
            f"checksums are those of {ours.name} alone: there is no second, compiled implementation to hold them against"
        )
        return ours.value

    def value_of(data: bytes) -> int:
        crc = ours.value(data)
        if other.value(data) != crc:
            raise PlatformError(
                f"{ours.name} and {other.name} find different checksums of the same {len(data):,} bytes. "
                "This machine's memory or processor is at fault, or one of the two packages is broken. "
                "Do not rely on anything that this machine computes."
            )
        return crc

    return value_of


def told(ours: Implementation) -> Callable[[bytes], int]:
    """Its function; where that is plain Python, this is said once."""
    if not ours.compiled:
        tell_once(
            f"{ours.name} has no compiled part here, so checksums take about a hundred times as long. "
            "Install a C compiler, and crcmod once more: python -m pip install --force-reinstall --no-deps --no-binary crcmod crcmod"
        )
    return ours.value


def value_function(verify: bool) -> Callable[[bytes], int]:
    """What computes the checksum of some bytes; with `--verify` each is held against crcmod's."""
    return checked(_OURS, crcmod()) if verify else told(_OURS)
