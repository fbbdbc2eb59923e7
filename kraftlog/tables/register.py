"""The lake's register: a Delta table without rows, whose newest commit says what the lake is, who
is at work on it, and which versions of its tables belong together.

In: the root of a lake. Out: `RegisterState`s, and one step forward: `advance` takes the next
version of the table, or says that somebody else has taken it. Delta promises that of each version
there is one, on a local disk and on object stores, so that this is a compare-and-swap wherever a
lake may lie. Commits of other clients (who set properties of all tables, or tidy them) say nothing,
and are passed over. Source: the Delta protocol, "Delta Log Entries" and "Commit Provenance Information".
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from kraftlog.errors import LakeError, UnwritableError
from kraftlog.log.stores import is_remote, require_read, why
from kraftlog.relations import TEXT, column
from kraftlog.tables.lake_names import REGISTER

LAYOUT = 10
"""How a lake lies on its disk, and what its ids mean: 2 since files lie under `column=value`, 3
since contents are named under the lake's key and the verdict's tables say what a restart loses, 4
since `runs` says what a run goes by, 5 since `replicas` has times, 7 since `files` has hashes, 8
since `replicas` says how far each is shown, 9 since `epochs` says where each begins, 10 since a record
stands at its place in the log, whatever its frame says; lakes of the first have no register.
"""

_LOOKS, _PAUSE = 3, 0.2
_BROKEN = (DeltaError, OSError, LookupError, ValueError, TypeError, ArithmeticError)
"""What reading a register meets that is damaged, or that somebody has changed."""
_KEY = "kraftlog"
_SCHEMA = pa.schema(
    [column("note", TEXT, "nothing: the commits say it all, and no row is written")]
)


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that writes: `name` is its own among all that ever were, `since` is seconds since
    1970.
    """

    name: str
    host: str
    process: int
    since: float


@dataclass(frozen=True, slots=True)
class Published:
    """The versions of all tables when a run had finished, which readers see together, and how many
    files each table had.
    """

    run: int
    versions: Mapping[str, int]
    files: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RegisterState:
    """What a register says. `version` counts what it has said; `token` counts the owners that
    there have been; `owner` is None while nobody is at work; `renewed` is when the owner was last
    heard of, in seconds since 1970 by its own clock; `published` has the newest run last.
    """

    version: int
    layout: int
    token: int
    owner: Owner | None
    renewed: float
    cluster_id: str | None = None
    published: tuple[Published, ...] = ()


@dataclass(frozen=True, slots=True)
class Register:
    """The register of one lake."""

    root: str

    @property
    def path(self) -> str:
        """The folder of its Delta table."""
        return f"{self.root.rstrip('/')}/{REGISTER}"

    def read(self) -> RegisterState | None:
        """What it says; None where there is none.

        Raises LakeError where it cannot be read, StoreError where its store does not let us."""
        for left in reversed(range(_LOOKS)):
            try:
                return _told(DeltaTable(self.path))
            except TableNotFoundError:
                return None
            except _BROKEN as error:
                # The owner may have deleted old entries of the log while we were listing it.
                require_read(self.path, error)
                if not left:
                    raise LakeError(
                        f"{self.path}: the register of the lake is damaged; the next run mends its end, and where it cannot, name an empty folder with --lake"
                    ) from error
                time.sleep(_PAUSE)
        raise AssertionError("the last look returns or raises")

    def create(self, state: RegisterState) -> bool:
        """Begin a lake; False where another process has just done so."""
        try:
            DeltaTable.create(
                self.path,
                _SCHEMA,
                mode="error",
                name=REGISTER,
                description="what this lake is, and who is at work on it: see its history",
                commit_properties=_properties(state),
            )
        except (DeltaError, OSError) as error:
            if isinstance(error, DeltaError) and DeltaTable.is_deltatable(self.path):
                return False
            raise self._refused(error) from error
        return True

    def advance(self, state: RegisterState) -> bool:
        """Let the register say something at the version after its last; False where it has moved
        on.
        """
        try:
            table = DeltaTable(self.path)
            if table.version() != state.version - 1:
                known = self.read()  # others may have committed since, and said nothing
                if known is None or known.version != state.version - 1:
                    return False
            table.create_write_transaction(
                [], mode="append", schema=_SCHEMA, commit_properties=_properties(state)
            )
        except CommitFailedError as error:
            if DeltaTable(self.path).version() == table.version():
                raise self._refused(error) from error  # of what others have made of the table
            return False
        except (DeltaError, OSError) as error:
            raise self._refused(error) from error
        return True

    def _refused(self, error: Exception) -> UnwritableError:
        return UnwritableError(f"{self.root}: the lake cannot be written ({why(self.root, error)})")


def _told(table: DeltaTable) -> RegisterState:
    """What our newest commit says.

    Raises LookupError and the like where there is none, or it has been changed."""
    # It may move on meanwhile; then there are more than one, wrongly numbered. None: it is torn.
    found = table.history(1)
    if found and not any(_KEY in one for one in found):
        found = table.history()
    states = [_state(one[_KEY]) for one in found if _KEY in one]
    return max(states, key=lambda one: one.version)


def _properties(state: RegisterState) -> CommitProperties:
    """A commit that is not tried again at a later version."""
    return CommitProperties(custom_metadata={_KEY: json.dumps(asdict(state))}, max_commit_retries=0)


def _state(text: str) -> RegisterState:
    given = json.loads(text)
    owner, published = given.pop("owner"), given.pop("published")
    state = RegisterState(
        **given,
        owner=None if owner is None else Owner(**owner),
        published=tuple(Published(**one) for one in published),
    )
    # Whoever shares the lake may have written it.
    for moment in (state.renewed, *([state.owner.since] if state.owner else [])):
        datetime.fromtimestamp(moment, UTC)
    for number in (state.version, state.layout, state.token, *(one.run for one in state.published)):
        if not isinstance(number, int):
            raise TypeError
    for one in state.published:
        if not {*map(type, one.versions.values()), *map(type, one.files.values())} <= {int}:
            raise TypeError
    return state


# --- the end of a log ----------------------------------------------------------------------------


def cut_broken_end(table_path: str) -> bool:
    """Delete the newest commits of a table that are no commits, down to one that is; whether there
    were any. A machine that lost its power leaves them empty or half; an object store shows an object
    when it is whole, and needs none of this.

    Several processes may do so at once: each looks again when it is its turn, so that nobody deletes
    what another one has written instead."""
    folder = Path(table_path) / "_delta_log"
    if is_remote(table_path) or not folder.is_dir():
        return False
    with _alone_in(folder):
        commits = sorted(folder.glob("[0-9]" * 20 + ".json"), reverse=True)
        broken = list(takewhile(lambda one: not is_commit(one), commits))
        if len(broken) == len(commits):
            return False
        for one in broken:
            one.unlink()
    return bool(broken)


def is_commit(path: Path) -> bool:
    """Whether a file is a commit to its end: a JSON object in each line.

    Raises StoreError where it cannot be read: it may be whole."""
    try:
        found = [json.loads(line) for line in path.read_bytes().splitlines()]
    except OSError as error:
        require_read(str(path), error)
        return False
    except (ValueError, RecursionError):
        return False
    return bool(found) and all(isinstance(one, dict) for one in found)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """One process at a time; the system lets go of what a killed one held."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
