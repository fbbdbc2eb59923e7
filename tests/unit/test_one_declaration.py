"""Each kind of thing is declared once: a block of text in one place of a copy of the package makes
a new one appear wherever its kind is told.

The copy runs in a process of its own. `WHERE` says which file a kind is declared in.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

from kraftlog.audit.catalogue import CATALOGUE
from tests.documents import ROOT

NAMES = [one.name for one in CATALOGUE]
QUORUM = ROOT / "examples" / "quorum"


def copy_with(folder: Path, file: str, block: str) -> Path:
    """A copy of the package with a block of text more at the end of one file."""
    for name in ("kraftlog", "schemas", "conf"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "kraftlog" / file
    path.write_text(f"{path.read_text()}\n\n{dedent(block).strip()}\n")
    return folder


def told_by(copy: Path, program: str) -> Any:
    """What a program that imports the copy prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)],
        cwd=copy, env={"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "PATH": ""},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_check(tmp_path: Path) -> None:
    block = '''
        @check(
            "made_up", "warning", "log", "nobody", "no log is at hand",
            action="rebuild", over=coverage.logs, after="batch_crc_valid",
            meaning="Made-up meaning.", advice="Made-up advice.",
        )
        def made_up(quorum: Quorum) -> Iterator[BadRow]:
            for log in quorum.logs:
                if log.evidence.segments:
                    yield BadRow(log.label, "a made-up finding")
    '''  # fmt: skip
    copy = copy_with(tmp_path, "audit/log_checks.py", block)
    program = f"""
        import contextlib, io, json
        from pathlib import Path
        from kraftlog.audit.catalogue import CATALOGUE
        from kraftlog.cli import main
        from kraftlog.contracts.suites import audit_suite
        from kraftlog.reference.pages import PAGES

        def audit(root, *words):
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                code = main(["audit", "--input", root, "--format", "json", *words])
            rows = [json.loads(line) for line in said.getvalue().splitlines()]
            return code, [row for row in rows if row.get("check") == "made_up"]

        empty = Path("empty/1/__cluster_metadata-0")
        empty.mkdir(parents=True)
        (empty / "quorum-state").write_text("{{}}")
        print(json.dumps({{
            "found": audit({str(QUORUM)!r}, "--fail-on", "warning", "--report", "page.html"),
            "of_nothing": audit("empty"),
            "order": [one.name for one in CATALOGUE],
            "page": Path("page.html").read_text(),
            "checks": PAGES["reference/checks.md"](),
            "auditor": PAGES["auditor.md"](),
            "contracts": [one.arguments["column"] for one in audit_suite().contracts],
        }}))
    """
    told = told_by(copy, program)
    assert told["order"] == [NAMES[0], "made_up", *NAMES[1:]]
    code, found = told["found"]
    assert code == 1
    assert {row["message"] for row in found} == {"a made-up finding"}
    assert len(found) == len(list(QUORUM.glob("*/__cluster_metadata-0"))) > 1
    assert {row["severity"] for row in found} == {"warning"}
    (nothing,) = told["of_nothing"][1]
    assert (nothing["result"], nothing["message"]) == ("skipped", "no log segment is at hand")
    assert "Made-up meaning." in told["page"]
    # The group of the page that its action names.
    assert 'id="do-rebuild"' in told["page"]
    assert "| [`made_up`](../auditor.md#made_up) | warning | no log is at hand |" in told["checks"]
    assert "#### made_up" in told["auditor"]
    assert "Made-up advice." in told["auditor"]
    assert "made_up" in told["contracts"]
