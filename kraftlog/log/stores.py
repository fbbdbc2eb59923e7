"""Object stores by their URIs: which are known, and whether one is there and lets us in.

In: URIs as delta-rs takes them too, and the environment, where both look for the store's address
and credentials. Out: pyarrow's file systems, or one sentence. A client of a store asks again and
again for minutes before it gives up, so whoever is about to work there looks first, once and with
little patience.
"""

import errno
import os
import re
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from kraftlog.errors import StoreError, UsageError
from kraftlog.plain import in_line

if TYPE_CHECKING:
    # A tenth of a small answer's time, for what reads local disks alone.
    import pyarrow.fs as pafs

PATIENCE_SECONDS = 15.0
_AT_ONCE = 16
_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")
_GCS_SECONDS, _GCS_PATIENT_SECONDS = 5, 60
_AZURITE = "http://127.0.0.1:10000"
_S3, _GCS, _AZURE = "s3", "gs", "abfs"
SCHEMES = {"s3": _S3, "gs": _GCS, "abfs": _AZURE, "abfss": _AZURE}
_ADDRESS = {
    _S3: ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    _GCS: ("CLOUD_STORAGE_EMULATOR_ENDPOINT",),
    _AZURE: ("AZURITE_BLOB_STORAGE_URL",),
}
_IDENTITY = {
    _S3: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the role of this machine",
    _GCS: "GOOGLE_APPLICATION_CREDENTIALS, or the service account of this machine",
    _AZURE: "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or the identity of this machine",
}
_REFUSED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE|INVALID_CLIENT_TOKEN|UNRECOGNIZED_CLIENT|"
    r"EXPIRED_TOKEN|AuthenticationException|AuthenticationFailed|AuthorizationFailure|"
    r"UNAUTHENTICATED|PERMISSION_DENIED|[Uu]nauthorized|\b40[13]\b|AccessDenied|credential"
)
_SILENT = re.compile(
    r"NETWORK_CONNECTION|curlCode|[Cc]ould not (connect|resolve)|"
    r"[Cc]ouldn't (connect|resolve)|UNAVAILABLE|[Ff]ail(ed)? to (connect|resolve)|"
    r"client error \(Connect\)|REQUEST_TIMEOUT|timed out"
)
_NO_IDENTITY = re.compile(r"access token|DefaultAzureCredential")
_BUSY = re.compile(r"(HTTP status|status code:|\]) (429|503)\b|SLOW_DOWN|SlowDown|ServerBusy")
_REGION = re.compile(r"bucket is located in '([\w-]+)'|redirect without LOCATION")
_REFUSED_WITHOUT_A_WORD = "(HTTP status 400)"
"""What S3 answers to a token that is over, or another region's signature, where it may say nothing
(HEAD).
"""
_OF_A_STORE = re.compile(
    r"Generic \w+ error|necessary privileges|Error performing [A-Z]+ http|AWS Error"
)
"""How delta-rs's client, or Arrow's, tells what a store, and nothing in a table, has kept it from."""
_BY_SYSTEM = re.compile(r"(?:[([](?:os error|[Ee]rrno) |\bOs \{ code: )(\d+)")
"""Where delta-rs's client, or Arrow's, has met a refusal of the disk."""
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""What the disk says of a path at which no such file is."""
_IN_ONE_REQUEST = "allow_delayed_open=true"
"""Arrow puts a small file by one request, and not as an upload of parts, which takes three."""
_NOT_OURS = re.compile(
    r"When getting information for key '[^']*' in bucket '[^']*': | error_info=.*"
)
_TEXT_LIMIT = 200


def is_remote(path: str) -> bool:
    """True for a URI of a store other than the local disk."""
    return "://" in path and not path.startswith("file://")


def filesystem_of(uri: str) -> "tuple[pafs.FileSystem, str]":
    """The file system of a URI, and the path inside it.

    Raises UsageError for a store of another kind."""
    return _made(uri, _kind(uri))


def require_store(uri: str) -> None:
    """Raise StoreError where a store is not there, has no such bucket, or does not let us in."""
    import pyarrow.fs as pafs

    kind = _kind(uri)
    filesystem, inner = _made(uri, kind, is_patient=False)
    bucket = inner.split("/", 1)[0]
    # By its path first: many may see only what lies below a prefix.
    found = asked(uri, lambda: filesystem.get_file_info(inner).type)
    if found == pafs.FileType.NotFound:
        try:
            found = asked(uri, lambda: filesystem.get_file_info(bucket).type)
        except StoreError:
            return
        if found == pafs.FileType.NotFound:
            raise StoreError(f"{uri}: there is no bucket {bucket} in {_where(kind)}")


def asked(uri: str, ask: Callable[[], Any]) -> Any:
    """What a store answers; some of their clients cannot be told to give up.

    Raises StoreError in one sentence, soon."""
    kind = _kind(uri)
    answers: list[Any] = []
    errors: list[Exception] = []

    def work() -> None:
        try:
            answers.append(ask())
        # Each client has errors of its own.
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    if thread.is_alive():
        raise StoreError(
            f"{uri}: {_where(kind)} has not answered for {PATIENCE_SECONDS:.0f} s; {_look(kind)}"
        )
    if errors:
        raise StoreError(f"{uri}: {_why(kind, errors[0])}") from errors[0]
    return answers[0]


def side_by_side(
    ask: Callable[[_Asked], _Answer], of: Iterable[_Asked], at_once: int = _AT_ONCE
) -> list[_Answer]:
    """What is answered for each, in order, or the error of the first that has one. Waiting for one
    answer of a store takes longer than all the work on it.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(ask, of))


