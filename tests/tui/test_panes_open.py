from __future__ import annotations

import asyncio
from typing import get_args

import pytest
from textual.widget import Widget
from textual.widgets import Static

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol.queries import (
    FileAnswer,
    FileQuery,
    FindAnswer,
    FindQuery,
    RefusedAnswer,
    TreeAnswer,
    TreeEntry,
    TreeQuery,
)
from tests.support import recorded
from tui.ask.approval_bar import ApprovalBar
from tui.ask.question_bar import QuestionBar
from tui.files.file_tree import FileTree
from tui.panes import PANES
from tui.review import messages as review_messages
from tui.state import Topic
from tui.widgets.side_pane import SidePane

TREE = TreeAnswer(path="", entries=(TreeEntry(name="shop", kind="directory"), TreeEntry(name="README.md", kind="file")))
FILE = FileAnswer(path="README.md", text="# Shop\n", language="markdown", size=7)
ANSWERS = {TreeQuery: TREE, FileQuery: FILE}


@pytest.mark.parametrize(
    ("key", "name"), [("ctrl+r", "review"), ("ctrl+t", "plan"), ("ctrl+o", "preview"), ("f6", "debug")]
)
@pytest.mark.parametrize("size", [(120, 40), (60, 16)], ids=["wide", "narrow"])
async def test_a_key_shows_a_pane_and_hides_it_again(stage, key, name, size):
    async with stage(recorded.opening(), size=size, answers=ANSWERS) as on:
        await on.pilot.press(key)
        await on.until(lambda: on.panes.side is not None and on.panes.side.current == name)
        await on.pilot.pause(0.05)
        on.panes.side.get_pane(name).focus()
        await on.pilot.press("escape") if size[0] < 100 else await on.pilot.press(key)
        await on.pilot.pause(0.05)
        if not on.prompt.has_focus:
            await on.pilot.press("escape")
        await on.until(lambda: on.prompt.has_focus)
        assert on.prompt.display


@pytest.mark.parametrize("size", [(120, 40), (60, 16)], ids=["wide", "narrow"])
async def test_the_files_are_shown_and_hidden(stage, size):
    async with stage(recorded.opening(), size=size, answers=ANSWERS) as on:
        await on.pilot.press("ctrl+b")
        await on.until(lambda: on.screen.query("#left"))
        await on.pilot.pause(0.05)
        assert on.screen.query_one("#left").display
        await on.pilot.press("ctrl+b")
        await on.until(lambda: not on.screen.query_one("#left").display)
        assert on.prompt.has_focus


