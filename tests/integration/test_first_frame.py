from __future__ import annotations

import os
import signal
import sys
import termios
from pathlib import Path

import psutil
import pytest

from benchmarks.terminal import Terminal
from core.exits import ExitCode
from tests.support.painted import Cell, Painted

ROOT = Path(__file__).parents[2]
ALTERNATE = b"\x1b[?1049h"
TEXTUAL = b"\x1b[?1000h"  # the mouse, which its driver asks for first
# The terminal with a first frame, and a program that never gets further.
HELD = """
import pathlib, sys, time, types
sys.path.insert(0, sys.argv[1])
from tui.first_frame import open_early
options = types.SimpleNamespace(continue_last=False, resume=None, mode=None)
try:
    with open_early(options, pathlib.Path("/nowhere")) as early:
        assert early is not None
        while True:
            time.sleep(0.2)  # a signal that comes between Python's look for one and a wait without end is never seen
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def program(tmp_path) -> list[str]:
    (tmp_path / "project").mkdir()
    (tmp_path / "script.yaml").write_text("turns:\n  - steps:\n      - text: All of it is done.\n")
    script = str(tmp_path / "script.yaml")
    return [sys.executable, str(ROOT / "agent_tui.py"), str(tmp_path / "project"), "--model", f"scripted/{script}"]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8", **more}


def split(terminal: Terminal) -> tuple[bytes, bytes]:
    """What was written before the driver of Textual had the terminal, and after."""
    early, _, late = bytes(terminal.output).partition(TEXTUAL)
    return early, late


def is_same(one: Cell, other: Cell) -> bool:
    """Textual rounds once more, so that a colour may be off by one."""
    parts = [[int(part) for color in cell[1:3] for part in color.split(";") if part] for cell in (one, other)]
    is_near = len(parts[0]) == len(parts[1]) and all(abs(a - b) <= 1 for a, b in zip(*parts, strict=True))
    return (one[0], one[3]) == (other[0], other[3]) and (is_near if parts[0][:1] == [2] else parts[0] == parts[1])


DEPTHS = {
    "truecolor": {},
    "truecolor, light": {"COLORFGBG": "0;15"},
    "256": {"COLORTERM": ""},
    "256, light": {"COLORTERM": "", "COLORFGBG": "0;15"},
    "16": {"COLORTERM": "", "TERM": "xterm"},
    "none": {"NO_COLOR": "1"},
    "ASCII": {"LC_ALL": "C"},
    "a theme of the user's": {"THEME": "contrast-light"},
    "a family of themes, 256": {"THEME": "blue-orange", "COLORTERM": ""},
    "a theme that is loaded later": {"THEME": "nord"},
}


@pytest.mark.parametrize("more", DEPTHS.values(), ids=DEPTHS)
def test_the_first_paint_of_textual_changes_no_cell_of_the_frame_above_the_status_bar(program, tmp_path, more):
    size = {"columns": 60, "rows": 16} if "COLORTERM" in more else {"columns": 120, "rows": 40}
    (tmp_path / "config.toml").write_text(f'[ui]\ntheme = "{more.get("THEME", "")}"\n')
    env = environment(AGENT_TUI_CONFIG_DIR=str(tmp_path), **more)
    with Terminal([*program, "--mode", "plan"], env=env, **size) as terminal:
        terminal.wait_for(b"starting")
        early, late = split(terminal)
    drawn, painted = Painted(early).cells, Painted(late).cells
    above = {at: cell for at, cell in painted.items() if at[0] < size["rows"]}
    assert len(above) == size["columns"] * (size["rows"] - 1)
    assert {at: (drawn[at], cell) for at, cell in above.items() if not is_same(drawn[at], cell)} == {}


def test_what_is_typed_from_the_start_shows_before_textual_and_never_goes_away_again(program):
    with Terminal(program, env=environment(), columns=80, rows=24) as terminal:
        terminal.write("häX\x7f語o".encode())
        terminal.wait_for("hä語o".encode())
        early, _ = split(terminal)
        assert Painted(early).row(22) == "▌ hä語o"
        terminal.wait_for(lambda it: b"script.yaml" in it.text())
        terminal.settle(0.3)
        written = bytes(terminal.output)
    assert written.count(ALTERNATE) == 1
    assert b"\x1b[2J" not in written
    assert b"\x1b[J" not in written
    rows = [Painted(written[:end]).row(22) for end in range(len(early), len(written), 200)]
    assert set(rows) == {"▌ hä語o"}


def test_keys_that_only_the_screen_knows_are_kept_for_it_in_their_order(program):
    with Terminal(program, env=environment(), columns=80, rows=24) as terminal:
        terminal.write(b"qz\x1b[Dx")
        terminal.wait_for(b"qz")
        early, _ = split(terminal)
        assert Painted(early).row(22) == "▌ qz"
        terminal.write(b"y")
        terminal.wait_for(lambda it: Painted(bytes(it.output)).row(22) == "▌ qxyz")


def test_a_prompt_that_is_sent_before_the_screen_is_there_is_sent_once(program):
    with Terminal(program, env=environment(), columns=80, rows=24) as terminal:
        terminal.write(b"do this")
        terminal.wait_for(b"do this")
        terminal.write(b"\r")
        terminal.wait_for(b"All of it is done.")
        terminal.settle(0.5)
        rows = [Painted(bytes(terminal.output)).row(number) for number in range(1, 23)]
    assert sum("do this" in row for row in rows) == 1


@pytest.mark.parametrize("way", ["ctrl+c", "SIGTERM", "SIGQUIT"])
def test_what_ends_the_program_before_the_screen_is_there_gives_the_terminal_back(way):
    with Terminal([sys.executable, "-c", HELD, str(ROOT)], env=environment()) as terminal:
        before = termios.tcgetattr(terminal.fd)
        terminal.wait_for(b"Ask for a change")
        assert termios.tcgetattr(terminal.fd) != before
        if way == "ctrl+c":
            terminal.write(b"x\x03")
        else:
            os.kill(terminal.pid, signal.Signals[way])
        while terminal.read(10):
            continue
        assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == ExitCode.INTERRUPTED
        assert termios.tcgetattr(terminal.fd)[:4] == before[:4]
        assert bytes(terminal.output).endswith(b"\x1b[?7h\x1b[?2004l\x1b[0m\x1b[?1049l\x1b[?25h")


def test_a_program_that_is_stopped_before_the_screen_is_there_gives_the_terminal_back_and_takes_it_again():
    with Terminal([sys.executable, "-c", HELD, str(ROOT)], env=environment()) as terminal:
        before = termios.tcgetattr(terminal.fd)
        terminal.wait_for(b"Ask for a change")
        terminal.write(b"hex")
        terminal.wait_for(b"hex")
        terminal.signal(signal.SIGTSTP)
        terminal.wait_for(lambda _: terminal.process.status() == psutil.STATUS_STOPPED)
        assert termios.tcgetattr(terminal.fd)[:4] == before[:4]
        at = len(terminal.output)
        terminal.signal(signal.SIGCONT)
        terminal.wait_for(lambda it: "▌ hex" in it.text(at).decode(errors="ignore"))
        terminal.write(b"y")
        terminal.wait_for(b"hexy")


def test_a_terminal_that_goes_away_before_the_screen_is_there_ends_the_program(tmp_path):
    code = HELD.replace("sys.exit(130)", f"pathlib.Path({str(tmp_path / 'ended')!r}).write_text('interrupted')")
    with Terminal([sys.executable, "-c", code, str(ROOT)], env=environment()) as terminal:
        terminal.wait_for(b"Ask for a change")
        held, terminal.fd = terminal.fd, os.open(os.devnull, os.O_RDWR)
        os.close(held)
        assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 0
    assert (tmp_path / "ended").read_text() == "interrupted"


@pytest.mark.parametrize("hindrance", ["dumb", "plain", "small", "no output"])
def test_there_is_no_first_frame_where_it_would_be_wrong(program, tmp_path, hindrance):
    config = tmp_path / "config"
    config.mkdir()
    if hindrance == "plain":
        (config / "config.toml").write_text("[ui]\nplain = true\n")
    more = {"TERM": "dumb"} if hindrance == "dumb" else {}
    argv = ["sh", "-c", '"$@" > /dev/null', "sh", *program] if hindrance == "no output" else program
    columns = 40 if hindrance == "small" else 80
    env = environment(AGENT_TUI_CONFIG_DIR=str(config), **more)
    with Terminal(argv, env=env, columns=columns, rows=24) as terminal:
        terminal.wait_for(lambda it: TEXTUAL in it.output)
        early, _ = split(terminal)
    assert early == ALTERNATE


def test_an_option_that_ends_early_draws_nothing(program):
    with Terminal([*program[:2], "--version"], env=environment()) as terminal:
        while terminal.read(10):
            continue
        assert b"\x1b" not in terminal.output


def test_a_session_that_there_is_not_is_told_of_on_the_screen_of_the_shell(program):
    with Terminal([*program[:3], "-c"], env=environment()) as terminal:
        while terminal.read(10):
            continue
        assert bytes(terminal.output).rpartition(b"\x1b[?1049l")[2].count(b"agent-tui: ") == 1
