"""Azure and GCS by their emulators, as far as those go: Azurite from npm does all that a lake
needs; GCS's from PyPI serves inputs alone, as it lacks the listing by which delta-rs finds a table.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from kraftlog.cli import main
from kraftlog.log.stores import filesystem_of
from kraftlog.pipeline.every_table import all_tables
from kraftlog.tables.lake import Lake
from kraftlog.tables.place import KEY_FILE
from tests.cluster.machines import stop, wait_for
from tests.golden.cases import DATA
from tests.lakes import contents, key_in
from tests.s3_server import free_port

pytestmark = pytest.mark.stores

EMULATORS = Path(__file__).parents[2] / ".emulators"
ISOLATED = DATA / "isolated" / "replicas"
ACCOUNT = "devstoreaccount1.dfs.core.windows.net"
WELL_KNOWN = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The key that every Azurite has, by its documents."""
Audit = Callable[[str], tuple[int, str, str]]


@contextmanager
def served(command: list[str], port: int, variables: dict[str, str]) -> Iterator[None]:
    """A server while it lasts; this process and what it starts know where it is."""
    server = subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": str(EMULATORS / "python")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            yield
    finally:
        stop(server)


def put(uri: str) -> None:
    filesystem, inner = filesystem_of(uri)
    pafs.copy_files(str(ISOLATED), inner, destination_filesystem=filesystem, use_threads=False)


@pytest.fixture(scope="module")
def azure() -> Iterator[str]:
    """The URI of a container that holds a quorum."""
    port = free_port()
    program = str(EMULATORS / "node_modules/.bin/azurite-blob")
    quiet = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    variables = {
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURE_STORAGE_ACCOUNT_KEY": WELL_KNOWN,
        "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
    }
    with served([program, "--blobPort", str(port), *quiet], port, variables):
        container = f"abfs://audit@{ACCOUNT}"
        filesystem, inner = filesystem_of(container)
        filesystem.create_dir(inner)
        put(f"{container}/replicas")
        yield container


@pytest.fixture(scope="module")
def google() -> Iterator[str]:
    """The URI of a bucket that holds a quorum."""
    port = free_port()
    command = [sys.executable, "-m", "gcp_storage_emulator", "start", "--in-memory"]
    where = ["--host=127.0.0.1", f"--port={port}", "--default-bucket=audit"]
    variables = {"CLOUD_STORAGE_EMULATOR_ENDPOINT": f"http://127.0.0.1:{port}"}
    with served([*command, *where], port, variables):
        put("gs://audit/replicas")
        yield "gs://audit"


@pytest.fixture
def audit(capsys: pytest.CaptureFixture[str]) -> Audit:
    """What an audit says of a folder, and its exit code."""

    def said(root: str) -> tuple[int, str, str]:
        code = main(["audit", "--input", root])
        told = capsys.readouterr()
        return code, told.out.replace(root, "ROOT"), told.err

    return said


def test_an_audit_of_azure_says_what_that_of_the_disk_does(azure: str, audit: Audit) -> None:
    assert audit(f"{azure}/replicas")[:2] == audit(str(ISOLATED))[:2]


def test_an_audit_of_gcs_says_what_that_of_the_disk_does(google: str, audit: Audit) -> None:
    assert audit(f"{google}/replicas")[:2] == audit(str(ISOLATED))[:2]


def run(root: str, lake: str) -> None:
    command = [sys.executable, "-m", "kraftlog", "run", "--input", root, "--lake", lake]
    done = subprocess.run(
        [*command, "--master", "local[2]", "--fail-on", "never", "--debug"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_lake_on_azure_holds_what_one_on_the_disk_does(azure: str, tmp_path: Path) -> None:
    lake, alone = f"{azure}/lake", tmp_path / "alone"
    alone.mkdir()
    key = key_in(alone)
    filesystem, inner = filesystem_of(f"{lake}/{KEY_FILE}")
    with filesystem.open_output_stream(inner) as stream:
        stream.write(key.read_bytes())
    run(f"{azure}/replicas", lake)
    versions = {name: Lake(lake).open(name).version() for name in all_tables()}
    run(f"{azure}/replicas", lake)
    assert versions == {name: Lake(lake).open(name).version() for name in all_tables()}
    run(str(ISOLATED), str(alone))
    assert contents(lake) == contents(str(alone))


NOBODY = "http://127.0.0.1:1"
AZURE = [
    (f"abfs://none@{ACCOUNT}/x", {}, "there is no bucket none"),
    (f"abfs://audit@{ACCOUNT}/x", {}, "there is no such folder or file"),
    (f"abfs://audit@{ACCOUNT}/x", {"AZURE_STORAGE_ACCOUNT_KEY": "AAAA"}, "does not let us in"),
    (f"abfs://audit@{ACCOUNT}/x", {"AZURITE_BLOB_STORAGE_URL": NOBODY}, "does not answer"),
]
GOOGLE = [
    ("gs://none/x", {}, "there is no bucket none"),
    ("gs://audit/x", {}, "there is no such folder or file"),
    ("gs://audit/x", {"CLOUD_STORAGE_EMULATOR_ENDPOINT": NOBODY}, "does not answer"),
]


@pytest.mark.parametrize(("root", "variables", "sentence"), [*AZURE, *GOOGLE])
def test_what_is_wrong_is_one_sentence(
    root: str,
    variables: dict[str, str],
    sentence: str,
    request: pytest.FixtureRequest,
    audit: Audit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request.getfixturevalue("azure" if root.startswith("abfs") else "google")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, out, err = audit(root)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
