"""`python -m tests.schedules` (`make test-schedules`): the examples by the programs that they are
for. Airflow runs the DAG with a kraftlog that ends well and with one that does not, Prometheus' parser reads the alert rules where there is a
Go, and the image is built where a Docker daemon is; elsewhere its steps are done in a clean folder.

What they need is fetched into .schedules/ by pip and go, once.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

from tests.bare import ROOT, run

HERE = Path(__file__).parent
TOOLS = ROOT / ".schedules"
EXAMPLES = ROOT / "examples" / "schedules"
DAGS = """
import sys
from airflow.dag_processing.dagbag import DagBag

bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
(dag,) = bag.dags.values()
assert {one.task_id: sorted(one.downstream_task_ids) for one in dag.tasks} == {
    "run": ["upkeep"], "upkeep": []
}
ended = dag.test()
states = {one.task_id: str(one.state) for one in ended.get_task_instances()}
assert (str(ended.state), states) == (sys.argv[2], {"run": sys.argv[2], "upkeep": "success"})
"""


def main() -> int:
    """1 where one of them refuses what is written for it."""
    results = {"Airflow": airflow(), "Prometheus": prometheus(), "image": image()}
    for name, result in results.items():
        print(f"{name:10} {result}")
    return int(any(one.startswith("refused") for one in results.values()))


def airflow() -> str:
    """The DAG, as a scheduler runs it: its state is that of the run."""
    folder = TOOLS / "airflow"
    python = folder / "bin" / "python"
    if not (folder / ".stamp").exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "-r"]
        subprocess.run([*pip, str(HERE / "requirements.txt")], check=True)
        (folder / ".stamp").touch()
    home = {"AIRFLOW_HOME": str(folder / "home"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    run([str(python), "-m", "airflow", "db", "migrate"], TOOLS, **home)
    for code, state in ((0, "success"), (1, "failed")):
        dags = folder / state
        dags.mkdir(exist_ok=True)
        fake = dags / "kraftlog"
        fake.write_text(f'#!/bin/sh\n[ "$1" = lake ] || exit {code}\n')
        fake.chmod(0o755)
        text = (EXAMPLES / "airflow_dag.py").read_text()
        (dags / "dag.py").write_text(text.replace("/opt/kraftlog/bin/kraftlog", str(fake)))
        words = [str(python), "-c", DAGS, str(dags), state]
        done = run(words, TOOLS, **home, AIRFLOW__CORE__DAGS_FOLDER=str(dags))
        if done.returncode:
            return f"refused the DAG:\n{done.stderr}"
    return "runs the DAG, whose state is that of the run"


def prometheus() -> str:
    """The alert rules, as Prometheus reads them; and that it refuses others."""
    if shutil.which("go") is None:
        return "not tried: there is no go here"
    folder = TOOLS / "rules"
    folder.mkdir(parents=True, exist_ok=True)
    build = ["go", "build", "-o", str(folder / "rules"), "."]
    subprocess.run(build, cwd=HERE / "rules", check=True)
    rules = EXAMPLES / "alerts.yaml"
    broken = folder / "broken.yaml"
    broken.write_text(rules.read_text().replace("> 0", "> > 0", 1), encoding="utf-8")
    if run([str(folder / "rules"), str(broken)], folder).returncode == 0:
        return "refused nothing, not even a broken rule"
    done = run([str(folder / "rules"), str(rules)], folder)
    return f"reads {done.stdout.strip()}" if done.returncode == 0 else f"refused:\n{done.stderr}"


def image() -> str:
    """The image, or what its steps make of a clean folder."""
    docker = shutil.which("docker")
    if docker and subprocess.run([docker, "info"], capture_output=True).returncode == 0:
        name = "kraftlog-test"
        built = subprocess.run([docker, "build", "--tag", name, "."], cwd=ROOT)
        if built.returncode:
            return "refused: it cannot be built"
        quorum = f"{ROOT / 'examples' / 'quorum'}:/quorum:ro"
        words = [docker, "run", "--rm", "-v", quorum, name, "run", "--input", "/quorum"]
        done = subprocess.run([*words, "--lake", "/tmp/lake"])
        return "is built, and runs" if done.returncode == 0 else "refused: it does not run"
    TOOLS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS) as folder:
        return steps(Path(folder))


def steps(folder: Path) -> str:
    """The steps that make no system: those of apt-get are left to a daemon."""
    source, opt = folder / "src", folder / "opt" / "kraftlog"
    source.mkdir()
    ignored = [one for one in (ROOT / ".dockerignore").read_text().splitlines() if one[:1] == "!"]
    for name in (one.removeprefix("!") for one in ignored):
        whole = ROOT / name
        copy = shutil.copytree if whole.is_dir() else shutil.copy
        copy(whole, source / name)
    opt.parent.mkdir()
    for instruction, words in instructions((ROOT / "Dockerfile").read_text()):
        if instruction == "RUN" and "apt-get" not in words:
            line = words.replace("/opt/kraftlog", str(opt)).replace(
                "&& python ", f"&& {sys.executable} "
            )
            done = run(["sh", "-ec", line], source)
            if done.returncode:
                return f"refused: {line}\n{done.stderr}"
        elif instruction == "ENTRYPOINT":
            program = str(opt / "bin" / words.strip('[]"'))
    quorum = str(ROOT / "examples" / "quorum")
    lake = str(folder / "lake")
    done = run([program, "run", "--input", quorum, "--lake", lake], folder, HOME=str(folder))
    if done.returncode or f"Page: {lake}/report.html" not in done.stdout:
        return f"refused: {shlex.join(done.args)}\n{done.stdout}{done.stderr}"
    return "its steps end in a kraftlog that runs (no Docker daemon here)"


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """A Dockerfile's instructions, continued lines joined."""
    plain = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    for line in plain.replace("\\\n", " ").splitlines():
        name, _, words = line.strip().partition(" ")
        if name:
            yield name, words


if __name__ == "__main__":
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    sys.exit(main())
