"""Client properties as Kafka's own tools take them: what they say, and that no value is told.

That servers accept what comes out is shown against real ones (tests/kafka/test_pull_secured.py).
"""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kraftlog.errors import UsageError
from kraftlog.pull.address import Address, PullError, Unreachable
from kraftlog.pull.connection import Connection
from kraftlog.pull.security import Security, jaas_options, read_security, security_of, token_source
from tests.certificates import identity

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def sasl(jaas: str, mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas,
    }


@pytest.mark.parametrize(
    "text, options",
    [
        ('X required username="a" password="b";', {"username": "a", "password": "b"}),
        ("X required username='a' password=b;", {"username": "a", "password": "b"}),
        (r'X required password="a\"b\\c d;e=f";', {"password": r'a"b\c d;e=f'}),
        ('X required\n  username = "a"\n  flag=true;', {"username": "a", "flag": "true"}),
        ("X required;", {}),
        ("", {}),
    ],
)
def test_jaas_options(text: str, options: dict[str, str]) -> None:
    assert jaas_options(text) == options


def test_plaintext_is_the_default(tmp_path: Path) -> None:
    assert read_security(None) == Security()
    (tmp_path / "empty").write_text("# nothing\n")
    assert read_security(tmp_path / "empty") == Security("PLAINTEXT")


def test_sasl_without_tls() -> None:
    found = security_of(sasl(f'{PLAIN} username="alice" password="hers";'))
    assert found == Security("SASL_PLAINTEXT", "PLAIN", "alice", "hers")
    assert "hers" not in repr(found)
    assert "alice" not in repr(found)


