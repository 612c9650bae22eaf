"""Records, in a test run of the project, which lines of changed files each test executes, and how each test ends.

It is started by `sitecustomize.py` in every Python process of the run. `AGENT_TUI_RECORD` is a directory: `files.json`
lists the absolute paths of the files whose lines are recorded, `select.json`, if it exists, the only tests to run; each
process writes a file of its own there, since a runner may have several. Lines that run outside of a test, mostly at
import, belong to the test "". A child process belongs to the test that started it.

This file is executed by the user's interpreter, so it needs only the standard library of Python 3.8, and it must not
disturb: it opens nothing that it does not close, warns of nothing, and fails in silence.
"""
from __future__ import annotations

import atexit
import json
import os
import sys
import threading

_TEST = "AGENT_TUI_RECORD_TEST"
_MOST_MESSAGE = 400  # characters
_TOOL = 4  # of `sys.monitoring`: 0 to 2 and 5 have owners, 3 is coverage.py's second choice


class _Recorder:
    def __init__(self, directory):
        self.directory = directory
        self.process = os.getpid()
        self.test = os.environ.get(_TEST, "")
        with open(os.path.join(directory, "files.json"), encoding="utf-8") as file:
            self.files = {path: number for number, path in enumerate(json.load(file))}
        self.names = {}  # whatever a code object calls its file -> the number of the file, -1 = another
        self.lines = {}
        self.current = self.lines.setdefault(self.test, set())
        self.results = []
        self.collected = None

    def find(self, name):
        number = self.names.get(name)
        if number is None:
            number = self.files.get(name, -1)
            if number < 0 and not name.startswith("<"):
                number = self.files.get(os.path.realpath(name), -1)
            self.names[name] = number
        return number

    def enter(self, test):
        self.test = test
        os.environ[_TEST] = test
        self.current = self.lines.setdefault(test, set())

    def leave(self):
        self.enter("")

    def add_result(self, test, phase, outcome, kind="", message="", places=()):
        """`kind`: the class of the exception that ended it; `places`: the files and lines of its traceback."""
        self.results.append([test, phase, outcome, kind, message[:_MOST_MESSAGE], list(places)])

    def forget(self):
        """A forked child has nothing of its parent's to tell."""
        self.process = os.getpid()
        self.lines = {}
        self.results = []
        self.current = self.lines.setdefault(self.test, set())

    def write(self):
        lines = {
            test: [[number, line] for number, line in sorted(places)] for test, places in self.lines.items() if places
        }
        if not (lines or self.results or self.collected is not None):
            return
        record = {"lines": lines, "results": self.results, "collected": self.collected}
        path = os.path.join(self.directory, "process-%d.json" % self.process)
        try:
            with open(path + ".part", "w", encoding="utf-8") as file:
                json.dump(record, file)
            os.replace(path + ".part", path)
        except OSError:
            pass


def start(directory):
    try:
        recorder = _Recorder(directory)
    except (OSError, ValueError):
        return
    if recorder.files:
        (_monitor if hasattr(sys, "monitoring") else _trace)(recorder)
    atexit.register(recorder.write)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=recorder.forget)
    sys.meta_path.insert(0, _RunnerFinder(recorder))


def _monitor(recorder):
    """Record lines from Python 3.12 on: only code of the changed files ever calls back."""
    monitoring = sys.monitoring
    try:
        monitoring.use_tool_id(_TOOL, "agent-tui")
    except ValueError:
        _trace(recorder)
        return
    find, events = recorder.find, monitoring.events

    def start_code(code, _offset):
        if find(code.co_filename) >= 0:
            monitoring.set_local_events(_TOOL, code, events.LINE)
        return monitoring.DISABLE

    def run_line(code, line):
        recorder.current.add((recorder.names[code.co_filename], line))

    monitoring.register_callback(_TOOL, events.PY_START, start_code)
    monitoring.register_callback(_TOOL, events.LINE, run_line)
    monitoring.set_events(_TOOL, events.PY_START)


def _trace(recorder):
    """Record lines before Python 3.12, by a trace function in the frames of the changed files alone."""
    find = recorder.find

    def trace_lines(frame, event, _argument):
        if event == "line":
            recorder.current.add((recorder.names[frame.f_code.co_filename], frame.f_lineno))
        return trace_lines

    def trace_calls(frame, _event, _argument):
        if find(frame.f_code.co_filename) < 0:
            return None
        recorder.current.add((recorder.names[frame.f_code.co_filename], frame.f_lineno))
        return trace_lines

    threading.settrace(trace_calls)
    sys.settrace(trace_calls)


class _RunnerFinder:
    """Prepares the modules of test runners when the run imports them, so that no option has to name a plugin."""

    def __init__(self, recorder):
        self._prepare = {
            "_pytest.config": lambda module: _prepare_pytest(module, recorder),
            "unittest.case": lambda module: _prepare_unittest(module, recorder),
        }

    def find_spec(self, name, path=None, target=None):
        prepare = self._prepare.get(name)
        if prepare is None:
            return None
        del self._prepare[name]
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec = find_spec(name, path, target)
            if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
                spec.loader = _PreparingLoader(spec.loader, prepare)
                return spec
        return None


