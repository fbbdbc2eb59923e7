"""TLS from client properties: whom to trust, and with which key to answer.

In: `ssl.*` properties. Out: a context of Python's own TLS. Stores may be PEM (files or in the
properties) or PKCS12, which is what keytool writes since Java 9, whatever the file is called.
Source: Kafka's SslConfigs and DefaultSslEngineFactory, KIP-651.
"""

import re
import secrets
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from kraftlog.errors import UsageError

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
    location, inline = (
        given.get("ssl.truststore.location"),
        given.get("ssl.truststore.certificates"),
    )
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
