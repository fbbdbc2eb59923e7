"""Runs tests once per change, each in a fork of a process that has imported and collected all.

`record` runs every test once and writes which lines each of them reaches, and how long it takes;
`judge` reads changes from stdin and tells on stdout, a JSON line each, which test failed, if any.
Only tests that reach a changed line are run: first those that saw other changes of the function,
then one of each kind, then the rest, until one fails or the tests' own time is up: what they cost
without any change, on the processor, whatever else the machine does. A change has lived when all of
them have been run; when time was up before, it is open, not lived.
A fork puts the changed code into the function that is there, wherever that is already held, and
into the functions that it has made by then; it empties the caches, which may hold what the code
made before.
"""

import functools
import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TextIO

import coverage
import pytest
from hypothesis import Phase, settings

from kraftlog.audit.check import Check
from tests.mutants.changes import Change, changes
from tests.mutants.rooms import CHOSEN, ROOMS

ARGUMENTS = ["-q", "--tb=no", "-k", CHOSEN]
ARGUMENTS += [f"-pno:{one}" for one in ("cacheprovider", "xdist")]
KILLED, TIMED_OUT, LIVED, UNREACHED = "killed", "timeout", "lived", "unreached"
OPEN = "open"
MEMORY = 5 << 30
CLEARED = ("tests.", *(f"kraftlog.{room}." for room in ROOMS))


