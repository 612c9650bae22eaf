"""Places of the project in the user's editor: small programs on PATH that write down what they are called with."""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.protocol import commands as c
from core.protocol import documents as d
from core.protocol import events as e
from core.protocol import queries as q
from tests.support import recorded
from tests.tui.review_case import TESTS
from tui.dialogs.picker import PickerDialog
from tui.files.editors import FilePosition, build_editor_command, choose_editor, find_positions, match_edits
from tui.files.file_tree import FileTree
from tui.files.file_view import FileView

PENDING = "def test_total():\n    assert total([]) == Decimal(0)\n\nx = 1\n"


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "prices.py").write_text("a = 1\nb = 2\nc = 3\n")
    return root


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Put a program on PATH as the editor; return what reads its calls."""
    place, log_path = tmp_path / "bin", tmp_path / "calls"
    place.mkdir()
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")

    def install(name: str, body: str = "", *, words: str = ""):
        (place / name).write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >> '{log_path}'\n{body}\n")
        (place / name).chmod(0o755)
        monkeypatch.setenv("VISUAL", f"{name} {words}".strip())
        return lambda: log_path.read_text().splitlines() if log_path.exists() else []

    return install


def opening(project: Path, *events: e.AnyEvent) -> list[e.AnyEvent]:
    begun = [
        replace(event, workspace=str(project)) if isinstance(event, e.SessionStarted) else event
        for event in recorded.opening()
    ]
    return [*begun, *events]


PLACE = FilePosition("/p/a.py", 7, 3)
FORMS = [
    ("vi", "vi +7 /p/a.py", "vi +7 /p/a.py"),
    ("vim -u NONE", "vim -u NONE +7 /p/a.py", "vim -u NONE +7 /p/a.py"),
    ("nvim", "nvim +7 /p/a.py", "nvim +7 /p/a.py"),
    ("nano", "nano +7,3 /p/a.py", "nano +7,3 /p/a.py"),
    ("emacs -nw", "emacs -nw +7:3 /p/a.py", "emacs -nw +7:3 /p/a.py"),
    ("hx", "hx /p/a.py:7:3", "hx /p/a.py:7:3"),
    ("code", "code --goto /p/a.py:7:3", "code --wait --goto /p/a.py:7:3"),
    ("code --wait", "code --wait --goto /p/a.py:7:3", "code --wait --goto /p/a.py:7:3"),
    ("/opt/x/codium", "/opt/x/codium --goto /p/a.py:7:3", "/opt/x/codium --wait --goto /p/a.py:7:3"),
    ("idea", "idea --line 7 --column 3 /p/a.py", "idea --wait --line 7 --column 3 /p/a.py"),
    ("subl", "subl /p/a.py:7:3", "subl --wait /p/a.py:7:3"),
    ("mate", "mate --line 7:3 /p/a.py", "mate --wait --line 7:3 /p/a.py"),
    ("kate", "kate --line 7 --column 3 /p/a.py", "kate --block --line 7 --column 3 /p/a.py"),
    ("own-editor -x", "own-editor -x /p/a.py", "own-editor -x /p/a.py"),
]
WINDOWS = {"code", "codium", "idea", "subl", "mate", "kate"}


@pytest.mark.parametrize(("editor", "opened", "waited_for"), FORMS, ids=[each[0] for each in FORMS])
def test_each_editor_is_told_the_line_in_its_own_form(editor, opened, waited_for):
    words = editor.split()
    call = build_editor_command(words, PLACE, {})
    assert call.commands == (tuple(opened.split()),)
    assert call.has_window is (Path(words[0]).name in WINDOWS)
    assert build_editor_command(words, PLACE, {}, is_blocking=True).commands == (tuple(waited_for.split()),)


def test_the_nvim_around_us_shows_the_file_and_one_that_is_waited_for_is_a_new_one():
    call = build_editor_command(["nvim"], PLACE, {"NVIM": "/run/nvim.1"})
    assert call.has_window
    assert [" ".join(command) for command in call.commands] == [
        "nvim --server /run/nvim.1 --remote /p/a.py",
        "nvim --server /run/nvim.1 --remote-expr cursor(7,3)",
    ]
    assert build_editor_command(["nvim"], PLACE, {"NVIM": "/run/nvim.1"}, is_blocking=True).commands == (
        ("nvim", "+7", "/p/a.py"),
    )


@pytest.mark.parametrize(
    ("more", "chosen"),
    [
        ({}, "vi"),
        ({"TERM_PROGRAM": "vscode"}, "code"),
        ({"NVIM": "/run/nvim.1"}, "nvim"),
        ({"NVIM": "/run/nvim.1", "EDITOR": "nano"}, "nano"),
    ],
)
def test_without_a_choice_it_is_the_editor_that_we_run_in(calls, more, chosen):
    for name in ("code", "nvim", "nano", "vi"):
        calls(name)
    assert Path(choose_editor({"PATH": os.environ["PATH"], **more})[0]).name == chosen


async def test_o_in_the_tree_opens_the_users_own_file_and_the_terminal_is_given_to_the_editor(
    stage, project, calls, monkeypatch
):
    called, suspensions = calls("vim"), []
    tree = q.TreeAnswer(path="", entries=(q.TreeEntry(name="README.md", kind="file"),))
    async with stage(opening(project), answers={q.TreeQuery: tree}) as on:
        monkeypatch.setattr(on.app, "suspend", lambda: suspensions.append(1) or nullcontext())
        await on.pilot.press("ctrl+b")
        await on.until(lambda: on.screen.query(FileTree) and on.screen.query_one(FileTree).root.children)
        await on.pilot.press("home", "o")
        await on.until(called)
        assert called() == [f"+1 {project / 'README.md'}"]
        assert suspensions == [1]


async def test_o_in_the_preview_opens_the_line_in_a_window_beside_the_screen(stage, project, calls, monkeypatch):
    called = calls("code")
    file = q.FileAnswer(path="src/prices.py", text="a = 1\nb = 2\nc = 3\n")
    async with stage(opening(project), answers={q.FileQuery: file}) as on:
        monkeypatch.setattr(on.app, "suspend", lambda: pytest.fail("the screen was left"))
        await on.panes.preview_file("src/prices.py", 2)
        await on.until(lambda: on.panes.preview is not None and on.panes.preview.line == 2)
        on.screen.query_one(FileView).focus()
        await on.pilot.press("j", "o")
        await on.until(called)
        assert called() == [f"--goto {project / 'src/prices.py'}:3:1"]


async def test_o_on_a_command_opens_the_place_that_its_output_names_and_asks_which_of_several(stage, project, calls):
    called = calls("subl")
    output = (
        'E   src/prices.py:2: boom\n  File "src/prices.py", line 3, in f\nnothing.py:9: not here\n/etc/passwd:1: no'
    )
    run = d.TerminalCommandMetadata(command="pytest", output=output, exit_code=1)
    done = e.DocumentFinished(document=d.TerminalCommandDocument(id="t", sequence=1, metadata=run))
    async with stage(opening(project, e.TurnStarted(prompt="go", mode="agent", model="m"), done)) as on:
        await on.pilot.press("ctrl+up")
        await on.until(lambda: on.transcript.current_block is not None)
        await on.pilot.press("o")
        await on.until(lambda: isinstance(on.app.screen, PickerDialog))
        await on.pilot.press("down", "enter")
        await on.until(called)
        assert called() == [f"{project / 'src/prices.py'}:3:1"]


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        ("s/Decimal(0)/Decimal(1)/", "    assert total([]) == Decimal(1)\n"),
        ("s/Decimal(0)/&\\n    assert 1/", "    assert total([]) == Decimal(0)\n    assert 1\n"),
        ("2d", ""),
    ],
)
async def test_o_on_a_hunk_opens_what_is_pending_and_its_edit_comes_back(stage, clock, project, calls, edit, text):
    called = calls("code", f'for last; do :; done\nsed -i "{edit}" "${{last%:*:*}}"')
    path = TESTS.change.path
    answers = {q.DiffQuery: q.DiffAnswer(diff=TESTS), q.FileQuery: q.FileAnswer(path=path, text=PENDING)}
    async with stage(opening(project, e.ChangeProposed(change=TESTS.change)), answers=answers) as on:
        await reviewing(on, clock)
        await on.pilot.press("o")
        await on.until(lambda: on.sent(c.HunkEdit))
        (edited,) = on.sent(c.HunkEdit)
        assert (edited.path, edited.hunk, edited.text) == (path, TESTS.change.hunks[0].id, text)
        (call,) = called()
        file = Path(call.removeprefix("--wait --goto ").removesuffix(":2:1"))
        await on.until(lambda: not file.parent.exists())
        assert file.name == "test_prices.py"
        assert project not in file.parents


async def test_a_copy_that_can_not_come_back_as_a_whole_is_kept_and_named(stage, clock, project, calls):
    called = calls("code", 'for last; do :; done\nsed -i "s/x = 1/x = 2/" "${last%:*:*}"')
    answers = {q.DiffQuery: q.DiffAnswer(diff=TESTS), q.FileQuery: q.FileAnswer(path=TESTS.change.path, text=PENDING)}
    async with stage(opening(project, e.ChangeProposed(change=TESTS.change)), answers=answers) as on:
        await reviewing(on, clock)
        await on.pilot.press("o")
        await on.until(lambda: on.app._notifications)
        (notification,) = on.app._notifications
        file = called()[0].removeprefix("--wait --goto ").removesuffix(":2:1")
        assert notification.message == f"1 change outside the hunks not taken over. Your copy is saved: {file}"
        assert "x = 2" in await asyncio.to_thread(Path(file).read_text)
        assert on.sent(c.HunkEdit) == []


async def test_an_editor_that_fails_is_told_of(stage, project, calls):
    calls("code", "exit 3")
    async with stage(opening(project)) as on:
        on.screen.controllers.editor.open_place(FilePosition("src/prices.py"))
        await on.until(lambda: on.app._notifications)
        (notification,) = on.app._notifications
        assert "The editor 'code' failed" in notification.message
        assert "exit status 3" in notification.message


async def reviewing(on, clock) -> None:
    await on.pilot.press("ctrl+r")
    await on.until(lambda: on.panes.review is not None and on.panes.review.browser.get_diff() is not None)
    on.panes.review._clock = lambda: clock[0]
    on.panes.review.browser.restart_grace()
    await on.pilot.pause(0.05)
    clock[0] += 10


def test_references_are_found_in_the_forms_of_compilers_and_only_below_the_project(project):
    text = (
        "src/prices.py:2:5: error\n./src/prices.py:3: note\nb/src/prices.py:1\nsrc/prices.py(2,7): error TS1\n"
        f"{project}/src/prices.py:9\n../project/../x.py:1 /etc/passwd:1 http://host:80 12:30 new.py:4"
    )
    places = find_positions(text, str(project), {"new.py"}.__contains__)
    assert [tuple(place) for place in places] == [
        ("src/prices.py", 2, 5),
        ("src/prices.py", 3, 1),
        ("src/prices.py", 1, 1),
        ("src/prices.py", 2, 7),
        ("src/prices.py", 9, 1),
        ("new.py", 4, 1),
    ]


def test_edits_of_several_hunks_come_back_each_to_its_own_and_a_final_newline_is_none():
    first, second = (
        replace(TESTS.change.hunks[0], id=name, new_start=at, new_lines=2) for name, at in (("h", 2), ("i", 6))
    )
    before = "".join(f"{n}\n" for n in range(1, 9)).removesuffix("\n")
    after = before.replace("2\n", "two\nmore\n").replace("4\n", "four\n").replace("6\n", "six\n")
    assert match_edits(before, f"{after}\n", (first, second)) == ({"h": "two\nmore\n3\n", "i": "six\n7\n"}, 1)
    assert match_edits(before, f"{before}\n", (first, second)) == ({}, 0)
    assert match_edits(before.replace("\n", "\r\n"), before, (first, second)) == ({}, 0)
