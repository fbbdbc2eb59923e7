"""Whether a folder may become a lake, or is one: looked at before anything is written, or read.

In: a path. Out: nothing, or the lake as its readers see it; or a `LakeError` of one sentence that says
what lies there and what to do.
"""

import re

from deltalake import DeltaTable

from kraftlog.errors import LakeError
from kraftlog.log.storage import FolderEntry, absolute, entry_of, list_folder
from kraftlog.log.stores import asked, is_remote, require_store
from kraftlog.plain import printable, reason_of
from kraftlog.tables.lake import Lake
from kraftlog.tables.lake_names import KEY_FILE, REGISTER
from kraftlog.tables.lease import require_layout
from kraftlog.tables.register import Register, RegisterState
from kraftlog.tables.spec import decoded_tables

_TOLD = 3
_NOT_AS_IT_STANDS = re.compile(r"%[0-9A-Fa-f]{2}|[?#\\\x00-\x1f\x7f\ud800-\udfff]")
"""What delta-rs takes for something else in a path of this machine: it would write its commits to
another folder than we the files, to none, or not find them again.
"""
_LITTLE_PATIENCE = {"max_retries": "1", "retry_timeout": "5s", "connect_timeout": "5s"}


def require_place(root: str) -> None:
    """Raise LakeError where a lake may not be begun: another layout's, or among other things."""
    if is_remote(root):
        require_store(root)
        # The client that commits is another one, with an environment of its own.
        asked(root, lambda: DeltaTable.is_deltatable(f"{root}/{REGISTER}", _LITTLE_PATIENCE))
    elif found := _NOT_AS_IT_STANDS.search(root):
        raise LakeError(
            f"{printable(root)}: Delta cannot keep a lake where a path holds {found[0]!a}; name another folder"
        )
    entry = entry_of(root)
    if entry is None:
        return
    if not entry.is_folder:
        raise LakeError(f"{root} is a file; name a folder for the lake")
    inside = {one.name for one in _listed(root)}
    if REGISTER in inside:
        return
    if inside & set(decoded_tables()):
        raise LakeError(
            f"{root}: the register of this lake, its folder {REGISTER}, is gone: which versions of its tables belong together is not known. "
            "Put it back from a backup. Without one, name an empty folder with --lake, where a run builds everything anew from the input. "
            f"With {KEY_FILE} from here in it, masks stay as they are. "
            "Any reader of Delta still reads the tables here."
        )
    others = sorted(name for name in inside if name != KEY_FILE)
    if others:
        more = f" and {len(others) - _TOLD} more" if len(others) > _TOLD else ""
        raise LakeError(
            f"{root} is not a lake and holds other things ({', '.join(others[:_TOLD])}{more}); name a lake, or for a new one an empty folder or one that is not there yet"
        )


def state_of(root: str) -> RegisterState:
    """What the register of a lake says.

    Raises LakeError where there is no lake, or one of another layout."""
    require_place(root)
    known = Register(root).read()
    if known is None:
        raise LakeError(f"{root}: there is no lake; kraftlog run, or the decode job, comes first")
    require_layout(root, known)
    return known


def lake_at(path: str) -> Lake:
    """A lake that is to be read, as its newest whole run has published it: what a run at work has
    written so far, or one that was killed has left, is not seen.

    Raises LakeError where there is no lake, or no run has finished."""
    root = absolute(path)
    published = state_of(root).published
    if not published:
        raise LakeError(f"{root}: no run has finished yet; run the pipeline first")
    return Lake(root, opened={}, versions=published[-1].versions)


def _listed(root: str) -> list[FolderEntry]:
    try:
        return list(list_folder(root))
    except OSError as error:
        raise LakeError(f"{root}: it cannot be listed ({reason_of(error)})") from error
