"""The settings that the KIPs name and those that Kafka ships, declared: names, defaults, limits; and
which value of a number counts.

The one home of these names and numbers; what goes by them is told by `audit.origins`. Whoever
compares with a number of a node asks `number_of`, so that there is one order: an argument, the
node's own file, Kafka's default. A text that Kafka would not start with is passed over. Source:
KIP-630 "Proposed Changes", "Topic Configuration", KIP-630 v19 "Configurations", KIP-392, KIP-1219;
Kafka's KRaftConfigs, QuorumConfig and MetadataLogConfig (4.3.1).
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from kraftlog.config import ValueSource
from kraftlog.log.sidefiles import read_properties
from kraftlog.quorum.evidence import ReplicaEvidence
from kraftlog.quorum.growth import DAY_MS
from kraftlog.quorum.topic_configs import LARGEST_INT, LARGEST_LONG, LEAST_LONG, java_number

MIB = 1 << 20
BETWEEN = "metadata.log.max.record.bytes.between.snapshots"
INTERVAL = "metadata.log.max.snapshot.interval.ms"
KEPT_BYTES, KEPT_MS = "metadata.max.retention.bytes", "metadata.max.retention.ms"
SEGMENT_BYTES, SEGMENT_MS = "metadata.log.segment.bytes", "metadata.log.segment.ms"
FETCHED_SNAPSHOT_BYTES = "controller.quorum.fetch.snapshot.max.bytes"
FETCHED_BYTES = "controller.quorum.fetch.max.bytes"
FETCH_TIMEOUT = "controller.quorum.fetch.timeout.ms"
REQUEST_TIMEOUT = "controller.quorum.request.timeout.ms"
RESPONSE_BYTES = "replica.fetch.response.max.bytes"
RACK, SELECTOR = "broker.rack", "replica.selector.class"
ROLES, VOTERS = "process.roles", "controller.quorum.voters"
LOG_DIRS, METADATA_LOG_DIR = ("log.dirs", "log.dir"), "metadata.log.dir"
AUTO_JOIN = "controller.quorum.auto.join.enable"
CONTROLLERS, LISTENERS = "controller.listener.names", ("listeners", "advertised.listeners")
VOTER_SET, LOWER, UPPER = "voters", "committed_lower", "committed_upper"
"""What is known of the quorum, as a run tells it beside the settings."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of `server.properties`. `is_shipped` is False where Kafka reads none of that
    name here; `instead` names what does its work there. `minimum` and `maximum` are
    of a number; no minimum: it is a text.
    """

    name: str
    meaning: str
    default: str | None
    kip: str | None = None
    kip_default: str | None = None
    is_shipped: bool = True
    instead: str | None = None
    minimum: int | None = None
    maximum: int = LARGEST_LONG

    def refused(self, text: str) -> str | None:
        """Why Kafka does not start with this text for a number; None where it does."""
        if (number := java_number(text)) is None:
            return f"{text!r} is not a whole number: Kafka refuses to start"
        if number < (self.minimum or 0):
            return f"{number} is below {self.minimum}: Kafka refuses to start"
        if number > self.maximum:
            return f"{number} is above {self.maximum}: Kafka refuses to start"
        return None


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "cleanup.policy",
        "how the metadata log is kept short; for other topics brokers have log.cleanup.policy",
        None,
        "KIP-630",
        "snapshot",
        is_shipped=False,
        instead="nothing: the metadata log is always kept short by snapshots",
    ),
    Setting(
        "controller.snapshot.minimum.records",
        "records since the last snapshot after which one is taken",
        None,
        "KIP-630, version 19",
        is_shipped=False,
        instead=BETWEEN,
    ),
    Setting(
        "metadata.snapshot.min.changed_records.ratio",
        "share of a snapshot's records that must have changed before the next one",
        None,
        "KIP-630",
        "0.5",
        is_shipped=False,
        instead=BETWEEN,
    ),
    Setting(
        "metadata.start.offset.lag.time.max.ms",
        "how long the log start waits for live replicas",
        None,
        "KIP-630",
        str(7 * DAY_MS),
        is_shipped=False,
        instead=f"{KEPT_BYTES} and {KEPT_MS}",
    ),
    Setting(
        "max.replication.lag.ms",
        "the same in version 19",
        None,
        "KIP-630, version 19",
        is_shipped=False,
        instead=f"{KEPT_BYTES} and {KEPT_MS}",
    ),
    Setting(
        BETWEEN,
        "bytes of the log since the last snapshot after which one is taken; enough by itself",
        str(20 * MIB),
        "KIP-630",
        "20 MB, and the changed ratio too",
        minimum=1,
    ),
    Setting(
        INTERVAL,
        "time since the last snapshot after which one is taken; 0 turns it off",
        "3600000",
        minimum=0,
    ),
    Setting(
        KEPT_BYTES,
        "size of log and snapshots above which old snapshots go, and the log below the next one; below 0: none",
        str(100 * MIB),
        minimum=LEAST_LONG,
    ),
    Setting(
        KEPT_MS,
        "age of the oldest snapshot above which it goes; below 0: none",
        str(7 * DAY_MS),
        minimum=LEAST_LONG,
    ),
    Setting(
        SEGMENT_BYTES,
        "size of a segment of the metadata log",
        str(1 << 30),
        minimum=8 * MIB,
        maximum=LARGEST_INT,
    ),
    Setting(
        SEGMENT_MS,
        "age of a segment of the metadata log above which the next one is begun",
        str(7 * DAY_MS),
        minimum=LEAST_LONG,
    ),
    Setting(
        FETCHED_SNAPSHOT_BYTES,
        "most bytes that one FetchSnapshot asks for; 8 MiB were built in before 4.3",
        str(MIB),
        "KIP-1219",
        str(MIB),
        minimum=1,
        maximum=LARGEST_INT,
    ),
    Setting(
        FETCHED_BYTES,
        "most bytes that one Fetch asks for, one batch at least; 8 MiB before 4.3",
        str(MIB),
        "KIP-1219",
        str(MIB),
        minimum=1,
        maximum=LARGEST_INT,
    ),
    Setting(
        FETCH_TIMEOUT,
        "how long a voter fetches nothing before it starts an election",
        "2000",
        minimum=0,
        maximum=LARGEST_INT,
    ),
    Setting(
        REQUEST_TIMEOUT,
        "how long a node waits for the whole answer to a request before it closes the connection",
        "2000",
        minimum=0,
        maximum=LARGEST_INT,
    ),
    Setting(
        RESPONSE_BYTES,
        "most bytes that a broker answers one Fetch with; the adopted KIP-630 asks it for FetchSnapshot too",
        str(10 * MIB),
        "KIP-630",
        minimum=0,
        maximum=LARGEST_INT,
    ),
    Setting(
        SELECTOR,
        "who chooses the replica that a consumer reads from; unset is the leader",
        None,
        "KIP-392",
        "org.apache.kafka.common.replica.LeaderSelector",
    ),
    Setting(RACK, "the rack that a broker registers with", None, "KIP-392"),
    Setting(
        "client.rack",
        "the rack that a consumer says it is in",
        None,
        "KIP-392",
        is_shipped=False,
        instead="client.rack in the consumer's own configuration",
    ),
)


NUMBERS: dict[str, Setting] = {
    one.name: one for one in SETTINGS if one.is_shipped and one.minimum is not None
}
"""The settings that are numbers in Kafka, by name."""


_ASKED = frozenset(
    {
        *(one.name for one in SETTINGS),
        ROLES,
        CONTROLLERS,
        *LISTENERS,
        *LOG_DIRS,
        "node.id",
        "broker.id",
    }
)
_ASKED_FAMILIES = ("controller.quorum.", "metadata.")


def read_server_properties(raw: bytes) -> dict[str, str]:
    """Of `server.properties` what concerns the quorum: the rest may hold passwords. So may a value that
    goes on in the next line, by a backslash at its end: nothing is kept of an assignment inside one.
    """
    return {
        key: _ASSIGNED.sub(r"\1…", value)
        for key, value in read_properties(raw).items()
        if key in _ASKED or key.startswith(_ASKED_FAMILIES)
    }


_ASSIGNED = re.compile(r"([=]|(?<=[^,\s])\s+(?=[^,\s])).*", re.DOTALL)


def default_of(name: str) -> int:
    """Kafka's default of a number."""
    return int(NUMBERS[name].default or 0)


class Number(NamedTuple):
    """A number that a node goes by, where it came from, and why a nearer one was passed over.
    `path` is its server.properties, also where that does not set it.
    """

    value: int
    source: ValueSource
    path: str | None = None
    message: str | None = None


def number_of(replica: ReplicaEvidence | None, name: str, given: int | None = None) -> Number:
    """A setting of a node, of which there may be no copy, or one whose file is not at hand."""
    if given is not None:
        return Number(given, ValueSource.ARGUMENT)
    file = None if replica is None else replica.server_properties
    path = None if file is None else file.path
    text = None if replica is None else replica.setting(name)
    if text is None:
        return Number(default_of(name), ValueSource.KAFKA_DEFAULT, path)
    refused = NUMBERS[name].refused(text)
    if refused is not None:
        return Number(default_of(name), ValueSource.KAFKA_DEFAULT, path, refused)
    return Number(int(text), ValueSource.SERVER_PROPERTIES, path)
