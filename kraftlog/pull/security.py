"""How to connect, from a client properties file as Kafka's own tools take one (`--command-config`).

In: a Java properties file. Out: `Security`: protocol, credentials, TLS context, token. PLAINTEXT,
SSL (with a key of one's own: mutual TLS), SASL with PLAIN, SCRAM and OAUTHBEARER, whose tokens come
from a file or a token endpoint (client credentials), or are made here and signed by nobody, which
only a server for tests accepts. Stores may be PEM (files or in the properties) or PKCS12, which is
what keytool writes since Java 9, whatever the file is called. Nothing of the file's values is ever
in a message. Source: Kafka's CommonClientConfigs, SaslConfigs, SslConfigs, DefaultSslEngineFactory,
JaasConfig, OAuthBearerLoginCallbackHandler (KIP-768) and OAuthBearerUnsecuredLoginCallbackHandler
(KIP-255), KIP-651, RFC 6749 section 4.4.
"""

import json
import re
import secrets
import ssl
import tempfile
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from kraftlog.errors import UsageError
from kraftlog.log.sidefiles import SIDE_FILE_LIMIT, read_properties
from kraftlog.pull.address import PullError, Unreachable

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CLAIM = "unsecuredLoginStringClaim_"
TOKEN_LIMIT_BYTES = 1 << 20
SECONDS = 30

_JAAS_OPTION = re.compile(
    r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)


@dataclass(frozen=True)
class Security:
    """What a connection needs: `tls` where the protocol has TLS, the rest where it has SASL."""

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    token: Callable[[], str] | None = field(default=None, repr=False)


def read_security(path: Path | None) -> Security:
    """The security of a properties file; plaintext without one.

    Raises UsageError with one sentence where the file cannot be read or used."""
    if path is None:
        return Security()
    try:
        with path.open("rb") as file:
            raw = file.read(SIDE_FILE_LIMIT)
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read ({error.strerror})") from error
    try:
        return security_of(read_properties(raw))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    except ValueError:
        # What the file holds is secret: not even its cause is told.
        raise UsageError(f"{path}: it is not a Java properties file") from None


def security_of(given: Mapping[str, str]) -> Security:
    """The security that client properties describe.

    Raises UsageError where they contradict themselves, or want what is not supported."""
    protocol = _one_of(given, "security.protocol", PROTOCOLS, "PLAINTEXT")
    tls = tls_context(given) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return Security(protocol, tls=tls)
    mechanism = _one_of(given, "sasl.mechanism", MECHANISMS, "GSSAPI")
    jaas = jaas_options(given.get("sasl.jaas.config", ""))
    if mechanism == "OAUTHBEARER":
        return Security(protocol, mechanism, tls=tls, token=token_source(given, jaas))
    for name in ("username", "password"):
        if not jaas.get(name):
            raise UsageError(f"sasl.jaas.config names no {name}, and {mechanism} needs one")
    return Security(protocol, mechanism, jaas["username"], jaas["password"], tls)


def jaas_options(text: str) -> dict[str, str]:
    """The options of the one login module of a `sasl.jaas.config`."""
    found = {}
    for name, double, single, bare in _JAAS_OPTION.findall(text):
        found[name] = bare or re.sub(r"\\(.)", r"\1", double or single)
    return found


def _one_of(given: Mapping[str, str], key: str, allowed: tuple[str, ...], default: str) -> str:
    value = given.get(key, default).strip().upper()
    if value not in allowed:
        # A value here is no secret; but the file may have been mixed up, so that it is not shown.
        raise UsageError(f"{key} is none of {', '.join(allowed)}, which pull can use")
    return value


def token_source(given: Mapping[str, str], jaas: Mapping[str, str]) -> Callable[[], str]:
    """Where tokens come from.

    Raises UsageError where the properties name no source."""
    url = given.get(ENDPOINT, "")
    if url.startswith("file:"):
        return partial(_from_file, Path(urlsplit(url).path))
    if url.startswith(("https://", "http://")):
        prefix = "sasl.oauthbearer.client.credentials.client."
        client = jaas.get("clientId") or given.get(f"{prefix}id")
        secret = jaas.get("clientSecret") or given.get(f"{prefix}secret")
        if not client or not secret:
            raise UsageError(f"{ENDPOINT} needs clientId and clientSecret in sasl.jaas.config")
        scope = jaas.get("scope") or given.get("sasl.oauthbearer.scope")
        return partial(_from_endpoint, url, client, secret, scope)
    claims = {
        name.removeprefix(CLAIM): text for name, text in jaas.items() if name.startswith(CLAIM)
    }
    if claims:
        return partial(_unsecured, claims)
    raise UsageError(f"OAUTHBEARER needs {ENDPOINT}, as https:// or file:")


