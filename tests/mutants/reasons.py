"""Why a change that lives makes no other program: nothing but declarations.

Each was read and judged by a person. A piece of the change's key names it; what is not here and
lives is open.
"""

EQUAL: dict[str, str] = {
    "bounds.py Voting.committed_held: > 0 -> >= 0": "of an empty prefix nothing is committed",
    "bounds.py Voting._contradicted_at: < held.end -> <= held.end": "a newer epoch that begins at "
    "the prefix's end, or shares all of it, does not lower it",
    "bounds.py Voting.unseen_leader: > epoch -> >= epoch": "the search begins above the epoch",
    "bounds.py Voting.unseen_leader: 2 -> 3": "the search never gets so far",
    "amplification.py Bursts.__init__: np.zeros": "whole numbers as floats, turned back later",
    "amplification.py Bursts.add: < offsets": "sorting what is in order changes nothing",
    "churn.py _Hours.chosen: np.searchsorted": "left is numpy's default",
    "numbering.py numbered: column.indices.to_numpy": "None is as false as False",
    "record_totals.py _added_up: (numbers": "the sum is cast to 64 bits",
    "record_totals.py numbers: column.to_numpy": "a copy more",
    "record_totals.py varint_sizes: 0 -> 1": "a varint of 1 has a byte, as one of 0",
    "ranking.py Candidate.order: 0 -> 1": "it is the same for all replicas that restore nothing",
    "checkpoint.py write_checkpoint: < 0 -> < 1": "the first leader's epoch is 1",
    "fold.py _Fold._applied: -1 -> +1": "a topic has no row of its own",
    "join.py after_crash: takeover.Step(": "a crash asks for the disk alone",
    "rows.py likely_leaders: 0 -> 1": "the newest log is never empty",
    'checkpoint.py _write_once: ".part"': "the name of a file that nobody sees",
    'fold.py _Fold.rows: "stable"': "numpy takes it in either case",
    "partition_events.py _of_outline: np.full": "64 bits are numpy's default",
    'traffic.py _rows: Path(path).open(encoding="utf-8-sig", newline="") -> ': "no topic's name has "
    "a line break in it",
    "fold.py _Fold._lengths: 1 -> 2": "of null only the sign is asked",
    "fold.py _Fold._numbers: -2 -> +2 #1": "puts and changes name a leader, and of nothing else is it "
    "asked",
    "history.py _relation: Relation(name, grain, pa.schema([*VALIDITY, *fields])) -> Relation(N": (
        "a history table goes by the key under which it is held"
    ),
    "r…2f3ec846 -> _Place(snapshot.replica, snapshot.path, batches, r…0a504902": "None is as false as "
    "False",
    "outline.py Outliner.finish: -1 -> +1": "what never shows has no time at which it does",
    "standing.py differing: range(0, len(common), _BLOCK) -> range(0, len(common), )": "the same is "
    "found, block after block at each place",
    "tables.py _partitions_with_elr: group: Key = () -> group: Key = None": "either is no group",
    "window.py RecordWindow.between: >= self.end_offset -> > self": "nothing lies behind the end",
    "pairs.py _agreeing: 0 -> 1 #2": "two logs that share an offset have an end",
    "pairs.py _agreeing: < theirs -> <= theirs": "equal ends were told before",
    "collect.py _is_folder: FileProblem(": "None is as false as False",
    "issues.py _holders: 1 -> 2 #1": "without a tail any bound above the batch does",
    "log_checks.py _damaged_headers: remedy(quorum, log.label, start, end) -> remedy(quorum, N": (
        "a copy does not hold its own damaged range"
    ),
}
"""The reason, by a piece of the change's key."""


def reason(key: str) -> str:
    """The reason of a change, or nothing."""
    return next((f"equal: {why}" for piece, why in EQUAL.items() if piece in key), "")