class _PreparingLoader:
    def __init__(self, loader, prepare):
        self._loader = loader
        self._prepare = prepare

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        module.__loader__ = self._loader
        try:
            self._prepare(module)
        except Exception:
            pass


def _prepare_pytest(module, recorder):
    """Have each plugin manager register the plugin as it is made."""
    manager = module.PytestPluginManager
    make = manager.__init__

    def make_and_register(self, *arguments, **options):
        make(self, *arguments, **options)
        try:
            self.register(_build_plugin(recorder), "agent-tui-recorder")
        except Exception:
            pass

    manager.__init__ = make_and_register


def _build_plugin(recorder):
    from pluggy import HookimplMarker

    hookimpl = HookimplMarker("pytest")

    class Plugin:
        @hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, config, items):
            recorder.collected = len(items)
            selection = _read_selection(recorder.directory)
            if selection is not None:
                left_out = [item for item in items if item.nodeid not in selection]
                if left_out:
                    items[:] = [item for item in items if item.nodeid in selection]
                    config.hook.pytest_deselected(items=left_out)

        @hookimpl(tryfirst=True)
        def pytest_runtest_logstart(self, nodeid, location):
            recorder.enter(nodeid)

        @hookimpl(trylast=True)
        def pytest_runtest_logfinish(self, nodeid, location):
            recorder.leave()

        @hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(self, item, call):
            outcome = yield
            report = outcome.get_result()
            if report.when == "call" or report.outcome != "passed":
                error = call.excinfo.value if call.excinfo is not None and report.outcome == "failed" else None
                recorder.add_result(item.nodeid, report.when, _name_outcome(report), *_describe(error))

        @hookimpl(hookwrapper=True)
        def pytest_make_collect_report(self, collector):
            outcome = yield
            report = outcome.get_result()
            if report.outcome == "failed":
                text = str(getattr(report.longrepr, "reprcrash", "") or report.longrepr or "")
                lines = [line for line in text.splitlines() if line.strip()]
                last = next((line[1:].strip() for line in reversed(lines) if line.startswith("E ")), "")
                last = last or (lines[-1] if lines else "")
                recorder.add_result(collector.nodeid, "collect", "failed", last.partition(":")[0], last)

        @hookimpl(trylast=True)
        def pytest_sessionfinish(self, session):
            recorder.write()

    return Plugin()


def _read_selection(directory):
    try:
        with open(os.path.join(directory, "select.json"), encoding="utf-8") as file:
            return set(json.load(file))
    except (OSError, ValueError):
        return None


def _name_outcome(report):
    return "xfailed" if report.outcome == "skipped" and hasattr(report, "wasxfail") else report.outcome


def _describe(error):
    """Return the class, the message and the places of an exception; an assertion of any library is one."""
    if error is None:
        return ()
    kind = type(error).__name__
    if isinstance(error, AssertionError) or kind == "Failed":  # `pytest.fail`, and a `raises` that did not see one
        kind = "AssertionError"
    places, trace = [], error.__traceback__
    while trace is not None:
        places.append([trace.tb_frame.f_code.co_filename, trace.tb_lineno])
        trace = trace.tb_next
    try:
        message = next((line for line in str(error).splitlines() if line.strip()), "")
    except Exception:
        message = ""
    return kind, message, places[-12:]


def _prepare_unittest(module, recorder):
    """Have each test of `unittest` say its name and its end, unless pytest runs it."""
    run = module.TestCase.run

    def run_and_record(self, result=None):
        if recorder.collected is not None:
            return run(self, result)
        test = self.id()
        selection = _read_selection(recorder.directory)
        if selection is not None and test not in selection:
            return result
        before = _count_ends(result)
        recorder.enter(test)
        try:
            return run(self, result)
        finally:
            recorder.leave()
            _record_ends(recorder, test, result, before)

    module.TestCase.run = run_and_record


def _count_ends(result):
    return [len(getattr(result, name, ())) for name in ("failures", "errors", "skipped", "expectedFailures")]


def _record_ends(recorder, test, result, before):
    """Record how a test ended, by what its result has more of than before it."""
    after = _count_ends(result)
    for name, old, new in zip(("failures", "errors", "skipped", "expectedFailures"), before, after):
        for _, text in list(getattr(result, name, ()))[old:new]:
            if name in ("skipped", "expectedFailures"):
                recorder.add_result(test, "call", "skipped" if name == "skipped" else "xfailed")
            else:
                lines = [line for line in str(text).splitlines() if line.strip()]
                message = next((line for line in reversed(lines) if not line.startswith(" ")), "")
                kind = message.partition(":")[0].rpartition(".")[2].strip()
                recorder.add_result(
                    test, "call", "failed", "AssertionError" if name == "failures" else kind, message, _find_places(lines)
                )
    if after == before:
        recorder.add_result(test, "call", "passed")


def _find_places(lines):
    places = []
    for line in lines:
        words = line.strip().split('"')
        if line.strip().startswith("File ") and len(words) > 2 and "line " in words[2]:
            number = words[2].partition("line ")[2].partition(",")[0].strip()
            places.append([words[1], int(number) if number.isdigit() else 0])
    return places[-12:]
