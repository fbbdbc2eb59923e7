"""What to do about findings, as the groups of the page: which check belongs to which, the most
urgent group first.

In: findings. Out: groups of findings. A finding of severity info asks for nothing, whatever its
check. Source: the advice of `audit.guidance`, which says it check by check.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kraftlog.report.verdict import worst_first

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do: a title, one sentence, and the checks whose findings ask for it."""

    key: str
    title: str
    sentence: str
    checks: tuple[str, ...]


ACTIONS = (
    Action(
        "stop",
        "Restart nothing, keep every folder",
        "Committed data is in question here: whatever starts first may become the truth. Settle "
        "which copy is right before any node runs again.",
        tuple(
            "committed_data_consistent log_matching single_leader_per_epoch log_end_lost "
            "voter_holds_committed_data snapshot_within_committed mass_deletion".split()
        ),
    ),
    Action(
        "refetch",
        "Replace the damaged log before its node restarts",
        "Kafka would cut the log at the damage without a word. Where the finding names intact "
        "copies on a majority, set this folder aside and let the node fetch the log again.",
        tuple(
            "batch_crc_valid batch_header_valid segment_complete offsets_contiguous "
            "epochs_monotonic log_start_covered snapshot_ahead_of_log".split()
        ),
    ),
    Action(
        "snapshot",
        "Set the snapshot aside before its node restarts",
        "A node that loads it would start from a wrong or incomplete state. Take another "
        "replica's file, or an older one that the log still reaches.",
        tuple(
            "snapshot_equals_replay snapshots_agree snapshot_header_first snapshot_footer_last "
            "snapshot_epoch_agrees snapshot_batch_aligned snapshot_record_allowed "
            "snapshot_name_valid snapshot_timestamp_agrees snapshot_headers_in_order "
            "snapshot_times_in_order".split()
        ),
    ),
    Action(
        "identity",
        "Put identities and voters right before a restart",
        "Who the nodes are, or who votes, is not told the same way everywhere.",
        tuple(
            "cluster_id_agrees node_identity_unique voter_sets_agree quorum_state_present "
            "epoch_within_quorum_state meta_properties_valid segment_name_matches "
            "voter_directories_agree voter_endpoints_agree voter_changes_overlap "
            "voters_removed_stay_away log_ends_on_batch".split()
        ),
    ),
    Action(
        "origin",
        "Find out who wrote these records",
        "No controller of Kafka that works as it should writes them, and loaders may stop here. "
        "Look at the leader of that epoch and its version before you restart nodes.",
        tuple(
            "leader_change_starts_epoch record_decodes record_rules "
            "batch_decompresses transactions_well_formed references_exist isr_within_replicas "
            "leader_in_isr partition_epochs_step topic_identity_unique broker_epoch_is_offset "
            "producer_ids_increase record_replays".split()
        ),
    ),
    Action(
        "copy",
        "Copy again, then audit again",
        "Nothing is known of what could not be read or was not copied.",
        ("file_readable", "voters_present"),
    ),
    Action(
        "rebuild",
        "Delete the side file while the node is stopped",
        "Kafka builds it anew from the log when the node starts.",
        ("epoch_checkpoint_agrees", "index_agrees"),
    ),
    Action(
        "watch",
        "Look into the running cluster",
        "This is about the cluster, and not about its files.",
        tuple(
            "partitions_have_leaders partitions_reach_min_isr brokers_unfenced elections_clean "
            "replicas_registered folders_match_topics controllers_are_voters features_recorded "
            "features_upgradable newest_leader_commits election_storm leaders_last "
            "controllers_catch_up disk_has_room retention_keeps_up snapshot_taken leader_writes_on "
            "snapshot_too_large_to_fetch snapshot_not_too_often record_type_known".split()
        ),
    ),
    Action(
        "restart",
        "Note what a restart cuts, then restart",
        "Usual after a crash, a network that was cut, or a copy of a running node. A start cuts "
        "these records; do again what is still wanted.",
        ("uncommitted_tail_diverged", "log_tail_complete"),
    ),
    Action(
        "know",
        "Good to know",
        "Nothing is to be done.",
        tuple(
            "timestamps_monotonic snapshot_below_log_start snapshot_leftover replication_single "
            "replication_spread leaders_balanced".split()
        ),
    ),
)

_BY_CHECK = {check: action for action in ACTIONS for check in action.checks}
_WATCH, _KNOW = ACTIONS[-3], ACTIONS[-1]


def action_of(finding: Row) -> Action:
    """What a finding asks for; that of a check which no group names is to be looked into."""
    if finding["severity"] == "info":
        return _KNOW
    return _BY_CHECK.get(finding["check"], _WATCH)


def grouped(findings: Iterable[Row]) -> list[tuple[Action, list[Row]]]:
    """The groups that have findings, the most urgent first, the worst findings of each first.

    A group that holds something critical comes before one that does not."""
    found: dict[str, list[Row]] = {action.key: [] for action in ACTIONS}
    for finding in worst_first(list(findings)):
        found[action_of(finding).key].append(finding)
    groups = [(action, found[action.key]) for action in ACTIONS if found[action.key]]
    return sorted(groups, key=lambda group: group[1][0]["severity"] != "critical")
