"""The quorum's leader, wherever it is: finds it, asks it, and follows it through elections.

In: addresses of controllers (or brokers that forward). Out: answers of the leader without an error,
or one sentence. It asks as an observer with the id -1, whom no leader counts. Source: KIP-595
(leader discovery by the answers), KIP-853 (endpoints in them); only the leader answers a Fetch.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from kraftlog.errors import DecodeError
from kraftlog.message.catalogue import request_specs
from kraftlog.message.message_spec import MessageSpec
from kraftlog.pull.address import Address, PullError, Unreachable
from kraftlog.pull.messages import (
    CLUSTER_REQUEST,
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    DESCRIBE_REQUEST,
    FETCH,
    FETCH_SNAPSHOT,
    Data,
    Description,
    Fetched,
    Leader,
    described_cluster,
    description,
    fetch_request,
    fetched,
    piece_of,
    read_answer,
    snapshot_request,
    usable_version,
)
from kraftlog.simulate.extent import SnapshotId
from kraftlog.simulate.snapshot_server import ERROR_CODES, ERROR_NAMES, Ask, Piece
from kraftlog.state.encode import encode_message

NOT_AUTHORIZED = ERROR_CODES["CLUSTER_AUTHORIZATION_FAILED"]
OTHER_CLUSTER = ERROR_CODES["INCONSISTENT_CLUSTER_ID"]
MOVED = frozenset(
    ERROR_CODES[name]
    for name in (
        "NOT_LEADER_OR_FOLLOWER",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "BROKER_NOT_AVAILABLE",
    )
)
"""Who is asked does not lead, leads in another epoch, or ends (`shutdown`, the last one)."""

OF_THE_SNAPSHOT = frozenset(
    {
        "SNAPSHOT_NOT_FOUND",
        "POSITION_OUT_OF_RANGE",
        "OFFSET_OUT_OF_RANGE",
        "UNKNOWN_SERVER_ERROR",
    }
)
"""What a FetchSnapshot is refused with when the snapshot is not there any more. Kafka 4.3.1 and
4.4.0 mean one of the others, but fail to write an answer without bytes of a snapshot, and say the
last.
"""

ANSWER_SECONDS = 30.0
PAUSE_SECONDS = 0.2
TRIALS = 3
"""So often a server that has never answered anything is asked."""

LONGEST_THROTTLE_SECONDS = 30.0
REQUEST_BYTES = 1 << 20
"""What one answer brings, as Kafka's own followers ask by default (KIP-1219)."""

Answer = TypeVar("Answer")


class Asked(Protocol):
    """A connection, as `pull.connection` makes one."""

    address: Address
    versions: dict[int, tuple[int, int]]

    def ask(self, spec: MessageSpec, version: int, body: bytes, seconds: float) -> bytes: ...
    def close(self) -> None: ...


@dataclass
class Pace:
    """How fast a puller may take: bytes per second, on the average; None for no limit.

    A leader sends at least one batch, however little is asked for, and one before Kafka 4.3 up to
    8 MiB: the pause after it makes up for that.
    """

    bytes_per_second: int | None = None
    _free_at: float = field(default=0.0, repr=False)

    @property
    def request_bytes(self) -> int:
        """How many bytes to ask for: never more than a second's."""
        return min(REQUEST_BYTES, self.bytes_per_second or REQUEST_BYTES)

    def wait(self) -> None:
        """Wait until the next request may go out."""
        time.sleep(max(0.0, self._free_at - time.monotonic()))

    def took(self, size_bytes: int) -> None:
        """An answer has come."""
        if self.bytes_per_second is not None:
            now = max(self._free_at, time.monotonic())
            self._free_at = now + size_bytes / self.bytes_per_second

    def pause(self, seconds: float) -> None:
        """The server asks for a pause."""
        self._free_at = max(self._free_at, time.monotonic() + seconds)


