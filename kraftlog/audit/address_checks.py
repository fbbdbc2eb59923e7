"""A check of where voters are: by the voter set, by their own registration, by their settings.

In: the newest state, and the server.properties beside the copies. Source: KIP-853, KIP-1347,
KAFKA-20427, KAFKA-20661.
"""

from collections.abc import Iterator, Mapping

from kraftlog.audit.check import BadRow, check
from kraftlog.audit.coverage import Coverage
from kraftlog.audit.health_checks import health_of
from kraftlog.audit.triage import replicas_text
from kraftlog.plain import some
from kraftlog.quorum.evidence import ReplicaEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import CONTROLLERS, LISTENERS, VOTERS
from kraftlog.quorum.voters import (
    configured_places,
    contradictions,
    places_of,
    static_places,
)

Places = Mapping[str, str]
"""host:port by listener."""


def _over(quorum: Quorum) -> Coverage:
    voters = _by_voter_set(quorum)
    found = health_of(quorum)
    labels = [
        copy.label for voter in voters for copy in _copies(quorum, voter) if configured_places(copy)
    ]
    if found is not None and set(voters) & set(found.controllers):
        labels += [log.label for log in quorum.peers]
    labels += [one.label for one in _with_static(quorum)]
    return Coverage(
        tuple(dict.fromkeys(labels)),
        (),
        "no voter of a KRaftVoters record has registered as a controller, and no server.properties at hand says where controllers are",
    )


@check(
    "voter_endpoints_agree", "warning", "replica", "KIP-853, KAFKA-20427, KIP-1347",
    "a voter is where the voter set, or the others' settings, say that it is",
    action="identity", over=_over, after="voter_directories_agree",
    goes_by=(VOTERS, CONTROLLERS, *LISTENERS),
    meaning="""A voter is at one address by the voter set (or by the others'
    controller.quorum.voters), and at another by its own registration or its own
    server.properties. Voters find each other by the voter set: after a change of names or ports,
    when all of them are stopped, they may find no majority (KAFKA-20427).""",
    advice="""Let the old names and ports lead to the nodes until there is a leader: a controller
    that finds a leader updates its own endpoints (KIP-853). Change one controller at a time. If
    the old addresses are gone for good, kraftlog recover writes a new quorum with the new ones.""",
)  # fmt: skip
def endpoints(quorum: Quorum) -> Iterator[BadRow]:
    yield from _of_records(quorum)
    yield from _of_settings(quorum)


def _of_records(quorum: Quorum) -> Iterator[BadRow]:
    """Where the voter set says that voters are, against what they say of themselves."""
    moved = {
        voter: list(_against(quorum, voter, places))
        for voter, places in sorted(_by_voter_set(quorum).items())
    }
    away = {
        voter
        for voter, found in moved.items()
        if any(source == SETTINGS for _, _, _, source in found)
    }
    left, majority = len(moved) - len(away), len(moved) // 2 + 1
    lost = (
        f" {len(away)} of {len(moved)} voters have moved like this, and {majority} must be found. "
        "Once all voters are stopped, no leader can be elected unless the old addresses still lead to them."
        if left < majority
        else ""
    )
    for voter, found in moved.items():
        for listener in dict.fromkeys(name for name, *_ in found):
            held = [(other, source) for name, _, other, source in found if name == listener]
            place = next(known for name, known, *_ in found if name == listener)
            told = some([f"{other} by its own {source}" for other, source in held])
            yield BadRow(
                None,
                f"Voter {voter} is at {place} by the voter set, but at {told} (listener {listener}). "
                f"After a restart the other voters look for it at {place}."
                f"{lost} Until there is a leader, let the old address lead to this node: the leader then takes the new address from the node itself. "
                "Or begin a quorum at the new addresses with kraftlog recover.",
                evidence={
                    "voter_id": voter,
                    "listener": listener,
                    "by_voter_set": place,
                    "by_itself": {source: other for other, source in held},
                    "voters_moved": sorted(away),
                },
            )


SETTINGS, REGISTRATION = "server.properties", "registration"


def _by_voter_set(quorum: Quorum) -> dict[int, Places]:
    found = health_of(quorum)
    voters = () if found is None else found.voters
    return {one["voterId"]: places_of(one["endpoints"]) for one in voters}


def _against(quorum: Quorum, voter: int, places: Places) -> Iterator[tuple[str, str, str, str]]:
    """(listener, place by the voter set, another place, who says so)."""
    found = health_of(quorum)
    registered = found.controllers.get(voter) if found else None
    if registered is not None:
        told = places_of(registered["endPoints"])
        for name, place, other in contradictions(dict(places), told):
            yield name, place, other, REGISTRATION
    for copy in _copies(quorum, voter):
        for name, place, other in contradictions(dict(places), configured_places(copy)):
            yield name, place, other, SETTINGS


def _copies(quorum: Quorum, voter: int) -> list[ReplicaEvidence]:
    return [log.evidence for logs in [quorum.holders.get(voter, ())] for log in logs]


def _of_settings(quorum: Quorum) -> Iterator[BadRow]:
    """Where the nodes look for a voter by controller.quorum.voters, against where it listens: each
    voter once, with all that look for it elsewhere.
    """
    wrong: dict[tuple[int, str], list[ReplicaEvidence]] = {}
    for replica in _with_static(quorum):
        for voter, place in sorted(static_places(replica).items()):
            own = [found for one in _copies(quorum, voter) for found in _listens(one)]
            if own and not any(_same_port(place, one) for one in own):
                wrong.setdefault((voter, place), []).append(replica)
    for (voter, place), replicas in sorted(wrong.items()):
        own = [found for one in _copies(quorum, voter) for found in _listens(one)]
        file = replicas[0].server_properties
        lookers = [one.label for one in replicas]
        who = f"{replicas_text(lookers)} {'has' if len(lookers) == 1 else 'have'}"
        yield BadRow(
            replicas[0].label,
            f"Voter {voter} is not where the others look for it: {who} {place} in controller.quorum.voters, but its own server.properties says {some(own)}. "
            "They cannot reach it, so it can neither elect a leader nor be one. "
            "Correct the addresses before any node starts.",
            file.path if file else None,
            evidence={
                "voter_id": voter,
                "looked_for_at": place,
                "listens_at": own,
                "looking": lookers,
            },
        )


def _listens(replica: ReplicaEvidence) -> list[str]:
    return list(configured_places(replica).values())


def _same_port(place: str, other: str) -> bool:
    """Names of one machine may differ between files; its port may not."""
    return place.rpartition(":")[2] == other.rpartition(":")[2]


def _with_static(quorum: Quorum) -> list[ReplicaEvidence]:
    own = [log.evidence for log in quorum.peers]
    return [one for one in own if static_places(one)]
