"""What the terminal is told and asked beside the screen, read back from a pseudo-terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.terminal import ESCAPES, Terminal
from tests.support.terminals import TMUX, Tmux

ROOT = Path(__file__).parents[2]
SCRIPT = "turns:\n  - steps:\n      - text: It is so.\n"
ASKING = """
turns:
  - steps:
      - tool_calls:
          - name: ask_question
            arguments:
              questions: [{id: q, prompt: "Red\\e]0;x\\a, or; blue?", options: [{id: r, label: R}, {id: b, label: B}]}]
"""
FAILING_JOB = """
turns:
  - steps:
      - tool_calls: [{name: run_terminal_cmd, arguments: {command: "sleep 1; exit 3", is_background: true, timeout: 0}}]
      - It is so.
"""
TOLD = re.compile(rb"\x1b\](?:9|99|777);[^\x07\x1b]*\x07")
Run = Callable[..., Terminal]


@pytest.fixture
def run(tmp_path) -> Run:
    project, config = tmp_path / "project", tmp_path / "config"
    project.mkdir()
    config.mkdir()

    def start(*, script: str = SCRIPT, config_text: str = "", **environment: str) -> Terminal:
        (tmp_path / "script.yaml").write_text(script)
        (config / "config.toml").write_text(config_text)
        argv = [sys.executable, str(ROOT / "agent_tui.py"), str(project), "--model", f"scripted/{tmp_path}/script.yaml"]
        variables = {"AGENT_TUI_CONFIG_DIR": str(config), **environment}
        return Terminal(argv, env={**os.environ, **variables})

    return start


def reads(terminal: Terminal, sequence: bytes, since: int = 0) -> None:
    """Wait until a sequence has been written to the terminal."""
    terminal.wait_for(lambda _: sequence in terminal.output[since:])


def find_told(terminal: Terminal) -> list[bytes]:
    return [sequence for sequence in TOLD.findall(bytes(terminal.output)) if not sequence.startswith(b"\x1b]9;4")]


def ended_turn(terminal: Terminal, *, is_focused: bool = False) -> None:
    terminal.wait_for(b"Ask for a change")
    terminal.send("Is it")
    if not is_focused:
        terminal.write(b"\x1b[O")
    terminal.wait_for(lambda _: b"It is so" in terminal.text())
    terminal.settle()


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"TERM_PROGRAM": "WezTerm"}, b"\x1b]777;notify;agent-tui \xc2\xb7 project;Done\x07"),
        ({"TERM_PROGRAM": "iTerm.app"}, b"\x1b]9;agent-tui \xc2\xb7 project: Done\x07"),
        (
            {"KITTY_WINDOW_ID": "1"},
            b"\x1b]99;i=agent-tui:d=0;agent-tui \xc2\xb7 project\x07\x1b]99;i=agent-tui:p=body;Done\x07",
        ),
    ],
)
def test_a_terminal_without_the_focus_is_notified_in_its_own_form_when_a_turn_ends(run, environment, told):
    with run(**environment) as terminal:
        ended_turn(terminal)
        reads(terminal, told)
        assert b"".join(find_told(terminal)) == told


def test_a_terminal_without_the_focus_is_notified_when_a_background_command_ends(run):
    config = "[commands]\nwake = false\n"
    with run(script=FAILING_JOB, config_text=config, TERM_PROGRAM="iTerm.app") as terminal:
        ended_turn(terminal)
        reads(terminal, b": job_1 failed (exit code 3): sleep 1; exit 3\x07")
        terminal.wait_for(lambda _: b"job_1 failed" in terminal.text())
        assert sum(b"job_1" in sequence for sequence in find_told(terminal)) == 1


def test_a_terminal_with_the_focus_is_not_notified(run):
    with run(TERM_PROGRAM="WezTerm") as terminal:
        ended_turn(terminal, is_focused=True)
        assert find_told(terminal) == []


def test_a_terminal_that_knows_no_notification_gets_a_bell(run):
    with run() as terminal:
        ended_turn(terminal)
        terminal.wait_for(lambda _: b"\x07" in ESCAPES.sub(b"", bytes(terminal.output)))
        assert find_told(terminal) == []


def test_what_is_asked_can_not_break_out_of_its_notification(run):
    with run(script=ASKING, config_text='[notify]\nterminal = "osc9"\nwhen = "always"\n') as terminal:
        terminal.wait_for(b"Ask for a change")
        terminal.send("Ask me")
        reads(terminal, b"\x1b]9;agent-tui")
        terminal.settle()
        (notification,) = find_told(terminal)
        assert "Asks: Red␛]0;x␇, or; blue?".encode() in notification
        assert b"\x1b]0;x" not in terminal.output


def test_the_users_command_gets_title_and_text_as_arguments(run, tmp_path):
    heard = tmp_path / "heard"
    program = tmp_path / "tell"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {heard}\n')
    program.chmod(0o755)
    config = f'[notify]\nterminal = "off"\nwhen = "always"\ncommand = ["{program}", "--app", "$(touch {tmp_path}/x)"]\n'
    with run(config_text=config) as terminal:
        ended_turn(terminal)
        terminal.wait_for(lambda _: heard.exists() and heard.read_text())
    assert heard.read_text() == f"--app|$(touch {tmp_path}/x)|agent-tui · project|Done|"
    assert not (tmp_path / "x").exists()


def test_title_and_tab_tell_how_it_goes_and_are_given_back(run):
    with run(TERM_PROGRAM="ghostty") as terminal:
        ended_turn(terminal)
        reads(terminal, "\x1b]2;agent-tui · project · working\x07".encode())
        reads(terminal, b"\x1b]9;4;3;0\x07")
        reads(terminal, b"\x1b]9;4;0;0\x07")
        at = len(terminal.output)
        terminal.write(b"\x11")
        reads(terminal, b"\x1b[23;2t", at)
        assert terminal.output.count(b"\x1b[22;2t") == 1


def test_title_and_tab_are_left_alone_where_the_settings_say_so(run):
    with run(TERM_PROGRAM="ghostty", config_text="[notify]\ntitle = false\nprogress = false\n") as terminal:
        ended_turn(terminal)
        assert b"\x1b]2;" not in terminal.output
        assert b"\x1b]9;4;3" not in terminal.output


def test_a_light_terminal_is_asked_and_no_key_is_lost_to_its_answer(run):
    with run() as terminal:
        reads(terminal, b"\x1b]11;?\x1b\\")
        terminal.write(b"ab\x1b]11;rgb:ffff/ff")
        terminal.write(b"ff/fdfd\x1b\\cd")
        terminal.settle()
        terminal.write(b"\r")
        terminal.wait_for("❯ abcd".encode())
        reads(terminal, b"48;2;251;251;250")  # the background of the light theme
        assert b"rgb:" not in ESCAPES.sub(b"", bytes(terminal.output))
        at = len(terminal.output)
        terminal.write(b"\x1b[O\x1b[I")
        reads(terminal, b"\x1b]11;?\x1b\\", at)
        terminal.write(b"\x1b]11;#101010\x07")
        reads(terminal, b"48;2;20;22;28", at)


def test_a_terminal_that_does_not_answer_is_taken_for_dark(run):
    with run() as terminal:
        reads(terminal, b"\x1b]11;?\x1b\\")
        terminal.wait_for(b"Ask for a change")
        terminal.write(b"\x1b]")  # Alt and ], as it is typed
        terminal.echo(b"x")
        terminal.echo(b"y")
        assert b"48;2;20;22;28" in terminal.output


def test_a_locale_without_our_signs_gets_ascii_and_the_layout_stays(run):
    with run(
        PYTHONIOENCODING="latin-1", PYTHONUTF8="0", script=SCRIPT.replace("It is so", "It is so, 한 é")
    ) as terminal:
        terminal.wait_for(b"Ask for a change")
        terminal.send("Is it")
        terminal.wait_for(lambda _: b"It is so, ? \xe9" in terminal.text())
        assert b"> Is it" in terminal.text()
        assert b"\\u" not in terminal.text()


@pytest.fixture
def tmux(tmp_path):
    server = Tmux(tmp_path)
    yield server
    server.run("kill-server")


@pytest.mark.skipif(not TMUX, reason="there is no tmux here")
@pytest.mark.parametrize("is_known", [False, True], ids=["by OSC 52 alone", "as tmux"])
def test_an_answer_that_is_copied_is_in_the_buffer_of_tmux(run, tmux, tmp_path, is_known):
    (tmp_path / "script.yaml").write_text("turns:\n  - steps:\n      - text: It is ‘so’ — 한국어.\n")
    argv = [sys.executable, str(ROOT / "agent_tui.py"), str(tmp_path / "project")]
    hidden = () if is_known else ("-u", "TMUX")
    tmux.start("env", *hidden, *argv, "--model", f"scripted/{tmp_path}/script.yaml")
    for cue, typed in (("Ask for a change", "Is it"), ("한국어", "/copy")):
        tmux.until(cue)
        tmux.run("send-keys", "-l", typed)
        tmux.until(typed)
        tmux.run("send-keys", "Enter")
    noted = tmux.until("Copied")
    assert ("tmux" in noted.partition("Copied")[2].partition("\n")[0]) == is_known
    assert tmux.until("so", "show-buffer") == "It is ‘so’ — 한국어."


@pytest.mark.skipif(not TMUX, reason="there is no tmux here")
def test_in_tmux_without_24_bit_colours_the_palette_of_256_is_drawn(run, tmux, tmp_path):
    (tmp_path / "script.yaml").write_text(SCRIPT)
    argv = [sys.executable, str(ROOT / "agent_tui.py"), str(tmp_path / "project")]
    tmux.start("env", "-u", "COLORTERM", *argv, "--model", f"scripted/{tmp_path}/script.yaml")
    tmux.until("Ask for a change")
    screen = tmux.until("48;5;233", "capture-pane", "-e", "-p")
    assert "48;2;" not in screen
