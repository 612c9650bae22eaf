from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.cli.completion import SHELLS, build_parser_tree, build_script, iterate_parsers, list_options
from tests.support.configured import configured

ROOT = Path(__file__).parents[2]
ASK = {
    "bash": """\
source {script}
COMP_WORDS=({line}) COMP_CWORD=$(({words} - 1))
_shtab_agent_tui
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "fish": "source {script}; complete -C '{line}'",
}


@pytest.fixture(scope="module")
def tree():
    return build_parser_tree()


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A directory with a program called agent-tui on the path, and a configuration."""
    program = tmp_path / "bin/agent-tui"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT / "agent_tui.py"} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    configured('model = "work/special-model"\n')
    project = tmp_path / "project"
    project.mkdir()
    return project


def complete(shell: str, line: str, here: Path) -> set[str]:
    """Press Tab behind a line, in a real shell."""
    script = here.parent / f"script.{shell}"
    script.write_text(build_script(shell))
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words) if shell == "bash" else line
    asked = ASK[shell].format(script=script, line=quoted, words=len(words))
    command = [shell, "--norc", "-c", asked] if shell == "bash" else [shell, "--no-config", "-c", asked]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=here, timeout=30, check=False)
    assert ran.stderr == ""
    return {row.partition("\t")[0] for row in ran.stdout.splitlines()}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_option_of_every_parser_is_in_the_script(tree, shell):
    script = build_script(shell)
    for name, parser in iterate_parsers(tree).items():
        assert name in script
        for action in list_options(parser):
            for option in action.option_strings:
                pattern = rf"(-l|-s) '?{option.lstrip('-')}\b" if shell == "fish" else rf"{option}\b"
                assert re.search(pattern, script), f"{name} {option}"


@pytest.mark.parametrize("shell", [each for each in ASK if shutil.which(each)])
def test_a_real_shell_completes_commands_options_and_what_this_machine_knows(here, shell):
    assert {"review", "sessions", "completion"} <= complete(shell, "agent-tui ", here)
    assert complete(shell, "agent-tui --mo", here) == {"--mode", "--model"}
    assert complete(shell, "agent-tui --mode p", here) == {"plan"}
    assert "work/special-model" in complete(shell, "agent-tui --model work", here)
    assert complete(shell, "agent-tui review --ac", here) == {"--accept"}
    assert complete(shell, "agent-tui sessions ren", here) == {"rename"}


def read_until(terminal: int, word: bytes) -> bytes:
    output = b""
    while word not in output and select.select([terminal], [], [], 20)[0]:
        output += os.read(terminal, 4096)
    return output


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_in_a_terminal(here):
    functions = here.parent / "functions"
    functions.mkdir()
    (functions / "_agent-tui").write_text(build_script("zsh"))
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe("zsh", ["zsh", "-f", "-i"], os.environ | {"TERM": "dumb"})
    try:
        begun = f"fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -D; echo rea''dy\n"
        os.write(terminal, begun.encode())
        read_until(terminal, b"\nready")
        for typed, added in (
            ("agent-tui --mode pl", "an"),
            ("agent-tui --model wor", "k/special-model"),
            ("agent-tui ses", "sions"),
        ):
            os.write(terminal, f"\x15{typed}".encode())
            read_until(terminal, typed.encode())
            os.write(terminal, b"\t")
            assert added in read_until(terminal, added.encode()).decode()
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)
