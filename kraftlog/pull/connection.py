"""One authenticated connection to a controller or broker: the only file that knows kafka-python.

In: an address and `Security`. Out: bytes of answers to bytes of requests. TCP, TLS and SASL are the
library's business; messages are ours (`schemas/`), so that nothing here knows what they mean.
`pull.leader` imports it when a connection is wanted: who only reads folders does not need it.
"""

import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Self

from kafka import errors
from kafka.net.connection import KafkaConnection
from kafka.net.inet import create_connection
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from kraftlog.errors import KraftlogError
from kraftlog.message.message_spec import MessageSpec
from kraftlog.pull.address import Address, PullError, Unreachable
from kraftlog.pull.security import Security
from kraftlog.wire import INT16, INT32

CLIENT_ID = "kraftlog"
ANSWER_LIMIT_BYTES = 64 << 20
"""The largest answer that is taken: a leader before Kafka 4.3 sends up to 8 MiB of batches, and one
batch is at most 8 MiB.
"""
CONNECT_SECONDS = 15.0

_NOT_YET, _EXPIRED, _OTHER_HOST, _OTHER_IP = 9, 10, 62, 64
_NAME = "name the host as its certificate does, or see ssl.endpoint.identification.algorithm"
_CERTIFICATE_ADVICE = {
    _NOT_YET: "compare the clocks of both machines",
    _EXPIRED: "the node needs a new one",
    _OTHER_HOST: _NAME,
    _OTHER_IP: _NAME,
}
"""By OpenSSL's X509_V_ERR codes; any other is a matter of whom to trust."""
_OF_OUR_CERTIFICATE = ("_CERTIFICATE", "_UNKNOWN_CA")
"""What the names of those alerts of TLS hold that speak of the other side's certificate."""

# The library logs every failure, which its caller tells in one sentence.
logging.getLogger("kafka").addHandler(logging.NullHandler())
logging.getLogger("kafka").propagate = False


class Connection:
    """Asks one question after the other; each call returns or raises within its timeout."""

    def __init__(self, address: Address, security: Security) -> None:
        """Connect, learn the server's versions, authenticate.

        Raises Unreachable where nobody answers, PullError where the server refuses us."""
        self.address = address
        self._security = security
        self._net = NetworkSelector(client_id=CLIENT_ID, slow_task_threshold_secs=0)
        try:
            self._connection = self._wait(self._connect(), CONNECT_SECONDS)
        except BaseException:
            self._net.close()
            raise
        found = self._connection.broker_version_data.api_versions
        self.versions: dict[int, tuple[int, int]] = dict(found)

    def ask(self, spec: MessageSpec, version: int, body: bytes, seconds: float) -> bytes:
        """The bytes of the answer, without its header.

        Raises Unreachable where none comes in time, or the connection breaks."""
        request = _Request(spec, version, body)
        sent = self._connection.send_request(request, request_timeout_ms=int(seconds * 1000))
        answer: bytes = self._wait(sent, seconds + 1)
        return answer

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self._connection.close()
        self._net.close()

    async def _connect(self) -> Any:
        security, timeout_at = self._security, time.monotonic() + CONNECT_SECONDS
        host, port = self.address
        options = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)
        opened = await create_connection(self._net, host, port, options, timeout_at=timeout_at)
        if security.tls is None:
            transport = _TcpTransport(self._net, opened, host=host)
        else:
            transport = _TlsTransport(self._net, opened, host=host, ssl_context=security.tls)
        await transport.handshake()
        connection = KafkaConnection(
            self._net,
            client_id=CLIENT_ID,
            receive_message_max_bytes=ANSWER_LIMIT_BYTES,
            max_in_flight_requests_per_connection=2,
            security_protocol=security.protocol,
            sasl_mechanism=security.mechanism,
            sasl_plain_username=security.username,
            sasl_plain_password=security.password,
            sasl_oauth_token_provider=security.token and _TokenProvider(security.token),
        )
        connection.connection_made(transport)
        await connection.initialize(timeout_at=timeout_at)
        await connection.init_future
        return connection

    def _wait(self, work: Any, seconds: float) -> Any:
        """The result of a coroutine or future of the library, within a time."""
        future = self._net.call_soon_with_future(work)
        self._net.poll(timeout_ms=seconds * 1000, future=future)
        if not future.is_done:
            raise Unreachable(f"{self.address}: no answer came within {seconds:.0f} seconds")
        if future.exception is not None:
            self._explain(future.exception)
        return future.value

    def _explain(self, error: BaseException) -> NoReturn:
        """One sentence for what the library raises; no text that the server chose is in it."""
        security, kind = self._security, PullError
        causes = list(_causes(error))
        tls = next((one for one in causes if isinstance(one, ssl.SSLError)), None)
        is_odd = isinstance(error, ValueError) and not _is_no_host(error)
        is_refused = isinstance(error, errors.SaslAuthenticationFailedError)
        if isinstance(tls, ssl.SSLCertVerificationError):
            advice = _CERTIFICATE_ADVICE.get(tls.verify_code, "see ssl.truststore.location")
            why = f"its certificate is not trusted ({tls.verify_message}); {advice}"
        elif tls is not None:
            reason = tls.reason or "no reason given"
            why = f"TLS failed ({reason}); see the listener's protocol"
            if any(one in reason for one in _OF_OUR_CERTIFICATE):
                why = f"it refuses our certificate, or wants one ({reason}); see ssl.keystore.location, and until when what lies there is valid"
        elif isinstance(error, errors.UnsupportedSaslMechanismError):
            why = f"it does not offer {security.mechanism}"
        elif is_refused or (security.mechanism and is_odd):
            file = "check the --command-config file"
            why = f"it refuses these credentials ({security.mechanism}); {file}"
        elif isinstance(error, errors.IllegalSaslStateError):
            why = f"it does not expect {security.protocol}; see security.protocol"
        elif isinstance(error, errors.RequestTimedOutError | errors.KafkaTimeoutError):
            kind, why = Unreachable, "no answer came in time"
        elif isinstance(error, errors.KafkaProtocolError):
            why = "its answer is not Kafka's; does this listener want TLS, as in SSL or SASL_SSL?"
        elif isinstance(error, KraftlogError):
            raise error
        else:
            kind, why = Unreachable, _reason(causes)
        raise kind(f"{self.address}: {why}") from error


