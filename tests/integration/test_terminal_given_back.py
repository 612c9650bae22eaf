from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import termios
from pathlib import Path

import psutil
import pytest

from benchmarks.terminal import Terminal
from core.exits import ExitCode
from core.sessions.store import SessionStore

ROOT = Path(__file__).parents[2]
SCRIPT = "turns:\n  - steps:\n      - delay_ms: 100\n        text: It goes on and on, word by word, for a long time.\n"
TAKEN_BACK = ("?1049l", "?1000l", "?1003l", "?1006l", "?2004l", "?1004l", "?25h", "?7h")
PATIENCE = 60  # seconds


@pytest.fixture
def program(tmp_path) -> list[str]:
    (tmp_path / "project").mkdir()
    (tmp_path / "script.yaml").write_text(SCRIPT)
    model = f"scripted/{tmp_path / 'script.yaml'}"
    return [sys.executable, str(ROOT / "agent_tui.py"), str(tmp_path / "project"), "--model", model]


def engine_of(terminal: Terminal) -> int:
    """A descriptor of the engine's process."""
    children = psutil.Process(terminal.pid).children()
    return os.pidfd_open(children[0].pid)


def has_ended(process: int) -> bool:
    ready, _, _ = select.select([process], [], [], PATIENCE)
    os.close(process)
    return bool(ready)


def ended(terminal: Terminal) -> int:
    """Its exit code; what it still writes is read meanwhile."""
    process = os.pidfd_open(terminal.pid)
    while not select.select([process], [], [], 0)[0]:
        terminal.read(0.1)
    while terminal.read(0.1):
        pass
    os.close(process)
    return os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1])


def running(terminal: Terminal) -> None:
    terminal.wait_for(b"Ask for a change")
    terminal.send("Do it")
    terminal.wait_for(b"word by")


def local_modes(terminal: Terminal) -> int:
    return int(termios.tcgetattr(terminal.fd)[3])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_n12_t5_a_signal_gives_the_terminal_back_and_ends_the_engine(program, number):
    with Terminal(program) as terminal:
        before = local_modes(terminal)
        running(terminal)
        assert local_modes(terminal) != before or not before & termios.ECHO
        engine, at = engine_of(terminal), len(terminal.output)
        terminal.signal(number)
        assert ended(terminal) == ExitCode.INTERRUPTED
        after = terminal.output[at:].decode(errors="replace")
        assert [mode for mode in TAKEN_BACK if f"\x1b[{mode}" not in after] == []
        assert after.rindex("?1049l") > after.rfind("?1049h")
        assert local_modes(terminal) == before
        assert "Traceback" not in after
        assert has_ended(engine)


def test_n12_t5_the_terminal_is_given_back_while_the_program_is_stopped_and_taken_again(program):
    with Terminal(program) as terminal:
        before = local_modes(terminal)
        terminal.wait_for(b"starting")
        at = len(terminal.output)
        terminal.signal(signal.SIGTSTP)
        terminal.wait_for(lambda _: psutil.Process(terminal.pid).status() == psutil.STATUS_STOPPED)
        terminal.settle()
        stopped = terminal.output[at:].decode(errors="replace")
        assert [mode for mode in ("?1049l", "?1000l", "?2004l", "?25h") if f"\x1b[{mode}" not in stopped] == []
        assert local_modes(terminal) == before
        at = len(terminal.output)
        terminal.signal(signal.SIGCONT)
        terminal.wait_for(lambda _: b"\x1b[?1049h" in terminal.output[at:])
        terminal.wait_for(lambda _: b"Ask for a change" in terminal.text(at))
        terminal.write(b"q")
        terminal.wait_for(b"q")


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
def test_a_screen_on_which_nothing_changes_is_drawn_again_after_a_stop_and_takes_each_key(program, number):
    with Terminal(program) as terminal:
        terminal.wait_for(b"Ask for a change")
        terminal.settle()
        threads = psutil.Process(terminal.pid).num_threads()
        for _ in range(4):
            at = len(terminal.output)
            terminal.signal(number)
            terminal.wait_for(lambda _: psutil.Process(terminal.pid).status() == psutil.STATUS_STOPPED)
            terminal.signal(signal.SIGCONT)
            terminal.wait_for(lambda _, at=at: b"Ask for a change" in terminal.text(at))
        terminal.write(b"quick")
        terminal.wait_for(lambda _: b"quick" in terminal.text(at))
        assert psutil.Process(terminal.pid).num_threads() < threads + 4  # those of the input and the output ended