async def test_the_files_are_those_on_disk_when_anything_may_have_changed_and_a_refusal_is_shown(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.pilot.press("ctrl+b")
        await on.until(lambda: on.screen.query("FileTree"))
        tree = on.screen.query_one(FileTree)
        await on.until(lambda: tree.last_line == 1)
        on.client.answers[TreeQuery] = TreeAnswer(path="", entries=(TreeEntry(name="new.md", kind="file"),))
        on.client.emit(e.FilesChanged())
        await on.until(lambda: [child.data.name for child in tree.root.children] == ["new.md"])
        on.client.answers[TreeQuery] = RefusedAnswer(code="refused", message="'': Permission denied.")
        on.client.emit(e.FilesChanged())
        await on.until(lambda: [child.data.name for child in tree.root.children] == ["Permission denied."])
        assert not on.app._notifications


async def test_in_a_narrow_window_escape_puts_away_what_covers_the_prompt_one_by_one(stage):
    tree = TreeAnswer(path="", entries=(TreeEntry(name="README.md", kind="file"),))
    answers = {**ANSWERS, TreeQuery: tree, FindQuery: FindAnswer(paths=("README.md", "shop/a.py"))}
    async with stage(recorded.opening(), size=(80, 24), answers=answers) as on:
        await on.pilot.press("ctrl+b")
        await on.until(lambda: type(on.screen.focused).__name__ == "FileTree")
        await on.pilot.press("/")
        await on.until(lambda: type(on.screen.focused).__name__ == "FindInput")
        await on.pilot.press(*"re")
        await on.until(lambda: on.screen.query("FilePane OptionList").last().option_count == 2)
        await on.pilot.press("enter")
        await on.until(lambda: on.panes.side is not None and on.panes.side.current == "preview")
        await on.until(lambda: not on.screen.query_one("#left").display)
        await on.pilot.press("escape")
        await on.until(lambda: type(on.screen.focused).__name__ == "FileTree")
        await on.until(lambda: on.screen.focused.cursor_node.data.path == "README.md")
        await on.pilot.press("escape")
        await on.until(lambda: on.prompt.has_focus)
        assert not on.screen.query_one("#left").display


async def test_a_pane_that_comes_by_itself_covers_nothing_in_a_window_that_got_narrow_meanwhile(stage, monkeypatch):
    async with stage(recorded.opening(), size=(120, 30)) as on:
        await on.emit(*recorded.turn())
        await on.until(lambda: on.panes.side is not None and on.panes.side.current == "review")
        show = SidePane.show

        async def show_late(side: SidePane, name: str) -> object:
            await on.pilot.resize_terminal(80, 30)
            return await show(side, name)

        with monkeypatch.context() as slow:
            slow.setattr(SidePane, "show", show_late)
            await on.panes.show_beside("plan")
        await on.until(lambda: on.prompt.has_focus)
        assert (on.panes.side.current, on.screen.query_one("#centre").display) == ("", True)
        await on.pilot.resize_terminal(120, 30)
        await on.until(lambda: on.panes.side.current == "plan")
        assert on.prompt.has_focus


async def test_the_review_pops_up_with_the_first_change_and_leaves_the_focus(stage):
    async with stage(recorded.opening()) as on:
        await on.emit(*recorded.turn())
        await on.until(lambda: on.panes.side is not None and on.panes.side.current == "review")
        assert on.prompt.has_focus


async def test_verdicts_of_the_review_reach_the_engine(stage):

    async with stage(recorded.opening()) as on:
        on.screen.post_message(
            review_messages.VerdictRequested(c.HunkResolve(path="a.py", hunks=("h1",), verdict="accept"))
        )
        on.screen.post_message(review_messages.CommandRequested(c.VerdictUndo()))
        await on.until(lambda: on.sent(c.VerdictUndo))
        assert on.sent(c.HunkResolve)[0].hunks == ("h1",)


async def test_t6_a_window_that_is_too_small_says_so_and_loses_nothing(stage):
    async with stage([*recorded.opening(), *recorded.turn()], size=(120, 40)) as on:
        await on.pilot.press(*"text")
        for size in ((40, 10), (20, 5), (1, 1), (60, 16), (500, 200), (120, 40)):
            await on.pilot.resize_terminal(*size)
            await on.pilot.pause(0.02)
        assert on.prompt.text == "text"
        await on.pilot.resize_terminal(40, 10)
        await on.pilot.pause(0.05)
        assert on.screen.query_one("#too-small").display
        assert not on.screen.query_one("#body").display


async def test_nothing_runs_while_nothing_happens(stage):
    async with stage([*recorded.opening(), *recorded.turn()]) as on:
        await on.pilot.pause(0.2)
        assert [
            timer for widget in on.screen.walk_children() for timer in widget._timers if timer._active.is_set()
        ] == []


async def test_another_session_empties_the_panes_of_the_old_one(stage):
    def react(client, command):
        return c.Ack(session="ses_other") if isinstance(command, c.SessionResume) else None

    async with stage(recorded.opening(), react=react) as on:
        await on.emit(*recorded.turn())
        await on.until(lambda: on.panes.side is not None and on.panes.side.get_pane("review"))
        review = on.panes.side.get_pane("review")
        await on.until(lambda: review.browser.changes)
        on.client.log.clear()
        on.screen.controllers.sessions.action_choose_session("ses_other")
        await on.until(lambda: not review.browser.changes)
        assert on.screen.state.session_id == "ses_other"


@pytest.mark.parametrize("size", [(120, 40), (60, 16)], ids=["wide", "narrow"])
async def test_what_is_marked_in_the_preview_goes_into_the_prompt(stage, size):
    file = FileAnswer(path="my docs/a.py", text="a = 1\nb = 2\nc = 3\n", language="python", size=18)
    async with stage(recorded.opening(), size=size, answers={FileQuery: file}) as on:
        await on.pilot.press(*"fix")
        await on.panes.preview_file("my docs/a.py", 2)
        await on.until(lambda: on.panes.preview.query("FileView") and on.panes.preview.query_one("FileView").has_text)
        on.panes.preview.focus()
        await on.pilot.press("J", "@")
        await on.until(lambda: on.prompt.has_focus)
        assert on.prompt.text == 'fix @"my docs/a.py:2-3" '


async def test_a_prompt_says_where_the_user_looks(stage):
    file = FileAnswer(path="a.py", text="a = 1\nb = 2\nc = 3\n", language="python", size=18)
    async with stage(recorded.opening(), answers={FileQuery: file}) as on:
        await on.panes.preview_file("a.py", 2)
        await on.until(lambda: on.panes.preview.query_one("FileView").has_text)
        on.panes.preview.focus()
        await on.pilot.press("J", "escape", *"why?", "enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        sent = on.sent(c.TurnSubmit)[0]
        assert sent.open_files == ("a.py",)
        assert sent.viewing == c.Viewing(path="a.py", line=3, start=2, end=3, selected="b = 2\nc = 3")
        await on.pilot.press("ctrl+r", "escape", *"and?", "enter")
        await on.until(lambda: len(on.sent(c.TurnSubmit)) == 2)
        assert on.sent(c.TurnSubmit)[1].viewing is None


async def test_an_open_preview_follows_its_file(stage):
    file = FileAnswer(path="a.py", text="a = 1\n", language="python", size=6)
    async with stage(recorded.opening(), answers={FileQuery: file}) as on:
        await on.panes.preview_file("a.py")
        await on.until(lambda: on.panes.preview.query_one("FileView").get_row_text(0) == "a = 1")
        on.client.answers[FileQuery] = FileAnswer(path="a.py", text="a = 2\n", language="python", size=6)
        await on.emit(e.FilesChanged(paths=("a.py",)))
        await on.until(lambda: on.panes.preview.query_one("FileView").get_row_text(0) == "a = 2")
        on.client.answers[FileQuery] = FileAnswer(path="a.py", text="", problem="There is no such file.")
        await on.emit(e.FilesChanged())
        await on.until(lambda: not on.panes.preview.query_one("FileView").has_text)
        asked = [query for query in on.client.queries if isinstance(query, FileQuery)]
        await on.emit(e.FilesChanged(paths=("b.py",)))
        assert [query for query in on.client.queries if isinstance(query, FileQuery)] == asked


async def test_a_key_that_asks_for_a_pane_while_the_side_is_put_together_waits_for_it(stage):
    async with stage(recorded.opening()) as on:
        by_itself = asyncio.create_task(on.panes.show("plan", focus=False))
        await asyncio.sleep(0)
        assert on.panes.side is not None
        on.panes.side.set_count("preview", "a.py")  # what is fed meanwhile is shown once there is a title
        on.panes.side.hide()
        await on.panes.show("review")
        await by_itself
        await on.until(lambda: on.panes.side.current == "review" and on.screen.focused is not None)
        assert "Review" in str(on.panes.side.query_one("#side-title", Static).content)
        assert "a.py" in str(on.panes.side.query_one("#side-title", Static).content)
        assert on.panes.side.query_one("#side-hint").render()


@pytest.mark.parametrize(("width", "is_shown"), [(160, False), (161, True)])
async def test_beyond_160_columns_a_pane_stands_beside_a_conversation_until_it_is_hidden(stage, width, is_shown):
    async with stage(recorded.opening(), size=(width, 40), answers=ANSWERS) as on:
        await on.pilot.pause()
        assert on.panes.side is None  # nothing was said yet
        await on.emit(e.TurnStarted(prompt="go", mode="agent", model="m"))
        await on.until(lambda: not is_shown or (on.panes.side is not None and on.panes.side.current == "review"))
        assert (on.panes.side is not None) == is_shown
        assert on.prompt.has_focus
        if is_shown:
            await on.pilot.press("ctrl+r", "ctrl+r")
            await on.until(lambda: not on.panes.side.current)
            await on.emit(e.TurnFinished(reason="done"))
            assert not on.panes.side.current


@pytest.mark.parametrize("name", [spec.name for spec in PANES])
async def test_a_change_that_comes_while_a_pane_is_being_mounted_ends_nothing(stage, name, monkeypatch):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        mount, fed = SidePane.mount, []

        def mount_and_feed(side, *widgets, **options):
            mounting = mount(side, *widgets, **options)
            fed.extend(widget for widget in widgets if not widget.is_mounted)
            on.panes._update_side(frozenset(get_args(Topic)))
            return mounting

        monkeypatch.setattr(SidePane, "mount", mount_and_feed)
        await on.panes.show(name)
        assert on.panes.side.get_pane(name) in fed
        assert on.panes.side.get_pane(name).is_mounted
        assert on.panes.side.current == name


MOUNTED = {
    "#left": lambda on: on.panes.show_files(),
    "#side": lambda on: on.panes.show("plan"),
    "PlanPanel": lambda on: on.panes.show("plan"),
    "#approval": lambda on: on.screen.context.ensure_bar(ApprovalBar, "approval"),
    "#question": lambda on: on.screen.context.ensure_bar(QuestionBar, "question"),
}


@pytest.mark.parametrize("selector", MOUNTED)
async def test_what_was_cancelled_while_it_was_being_mounted_is_there_when_it_is_asked_for_again(
    stage, selector, monkeypatch
):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        mount, begun = Widget.mount, asyncio.Event()

        def mount_and_tell(parent, *widgets, **options):
            mounting = mount(parent, *widgets, **options)
            if on.screen.query(selector):
                begun.set()
            return mounting

        monkeypatch.setattr(Widget, "mount", mount_and_tell)
        first = asyncio.create_task(MOUNTED[selector](on))
        await begun.wait()
        assert not on.screen.query_one(selector).is_mounted
        first.cancel()
        await MOUNTED[selector](on)
        assert [widget.is_mounted for widget in on.screen.query(selector)] == [True]
        assert on.screen.query(f"{selector} > *")
