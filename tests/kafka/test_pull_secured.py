"""Pulling from a real quorum of Kafka 4.4.0 with every way to connect and to authenticate: TLS with
and without a key of one's own, SASL with PLAIN, SCRAM and OAUTHBEARER, and what is wrong with each.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kraftlog.pull.security import token_source
from tests import kafka_judge, kafka_quorum
from tests.certificates import identity
from tests.kafka_quorum import Quorum
from tests.pulled import assert_same_bytes, described, pull

pytestmark = pytest.mark.kafka

LISTENERS = {
    "PLAIN": "SASL_PLAINTEXT",
    "SCRAM": "SASL_SSL",
    "TLS": "SSL",
    "OAUTH": "SASL_PLAINTEXT",
}
MODULES = "org.apache.kafka.common.security"
PLAIN = f"{MODULES}.plain.PlainLoginModule"
SCRAM = f"{MODULES}.scram.ScramLoginModule"
OAUTH = f"{MODULES}.oauthbearer.OAuthBearerLoginModule"
STORE_PASSWORD = "a store's secret"
Properties = Mapping[str, object]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server and a client that it has signed; stores as operators have them."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = identity("ca")
    (folder / "ca.pem").write_text(authority.certificate_pem())
    (folder / "other.pem").write_text(identity("other").certificate_pem())
    identity("server", authority).write_pem(folder / "server.pem")
    identity("auditor", authority).write_pkcs12(folder / "auditor.p12", STORE_PASSWORD)
    identity("auditor", identity("other")).write_pkcs12(folder / "stranger.p12", STORE_PASSWORD)
    expired = identity("auditor", authority, days=(-9, -1))
    expired.write_pkcs12(folder / "expired.p12", STORE_PASSWORD)
    trust = ("-keystore", "trust.jks", "-storepass", STORE_PASSWORD, "-file", "ca.pem")
    keytool = ("keytool", "-importcert", "-noprompt", "-alias", "ca", *trust)
    subprocess.run(keytool, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def quorum(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    users = 'user_admin="admin secret" user_nobody="no right"'
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin;User:CN=auditor",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates / "server.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates / "ca.pem",
        "listener.name.tls.ssl.client.auth": "required",
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plain.plain.sasl.jaas.config": f"{PLAIN} required {users};",
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": (
            f'{OAUTH} required unsecuredLoginStringClaim_sub="admin";'
        ),
    }
    scram = "SCRAM-SHA-512=[name={},password={}]"
    given = [scram.format("admin", "scram-secret"), scram.format("auditor", "auditor-secret")]
    with kafka_quorum.running(
        tmp_path_factory.mktemp("quorum"),
        kafka_judge.NEWEST,
        listeners=LISTENERS,
        settings=settings,
        format_arguments=tuple(word for one in given for word in ("--add-scram", one)),
    ) as found:
        knows_itself(found, tmp_path_factory.mktemp("first"))
        yield found


def knows_itself(quorum: Quorum, folder: Path) -> None:
    """Wait until each controller says of which cluster it is: one that has just started may not."""
    for node in quorum.controllers:
        for attempt in range(40):
            out = folder / f"{node.id}-{attempt}"
            out.mkdir()
            code = pull_with({}, node.address("CONTROLLER"), out)
            if code == 0 and "ClusterId" in described(out / "live"):
                break
            time.sleep(0.5)
        else:
            raise AssertionError(f"controller {node.id} does not name its cluster")


def plain(password: str = "admin secret", user: str = "admin") -> Properties:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="{user}" password="{password}";',
    }


def scram(folder: Path, password: str = "scram-secret", user: str = "admin") -> Properties:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="{user}" password="{password}";',
        "ssl.truststore.location": folder / "trust.jks",
        "ssl.truststore.password": STORE_PASSWORD,
    }


def mutual_tls(folder: Path) -> Properties:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": folder / "ca.pem",
        "ssl.keystore.location": folder / "auditor.p12",
        "ssl.keystore.password": STORE_PASSWORD,
    }


def oauth() -> Properties:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="admin";',
    }


def pull_with(given: Properties, address: str, tmp_path: Path) -> int:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    return pull(address, tmp_path / "live", "--command-config", file)


def every_way(folder: Path) -> dict[str, Properties]:
    """By listener."""
    return {
        "CONTROLLER": {},
        "PLAIN": plain(),
        "SCRAM": scram(folder),
        "TLS": mutual_tls(folder),
        "OAUTH": oauth(),
    }


@pytest.mark.parametrize("listener", ["CONTROLLER", *LISTENERS])
def test_pulled_files_are_the_leaders(
    listener: str, quorum: Quorum, certificates: Path, tmp_path: Path
) -> None:
    """From any controller, whoever leads: the leader's address comes for the same listener."""
    for node in quorum.controllers:
        given = every_way(certificates)[listener]
        out = tmp_path / str(node.id)
        out.mkdir()
        assert pull_with(given, node.address(listener), out) == 0
        assert_same_bytes(out / "live", quorum.leader().data)
        assert described(out / "live")["ClusterId"] == quorum.cluster_id


