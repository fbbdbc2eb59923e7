"""`restorable`: which states can still be rebuilt, and from whose files. Needs no Spark.

In: parsed arguments. Out: a row per replica, range of offsets and source on stdout, what nobody can
rebuild on stderr, exit code 0.
"""

import argparse
from dataclasses import asdict

from kraftlog.commands.command import add_input, command, options_of
from kraftlog.plain import tell
from kraftlog.quorum.ranking import restore_rows
from kraftlog.quorum.restorable import lost_everywhere, restorable
from kraftlog.report.rows import print_rows
from kraftlog.source.collected import collected

_DESCRIPTION = """\
From whose files can each replica's state be rebuilt? One row per replica, range of offsets (both
ends included) and source: the replica itself, where its own files do, else every other replica
whose files do, else the replicas whose logs do together (1 + 3: recover puts them together), with the snapshot to begin with (none: from offset 0) and the segments after it.

missing       why its own files do not: no_base (the log begins above 0, no snapshot reaches back),
              hole (missing or damaged batches, up to the next snapshot), after_end
same_history  whether the source tells that replica's own history there; empty: nothing at hand says
source        empty: no file at hand gives these states
"""


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument(
        "--best",
        action="store_true",
        help="instead: the replicas, the best one to restore from first, with reasons",
    )


@command(
    "restorable",
    "which states can be rebuilt, and from whose files",
    _DESCRIPTION,
    arguments=_arguments,
    examples="""
    kraftlog restorable --input replicas/
    kraftlog restorable --input replicas/ --best
    kraftlog restorable --input replicas/ --format json | jq 'select(.source == null)'
    """,
    note="Then `kraftlog checkpoint SOURCE --at OFFSET --out DIR` writes such a state as a snapshot.",
)
def _restorable(chosen: argparse.Namespace) -> int:
    options = options_of(chosen)
    quorum = collected(options.input, options)
    if chosen.best:
        print_rows(restore_rows(quorum), chosen.format)
        return 0
    rows = ({**asdict(one), "segment_paths": list(one.segment_paths)} for one in restorable(quorum))
    print_rows(rows, chosen.format)
    for low, high in lost_everywhere(quorum):
        note = f"the states at offsets {low} to {high} can be rebuilt from no file at hand"
        tell(note)
    return 0
