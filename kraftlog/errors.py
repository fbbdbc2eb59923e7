"""What can go wrong, as a user meets it.

Damaged input never raises: it becomes a fault row (see `relations.FAULTS`). These errors are for a
command that cannot do its work at all; the command line prints the sentence and ends with exit code
2.
"""


class KraftlogError(Exception):
    """Base of every error that a user may see: one sentence that says what to do next."""


class UsageError(KraftlogError):
    """Arguments or options that make no sense."""


class InputError(KraftlogError):
    """An input root that cannot be read, or holds no metadata log."""


class PlatformError(KraftlogError):
    """The machine lacks something: Java, a jar, a compiled checksum."""


class StoreError(KraftlogError):
    """An object store, or a disk with a lake, that is not there or does not let us in."""


class LakeError(KraftlogError):
    """The lake cannot be read or written."""


class UnwritableError(LakeError):
    """A lake that does not let itself be written, whether it can be read or not."""


class DecodeError(KraftlogError):
    """Bytes that do not follow their message spec; `position` counts from the start of the buffer
    that was read.

    Raised by `wire` and the interpreter, and turned into a fault row before it reaches a user.
    """

    def __init__(self, kind: str, position: int, detail: str) -> None:
        super().__init__(f"{kind} at byte {position}: {detail}")
        self.kind, self.position, self.detail = kind, position, detail
