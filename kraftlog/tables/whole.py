"""One file for readers that come at any time: they see the old one or the new one, never half."""

import uuid
from contextlib import suppress

import pyarrow.fs as pafs

from kraftlog.tables.parquet import filesystem_of, make_folder_of


def write_whole(path: str, content: bytes) -> None:
    """Write a file beside its place and move it there; a full disk leaves the old one. An object
    store shows an object when it is whole.
    """
    filesystem, inner = filesystem_of(path)
    make_folder_of(filesystem, inner)
    if not isinstance(filesystem, pafs.LocalFileSystem):
        with filesystem.open_output_stream(inner) as stream:
            stream.write(content)
        return
    part = f"{inner}.{uuid.uuid4().hex}.part"
    try:
        with filesystem.open_output_stream(part) as stream:
            stream.write(content)
        filesystem.move(part, inner)
    except BaseException:
        with suppress(OSError):
            filesystem.delete_file(part)
        raise
