"""`python -m tests.benchmark.image LOG LAKE`: what holds in a lake at the end of a log, object by
object against Kafka's own image of that log, one delta per batch.

In: a metadata log's folder, which begins at offset 0, and the lake of a run over it alone, in which
secrets are revealed (or there are none). Out: a line for each history table, and exit code 1 where
one differs. A gigabyte takes Kafka some ten minutes.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from kraftlog.quorum.lineages import MAIN
from kraftlog.state.history import SHOWN, Shown
from kraftlog.tables.lake import Lake
from tests import kafka_judge

Row = dict[str, Any]
_EMPTY = ("eligibleLeaderReplicas", "lastKnownElr")
"""Lists that an image does not tell from such as are not there."""


def held(lake: Lake, shown: Shown) -> list[Row]:
    """The objects of one history table, under Kafka's own field names."""
    wanted = (ds.field("lineage") == MAIN) & ds.field("is_current")
    columns = [name for _, name in shown.columns]
    return shown.values(lake.dataset(shown.table.name).to_table(columns, wanted))


def in_order(rows: Iterable[Row], fields: Collection[str]) -> list[str]:
    """Objects as texts that can be compared."""
    told = ({name: row[name] for name in fields} for row in rows)
    empty: Row = {name: [] for name in _EMPTY}
    return sorted(
        json.dumps({name: empty.get(name) if one is None else one for name, one in row.items()}, sort_keys=True)
        for row in told
    )  # fmt: skip


def main(folder: str, root: str) -> int:
    """Compare all tables but that of voters, who stand in no image."""
    lake, theirs = Lake(root), defaultdict[str, list[Row]](list)
    for row in kafka_judge.image(Path(folder), no_snapshot=True).rows:
        theirs[row["type"]].append(row["data"])
    differs = False
    for shown in SHOWN.values():
        ours, kafkas = held(lake, shown), theirs[shown.table.record]
        if shown.table.writer is None or not (ours or kafkas):
            continue
        fields = (ours or kafkas)[0].keys() & (kafkas or ours)[0].keys()
        is_same = in_order(ours, fields) == in_order(kafkas, fields)
        differs |= not is_same
        verdict = "the same" if is_same else "NOT the same"
        print(f"{shown.table.name}: {len(ours):,} and {len(kafkas):,}, {verdict}", flush=True)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
