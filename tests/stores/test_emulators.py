"""Azure and GCS by their emulators: Azurite from npm, and fake-gcs-server from Go's proxy, to which
`google/main.go` adds the put and the listing of the XML dialect that delta-rs speaks.
"""

import base64
import hmac
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pyarrow.fs as pafs
import pytest

from kraftlog.cli import main
from kraftlog.log.stores import filesystem_of
from kraftlog.pipeline.every_table import all_tables
from kraftlog.tables.lake import Lake
from kraftlog.tables.lake_names import KEY_FILE
from kraftlog.tables.place import state_of
from tests.cluster.machines import stop, wait_for
from tests.golden.cases import DATA
from tests.lakes import CUT, contents, key_in
from tests.s3_server import free_port
from tests.store_gate import WRITES, Rule, gate

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
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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


def azure_at(address: str) -> dict[str, str]:
    """What a process must know of an Azurite."""
    return {
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURE_STORAGE_ACCOUNT_KEY": WELL_KNOWN,
        "AZURITE_BLOB_STORAGE_URL": address,
    }


def google_at(address: str) -> dict[str, str]:
    """What a process must know of an emulator of GCS: pyarrow the one, delta-rs the other."""
    nobody = {"client_email": "", "private_key": "", "private_key_id": ""}
    key = {"gcs_base_url": address, "disable_oauth": True, **nobody}
    return {
        "CLOUD_STORAGE_EMULATOR_ENDPOINT": address,
        "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(key),
    }


@pytest.fixture(scope="module")
def azure() -> Iterator[str]:
    """The URI of a container that holds a quorum."""
    port = free_port()
    program = str(EMULATORS / "node_modules/.bin/azurite-blob")
    quiet = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    variables = azure_at(f"http://127.0.0.1:{port}")
    with served([program, "--blobPort", str(port), *quiet], port, variables):
        container = f"abfs://audit@{ACCOUNT}"
        filesystem, inner = filesystem_of(container)
        filesystem.create_dir(inner)
        put(f"{container}/replicas")
        yield container


@pytest.fixture(scope="module")
def google() -> Iterator[str]:
    """The URI of a bucket that holds a quorum."""
    address = f"127.0.0.1:{free_port()}"
    command = [str(EMULATORS / "google"), address, "audit"]
    with served(command, int(address.rpartition(":")[2]), google_at(f"http://{address}")):
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


def began(root: str, lake: str) -> "subprocess.Popen[str]":
    """A run, as people start it."""
    command = [sys.executable, "-m", "kraftlog", "run", "--input", root, "--lake", lake]
    return subprocess.Popen(
        [*command, *CUT, "--master", "local[2]", "--fail-on", "never", "--debug"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(root: str, lake: str, times: int = 1) -> None:
    """So many runs at once, to their ends."""
    for one in [began(root, lake) for _ in range(times)]:
        _, said = one.communicate(timeout=600)
        assert one.returncode == 0, said


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, list[str]]]:
    """A key, and what one run under it leaves on a local disk."""
    folder = tmp_path_factory.mktemp("alone")
    key = key_in(folder)
    run(str(ISOLATED), str(folder))
    return key.read_bytes(), contents(str(folder))


@pytest.mark.parametrize("store", ["azure", "google"])
def test_a_lake_there_holds_what_one_on_the_disk_does(
    store: str, alone: tuple[bytes, dict[str, list[str]]], request: pytest.FixtureRequest
) -> None:
    root = request.getfixturevalue(store)
    lake = f"{root}/lake"
    filesystem, inner = filesystem_of(f"{lake}/{KEY_FILE}")
    with filesystem.open_output_stream(inner) as stream:
        stream.write(alone[0])
    run(f"{root}/replicas", lake, times=2)
    assert [one.run for one in state_of(lake).published] == [1]
    versions = {name: Lake(lake).open(name).version() for name in all_tables()}
    run(f"{root}/replicas", lake)
    assert versions == {name: Lake(lake).open(name).version() for name in all_tables()}
    assert contents(lake) == alone[1]


@pytest.mark.parametrize("store", ["azure", "google"])
def test_spark_without_their_clients_says_what_else_reads_it(
    store: str, request: pytest.FixtureRequest
) -> None:
    """In a process of its own, after the lake has been written."""
    lake = f"{request.getfixturevalue(store)}/lake"
    asked = (
        "from kraftlog.errors import PlatformError; from kraftlog.session import spark_session\n"
        f"try: spark_session('views', master='local[1]', lake='{lake}')\n"
        "except PlatformError as error: print(error)"
    )
    answer = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert answer.stdout == (
        f"{lake}: this Spark has no client for that store; give it the jars of Hadoop's, or ask "
        "kraftlog sql, deltalake, Polars or DuckDB\n"
    )


def sas_token(until: str, rights: str) -> str:
    """A token for all of the account's blobs, signed as Azure's "account SAS" is, version 2021-12-02."""
    account, version = ACCOUNT.partition(".")[0], "2021-12-02"
    signed = [account, rights, "b", "sco", "", until, "", "", version, "", ""]
    key = base64.b64decode(WELL_KNOWN)
    digest = hmac.digest(key, "\n".join(signed).encode(), "sha256")
    told = {"sv": version, "ss": "b", "srt": "sco", "sp": rights, "se": until}
    return urlencode(told | {"sig": base64.b64encode(digest).decode()})


NEVER, LONG_AGO = "2036-01-01T00:00:00Z", "2020-01-01T00:00:00Z"


@pytest.mark.parametrize("question_mark", ["", "?"])
def test_a_token_instead_of_a_key(
    azure: str,
    question_mark: str,
    audit: Audit,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there = audit(f"{azure}/replicas")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", question_mark + sas_token(NEVER, "rl"))
    assert audit(f"{azure}/replicas") == there
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", question_mark + sas_token(LONG_AGO, "rl"))
    code, out, err = audit(f"{azure}/replicas")
    assert (code, out) == (2, "")
    assert "does not let us in; look at AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN" in err
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", NOBODY)
    assert main(["audit", "--input", f"{azure}/replicas", "--debug"]) == 2
    told = capsys.readouterr().err
    assert "sig=…" in told
    assert sas_token(LONG_AGO, "rl").rpartition("=")[2] not in told


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


@pytest.mark.parametrize("store", ["azure", "google"])
@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (Rule(403, "AuthenticationFailed"), "does not let us in; look at"),
        (Rule(403, "AccessDenied", refused=WRITES), "the lake cannot be written (the store at"),
    ],
)
def test_what_a_store_refuses_is_one_sentence(
    store: str,
    rule: Rule,
    sentence: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lake = f"{request.getfixturevalue(store)}/new"
    at, target = (
        (azure_at, os.environ["AZURITE_BLOB_STORAGE_URL"])
        if store == "azure"
        else (google_at, os.environ["CLOUD_STORAGE_EMULATOR_ENDPOINT"])
    )
    with gate(target, rule) as address:
        for name, value in at(address).items():
            monkeypatch.setenv(name, value)
        code = main(["run", "--input", str(ISOLATED), "--lake", lake])
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert sentence in told.err
    assert "<" not in told.err
    assert WELL_KNOWN not in told.err
    assert told.err.count("\n") == 1
