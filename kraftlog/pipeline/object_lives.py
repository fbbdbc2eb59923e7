"""The lives of the objects of a lake's history tables, file by file. Driver side.

In: a lake. Out: `Lives` per table. Files of versions that have ended stay as they are while a log
only grows: their rows, which are nearly all, can be gathered before the run knows what is new.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from kraftlog.errors import LakeError
from kraftlog.metrics.objects import Lives
from kraftlog.metrics.versions import KEYS, VALIDITY, Gathered
from kraftlog.quorum.history import ahead
from kraftlog.quorum.lineages import MAIN
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import filesystem_of


@dataclass(frozen=True, slots=True)
class GatheredFiles:
    """The files of one table whose rows are gathered already."""

    gathered: Gathered
    paths: set[str] = field(default_factory=set)

    def take(self, paths: Iterable[str]) -> None:
        """Gather the rows of some files more, each read while those before are looked at."""
        chosen = list(paths)
        for rows in ahead(map(self._rows, chosen)):
            self.gathered.add(rows)
        self.paths.update(chosen)

    def _rows(self, path: str) -> pa.Table:
        """When the versions of a file held, and of what; ids that many versions share stay codes of
        a dictionary.
        """
        keys = KEYS[self.gathered.table]
        filesystem, below = filesystem_of(path)
        coded = [one for one in keys if one == "topic_id"]
        with pq.ParquetFile(below, filesystem=filesystem, read_dictionary=coded) as file:
            columns = [one for one in (*VALIDITY, *keys) if one != _RECORD or _has_nulls(file)]
            return file.read(columns=columns, use_threads=False)


_RECORD = "record_offset"


def _has_nulls(file: pq.ParquetFile) -> bool:
    """Whether a version of a file may stand in a base snapshot."""
    at = file.schema_arrow.names.index(_RECORD)
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    told = [group.column(at).statistics for group in groups]
    return any(one is None or one.null_count != 0 for one in told)


def ended_before(lake: Lake) -> dict[str, GatheredFiles]:
    """What has ended by the newest state that a lake holds; nothing of what cannot be read: that is
    for him to say who asks for it again.
    """
    found = {}
    held = Lake(lake.root)  # what is open for the run is not for another thread
    for name in KEYS:
        files = GatheredFiles(Gathered(name))
        try:
            if held.exists(name):
                files.take(_paths(held, name, {"lineage": MAIN, "is_current": False}))
        except (LakeError, OSError, pa.ArrowInvalid):
            continue
        found[name] = files
    return found


def lives_in(lake: Lake, before: Mapping[str, GatheredFiles]) -> dict[str, Lives]:
    """The lives of the shared lineage's objects, by table. What was gathered `before` counts where
    all of its files are still there.
    """
    found = {}
    for name in KEYS:
        paths = dict.fromkeys(_paths(lake, name, {"lineage": MAIN}))
        files = before.get(name)
        if files is None or not files.paths <= paths.keys():
            files = GatheredFiles(Gathered(name))
        files.take(path for path in paths if path not in files.paths)
        found[name] = files.gathered.lives()
    return found


def _paths(lake: Lake, name: str, wanted: Mapping[str, object]) -> Iterator[str]:
    for added, values in lake.files(name):
        if wanted.items() <= values.items():
            yield f"{lake.path(name)}/{added['path']}"
