"""What the evidence of each check's findings holds: scripts read it as JSON by these names, so a
name that is gone or a value that is missing breaks them.

A shape is a type, None, a list with the shape of its elements, a mapping of a type, an object by
its keys, or a tuple of shapes one of which must fit. A finding has some of its check's names.
"""

from typing import Any

NUMBER = (int, float)
DATA = {str: object}
"""A record's fields, or a row's."""
PARTITION = {
    "name": str, "topic_id": str, "leader": int, "replicas": [int], "isr": [int], "elr": [int],
    "last_known_elr": [int], "since_offset": (int, None), "led_by": (int, None),
}  # fmt: skip

OBJECTS = [{"change": str, "count": int, "names": [str], "table": str}]

EVIDENCE: dict[str, dict[str, Any]] = {
    "batch_crc_valid": {"held_intact_by": [str], "size_bytes": int, "more": int, "asks": str},
    "batch_decompresses": {
        "batch_id": str, "record_index": int, "kind": str, "detail": str, "byte_position": int,
        "more": int,
    },
    "batch_header_valid": {
        "same_bytes_on": [str], "other_bytes_on": [str], "record_count": int,
        "last_offset_delta": int, "more": int, "held_intact_by": [str], "fault": str,
        "size_bytes": int, "detail": str, "content_hash": str, "asks": str,
    },
    "broker_epoch_is_offset": {
        "batch_id": str, "broker_id": int, "broker_epoch": int, "replicas": [str],
    },
    "broker_directories_unique": {
        "batch_id": str, "broker_id": int, "directory": str, "other_broker_id": int,
        "replicas": [str], "stops": str, "same_bytes_on": [str], "other_bytes_on": [str],
    },
    "brokers_unfenced": {"broker_id": int, "since_offset": int, "controlled_shutdown": bool},
    "cluster_id_agrees": {"cluster_id": str, "cluster_ids": {str: int}},
    "committed_data_consistent": {
        "agreeing": [str], "outlier_by_majority": (str, None), "batches_that_differ": int,
        "equal_again_after": bool, "voters": [int], "records": {str: [str]}, "two_histories": bool,
        "first_difference_offset": int, "first_difference": {str: str}, "committed_lower": int,
        "bound_reason": str, "objects_lost": (OBJECTS, None), "voter_directories": [str],
    },
    "controllers_are_voters": {
        "controller_id": int, "highest_metadata_version": int, "blocks_upgrade": bool,
    },
    "controllers_catch_up": {
        "end_offset": int, "snapshot": str, "snapshot_size_bytes": int, "elections_since": int,
        "epochs_ahead": int, "part": (str, None), "part_size_bytes": (int, None),
        "part_stalled_ms": (int, None), "least_bytes_per_second": int, "fetch_timeout_ms": int, "request_timeout_ms": int,
    },
    "disk_has_room": {
        "free_bytes": int, "log_bytes_per_day": (NUMBER, None), "days_to_full": (NUMBER, None),
        "kept_bytes": (NUMBER, None), "size_bytes": int,
    },
    "election_storm": {
        "epoch": int, "newest_epoch_in_logs": int, "elections_in_an_hour": int,
        "skipped_epochs": int, "shortest_tenure_ms": int, "epochs": int, "median_tenure_ms": int,
    },
    "elections_clean": {
        "names": [str], "marked": [str],
        "elections": [{"leader": int, "name": str, "offset": int, "times": int}],
    },
    "epoch_checkpoint_agrees": {
        "entry": [int], "what": str, "entries": int, "more": int, "problem": str,
    },
    "epoch_within_quorum_state": {"quorum_state_epoch": int, "batches": int},
    "epochs_monotonic": {"previous_epoch": int, "more": int},
    "features_recorded": {"supported_by_all": (int, None), "cannot_start": [int]},
    "features_upgradable": {
        "feature": str, "finalized": int, "behind": [str], "supported_by_all": int,
        "cannot_start": [int],
    },
    "file_readable": {"kind": str, "problem": str},
    "folders_match_topics": {
        "folders": [{"folder": str, "path": str, "topic_id": str, "why": str}], "deletes": [str],
    },
    "index_agrees": {
        "bad_entries": int, "entries": int, "surplus_bytes": int, "entry": int, "offset": int,
        "position": int, "timestamp": int,
    },
    "isr_within_replicas": {
        "batch_id": str, "topic_id": str, "partition": int, "after": DATA, "replicas": [str],
        "kind": str, "stops": str, "data": DATA, "same_bytes_on": [str], "other_bytes_on": [str],
    },
    "leader_change_starts_epoch": {"first_record": (str, None)},
    "leader_in_isr": {
        "batch_id": str, "topic_id": str, "partition": int, "after": DATA, "replicas": [str],
    },
    "leader_writes_on": {"gap_ms": int, "usual_ms": int, "gaps": int},
    "leaders_balanced": {"broker_id": int, "led_elsewhere": int, "preferred": int},
    "leaders_last": {
        "tenures": int, "shortest_ms": int, "median_ms": int, "longest_ms": int, "led": {str: int},
    },
    "log_end_lost": {
        "witnesses": [{"end_offset": int, "says": str}], "held_intact_by": [str],
        "committed_lower": int, "role": str, "led_epoch": int, "held_by": [str],
    },
    "log_ends_on_batch": {
        "batch_start_offset": int, "batch_end_offset": int, "asks": str,
    },
    "log_matching": {
        "agreeing": [str], "outlier_by_majority": (str, None), "batches_that_differ": int,
        "equal_again_after": bool, "majority": [str], "first_difference_offset": int,
        "first_difference": {str: str}, "records": {str: [str]},
    },
    "log_start_covered": {"log_start_offset": int, "covered_by": [str], "asks": str},
    "log_tail_complete": {
        "fault": str, "size_bytes": int, "detail": str, "content_hash": str, "held_intact_by": [str],
    },
    "mass_deletion": {
        "names": [str],
        "batch_id": str, "kind": str, "removed": int, "total": int, "last_offset": int,
        "replicas": [str],
    },
    "meta_properties_valid": {"problem": (str, None)},
    "newest_leader_commits": {
        "epoch": int, "leader_id": int, "held_by": [int], "majority": int,
        "leaders_without_commit": int, "end_offsets": {str: int},
    },
    "node_identity_unique": {
        "node_id": int, "folder": str, "directory_id": (str, None), "voter_id": int,
        "either": bool,
    },
    "offsets_contiguous": {
        "base_offset": int, "expected": int, "held_intact_by": [str], "more": int,
        "covered_by_snapshot": str, "asks": str,
    },
    "partition_epochs_step": {
        "batch_id": str, "topic_id": str, "partition": int, "after": DATA, "replicas": [str],
    },
    "partitions_have_leaders": {
        "names": [str],
        "partitions": [{**PARTITION, "way_back": str}],
    },
    "acls_distinct": {"acls": [{"acl": str, "ids": [str]}]},
    "partitions_numbered": {"topics": [str]},
    "partitions_reach_min_isr": {
        "names": [str],
        "partitions": [PARTITION],
    },
    "producer_ids_increase": {
        "batch_id": str, "previous": int, "next": int, "replicas": [str], "stops": str,
        "same_bytes_on": [str], "other_bytes_on": [str],
    },
    "quorum_state_present": {"problem": str},
    "record_decodes": {
        "batch_id": str, "record_index": int, "kind": str, "detail": str, "byte_position": int,
        "same_bytes_on": [str], "size_bytes": int, "more": int,
    },
    "record_replays": {
        "batch_id": str, "kind": str, "stops": str, "data": DATA, "replicas": [str],
        "same_bytes_on": [str], "other_bytes_on": [str],
    },
    "record_rules": {
        "batch_id": str, "record_index": int, "kind": str, "detail": str, "replicas": [str],
        "more": int, "batches": int, "stops": str,
    },
    "record_type_known": {
        "batch_id": str, "record_index": int, "kind": str, "detail": str, "replicas": [str],
        "record_count": int,
    },
    "references_exist": {
        "batch_id": str, "kind": str, "stops": str, "data": DATA, "replicas": [str], "broker_id": int,
        "same_bytes_on": [str], "other_bytes_on": [str],
    },
    "replica_directories_registered": {
        "broker_id": int, "directories": [str], "names": [str], "one_in_sync": [str],
        "alone_there": [str],
    },
    "replicas_registered": {"broker_id": int, "names": [str], "in_elr": [int]},
    "replication_single": {"partitions": [str]},
    "replication_spread": {"partitions": [str], "racks": [str]},
    "retention_keeps_up": {
        "debt_bytes": int, "size_bytes": int, "setting": str, "snapshots": [str],
        "bytes_since_snapshot": int, "limit_bytes": int,
    },
    "scram_users_outlive_restart": {"replicas": [str], "users": [str]},
    "segment_complete": {
        "held_intact_by": [str], "fault": str, "size_bytes": int, "detail": str,
        "content_hash": str,
    },
    "segment_name_matches": {"base_offset": int, "name_offset": int, "held_intact_by": [str]},
    "single_leader_per_epoch": {"leaders": {str: int}, "voted_for_others": [int]},
    "snapshot_ahead_of_log": {
        "log_end_offset": int, "snapshot_end_offset": int, "set_aside": str, "asks": str,
    },
    "snapshot_batch_aligned": {
        "batches": {str: [int]}, "transaction_begins": int, "transaction_ends": (int, None),
        "asks": str,
    },
    "snapshot_below_log_start": {"log_start_offset": int},
    "snapshot_epoch_agrees": {
        "epochs_in_logs": {str: int}, "batches_of_other_epoch": int, "newer_epoch_from": int,
        "objects_lost": (OBJECTS, None), "asks": str,
    },
    "snapshot_equals_replay": {
        "basis": str, "difference_count": int,
        "differences": [{"fields": [str], "key": str, "text": str}], "replicas": [str],
        "snapshots": [{"path": str, "replica": str}], "later": [{"path": str, "offset": int}],
        "set_again": [str], "alike": [str], "asks": str,
    },
    "snapshot_footer_last": {
        "size_bytes": int, "bytes_after_last_batch": int, "peer_size_bytes": (int, None),
        "asks": str,
    },
    "snapshot_header_first": {"headers": int, "size_bytes": int},
    "snapshot_headers_in_order": {"base_offset": int, "expected": int},
    "snapshot_leftover": {
        "size_bytes": int, "complete_size_bytes": (int, None),
        "idle_ms": (int, None), "paths": [str],
    },
    "snapshot_name_valid": {"form": str, "expected_name": str},
    "snapshot_not_too_often": {"close": int, "snapshots": int},
    "snapshot_record_allowed": {
        "type": str, "count": int, "record_index": int, "detail": str, "only_controllers": bool,
    },
    "snapshot_taken": {"running_ms": int, "has_snapshot": bool},
    "snapshot_times_in_order": {"header_timestamps": [int]},
    "snapshot_timestamp_agrees": {"header_timestamp": int, "log_timestamp": int},
    "snapshot_too_large_to_fetch": {"size_bytes": int},
    "snapshot_within_committed": {"upper_bound": int, "reason": str, "contradiction": str},
    "snapshots_agree": {
        "basis": str, "difference_count": int,
        "differences": [{"fields": [str], "key": str, "text": str}],
        "later": [{"path": str, "offset": int}],
        "set_again": [str], "either": bool, "asks": str,
    },
    "timestamps_monotonic": {
        "back_ms": int, "replicas": [str], "times": int, "offsets": [int], "back_ms_least": int,
        "back_ms_most": int, "under_one_leader": int,
    },
    "topic_identity_unique": {
        "batch_id": str, "name": str, "topic_id": str, "other_topic_id": str, "replicas": [str],
        "other_name": str, "deleted": int,
        "kind": str, "stops": str, "same_bytes_on": [str], "other_bytes_on": [str],
    },
    "topic_configs_taken": {
        "configs": [{"topic": str, "name": str, "value": str, "is_old": bool}], "cannot_start": [int],
    },
    "transactions_well_formed": {
        "batch_id": str, "record_index": int, "replicas": [str], "stops": str,
    },
    "uncommitted_tail_diverged": {
        "truncation_offset": int, "could_be_elected": [str], "asks": str, "confirmed_end_offset": int,
        "records_lost": int,
        "size_bytes_lost": int, "types_lost": {str: int},
        "objects_lost": OBJECTS, "who": str,
        "is_proven_uncommitted": bool, "contradicted_by": [str], "first_difference_offset": int,
        "first_difference": {str: str}, "records": {str: [str]}, "agreeing": [str],
        "outlier_by_majority": (str, None), "batches_that_differ": int, "equal_again_after": bool,
        "also_has_tail": bool,
    },
    "voter_changes_overlap": {
        "voters_before": [int], "voters_after": [int], "disjoint_majorities": [[int]],
    },
    "voter_directories_agree": {
        "voter_id": int, "voter_directory_id": str, "directory_id": (str, None), "voters_left": int,
        "majority": int,
    },
    "voter_endpoints_agree": {
        "voter_id": int, "listener": (str, None), "by_voter_set": str,
        "by_itself": {str: str}, "voters_moved": [int], "looked_for_at": str, "listens_at": [str],
        "looking": [str], "unplaced": [int],
    },
    "voter_holds_committed_data": {
        "committed_lower": int, "granted_by": [int], "majority": int, "missing_voters": [int],
        "objects_lost": (OBJECTS, None), "seconds": int, "high_watermark": int, "leader_epoch": int,
    },
    "voter_sets_agree": {
        "voters": [[(int, str, None)]], "other_voters": [[(int, str, None)]], "source": str,
        "other_source": str,
        "disjoint_majorities": [[int]], "looking": [str], "replicas": [str], "stops": str,
        "same_bytes_on": [str], "other_bytes_on": [str],
    },
    "voters_present": {
        "pulled": (str, None), "voters": [int], "missing_voters": [int], "majority": int,
        "source": str,
        "on_other_disks": [int],
        "keeping_up": [int],
    },
    "voters_removed_stay_away": {
        "voter_id": int, "directory_id": str, "removed_offset": int, "back_offset": int,
        "passed_ms": int,
    },
}  # fmt: skip


def fits(value: object, shape: Any) -> bool:
    """Whether a value has a shape."""
    if isinstance(shape, tuple):
        return any(fits(value, one) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, (list, tuple)) and all(fits(one, shape[0]) for one in value)
    if isinstance(shape, dict) and all(isinstance(one, str) for one in shape):
        return (
            isinstance(value, dict)
            and value.keys() == shape.keys()
            and all(fits(value[name], shape[name]) for name in shape)
        )
    if isinstance(shape, dict):
        ((key, held),) = shape.items()
        return isinstance(value, dict) and all(
            fits(one, key) and fits(other, held) for one, other in value.items()
        )
    if shape is None:
        return value is None
    return isinstance(value, shape) and (shape is not int or not isinstance(value, bool))
