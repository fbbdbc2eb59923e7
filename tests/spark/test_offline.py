"""Nothing that kraftlog does over files asks for the network: not the audit, the page or a run, not
Great Expectations, DuckDB or Spark's JVM below them. The kernel counts who tries.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bare import ROOT
from tests.lakes import CUT

Offline = Callable[..., "subprocess.CompletedProcess[str]"]
QUORUM = str(ROOT / "examples" / "quorum")
ELSEWHERE = ("192.0.2.1", "2001:db8::1", "example.org")
"""Addresses and a name of documents, where nobody is."""


@pytest.fixture
def offline() -> Offline:
    """Runs a command in a network of its own, which leads nowhere; ends with more than its own
    exit code where somebody has tried.
    """
    alone = ["unshare", "--net", "--map-root-user"]
    try:
        subprocess.run([*alone, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine gives nobody a network of their own")
    command = [*alone, sys.executable, "-m", "tests.deprived", "offline"]

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True)

    return run


@pytest.mark.parametrize("host", ELSEWHERE)
def test_who_tries_is_counted(offline: Offline, host: str) -> None:
    tried = offline("connect", host)
    assert tried.returncode == 1
    assert tried.stderr.rstrip() in ("1 times", "2 times")
    assert offline("connect", "127.0.0.1").stderr == "0 times\n"


def test_nothing_asks_for_the_network(offline: Offline, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    for words in (
        ["audit", "--input", QUORUM, "--report", str(tmp_path / "page.html")],
        ["run", "--input", QUORUM, "--lake", lake, *CUT],
        ["run", "--input", QUORUM, "--lake", lake, "--verify"],
        ["sql", "SHOW TABLES", "--lake", lake],
        ["lake", "check", "--lake", lake],
        ["plan", "restart", "--input", QUORUM],
    ):
        done = offline(*words)
        assert done.returncode == 0, done.stderr
        assert done.stdout