def _reason(causes: list[BaseException]) -> str:
    """Why a connection failed: what the system says, or that it was closed."""
    text = " ".join(str(one) for one in causes)
    if "ECONNREFUSED" in text:
        return "nobody listens there (connection refused)"
    if "DNS" in text or any(map(_is_no_host, causes)):
        return "there is no host of this name"
    if "socket disconnected" in text:
        return "it closed the connection; does this listener want another security.protocol?"
    return "no connection can be made"


def _is_no_host(error: BaseException) -> bool:
    """A name that no name server takes: an empty or too long part, which Python will not encode."""
    return isinstance(error, UnicodeError) and not isinstance(error, UnicodeDecodeError)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and all that it was raised for; the library hides some in its arguments."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inner = [one.__cause__, one.__context__, *one.args]
        waiting += [cause for cause in inner if isinstance(cause, BaseException)]


class _DataFirst:
    """A server that refuses us answers and hangs up at once. The library throws away what came
    with the end of a connection; so the end is only told when nothing else is left.
    """

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        data, error = super()._sock_recv()  # type: ignore[misc]
        return data, None if data else error


class _TcpTransport(_DataFirst, KafkaTCPTransport):  # type: ignore[misc]  # it has no types
    pass


class _TlsTransport(_DataFirst, KafkaSSLTransport):  # type: ignore[misc]
    pass


class _Request:
    """A message of ours in the form in which the library sends one."""

    def __init__(self, spec: MessageSpec, version: int, body: bytes) -> None:
        self.API_VERSION = version
        self._spec, self._body = spec, body
        self._is_flexible = spec.header_version(version) == 2
        self.header: _Answer | None = None

    def with_header(self, correlation_id: int, **_: object) -> None:
        self.header = _Answer(correlation_id, self._is_flexible)

    def encode(self, **_: object) -> bytes:
        assert self.header is not None
        name = CLIENT_ID.encode()
        head = INT16.pack(self._spec.id) + INT16.pack(self.API_VERSION)
        head += INT32.pack(self.header.correlation_id) + INT16.pack(len(name)) + name
        head += bytes(self._is_flexible)
        return INT32.pack(len(head) + len(self._body)) + head + self._body

    def expect_response(self) -> bool:
        return True


class _Answer:
    """What the library asks in order to read the answer: it hands back its bytes."""

    def __init__(self, correlation_id: int, is_flexible: bool) -> None:
        self.correlation_id, self._is_flexible = correlation_id, is_flexible

    def get_response_class(self) -> Self:
        return self

    def parse_header(self, buffer: Any) -> "_Answer":
        found = INT32.unpack(buffer.read(INT32.size))[0]
        if self._is_flexible and buffer.read(1) != b"\0":
            raise ValueError("the header has tagged fields, and Kafka knows none")
        return _Answer(found, self._is_flexible)

    def decode(self, buffer: Any) -> bytes:
        return bytes(buffer.read())


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    """OAUTHBEARER's token in the form in which the library asks for one."""

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    def token(self) -> str:
        return self._token()
