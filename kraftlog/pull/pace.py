"""How fast a puller may take: bytes per second, on the average.

In: a limit. Out: how much to ask for, and a pause after each answer.
"""

import time
from dataclasses import dataclass, field

REQUEST_BYTES = 1 << 20
"""What one answer brings, as Kafka's own followers ask by default (KIP-1219)."""


@dataclass
class Pace:
    """`bytes_per_second` is None for no limit.

    A leader sends at least one batch, however little is asked for, and one before Kafka 4.3 up to
    8 MiB: the pause after it makes up for that.
    """

    bytes_per_second: int | None = None
    _free_at: float = field(default=0.0, repr=False)

    @property
    def request_bytes(self) -> int:
        """How many bytes to ask for: never more than a second's."""
        return min(REQUEST_BYTES, self.bytes_per_second or REQUEST_BYTES)

    def wait(self) -> None:
        """Wait until the next request may go out."""
        time.sleep(max(0.0, self._free_at - time.monotonic()))

    def took(self, size_bytes: int) -> None:
        """An answer has come."""
        if self.bytes_per_second is not None:
            now = max(self._free_at, time.monotonic())
            self._free_at = now + size_bytes / self.bytes_per_second

    def pause(self, seconds: float) -> None:
        """The server asks for a pause."""
        self._free_at = max(self._free_at, time.monotonic() + seconds)
