"""Makes test runners tell the recorder which test runs, and how it ends: pytest and unittest, by what they import.

No option and no plugin has to be named to the runner, so a run that ignores our path is a run without a record.
"""

from __future__ import annotations

import importlib
import linecache
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, TypeVar

Hook = TypeVar("Hook")
Recorder = Any  # that of `agent_tui_recorder`, which is no part of this package where it runs
_ENDS = ("failures", "errors", "skipped", "expectedFailures")  # the lists of a `unittest.TestResult`
_MOST_PLACES = 12


class RunnerFinder:
    """Prepares the modules of runners when the run imports them."""

    def __init__(self, recorder: Recorder) -> None:
        self._preparations: Dict[str, Callable[[Any, Recorder], None]] = {
            "_pytest.config": _prepare_pytest,
            "unittest.case": _prepare_unittest,
        }
        self._recorder = recorder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module of a runner as the other finders do, with a loader that prepares it."""
        prepare = self._preparations.pop(name, None)
        if prepare is None:
            return None
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec is not None and finder is not self else None
            if spec is not None and hasattr(spec.loader, "exec_module"):
                spec.loader = _PreparingLoader(spec.loader, prepare, self._recorder)
                return spec
        return None


class _PreparingLoader:
    def __init__(self, loader: Any, prepare: Callable[[Any, Recorder], None], recorder: Recorder) -> None:
        self._loader, self._prepare, self._recorder = loader, prepare, recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._loader.exec_module(module)
        module.__loader__ = self._loader
        try:
            self._prepare(module, self._recorder)
        except Exception:  # a runner that is not as it was when this was written: the run has no record
            pass


def _prepare_pytest(module: Any, recorder: Recorder) -> None:
    """Have each plugin manager register the plugin when it is made."""
    make = module.PytestPluginManager.__init__

    def make_and_register(self: Any, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        try:
            self.register(_build_plugin(recorder), "agent-tui-recorder")
            recorder.begin()
        except Exception:  # as above
            pass

    module.PytestPluginManager.__init__ = make_and_register


def _build_plugin(recorder: Recorder) -> Any:
    mark: Any = importlib.import_module("pluggy").HookimplMarker("pytest")

    def hookimpl(**options: Any) -> Callable[[Hook], Hook]:
        marked: Callable[[Hook], Hook] = mark(**options)
        return marked

    class Plugin:
        @hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, config: Any, items: List[Any]) -> None:
            _select(recorder, config, items)

        @hookimpl(tryfirst=True)
        def pytest_runtest_logstart(self, nodeid: str) -> None:
            recorder.enter(nodeid)

        @hookimpl(trylast=True)
        def pytest_runtest_logfinish(self) -> None:
            recorder.enter("")

        @hookimpl(hookwrapper=True, tryfirst=True)  # after all others, such as the one that expects a failure
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:
            _record_report(recorder, item, call, (yield).get_result())  # type: ignore[attr-defined]

        @hookimpl(hookwrapper=True)
        def pytest_make_collect_report(self, collector: Any) -> Iterator[None]:
            report = (yield).get_result()  # type: ignore[attr-defined]
            if report.outcome == "failed":
                error = getattr(getattr(report, "call", None), "excinfo", None)
                cause = _find_cause(getattr(error, "value", None))
                recorder.add_result(collector.nodeid, "collect", "failed", _describe_error(cause))

        @hookimpl(trylast=True)
        def pytest_sessionfinish(self) -> None:
            recorder.write()

    return Plugin()


def _select(recorder: Recorder, config: Any, items: List[Any]) -> None:
    """Keep the tests that are to run."""
    recorder.collected = len(items)
    left_out = [item for item in items if not recorder.is_selected(item.nodeid)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if recorder.is_selected(item.nodeid)]


def _record_report(recorder: Recorder, item: Any, call: Any, report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        error = call.excinfo.value if call.excinfo is not None and report.outcome == "failed" else None
        recorder.add_result(item.nodeid, report.when, _name_outcome(report), _describe_error(error))


def _name_outcome(report: Any) -> str:
    return "xfailed" if report.outcome == "skipped" and hasattr(report, "wasxfail") else str(report.outcome)


def _find_cause(error: Optional[BaseException]) -> Optional[BaseException]:
    """Return what an error of pytest's own about a module comes from: what was raised while it was imported."""
    while error is not None and error.__cause__ is not None:
        if not type(error).__module__.startswith("_pytest"):
            break
        error = error.__cause__
    return error


def _describe_error(error: Optional[BaseException]) -> Tuple[str, str, List[Any]]:
    """Return the class of an exception, its message and the places of its traceback."""
    if error is None:
        return "", "", []
    kind = type(error).__name__
    if isinstance(error, AssertionError) or kind == "Failed":  # `pytest.fail`, also of a `raises` that saw none
        kind = "AssertionError"
    places: List[Any] = []
    trace = error.__traceback__
    while trace is not None:
        places.append([trace.tb_frame.f_code.co_filename, trace.tb_lineno])
        trace = trace.tb_next
    # Python raises it for code that does not fit together, but code also says so of a value that it was given.
    if kind == "TypeError" and places and linecache.getline(*places[-1]).lstrip().startswith("raise "):
        kind = "raised TypeError"
    try:
        message = next((line for line in str(error).splitlines() if line.strip()), "")
    except Exception:  # of a class of the project
        message = ""
    return kind, message, places[-_MOST_PLACES:]


def _prepare_unittest(module: Any, recorder: Recorder) -> None:
    """Have each test of `unittest` tell its name and its end, unless pytest runs it."""
    run = module.TestCase.run

    def run_and_record(self: Any, result: Any = None) -> Any:
        if recorder.collected is not None or result is None:
            return run(self, result)
        test = self.id()
        if not recorder.is_selected(test):
            return result
        counts = [len(getattr(result, name, ())) for name in _ENDS]
        recorder.enter(test)
        try:
            return run(self, result)
        finally:
            recorder.enter("")
            _record_ends(recorder, test, result, counts)

    module.TestCase.run = run_and_record


def _record_ends(recorder: Recorder, test: str, result: Any, counts: List[int]) -> None:
    """Record how a test ended, by what its result has more of than the `counts` before it."""
    ends = [(name, end[1]) for name, count in zip(_ENDS, counts) for end in list(getattr(result, name, ()))[count:]]
    for name, text in ends:
        if name == "skipped":
            recorder.add_result(test, "call", "skipped")
        elif name == "expectedFailures":
            recorder.add_result(test, "call", "xfailed")
        else:
            recorder.add_result(test, "call", "failed", _read_traceback(str(text), is_failure=name == "failures"))
    if not ends:
        recorder.add_result(test, "call", "passed")


def _read_traceback(text: str, is_failure: bool) -> Tuple[str, str, List[Any]]:
    """Return the class, the message and the places of an exception as Python prints it."""
    lines = [line for line in text.splitlines() if line.strip()]
    message = next((line for line in reversed(lines) if not line.startswith(" ")), "")
    kind, _, rest = message.partition(":")
    places: List[Any] = []
    for line in lines:
        parts = line.strip().split('"')
        if parts[0] == "File " and len(parts) > 2:
            number = parts[2].partition("line ")[2].partition(",")[0].strip()
            places.append([parts[1], int(number) if number.isdigit() else 0])
    name = "AssertionError" if is_failure else kind.rpartition(".")[2].strip()
    return name, (rest or message).strip(), places[-_MOST_PLACES:]
