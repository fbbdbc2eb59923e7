"""Tokens for OAUTHBEARER, from where Kafka's own client takes them.

In: client properties and JAAS options. Out: a function that gives a token for each connection: from
a file or a token endpoint (client credentials), or made here and signed by nobody, which only a
server for tests accepts. Source: Kafka's OAuthBearerLoginCallbackHandler (KIP-768) and
OAuthBearerUnsecuredLoginCallbackHandler (KIP-255), RFC 6749 section 4.4.
"""

import json
import ssl
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from kraftlog.errors import UsageError
from kraftlog.pull.address import PullError, Unreachable

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CLAIM = "unsecuredLoginStringClaim_"
TOKEN_LIMIT_BYTES = 1 << 20
SECONDS = 30


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
