"""Whether the shared lineage has only grown since tables that tell it were written.

In: the stretches of a run's lineages, and the rows of `lineages` of the run that wrote the tables.
Out: the rows of `lineages`, and the offset up to which the tables tell the same history.
"""

import pyarrow as pa

from kraftlog.log.batch import content_hash
from kraftlog.pipeline.run import run_numbered
from kraftlog.quorum.evidence import id_texts
from kraftlog.quorum.lineages import MAIN, Lineage, Stretch, stretches
from kraftlog.relations import Row
from kraftlog.tables.lake import Lake
from kraftlog.tables.spec import LINEAGES


def lineage_rows(found: list[Lineage]) -> list[Row]:
    """One row per stretch of each lineage."""
    return [
        {
            "lineage": lineage.name,
            "fork_offset": lineage.fork_offset,
            "stretch": index,
            "start_offset": stretch.start_offset,
            "end_offset": stretch.end_offset,
            "base_end_offset": None if stretch.base is None else stretch.base.end_offset,
            "base_epoch": None if stretch.base is None else stretch.base.epoch,
            "batch_count": len(stretch.links),
            "digest": _digest(stretch, len(stretch.links)),
        }
        for lineage in found
        for index, stretch in enumerate(stretches(lineage))
    ]


def grown_from(lake: Lake, main: Lineage, table: str) -> int | None:
    """The offset up to which a table tells `main` as it is now; None where it tells another history,
    or none.
    """
    before = _told(lake, table)
    now = stretches(main)
    if not before or len(before) != len(now):
        return None
    for row, stretch in zip(before, now, strict=True):
        count = row["batch_count"]
        is_same = row["start_offset"] == stretch.start_offset
        is_same &= stretch.is_last or row["end_offset"] == stretch.end_offset
        if not is_same or row["digest"] != _digest(stretch, count):
            return None
    end: int = before[-1]["end_offset"]
    return end


def _told(lake: Lake, table: str) -> list[Row]:
    """The rows of `main` of the run that wrote a table last."""
    number = lake.run_number(table)
    if number == 0 or lake.run_number(LINEAGES.name) < number:
        return []
    writer = run_numbered(lake, number)
    rows = lake.rows_of_run(LINEAGES.name, writer["run_id"]) if writer else []
    return sorted(
        (row for row in rows if row["lineage"] == MAIN), key=lambda row: int(row["stretch"])
    )


def _digest(stretch: Stretch, count: int) -> str:
    """A hash over the ids of the base's batches and the first so many that follow."""
    follow = id_texts(stretch.links.ids[:count])
    ids = [*base_ids_of(stretch).to_pylist(), "", *follow.to_pylist()]
    return content_hash("\n".join(ids).encode())


def base_ids_of(stretch: Stretch) -> pa.Array:
    """Ids of the batches of a stretch's base snapshot, in file order."""
    base = stretch.base
    return pa.array([], pa.string()) if base is None else id_texts(base.evidence.batches.ids)
