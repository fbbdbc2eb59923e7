"""The files of a new quorum: for each voter a `meta.properties` and the checkpoint that it starts
from, for each broker the `meta.properties` of its directories, should its disk be lost; and the
commands that put each node in its place, for a person to run.

In: a recovered image, and the new voters as a person names them (`1@host:9093:directory-id`, the form
of `kafka-storage format --initial-controllers`). Out: files in a folder that was empty or not there, shell
commands by node id. The state is the old one but for the voters, kraft.version, and the
registrations of controllers, which register anew. `kafka-storage format` with `--ignore-formatted`
leaves the directories alone that have a `meta.properties`, and formats the others of the same
server.properties. Source: KIP-630, KIP-853, Kafka's MetaProperties, StorageTool and Formatter.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kraftlog.errors import UsageError
from kraftlog.log.names import LOG_FOLDER
from kraftlog.log.storage import refuse_below_input
from kraftlog.message.message_spec import ZERO_UUID
from kraftlog.recover.source import OldBroker
from kraftlog.state.checkpoint import write_checkpoint
from kraftlog.state.declare import Data
from kraftlog.state.image import Image

DYNAMIC_VOTERS = 1
"""The kraft.version from which on records name the voters."""
SKIPPED_PRODUCER_IDS = 1_000_000_000
"""So many producer ids are passed over. The old quorum may have given out ids that no copy tells of: a
broker takes the first records of who gets one again for repetitions, acknowledges them and writes
none (seen of Kafka 4.3.1; KAFKA-15552).
"""
_MOST_PRODUCER_IDS = (1 << 63) - SKIPPED_PRODUCER_IDS
"""An int64 is left with as many for the new quorum."""
CONFIG = "SERVER_PROPERTIES_OF_{}"
METADATA_FOLDER = "METADATA_LOG_DIR_OF_{}"
DATA_FOLDER = "LOG_DIR_OF_{}"

_FORM = re.compile(r"(?P<id>\d+)@(?P<host>\[[^\]]+\]|[^:\[\]]+):(?P<port>\d+):(?P<directory>.+)")
_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
_LAST = "AQgw"
"""The last of 22 letters holds 2 of the 128 bits: with any other, one id would have several texts."""
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class NewVoter:
    """One voter: its id, where it listens, and the id of the directory that it gets."""

    id: int
    host: str
    port: int
    directory_id: str

    def record(self, listener: str) -> Data:
        """It as an element of a KRaftVoters record."""
        return {
            "voterId": self.id,
            "voterDirectoryId": self.directory_id,
            "endpoints": [{"name": listener, "host": self.host, "port": self.port}],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }


def recovered_voters(words: Iterable[str]) -> Sequence[NewVoter]:
    """The voters that the words name; several may stand in one word, with commas.

    Raises UsageError where one is no voter, or two are the same."""
    found = [_voter(text) for word in words for text in word.split(",") if text]
    if not found:
        raise UsageError("no voter is named: say --voters 1@host:9093:directory-id …")
    for kind, values in (
        ("node id", [one.id for one in found]),
        ("directory id", [one.directory_id for one in found]),
        ("address", [(one.host, one.port) for one in found]),
    ):
        if len(set(values)) < len(values):
            raise UsageError(f"two voters have the same {kind}")
    return sorted(found, key=lambda one: one.id)


def _voter(text: str) -> NewVoter:
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is not a voter: write 1@host:9093:directory-id")
    directory, port = found["directory"], int(found["port"])
    if not 0 < port <= _LAST_PORT:
        raise UsageError(f"{text!r}: {port} is not a port")
    if not _UUID.fullmatch(directory) or directory == ZERO_UUID or directory[-1] not in _LAST:
        raise UsageError(
            f"{directory!r} is not a directory id; kafka-storage random-uuid makes one"
        )
    return NewVoter(int(found["id"]), found["host"].strip("[]"), port, directory)


def new_image(image: Image, voters: Sequence[NewVoter], listener: str) -> Image:
    """The image with the new voters instead of the old ones, and producer ids that are new."""
    state = image.state.fork()
    for table in ("voters", "controllers"):
        for key in state.keys(table, ()):
            state.set(table, key, None)
    state.set("kraft_version", (), {"version": 0, "kRaftVersion": DYNAMIC_VOTERS})
    for one in voters:
        state.set("voters", (one.id, one.directory_id), one.record(listener))
    known = (state.get("producer_ids", ()) or {}).get("nextProducerId", 0)
    following = max(known, min(known + SKIPPED_PRODUCER_IDS, _MOST_PRODUCER_IDS))
    ids = {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": following}
    state.set("producer_ids", (), ids)
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
    found = {one.id: list(_of_voter(one, cluster_id)) for one in voters}
    for one in brokers:
        if one.id not in found:
            found[one.id] = list(_of_broker(one, cluster_id))
    return found


def _of_voter(one: NewVoter, cluster_id: str) -> Iterable[str]:
    yield from _set_aside(one.id, LOG_FOLDER, "meta.properties")
    yield f"cp -Rp {one.id}/. {METADATA_FOLDER.format(one.id)}/"
    yield f"{_format(one.id, cluster_id)} --no-initial-controllers"


def _of_broker(one: OldBroker, cluster_id: str) -> Iterable[str]:
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
