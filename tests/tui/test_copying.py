from __future__ import annotations

import base64

import pytest

from core.protocol import documents as d
from core.protocol import events as e
from core.protocol.queries import (
    DiffAnswer,
    DiffQuery,
    FileAnswer,
    FileQuery,
    PatchAnswer,
    PatchQuery,
    TreeAnswer,
    TreeEntry,
    TreeQuery,
)
from core.protocol.review import Change, FileState
from core.shadow.diff.diff_lines import build_diff
from core.shadow.diff.hunks import compute_hunks
from tests.support import recorded
from tests.tui.review_case import PRICES
from tests.tui.test_planning import WRITTEN, opened
from tui.files.file_tree import FileTree
from tui.files.file_view import FileView
from tui.plan.text_view import PlanText
from tui.review.diff.view import DiffView
from tui.screens.controllers.copying import list_hunk_lines
from tui.terminal import copying
from tui.terminal.copying import CopyTool, copy_text, find_copy_tools
from tui.terminal.sequences import format_clipboard, wrap_sequence

BASE = "".join(f"line {number}\n" for number in range(1, 41))
PENDING = BASE.replace("line 3\n", "line three\nand a half\n").replace("line 30\n", "").replace("line 40\n", "line 40")
SAID = d.TextDocument(
    id="a", sequence=1, content="So:\n\n```python\nprint(1)\n```\n\nand\n\n~~~\nmake\n~~~\n\nThat is all."
)


def having(*names: str):
    return lambda name: f"/bin/{name}" if name in names else None


@pytest.mark.parametrize(
    ("environment", "platform", "there", "used"),
    [
        ({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, "linux", ("wl-copy", "xclip"), ["wl-copy"]),
        ({"DISPLAY": ":0"}, "linux", ("wl-copy", "xclip", "xsel"), ["xclip"]),
        ({"DISPLAY": ":0"}, "linux", ("xsel",), ["xsel"]),
        ({"TMUX": "x", "DISPLAY": ":0"}, "linux", ("tmux", "xsel"), ["tmux", "xsel"]),
        ({}, "linux", ("tmux", "wl-copy", "xclip", "xsel"), []),
        ({}, "darwin", ("pbcopy",), ["pbcopy"]),
        ({"WSL_INTEROP": "x"}, "linux", ("clip.exe",), ["clip.exe"]),
    ],
)
def test_the_tools_at_hand_are_found(environment, platform, there, used):
    assert [copy_tool.name for copy_tool in find_copy_tools(environment, platform, having(*there))] == used


async def test_what_took_a_text_is_said_and_a_tool_that_fails_is_not(tmp_path):
    written: list[str] = []
    taken = CopyTool("taken", ("tee", str(tmp_path / "taken")), ())
    report = await copy_text(
        "é\n", written.append, [taken, CopyTool("failed", ("false",), ()), CopyTool("no", ("/no",), ())]
    )
    assert report.taken_by == ("the terminal", "taken")
    assert (tmp_path / "taken").read_text() == "é\n"
    assert written == ["\x1b]52;c;" + base64.b64encode("é\n".encode()).decode() + "\x07"]


async def test_a_text_too_long_for_the_terminal_is_left_to_the_tools():
    written: list[str] = []
    report = await copy_text("x" * 80_000, written.append, [])
    assert (written, report.taken_by) == ([], ())
    assert "Too long for the terminal" in report.hint


async def test_a_tool_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(copying, "COPY_TIMEOUT", 0.05)
    assert (await copy_text("x", None, [CopyTool("slow", ("sleep", "60"), ())])).taken_by == ()


def test_sequences_are_wrapped_for_multiplexers():
    assert wrap_sequence("\x1b]9;a\x07", "tmux") == "\x1bPtmux;\x1b\x1b]9;a\x07\x1b\\"
    long = format_clipboard("y" * 3_000, "screen")
    pieces = long.split("\x1b\\")[:-1]
    assert all(piece.startswith("\x1bP") and len(piece) <= 502 for piece in pieces)
    whole = "".join(piece.removeprefix("\x1bP") for piece in pieces)
    assert whole == format_clipboard("y" * 3_000)


def test_the_lines_of_a_hunk_are_what_it_puts_there_else_what_it_takes_out():
    hunks = compute_hunks(BASE.encode(), PENDING.encode())
    state = FileState(blob="b", mode=0o644)
    change = Change(path="a.txt", operation="edit", base=state, pending=state, hunks=hunks)
    diff = build_diff(change, BASE.encode(), PENDING.encode())
    assert list_hunk_lines(diff, 0) == "line three\nand a half"
    assert list_hunk_lines(diff, 1) == "line 30"


@pytest.mark.parametrize(
    ("typed", "copied"),
    [("/copy", SAID.content), ("/copy code", "print(1)"), ("/copy code 2", "make")],
)
async def test_the_last_answer_and_its_code_are_copied(stage, typed, copied):
    async with stage([*recorded.opening(), recorded.turn()[0], e.DocumentFinished(document=SAID)]) as on:
        await on.pilot.press(*typed, "enter")
        await on.until(lambda: on.app.clipboard)
        assert on.app.clipboard == copied


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/copy", "No answer yet"),
        ("/copy code 3", "has 0 code blocks"),
        ("/copy hunk", "No hunk"),
        ("/copy it", "'it'"),
    ],
)
async def test_what_can_not_be_copied_is_said(stage, typed, said):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*typed, "enter")
        await on.until(lambda: any(said in notification.message for notification in on.app._notifications))
        assert not on.app.clipboard