@dataclass
class LeaderClient:
    """Asks whoever leads. `patience_seconds` is how long a quorum may be without a leader, or out
    of reach once it was met, before the puller gives up.
    """

    addresses: tuple[Address, ...]
    connect: Callable[[Address], Asked]
    pace: Pace = field(default_factory=Pace)
    cluster_id: str | None = None
    patience_seconds: float = 30.0
    leader: Leader = field(default_factory=lambda: Leader(-1, 0))
    _connection: Asked | None = None
    _known: dict[int, Address] = field(default_factory=dict)
    _was_met: bool = False
    _was_answered: bool = False

    def fetch(self, offset: int, last_epoch: int) -> Fetched:
        """What the leader answers to a fetch: records, a divergence or a snapshot."""

        def ask(connection: Asked) -> Fetched:
            return self._fetch(connection, offset, last_epoch, self.leader.epoch)

        return self._of_leader(ask, lambda answer: answer.error_code, "Fetch")

    def piece(self, snapshot: SnapshotId, position: int) -> Piece:
        """A piece of a snapshot; errors that only concern the snapshot come back in it."""

        def ask(connection: Asked) -> Piece:
            limit, epoch = self.pace.request_bytes, self.leader.epoch
            wanted = Ask(snapshot, position, limit, epoch, self.cluster_id)
            return piece_of(self._ask(connection, FETCH_SNAPSHOT, snapshot_request(wanted)))

        return self._of_leader(ask, _code_of_piece, "FetchSnapshot")

    def describe(self) -> Description:
        """What the leader knows of all replicas, once it knows what is committed: a new one does
        when a majority has fetched from it (KIP-595, "Leader Progress").
        """

        def ask(connection: Asked) -> Description:
            found = self._describe(connection)
            if not found.error_code and found.leader != self.leader:
                raise Unreachable(f"{connection.address}: it has just lost the quorum")
            if not found.error_code and found.high_watermark < 0:
                why = "it has just been elected, and does not know yet what is committed"
                raise Unreachable(f"{connection.address}: {why}")
            return found

        return self._of_leader(ask, lambda answer: answer.error_code, "DescribeQuorum")

    def name_cluster(self) -> str | None:
        """The cluster's id; None where this user may not know it, or the version tells nobody."""
        return self._of_leader(self._describe_cluster, lambda _: 0, "DescribeCluster")

    def meet(self) -> None:
        """Find the leader, and ask nothing yet."""
        self._of_leader(lambda _: None, lambda _: 0, "Fetch")

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    # --- one question ----------------------------------------------------------------------------

    def _of_leader(
        self, ask: Callable[[Asked], Answer], code_of: Callable[[Answer], int], what: str
    ) -> Answer:
        """Ask until the leader has answered, or patience is at an end: it begins when a question
        has failed, as waiting for an answer, or for the pace, can take longer.
        """
        deadline: float | None = None
        attempt = 0
        while True:
            attempt += 1
            try:
                connection = self._connection or self._find()
                answer = ask(connection)
                code = code_of(answer)
                if code not in MOVED:
                    self._check(code, what, connection.address)
                    return answer
                problem = Unreachable(f"{connection.address}: it does not lead any more")
            except Unreachable as error:
                if not self._was_met or (attempt == TRIALS and not self._was_answered):
                    raise
                problem = error
            except DecodeError as error:
                raise PullError(f"its answer to {what} is not Kafka's ({error})") from error
            self.close()
            if deadline is None:
                deadline = time.monotonic() + self.patience_seconds
            if time.monotonic() >= deadline:
                raise problem
            time.sleep(PAUSE_SECONDS)

    def _check(self, code: int, what: str, address: Address) -> None:
        if code == NOT_AUTHORIZED:
            right = "DESCRIBE" if what == "DescribeQuorum" else "CLUSTER_ACTION"
            raise PullError(f"{address}: this user may not ask {what}; grant it {right} on Cluster")
        if code == OTHER_CLUSTER:
            raise PullError(f"{address}: it is of another cluster than {self.cluster_id}")
        if code:
            name = ERROR_NAMES.get(code, f"error {code}")
            raise PullError(f"{address}: it answers {name} to {what}")

    def _ask(self, connection: Asked, api_key: int, request: Data) -> Data:
        """The answer to one message, in the newest version that both sides know."""
        version = usable_version(api_key, connection.versions)
        if version is None:
            raise PullError(f"{connection.address}: its Kafka is too old, or no controller")
        spec = request_specs()[api_key][0]
        body = encode_message(spec.at(version), request)
        self.pace.wait()
        raw = connection.ask(spec, version, body, ANSWER_SECONDS)
        self.pace.took(len(raw))
        self._was_answered = True
        return read_answer(api_key, version, raw)

    def _fetch(self, connection: Asked, offset: int, last_epoch: int, epoch: int) -> Fetched:
        limit = self.pace.request_bytes
        request = fetch_request(offset, last_epoch, epoch, limit, self.cluster_id)
        answer = fetched(self._ask(connection, FETCH, request))
        self._known |= answer.endpoints
        if answer.throttle_ms > 0:
            self.pace.pause(min(answer.throttle_ms / 1000, LONGEST_THROTTLE_SECONDS))
        return answer

    def _describe(self, connection: Asked) -> Description:
        return description(self._ask(connection, DESCRIBE_QUORUM, DESCRIBE_REQUEST))

    def _describe_cluster(self, connection: Asked) -> str | None:
        """The cluster's id; notes where its controllers listen."""
        if usable_version(DESCRIBE_CLUSTER, connection.versions) is None:
            return None
        cluster_id, nodes = described_cluster(
            self._ask(connection, DESCRIBE_CLUSTER, CLUSTER_REQUEST)
        )
        self._known |= nodes
        return cluster_id

    # --- who leads -------------------------------------------------------------------------------

    def _find(self) -> Asked:
        """A connection to the leader; every address is tried once."""
        waiting = deque(dict.fromkeys([*self.addresses, *self._known.values()]))
        tried: set[Address] = set()
        problem: PullError | None = None
        is_leaderless = False
        while waiting:
            address = waiting.popleft()
            if address in tried:
                continue
            tried.add(address)
            try:
                connection = self.connect(address)
            except PullError as error:
                if address in self.addresses and not isinstance(error, Unreachable):
                    raise
                problem = error
                continue
            self._was_met = True
            try:
                further = list(self._leads(connection))
            except Unreachable as error:
                connection.close()
                problem = error
                continue
            except BaseException:
                connection.close()
                raise
            if not further and self._connection is connection:
                return connection
            connection.close()
            is_leaderless = is_leaderless or not further
            waiting.extendleft(further)
        if is_leaderless and problem is not None:
            raise Unreachable(f"{problem}; and who answers knows of no leader at the moment")
        raise problem or Unreachable("no controller leads at the moment; try again soon")

    def _leads(self, connection: Asked) -> Iterator[Address]:
        """Takes a connection to the leader for its own; else yields where the leader may be."""
        if usable_version(FETCH_SNAPSHOT, connection.versions) is None:
            yield from self._by_broker(connection)
            return
        # Epoch 0 is over: whoever is asked says which one runs, and who leads in it.
        told = self._fetch(connection, 0, 0, 0)
        if told.error_code in MOVED and told.leader.node_id >= 0:
            self.leader = told.leader
            told = self._fetch(connection, 0, 0, told.leader.epoch)
        if told.error_code not in MOVED:
            self._check(told.error_code, "Fetch", connection.address)
            self._connection = connection
            return
        node = told.leader.node_id
        if node >= 0 and node not in self._known:
            # A follower may know its leader's address for another listener only.
            self._describe_cluster(connection)
        if node in self._known:
            yield self._known[node]
        elif node >= 0:
            why = f"node {node} leads, and this user is not told where it listens"
            raise Unreachable(f"{connection.address}: {why}; name all controllers")

    def _by_broker(self, connection: Asked) -> Iterator[Address]:
        """Brokers forward DescribeQuorum only; since Kafka 3.9 its answer says where controllers
        listen.
        """
        found = self._describe(connection)
        if found.error_code in MOVED:
            return  # It forwards to a controller that has just ceased to lead.
        self._check(found.error_code, "DescribeQuorum", connection.address)
        listeners = found.listeners or {}
        order = sorted(listeners, key=lambda node: node != found.leader.node_id)
        addresses = [address for node in reversed(order) for _, address in listeners[node]]
        if not addresses:
            why = "it is a broker, and brokers do not hand out the metadata log"
            raise PullError(f"{connection.address}: {why}; name a controller's HOST:PORT")
        yield from addresses


def _code_of_piece(piece: Piece) -> int:
    """Errors that concern the snapshot, and not who was asked, are the assembler's."""
    return 0 if piece.error in OF_THE_SNAPSHOT else piece.error_code
