"""How to connect, from a client properties file as Kafka's own tools take one (`--command-config`).

In: a Java properties file. Out: `Security`: protocol, credentials, TLS context, token. PLAINTEXT,
SSL (with a key of one's own: mutual TLS), SASL with PLAIN, SCRAM and OAUTHBEARER. Nothing of the
file's values is ever in a message. Source: Kafka's CommonClientConfigs, SaslConfigs, SslConfigs and
JaasConfig.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kraftlog.errors import UsageError
from kraftlog.log.sidefiles import SIDE_FILE_LIMIT, read_properties
from kraftlog.pull.certificates import tls_context
from kraftlog.pull.tokens import token_source

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

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
