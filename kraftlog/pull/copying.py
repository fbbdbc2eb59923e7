"""The commands that copy metadata log folders from machines and pods, in the order that explains
itself.

In: where nodes are. Out: lines of a shell script, which nobody here runs. From each node first the
log with what belongs to it, then the snapshots, then the vote and the identity: a snapshot that is
newer than its log explains itself, a log that is newer than all snapshots may seem to lack its
beginning. The live quorum is pulled last, so that it holds all that the copies can hold.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kraftlog.errors import UsageError
from kraftlog.log.names import LOG_FOLDER

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_\[][A-Za-z0-9_.:\]-]*")
_POD = re.compile(r"(?:[a-z0-9][a-z0-9.-]*/)?[a-z0-9][a-z0-9.-]*")

_LIVE = "live"
"""What the copy of the running quorum is called."""

_SOME = "2>/dev/null | tar -czf - -T -"
STEPS = (
    (
        "the log, its indexes and its epochs",
        f'tar -czf - --exclude="*.checkpoint*" --exclude=quorum-state {LOG_FOLDER}',
    ),
    ("the snapshots", f'find {LOG_FOLDER} -name "*.checkpoint" {_SOME}'),
    (
        "the vote, and whose copy this is",
        f"find {LOG_FOLDER}/quorum-state meta.properties bootstrap.checkpoint {_SOME}",
    ),
)
"""What is copied, and the command on the node, in the folder."""


@dataclass(frozen=True, slots=True)
class CopiedNode:
    """A node: the name of its copy, how a command is run there, and the folder that holds
    `__cluster_metadata-0`.
    """

    name: str
    shell: tuple[str, ...]
    folder: str

    def command(self, script: str, sudo: bool) -> str:
        """A command of this machine that runs a script on the node, in the folder."""
        inside = f"cd {shlex.quote(self.folder)} && {script}"
        if self.shell[0] == "ssh":
            whole = f"sudo sh -c {shlex.quote(inside)}" if sudo else inside
            return shlex.join([*self.shell, whole])
        return shlex.join([*self.shell, "sh", "-c", inside])


def ssh_source(text: str) -> CopiedNode:
    """[NAME=][USER@]HOST:FOLDER.

    Raises UsageError for anything else."""
    name, place = _named(text)
    host, colon, folder = place.rpartition(":/")
    if not colon or not _HOST.fullmatch(host):
        raise UsageError(f"{text!r} is no [NAME=][USER@]HOST:/FOLDER")
    machine = host.rpartition("@")[2]
    short = machine.split(".")[0]
    if short.isdigit():  # of an address, which would look like the node's id
        short = machine
    # ssh takes an IPv6 address as it is.
    bare = host.replace("[", "").replace("]", "")
    return CopiedNode(_checked(name or short, text, place), ("ssh", bare), f"/{folder}")


def kubectl_source(text: str) -> CopiedNode:
    """[NAME=][NAMESPACE/]POD:FOLDER.

    Raises UsageError for anything else."""
    name, place = _named(text)
    pod, colon, folder = place.partition(":/")
    if not colon or not _POD.fullmatch(pod):
        raise UsageError(f"{text!r} is no [NAME=][NAMESPACE/]POD:/FOLDER")
    namespace, _, own = pod.rpartition("/")
    shell = ("kubectl", "exec", *(("-n", namespace) if namespace else ()), own, "--")
    return CopiedNode(_checked(name or own, text, place), shell, f"/{folder}")


def _named(text: str) -> tuple[str, str]:
    name, equals, place = text.partition("=")
    return (name, place) if equals and "/" not in name else ("", text)


def _checked(name: str, text: str, place: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{text!r}: {name!r} cannot be the name of a copy; say NAME={place}")
    return name


def copy_script(
    sources: Iterable[CopiedNode], out: str, pull: str | None = None, sudo: bool = False
) -> Iterator[str]:
    """The lines of the script.

    Raises UsageError where two copies would get one name."""
    sources = list(sources)
    names = [one.name for one in sources] + ([_LIVE] if pull is not None else [])
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two copies would be called {name}; name one as OTHER={name}…")
    yield "# Read it, then run it with sh. Nothing is written on the nodes."
    yield "umask 077"
    for one in sources:
        target = shlex.quote(f"{out}/{one.name}")
        yield ""
        yield f"mkdir -p {target}"
        for what, script in STEPS:
            yield f"# {one.name}: {what}"
            yield f"{one.command(script, sudo)} | tar -xzf - -C {target}"
        yield f"# {one.name}: what is free on its disk"
        yield f"{one.command('df -Pk .', sudo)} > {target}/df.txt"
    if pull is not None:
        yield ""
        yield "# What the quorum has committed meanwhile, and how far each of its nodes is"
        words = ["kraftlog", "pull", "--bootstrap-controller", pull, "--out", f"{out}/{_LIVE}"]
        yield f"{shlex.join(words)} || pulled=$?"
    yield ""
    check = shlex.join(["kraftlog", "collect", "--out", out, "--check"])
    # Copies are looked at whatever became of the pull, whose failure is the script's own all the same.
    yield check if pull is None else f'{check} && (exit "${{pulled:-0}}")'
