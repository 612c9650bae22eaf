"""`-p` and the commands that print, into every kind of stream: the whole answer, and a word where it can not be."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
from pathlib import Path

import pytest

from core.errors import ConfigError
from core.exits import ExitCode
from core.user_dirs import require_home
from tests.support.program import PROGRAM, environment
from tests.support.story import project_at

ANSWER = "é → 😀 " * 60_000
SCRIPT = f'turns: [{{match: ".*", steps: [{json.dumps(ANSWER)}]}}]\n'
LOCALES = [
    {"PYTHONIOENCODING": "latin-1"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "C.UTF-8"},
]


@pytest.fixture
def project(tmp_path) -> Path:
    (tmp_path / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    return project_at(tmp_path / "project")


async def start(project: Path, redirections: str, *words: str, writer: int | None = None, **more: str):
    command = ("sh", "-c", f'exec "$@" {redirections}', "sh", *PROGRAM, *words)
    env = environment(None, AGENT_TUI_SCRIPT_SPEED="0", **more)
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *command, cwd=project, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=writer or pipe, stderr=pipe
    )


def ask(project: Path, how: str) -> tuple[str, ...]:
    return ("-p", "hi", "--model", f"scripted/{project.parent}/script.yaml", "--trust", "--output-format", how)


def read_all(reader: int) -> bytes:
    with os.fdopen(reader, "rb") as source:
        return source.read()


@pytest.mark.parametrize("how", ["text", "json", "stream-json"])
@pytest.mark.parametrize("locale", LOCALES, ids=["latin-1", "C", "UTF-8"])
async def test_a_pipe_that_does_not_block_gets_the_whole_answer_in_any_locale(project, how, locale):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    process = await start(project, "", *ask(project, how), writer=writer, **locale)
    os.close(writer)
    out, (_, err) = await asyncio.gather(asyncio.to_thread(read_all, reader), process.communicate())
    assert (process.returncode, err) == (ExitCode.DONE, b"")
    if how == "text":
        expected = ANSWER.encode("ascii" if "LC_ALL" in locale else "latin-1", "backslashreplace")
        expected = ANSWER.encode() if locale.get("LC_ALL") == "C.UTF-8" else expected
        expected = expected.replace(b"\\xe9", b"\\u00e9").replace(b"\\U0001f600", b"\\ud83d\\ude00")
        assert out.rstrip() == expected.rstrip()
    else:
        last = json.loads(out if how == "json" else out.splitlines()[-1])
        response = last if how == "json" else last["response"]
        assert response["documents"][-1]["content"].strip() == ANSWER.strip()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
async def test_a_stream_that_is_closed_ends_nothing(project, closed):
    process = await start(project, closed, *ask(project, "text"))
    out, _ = await process.communicate()
    assert process.returncode == ExitCode.DONE
    assert (ANSWER.strip().encode() in out) is (">&-" not in closed.split())


async def test_an_output_that_takes_no_more_is_told_in_one_line(project):
    process = await start(project, ">/dev/full", *ask(project, "json"))
    _, err = await process.communicate()
    assert process.returncode == ExitCode.FAILED
    assert err.decode().splitlines()[-1].startswith("agent-tui: standard output can't be written: ")


def test_a_user_without_a_home_directory_is_told_what_to_set(monkeypatch):
    def find_none(uid: int) -> None:
        raise KeyError(uid)

    require_home()
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", find_none)
    with pytest.raises(ConfigError, match="no home directory") as refused:
        require_home()
    assert "HOME" in refused.value.hint
