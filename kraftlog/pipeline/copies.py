"""The tables that hold copies against each other, each with what fills it: pairs of logs, changes
of the voter set.
"""

import pyarrow as pa

from kraftlog import relations
from kraftlog.pipeline.derive import Rows, table
from kraftlog.pipeline.run import Run
from kraftlog.quorum.pairs import divergence_rows
from kraftlog.quorum.voter_changes import voter_change_rows
from kraftlog.relations import BOOL, INT, LONG, TEXT, TIMESTAMP, column
from kraftlog.tables.promise import among, at_least, unique


@table(
    "divergences",
    "ordered pair of replicas",
    relations.REPLICA,
    column("other_replica", TEXT, "label of the copy that it is held against"),
    column(
        "kinship",
        TEXT,
        "what it is to the other: equal, behind, ahead_committed, ahead_uncommitted, diverged_uncommitted, diverged_undecided, diverged_committed, no_common_offsets, unknown. "
        "diverged_uncommitted: what differs was never committed on one side, so Kafka repairs it. "
        "diverged_undecided: nothing at hand proves that. "
        "unknown: a segment that would tell cannot be read",
    ),
    column("reason", TEXT, "why it is of that kind, in words"),
    column("common_start_offset", LONG, "first offset that both logs reach"),
    column(
        "common_end_offset",
        LONG,
        "end of the largest common prefix, by the hashes of whole batches",
    ),
    column(
        "epochs_agree_until",
        LONG,
        "how far the epoch vectors of both agree; bytes that differ below it break Raft's log matching",
    ),
    column("difference_count", LONG, "stretches of offsets that they hold differently"),
    column("difference_start_offset", LONG, "where the first one begins; null: none"),
    column("difference_end_offset", LONG, "where the last one ends (exclusive)"),
    column("batch_leader_epoch", INT, "epoch of the replica's batch at the first one"),
    column("other_batch_leader_epoch", INT, "epoch of the other's batch there"),
    column("differs_within_epoch", BOOL, "other bytes at one offset of one epoch: never sound"),
    column("agrees_again", BOOL, "whether they agree again after a difference"),
    column(
        "own_record_count",
        LONG,
        "records that only the replica holds: from the first difference on, or from the other's end; null: not known",
    ),
    column("own_size_bytes", LONG, "their batches' size"),
    column(
        "truncation_offset",
        LONG,
        "where the replica would cut its log if the other led, by their epochs; null: not known",
    ),
    promises=(
        unique("replica", "other_replica", why="one row per ordered pair and run"),
        among(
            "kinship",
            (
                "equal",
                "behind",
                "ahead_committed",
                "ahead_uncommitted",
                "diverged_uncommitted",
                "diverged_undecided",
                "diverged_committed",
                "no_common_offsets",
                "unknown",
            ),
            "every pair is of one of these kinds",
        ),
    ),
)
def divergences(run: Run) -> Rows:
    return divergence_rows(run.quorum)


@table(
    "voter_changes",
    "change of the voter set",
    column("offset", LONG, "offset of the record; of a snapshot, its end offset"),
    relations.EPOCH,
    column("timestamp", TIMESTAMP, "time of the record"),
    column("source", TEXT, "KRAFT_VOTERS, LEADER_CHANGE, or SNAPSHOT"),
    column("replicas", pa.list_(TEXT), "the copies that hold it"),
    column("kraft_version", INT, "kraft.version there; from 1 on records name the voters"),
    column("voters", pa.list_(TEXT), "the set: id, or id-directory"),
    column("added", pa.list_(TEXT), "voters that the set before it did not have"),
    column("removed", pa.list_(TEXT), "voters that the set before it had"),
    column("majority", LONG, "so many of them commit a record"),
    column(
        "majorities_meet",
        BOOL,
        "whether each majority of the set before shares a voter with each of this one; else both could commit apart; null for the first",
    ),
    column("standing", TEXT, "committed, uncommitted, or pending: nothing proves either"),
    promises=(
        among(
            "standing",
            ("committed", "uncommitted", "pending"),
            "a change is proven to be committed, or proven not to be, or neither",
        ),
        at_least("majority", 1, "a set of voters has a majority"),
    ),
)
def voter_changes(run: Run) -> Rows:
    return voter_change_rows(run.quorum)
