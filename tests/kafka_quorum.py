"""Real quorums of Kafka, started on the loopback for a test, in the version that it asks for.

`running(folder)` formats and starts controllers and brokers, each a process of its own with a small
heap, and ends them whatever happens. Disks lie below `folder/<node id>/data`, what a node logged in
`folder/<node id>/node.log`. Needs Java 17 and `make -C tests/java`; without them every function
raises JudgeMissing: such a test fails, it never skips.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from uuid import UUID, uuid4

from kraftlog.wire import uuid_text
from tests import kafka_judge
from tests.kafka_judge import JUDGE, NEWEST, PARTITION, JudgeMissing

START_SECONDS = 120
_OF_BROKERS = {
    "inter.broker.listener.name": "BROKER",
    # A broker ends itself after a minute in which it was not registered: not on a slow machine.
    "initial.broker.registration.timeout.ms": 1000 * START_SECONDS,
}
_OF_CONTROLLERS = {"controller.quorum.auto.join.enable"}
"""Settings with which a broker that is no controller does not start."""
JVM = ("-Xmx256m", "-XX:+UseSerialGC", *kafka_judge.QUICK)
LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1} %m%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
"""


def command(version: str, program: str, *args: object, options: tuple[str, ...] = ()) -> list[str]:
    """The command that runs a class of one version's jars; raises JudgeMissing without them."""
    java = shutil.which("java")
    libs = kafka_judge.libs_of(version)
    if java is None or not (libs / ".done").exists():
        raise JudgeMissing(f"no java, or no {libs}: run make -C tests/java")
    chosen = [*JVM, *kafka_judge.from_archive(version), *options]
    return [java, *chosen, "-cp", str(libs / "*"), program, *map(str, args)]


def free_port() -> int:
    """A port of the loopback that nobody listens on, below those that systems give to clients. Each
    is given once, and test processes beside each other have ports of their own: a node binds long
    after its port was chosen.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    first = _FIRST_PORT + worker * _PORTS_EACH
    while True:
        port = first + next(_PORTS) % _PORTS_EACH
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


_FIRST_PORT, _WORKERS, _PORTS_EACH = 20_000, 4, 3_000
_PORTS = count(random.SystemRandom().randrange(_PORTS_EACH))


@dataclass
class Node:
    """One controller or broker: where it lies, and where it listens, by the listener's name. Others
    are told the `advertised` port of its CONTROLLER listener, where it has one. A controller that
    `is_combined` is a broker too; a node runs a `version` of its own, or its quorum's.
    """

    id: int
    folder: Path
    is_broker: bool
    directory_id: str
    ports: dict[str, int]
    advertised: int | None = None
    is_observer: bool = False
    is_combined: bool = False
    version: str | None = None
    host: str = "127.0.0.1"
    process: subprocess.Popen[bytes] | None = None

    @property
    def roles(self) -> list[str]:
        return ["broker"] * (self.is_broker or self.is_combined) + ["controller"] * (
            not self.is_broker
        )

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def spare(self) -> Path:
        """A broker's second disk, of a quorum that `has_spares`; no metadata lie on it."""
        return self.folder / "spare"

    @property
    def log_folder(self) -> Path:
        return self.data / PARTITION

    @property
    def output(self) -> str:
        """All that the node has logged."""
        path = self.folder / "node.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def listens(self) -> bool:
        """Whether all of its ports answer."""
        for port in self.ports.values():
            try:
                socket.create_connection((self.host.strip("[]"), port)).close()
            except OSError:
                return False
        return True

    def address(self, listener: str = "") -> str:
        """HOST:PORT of a listener; of its first one by default."""
        return f"{self.host}:{self.ports[listener or next(iter(self.ports))]}"

    def reached(self) -> str:
        """HOST:PORT at which other nodes find this controller."""
        return f"{self.host}:{self.advertised or self.ports['CONTROLLER']}"