def why(path: str, error: Exception) -> str:
    """What kept a file below a path from being written: of a store, and where to look."""
    if is_remote(path):
        return _why(_kind(path), error)
    if found := _BY_SYSTEM.search(str(error)):
        return os.strerror(int(found[1]))
    return in_line(error)


def require_read(path: str, error: Exception) -> None:
    """Raise StoreError where an error tells that a store, or the disk, has kept a client from reading, and
    nothing of what lies there: what is unknown is not damaged, and nothing is rebuilt in its place.
    """
    if isinstance(error, StoreError):
        raise error
    if is_remote(path):
        if _OF_A_STORE.search(str(error)) and not isinstance(error, FileNotFoundError):
            raise StoreError(f"{path}: {why(path, error)}") from error
        return
    found = _BY_SYSTEM.search(str(error))
    if found is not None and int(found[1]) not in _NOT_THERE:
        raise StoreError(
            f"{path}: it cannot be read ({why(path, error)}), which does not say that it is damaged; run as a user who may read all of the lake, or mend its disk"
        ) from error


def _kind(uri: str) -> str:
    scheme = uri.partition("://")[0]
    if scheme not in SCHEMES:
        raise UsageError(
            f"{uri}: {scheme}:// is not a store that kraftlog knows; name a local folder, or {', '.join(f'{one}://' for one in SCHEMES)}"
        )
    return SCHEMES[scheme]


def _made(uri: str, kind: str, *, is_patient: bool = True) -> "tuple[pafs.FileSystem, str]":
    """The file system; an impatient one tells soon that nothing answers."""
    import pyarrow.fs as pafs

    parts = urlsplit(uri)
    inner = f"{parts.netloc}{parts.path}".rstrip("/")
    if kind == _S3 and not is_patient and not parts.query:
        once = pafs.AwsStandardS3RetryStrategy(max_attempts=2)
        limits = {"connect_timeout": 5, "request_timeout": 10, "retry_strategy": once}
        return pafs.S3FileSystem(endpoint_override=_address(kind), **limits), inner
    if kind == _GCS:
        seconds = _GCS_PATIENT_SECONDS if is_patient else _GCS_SECONDS
        # An emulator asks for no credentials, and looking for some takes long where there are none.
        return pafs.GcsFileSystem(
            anonymous=_address(kind) is not None, retry_time_limit=timedelta(seconds=seconds)
        ), inner
    if kind == _AZURE and "@" in parts.netloc:
        return _azure(parts.netloc.partition("@")[2]), f"{parts.username}{parts.path}".rstrip("/")
    # A message names the URI as it was given.
    asked_by = f"{uri}{'&' if parts.query else '?'}{_IN_ONE_REQUEST}" if kind == _S3 else uri
    try:
        filesystem, inner = pafs.FileSystem.from_uri(asked_by)
    except (ValueError, OSError) as error:
        raise StoreError(f"{uri}: {_why(kind, error)}") from error
    return filesystem, inner


def _azure(host: str) -> "pafs.FileSystem":
    """The file system of an account, by the variables that delta-rs reads too."""
    import pyarrow.fs as pafs

    known: dict[str, str] = {}
    for argument, variable in (
        ("account_key", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("sas_token", "AZURE_STORAGE_SAS_TOKEN"),
    ):
        if value := os.environ.get(variable):
            # Arrow puts a token behind the URL as it is.
            known[argument] = f"?{value.lstrip('?')}" if argument == "sas_token" else value
    if address := _address(_AZURE):
        scheme, _, authority = address.partition("://")
        known |= {"blob_storage_scheme": scheme, "dfs_storage_scheme": scheme}
        known |= {"blob_storage_authority": authority, "dfs_storage_authority": authority}
    return pafs.AzureFileSystem(host.partition(".")[0], **known)


def _address(kind: str) -> str | None:
    """The address of a store that is not the cloud's own, as its environment names it."""
    if kind == _AZURE and not os.environ.get("AZURE_STORAGE_USE_EMULATOR"):
        return None
    default = _AZURITE if kind == _AZURE else None
    return next((os.environ[one] for one in _ADDRESS[kind] if os.environ.get(one)), default)


def _where(kind: str) -> str:
    named = _address(kind)
    return f"the store at {named}" if named else {_S3: "S3", _GCS: "GCS", _AZURE: "Azure"}[kind]


def _look(kind: str) -> str:
    return f"look at {_ADDRESS[kind][-1] if _address(kind) else 'its name'} and the network"


def _why(kind: str, error: Exception) -> str:
    """What kept a store from answering, and where to look."""
    text = _NOT_OURS.sub("", in_line(error, None))
    detail = (text.rpartition("Details: ")[2] or type(error).__name__)[:_TEXT_LIMIT]
    if "scheme is not allowed" in text:
        return f"{_where(kind)} is asked without TLS, which needs AWS_ALLOW_HTTP=true"
    if _NO_IDENTITY.search(text):
        return f"there are no credentials for {_where(kind)} here; look at {_IDENTITY[kind]}"
    if region := _REGION.search(text):
        other = f"the region {region[1]}" if region[1] else "another region"
        return f"the bucket lies in {other}; name it in AWS_REGION"
    if _BUSY.search(text):
        return f"{_where(kind)} is too busy to answer; try again later"
    if _SILENT.search(text):
        return f"{_where(kind)} does not answer ({detail}); {_look(kind)}"
    if _REFUSED.search(text):
        return (
            f"{_where(kind)} does not let us in; look at {_IDENTITY[kind]}, and at the rights there"
        )
    if kind == _S3 and _REFUSED_WITHOUT_A_WORD in text:
        return f"{_where(kind)} does not let us in; look whether AWS_SESSION_TOKEN is over, and at AWS_REGION"
    return f"{_where(kind)} cannot be used ({detail})"
