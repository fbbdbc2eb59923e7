"""The files of a new quorum: for each voter a `meta.properties` and the checkpoint that it starts
from, for each broker the `meta.properties` of its directories, should its disk be lost.

In: a recovered image and the new voters. Out: files in a folder that was empty or not there. The
state is the old one but for the voters, kraft.version, and the registrations of controllers, which
register anew. Source: KIP-630, KIP-853, Kafka's MetaProperties.
"""

import os
from collections.abc import Sequence
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
