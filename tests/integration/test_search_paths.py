"""No program of a project runs because PATH, or a variable like it, leads into the project."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.terminal import Terminal
from core.sandbox.host_view import build_environment
from tests.support.program import PROGRAM, ask, environment

SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
# What need not be installed here to be looked for: by us, by libraries that we load, and by browsers and keyrings.
LOOKED_FOR = (
    *("git", "rg", "bwrap", "fusermount", "fusermount3", "newuidmap", "newgidmap", "gcc", "cc", "ld", "objdump"),
    *("ldconfig", "uname", "file", "xclip", "xsel", "wl-copy", "wl-paste", "pbcopy", "pbpaste", "osascript"),
    *("notify-send", "xdg-open", "open", "sensible-browser", "firefox", "chromium", "gh", "glab", "ssh", "gpg", "node"),
    *(
        "npx",
        "docker",
        "podman",
        "tput",
        "stty",
        "clear",
        "less",
        "vi",
        "nano",
        "python3",
        "sh",
        "bash",
        "env",
        "which",
    ),
    *("kwallet-query", "secret-tool", "pass", "security", "lsb_release", "arch", "hostname", "ps", "lsof", "strace"),
)


def list_names() -> Iterator[str]:
    for directory in (*SYSTEM, str(Path(PROGRAM[0]).parent)):
        with contextlib.suppress(OSError):
            yield from (path.name for path in Path(directory).iterdir())
    yield from LOOKED_FOR


class Planted:
    """A project with a canary for the name of every program, and a PATH that leads there in every way."""

    def __init__(self, place: Path) -> None:
        self.project, self.ran = place / "project", place / "ran"
        self.ran.mkdir()
        self.bin = self.project / "tools" / "bin"
        self.bin.mkdir(parents=True)
        canary = self.project / "canary"
        canary.write_text(f'#!/bin/sh\n: > "{self.ran}/${{0##*/}}"\nexit 127\n')
        canary.chmod(0o755)
        for name in set(list_names()):
            os.link(canary, self.bin / name)
            with contextlib.suppress(FileExistsError):
                os.link(canary, self.project / name)
        (place / "link").symlink_to(self.project)
        (place / "outside").mkdir()
        (self.project / "leads-out").symlink_to(place / "outside")
        subprocess.run(["git", "init", "-q", str(self.project)], check=True)
        (self.project / "a.txt").write_text("one\n")
        real = os.environ.get("PATH", os.pathsep.join(SYSTEM))
        ways = ("", ".", "tools/bin", "./tools/../tools/bin", "~/bin", str(self.bin), f"{place}/link/tools/bin")
        self.path = os.pathsep.join((*ways, f"{self.project}/../project", str(self.project / "leads-out"), real))

    def list_ran(self) -> list[str]:
        return sorted(path.name for path in self.ran.iterdir())


@pytest.fixture
def planted(tmp_path) -> Planted:
    return Planted(tmp_path)


@pytest.fixture
def env(planted) -> dict[str, str]:
    variables = environment(None, PATH=planted.path, LD_LIBRARY_PATH=":tools/bin", TERM="xterm-256color")
    return {
        name: value for name, value in variables.items() if name != "PYTHON_KEYRING_BACKEND"
    }  # it looks for libraries


async def run(planted: Planted, env: dict[str, str], *words: str, stdin: bytes = b"") -> tuple[str, str]:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *words,
        cwd=planted.project,
        env=env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(90):
        out, err = await process.communicate(stdin)
    return out.decode(), err.decode()


@pytest.mark.parametrize(
    "words",
    [
        "--version",
        "doctor",
        "doctor --probe",
        "sessions",
        "models",
        "config check",
        "rules",
        "mcp list",
        "index status",
    ],
)
async def test_n34_no_program_of_the_project_runs_for_a_command_without_a_model(planted, env, words):
    out, err = await run(planted, env, *words.split())
    assert planted.list_ran() == []
    assert "Traceback" not in out + err
    assert err.count("not used by this program") == 1
    assert "PATH=., " in err


@pytest.mark.parametrize("words", ["acp", "mcp serve", "--engine"])
async def test_n34_no_program_of_the_project_runs_for_a_server_at_the_standard_streams(planted, env, words):
    await run(planted, env, *words.split())
    assert planted.list_ran() == []


async def test_n34_no_program_of_the_project_runs_for_a_prompt(planted, env):
    ended, requests = await ask(planted.project, "Done.", env=env, before=lambda: None)
    assert (ended.code, len(requests)) == (0, 1), ended.err
    assert planted.list_ran() == []


def test_n34_no_program_of_the_project_runs_for_the_screen_and_its_engine(planted, env, tmp_path):
    script = tmp_path / "script.yaml"
    script.write_text("turns:\n  - steps:\n      - text: All of it is done.\n")
    words = [*PROGRAM, "--model", f"scripted/{script}"]
    with Terminal(words, cwd=planted.project, env=env) as terminal:
        terminal.until_typed()
        terminal.send(" do it")
        terminal.wait_for(b"All of it is done.")
    assert planted.list_ran() == []


async def test_n34_a_project_that_is_named_counts_like_the_current_directory(planted, env, tmp_path):
    words = ((str(planted.project),), ("--", str(planted.project)))
    env["PATH"] = f"{planted.bin}{os.pathsep}{os.environ['PATH']}"
    for arguments in words:
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, "doctor", *arguments, cwd=tmp_path / "outside", env=env, stderr=asyncio.subprocess.PIPE
        )
        _, err = await process.communicate()
        assert str(planted.bin).encode() in err
    assert planted.list_ran() == []


async def test_n34_commands_in_the_box_have_the_directories_of_the_project(planted, env, tmp_path):
    planted.bin.joinpath("only-here").write_text("#!/bin/sh\necho it is found\n")
    planted.bin.joinpath("only-here").chmod(0o755)
    env["PATH"] = f"{os.environ['PATH']}{os.pathsep}{planted.bin}"
    out, _ = await run(planted, env, "box", "run", ".", "only-here; command -v git")
    assert "it is found" in out
    assert str(planted.project) not in out


def test_n34_nothing_is_said_where_nothing_is_taken_out_and_of_an_active_environment(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    active = {"VIRTUAL_ENV": f"{project}/.venv", "PATH": f"{project}/.venv/bin{os.pathsep}{os.environ['PATH']}"}
    for more in ({}, active):
        run = subprocess.run(
            [*PROGRAM, "--version"], cwd=project, env=environment(None, **more), capture_output=True, check=True
        )
        assert run.stderr == b""


def test_n34_the_environment_of_the_box_takes_back_what_this_process_left():
    source = {"PATH": "/usr/bin", "AGENT_TUI_USERS_PATH": ".:/project/bin:/usr/bin", "HOME": "/home/me"}
    environment = build_environment(source)
    assert environment["PATH"] == "/project/bin:/usr/bin"
    assert not any(re.match("AGENT_TUI", name) for name in environment)
