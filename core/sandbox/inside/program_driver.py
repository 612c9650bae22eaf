"""Runs one program of the model, which calls tools as functions.

The program sends this file to an interpreter in the box, so it needs only the standard library of any Python 3. The
second line of its standard input is the program in base64, as JSON: `code`, and `tools` with the parameters of every
tool by its name. A call is a line of JSON on the first standard output: `id`, `tool` and `arguments`; its answer is a
line of the standard input: `id`, and `value` or `error`. An empty line says that the program begins. What it prints
goes to standard error, so it mixes with no call.

Nothing here protects anything: a line that is forged is a call like any other, and each is decided on outside the box.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import itertools
import json
import linecache
import os
import shutil
import sys
import tempfile
import threading
import traceback

TYPE_CHECKING = False  # `typing` is not needed to run
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, BinaryIO

_NAME = "<program>"
_THREADS = 8  # of the functions that `parallel` runs


class ToolError(Exception):
    """A call that was refused or failed; its text is the tool's."""


class Channel:
    """Sends calls and receives their answers, from any thread."""

    def __init__(self, source: BinaryIO, sink: int) -> None:
        self._source, self._sink = source, sink
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._arrival = threading.Condition()
        self._answers: dict[int, dict[str, Any]] = {}
        self._is_reading = False

    def send(self, tool: str, arguments: Mapping[str, Any]) -> int:
        """Send a call and return its id."""
        with self._lock:
            number = next(self._ids)
            text = json.dumps({"id": number, "tool": tool, "arguments": arguments}, default=_convert)
            data = text.encode("utf-8", "replace") + b"\n"
            while data:
                data = data[os.write(self._sink, data) :]
        return number

    def receive(self, number: int) -> Any:
        """Return the value of a call. Raises `ToolError`."""
        with self._arrival:
            while number not in self._answers:
                if self._is_reading:
                    self._arrival.wait()
                else:
                    self._read_answer()
            answer = self._answers.pop(number)
        if "error" in answer:
            raise ToolError(answer["error"])
        return answer["value"]

    def _read_answer(self) -> None:
        """Read one answer, of this thread's call or another's, with the lock released meanwhile."""
        self._is_reading = True
        self._arrival.release()
        try:
            line = self._source.readline()
        finally:
            self._arrival.acquire()
            self._is_reading = False
            self._arrival.notify_all()
        if not line:
            raise SystemExit("The tools are gone.")
        answer = json.loads(line.decode("utf-8"))
        self._answers[answer["id"]] = answer


def _convert(value: object) -> object:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (set, frozenset, range)):
        return list(value)
    raise TypeError(f"an argument is no text, number, list or dict, but {type(value).__name__}")


class ToolFunction:
    """One tool as a function."""

    def __init__(self, channel: Channel, name: str, parameters: Sequence[str]) -> None:
        self._channel, self.__name__, self._parameters = channel, name, parameters

    def __call__(self, *values: Any, **arguments: Any) -> Any:
        return self._channel.receive(self.send(*values, **arguments))

    def __repr__(self) -> str:
        return f"<tool {self.__name__}({', '.join(self._parameters)})>"

    def send(self, *values: Any, **arguments: Any) -> int:
        """Send a call and return its id."""
        if len(values) > len(self._parameters):
            known = ", ".join(self._parameters)
            raise TypeError(f"{self.__name__}: give the arguments by name{known and f' ({known})'}")
        for name, value in zip(self._parameters, values):  # noqa: B905 (older Pythons have no `strict`)
            if name in arguments:
                raise TypeError(f"{self.__name__}: {name} is given twice")
            arguments[name] = value
        return self._channel.send(self.__name__, arguments)


class Tools:
    """All tools by name, also those of servers."""

    def __init__(self, channel: Channel, parameters: Mapping[str, Sequence[str]]) -> None:
        self._channel, self._parameters = channel, parameters

    def __getattr__(self, name: str) -> ToolFunction:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> ToolFunction:
        return ToolFunction(self._channel, name, self._parameters.get(name, ()))

    def __dir__(self) -> list[str]:
        return sorted(self._parameters)

    def parallel(self, calls: Sequence[Any], *, return_errors: bool = False) -> list[Any]:
        """Run calls at the same time and return their values in order. Each is a tuple of a function and its arguments,
        or a function without any. `return_errors`: an error takes the place of its value, else the first is raised."""
        waiting = [self._begin(call) for call in calls]
        outcomes = [_catch(wait) for wait in waiting]
        first_error = next((outcome for outcome in outcomes if isinstance(outcome, BaseException)), None)
        if first_error is not None and not return_errors:
            raise first_error
        return outcomes

    def _begin(self, call: Any) -> Callable[[], Any]:
        """Begin a call and return a function that waits for its value."""
        if not isinstance(call, (tuple, list)):
            return _start_thread(call)
        function, values = call[0], list(call[1:])
        arguments: dict[str, Any] = {}
        function = self[function] if isinstance(function, str) else function
        if values and isinstance(values[-1], dict):
            arguments = values.pop()
        if not isinstance(function, ToolFunction):
            return _start_thread(lambda: function(*values, **arguments))
        number = function.send(*values, **arguments)
        return lambda: self._channel.receive(number)


def _catch(wait: Callable[[], Any]) -> Any:
    try:
        return wait()
    except Exception as error:
        return error


_places = threading.BoundedSemaphore(_THREADS)


def _start_thread(function: Callable[[], Any]) -> Callable[[], Any]:
    if not callable(function):
        raise TypeError("parallel takes tuples of a tool and its arguments, or functions without arguments")
    outcome: list[Any] = []

    def work() -> None:
        with _places:
            outcome.append(_catch(function))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def wait() -> Any:
        thread.join()
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    return wait


def run_program(source: str, names: dict[str, Any]) -> int:
    """Run a program and print its error, or the value of its last expression. Returns its exit code."""
    linecache.cache[_NAME] = (len(source), None, source.splitlines(keepends=True), _NAME)
    try:
        tree = ast.parse(source, _NAME)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, _NAME, "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), _NAME, "eval"), names)
        if value is not None:
            sys.stdout.write(f"{value if isinstance(value, str) else repr(value)}\n")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stdout.write(f"{end.code}\n")
        return 1
    except BaseException as error:
        _print_error(error)
        return 1
    return 0


def _print_error(error: BaseException) -> None:
    """Print the traceback of an error, with the lines of the program alone."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != _OWN_FILE]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    sys.stdout.write("".join([*lines, *traceback.format_exception_only(type(error), error)]))


_OWN_FILE = run_program.__code__.co_filename


def main() -> None:
    """Run the program of the next line of the standard input."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    os.write(sink, b"\n")
    order = json.loads(base64.b64decode(source.readline()).decode("utf-8"))
    tools = Tools(Channel(source, sink), order["tools"])
    names: dict[str, Any] = {name: tools[name] for name in order["tools"]}
    names.update(
        __name__="__main__", __builtins__=__builtins__, tools=tools, parallel=tools.parallel, ToolError=ToolError
    )
    sys.argv[:] = [""]
    scratch = tempfile.mkdtemp(prefix="program-")
    os.chdir(scratch)
    try:
        code = run_program(order["code"], names)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(code & 255)


if __name__ == "__main__":
    main()