class Recorder:
    """A plugin of pytest: which test, and which fixture that several tests share, runs which line.

    Caches are emptied before each test, or only the first that asks would reach what fills them.
    Tests that trace do not, as only one can.
    """

    def __init__(self) -> None:
        self.coverage = coverage.Coverage(
            data_file=None, include=[f"kraftlog/{room}/*" for room in ROOMS], config_file=False
        )
        self.coverage.start()
        sys.settrace = lambda _: None
        self.seconds: Counter[str] = Counter()
        self.fixtures: dict[str, list[str]] = {}
        self.failed: set[str] = set()
        self.test = ""
        self.caches: list[Callable[[], None]] = []

    def pytest_collection_finish(self) -> None:
        """Find the caches of what has been imported."""
        self.caches = _caches()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """What a test runs itself."""
        for clear in self.caches:
            clear()
        self.fixtures[item.nodeid] = [_label(one) for one in _shared(item)]
        shared = sum(self.seconds[one] for one in self.fixtures[item.nodeid])
        began = time.process_time()
        self.test = item.nodeid
        self.coverage.switch_context(self.test)
        yield
        self.test = ""
        self.coverage.switch_context(self.test)
        now = sum(self.seconds[one] for one in self.fixtures[item.nodeid])
        self.seconds[item.nodeid] = time.process_time() - began - now + shared

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[object]:
        """What a fixture runs that several tests share."""
        if fixturedef.scope == "function":
            return (yield)
        began = time.process_time()
        self.coverage.switch_context(_label(fixturedef))
        value = yield
        self.coverage.switch_context(self.test)
        self.seconds[_label(fixturedef)] += time.process_time() - began
        return value

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what fails without any change."""
        if report.failed or report.skipped:
            self.failed.add(report.nodeid)

    def write(self, folder: Path) -> None:
        """A file for each file of tests."""
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {path: data.contexts_by_lineno(path) for path in data.measured_files()}
        for file in {one.split("::")[0] for one in self.fixtures}:
            (folder / f"{file.replace('/', '.')}.json").write_text(
                json.dumps(self._of(file, lines))
            )

    def _of(self, file: str, lines: dict[str, dict[int, list[str]]]) -> dict[str, Any]:
        names: dict[str, int] = {}
        reached: dict[str, dict[int, list[int]]] = {}
        for path, by_line in lines.items():
            for line, contexts in by_line.items():
                own = [one for one in contexts if not one or file in one]
                if own:
                    told = reached.setdefault(path.removeprefix(f"{Path.cwd()}/"), {})
                    told[line] = [names.setdefault(one, len(names)) for one in own]
        return {
            "seconds": {one: spent for one, spent in self.seconds.items() if file in one},
            "fixtures": {one: used for one, used in self.fixtures.items() if file in one},
            "failed": sorted(one for one in self.failed if file in one),
            "names": list(names),
            "lines": reached,
        }


def _caches() -> list[Callable[[], None]]:
    return [
        one.cache_clear
        for one in gc.get_objects()
        if isinstance(one, functools._lru_cache_wrapper)
        and str(getattr(one, "__module__", "")).startswith(CLEARED)
    ]


def _shared(item: pytest.Item) -> list[Any]:
    found = getattr(item, "_fixtureinfo", None)
    ones = found.name2fixturedefs.values() if found else ()
    return [one[-1] for one in ones if one[-1].scope != "function"]


def _label(fixturedef: Any) -> str:
    return f"fixture {fixturedef.baseid} {fixturedef.argname}"


class Reach:
    """Which tests reach a line, and what each costs."""

    def __init__(self, records: Sequence[dict[str, Any]]) -> None:
        self.records = records
        self.failed = {one for told in records for one in told["failed"]}
        self.users: dict[str, list[str]] = {}
        self.seconds: dict[str, float] = {}
        self.sharing: set[str] = set()
        self.siblings: dict[tuple[str, str], list[str]] = {}
        for told in records:
            for test, fixtures in told["fixtures"].items():
                for fixture in fixtures:
                    self.users.setdefault(fixture, []).append(test)
                costs = [told["seconds"].get(one, 0.0) for one in (test, *fixtures)]
                self.seconds[test] = sum(costs)
                if fixtures:
                    self.sharing.add(test)
                    self.siblings.setdefault(_case(test), []).append(test)

    def cost(self, test: str) -> float:
        """The seconds of a test, with what it may have got from one before it."""
        if test not in self.sharing:
            return self.seconds[test]
        return max(self.seconds[one] for one in self.siblings[_case(test)])

    def tests(self, change: Change) -> tuple[set[str], bool]:
        """The tests that reach a change, and whether it is reached while modules are imported."""
        contexts = {
            told["names"][one]
            for told in self.records
            for line in change.lines
            for one in told["lines"].get(change.path, {}).get(str(line), ())
        }
        tests = {one for one in contexts if one in self.seconds}
        for one in contexts:
            tests |= {*self.users.get(one, ()), *self.siblings.get(_case(one), ())}
        return tests - self.failed, "" in contexts


def _words(path: str) -> set[str]:
    """What the names of tests hold that have to do with a module."""
    module = path.removesuffix(".py").replace("/", ".")
    held = vars(sys.modules[module]).values() if module in sys.modules else ()
    checks = {one.name for one in held if isinstance(one, Check)}
    return checks | {f"test_{module.rpartition('.')[2]}.py"}


def _case(test: str) -> tuple[str, str]:
    """What tests of one file that share a fixture may have asked it for, and only one got made."""
    return test.split("::")[0], test.partition("[")[2]


class Judge:
    """A plugin of pytest: a fork for each change, which runs the tests that reach it."""

    def __init__(
        self, root: Path, keys: Sequence[str], reach: Reach, most: float, told: TextIO
    ) -> None:
        self.root, self.keys, self.reach, self.most, self.told = root, keys, reach, most, told
        self.is_child = False
        self.killers: Counter[tuple[str, str]] = Counter()
        self.slow: set[str] = set()
        self.items: dict[str, pytest.Item] = {}
        self.caches: list[Callable[[], None]] = []

    def pytest_collection(self) -> None:
        """No example is kept, as what one change has found must not help against the next."""
        base = settings.get_profile("kraftlog")
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", base, database=None, phases=phases, derandomize=True)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """True in the parent, when all is done; None in a child, whose tests pytest runs."""
        self.items = {one.nodeid: one for one in session.items}
        for path in {one.split(" ", 1)[0] for one in self.keys}:
            importlib.import_module(path.removesuffix(".py").replace("/", "."))
        gc.unfreeze()  # what the tests froze is not told
        here = _functions(self.root)
        functions = {(_file(one, self.root), one.__code__.co_qualname): one for one in here}
        made: dict[int, list[FunctionType]] = {}
        for one in here:
            made.setdefault(id(one.__code__), []).append(one)
        self.caches = _caches()
        gc.freeze()
        paths = sorted({one.split(" ", 1)[0] for one in self.keys})
        wanted = set(self.keys)
        for path in paths:
            for change in changes(Path(path), self.root):
                if change.key in wanted:
                    self._judge(session, change, functions, made)
                    if self.is_child:
                        return None
        killers = sorted({by for _, by in self.killers if by})
        # What took too long is asked alone: another test may have paid for what it needs.
        for asked in (killers, *([one] for one in sorted(self.slow))):
            while asked:
                status, by, _ = self._run(session, asked, lambda: None)
                if self.is_child:
                    return None
                if not status:
                    break
                print(json.dumps({"false": by}), file=self.told, flush=True)
                asked.remove(by)
        return True

    def _judge(
        self,
        session: pytest.Session,
        change: Change,
        functions: dict[tuple[str, str], FunctionType],
        made: dict[int, list[FunctionType]],
    ) -> None:
        found, is_import = self.reach.tests(change)
        function = functions.get((change.path, change.function))
        here = [one for one in found if one in self.items]
        left = self._order(change, here)
        began, fate, by, used = time.monotonic(), UNREACHED, "", 0.0
        if left and function is not None:
            code = change.code()
            status, by, used = self._run(session, left, lambda: _put(function, code, made))
            if self.is_child:
                return
            fate = TIMED_OUT if status < 0 else KILLED if status else LIVED
            if fate == LIVED and len(left) < len(here):
                fate = OPEN
        if fate == TIMED_OUT:
            self.slow.add(by)
        if fate == KILLED:
            self.killers[change.path + change.function, by] += 1
            self.killers[change.path, by] += 1
        old, new = change.difference()
        row = {
            "key": change.key, "line": min(change.lines), "old": old, "new": new, "fate": fate,
            "by": by, "tests": len(found), "run": len(left), "most": self.most, "import": is_import,
            "seconds": round(time.monotonic() - began, 1), "cpu": round(used, 1),
        }  # fmt: skip
        print(json.dumps(row), file=self.told, flush=True)

    def _order(self, change: Change, tests: list[str]) -> list[str]:
        """Those that are likely to see it first: that saw others near it, or have the module's name
        or one of its checks' in their own; then one of each function of tests, and all others; of
        each the quick ones, as far as time allows.
        """

        words = _words(change.path)
        kinds: Counter[str] = Counter()
        places: dict[str, tuple[Any, ...]] = {}
        for test in sorted(tests, key=lambda one: (self.reach.cost(one), one)):
            cost = self.reach.cost(test)
            seen = self.killers[change.path + change.function, test]
            near = self.killers[change.path, test]
            kind = test.partition("[")[0]
            kinds[kind] += 1
            rank = 2 if any(word in test for word in words) else 3 if kinds[kind] == 1 else 4
            if seen and cost < 3:
                places[test] = 0, -seen, cost
            elif near and cost < 1:
                places[test] = 1, -near, cost
            else:
                places[test] = rank, cost, _case(test)

        chosen, total, begun = [], 0.0, set()
        for test in sorted(tests, key=lambda one: places[one]):
            costs = 0.0 if _case(test) in begun else self.reach.cost(test)
            if chosen and total + costs > self.most:
                continue
            total += costs
            begun.add(_case(test) if test in self.reach.sharing else (test, ""))
            chosen.append(test)
        return chosen

    def _run(
        self, session: pytest.Session, tests: list[str], swap: Callable[[], None]
    ) -> tuple[int, str, float]:
        """The exit code of a fork, the test that failed in it, and the processor's seconds."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            self.is_child = True
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            self.writing = writing
            session.items[:] = [self.items[one] for one in tests]
            session.testscollected = len(tests)
            session.config.option.maxfail = 1
            swap()
            for clear in self.caches:
                clear()
            return 0, "", 0.0
        os.close(writing)
        with os.fdopen(reading) as told:
            by = told.read().splitlines()
        _, status, used = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        return code, by[-1] if by and code else "", used.ru_utime + used.ru_stime

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """A test that takes much longer than without a change ends its fork."""
        seconds = 5 + 4 * self.reach.seconds.get(item.nodeid, 5)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.alarm(300 + round(20 * seconds))
        os.write(self.writing, f"{item.nodeid}\n".encode())