async def test_y_copies_the_hunk_in_the_review_and_hunk_and_patch_are_patches(stage):
    patch = PatchAnswer(patch="--- a/é\n+++ b/é\n".encode(), paths=("é",), left_out=(("x", "why"),))
    answers = {DiffQuery: DiffAnswer(diff=PRICES), PatchQuery: patch}
    async with stage(recorded.opening(), answers=answers) as on:
        await on.emit(e.ChangeProposed(change=PRICES.change))
        await on.until(lambda: on.screen.query(DiffView) and on.screen.query_one(DiffView).diff is not None)
        await on.pilot.press("ctrl+r", "y")
        await on.until(lambda: on.app.clipboard)
        assert on.app.clipboard == list_hunk_lines(PRICES, 0)
        assert not any(line.startswith(("+", "-")) for line in on.app.clipboard.split("\n"))
        on.screen.controllers.copying.action_copy("hunk")
        await on.until(lambda: on.app.clipboard == patch.patch.decode())
        on.screen.controllers.copying.action_copy("patch")
        await on.until(
            lambda: any("Left out of the patch: x" in notification.message for notification in on.app._notifications)
        )
        await on.until(lambda: len([query for query in on.client.queries if isinstance(query, PatchQuery)]) == 2)
        hunk, whole = (query for query in on.client.queries if isinstance(query, PatchQuery))
        assert (hunk.paths, hunk.hunks) == ((PRICES.change.path,), (PRICES.change.hunks[0].id,))
        assert whole == PatchQuery(session=whole.session)


async def test_y_copies_the_path_in_the_tree_and_the_lines_in_the_preview(stage):
    tree = TreeAnswer(path="", entries=(TreeEntry(name="a.py", kind="file"),))
    file = FileAnswer(path="a.py", text="one\n\ttwo\nthree\n", language="python", size=15)
    async with stage(recorded.opening(), answers={TreeQuery: tree, FileQuery: file}) as on:
        await on.pilot.press("ctrl+b")
        await on.until(lambda: on.screen.query(FileTree) and on.screen.query_one(FileTree).root.children)
        await on.pilot.press("home", "down", "y")
        await on.until(lambda: on.app.clipboard == "a.py")
        await on.pilot.press("enter")
        await on.until(lambda: on.screen.query(FileView) and on.screen.query_one(FileView).has_text)
        on.screen.query_one(FileView).focus()
        await on.pilot.press("j", "J", "y")
        await on.until(lambda: on.app.clipboard != "a.py")
        assert on.app.clipboard == "\ttwo\nthree"


async def test_y_copies_the_marked_todo_and_the_marked_lines_of_a_plan(stage):
    async with stage(WRITTEN) as on:
        todos = await opened(on)
        await on.pilot.press("y")
        await on.until(lambda: on.app.clipboard)
        assert todos.current_todo is not None
        assert on.app.clipboard == todos.current_todo.content
        await on.pilot.press("enter")
        await on.until(lambda: on.screen.query(PlanText) and on.screen.query_one(PlanText).has_focus)
        await on.pilot.press("y")
        await on.until(lambda: on.app.clipboard != todos.current_todo.content)
        assert on.app.clipboard == on.screen.query_one(PlanText).get_marked_lines()[1] != ""
