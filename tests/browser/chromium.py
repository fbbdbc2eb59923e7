"""A headless Chromium for tests, driven over its own pipe: DevTools messages as JSON, each ended by
a zero byte, on file descriptors 3 and 4. No driver and no network port.

Source: Chromium's `--remote-debugging-pipe`, the DevTools protocol.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip
# Puts the pipes where the browser looks for them, out of each other's way first.
_START = """
import fcntl, os, sys
held = [fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3]]
for number, one in enumerate(held, 3):
    os.dup2(one, number)
os.execv(sys.argv[3], sys.argv[3:])
"""


class BrowserMissing(Exception):
    """No browser is at hand: the tests fail, they never skip."""


def find_browser() -> str:
    """The browser that CHROMIUM names, else the first one on PATH.

    Raises BrowserMissing with one sentence."""
    named = os.environ.get("CHROMIUM")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise BrowserMissing(
            "no Chromium or Chrome is on PATH: install one (Debian: apt-get install chromium), or "
            "name its executable in CHROMIUM"
        )
    return found


@dataclass
class Browser:
    """One tab of a running browser."""

    commands: int
    answers: int
    events: list[dict[str, Any]] = field(default_factory=list)
    session: str | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _rest: bytes = b""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; events that come before it are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == number:
                assert "error" not in found, found
                result: dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def open(self, url: str, width: int, *, dark: bool = False) -> None:
        """Load a page at a width, and wait until it is there."""
        self.events.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.call("Page.navigate", url=url)
        while not self.heard("Page.loadEventFired"):
            self.events.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def heard(self, *methods: str) -> list[dict[str, Any]]:
        """The events of some kinds since the page was opened."""
        return [one["params"] for one in self.events if one.get("method") in methods]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self.answers, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        first, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(first)
        return found


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with one empty tab; ended with the block."""
    command = find_browser()
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, str(to_read), str(from_write), command, *_FLAGS,
             f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_read, from_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(from_write)
        try:
            tab = Browser(to_write, from_read)
            target = tab.call("Target.createTarget", url="about:blank")["targetId"]
            attached = tab.call("Target.attachToTarget", targetId=target, flatten=True)
            tab.session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                tab.call(f"{domain}.enable")
            yield tab
        finally:
            os.close(to_write)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(from_read)