def test_two_rights_are_enough(
    quorum: Quorum, certificates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any, the sentence says what to grant; the cluster's id is only for those who may
    alter the cluster.
    """
    given, address = scram(certificates, "auditor-secret", "auditor"), quorum.bootstrap("SCRAM")
    assert pull_with(given, address, tmp_path) == 2
    assert "grant it CLUSTER_ACTION on Cluster" in capsys.readouterr().err
    allow(quorum, "auditor", "ClusterAction")
    assert pull_with(given, address, tmp_path) == 2
    assert "grant it DESCRIBE on Cluster" in capsys.readouterr().err
    allow(quorum, "auditor", "Describe")
    assert pull_with(given, address, tmp_path) == 0
    assert_same_bytes(tmp_path / "live", quorum.leader().data)
    assert "ClusterId" not in described(tmp_path / "live")


def allow(quorum: Quorum, user: str, operation: str) -> None:
    """With Kafka's own tool."""
    called = kafka_quorum.command(
        kafka_judge.JUDGE,
        "org.apache.kafka.tools.AclCommand",
        *("--bootstrap-controller", quorum.bootstrap(), "--add", "--cluster"),
        *("--allow-principal", f"User:{user}", "--operation", operation),
    )
    subprocess.run(called, check=True, capture_output=True)


def _changed(given: Properties, **more: object) -> Properties:
    return {**given, **{key.replace("_", "."): value for key, value in more.items()}}


def wrong_ways(folder: Path) -> dict[str, tuple[str, Properties, str]]:
    """Name → (listener, properties, what the sentence says)."""
    tls = mutual_tls(folder)
    no_key = {key: text for key, text in tls.items() if "keystore" not in key}
    return {
        "PLAIN password": ("PLAIN", plain("wrong secret"), "refuses these credentials (PLAIN)"),
        "PLAIN user": ("PLAIN", plain(user="someone"), "refuses these credentials"),
        "no right": ("PLAIN", plain("no right", "nobody"), "grant it CLUSTER_ACTION"),
        "SCRAM password": ("SCRAM", scram(folder, "wrong"), "refuses these credentials (SCRAM"),
        "another mechanism": (
            "SCRAM",
            _changed(scram(folder), sasl_mechanism="PLAIN"),
            "does not offer PLAIN",
        ),
        "another authority": (
            "TLS",
            _changed(tls, ssl_truststore_location=folder / "other.pem"),
            "its certificate is not trusted",
        ),
        "no key": ("TLS", no_key, "it refuses our certificate, or wants one"),
        "a key of another authority": (
            "TLS",
            _changed(tls, ssl_keystore_location=folder / "stranger.p12"),
            "it refuses our certificate",
        ),
        "an expired key": (
            "TLS",
            _changed(tls, ssl_keystore_location=folder / "expired.p12"),
            "it refuses our certificate",
        ),
        "a wrong store password": (
            "TLS",
            _changed(tls, ssl_keystore_password="wrong"),
            "a password is wrong",
        ),
        "plaintext to TLS": ("TLS", {}, "does this listener want TLS"),
        "TLS to plaintext": ("CONTROLLER", tls, "TLS failed"),
        "SASL to none": ("CONTROLLER", plain(), "does not expect SASL_PLAINTEXT"),
        "none to SASL": ("PLAIN", {}, "closed"),
    }


@pytest.mark.parametrize("case", wrong_ways(Path()))
def test_what_is_wrong_is_one_sentence(
    case: str,
    quorum: Quorum,
    certificates: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    listener, given, problem = wrong_ways(certificates)[case]
    assert pull_with(given, quorum.leader().address(listener), tmp_path) == 2
    printed = capsys.readouterr()
    assert problem in printed.err
    assert printed.err.startswith("kraftlog: ")
    assert printed.err.count("\n") == 1
    assert "secret" not in printed.err
    assert printed.out == ""
    assert not (tmp_path / "live").exists()


def test_tokens_come_from_where_kafkas_client_takes_them(quorum: Quorum, tmp_path: Path) -> None:
    """A token endpoint, and a file: here both hold a token that the server for tests takes."""
    login = {"unsecuredLoginStringClaim_sub": "admin"}
    token = token_source({}, login)()
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    asked: list[tuple[str, bytes]] = []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.headers["Authorization"], body))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": token}).encode())

        def log_message(self, *_: Any) -> None:
            """Not to the terminal."""

    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/token"
        client = f'{OAUTH} required clientId="me" clientSecret="mine" scope="kafka";'
        for name, endpoint in (("endpoint", url), ("file", file.as_uri())):
            (tmp_path / name).mkdir()
            given = {
                **oauth(),
                "sasl.jaas.config": client,
                "sasl.oauthbearer.token.endpoint.url": endpoint,
            }
            assert pull_with(given, quorum.bootstrap("OAUTH"), tmp_path / name) == 0
            assert_same_bytes(tmp_path / name / "live", quorum.leader().data)
        server.shutdown()
    assert asked
    assert set(asked) == {("Basic bWU6bWluZQ==", b"grant_type=client_credentials&scope=kafka")}


def test_an_election_between_two_pulls(quorum: Quorum, certificates: Path, tmp_path: Path) -> None:
    """The second pull goes on with the next leader, over the same listener."""
    given, old = scram(certificates), quorum.leader()
    assert pull_with(given, quorum.bootstrap("SCRAM"), tmp_path) == 0
    before = (tmp_path / "live" / "__cluster_metadata-0" / "leader-epoch-checkpoint").read_text()
    quorum.kill(old.id)
    assert pull_with(given, quorum.bootstrap("SCRAM"), tmp_path) == 0
    assert_same_bytes(tmp_path / "live", quorum.leader().data)
    assert int(described(tmp_path / "live")["LeaderId"]) == quorum.leader().id != old.id
    after = (tmp_path / "live" / "__cluster_metadata-0" / "leader-epoch-checkpoint").read_text()
    assert len(after.splitlines()) > len(before.splitlines())
    quorum.start(old.id)