@pytest.mark.parametrize(
    "given, problem",
    [
        ({"security.protocol": "SASL"}, "security.protocol is none of PLAINTEXT"),
        (sasl("", "GSSAPI"), "sasl.mechanism is none of PLAIN"),
        (sasl(f'{PLAIN} password="hers";'), "names no username"),
        (sasl(f'{PLAIN} username="alice" password="";', "SCRAM-SHA-256"), "names no password"),
        (sasl("X required;", "OAUTHBEARER"), "token.endpoint.url"),
        (
            sasl("X required;", "OAUTHBEARER")
            | {"sasl.oauthbearer.token.endpoint.url": "https://idp/token"},
            "needs clientId and clientSecret",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/no/such"}, "cannot be read"),
    ],
)
def test_what_is_missing_is_said(given: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        security_of(given)


def test_no_value_of_the_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=hunter2\nsasl.mechanism=hunter2\n")
    with pytest.raises(UsageError) as raised:
        read_security(file)
    assert "hunter2" not in str(raised.value)
    assert str(file) in str(raised.value)
    with pytest.raises(UsageError, match="cannot be read"):
        read_security(tmp_path / "missing")


# --- Stores -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate with its key: as PEM, and in a PKCS12 store."""
    path = tmp_path_factory.mktemp("stores")
    me = identity("me")
    (path / "cert.pem").write_text(me.certificate_pem())
    (path / "key.pem").write_text(me.key_pem("key-secret"))
    me.write_pem(path / "both.pem", "key-secret")
    me.write_pkcs12(path / "store.p12", "store-secret")
    (path / "old.jks").write_bytes(b"\xfe\xed\xfe\xed" + bytes(50))
    return path


def certificate_count(found: Security) -> int:
    assert found.tls is not None
    return len(found.tls.get_ca_certs())


def test_trust_from_pem_files_and_from_the_properties(folder: Path) -> None:
    pem = (folder / "cert.pem").read_text()
    ssl_only = {"security.protocol": "SSL"}
    by_file = security_of({**ssl_only, "ssl.truststore.location": str(folder / "cert.pem")})
    assert certificate_count(by_file) == 1
    # In a properties file line ends may have become blanks.
    for text in (pem, pem.replace("\n", " ")):
        inline = security_of({**ssl_only, "ssl.truststore.certificates": text})
        assert certificate_count(inline) == 1
    assert by_file.tls is not None
    assert by_file.tls.verify_mode == ssl.CERT_REQUIRED


def test_a_servers_name_is_checked_unless_it_is_said_not_to(folder: Path) -> None:
    given = {"security.protocol": "SSL", "ssl.truststore.location": str(folder / "cert.pem")}
    usual = security_of(given).tls
    unchecked = security_of({**given, "ssl.endpoint.identification.algorithm": ""}).tls
    assert usual is not None
    assert unchecked is not None
    assert (usual.check_hostname, unchecked.check_hostname) == (True, False)
    assert unchecked.verify_mode == ssl.CERT_REQUIRED


def keystores(folder: Path) -> dict[str, dict[str, str]]:
    key, certificate = (folder / "key.pem").read_text(), (folder / "cert.pem").read_text()
    return {
        "pem": {
            "ssl.keystore.location": str(folder / "both.pem"),
            "ssl.key.password": "key-secret",
        },
        "inline": {
            "ssl.keystore.key": key.replace("\n", " "),
            "ssl.keystore.certificate.chain": certificate,
            "ssl.key.password": "key-secret",
        },
        "pkcs12": {
            "ssl.keystore.location": str(folder / "store.p12"),
            "ssl.keystore.password": "store-secret",
        },
    }


@pytest.mark.parametrize("kind", ["pem", "inline", "pkcs12"])
def test_a_key_of_ones_own(kind: str, folder: Path) -> None:
    given = {"security.protocol": "SSL", **keystores(folder)[kind]}
    assert security_of(given).tls is not None
    for name in list(given):
        if name.endswith("password"):
            with pytest.raises(UsageError, match="a password is wrong") as raised:
                security_of({**given, name: "another-secret"})
            assert "secret" not in str(raised.value)


def test_an_old_store_is_refused_with_the_command_that_turns_it(folder: Path) -> None:
    given = {"security.protocol": "SSL", "ssl.truststore.location": str(folder / "old.jks")}
    with pytest.raises(UsageError, match=r"keytool -importkeystore .* -deststoretype PKCS12"):
        security_of(given)


# --- Tokens -----------------------------------------------------------------------------------


def test_a_token_that_nobody_signed() -> None:
    jaas = {"unsecuredLoginStringClaim_sub": "alice", "username": "nothing"}
    head, body, signature = token_source({}, jaas)().split(".")
    decoded = [json.loads(base64.urlsafe_b64decode(part + "==")) for part in (head, body)]
    assert decoded[0] == {"alg": "none"}
    assert decoded[1]["sub"] == "alice"
    assert decoded[1]["exp"] > decoded[1]["iat"]
    assert signature == ""


def test_a_token_of_a_file_is_read_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    source = token_source({"sasl.oauthbearer.token.endpoint.url": file.as_uri()}, {})
    for text in ("one.two.three", "four.five.six"):
        file.write_text(f"{text}\n")
        assert source() == text
    file.write_text("two\x01fields")
    with pytest.raises(Exception, match="not a token"):
        source()


def endpoint(answer: bytes, asked: list[bytes]) -> str:
    """The URL of a server that gives one answer, whatever is asked."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, suppress(OSError):
            while True:
                accepted, _ = listener.accept()
                with accepted:
                    # Who closes before all has come resets the connection.
                    said = accepted.recv(1 << 16)
                    while not said.endswith(b"client_credentials"):
                        said += accepted.recv(1 << 16)
                    asked.append(said)
                    accepted.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/token"


def token_of(url: str) -> str:
    named = {"sasl.oauthbearer.token.endpoint.url": url}
    return token_source(named, {"clientId": "id", "clientSecret": "secret"})()


def test_a_clients_secret_goes_where_it_is_sent_and_no_further() -> None:
    other: list[bytes] = []
    url = endpoint(b'HTTP/1.0 200 OK\r\n\r\n{"access_token":"x"}', other)
    assert token_of(url) == "x"
    moved = endpoint(f"HTTP/1.0 302 Found\r\nLocation: {url}\r\n\r\n".encode(), [])
    with pytest.raises(PullError, match="it answers 302"):
        token_of(moved)
    assert len(other) == 1


def test_an_endpoint_that_speaks_no_http() -> None:
    with pytest.raises(PullError, match="its answer is not HTTP"):
        token_of(endpoint(b"SSH-2.0-x\r\n\r\n", []))


@pytest.mark.parametrize("properties", [{}, sasl(f'{PLAIN} username="u" password="p";')])
@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_host_that_no_name_server_takes(host: str, properties: dict[str, str]) -> None:
    """That says nothing of credentials."""
    with pytest.raises(Unreachable, match=": there is no host of this name"):
        Connection(Address(host, 9093), security_of(properties))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"days": (-9, -3)}, "certificate has expired); the node needs a new one"),
        ({"days": (3, 9)}, "not yet valid); compare the clocks"),
        ({"host": "10.1.1.1"}, "; name the host as its certificate does"),
        ({}, "; see ssl.truststore.location"),
    ],
    ids=["expired", "not yet valid", "of another host", "of another authority"],
)
def test_what_is_wrong_with_a_certificate_has_its_own_advice(
    wrong: dict[str, Any], says: str, tmp_path: Path
) -> None:
    authority = identity("ca")
    identity("server", authority, **wrong).write_pem(tmp_path / "server.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    trusted = authority if wrong else identity("other")
    found = security_of(
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": trusted.certificate_pem(),
        }
    )

    with pytest.raises(PullError, match=re.escape(says)):
        connect(context, found)


@pytest.mark.parametrize("is_known", [True, False], ids=["expired", "of another authority"])
def test_who_refuses_our_certificate_is_told(is_known: bool, tmp_path: Path) -> None:
    """It is nothing of the listener's protocol."""
    authority = identity("ca")
    identity("server", authority).write_pem(tmp_path / "server.pem")
    (tmp_path / "ca.pem").write_text(authority.certificate_pem())
    signer, days = (authority, (-9, -3)) if is_known else (identity("other"), (-1, 1))
    identity("auditor", signer, days=days).write_pem(tmp_path / "auditor.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    context.load_verify_locations(tmp_path / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    # With 1.3 a client may have hung up before it hears of this.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    given = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "auditor.pem"),
    }
    with pytest.raises(PullError, match=r"it refuses our certificate, or wants one .*keystore"):
        connect(context, security_of(given))


def connect(context: ssl.SSLContext, security: Security) -> None:
    """To a server that does no more than TLS."""

    def served(listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        with suppress(OSError), context.wrap_socket(accepted, server_side=True):
            pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=served, args=(listener,), daemon=True).start()
        Connection(Address("127.0.0.1", listener.getsockname()[1]), security)