def _from_file(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            token = file.read(TOKEN_LIMIT_BYTES).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the token cannot be read") from error
    return _checked(token, str(path))


def _from_endpoint(url: str, client: str, secret: str, scope: str | None) -> str:
    """Ask the endpoint with the client's own credentials."""
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    basic = b64encode(f"{quote(client, safe='')}:{quote(secret, safe='')}".encode()).decode()
    headers = {"Authorization": f"Basic {basic}", "Accept": "application/json"}
    request = Request(url, urlencode(form).encode(), headers)
    host = urlsplit(url).hostname or "the token endpoint"
    opener = build_opener(HTTPSHandler(context=ssl.create_default_context()), _NoRedirect)
    try:
        with opener.open(request, timeout=SECONDS) as answer:
            raw = answer.read(TOKEN_LIMIT_BYTES)
    except (OSError, HTTPException) as error:  # urllib's own errors are OSErrors
        status = getattr(error, "code", None)
        silent = "nobody answers there" if isinstance(error, OSError) else "its answer is not HTTP"
        why = f"it answers {status}" if status else silent
        raise Unreachable(f"{host}: no token comes from {ENDPOINT}: {why}") from error
    try:
        found: Any = json.loads(raw)["access_token"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PullError(f"{host}: its answer holds no access_token") from error
    return _checked(found, host)


class _NoRedirect(HTTPRedirectHandler):
    """The client's secret goes to the address that is named, wherever that one points to."""

    def redirect_request(self, *_: object) -> None:
        return None


def _checked(token: Any, source: str) -> str:
    """A token must not be able to end the field that it stands in."""
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
        raise PullError(f"{source}: what it holds is not a token")
    return token


def _unsecured(claims: Mapping[str, str]) -> str:
    now = int(time.time())
    body = {"iat": now, "exp": now + 3600, **claims}
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, body)]
    return ".".join(urlsafe_b64encode(one).decode().rstrip("=") for one in parts) + "."


STORE_LIMIT_BYTES = 8 << 20
OLD_JKS = b"\xfe\xed\xfe\xed"

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


def tls_context(given: Mapping[str, str]) -> ssl.SSLContext:
    """A context that trusts `ssl.truststore.*` (else what the system trusts), checks the server's
    name unless `ssl.endpoint.identification.algorithm` is empty, and has the key of
    `ssl.keystore.*` where one is named.

    Raises UsageError where a store cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    algorithm = given.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    context.check_hostname = algorithm == "https"
    _trust(context, given)
    _answer(context, given)
    return context


def _trust(context: ssl.SSLContext, given: Mapping[str, str]) -> None:
    location = given.get("ssl.truststore.location")
    inline = given.get("ssl.truststore.certificates")
    if inline is None and location is None:
        context.load_default_certs()
        return
    raw = inline.encode() if inline is not None else _store(location or "")
    try:
        blocks = _pem_blocks(raw)
        if blocks:
            context.load_verify_locations(cadata="\n".join(blocks.get("CERTIFICATE", ())))
            return
        found = pkcs12.load_pkcs12(raw, _secret(given, "ssl.truststore.password"))
        for one in found.additional_certs:
            context.load_verify_locations(cadata=one.certificate.public_bytes(Encoding.DER))
    except (ValueError, ssl.SSLError) as error:
        why = (
            "it is not a PEM or PKCS12 store with certificates, or ssl.truststore.password is wrong"
        )
        raise UsageError(f"{location or 'ssl.truststore.certificates'}: {why}") from error


def _answer(context: ssl.SSLContext, given: Mapping[str, str]) -> None:
    location, inline = given.get("ssl.keystore.location"), given.get("ssl.keystore.key")
    if location is None and inline is None:
        return
    if inline is not None:
        raw = f"{inline}\n{given.get('ssl.keystore.certificate.chain', '')}".encode()
    else:
        raw = _store(location or "")
    try:
        blocks = _pem_blocks(raw)
        if blocks:
            label = next(one for one in blocks if one.endswith("PRIVATE KEY"))
            password = _secret(given, "ssl.key.password")
            key: Any = load_pem_private_key(blocks[label][0].encode(), password)
            chain = "\n".join(blocks["CERTIFICATE"])
        else:
            found = pkcs12.load_pkcs12(raw, _secret(given, "ssl.keystore.password"))
            key, every = found.key, [found.cert, *found.additional_certs]
            chain = "".join(
                one.certificate.public_bytes(Encoding.PEM).decode() for one in every if one
            )
        _load(context, key, chain)
    except (ValueError, TypeError, LookupError, StopIteration, AttributeError, OSError) as error:
        why = "it holds no PEM or PKCS12 key with its certificate, or a password is wrong"
        raise UsageError(f"{location or 'ssl.keystore.key'}: {why}") from error


def _load(context: ssl.SSLContext, key: Any, chain: str) -> None:
    """Python takes keys from files only: it gets one that is encrypted under a password which is
    never written, and gone a moment later.
    """
    password = secrets.token_hex(32).encode()
    encrypted = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password)
    )
    with tempfile.NamedTemporaryFile(prefix="kraftlog-") as file:
        file.write(encrypted + b"\n" + chain.encode())
        file.flush()
        context.load_cert_chain(file.name, password=password)


def _secret(given: Mapping[str, str], name: str) -> bytes | None:
    return given.get(name, "").encode() or None


def _pem_blocks(raw: bytes) -> dict[str, list[str]]:
    """The PEM blocks of a text by their labels, each with its line ends: in a properties file they
    may have become blanks.
    """
    found: dict[str, list[str]] = {}
    for label, body in _PEM.findall(raw.decode("latin-1")):
        lines = body if ":" in body else "\n" + "\n".join(body.split()) + "\n"
        found.setdefault(label, []).append(f"-----BEGIN {label}-----{lines}-----END {label}-----")
    return found


def _store(location: str) -> bytes:
    """A store's bytes; one in the old format of Java is refused with the command that turns it."""
    try:
        with Path(location).open("rb") as file:
            raw = file.read(STORE_LIMIT_BYTES)
    except OSError as error:
        raise UsageError(f"{location}: it cannot be read ({error.strerror})") from error
    if raw.startswith(OLD_JKS):
        how = "keytool -importkeystore -srckeystore OLD -destkeystore NEW -deststoretype PKCS12"
        raise UsageError(f"{location}: it is a JKS store; turn it into PKCS12: {how}")
    return raw
