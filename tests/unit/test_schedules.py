"""The examples of scheduled runs and of alerts, each by a reader of what it is written for, and
every command in them by kraftlog's own parsers.

Airflow itself is 130 packages: `make test-schedules` has it run the DAG. Here the DAG runs with
a stand-in for the names that it imports.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import kubernetes_validate
import promql_parser
import pytest
import yaml
from cronsim import CronSim, CronSimError

from kraftlog import __version__
from kraftlog.cli import build_parser
from kraftlog.report.exposition import METRICS
from tests.bare import ROOT

FOLDER = ROOT / "examples" / "schedules"
KUBERNETES = [f"1.{minor}" for minor in range(25, 38)]
CRON_LINE = re.compile(r"((?:\S+ ){4}\S+) (\S+) (.+)")


def understood(command: str) -> None:
    """A command of kraftlog's that its parsers take."""
    words = shlex.split(command)
    assert words[0].endswith("kraftlog"), command
    assert build_parser().parse_args(words[1:]).command


def cron_lines() -> Iterator[tuple[str, str, str]]:
    """When, as whom, and what, of every line of the crontab."""
    for line in (FOLDER / "crontab").read_text().splitlines():
        if line and not line.startswith("#") and not re.match(r"[A-Z]+=", line):
            found = CRON_LINE.fullmatch(line)
            assert found, line
            yield found[1], found[2], found[3]


def test_the_crontab() -> None:
    lines = list(cron_lines())
    assert len(lines) == 2
    start = datetime(2026, 11, 22, tzinfo=UTC)  # a Sunday
    hourly, weekly = (CronSim(when, start) for when, _, _ in lines)
    assert [next(hourly) - start for _ in range(2)] == [
        timedelta(minutes=15), timedelta(hours=1, minutes=15)
    ]  # fmt: skip
    assert [next(weekly) - start for _ in range(2)] == [
        timedelta(hours=3, minutes=45), timedelta(days=7, hours=3, minutes=45)
    ]  # fmt: skip
    for _, user, command in lines:
        assert user == "audit"
        # cron takes a % for the end of the line.
        assert "%" not in command
        understood(command.partition(" > ")[0])
    with pytest.raises(CronSimError):
        CronSim("75 * * * *", start)


def test_cron_mails_only_where_something_was_found(tmp_path: Path) -> None:
    """The line with a kraftlog that ends with a code: what it prints is what cron mails."""
    _, _, command = next(cron_lines())
    for code, mailed in ((0, ""), (1, "a finding\n"), (2, "a finding\n")):
        fake = tmp_path / "kraftlog"
        fake.write_text(f"#!/bin/sh\necho a finding\nexit {code}\n")
        fake.chmod(0o755)
        line = command.replace("/opt/kraftlog/bin/kraftlog", str(fake))
        line = line.replace("/audit/last.txt", str(tmp_path / "last.txt"))
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == (mailed, "")


def kubernetes() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_knows_every_field(version: str) -> None:
    for one in kubernetes():
        kubernetes_validate.validate(one, version, strict=True)
    wrong = kubernetes()[0]
    wrong["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolitics"] = "Never"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_the_cron_job_says_what_kraftlog_takes() -> None:
    spec = kubernetes()[0]["spec"]
    assert list(CronSim(spec["schedule"], datetime(2026, 1, 1, tzinfo=UTC)).explain())
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    understood(shlex.join(["kraftlog", *container["args"]]))
    assert container["image"] == f"kraftlog:{__version__}"
    mounted = {one["name"] for one in container["volumeMounts"]}
    assert mounted == {one["name"] for one in pod["volumes"]}
    # It runs as whom the image makes.
    made = (ROOT / "Dockerfile").read_text()
    assert f"USER {pod['securityContext']['runAsUser']}\n" in made


class Task:
    """A task of the stand-in, which knows what comes after it."""

    def __init__(self, command: str) -> None:
        self.command, self.after, self.is_teardown = command, list[Task](), False

    def __rshift__(self, other: "Task") -> "Task":
        self.after.append(other)
        return other


def test_the_dag_makes_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    made, given = list[Task](), dict[str, Any]()

    def bash(function: Callable[[], str] | None = None, **_: Any) -> Any:
        def decorated(function: Callable[[], str]) -> Callable[[], Task]:
            def called() -> Task:
                made.append(Task(function()))
                return made[-1]

            return called

        return decorated if function is None else decorated(function)

    def teardown(function: Callable[[], Task]) -> Callable[[], Task]:
        def called() -> Task:
            one = function()
            one.is_teardown = True
            return one

        return called

    def dag(**options: Any) -> Callable[[Callable[[], None]], Callable[[], None]]:
        given.update(options)
        return lambda function: function

    sdk = ModuleType("airflow.sdk")
    sdk.dag, sdk.teardown, sdk.task = dag, teardown, type("task", (), {"bash": staticmethod(bash)})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "airflow", ModuleType("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.sdk", sdk)
    path = FOLDER / "airflow_dag.py"
    exec(compile(path.read_text(), path.name, "exec"), {})
    run, upkeep = made
    assert run.after == [upkeep]
    # Airflow takes the state of a run from the last tasks that are no teardown.
    assert [one.is_teardown for one in made] == [False, True]
    for one in made:
        understood(one.command)
    assert given["max_active_runs"] == 1
    assert CronSim(given["schedule"], given["start_date"])


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_is_written(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    promql_parser.parse(rule["expr"])
    labels = {one.name: set(one.labels) for one in METRICS}
    asked = re.findall(r"(kraftlog_\w+)(?:\{(.*?)\})?", rule["expr"])
    assert asked
    for name, matchers in asked:
        assert set(re.findall(r"(\w+)[=!]", matchers)) <= labels[name]
    used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    assert used <= set().union(*(labels[name] for name, _ in asked))
    if "for" in rule:
        assert promql_parser.parse(f"rate(up[{rule['for']}])")


def test_every_metric_that_says_trouble_is_watched() -> None:
    watched = " ".join(rule["expr"] for rule in rules())
    for name in ("findings", "lag_offsets", "snapshot_timestamp_seconds", "voters_missing",
                 "checks_incomplete", "audit_timestamp_seconds"):  # fmt: skip
        assert f"kraftlog_{name}" in watched


def test_the_parser_of_alerts_refuses() -> None:
    with pytest.raises(ValueError):
        promql_parser.parse("kraftlog_findings{severity=} > ")


def test_the_dockerfile_follows_the_rules() -> None:
    hadolint = str(Path(sys.executable).parent / "hadolint")
    done = subprocess.run([hadolint, str(ROOT / "Dockerfile")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    text = (ROOT / "Dockerfile").read_text()
    assert f"kraftlog:{__version__} ." in text
    # All that its steps name is there, and goes to the daemon.
    sent = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert all((ROOT / one).exists() for one in sent)
    assert {"requirements.lock", "requirements-build.lock", "pyproject.toml", "README.md"} <= sent
