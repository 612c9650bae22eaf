"""Runs blocks of Python one after the other in one namespace, in the user's interpreter.

The program sends this file to another interpreter, so it needs only the standard library of any Python 3. Every line of
its standard input is a block in base64. After a block it writes the mark and 0 (it ran to its end) or 1 (it raised).
The value of a block's last expression is printed, as in an interactive session. IPython runs the blocks if it is
installed; else `%pip` and `!command` lines are translated. A `%pip` that fails ends its block.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import importlib
import linecache
import os
import re
import shlex
import signal
import subprocess
import sys
import traceback

_SHELL_LINE = re.compile(r"^([ \t]*)(?:!|%(?=pip\b))(.+)$", re.MULTILINE)


class PlainRunner:
    """Runs blocks in plain Python."""

    def __init__(self) -> None:
        self._names = {"__name__": "__main__", "__builtins__": __builtins__}
        self._count = 0

    def run_block(self, source: str) -> bool:
        self._count += 1
        name = f"<block {self._count}>"
        try:
            source, tree = _parse_block(source, name)
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            self._execute(tree, name)
        except BaseException as error:  # also SystemExit and an interrupt: the session continues
            trace = error.__traceback__
            while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<block "):
                trace = trace.tb_next
            traceback.print_exception(type(error), error, trace)
            return False
        return True

    def _execute(self, tree: ast.Module, name: str) -> None:
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, name, "exec"), self._names)
        if not isinstance(last, ast.Expr):
            return
        value = eval(compile(ast.Expression(last.value), name, "eval"), self._names)
        if value is not None:
            self._names["_"] = value
            sys.stdout.write(f"{value!r}\n")


def _parse_block(source: str, name: str) -> tuple[str, ast.Module]:
    try:
        return source, ast.parse(source, name)
    except SyntaxError:
        plain = _SHELL_LINE.sub(_translate_shell_line, source)
        if plain == source:
            raise
        return plain, ast.parse(plain, name)


def _translate_shell_line(line: re.Match[str]) -> str:
    command = line[2].strip()
    if command.startswith("pip"):
        command = _build_pip_command(command[len("pip") :])
        return f"{line[1]}__import__('subprocess').run({command!r}, shell=True, check=True) and None"
    return f"{line[1]}__import__('subprocess').run({command!r}, shell=True, check=False).returncode or None"


def _build_pip_command(arguments: str) -> str:
    return f"{shlex.quote(sys.executable)} -m pip {arguments.strip()}"


def _run_pip(arguments: str) -> None:
    """Run pip. Raises `CalledProcessError`, since the rest of the block needs the package."""
    subprocess.run(_build_pip_command(arguments), shell=True, check=True)


class IPythonRunner:
    """Runs blocks in IPython."""

    def __init__(self) -> None:
        config = importlib.import_module("traitlets.config").Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "NoColor"
        self._shell = importlib.import_module("IPython.core.interactiveshell").InteractiveShell.instance(config=config)
        self._shell.register_magic_function(_run_pip, "line", "pip")  # IPython's own ignores failures

    def run_block(self, source: str) -> bool:
        return bool(self._shell.run_cell(source, store_history=False).success)


def _choose_runner() -> IPythonRunner | PlainRunner:
    try:
        return IPythonRunner()
    except Exception:  # missing or unusable
        return PlainRunner()


def main(mark: str) -> None:
    """Run blocks until the standard input ends."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent process may have it ignored
    source = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv[:] = [""]
    sys.path.insert(0, "")
    blocks = _choose_runner()
    while True:
        try:
            line = source.readline()
            if not line:
                return
            has_succeeded = blocks.run_block(base64.b64decode(line).decode("utf-8", "replace"))
        except KeyboardInterrupt:
            continue
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os.write(1, f"\n{mark} {0 if has_succeeded else 1}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1])
