from __future__ import annotations

import asyncio
import os
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from core.errors import ToolFailed
from core.sandbox import unboxed_run
from core.sandbox.host_view import build_environment
from core.sandbox.unboxed_run import MARK_VARIABLE, describe_containment, find_shell, run_unboxed


def nothing(_: str) -> None:
    pass


async def run(command: str, cwd: Path = Path("/"), *, time_limit: float = 20.0, on_output=nothing, env=None):
    env = build_environment(os.environ) if env is None else env
    return await run_unboxed(command, cwd=cwd, env=env, time_limit=time_limit, on_output=on_output)


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


def pids_in(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdigit()]


async def test_output_and_exit_code_come_back_in_order(tmp_path):
    result = await run("echo out; echo err >&2; exit 3", tmp_path)
    assert (result.exit_code, result.output) == (3, "out\nerr\n")
    assert not result.timed_out


async def test_a_command_runs_in_its_directory_without_input_or_terminal(tmp_path):
    result = await run("pwd; cat; [ -t 0 ] || echo no terminal; tty < /dev/tty", tmp_path)
    assert result.output.startswith(f"{tmp_path}\nno terminal\n")
    assert result.exit_code != 0


async def test_a_signal_is_told_as_a_shell_tells_it():
    assert (await run("kill -9 $$")).exit_code == 137


async def test_r5_a_command_that_ignores_term_and_holds_the_pipe_ends_in_time():
    command = (
        "trap '' TERM; setsid sleep 300 & echo $!; (setsid nohup sleep 300 &) ; echo $$; while :; do sleep 1; done"
    )
    result = await run(command, time_limit=1)
    assert (result.exit_code, result.timed_out) == (None, True)
    assert len(pids_in(result.output)) == 2
    assert alive(pids_in(result.output)) == []


async def test_s8_what_is_left_in_the_background_ends_with_the_command():
    result = await run("sleep 300 & echo $!; setsid sleep 300 >/dev/null 2>&1 & echo $!", time_limit=200)
    assert (result.exit_code, result.timed_out) == (0, False)
    assert len(pids_in(result.output)) == 2
    assert alive(pids_in(result.output)) == []


async def test_v9_cancelling_ends_everything_with_no_more_grace_than_300_ms():
    heard: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.create_task(run("sleep 300 & echo $! $$; trap '' TERM; wait; sleep 300", on_output=heard.put_nowait))
    pids = pids_in(await heard.get())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert unboxed_run._GRACE_SECONDS < 0.3
    assert len(pids) == 2
    assert alive(pids) == []


async def test_n18_a_task_that_is_cancelled_waits_for_what_it_ends_and_then_goes_on():
    begun, seen = asyncio.Event(), []

    async def cleans_up() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            seen.append(await unboxed_run.wait_within(asyncio.Event().wait(), 0.01))
            seen.append(await unboxed_run.wait_within(asyncio.sleep(0), 40))

    task = asyncio.create_task(cleans_up())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [False, True]


async def test_r1_endless_output_is_ended_with_head_and_tail_kept():
    tracemalloc.start()
    try:
        result = await run("echo first; yes")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000
    assert (result.exit_code, result.truncated, result.timed_out) == (None, True, False)
    assert result.output.startswith("first\ny\n")
    assert "bytes left out" in result.output
    assert result.output.endswith("[stopped: more than 10,000,000 bytes of output]")
    assert len(result.output) < 3_000_000


async def test_output_comes_while_the_command_runs():
    heard: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.create_task(run("printf one; read x < <(sleep 300)", on_output=heard.put_nowait))
    assert await heard.get() == "one"
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_bytes_that_are_no_text_and_control_sequences_are_cleaned():
    result = await run(r"printf '\xff\033[31mred\033[0m\033]0;title\007 10%%\r\033[K100%%\n\a'")
    assert result.output == "100%\n"
    result = await run(r"printf '\xff\033[31mred\033[0m\033]0;title\007\n'")
    assert result.output == "\ufffdred\n"


async def test_k1_keys_do_not_reach_a_command(monkeypatch):
    for name in ("OPENAI_API_KEY", "GITHUB_TOKEN", "MY_SECRET", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "BASH_ENV"):
        monkeypatch.setenv(name, "planted")
    monkeypatch.setenv("LC_NAME", "sk-abcdefghijklmnop1234")
    result = await run("env")
    names = {line.partition("=")[0] for line in result.output.splitlines()}
    assert "planted" not in result.output
    assert "sk-abc" not in result.output
    assert {"PATH", "HOME", "TERM", "PAGER", "GIT_PAGER", "GIT_TERMINAL_PROMPT", MARK_VARIABLE} <= names


def test_s13_the_path_has_no_relative_entries_and_the_shell_is_the_systems():
    assert build_environment({"PATH": ".:/usr/bin::bin:/bin"})["PATH"] == "/usr/bin:/bin"
    assert build_environment({})["PATH"].startswith("/")
    assert find_shell().startswith("/")
    assert "not sandboxed" in describe_containment()


async def test_what_can_not_be_started_is_an_error(tmp_path):
    with pytest.raises(ToolFailed, match="No such file or directory"):
        await run("true", tmp_path / "gone")
    with pytest.raises(ToolFailed, match="NUL"):
        await run("echo \0")
    with pytest.raises(ToolFailed, match="could not be started") as caught:
        await run("true " + "x" * 3_000_000)
    assert "script file" in caught.value.hint


async def test_r8_r9_descriptors_and_children_do_not_pile_up():
    me = psutil.Process()
    await run("true")
    before = me.num_fds()
    for _ in range(20):
        await run("true")
    assert me.num_fds() <= before
    assert [child for child in me.children() if child.status() == psutil.STATUS_ZOMBIE] == []


async def test_where_environments_are_hidden_a_child_with_a_session_of_its_own_ends_too(monkeypatch):
    monkeypatch.setattr(unboxed_run, "HIDES_ENVIRONMENTS", True)
    monkeypatch.setattr(unboxed_run, "find_marked_processes", lambda variable, value: iter(()))
    result = await run("setsid sleep 300 >/dev/null 2>&1 & echo $!; sleep 1; exit 3")
    assert result.exit_code == 3
    assert len(pids_in(result.output)) == 1
    assert alive(pids_in(result.output)) == []


@pytest.mark.parametrize(
    ("installed", "own", "chosen"),
    [
        ({"/bin/bash", "/bin/zsh"}, "/bin/zsh", "/bin/zsh"),
        ({"/bin/bash", "/bin/zsh", "/opt/homebrew/bin/bash"}, "/bin/zsh", "/opt/homebrew/bin/bash"),
        ({"/bin/bash", "/bin/zsh", "/nix/bash", "/usr/local/bin/bash"}, "/nix/bash", "/nix/bash"),
        ({"/bin/bash", "/bin/zsh"}, "/usr/local/bin/fish", "/bin/zsh"),
        ({"/bin/bash"}, "/bin/bash", "/bin/bash"),
        (set(), "", "/bin/sh"),
    ],
)
def test_on_a_mac_an_old_bash_is_the_last_shell_to_be_chosen(installed, own, chosen, monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(os, "access", lambda path, mode: path in installed)
    monkeypatch.setattr("pwd.getpwuid", lambda user: SimpleNamespace(pw_shell=own))
    assert find_shell() == chosen
