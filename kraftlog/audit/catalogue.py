"""All checks, in the order in which a person reads them. A new check is one declaration in its
scope's module, and what it means for people in `guidance.toml`.
"""

from kraftlog.audit import (
    address_checks,
    clock_checks,
    difference_checks,
    disk_checks,
    election_checks,
    end_checks,
    folder_checks,
    health_checks,
    joining_checks,
    log_checks,
    record_checks,
    replica_checks,
    side_file_checks,
    snapshot_checks,
    snapshot_pace,
    state_checks,
    voter_checks,
)
from kraftlog.audit.check import Check

_ORDER = """
batch_crc_valid batch_header_valid batch_decompresses file_readable segment_complete
log_tail_complete offsets_contiguous segment_name_matches epochs_monotonic
leader_change_starts_epoch record_decodes record_type_known record_rules transactions_well_formed
log_end_lost epoch_checkpoint_agrees index_agrees epoch_within_quorum_state timestamps_monotonic
leader_writes_on
snapshot_header_first snapshot_footer_last snapshot_name_valid snapshot_epoch_agrees
snapshot_batch_aligned snapshot_timestamp_agrees snapshot_within_committed log_start_covered
snapshot_ahead_of_log snapshot_below_log_start snapshot_leftover snapshot_too_large_to_fetch
retention_keeps_up snapshot_taken snapshot_not_too_often snapshot_times_in_order
snapshot_equals_replay snapshot_record_allowed snapshot_headers_in_order
committed_data_consistent log_matching uncommitted_tail_diverged snapshots_agree
single_leader_per_epoch voters_present voter_holds_committed_data meta_properties_valid
cluster_id_agrees node_identity_unique voter_sets_agree voter_changes_overlap quorum_state_present
newest_leader_commits election_storm leaders_last controllers_catch_up log_ends_on_batch
disk_has_room references_exist isr_within_replicas leader_in_isr partition_epochs_step
topic_identity_unique broker_epoch_is_offset producer_ids_increase mass_deletion record_replays
partitions_have_leaders partitions_reach_min_isr elections_clean replicas_registered
brokers_unfenced folders_match_topics controllers_are_voters features_recorded features_upgradable
replication_single replication_spread leaders_balanced voter_directories_agree
voter_endpoints_agree voters_removed_stay_away
""".split()

_MODULES = (
    log_checks,
    clock_checks,
    record_checks,
    side_file_checks,
    snapshot_checks,
    snapshot_pace,
    difference_checks,
    end_checks,
    replica_checks,
    state_checks,
    voter_checks,
    address_checks,
    election_checks,
    joining_checks,
    disk_checks,
    health_checks,
    folder_checks,
)
_DECLARED = {check.name: check for module in _MODULES for check in module.CHECKS}

CATALOGUE: tuple[Check, ...] = tuple(_DECLARED[name] for name in _ORDER)
"""Every check that an audit runs."""

BY_NAME: dict[str, Check] = {check.name: check for check in CATALOGUE}
