"""What comes from the terminal, typed into the real program on a pseudo-terminal and in tmux."""

from __future__ import annotations

import os
import random
import shlex
import sys
from pathlib import Path

import pytest

from benchmarks.terminal import ESCAPES, Terminal
from tests.support.terminals import TMUX, Tmux

ROOT = Path(__file__).parents[2]
SCRIPT = "turns:\n  - steps:\n      - text: It is so.\n"
ROUNDS = 30  # which take a minute
PRESSES = 150
HEARD = b"\x1b]2;heard\x07"

# The app with a client that has nothing behind it, and no way out but a crash; Ctrl+C is answered by a title.
LISTENER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from core.arguments import ScreenArguments
from tests.support.scripted_client import ScriptedClient
from textual import events
from tui import app

async def connect(*_):
    return ScriptedClient()

async def hear(self, event, handle=app.AgentApp.on_event):
    await handle(self, event)
    if isinstance(event, events.Key) and event.key == "ctrl+c":
        self._driver.write_sequence({HEARD.decode()!r})

app.AgentApp.on_event = hear
app.AgentApp.exit = lambda self, *words, **more: None
app.AgentApp.action_suspend_process = lambda self: None
sys.exit(app.run(ScreenArguments(directory=Path.cwd(), model="m"), connect))
"""
PIECES = (
    *(
        b"a",
        b"\r",
        b"\t",
        b"\x7f",
        b"\x1b",
        b"\x1b[A",
        b"\x1b[1;5C",
        b"\x1bOP",
        b"\x1bx",
        b"/",
        b"@",
        b"?",
        b"\x0e",
        b"\x10",
    ),
    *(
        b"\x1b[97;1:1u",
        b"\x1b[99999999u",
        b"\x1b[97;;1114112u",
        b"\x1b[6915012649A",
        b"\x1b[27;2;13~",
        b"\x1b[;;;u",
        b"\x1b[99~",
    ),
    *(
        b"\x1b[200~",
        b"\x1b[201~",
        b"\x1b[200~two\x1b[31m\x11 lines\n\x07\x00\xff\x1b[201~",
        b"\x1b[20",
        b"0~",
        b"\x1b[",
        b"\x1b]",
    ),
    *(
        b"\x1b[?62;22c",
        b"\x1b[24;80R",
        b"\x1b]11;rgb:1414/1616/1c1c\x1b\\",
        b"\x1b]11;rgb:",
        b"\x1bP>|xterm\x1b\\",
        b"\x1bP",
        b"\x1b_G",
    ),
    *(
        b"\x1b[<0;10;4M",
        b"\x1b[<0;10;4m",
        b"\x1b[<64;10;4M",
        b"\x1b[<35;99999;4M",
        b"\x1b[M !!",
        b"\x1b[I",
        b"\x1b[O",
        b"\xe9",
        b"\xf0\x9f",
    ),
)


def find_screen_text(terminal: Terminal, since: int = 0) -> str:
    return ESCAPES.sub(b"", bytes(terminal.output[since:])).decode(errors="replace")


@pytest.fixture
def program(tmp_path) -> list[str]:
    (tmp_path / "project").mkdir()
    (tmp_path / "script.yaml").write_text(SCRIPT)
    model = f"scripted/{tmp_path / 'script.yaml'}"
    return [sys.executable, str(ROOT / "agent_tui.py"), str(tmp_path / "project"), "--model", model]


def test_a_paste_with_control_characters_is_text_and_none_of_it_is_drawn_as_a_sequence(program):
    with Terminal(program) as terminal:
        terminal.wait_for(b"Ask for a change")
        terminal.write(b"\x1b[200~one \x1b[31mred\x1b[0m\x07\x11\x03 \x1b]0;mine\x07two\xff end\x1b[201~")
        terminal.wait_for(b"end")
        terminal.write(b"\x06")  # a search, whose line is another widget
        terminal.wait_for(b"Search")
        terminal.write(b"\x1b[200~x\x1b]0;mine\x07\x1b[2Jfound\x1b[201~")
        terminal.wait_for(b"found")
        terminal.settle()
        assert b"\x1b]0;mine" not in terminal.output
        terminal.write(b"\x1b")
        terminal.settle()
        terminal.write(b"\r")
        terminal.wait_for(b"It is so")


def test_a_paste_without_an_end_and_answers_that_come_late_stop_nothing(program):
    with Terminal(program) as terminal:
        terminal.wait_for(b"Ask for a change")
        terminal.write(b"\x1b[200~pasted")
        terminal.wait_for(b"pasted")
        terminal.write(b"\x1b[?62;22c\x1b]10;rgb:1/2/3\x1b\\\x1b[24;80R\x1b[97;1:1u\x1b[99999999u\x1b[6915012649A")
        terminal.settle()
        at = len(terminal.output)
        terminal.write(b"\r")
        terminal.wait_for(b"It is so")
        assert "pasteda" in find_screen_text(terminal)
        assert "rgb" not in find_screen_text(terminal)
        assert "62;22" not in find_screen_text(terminal, at)


@pytest.mark.skipif(not TMUX, reason="there is no tmux here")
def test_enter_with_shift_is_a_new_line_in_tmux_and_a_paste_of_its_buffer_is_text(program, tmp_path):
    server = Tmux(tmp_path)
    server.start("sh", "-c", f"tmux set -s extended-keys on; exec {shlex.join(program)}")
    try:
        server.until("Ask for a change")
        server.run("send-keys", "one", "S-Enter", "two")
        rows = server.until("two").splitlines()
        assert [row.split()[-1] for row in rows if row.endswith(("one", "two"))] == ["one", "two"]
        (tmp_path / "buffer").write_bytes(b" pasted\x11\x1b[31m here")
        server.run("load-buffer", str(tmp_path / "buffer"))
        server.run("paste-buffer", "-p")
        server.until("here")
        server.run("send-keys", "Enter")
        server.until("It is so")
    finally:
        server.run("kill-server")


@pytest.mark.parametrize("key", [b"\x03", b"\x1c"], ids=["ctrl+c", "ctrl+backslash"])
def test_a_key_that_is_a_signal_is_left_to_the_editor_that_has_the_terminal(program, tmp_path, key):
    editor = tmp_path / "editor"
    editor.write_text(
        '#!/bin/sh\ntrap "echo heard it" INT QUIT\necho it is open\nread word\nread word\necho new > "$1"\n'
    )
    editor.chmod(0o755)
    with Terminal(program, env={**os.environ, "EDITOR": str(editor)}) as terminal:
        terminal.wait_for(b"Ask for a change")
        terminal.write(b"old\x07")
        terminal.wait_for(b"it is open")
        terminal.write(key)
        terminal.wait_for(b"heard it")
        terminal.write(b"\n\n")
        terminal.wait_for(b"new")
        terminal.write(b"er\r")
        terminal.wait_for(b"It is so")
        assert terminal.process.is_running()


def is_trusted_content(terminal: Terminal) -> None:
    """Press Ctrl+C, again and again, until the app has heard it."""
    at = len(terminal.output)
    for _ in range(PRESSES):
        terminal.write(b"\x03")
        terminal.drain(0.4)
        if HEARD in terminal.output[at:]:
            return
    raise TimeoutError(f"it hears nothing; the end: {find_screen_text(terminal)[-400:]}")


def test_after_a_minute_of_any_bytes_the_program_is_there_and_hears_ctrl_c(tmp_path):
    dice = random.Random(os.environ.get("AGENT_TUI_SEED", "35"))
    with Terminal([sys.executable, "-c", LISTENER], cwd=tmp_path, env={**os.environ, "EDITOR": "true"}) as terminal:
        terminal.wait_for(b"Ask for a change")
        for _ in range(ROUNDS):
            for _ in range(dice.randrange(1, 40)):
                piece = dice.choice(PIECES) if dice.random() < 0.7 else dice.randbytes(dice.randrange(1, 30))
                terminal.write(piece[: dice.randrange(1, len(piece) + 1)] if dice.random() < 0.2 else piece)
                terminal.drain(dice.choice((0.0, 0.0, 0.0, 0.03, 0.3)))
            is_trusted_content(terminal)
        assert terminal.process.is_running()
        assert b"Traceback" not in terminal.output
