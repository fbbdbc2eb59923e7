"""What the leader knows of all replicas → the text that `kafka-metadata-quorum.sh describe` prints.

In: a `Description`. Out: the lines of `--status`, then the table of `--replication`, so that one
reader (`quorum.describe`) takes a saved file of either. Source: Kafka's MetadataQuorumCommand.
"""

import json
from typing import Any

from kraftlog.message.message_spec import ZERO_UUID
from kraftlog.pull.messages import Description, ReplicaState
from kraftlog.quorum.describe import COLUMNS, OBSERVER


def describe_text(found: Description, cluster_id: str | None) -> str:
    """The text of a saved describe."""
    lag, lag_ms = _worst_lag(found)
    voters = json.dumps([_voter(found, one) for one in found.voters])
    observers = json.dumps([_identity(one) for one in found.observers])
    status = {
        "ClusterId": cluster_id,
        "LeaderId": found.leader.node_id,
        "LeaderEpoch": found.leader.epoch,
        "HighWatermark": found.high_watermark,
        "MaxFollowerLag": lag,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": voters,
        "CurrentObservers": observers,
    }
    lines = [f"{f'{name}:':<24}{text}" for name, text in status.items() if text is not None]
    table = [list(COLUMNS), *([str(cell) for cell in row.values()] for row in lag_rows(found))]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines += ["", *("\t".join(map(str.ljust, row, widths)) for row in table)]
    return "\n".join(lines) + "\n"


def lag_rows(found: Description) -> list[dict[str, Any]]:
    """One row per replica, the leader first, as in the table of `--replication`."""
    voters = sorted(found.voters, key=lambda one: one.node_id != found.leader.node_id)
    rows = []
    for one in (*voters, *found.observers):
        status = OBSERVER
        if one in found.voters:
            status = "Leader" if one.node_id == found.leader.node_id else "Follower"
        cells = (
            one.node_id,
            one.directory_id or ZERO_UUID,
            one.log_end_offset,
            found.log_end_offset - one.log_end_offset,
            one.last_fetch_ms,
            one.last_caught_up_ms,
            status,
        )
        rows.append(dict(zip(COLUMNS.values(), cells, strict=True)))
    return rows


def _worst_lag(found: Description) -> tuple[int, int]:
    """Of the voter that is furthest behind: records, and milliseconds where they are known."""
    leader = next((one for one in found.voters if one.node_id == found.leader.node_id), None)
    if leader is None:
        return -1, -1
    worst = min(found.voters, key=lambda one: one.log_end_offset)
    times = leader.last_caught_up_ms, worst.last_caught_up_ms
    known = worst is leader or min(times) >= 0
    return leader.log_end_offset - worst.log_end_offset, times[0] - times[1] if known else -1


def _identity(one: ReplicaState) -> dict[str, Any] | int:
    """Versions that know no directory ids print the bare id."""
    if one.directory_id is None:
        return one.node_id
    return {"id": one.node_id, "directoryId": one.directory_id}


def _voter(found: Description, one: ReplicaState) -> dict[str, Any] | int:
    known = _identity(one)
    listeners = (found.listeners or {}).get(one.node_id)
    if isinstance(known, int) or not listeners:
        return known
    return {**known, "endpoints": [f"{name}://{address}" for name, address in listeners]}
