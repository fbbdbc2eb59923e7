"""What the numbers of a state's fields stand for: Kafka's names by code.

In: nothing. Out: the names, and for a column what to know of its values. Source: the enums of Kafka's
common.acl, common.resource, common.config.ConfigResource and clients.admin.ScramMechanism.
"""

from collections.abc import Iterable

RESOURCE_TYPES = (
    "UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER",
)  # fmt: skip
PATTERN_TYPES = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
ACL_OPERATIONS = (
    "UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE",
    "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS",
    "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
)  # fmt: skip
PERMISSIONS = ("UNKNOWN", "ANY", "DENY", "ALLOW")
MECHANISMS = ("UNKNOWN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CONFIG_RESOURCES = {2: "topic", 4: "broker", 8: "broker logger", 16: "client metrics", 32: "group"}


def _listed(names: Iterable[tuple[int, str]]) -> str:
    """Codes with their names, without those that no record holds."""
    return ", ".join(f"{code} {name}" for code, name in names if name not in ("UNKNOWN", "ANY"))


VALUES = {
    ("acls", "resourceType"): _listed(enumerate(RESOURCE_TYPES)),
    ("acls", "patternType"): _listed(enumerate(PATTERN_TYPES)),
    ("acls", "operation"): _listed(enumerate(ACL_OPERATIONS)),
    ("acls", "permissionType"): _listed(enumerate(PERMISSIONS)),
    ("configs", "resourceType"): _listed(CONFIG_RESOURCES.items()),
    ("configs", "resourceName"): "empty: the default of all",
    ("scram_credentials", "mechanism"): _listed(enumerate(MECHANISMS)),
    ("partitions", "leader"): "−1: nobody leads",
    ("partitions", "leaderRecoveryState"): "1: elected uncleanly, and not recovered since",
    ("delegation_tokens", "issueTimestamp"): "ms since 1970",
    ("delegation_tokens", "maxTimestamp"): "ms since 1970",
    ("delegation_tokens", "expirationTimestamp"): "ms since 1970",
    ("client_quotas", "entity"): "types user, client-id, ip; without a name: the default of all",
}
"""What the values of a field say, by state table and field."""
