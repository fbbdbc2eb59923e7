"""What the configs of topics may be, and which values of them Kafka's brokers do not start with; how
Kafka reads a number from a config, of whatever it is.

In: a state. Out: the configs that are refused. A broker builds the configs of all topics when it
starts (LogManager.fetchTopicConfigOverrides), and ends where one does not fit its definition; one
that it does not know it leaves out. Source: LogConfig of Kafka 4.3.1 and 4.4.0,
ConfigDef.parseType; KAFKA-19080.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from kraftlog.state.state import State
from kraftlog.state.tables import TOPIC_RESOURCE

LARGEST_INT, LARGEST_LONG, LEAST_LONG = (1 << 31) - 1, (1 << 63) - 1, -(1 << 63)
"""Of Java's int and long, in which Kafka holds a number."""
_WHOLE = re.compile(r"[+-]?\d{1,30}", re.ASCII)


def java_number(text: str) -> int | None:
    """The number that Kafka reads from a config; None where it reads none."""
    return int(text) if _WHOLE.fullmatch(text.strip()) else None


def _int(least: int, largest: int = LARGEST_INT) -> range:
    return range(least, largest + 1)


def _long(least: int) -> range:
    return range(least, LARGEST_LONG + 1)


_SEGMENT, _GZIP, _POLICY, _RATIO = (
    "segment.bytes",
    "compression.gzip.level",
    "cleanup.policy",
    "min.cleanable.dirty.ratio",
)
NUMBERS = {
    _GZIP: _int(-1, 9),
    "compression.lz4.level": _int(1, 17),
    "compression.zstd.level": _int(-131072, 22),
    "delete.retention.ms": _long(0),
    "file.delete.delay.ms": _long(0),
    "flush.messages": _long(1),
    "flush.ms": _long(0),
    "index.interval.bytes": _int(0),
    "local.retention.bytes": _long(-2),
    "local.retention.ms": _long(-2),
    "max.compaction.lag.ms": _long(1),
    "max.decompressed.message.bytes": _int(1, LARGEST_INT - 8),
    "max.message.bytes": _int(0),
    "message.timestamp.after.max.ms": _long(0),
    "message.timestamp.before.max.ms": _long(0),
    "min.compaction.lag.ms": _long(0),
    "min.insync.replicas": _int(1),
    "remote.copy.lag.bytes": _long(-1),
    "remote.copy.lag.ms": _long(-1),
    "retention.bytes": _long(LEAST_LONG),
    "retention.ms": _long(-1),
    _SEGMENT: _int(1 << 20),
    "segment.index.bytes": _int(4),
    "segment.jitter.ms": _long(0),
    "segment.ms": _long(1),
}
"""What each number may be; of gzip's levels there is no 0."""
_SEGMENT_BEFORE_4_1 = _int(14)
_POLICIES = {"compact", "delete"}
_WORDS = {
    "compression.type": {"gzip", "lz4", "producer", "snappy", "uncompressed", "zstd"},
    "message.timestamp.type": {"CreateTime", "LogAppendTime"},
}
_SWITCHES = {
    "errors.deadletterqueue.group.enable",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "unclean.leader.election.enable",
}
"""True or false, in any case."""
_THROTTLED = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
"""Lists of a partition and a broker each, or * for all."""
_PLACE = re.compile(r"(\d+:\d+)?", re.ASCII)
_DECIMAL = re.compile(
    r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)[fd]?", re.ASCII | re.IGNORECASE
)


class RefusedConfig(NamedTuple):
    """A config that brokers do not take; one that `is_old` those before Kafka 4.1 do."""

    topic: str
    name: str
    value: str
    is_old: bool


def refused_configs(state: State) -> Iterator[RefusedConfig]:
    """Those of the topics that are there."""
    for (kind, topic, name), config in state.rows("configs").items():
        value = config["value"]
        if kind != TOPIC_RESOURCE or not isinstance(value, str) or takes(name, value.strip()):
            continue
        if state.named("topics", topic):
            is_old = name == _SEGMENT and _is_in(value, _SEGMENT_BEFORE_4_1)
            yield RefusedConfig(topic, name, value, is_old)


def takes(name: str, value: str) -> bool:
    """Whether brokers take a value, without the blanks around it."""
    if name in NUMBERS:
        return _is_in(value, NUMBERS[name]) and (name, java_number(value)) != (_GZIP, 0)
    if name in _THROTTLED:
        return value == "*" or all(map(_PLACE.fullmatch, _listed(value)))
    if name == _RATIO:
        decimal = _DECIMAL.fullmatch(value)
        return value == "NaN" if decimal is None else 0 <= float(decimal[1]) <= 1
    if name == _POLICY:
        return not value or _POLICIES.issuperset(_listed(value))
    if name in _SWITCHES:
        return value.lower() in ("false", "true")
    return name not in _WORDS or value in _WORDS[name]


def _is_in(value: str, numbers: range) -> bool:
    number = java_number(value)
    return number is not None and number in numbers


def _listed(value: str) -> list[str]:
    return [one.strip() for one in value.split(",")]