@dataclass
class Quorum:
    """Nodes by id; all of them run once `start` has returned."""

    version: str
    folder: Path
    nodes: dict[int, Node]
    cluster_id: str
    listeners: Mapping[str, str]
    settings: Mapping[str, object] = field(default_factory=dict)
    is_static: bool = False
    of_clients: Mapping[str, str] = field(default_factory=dict)
    has_spares: bool = False

    @property
    def controllers(self) -> list[Node]:
        return [one for one in self.nodes.values() if not one.is_broker]

    @property
    def brokers(self) -> list[Node]:
        return [one for one in self.nodes.values() if "broker" in one.roles]

    def bootstrap(self, listener: str = "CONTROLLER") -> str:
        """HOST:PORT,… of all nodes with a listener: controllers, by default."""
        return ",".join(
            one.address(listener) for one in self.nodes.values() if listener in one.ports
        )

    def format(self, *arguments: str) -> None:
        """Format all nodes at once; `arguments` go to the controllers'."""
        voters = ",".join(
            f"{one.id}@{one.reached()}:{one.directory_id}" for one in self.controllers
        )
        first = () if self.is_static else ("--initial-controllers", voters)
        running = []
        for node in self.nodes.values():
            node.folder.mkdir(parents=True)
            self.configure(node)
            own = () if node.is_broker else (*first, *arguments)
            given = ("format", "-t", self.cluster_id, "-c", node.folder / "server.properties", *own)
            running.append(self.run(node, "kafka.tools.StorageTool", *given))
        for node, process in zip(self.nodes.values(), running, strict=True):
            if process.wait(START_SECONDS):
                raise AssertionError(f"node {node.id} was not formatted:\n{node.output[-3000:]}")

    def configure(self, node: Node, **more: object) -> None:
        """Write the server.properties of a node; an underscore in a name stands for a dot."""
        protocols = {**self.listeners, "BROKER": "PLAINTEXT", **self.of_clients}
        disks = (
            [node.data, node.spare] if self.has_spares and "broker" in node.roles else [node.data]
        )
        lines = {
            "process.roles": ",".join(node.roles),
            "node.id": node.id,
            **self._voters(),
            "controller.listener.names": ",".join(self.listeners),
            "listeners": ",".join(f"{name}://{node.address(name)}" for name in node.ports),
            "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
            "log.dirs": ",".join(map(str, disks)),
            "metadata.log.dir": node.data,
            "offsets.topic.replication.factor": 1,
            **(_OF_BROKERS if "broker" in node.roles else {}),
            **{
                name: value
                for name, value in self.settings.items()
                if not (node.is_broker and name in _OF_CONTROLLERS)
            },
            **{name.replace("_", "."): value for name, value in more.items()},
            **self._advertises(node),
        }
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        (node.folder / "server.properties").write_text(text, encoding="utf-8")
        (node.folder / "log4j2.properties").write_text(LOGGING, encoding="utf-8")

    def observer(self, node_id: int) -> Node:
        """A controller that no voter set names, formatted and not started; `launch` starts it."""
        port = {"CONTROLLER": free_port()}
        node = Node(node_id, self.folder / str(node_id), False, random_id(), port, is_observer=True)
        self.nodes[node_id] = node
        node.folder.mkdir(parents=True)
        self.configure(node)
        self.format_one(node)
        return node

    def format_one(self, node: Node) -> None:
        """Format a node of a quorum that is there: an observer, unless its settings name voters. A
        second disk may be formatted already.
        """
        role = () if node.is_broker or self.is_static else ("--no-initial-controllers",)
        disks = ("--ignore-formatted",) if node.spare.exists() else ()
        properties = str(node.folder / "server.properties")
        self.storage(node, "format", "-t", self.cluster_id, "-c", properties, *role, *disks)

    def launch(self, node_id: int, *options: str) -> None:
        """Start a node's process, its JVM with options, and wait for nothing."""
        node = self.nodes[node_id]
        node.process = self.run(
            node, "kafka.Kafka", node.folder / "server.properties", options=options
        )

    @staticmethod
    def _advertises(node: Node) -> dict[str, str]:
        if not node.advertised:
            return {}
        told = {name: node.address(name) for name in node.ports} | {"CONTROLLER": node.reached()}
        return {"advertised.listeners": ",".join(f"{name}://{at}" for name, at in told.items())}

    def _voters(self) -> dict[str, str]:
        """How nodes find the quorum: by its addresses, or, in a static one, by its voters."""
        if not self.is_static:
            reached = ",".join(one.reached() for one in self.controllers if not one.is_observer)
            return {"controller.quorum.bootstrap.servers": reached}
        voters = [f"{one.id}@{one.reached()}" for one in self.controllers]
        return {"controller.quorum.voters": ",".join(voters)}

    def run(
        self, node: Node, program: str, *args: object, options: tuple[str, ...] = ()
    ) -> subprocess.Popen[bytes]:
        """Run a class of Kafka's in the name of a node."""
        logging = f"-Dlog4j2.configurationFile={node.folder / 'log4j2.properties'}"
        called = command(node.version or self.version, program, *args, options=(logging, *options))
        with (node.folder / "node.log").open("ab") as log:
            return subprocess.Popen(called, stdout=log, stderr=log)

    def start(self, *ids: int) -> None:
        """Start nodes (all of them by default), and wait until they listen, and the quorum has a
        leader.
        """
        chosen = ids or tuple(self.nodes)
        for one in chosen:
            self.launch(one)
        self.wait_until_started(*chosen)

    def wait_until_started(self, *ids: int) -> None:
        """Wait until nodes listen, and the quorum has a leader."""
        for one in map(self.nodes.__getitem__, ids):
            self.wait(lambda one=one: one.listens(), f"node {one.id}")
        self.leader()
        for one in self.brokers:
            self.wait(lambda one=one: "Kafka Server started" in one.output, f"broker {one.id}")

    def storage(self, node: Node, *arguments: str) -> None:
        """Run `kafka-storage` for a node; an AssertionError where it fails."""
        if self.run(node, "kafka.tools.StorageTool", *arguments).wait(START_SECONDS):
            raise AssertionError(f"kafka-storage for {node.id}:\n{node.output[-3000:]}")

    def capture(self, target: Path, *ids: int, is_live: bool = False) -> Path:
        """Copy the disks of nodes (all of them by default), each with its server.properties; files
        may come and go where it `is_live`.
        """
        for node in [self.nodes[one] for one in ids] or self.nodes.values():
            copy = target / str(node.id)
            copy.parent.mkdir(parents=True, exist_ok=True)
            command = ["cp", "-R", "--preserve=timestamps", "--sparse=always", node.data, copy]
            quiet = subprocess.DEVNULL if is_live else None
            subprocess.run(list(map(str, command)), check=not is_live, stderr=quiet)
            shutil.copy2(node.folder / "server.properties", copy)
        return target

    def kill(self, node_id: int) -> None:
        """End a process at once, as a crash would."""
        process = self.nodes[node_id].process
        if process is not None:
            process.kill()
            process.wait()
        self.nodes[node_id].process = None

    def stop(self) -> None:
        """End all processes."""
        for node in self.nodes:
            self.kill(node)

    def leading(self) -> Node | None:
        """The controller that leads by the newest `quorum-state` of those that run, unless it has
        been killed.
        """
        states = [
            json.loads((one.log_folder / "quorum-state").read_text(encoding="utf-8"))
            for one in self.controllers
            if one.process is not None and (one.log_folder / "quorum-state").exists()
        ]
        newest = max(states, key=lambda one: one["leaderEpoch"], default={"leaderId": -1})
        node = self.nodes.get(newest["leaderId"])
        return node if node is not None and node.process is not None else None

    def leader(self) -> Node:
        """The one that leads; waits for it."""
        found: list[Node | None] = [None]

        def is_found() -> bool:
            found[0] = self.leading()
            return found[0] is not None

        self.wait(is_found, "a leader")
        assert found[0] is not None
        return found[0]

    def wait(self, holds: object, what: str) -> None:
        """Wait until something holds; an AssertionError with the nodes' last words where not."""
        deadline = time.monotonic() + START_SECONDS
        assert callable(holds)
        while not holds():
            dead = [
                one
                for one in self.nodes.values()
                if one.process is not None and one.process.poll() is not None
            ]
            if dead or time.monotonic() > deadline:
                words = "\n".join(one.output[-2000:] for one in dead or self.controllers)
                raise AssertionError(f"{what} did not come in {START_SECONDS} s:\n{words}")
            time.sleep(0.1)


