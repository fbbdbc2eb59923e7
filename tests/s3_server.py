"""A real S3 protocol server for tests: moto's, which honours conditional puts."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from tests.bare import ROOT

_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@dataclass(frozen=True)
class Store:
    """A running server: its address, and the URI of a bucket that is there."""

    url: str
    bucket: str

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to know of it."""
        return _CREDENTIALS | {"AWS_ENDPOINT_URL": self.url}

    def put(self, source: Path, uri: str) -> None:
        """Copy a folder, or one file."""
        filesystem, target = pafs.FileSystem.from_uri(uri)
        files = (
            [source] if source.is_file() else [one for one in source.rglob("*") if one.is_file()]
        )
        for file in files:
            below = "" if file == source else f"/{file.relative_to(source)}"
            with filesystem.open_output_stream(f"{target}{below}") as stream:
                stream.write(file.read_bytes())

    def names(self, uri: str) -> list[str]:
        """The files below a folder; none where it is not there."""
        filesystem, target = pafs.FileSystem.from_uri(uri)
        chosen = pafs.FileSelector(target, recursive=True, allow_not_found=True)
        return [one.path for one in filesystem.get_file_info(chosen) if one.is_file]


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def s3_server(**settings: str) -> Iterator[Store]:
    """A server of its own; the environment of this process says where it is, and has the keys.

    `settings` are moto's own variables."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.moto_s3", str(port)],
        cwd=ROOT,
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    store = Store(f"http://127.0.0.1:{port}", "s3://bucket")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        try:
            _wait_for(store.url)
            yield store
        finally:
            server.terminate()
            server.wait()


@contextmanager
def s3_bucket() -> Iterator[Store]:
    """A server with a bucket in it."""
    with s3_server() as store:
        request = urllib.request.Request(f"{store.url}/bucket", method="PUT")
        urllib.request.urlopen(request).close()
        yield store


def _wait_for(url: str) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(url).close()
        except urllib.error.HTTPError:
            return  # it answers, and refuses
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(url)
