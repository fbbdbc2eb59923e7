"""The files of a new quorum: for each voter a `meta.properties` and the checkpoint that it starts
from, for each broker the `meta.properties` of its directories, should its disk be lost; and the
commands that put each node in its place, for a person to run.

In: a recovered image and the new voters. Out: files in a folder that was empty or not there, shell
commands by node id. The state is the old one but for the voters, kraft.version, and the
registrations of controllers, which register anew. `kafka-storage format` with `--ignore-formatted`
leaves the directories alone that have a `meta.properties`, and formats the others of the same
server.properties. Source: KIP-630, KIP-853, Kafka's MetaProperties, StorageTool and Formatter.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kraftlog.errors import UsageError
from kraftlog.log.names import LOG_FOLDER
from kraftlog.log.storage import refuse_below_input
from kraftlog.recover.source import OldBroker
from kraftlog.recover.voters import NewVoter
from kraftlog.state.checkpoint import write_checkpoint
from kraftlog.state.image import Image

DYNAMIC_VOTERS = 1
"""The kraft.version from which on records name the voters."""
CONFIG = "SERVER_PROPERTIES_OF_{}"
METADATA_FOLDER = "METADATA_LOG_DIR_OF_{}"
DATA_FOLDER = "LOG_DIR_OF_{}"


def new_image(image: Image, voters: Sequence[NewVoter], listener: str) -> Image:
    """The image with the new voters instead of the old ones."""
    state = image.state.fork()
    for table in ("voters", "controllers"):
        for key in state.keys(table, ()):
            state.set(table, key, None)
    state.set("kraft_version", (), {"version": 0, "kRaftVersion": DYNAMIC_VOTERS})
    for one in voters:
        state.set("voters", (one.id, one.directory_id), one.record(listener))
    return replace(image, state=state)


def new_folder(out: Path, inputs: Sequence[str]) -> Path:
    """The folder that everything goes to.

    Raises UsageError where it holds something, or lies below an input, which is never written to.
    """
    refuse_below_input("the new folder", str(out), inputs)
    target = out.resolve()
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise UsageError(f"{out} is not empty: name a new folder as --out")
    except OSError as error:
        raise UsageError(f"{out}: it cannot be made: {error.strerror}") from error
    return target


def write_kit(
    out: Path,
    image: Image,
    voters: Sequence[NewVoter],
    brokers: Sequence[OldBroker],
    cluster_id: str,
) -> dict[int, list[Path]]:
    """Write the files of each voter, and a `meta.properties` for each directory of the brokers;
    gives their paths by node id. Checkpoints hold secrets in clear: only their owner may read them.
    """
    written: dict[int, list[Path]] = {}
    for one in voters:
        folder = out / str(one.id)
        checkpoint = write_checkpoint(image, folder / LOG_FOLDER)
        properties = folder / "meta.properties"
        write_text(properties, _meta_properties(one.id, one.directory_id, cluster_id))
        written[one.id] = [properties, checkpoint]
    for broker in brokers:
        if broker.id in written:
            continue
        written[broker.id] = []
        for directory, name in broker.files():
            properties = out / name
            properties.parent.mkdir(parents=True, exist_ok=True)
            write_text(properties, _meta_properties(broker.id, directory, cluster_id))
            written[broker.id].append(properties)
    return written


def _meta_properties(node: int, directory: str, cluster_id: str) -> str:
    return f"version=1\ncluster.id={cluster_id}\nnode.id={node}\ndirectory.id={directory}\n"


def write_text(path: Path, text: str) -> None:
    """A new file; a file that is there already is never replaced."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def node_commands(
    voters: Sequence[NewVoter], brokers: Sequence[OldBroker], cluster_id: str
) -> Mapping[int, list[str]]:
    """For each node, in the order in which they are set up: each only where the one before it
    succeeded. What is old is moved to a folder beside the log directory, and never replaced there.
    """
    found = {one.id: list(_voter(one, cluster_id)) for one in voters}
    for one in brokers:
        if one.id not in found:
            found[one.id] = list(_broker(one, cluster_id))
    return found


def _voter(one: NewVoter, cluster_id: str) -> Iterable[str]:
    yield from _set_aside(one.id, LOG_FOLDER, "meta.properties")
    yield f"cp -Rp {one.id}/. {METADATA_FOLDER.format(one.id)}/"
    yield f"{_format(one.id, cluster_id)} --no-initial-controllers"


def _broker(one: OldBroker, cluster_id: str) -> Iterable[str]:
    yield from _set_aside(one.id, LOG_FOLDER)
    for directory, path in one.files():
        number = "" if len(one.directories) == 1 else f"_WITH_{directory}"
        target = f"{DATA_FOLDER.format(one.id)}{number}"
        yield f"if [ ! -e {target}/meta.properties ]; then cp -p {path} {target}/; fi"
    yield _format(one.id, cluster_id)


def _set_aside(node: int, *names: str) -> Iterable[str]:
    folder = METADATA_FOLDER.format(node)
    aside = f"{folder}.old-metadata"
    yield f"mkdir -p {aside}"
    for name in names:
        yield f"if [ -e {folder}/{name} ]; then test ! -e {aside}/{name} && mv {folder}/{name} {aside}/; fi"


def _format(node: int, cluster_id: str) -> str:
    config = CONFIG.format(node)
    return f"kafka-storage format --ignore-formatted --cluster-id {cluster_id} --config {config}"