@contextmanager
def running(
    folder: Path,
    version: str = JUDGE,
    *,
    controllers: int = 3,
    brokers: int = 0,
    listeners: Mapping[str, str] | None = None,
    settings: Mapping[str, object] | None = None,
    format_arguments: tuple[str, ...] = (),
    is_static: bool = False,
    is_combined: bool = False,
    advertised: Mapping[int, int] | None = None,
    host: str = "127.0.0.1",
    of_clients: Mapping[str, str] | None = None,
    has_spares: bool = False,
) -> Iterator[Quorum]:
    """A quorum that runs: controllers 1, 2, …, brokers 11, 12, …

    `listeners` are the controllers' (name → security protocol) beside CONTROLLER, the plaintext one
    over which they talk to each other; where the quorum `is_combined`, they are brokers too;
    `advertised` are ports that others are told instead of it, by node; `settings` go into every
    server.properties; an IPv6 `host` is in brackets; brokers have the listeners `of_clients` beside
    BROKER, and a second disk where the quorum `has_spares`. The voters of a static quorum stand in
    server.properties as well, else they are records of its log.
    """
    quorum = made(
        folder,
        version,
        controllers=controllers,
        brokers=brokers,
        listeners=listeners,
        settings=settings,
        is_static=is_static,
        is_combined=is_combined,
        advertised=advertised,
        host=host,
        of_clients=of_clients,
        has_spares=has_spares,
    )
    with started(quorum, *format_arguments):
        yield quorum


