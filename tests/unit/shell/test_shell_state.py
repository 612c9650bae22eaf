from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shell.shell_state import ShellState, ShellTracker, parse_exports

BASE = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


def ran(command: str, root: Path, before: ShellState | None = None, *, piece: int = 7):
    """A command through a real shell: its own output, its exit code, and where the shell stands afterwards."""
    before = before or ShellState()
    chunks: list[str] = []
    witness = ShellTracker(chunks.append)
    done = subprocess.run(
        ["/bin/bash", "-c", witness.wrap_command(command)],
        cwd=root / before.directory,
        env=before.build_environment(BASE),
        capture_output=True,
        text=True,
        check=False,
    )
    for start in range(0, len(done.stdout), piece):
        witness.feed(done.stdout[start : start + piece])
    witness.finish()
    state, note = witness.compute_state(before, root)
    return "".join(chunks), done, state, note, witness.statuses


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("echo hi; exit 5", "hi\n", 5),
        ("printf 'no newline'", "no newline", 0),
        ("printf '[[at:'", "[[at:", 0),
        ("exec echo gone", "gone\n", 0),
        ("if", "", 2),
        ("set -eu; echo a; false; echo b", "a\n", 1),
        ("exec >/dev/null; echo hidden", "", 0),
        ("kill -9 $$", "", -9),
    ],
)
def test_the_commands_own_output_and_exit_code_come_through(tmp_path, command, output, code):
    text, done, state, _, _ = ran(command, tmp_path)
    assert (text, done.returncode) == (output, code)
    assert state == ShellState()


def test_a_trace_shows_the_commands_steps_and_none_of_ours(tmp_path):
    _, done, *_ = ran("set -x; echo hi", tmp_path)
    assert done.stderr == "+ echo hi\n"


@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_directory_and_variables_last(tmp_path, piece):
    (tmp_path / "sub").mkdir()
    _, _, state, note, _ = ran(
        "cd sub; export A=$'l1\\nl2\\t\\'q\" $x `y` \\\\ \\e[0m'; unset HOME; B=5", tmp_path, piece=piece
    )
    assert (state.directory, note) == ("sub", "")
    assert dict(state.variables) == {"A": "l1\nl2\t'q\" $x `y` \\ \x1b[0m"}
    assert state.removed == {"HOME"}
    text, *_ = ran('printf "%s|%s|%s" "$A" "${HOME-none}" "$PWD"', tmp_path, state, piece=piece)
    assert text == f"{state.variables['A']}|none|{tmp_path}/sub"


def test_a_virtual_environment_stays_active_until_it_is_left(tmp_path):
    (tmp_path / "activate").write_text(
        'export VIRTUAL_ENV="$PWD/v" OLD="$PATH"; PATH="$VIRTUAL_ENV/bin:$PATH"; export PATH\n'
    )
    _, _, state, _, _ = ran("source activate", tmp_path)
    assert state.variables["PATH"] == f"{tmp_path}/v/bin:/usr/bin:/bin"
    _, _, left, _, _ = ran('PATH="$OLD"; unset VIRTUAL_ENV OLD', tmp_path, state)
    assert left.build_environment(BASE) == BASE


def test_a_place_outside_lasts_no_longer_than_its_command(tmp_path):
    _, _, state, note, _ = ran("cd /usr", tmp_path)
    assert state.directory == "."
    assert "/usr" in note


def test_a_shell_that_saw_the_workspace_elsewhere_moves_in_the_workspace(tmp_path):
    (tmp_path / "sub").mkdir()
    chunks: list[str] = []
    witness = ShellTracker(chunks.append)
    script = witness.wrap_command("cd sub; export V=$PWD/x")
    done = subprocess.run(
        ["/bin/bash", "-c", script], cwd=tmp_path, env=BASE, capture_output=True, text=True, check=True
    )
    witness.feed(done.stdout)
    state, note = witness.compute_state(ShellState(), Path("/elsewhere"))
    assert (state.directory, state.variables["V"], note) == ("sub", "/elsewhere/sub/x", "")


def test_the_codes_of_the_last_pipeline_are_told(tmp_path):
    *_, statuses = ran("true; (exit 4) | true | (exit 2)", tmp_path)
    assert statuses == (4, 0, 2)


def test_what_looks_like_a_secret_is_not_written_down():
    state = ShellState(
        variables={
            "API_KEY": "x",
            "GITHUB_TOKEN": "x",
            "PLAIN": "sk-abcdefghijklmnopqrstuvwx",
            "URL": "http://u:p@h",
            "A": "b",
        }
    )
    assert state.list_public_variables() == {"A": "b"}


def test_ours_and_the_shells_own_variables_are_not_the_users():
    lines = ('AGENT_TUI_COMMAND="x"', 'PWD="/"', 'SHLVL="1"', "OLDPWD", 'A="b"')
    text = "".join(f"declare -x {line}\n" for line in lines)
    assert parse_exports(text) == {"A": "b"}


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\ufffd"), max_size=40))
def test_every_value_comes_back_as_bash_writes_it(value):
    command, env = ["/bin/bash", "--norc", "-c", "export -p"], {"V": value, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, env=env, capture_output=True, check=True)
    assert parse_exports(done.stdout.decode())["V"] == value
