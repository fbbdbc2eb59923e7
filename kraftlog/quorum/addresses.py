"""Where nodes say that controllers are: the settings of each node against what the records say.

In: the server.properties beside a log. Out: places by listener, and the static list of voters. A
host that says "all interfaces" is no place: then only the port counts. Source: KIP-853, KIP-1347,
Kafka's SocketServerConfigs.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address

from kraftlog.plain import host_port
from kraftlog.quorum.evidence import ReplicaEvidence
from kraftlog.quorum.settings import CONTROLLERS, LISTENERS, VOTERS
from kraftlog.state.declare import Data

_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)://(?P<host>\[[^\]]*\]|[^:]*):(?P<port>\d{1,5})")
_VOTER = re.compile(r"(?P<id>\d{1,10})@(?P<place>.+:\d{1,5})")
_ANYWHERE = frozenset({"", "0.0.0.0", "::"})


def configured_places(replica: ReplicaEvidence) -> dict[str, str]:
    """host:port of each listener for controllers, as a node tells it to others; ":port" where it
    names no host.
    """
    wanted = [one.strip() for one in (replica.setting(CONTROLLERS) or "").split(",")]
    places: dict[str, str] = {}
    for key in LISTENERS:
        # Part by part: a search through all of it would take its time by the square.
        for part in (replica.setting(key) or "").split(","):
            found = _LISTENER.fullmatch(part.strip())
            if found is not None and found["name"] in wanted:
                host = found["host"].strip("[]")
                shown = "" if host in _ANYWHERE else host
                places[found["name"]] = host_port(shown, found["port"])
    return places


def static_places(replica: ReplicaEvidence) -> dict[int, str]:
    """Where a node looks for each voter by controller.quorum.voters."""
    text = replica.setting(VOTERS) or ""
    found = (_VOTER.fullmatch(one.strip()) for one in text.split(","))
    return {int(one["id"]): one["place"] for one in found if one is not None}


def places_of(endpoints: list[Data]) -> dict[str, str]:
    """host:port by listener, of a record's endpoints."""
    return {one["name"]: host_port(one["host"], one["port"]) for one in endpoints}


def contradictions(known: dict[str, str], told: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """(listener, one place, the other) of each listener that both name, at different places."""
    for name, place in known.items():
        other = told.get(name)
        if other is not None and not _same(place, other):
            yield name, place, other


def _same(place: str, other: str) -> bool:
    if place.startswith(":") or other.startswith(":"):
        return place.rpartition(":")[2] == other.rpartition(":")[2]
    return _as_meant(place) == _as_meant(other)


def _as_meant(place: str) -> tuple[str, str]:
    """Host and port: names have no case, and Kafka may write ::1 as 0:0:0:0:0:0:0:1."""
    host, _, port = place.rpartition(":")
    host = host.strip("[]").lower()
    with suppress(ValueError):
        host = str(ip_address(host))
    return host, port
