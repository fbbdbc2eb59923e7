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
    "churn.py _Hours.spans: OPEN - 1 -> OPEN + 1": "no change lies at the end of all offsets",
    "numbering.py numbered: column.indices.to_numpy": "None is as false as False",
    "record_totals.py _added_up: (numbers": "the sum is cast to 64 bits",
    "record_totals.py numbers: column.to_numpy": "a copy more",
    "record_totals.py varint_sizes: 0 -> 1": "a varint of 1 has a byte, as one of 0",
    "assembler.py why_invalid: Replica(": "the root of a single file is not asked for",
    "join.py after_crash: takeover.Step(": "a crash asks for the disk alone",
    "rows.py likely_leaders: 0 -> 1": "the newest log is never empty",
    'checkpoint.py _write_once: ".part"': "the name of a file that nobody sees",
    'fold.py _Fold.rows: "stable"': "numpy takes it in either case",
    "partition_events.py _of_outline: np.full": "64 bits are numpy's default",
    "standing.py Standing.of_topics: True -> False": "it asserts what holds anyway",
    "pairs.py _agreeing: < theirs -> <= theirs": "equal ends were told before",
    "collect.py _is_folder: FileProblem(": "None is as false as False",
    "guidance.py all_guidance:": "text files are UTF-8",
    "difference_checks.py _first_words: words.get(other": "the first batches of each are put into "
    "words",
    "issues.py _holders: 1 -> 2 #1": "without a tail any bound above the batch does",
    "log_checks.py _damaged_headers: remedy(quorum, log.label, start, end) -> remedy(quorum, N": (
        "a copy does not hold its own damaged range"
    ),
}
"""The reason, by a piece of the change's key."""


def reason(key: str) -> str:
    """The reason of a change, or nothing."""
    return next((f"equal: {why}" for piece, why in EQUAL.items() if piece in key), "")
