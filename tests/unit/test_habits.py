"""What people are used to from other tools: completion, a manual, colours, readable tables."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kraftlog.cli import build_parser, main
from kraftlog.commands.command import every_parser, own_arguments
from kraftlog.commands.listing import readable_row
from kraftlog.commands.manual import SHELLS, manual_page
from tests.bare import ROOT

QUORUM = str(ROOT / "examples" / "quorum")
ESCAPE = "\x1b["


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_takes_its_script(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = printed(capsys, "completion", shell)
    for parser in every_parser(build_parser()):
        assert parser.prog.split()[-1] in script
        for action in own_arguments(parser):
            if parser.prog != "kraftlog":
                assert all(one.lstrip("-") in script for one in action.option_strings)
    path = tmp_path / "script"
    path.write_text(script)
    if program := shutil.which(shell):
        subprocess.run([program, "-n", str(path)], check=True, capture_output=True)


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kraftlog.bash"
    path.write_text(printed(capsys, "completion", "bash"))

    def completed(*words: str) -> set[str]:
        line = " ".join(f"'{one}'" for one in words)
        code = (
            f"source {path}; COMP_WORDS=(kraftlog {line}); COMP_CWORD={len(words)};"
            "_shtab_kraftlog; printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    assert completed("rec") == {"records", "recover"}
    assert completed("plan", "re") >= {"restart", "replicas"}
    assert "--from-offset" in completed("records", "--f")
    assert completed("records", "--format", "") >= {"table", "json"}
    assert completed("audit", "--fail-on", "") >= {"critical", "warning", "info", "never"}
    assert completed("records", "--type", "TOPIC_") >= {"TOPIC_RECORD"}
    assert completed("state", "--type", "LEADER_C") >= {"LEADER_CHANGE"}


def test_no_shell_of_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", "ksh"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_manual_has_every_command_and_option() -> None:
    page = manual_page(build_parser())
    plain = page.replace(r"\-", "-").replace(r"\e", "\\")
    for parser in every_parser(build_parser()):
        if parser.prog != "kraftlog":
            assert f".SS {parser.prog}\n" in plain
        for action in own_arguments(parser):
            assert all(rf"\fB{one}" in plain for one in action.option_strings[-1:])
    assert ".SH EXIT CODES" in plain
    assert r"\fBCOMMAND" not in page
    assert page.isascii()
    # No line of text begins with what roff takes for a request of its own.
    known = {"TH", "SH", "SS", "PP", "TP", "nf", "fi", "br", "B"}
    assert set(re.findall(r"^[.'](\S+)", page, re.MULTILINE)) == known


def test_man_shows_it() -> None:
    if shutil.which("groff") is None:
        pytest.skip("there is no groff here")
    page = manual_page(build_parser()).encode()
    command = ["groff", "-man", "-Tutf8", "-ww"]
    done = subprocess.run(command, input=page, capture_output=True, check=True)
    assert done.stderr == b""
    assert "kraftlog" in done.stdout.decode()


def test_exit_codes_stand_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out.partition("exit codes:")[2]
    assert [line.split()[0] for line in told.splitlines() if line.strip()] == ["0", "1", "2", "130"]


@pytest.mark.parametrize("words", [["--color", "always"], ["--color=always"]])
def test_colours_may_stand_anywhere(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["audit", "--input", QUORUM]
    plain = printed(capsys, *command)
    assert ESCAPE not in plain
    for line in ([*words, *command], [*command, *words], ["audit", *words, *command[1:]]):
        coloured = printed(capsys, *line)
        assert ESCAPE in coloured
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert ESCAPE not in printed(capsys, *command, "--color", "never")
    assert ESCAPE not in printed(capsys, *command), "it holds for one command only"
    assert ESCAPE not in printed(capsys, *command, *words, "--format", "json")


@pytest.mark.parametrize("words", [["--color", "sometimes"], ["--color"], ["--color=x"]])
def test_colours_of_no_kind(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for line in ([*words, "records", QUORUM], ["records", QUORUM, *words]):
        with pytest.raises(SystemExit) as ended:
            main(line)
        assert ended.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("variables", "words", "coloured"),
    [
        ({}, [], True),
        ({"NO_COLOR": "1"}, [], False),
        ({}, ["--color", "never"], False),
        ({"NO_COLOR": "1"}, ["--color", "always"], True),
    ],
)
def test_on_a_terminal(variables: dict[str, str], words: list[str], coloured: bool) -> None:
    ours, theirs = pty.openpty()
    inherited = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    command = [sys.executable, "-m", "kraftlog", "audit", "--input", QUORUM, *words]
    environment = inherited | {"TERM": "xterm-256color"} | variables
    process = subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment, cwd=ROOT
    )
    os.close(theirs)
    text = b""
    try:
        while chunk := os.read(ours, 1 << 16):
            text += chunk
    except OSError:
        pass  # how Linux says that the other end has gone
    assert process.wait() == 0
    os.close(ours)
    # Colours, not the bold of a title.
    assert bool(re.search(rb"\x1b\[(?:\d+;)*3[0-7]m", text)) == coloured


def test_records_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["records", f"{QUORUM}/1", "--from-offset", "176", "--to-offset", "178"]
    table = printed(capsys, *words)
    assert "1/00000000000000000000.log" in table
    assert QUORUM not in table
    assert re.search(r"2026-11-21 00:57:\d\d\.\d{3}", table)
    rows = [json.loads(line) for line in printed(capsys, *words, "--format", "json").splitlines()]
    assert all(row["path"].startswith(QUORUM) for row in rows)
    assert all(isinstance(row["timestamp"], int) for row in rows)
    batches = printed(capsys, "batches", f"{QUORUM}/1")
    assert "2026-11-21 00:56:50.960" in batches


def test_a_range_that_holds_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ("--from-offset", "300", "--to-offset", "100"),
        ("--since", "2026-11-21T12:00:00Z", "--until", "2026-11-21T12:00:00Z"),
    ):
        assert main(["records", f"{QUORUM}/1", *words]) == 2
        assert f"nothing lies between {words[0]} and {words[2]}" in capsys.readouterr().err


def test_odd_times_and_places_stay() -> None:
    row = {"path": "/elsewhere/x.log", "timestamp": -1, "max_timestamp": 1 << 62, "offset": 5}
    shown = readable_row({"/quorum/1": "1"}, row)
    assert shown == {**row, "timestamp": None}
    assert readable_row({}, {"fault": "torn_batch"}) == {"fault": "torn_batch"}
    assert readable_row({}, {"timestamp": 999})["timestamp"] == "1970-01-01 00:00:00.999"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["audit", "replicas", "more"],
            "kraftlog: unrecognized arguments: replicas more (a folder of replicas is named by "
            "--input replicas); see 'kraftlog audit --help'\n",
        ),
        (
            ["audit", "--foo"],
            "kraftlog: unrecognized arguments: --foo; see 'kraftlog audit --help'\n",
        ),
        (
            ["plan", "restart", "--input", "replicas", "--foo"],
            "kraftlog: unrecognized arguments: --foo; see 'kraftlog plan restart --help'\n",
        ),
        (
            ["state", "replicas", "more"],
            "kraftlog: unrecognized arguments: more; see 'kraftlog state --help'\n",
        ),
    ],
)
def test_a_folder_that_is_not_named(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert capsys.readouterr().err == said
