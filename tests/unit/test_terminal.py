"""What is printed: for people on a terminal, for grep, and for scripts."""

import io
import json
import re
import shlex
import shutil
import time
from pathlib import Path

import pytest

from kraftlog.cli import build_parser, main
from kraftlog.commands.command import every_parser
from kraftlog.pipeline import progress
from kraftlog.report.findings import print_findings
from kraftlog.report.judgement import Judged
from kraftlog.report.once import nodes_text, order_text
from kraftlog.report.printed_rows import print_rows
from tests.golden.cases import DATA
from tests.unit.report_pages import VERDICT, finding
from tests.unit.test_imports import ROOT, read_imports, started_with

ISOLATED = str(DATA / "isolated" / "replicas")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7])m")
CODES = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]")
TAIL = finding(
    "uncommitted_tail_diverged", "2", "warning", offset=176,
    message="it carries a tail that is told in many words " * 6,
    evidence={"who": "controller 2", "truncation_offset": 176},
)  # fmt: skip


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def rows(columns: int) -> list[dict[str, str]]:
    return [{f"column_{n}": "x" * 20 for n in range(columns)} for _ in range(2)]


@pytest.mark.parametrize("width", [60, 200])
def test_tables_fit_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out = Terminal()
    print_rows(rows(8), "table", out)
    lines = [CODES.sub("", line) for line in out.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    upright = width == 60
    assert (len(lines) == 2 * 9) is upright
    assert ("row 2" in out.getvalue()) is upright


def test_without_a_terminal_tables_are_wide_and_plain() -> None:
    out = io.StringIO()
    print_rows(rows(8), "table", out)
    header, first, _ = out.getvalue().splitlines()
    assert header.split() == [f"column_{n}" for n in range(8)]
    assert len(first.split()) == 8
    assert "\x1b" not in out.getvalue()


def test_upright_rows_are_numbered_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = io.StringIO()
    print_rows(rows(4) * 300, "table", out)
    numbers = [int(one) for one in re.findall(r"^row (\d+)", out.getvalue(), re.MULTILINE)]
    assert numbers == list(range(1, 601))


def test_the_widest_columns_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts go on below, at a space where they have one; characters of two cells count twice."""
    monkeypatch.setenv("COLUMNS", "90")
    out = io.StringIO()
    wide = {"id": "y" * 40, "count": 7, "said": "a leader that was elected later", "日": "日本" * 8}
    print_rows([wide, {"id": "z", "count": 1234, "said": None, "日": "日"}], "table", out)
    gap, said = "  ", "a leader that was elected "
    assert out.getvalue().splitlines() == [
        f"{'id':26}{gap}count{gap}{'said':26}{gap}日",
        f"{'y' * 26}{gap}    7{gap}{said}{gap}{'日本' * 6}日",
        f"{'y' * 14:26}{gap}     {gap}{'later':26}{gap}本日本",
        f"{'z':26}{gap} 1234{gap}{'-':26}{gap}日",
    ]


def test_colours_change_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for width in ("60", "200"):
        monkeypatch.setenv("COLUMNS", width)
        plain, coloured = io.StringIO(), Terminal()
        print_rows(rows(8), "table", plain)
        print_rows(rows(8), "table", coloured)
        assert "\x1b[1m" in coloured.getvalue()
        assert CODES.sub("", coloured.getvalue()) == plain.getvalue()


def test_json_is_one_object_a_line() -> None:
    out = io.StringIO()
    value = "a\nb\u2028\x1b[31m\ud800[bold]"
    print_rows([{"a": value}, {"a": None}], "json", out)
    assert [json.loads(line)["a"] for line in out.getvalue().split("\n")[:2]] == [value, None]
    assert out.getvalue().isascii()
    assert "\x1b" not in out.getvalue()


def test_markup_and_control_characters_of_an_input_do_nothing() -> None:
    out = io.StringIO()
    print_rows([{"a": "[bold]x[/bold] \x1b[31m \r\n"}], "table", out)
    assert "[bold]x[/bold] \ufffd[31m" in out.getvalue()
    assert "\x1b" not in out.getvalue()
    out = io.StringIO()
    hostile = finding("batch_crc_valid", "[red]\x1b]0;owned\x07", message="[/bold]\x1b[2J")
    print_findings(Judged(findings=[hostile]), "[/]\x1b", out)
    assert "\x1b" not in out.getvalue()
    assert "\x07" not in out.getvalue()
    assert "[/bold]" in out.getvalue()


def test_a_finding_is_one_line_for_grep() -> None:
    out = io.StringIO()
    print_findings(Judged(findings=[TAIL], verdict=VERDICT), out=out)
    question, todo, heading, line, verdict = out.getvalue().splitlines()
    assert question == "What must I do?"
    assert todo.startswith("  1. Note what a restart cuts, then restart: it carries a tail")
    assert len(todo) < 200
    assert heading == "Note what a restart cuts, then restart"
    assert line.startswith("  WARNING  uncommitted_tail_diverged [2] it carries a tail")
    assert len(line) > 250
    assert verdict.startswith("Controller 2 carries an uncommitted tail from offset 176")


def test_what_could_not_be_judged_is_told_once_for_each_reason() -> None:
    out = io.StringIO()
    gaps = [["a", "1: a hole"], ["b", "1: a hole"], ["c", "no copy of voter 2"]]
    verdict = VERDICT | {"not_judged": gaps, "verdict": "incomplete"}
    print_findings(Judged(verdict=verdict), out=out)
    assert out.getvalue().splitlines()[:2] == [
        "not judged: a, b: 1: a hole",
        "not judged: c: no copy of voter 2",
    ]


def test_a_finding_is_wrapped_beside_its_severity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    print_findings(Judged(findings=[TAIL], verdict=VERDICT), out=out)
    lines = [CODES.sub("", line) for line in out.getvalue().splitlines()]
    assert max(map(len, lines)) <= 60
    at = lines.index("Note what a restart cuts, then restart")
    assert lines[at + 2].startswith(" " * 11)
    assert COLOUR.search(out.getvalue())


def test_what_is_lost_stays_under_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    lost = [
        {"table": "topics", "change": "added", "count": 4, "names": [f"topic-{'x' * 20}-{n}" for n in range(4)]}
    ]  # fmt: skip
    row = {
        "replica": "2", "node_id": 2, "who": "controller 2", "role": "voter", "verdict": "loses",
        "reason": "cut", "lost_from": 176, "lost": lost, "needs": [], "order": 1,
    }  # fmt: skip
    print_findings(Judged(verdict=VERDICT, restart=[row]), out=out)
    lines = [CODES.sub("", line).rstrip() for line in out.getvalue().splitlines()]
    at = lines.index("  controller 2, from offset 176 on:")
    end = next(n for n, line in enumerate(lines) if line.startswith("  all of it"))
    assert end - at > 2
    assert all(re.match(r" {4}\S", line) for line in lines[at + 1 : end])


def test_what_is_lost_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer names it; the finding, complete for those who read it alone, is cut there."""
    names = "topics ghost-topic-a, ghost-topic-b; configs"
    main(["audit", "--input", ISOLATED])
    assert capsys.readouterr().out.count(names) == 1
    main(["audit", "--input", ISOLATED, "--format", "json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    tails = [row for row in rows if row.get("check") == "uncommitted_tail_diverged"]
    assert [names in row["message"] for row in tails] == [True, True]


@pytest.mark.parametrize("name", ["kafka-12.example.com", "of c. k: 12; (old)", "long" * 50])
def test_what_must_be_done_is_a_sentence_whatever_folders_are_called(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ISOLATED, tmp_path / "in")
    (tmp_path / "in" / "12").rename(tmp_path / "in" / name)
    main(["audit", "--input", str(tmp_path / "in")])
    told = f"Controller 2 and broker 12 ({name}) carry an uncommitted tail from offset 176 on, which a restart cuts."
    assert f"Note what a restart cuts, then restart: {told}\n" in capsys.readouterr().out


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    print_findings(Judged(findings=[TAIL], verdict=VERDICT), out=out)
    assert not COLOUR.search(out.getvalue())


# --- progress -----------------------------------------------------------------------------------


def test_a_finished_step_is_one_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.step("decode"):
        pass
    told = capsys.readouterr()
    assert re.fullmatch(r"decode: \d+\.\d s\n", told.err)
    assert not told.out


def test_a_long_step_says_that_it_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_PLAIN_SECONDS", 0.01)
    with progress.step("decode"):
        time.sleep(0.2)
    assert "decode … 0 s" in capsys.readouterr().err.splitlines()[0]


def test_waiting_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.waiting("audit"):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_step_that_breaks_ends_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError), progress.step("decode"):
        raise ValueError
    assert not capsys.readouterr().err


# --- commands -----------------------------------------------------------------------------------


def test_commands_start_without_what_only_the_page_needs() -> None:
    imports = read_imports(ROOT)
    of_the_page = {"jinja2", "markupsafe", "vl_convert"}
    for path in sorted((ROOT / "kraftlog" / "commands").glob("*.py")):
        started = started_with(f"kraftlog.commands.{path.stem}", imports)
        assert not {name.split(".")[0] for name in started} & of_the_page, path.stem
    assert "rich" in started_with("kraftlog.commands.audit", imports), "imports are followed"
    assert "jinja2" in started_with("kraftlog.report.html_page", imports), "the page's are known"


def test_every_command_has_examples_that_parse() -> None:
    parser = build_parser()
    found = {one.prog.removeprefix("kraftlog "): one for one in every_parser(parser)}
    assert "examples" in (found.pop("kraftlog").epilog or "")
    assert {"run", "audit", "records", "plan truncation"} <= set(found)
    for name, command in found.items():
        assert command.epilog, name
        lines = re.findall(r"^  kraftlog ([^|#\n]+?)(?:  .*)?(?:\|.*)?$", command.epilog, re.M)
        assert lines, name
        for line in lines:
            words = shlex.split(line)
            parser.parse_args(words[: words.index(">")] if ">" in words else words)
        assert "kraftlog" in command.format_help().split("example", 1)[1], name


def test_an_audit_as_json_says_nothing_else_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "new" / "report.html"
    arguments = ["audit", "--input", ISOLATED, "--format", "json", "--report", str(page)]
    assert main(arguments) == 0
    told = capsys.readouterr()
    assert len([json.loads(line) for line in told.out.splitlines()]) > 50
    assert told.err == f"page: {page}\n"
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [one.name for one in page.parent.iterdir()] == ["report.html"]


def test_a_page_that_was_asked_for_and_is_missing_fails_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    report = str(tmp_path / "file" / "report.html")
    assert main(["audit", "--input", ISOLATED, "--report", report]) == 2
    told = capsys.readouterr()
    assert "uncommitted tail" in told.out, "the result is not lost"
    assert "could not be written" in told.err


def test_pages_below_an_input_or_of_many_quorums_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["audit", "--input", ISOLATED, "--report", f"{ISOLATED}/report.html"]) == 2
    assert "lies below the input" in capsys.readouterr().err
    assert main(["audit", "--each", ISOLATED, "--report", "r.html"]) == 2
    assert "keeps no lake and no files" in capsys.readouterr().err


def test_nodes_are_told_in_their_order_whatever_their_folders_are_called() -> None:
    named = ["controller 2 (kafka-b)", "controller 1", "controller 3"]
    assert order_text(named) == "controllers 2 (kafka-b) → 1 → 3"
    assert order_text(["broker 12 (old)"]) == "broker 12 (old)"
    mixed = ["controller 4", "controller 5", "broker 12", "replica a"]
    assert order_text(mixed) == "controllers 4 → 5, then broker 12, then replica a"


def test_nodes_stand_in_order_whatever_their_folders_are_called() -> None:
    hosts = ["broker 12", "controller 3", "controller 1 (kafka-b)", "controller 11", "replica x"]
    assert nodes_text(hosts) == "controllers 1 (kafka-b), 3 and 11, broker 12, replica x"
    assert nodes_text(["broker 12", "controller 2 (1)"]) == "controller 2 (1) and broker 12"


def test_of_a_crowd_of_brokers_nobody_reads_each_id() -> None:
    ids = [*range(100, 220), 300, 301, 303]
    names = ["controller 1", "controller 2", *(f"broker {one}" for one in ids)]
    told = "controllers 1 and 2, brokers 100 to 219, 300, 301 and 303"
    assert nodes_text(names) == told
    order = "controllers 1 → 2, then brokers 100 → … → 219 → 300 → 301 → 303"
    assert order_text(names) == order
    assert nodes_text([f"broker {one}" for one in range(1, 5)]) == "brokers 1, 2, 3 and 4"


def test_equal_findings_name_the_node_of_a_folder_that_is_called_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folders 1 and 2 were exchanged: 1 holds what node 2 has."""
    copies = tmp_path / "copies"
    for folder, node in {"1": "2", "2": "1", "3": "3", "11": "11", "12": "12"}.items():
        shutil.copytree(DATA / "isolated" / "replicas" / node, copies / folder)
    assert main(["audit", "--input", str(copies)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "uncommitted_tail_diverged [12, node 2 in 1] Controller 2 (1) and broker 12 carry" in out
    assert "controllers 1 (2) and 3: nothing is lost" in out
