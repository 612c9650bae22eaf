"""The dialogs over the review: consent to what is protected, origins, and conflicts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.widgets import Static

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.review import (
    Bulk,
    ConflictChoice,
    ConflictRegion,
    ConflictSides,
    FileState,
    GitPreview,
    Origin,
)
from tests.support import recorded
from tests.tui.test_review import text_of
from tests.tui.test_review_list import GIT, NPM, change
from tui.dialogs.conflict import ConflictDialog, ConflictView
from tui.dialogs.pages import ConfirmDialog
from tui.review.change_list import ChangeList
from tui.review.hunk_editor import HunkEditor

PROTECTED = change("AGENTS.md", protected=True, risk="changes what the agent may do")
CALL = Origin(call="c1", tool="write", turn="trn_1", todo="d")
SIDES = ConflictSides(
    path="src/a.py",
    base=FileState(blob="b"),
    mine=FileState(blob="m"),
    theirs=FileState(blob="t"),
    clashes=(
        ConflictRegion(start=2, base=("two",), mine=("my two",), theirs=("TWO", "and a half"), before=("one",)),
        ConflictRegion(start=9, base=("nine",), mine=(), theirs=("NINE \x1b[2J",)),
    ),
)


def proposed(*changes: object) -> list[e.AnyEvent]:
    return [*recorded.opening(), e.TurnStarted(prompt="go", mode="agent", model="m"), *_proposed(changes)]


def _proposed(changes: object) -> list[e.AnyEvent]:
    return [e.ChangeProposed(change=change) for change in changes]  # type: ignore[attr-defined]


async def reviewing(on, clock) -> None:
    """The review is there, and has been looked at."""
    await on.pilot.press("ctrl+r")
    await on.until(lambda: on.panes.side is not None and on.panes.side.get_pane("review"))
    on.panes.side.get_pane("review")._clock = lambda: clock[0]
    on.panes.side.get_pane("review").browser.restart_grace()
    await on.pilot.pause(0.05)
    clock[0] += 10


def diff(path: str) -> q.DiffAnswer:
    from tests.tui.review_case import TESTS

    return q.DiffAnswer(diff=replace(TESTS, change=replace(TESTS.change, path=path, protected=path == "AGENTS.md")))


COMMIT = "commit 2\n\n    Improve [a]\n\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-old\n+new\n"


async def test_m9_a_protected_change_asks_once_more_and_hears_no_key_that_comes_too_soon(stage, clock):
    async with stage(proposed(PROTECTED), answers={q.DiffQuery: diff("AGENTS.md")}) as on:
        await reviewing(on, clock)
        await on.pilot.press("a")
        await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
        dialog = on.app.screen
        dialog.grace_period._seconds = 0.4
        await on.until(lambda: dialog.grace_period._drawn_at is not None)
        await on.pilot.press("y", "enter", "space")
        assert on.app.screen is dialog
        clock[0] += 0.4
        await on.pilot.press("enter")
        assert on.app.screen is dialog
        await on.pilot.press("y")
        await on.until(lambda: on.sent(c.HunkResolve))
        (verdict,) = on.sent(c.HunkResolve)
        assert (verdict.path, verdict.confirmed) == ("AGENTS.md", True)


@pytest.mark.parametrize(("key", "sent"), [("y", [("src/old.py", "accept", True)]), ("n", [])])
async def test_a_deletion_by_itself_is_asked_about_before_the_file_goes(stage, clock, key, sent):
    deletion = change("src/old.py", "delete")
    async with stage(proposed(deletion), answers={q.DiffQuery: diff("src/old.py")}) as on:
        await reviewing(on, clock)
        await on.pilot.press("a")
        await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
        assert on.sent(c.HunkResolve) == []
        dialog = on.app.screen
        await on.until(lambda: dialog.grace_period._drawn_at is not None)
        clock[0] += 1
        await on.pilot.press(key)
        await on.until(lambda: on.app.screen is on.screen)
        await on.pilot.pause(0.05)
        assert [(command.path, command.verdict, command.confirmed) for command in on.sent(c.HunkResolve)] == sent


async def test_n16a_a_rename_is_one_row_and_accepted_by_one_key_without_a_question(stage, clock):
    deletion = change("src/old.py", "delete")
    new = change(
        "src/new.py", "rename", base=FileState(kind="absent", mode=0), pending=deletion.base, renamed_from="src/old.py"
    )
    async with stage(proposed(deletion, new), answers={q.DiffQuery: diff("src/new.py")}) as on:
        await reviewing(on, clock)
        pane = on.panes.side.get_pane("review")
        assert [pending_change.path for pending_change in pane.browser.changes] == ["src/new.py"]
        assert "src/old.py → src/new.py" in text_of(pane.browser.diff_view)
        assert on.screen.state.pending_hunk_count == 1
        await on.pilot.press("l")
        await on.pilot.pause(0.05)
        clock[0] += 1
        assert "src/old.py → src/new.py" in pane.query_one(ChangeList).render_line(0).text
        await on.pilot.press("a")
        await on.until(lambda: on.sent(c.HunkResolve))
        (verdict,) = on.sent(c.HunkResolve)
        assert (verdict.path, verdict.verdict, on.app.screen) == ("src/new.py", "accept", on.screen)
        await on.screen.controllers.review.submit_verdict(c.HunkResolve(path="", verdict="accept"))
        await on.screen.controllers.review.submit_verdict(c.HunkResolve(path="src/old.py", verdict="accept"))
        assert (len(on.sent(c.HunkResolve)), on.app.screen) == (3, on.screen)


async def test_what_is_not_confirmed_is_not_sent_and_can_be_judged_again(stage, clock):
    async with stage(proposed(PROTECTED), answers={q.DiffQuery: diff("AGENTS.md")}) as on:
        await reviewing(on, clock)
        await on.pilot.press("a")
        await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
        await on.pilot.press("n")
        await on.until(lambda: on.app.screen is on.screen)
        await on.pilot.pause(0.05)
        clock[0] += 1
        await on.pilot.press("r")
        await on.until(lambda: on.sent(c.HunkResolve))
        assert [command.verdict for command in on.sent(c.HunkResolve)] == ["reject"]


async def test_what_a_filter_shows_is_accepted_after_a_question_with_its_number(stage, clock):
    changes = [change(f"src/{name}.py") for name in "abc"]
    events = proposed(*changes, change("src/AGENTS.md", protected=True), change("docs/d.md"))
    async with stage(events, answers={q.DiffQuery: diff("src/a.py")}) as on:
        await reviewing(on, clock)
        for keys, answer in (("/src", "n"), ("", "y")):
            await on.pilot.press(*keys, *(["enter"] if keys else []))
            await on.pilot.pause(0.05)
            clock[0] += 1
            await on.pilot.press("A")
            await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
            words = [str(static.render()) for static in on.app.screen.query(Static)]
            assert "Accept the 3 shown changes?" in words
            assert "3 hunks matching “src”, 1 protected file left out." in words
            if answer == "y":
                on.client.emit(e.ChangeProposed(change=replace(changes[1], pending=FileState(blob="other"))))
            clock[0] += 1
            await on.pilot.press(answer)
            await on.until(lambda: on.app.screen is on.screen)
        await on.until(lambda: on.sent(c.HunkResolve))
        (verdict,) = on.sent(c.HunkResolve)
        assert (verdict.path, verdict.paths, verdict.verdict) == ("", ("src/a.py", "src/c.py"), "accept")
        await on.until(lambda: on.app._notifications)
        assert "Changed meanwhile, so still pending: 1 file." in {note.message for note in on.app._notifications}


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("/accept ./src/", c.HunkResolve(path="", paths=("src/a.py", "src/b.py"), verdict="accept")),
        ("/reject *.md", c.HunkResolve(path="", paths=("docs/d.md",), verdict="reject")),
        ("/accept docs/d.md", c.HunkResolve(path="docs/d.md", verdict="accept")),
        ("/accept other", c.HunkResolve(path="other", verdict="accept")),
        ("/accept node_modules", c.BulkResolve(root="node_modules", verdict="accept")),
    ],
)
async def test_the_prompt_judges_paths_directories_patterns_and_bulks(stage, text, sent):
    events = proposed(change("src/a.py"), change("src/b.py"), change("docs/d.md"))
    bulk = Bulk(root="node_modules", kind="generated", files=3, bytes=9)
    async with stage([*events, e.LayersChanged(layers=("1",), bulks=(bulk,))]) as on:
        on.prompt.text = text
        await on.pilot.press("escape", "enter")
        await on.until(lambda: on.sent(type(sent)))
        (command,) = on.sent(type(sent))
        assert replace(command, session="") == sent


async def test_the_state_of_git_is_confirmed_too(stage, clock):
    answer = q.GitPreviewAnswer(preview=GitPreview(root=".git", moves=("HEAD: 1 → 2",), commits=1, text=COMMIT))
    events = [*recorded.opening(), e.LayersChanged(layers=("1",), bulks=(GIT,))]
    async with stage(events, answers={q.GitPreviewQuery: answer}) as on:
        await reviewing(on, clock)
        await on.pilot.press("a")
        await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
        text = "\n".join(str(widget.content) for widget in on.app.screen.query(Static))
        assert all(phrase in text for phrase in ("HEAD: 1 → 2", "Improve [a]", "+new"))
        await on.pilot.pause(0.05)
        clock[0] += 1
        await on.pilot.press("y")
        await on.until(lambda: on.sent(c.BulkResolve))
        assert on.sent(c.BulkResolve)[0].confirmed


async def test_n5_a_state_of_git_that_can_not_be_accepted_says_why_and_hears_no_yes(stage, clock):
    answer = q.GitPreviewAnswer(
        preview=GitPreview(root=".git", refused="commit 12 has a.py in another version than you accepted.")
    )
    events = [*recorded.opening(), e.LayersChanged(layers=("1",), bulks=(GIT,))]
    async with stage(events, answers={q.GitPreviewQuery: answer}) as on:
        await reviewing(on, clock)
        await on.pilot.press("a")
        await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
        assert "commit 12 has a.py" in "\n".join(str(widget.content) for widget in on.app.screen.query(Static))
        await on.pilot.pause(0.05)
        clock[0] += 1
        await on.pilot.press("y")
        await on.until(lambda: on.app.screen is on.screen)
        assert not on.sent(c.BulkResolve)


async def test_n9_a_bulk_that_holds_a_repository_is_confirmed(stage, clock):
    bulk = Bulk(root="out", kind="generated", files=2, bytes=10, risk="makes git run its contents")
    async with stage([*recorded.opening(), e.LayersChanged(layers=("1",), bulks=(bulk,))]) as on:
        await reviewing(on, clock)
        await on.pilot.press("a")
        await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
        on.app.screen._awake_at = 0
        await on.pilot.press("y")
        await on.until(lambda: on.sent(c.BulkResolve))
        assert on.sent(c.BulkResolve)[0].confirmed


async def test_n16a_a_generated_bulk_waits_for_nobody_and_is_sent_at_once(stage, clock):
    bulk = Bulk(root="out", kind="generated", files=2, bytes=10)
    async with stage([*recorded.opening(), e.LayersChanged(layers=("1",), bulks=(bulk,))]) as on:
        assert on.screen.state.pending_hunk_count == 0
        await reviewing(on, clock)
        await on.pilot.press("r")
        await on.until(lambda: on.sent(c.BulkResolve))
        assert (on.sent(c.BulkResolve)[0].root, on.sent(c.BulkResolve)[0].verdict) == ("out", "reject")


async def test_b_judges_all_of_a_command_or_a_turn(stage, clock):
    changes = [change("a", origin=NPM), change("b", origin=NPM), change("c", origin=CALL)]
    async with stage(proposed(*changes), answers={q.DiffQuery: diff("a")}) as on:
        await reviewing(on, clock)
        await on.pilot.press("b")
        await on.until(lambda: type(on.app.screen).__name__ == "ActionPickerDialog")
        await on.pilot.press(*"reject", "enter")
        await on.until(lambda: on.sent(c.HunkResolve))
        (verdict,) = on.sent(c.HunkResolve)
        assert (verdict.path, verdict.verdict, verdict.origin) == ("", "reject", Origin(command="npm install"))
        offered = on.screen.controllers.review.build_origin_options(changes[2])
        assert [option.id for option in offered] == [
            f"{verdict} {by}" for verdict in ("accept", "reject") for by in ("call", "todo", "turn")
        ]
        assert offered[2].label.endswith("turn 1")


async def conflict(on, clock) -> ConflictDialog:
    await reviewing(on, clock)
    await on.pilot.press("t")
    await on.until(lambda: isinstance(on.app.screen, ConflictDialog))
    return on.app.screen


async def test_p14_a_conflict_is_settled_place_by_place(stage, clock):
    answers = {q.DiffQuery: diff("src/a.py"), q.ConflictQuery: q.ConflictAnswer(sides=SIDES)}
    async with stage(proposed(change("src/a.py", conflict="edited")), answers=answers) as on:
        dialog = await conflict(on, clock)
        view = dialog.query_one(ConflictView)
        text = "\n".join(view.render_line(y).text for y in range(view.count_rows()))
        assert all(words in text for words in ("my two", "TWO", "yours, on disk", "base, before both", "one"))
        await on.pilot.press("ctrl+s", "j", "m", "b")
        assert [choice and choice.take for choice in dialog._choices] == ["both", "mine"]
        await on.pilot.press("e")
        await on.pilot.pause(0.1)
        await on.pilot.press(*"own", "ctrl+s")
        await on.pilot.pause(0.1)
        await on.pilot.press("ctrl+s")
        await on.until(lambda: on.sent(c.ConflictResolve))
        (settle,) = on.sent(c.ConflictResolve)
        assert (settle.mine, settle.theirs) == ("m", "t")
        assert settle.choices == (
            ConflictChoice(take="text", text="ownmy two\nTWO\nand a half"),
            ConflictChoice(take="mine"),
        )


@pytest.mark.parametrize("leave", ["escape", "q"])
async def test_a_conflict_can_be_left_and_places_walked(stage, clock, leave):
    answers = {q.DiffQuery: diff("src/a.py"), q.ConflictQuery: q.ConflictAnswer(sides=SIDES)}
    async with stage(proposed(change("src/a.py", conflict="edited")), answers=answers, size=(60, 16)) as on:
        dialog = await conflict(on, clock)
        await on.pilot.press("t", "t", "k", "j", "tab", "shift+tab", "m")
        assert [choice and choice.take for choice in dialog._choices] == ["theirs", "mine"]
        view = dialog.query_one(ConflictView)
        assert all(view.render_line(y).cell_length == view.size.width for y in range(view.count_rows()))
        await on.pilot.press(leave)
        await on.until(lambda: on.app.screen is on.screen)
        assert on.sent(c.ConflictResolve) == []


async def test_p15_a_whole_file_is_taken_or_kept_and_nothing_else(stage, clock):
    whole = replace(
        SIDES, whole=True, clashes=(ConflictRegion(start=1, base=("a",), mine=("(no such file)",), theirs=("b",)),)
    )
    answers = {q.DiffQuery: diff("src/a.py"), q.ConflictQuery: q.ConflictAnswer(sides=whole)}
    async with stage(proposed(change("src/a.py", conflict="gone")), answers=answers) as on:
        dialog = await conflict(on, clock)
        await on.pilot.press("b", "e")
        assert dialog._choices == [None]
        await on.pilot.press("t", "ctrl+s")
        await on.until(lambda: on.sent(c.ConflictResolve))
        assert on.sent(c.ConflictResolve)[0].choices == (ConflictChoice(take="theirs"),)


@pytest.mark.parametrize(
    "answer",
    [
        q.ConflictAnswer(sides=None),
        q.ConflictAnswer(sides=replace(SIDES, problem="'a' is a directory.")),
        q.RefusedAnswer(code="x", message="No."),
    ],
)
async def test_where_nothing_can_be_settled_that_is_said(stage, clock, answer):
    answers = {q.DiffQuery: diff("src/a.py"), q.ConflictQuery: answer}
    async with stage(proposed(change("src/a.py")), answers=answers) as on:
        await reviewing(on, clock)
        await on.pilot.press("t")
        await on.until(lambda: any(isinstance(query, q.ConflictQuery) for query in on.client.queries))
        await on.pilot.pause(0.1)
        assert on.app.screen is on.screen
        assert len(on.app._notifications) == 1


async def test_a_hunk_is_edited_in_the_pane_and_in_the_users_editor(stage, clock, monkeypatch, tmp_path):
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'outside\\n' > \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    text = q.HunkAnswer(path="src/a.py", hunk="h", text="one\n", start=4)
    answers = {q.DiffQuery: diff("src/a.py"), q.HunkQuery: text}
    async with stage(proposed(change("src/a.py")), answers=answers) as on:
        monkeypatch.setattr(on.app, "suspend", _nothing)
        await reviewing(on, clock)
        await on.pilot.press("e")
        await on.until(lambda: on.screen.query("HunkEditor") and on.screen.query_one(HunkEditor).has_focus)
        await on.pilot.press("ctrl+g")
        assert on.screen.query_one(HunkEditor).text == "outside"
        await on.pilot.press("ctrl+s")
        await on.until(lambda: on.sent(c.HunkEdit))
        assert on.sent(c.HunkEdit)[0].text == "outside\n"
        assert on.prompt.text == ""


class _nothing:  # noqa: N801
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    "answer", [q.RefusedAnswer(code="x", message="Gone."), q.HunkAnswer(path="a", hunk="h", text="a\rb", start=1)]
)
async def test_a_hunk_that_can_not_be_edited_says_why(stage, clock, answer):
    answers = {q.DiffQuery: diff("src/a.py"), q.HunkQuery: answer}
    async with stage(proposed(change("src/a.py")), answers=answers) as on:
        await reviewing(on, clock)
        await on.pilot.press("e")
        await on.until(lambda: on.app._notifications)
        assert not on.screen.query("HunkEditor")


@pytest.mark.parametrize("size", [(120, 30), (80, 24)])
async def test_two_columns_take_the_whole_window_or_say_how_wide_it_has_to_be(stage, clock, size):
    async with stage(proposed(change("src/a.py")), size=size, answers={q.DiffQuery: diff("src/a.py")}) as on:
        await reviewing(on, clock)
        view = on.screen.query_one("DiffView")
        await on.until(lambda: view.diff is not None)
        assert not view.is_split
        await on.pilot.press("v")
        if size[0] == 80:
            notice = "Two columns need a window 101 wide; this one is 80."
            await on.until(lambda: notice in [notification.message for notification in on.app._notifications])
            return
        await on.until(lambda: view.is_split)
        assert not on.screen.query_one("#centre").region
        await on.pilot.press("v")
        await on.until(lambda: not view.is_split)
        await on.pilot.press("v")
        await on.until(lambda: view.is_split)
        await on.pilot.press("escape")
        await on.until(lambda: on.prompt.has_focus)
        assert on.screen.query_one("#centre").region


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        ([change("src/a.py")], "a accept  r reject  j next  u undo  c comment  e edit  w why  f1 more  esc back"),
        (
            [change("src/a.py", conflict="It was edited.")],
            "t resolve  r reject  w why  j next  u undo  l list  esc back",
        ),
        ([], "u undo  esc back"),
    ],
)
async def test_the_keys_at_the_foot_are_those_that_can_be_used_and_name_the_way_out(stage, clock, waits, words):
    one = q.DiffAnswer(diff=replace(diff("src/a.py").diff, change=waits[0])) if waits else None
    async with stage(proposed(*waits), size=(80, 24), answers={q.DiffQuery: one}) as on:
        await reviewing(on, clock)
        foot = on.screen.query_one("#side-hint")
        await on.until(lambda: str(foot.render()).strip() == words)
        await on.pilot.press("w")
        await on.pilot.pause(0.05)
        assert ("enter reject  esc back" in str(foot.render())) == bool(waits)