def _functions(root: Path) -> list[FunctionType]:
    here = f"{root.resolve()}/"
    return [
        one
        for one in gc.get_objects()
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(here)
    ]


def _file(function: FunctionType, root: Path) -> str:
    return function.__code__.co_filename.removeprefix(f"{root.resolve()}/")


def _put(function: FunctionType, code: CodeType, made: dict[int, list[FunctionType]]) -> None:
    """Into a function, and into those that were made by it while modules were imported."""
    inner = dict(_inner(code))
    for place, old in _inner(function.__code__):
        for one in made.get(id(old), ()):
            if place in inner and inner[place].co_freevars == old.co_freevars:
                one.__code__ = inner[place]
    function.__code__ = code


def _inner(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """The codes within a code, each by its name and its place among those of that name."""
    seen: Counter[str] = Counter()
    for one in _within(code):
        yield (one.co_qualname, seen[one.co_qualname]), one
        seen[one.co_qualname] += 1


def _within(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _within(one)


def main() -> None:
    """`record FOLDER TEST…` or `judge FOLDER SECONDS TEST…`."""
    what, folder, *others = sys.argv[1:]
    arguments = [*ARGUMENTS, f"--basetemp={Path(folder).parent / 'tmp'}"]
    if what == "record":
        recorder = Recorder()
        pytest.main([*arguments, "--hypothesis-seed=0", *others], plugins=[recorder])
        recorder.write(Path(folder))
        return
    keys = sys.stdin.read().splitlines()
    with os.fdopen(os.dup(1), "w") as told:
        os.dup2(2, 1)  # pytest's own words do not mix with the results
        reach = Reach([json.loads(one.read_text()) for one in sorted(Path(folder).iterdir())])
        judge = Judge(Path.cwd(), keys, reach, float(others[0]), told)
        code = pytest.main([*arguments, *others[1:]], plugins=[judge])
        if judge.is_child:
            os._exit(int(code))
    sys.exit(int(code not in (pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.OK)))


if __name__ == "__main__":
    main()
