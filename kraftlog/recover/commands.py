"""The commands that put each node of the new quorum in its place, for a person to run.

In: the new voters, and the brokers of the old quorum. Out: shell commands by node id. Nothing is
run here. `kafka-storage format` with `--ignore-formatted` leaves the directories alone that have a
`meta.properties`, and formats the others of the same server.properties. Source: KIP-853, Kafka's
StorageTool and Formatter.
"""

from collections.abc import Iterable, Mapping, Sequence

from kraftlog.log.names import LOG_FOLDER
from kraftlog.recover.source import OldBroker
from kraftlog.recover.voters import NewVoter

CONFIG = "SERVER_PROPERTIES_OF_{}"
METADATA_FOLDER = "METADATA_LOG_DIR_OF_{}"
DATA_FOLDER = "LOG_DIR_OF_{}"


def node_commands(
    voters: Sequence[NewVoter], brokers: Sequence[OldBroker], cluster_id: str
) -> Mapping[int, list[str]]:
    """For each node, in the order in which they are set up."""
    found = {one.id: list(_voter(one, cluster_id)) for one in voters}
    for one in brokers:
        if one.id not in found:
            found[one.id] = list(_broker(one, cluster_id))
    return found


def _voter(one: NewVoter, cluster_id: str) -> Iterable[str]:
    yield _set_aside(one.id)
    yield f"cp -Rp {one.id}/. {METADATA_FOLDER.format(one.id)}/"
    yield f"{_format(one.id, cluster_id)} --no-initial-controllers"


def _broker(one: OldBroker, cluster_id: str) -> Iterable[str]:
    yield _set_aside(one.id)
    for directory, path in one.files():
        number = "" if len(one.directories) == 1 else f"_WITH_{directory}"
        target = f"{DATA_FOLDER.format(one.id)}{number}"
        yield f"if [ ! -e {target}/meta.properties ]; then cp -p {path} {target}/; fi"
    yield _format(one.id, cluster_id)


def _set_aside(node: int) -> str:
    folder = METADATA_FOLDER.format(node)
    old = f"{folder}/{LOG_FOLDER}"
    return f"if [ -d {old} ]; then mv {old} {folder}.old-metadata; fi"


def _format(node: int, cluster_id: str) -> str:
    config = CONFIG.format(node)
    return f"kafka-storage format --ignore-formatted --cluster-id {cluster_id} --config {config}"
