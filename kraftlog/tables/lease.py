"""One writer at a time: the right to write a lake, which its owner renews while it lives.

In: the register of a lake. Out: a `Lease`, or one sentence that says who is at work. An owner that
is not heard of any more is taken over. What it may still do is fenced: its token is older than the
one that its successor has put into every table, and a commit with an older token fails (see
`lake.Lake.commit`). So a wrong guess about who is dead costs a run its work, and never the lake.

Clocks of different machines are not compared closely: an owner is dead when nobody has heard of it
for `lease_seconds` while we were watching, or when its last word is ten times as old.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from kraftlog.errors import LakeError
from kraftlog.tables.lake_names import KEY_FILE
from kraftlog.tables.register import LAYOUT, Owner, Register, RegisterState, cut_broken_end

_LONG_AGO = 10
"""So many times the lease's seconds without a word, by two clocks: dead without watching."""
_RENEWALS = 4
"""So many times within the lease's seconds an owner says that it lives."""
_LOOKS_EVERY = 0.5


@dataclass(slots=True)
class Lease:
    """The right to write a lake, as long as it is held. `is_taken_over` says that its last owner
    died at work; `opened` are the tables that stay open while it lasts (see `lake.Lake`).
    """

    register: Register
    state: RegisterState
    seconds: float
    is_taken_over: bool
    lost: bool = False
    opened: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _heard: float = field(default_factory=time.monotonic)
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def token(self) -> int:
        """Counts the owners of the lake."""
        return self.state.token

    def say(self, **changes: Any) -> None:
        """Change what the register says, and be heard of.

        Raises LakeError where another run has taken the lake over."""
        with self._lock:
            now = time.monotonic()
            state = _next(self.state, **changes)
            self.lost = self.lost or not self.register.advance(state)
            if self.lost:
                raise taken_over(self.register.root)
            self.state, self._heard = state, now

    def check(self) -> None:
        """Raise LakeError where the lake is no longer ours, or may be another's by now."""
        if self.lost or time.monotonic() - self._heard > self.seconds:
            self.say()

    def renew_until_ended(self) -> None:
        """Be heard of again and again; ends when the lease does, or is lost."""
        while not self._ended.wait(min(self.seconds / _RENEWALS, threading.TIMEOUT_MAX)):
            try:
                self.say()
            except LakeError:
                # A store that is away for a moment is asked again; what is lost shows at a commit.
                if self.lost:
                    return

    def release(self) -> None:
        """Let others in at once; a lease that was lost is not ours to give back."""
        self._ended.set()
        if not self.lost:
            self.say(owner=None)


def taken_over(root: str) -> LakeError:
    """The error of a run that was taken for dead."""
    return LakeError(
        f"{root}: this run was not heard of for so long that another one has taken the lake over; what it had not committed is not in the lake, so run again"
    )


@contextmanager
def lease_of(
    root: str, lease_seconds: float, wait_seconds: float, tell: Callable[[str], None]
) -> Iterator[Lease]:
    """Hold the lease of a lake; makes the register where there is none.

    `tell` is given one sentence when it has to wait. Raises LakeError where another run is at work
    for longer than `wait_seconds`."""
    lease = _acquired(Register(root), lease_seconds, wait_seconds, tell)
    thread = threading.Thread(target=lease.renew_until_ended, daemon=True)
    thread.start()
    try:
        yield lease
    except BaseException as error:
        # What failed is told, and not that on a full disk the lease cannot be given back either.
        with suppress(LakeError):
            lease.release()
        # Files that a successor has removed are missed first, and are not what was wrong.
        if lease.lost and isinstance(error, Exception):
            raise taken_over(root) from error
        raise
    else:
        lease.release()
    finally:
        lease.opened.clear()
        thread.join(timeout=1)


def _acquired(
    register: Register, seconds: float, wait_seconds: float, tell: Callable[[str], None]
) -> Lease:
    owner = Owner(uuid.uuid4().hex, socket.gethostname(), os.getpid(), time.time())
    began = time.monotonic()
    watched, watched_since, is_told = -1, began, False
    while True:
        try:
            state = register.read()
        except LakeError:
            if not cut_broken_end(register.path):
                raise
            tell(f"{register.path}: its newest entry was broken, and the one before it counts")
            continue
        if state is None:
            first = RegisterState(0, LAYOUT, 1, owner, time.time())
            if register.create(first):
                return Lease(register, first, seconds, is_taken_over=False)
            continue
        require_layout(register.root, state)
        if state.version != watched:
            watched, watched_since = state.version, time.monotonic()
        is_dead = state.owner is not None and (
            time.monotonic() - watched_since >= seconds
            or time.time() - state.renewed >= _LONG_AGO * seconds
        )
        if state.owner is None or is_dead:
            ours = _next(state, token=state.token + 1, owner=owner)
            if register.advance(ours):
                return Lease(register, ours, seconds, is_taken_over=is_dead)
            continue
        left = began + wait_seconds - time.monotonic()
        if left <= 0:
            raise LakeError(f"{register.root}: {at_work(state)}; run again when it has ended")
        if not is_told:
            tell(f"{register.root}: {at_work(state)}; waiting for up to {left:.0f} s")
            is_told = True
        time.sleep(min(_LOOKS_EVERY, left))


def _next(state: RegisterState, **changes: Any) -> RegisterState:
    """What the register is to say next."""
    return replace(state, version=state.version + 1, renewed=time.time(), **changes)


def at_work(state: RegisterState) -> str:
    """Who is at work, in words."""
    owner = state.owner
    assert owner is not None
    since = datetime.fromtimestamp(owner.since, UTC)
    heard = max(0.0, time.time() - state.renewed)
    return f"process {owner.process} on {owner.host} has been at work on this lake since {since:%Y-%m-%d %H:%M:%S} UTC, and was heard of {heard:.0f} s ago"


def require_layout(root: str, state: RegisterState) -> None:
    """Raise LakeError for a lake of another layout."""
    if state.layout != LAYOUT:
        raise LakeError(
            f"{root}: this lake has layout {state.layout}, and this version of kraftlog writes layout {LAYOUT}. "
            "Use the version that wrote this lake, or name an empty folder with --lake, where a run builds everything anew from the input. "
            f"With {KEY_FILE} from here in it, masks stay as they are. "
            "What the input does not hold any more, and what earlier runs told, stays here alone, where any reader of Delta still reads it."
        )
