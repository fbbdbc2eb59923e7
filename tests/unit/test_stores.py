"""Object stores by their URIs; no server is asked here."""

import argparse
import time
from pathlib import Path

import pytest

from kraftlog.commands.values import local_argument
from kraftlog.errors import StoreError, UsageError
from kraftlog.log import directory, stores
from kraftlog.log.directory import find_replicas, walk_file
from kraftlog.log.fault import Fault
from kraftlog.log.names import LOG_FOLDER
from kraftlog.log.segment import Limits

KINDS = [
    ("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 6", "does not answer"),
    ("client error (Connect)\n ↳ tcp connect error", "does not answer"),
    ("google::cloud::Status(UNAVAILABLE: Retry policy exhausted)", "does not answer"),
    ("AWS Error ACCESS_DENIED during HeadObject operation: No response body.", "let us in"),
    ("The AWS Access Key Id you provided is wrong: InvalidAccessKeyId 403 Forbidden", "let us in"),
    ("AuthenticationException: Failed to get token from DefaultAzureCredential", "no credentials"),
    ("UNAVAILABLE: Could not create a OAuth2 access token to authenticate", "no credentials"),
    ("\x1b[31m↳\x1b[0m URL scheme is not allowed", "needs AWS_ALLOW_HTTP=true"),
    (
        "When getting information for key 'a' in bucket 'b': AWS Error UNKNOWN (HTTP status 301) "
        "during HeadObject operation: No response body. Looks like the configured region is '' "
        "while the bucket is located in 'eu-central-1'.",
        "the bucket lies in the region eu-central-1; name it in AWS_REGION",
    ),
    ("Generic S3 error: Received redirect without LOCATION, this indicates", "another region"),
    ("AWS Error UNKNOWN (HTTP status 400) during HeadObject: No response", "AWS_SESSION_TOKEN"),
    ("AWS Error SLOW_DOWN during HeadObject operation", "is too busy to answer; try again later"),
    ("failed. Azure Error: [ServerBusy] 503 Service Unavailable Request", "is too busy to answer"),
    ("something that nobody foresaw", "cannot be used"),
]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            OSError(
                "Generic LocalFileSystem error: Unable to open file /l/6.json#1: R (os error 30)"
            ),
            "Read-only file system",
        ),
        (
            OSError(
                'Could not create local directory: /l Error: Os { code: 13, kind: PermissionDenied, message: "P" }'
            ),
            "Permission denied",
        ),
        (OSError(28, "Error writing bytes. Detail: [errno 28] No"), "No space left on device"),
        (OSError("no number"), "no number"),
    ],
)
def test_what_a_disk_refuses_is_told_in_the_systems_words(error: OSError, told: str) -> None:
    assert stores.why("/l", error) == told


@pytest.mark.parametrize(("said", "sentence"), KINDS)
def test_what_a_store_says_becomes_one_sentence(said: str, sentence: str) -> None:
    def refuse() -> None:
        raise OSError(said)

    with pytest.raises(StoreError, match=sentence) as caught:
        stores.asked("s3://bucket/folder", refuse)
    assert str(caught.value).startswith("s3://bucket/folder: ")
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_what_signs_a_url_is_not_told() -> None:
    def refuse() -> None:
        raise OSError("'http://a/b?sv=2022&sig=c2VjcmV0%3D&se=2030' failed: curlCode: 7")

    with pytest.raises(StoreError, match=r"\?sv=2022&sig=…&se=2030") as caught:
        stores.asked("abfs://container@a.dfs.core.windows.net/x", refuse)
    assert "c2Vj" not in str(caught.value)


def test_no_row_holds_what_signs_a_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file that cannot be read is told with what the store said."""
    folder = tmp_path / "1" / LOG_FOLDER
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(b"\0" * 99)

    def refuse(path: str) -> None:
        raise OSError("GET http://a/b?sig=c2VjcmV0 failed")

    monkeypatch.setattr(directory, "open_file", refuse)
    (replica,) = find_replicas([str(tmp_path)])
    (fault,) = walk_file(replica.files[0], Limits())
    assert isinstance(fault, Fault)
    assert fault.detail == "GET http://a/b?sig=… failed"


def test_a_store_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "PATIENCE_SECONDS", 0.05)
    with pytest.raises(StoreError, match="has not answered"):
        stores.asked("gs://bucket/folder", lambda: time.sleep(5))


def test_the_address_is_told_where_the_environment_names_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000")
    with pytest.raises(StoreError, match="the store at http://minio:9000 does not answer"):
        stores.asked("s3://bucket", lambda: (_ for _ in ()).throw(OSError("curlCode: 7")))


@pytest.mark.parametrize("uri", ["s4://bucket/x", "hdfs://host/x", "ftp://host/x", "://x"])
def test_other_stores_are_refused(uri: str) -> None:
    with pytest.raises(UsageError, match="is not a store that kraftlog knows"):
        stores.filesystem_of(uri)


def test_what_must_be_on_this_machine() -> None:
    assert local_argument("a/b") == Path("a/b")
    with pytest.raises(argparse.ArgumentTypeError, match="is not a path of this machine"):
        local_argument("s3://bucket/a")