@contextmanager
def started(quorum: Quorum, *format_arguments: str) -> Iterator[None]:
    """A quorum that was made runs for as long as the context lasts."""
    try:
        quorum.format(*format_arguments)
        quorum.start()
        yield
    finally:
        quorum.stop()


def made(
    folder: Path,
    version: str = JUDGE,
    *,
    controllers: int = 3,
    brokers: int = 0,
    listeners: Mapping[str, str] | None = None,
    settings: Mapping[str, object] | None = None,
    is_static: bool = False,
    is_combined: bool = False,
    advertised: Mapping[int, int] | None = None,
    host: str = "127.0.0.1",
    of_clients: Mapping[str, str] | None = None,
    has_spares: bool = False,
) -> Quorum:
    """The same quorum, of which no disk is formatted and no node runs."""
    names = {"CONTROLLER": "PLAINTEXT", **(listeners or {})}
    ids = [*range(1, controllers + 1), *range(11, 11 + brokers)]
    clients = of_clients or {}
    brokered = {one: ("BROKER", *clients) if one > 10 or is_combined else () for one in ids}
    nodes = {
        one: Node(
            one,
            folder / str(one),
            one > 10,
            random_id(),
            {name: free_port() for name in (*(names if one < 10 else ()), *brokered[one])},
            (advertised or {}).get(one),
            is_combined=is_combined and one < 10,
            host=host,
        )
        for one in ids
    }
    return Quorum(
        version, folder, nodes, random_id(), names, settings or {}, is_static, clients, has_spares
    )


def random_id() -> str:
    """A uuid as Kafka makes them: its text does not begin with a dash."""
    while True:
        found: UUID = uuid4()
        if not uuid_text(found.bytes).startswith("-"):
            return uuid_text(found.bytes)


class Operator:
    """Kafka's own client, which does what an operator asks for: `do("create", "a", "11,12")`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def do(self, *words: object) -> str:
        """The answer to a command; an AssertionError where it was refused."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._line()
        if not answer or answer.startswith("error"):
            raise AssertionError(f"{words}: {answer or 'the operator has ended'}")
        return answer


@contextmanager
def operator(quorum: Quorum, *, to_brokers: bool = True) -> Iterator[Operator]:
    """An operator at a cluster's brokers, or at its controllers."""
    brokers = ",".join(one.address("BROKER") for one in quorum.brokers)
    to = ("bootstrap.servers", brokers) if to_brokers else (
        "bootstrap.controllers", quorum.bootstrap()
    )  # fmt: skip
    called = kafka_judge.java_command("Operator", *to, options=kafka_judge.QUICK)
    with (
        (quorum.folder / "operator.log").open("ab") as log,
        subprocess.Popen(
            called, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            yield Operator(process)
        finally:
            process.kill()


class Writer:
    """Kafka's own client, which sets configs: `write(n)` returns when n of them are committed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError("the writer has ended; its last words are in writer.log")
        return line

    def begin(self, count: int) -> None:
        """Start writing, and do not wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()

    def wait(self) -> int:
        """Wait for what was begun: how many have been written in all."""
        return int(self._line())

    def write(self, count: int) -> int:
        self.begin(count)
        return self.wait()


@contextmanager
def writer(quorum: Quorum) -> Iterator[Writer]:
    """A client that writes to a quorum for as long as the context lasts."""
    called = kafka_judge.java_command("Writer", quorum.bootstrap(), options=kafka_judge.QUICK)
    with (
        (quorum.folder / "writer.log").open("ab") as log,
        subprocess.Popen(
            called, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            yield Writer(process)
        finally:
            process.kill()


def keep_classes(version: str) -> None:
    """Have one node leave the classes that it has loaded beside its jars: a JVM that finds them parsed
    and checked starts a node with two thirds of the work, and a program with six tenths.
    """
    archive = kafka_judge.archive_of(version)
    if archive.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        quorum = made(Path(folder) / "quorum", version, controllers=1, is_combined=True)
        kept = Path(folder) / archive.name
        try:
            quorum.format()
            quorum.launch(1, f"-XX:ArchiveClassesAtExit={kept}")
            quorum.wait_until_started(1)
            process = quorum.nodes[1].process
            assert process is not None
            process.terminate()
            process.wait(START_SECONDS)
        finally:
            quorum.stop()
        shutil.move(kept, archive)


if __name__ == "__main__":
    with ThreadPoolExecutor() as pool:
        list(pool.map(keep_classes, (JUDGE, NEWEST)))