CRASH = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from core.arguments import ScreenArguments
from tests.support.scripted_client import ScriptedClient
from tui import app
from tui.screens.controllers.pages import PageController

async def connect(*_):
    return ScriptedClient()

def broken(self, *_):
    raise BREAKS("nobody thought of that")

PageController.action_show_help = broken
PageController.action_show_keys = broken
sys.exit(app.run(ScreenArguments(directory=Path.cwd(), model="m"), connect))
"""


STOP = f"""
import os, queue, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from core.arguments import ScreenArguments
from tests.support.scripted_client import ScriptedClient
from tui import app

async def connect(*_):
    return ScriptedClient()

put = queue.Queue._put  # called while the queue of the output is locked

def put_and_stop(self, item):
    put(self, item)
    if isinstance(item, str) and "sk for a change" in item:  # the cursor is on the first letter
        queue.Queue._put = put
        os.kill(os.getpid(), signal.SIGTSTP)

queue.Queue._put = put_and_stop
sys.exit(app.run(ScreenArguments(directory=Path.cwd(), model="m"), connect))
"""


def test_a_stop_while_the_output_is_locked_freezes_nothing(tmp_path):
    with Terminal([sys.executable, "-c", STOP], cwd=tmp_path) as terminal:
        before = local_modes(terminal)
        terminal.wait_for(lambda _: psutil.Process(terminal.pid).status() == psutil.STATUS_STOPPED)
        terminal.settle()
        assert local_modes(terminal) == before
        at = len(terminal.output)
        terminal.signal(signal.SIGCONT)
        terminal.wait_for(lambda _: b"\x1b[?1049h" in terminal.output[at:])
        terminal.wait_for(lambda _: b"sk for a change" in terminal.text(at))


@pytest.mark.parametrize("breaks", ["RuntimeError", "SystemExit", "KeyboardInterrupt"])
def test_n12_t5_a_crash_gives_the_terminal_back(tmp_path, breaks):
    with Terminal([sys.executable, "-c", CRASH.replace("BREAKS", breaks)], cwd=tmp_path) as terminal:
        before = local_modes(terminal)
        terminal.wait_for(b"Ask for a change")
        at = len(terminal.output)
        terminal.write(b"\x1bOP")
        assert ended(terminal) != 0
        after = terminal.output[at:].decode(errors="replace")
        assert [mode for mode in TAKEN_BACK if f"\x1b[{mode}" not in after] == []
        assert local_modes(terminal) == before


def test_n7c_without_a_terminal_nothing_is_started_and_the_way_without_one_is_named(program):
    result = subprocess.run(program, input=b"x\n", capture_output=True, timeout=PATIENCE, check=False)
    assert result.returncode == ExitCode.USAGE
    assert b"agent-tui -p" in result.stderr
    assert b"standard input" in result.stderr
    assert b"\x1b" not in result.stdout + result.stderr


@pytest.mark.parametrize("inner", ["exec < /dev/null", "exec <&-", "exec 2> screen"])
def test_n7c_one_of_both_is_not_enough(program, tmp_path, inner):
    command = " ".join(f"'{word}'" for word in program)
    with Terminal(["sh", "-c", f"{inner}; {command}"], cwd=tmp_path) as terminal:
        assert ended(terminal) == ExitCode.USAGE
        assert b"\x1b[?1049h" not in terminal.output


def test_n7c_the_program_ends_with_its_terminal_and_the_session_is_kept(program, tmp_path):
    terminal = Terminal(program)
    try:
        running(terminal)
        engine, screen = engine_of(terminal), os.pidfd_open(terminal.pid)
    finally:
        os.close(terminal.fd)
    assert has_ended(screen)
    assert has_ended(engine)
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == ExitCode.INTERRUPTED
    assert len(list(SessionStore(tmp_path / "project").list_directories())) == 1


def test_n7c_the_end_of_the_input_ends_the_program_where_no_signal_tells(program):
    # As a program that is no session leader sees a terminal go.
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    child = subprocess.Popen(program, stdin=slave, stderr=slave, stdout=subprocess.DEVNULL, start_new_session=True)
    os.close(slave)
    try:
        output = b""
        while b"sk for a change" not in output:  # the cursor is on the A
            output += os.read(master, 1 << 16)
        os.close(master)
        assert child.wait(PATIENCE) == ExitCode.INTERRUPTED
    finally:
        child.kill()
        child.wait()
