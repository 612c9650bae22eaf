"""Findings of a code review and patches on the screen: every key of the pane and of the dialog."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.review import Finding, VerdictRecord
from tests.support import recorded
from tests.support.scripted_client import SESSION
from tui.dialogs.patch import PatchDialog, PatchView
from tui.findings import FindingList, FindingsPane

FILE = "src/shop/basket.py"
FOUND = (
    Finding(
        id="f1",
        severity="high",
        title="An empty [basket] divides by zero",
        text="It is called for every new basket.",
        path=FILE,
        start=12,
        end=13,
        quote="    return total / len(items)",
        suggestion="    return total / len(items) if items else 0",
    ),
    Finding(id="f2", severity="medium", title="Nobody imports this", path="old.py", start=3, doubt="no such file"),
    Finding(id="f3", severity="low", title="The changelog says nothing"),
)
PATCH = b"""\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
-one
+ONE
diff --git a/b.txt b/b.txt
new file mode 100644
--- /dev/null
+++ b/b.txt
@@ -0,0 +1,2 @@
+two
+three
"""


@pytest.fixture
def findings(stage):
    @asynccontextmanager
    async def show(reported_findings: tuple[Finding, ...] = FOUND, **more: object):
        report = e.FindingsReported(turn="turn_1", subject="topic: 2 commits since main", findings=reported_findings)
        async with stage([*recorded.opening(), report], **more) as on:
            await on.pilot.press("shift+f8")
            await on.until(lambda: on.screen.query(FindingList))
            finding_list = on.screen.query_one(FindingList)
            await on.until(lambda: finding_list.has_focus and (finding_list.review is not None))
            yield on, finding_list

    return show


def read(pane: FindingsPane, name: str) -> str:
    return str(pane.query_one(f".findings--{name}").render())


async def test_the_list_says_how_many_and_the_marked_one_is_told_whole(findings):
    async with findings() as (on, finding_list):
        pane = on.screen.query_one(FindingsPane)
        assert read(pane, "sum") == "3 findings · 1 high · 1 medium · 1 low · topic: 2 commits since main"
        assert "It is called for every new basket." in read(pane, "text")
        assert "+     return total / len(items) if items else 0" in read(pane, "text")
        assert "An empty [basket] divides by zero" in finding_list.get_row_text(0)
        await on.pilot.press("j")
        assert "! no such file" in read(pane, "text")
        await on.pilot.press("down")
        assert "No place given." in read(pane, "text")
        await on.pilot.press("k", "up")
        assert finding_list.current is not None
        assert finding_list.current[0].id == "f1"


@pytest.mark.parametrize("key", ["enter", "o"])
async def test_enter_and_o_open_the_place_in_the_preview(findings, key):
    answers = {q.FileQuery: q.FileAnswer(path=FILE, text="line\n" * 30)}
    async with findings(answers=answers) as (on, _):
        await on.pilot.press(key)
        await on.until(lambda: on.panes.viewing is not None)
        assert (on.panes.viewing.path, on.panes.viewing.line) == (FILE, 12)


async def test_f_has_the_marked_one_fixed_and_shift_f_all_that_are_open(findings):
    async with findings() as (on, finding_list):
        await on.pilot.press("j", "f")
        await on.until(lambda: on.sent(c.FindingsFix))
        assert on.sent(c.FindingsFix) == [c.FindingsFix(session=SESSION, ids=("f2",))]
        await on.emit(e.FindingsSettled(ids=("f2",), standing="dismissed"))
        await on.until(lambda: finding_list.current is not None and finding_list.current[1][0] == "dismissed")
        await on.pilot.press("F")
        await on.until(lambda: len(on.sent(c.FindingsFix)) == 2)
        assert on.sent(c.FindingsFix)[1].ids == ("f1", "f3")


async def test_x_dismisses_and_the_row_says_so(findings):
    async with findings() as (on, finding_list):
        await on.pilot.press("x")
        await on.until(lambda: on.sent(c.FindingsDismiss))
        assert on.sent(c.FindingsDismiss) == [c.FindingsDismiss(session=SESSION, ids=("f1",))]
        on.client.emit(e.FindingsSettled(ids=("f1",), standing="dismissed"))
        await on.until(lambda: finding_list.current is not None and finding_list.current[1][0] == "dismissed")
        assert ("findings.dismiss", "reopen") in finding_list.hints


async def test_y_copies_the_marked_one_as_markdown(findings, monkeypatch):
    copied: list[str] = []
    async with findings() as (on, _):
        monkeypatch.setattr(on.screen.controllers.copying, "copy", copied.append)
        await on.pilot.press("y")
        await on.until(lambda: copied)
    assert copied[0].startswith(f"**high: An empty [basket] divides by zero** (`{FILE}:12`)\n\nIt is called")
    assert "```suggestion\n    return total / len(items) if items else 0\n```\n" in copied[0]


async def test_a_fix_that_waits_for_the_review_is_told_in_the_row(findings):
    async with findings() as (on, finding_list):
        on.client.emit(e.TurnStarted(prompt="Fix", mode="agent", model="m"))
        await on.until(lambda: on.screen.state.turns)
        turn = on.screen.state.turns[-1].id
        on.client.emit(e.FindingsSettled(ids=("f1",), standing="fixing", turn=turn))
        await on.until(lambda: finding_list.current[1][0] == "being fixed")
        on.client.emit(e.TurnFinished(reason="done"))
        await on.until(lambda: finding_list.current[1][0] == "nothing changed for it")
        assert on.screen.query_one(FindingsPane).list is finding_list


async def test_pages_read_on_in_a_long_text(findings):
    long = Finding(id="f1", severity="low", title="Long", text="\n\n".join(map(str, range(200))))
    async with findings((long,)) as (on, _):
        text = on.screen.query_one("FindingsPane VerticalScroll")
        await on.until(lambda: text.max_scroll_y > 100)
        await on.pilot.press("pagedown")
        await on.until(lambda: text.scroll_offset.y == text.size.height - 1)
        await on.pilot.press("space", "pageup", "pageup")
        await on.until(lambda: text.scroll_offset.y == 0)
        assert text.display


async def test_review_is_sent_as_it_was_typed(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"/review topic", "enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text == "/review topic"


@pytest.mark.parametrize("size", [(60, 16), (80, 24)])
async def test_in_a_narrow_window_the_pane_is_there_for_its_key_and_nothing_is_an_empty_state(stage, size):
    async with stage(recorded.opening(), size=size) as on:
        await on.pilot.press(*"/findings", "enter")
        await on.until(lambda: on.screen.query(FindingList))
        finding_list = on.screen.query_one(FindingList)
        await on.until(lambda: finding_list.has_focus)
        await on.pilot.press("f", "F", "x", "y", "enter")
        assert on.sent(c.FindingsFix) == []


@pytest.mark.parametrize("leave", ["q", "escape"])
async def test_diff_shows_what_waits_and_its_keys_go_by_file_and_copy(stage, monkeypatch, leave):
    copied: list[str] = []
    answers = {
        q.PatchQuery: q.PatchAnswer(patch=PATCH * 9, paths=("a.txt", "b.txt"), left_out=(("c.bin", "it is gone"),))
    }
    async with stage([*recorded.opening(), e.ChangeProposed(change=recorded.change())], answers=answers) as on:
        monkeypatch.setattr(on.screen.controllers.copying, "copy", copied.append)
        await on.pilot.press(*"/diff", "enter")
        await on.until(lambda: isinstance(on.app.screen, PatchDialog) and on.app.screen.query(PatchView))
        dialog, view = on.app.screen, on.app.screen.query_one(PatchView)
        await on.until(lambda: view.has_focus)
        assert "Pending review · 2 files +27 -9" in str(dialog.query_one(".dialog-title").render())
        assert "c.bin: it is gone" in str(dialog.query_one(".patch--note").render())
        await on.pilot.press("]")
        assert view.get_row_text(view.scroll_offset.y) == "diff --git a/b.txt b/b.txt"
        await on.pilot.press("]", "[")
        assert view.scroll_offset.y == 6
        await on.pilot.press("y")
        await on.until(lambda: copied)
        assert copied == [(PATCH * 9).decode()]
        await on.pilot.press(leave)
        await on.until(lambda: on.app.screen is not dialog)


async def test_diff_shows_what_was_accepted_where_nothing_waits(stage):
    answers = {q.PatchQuery: q.PatchAnswer(patch=PATCH, paths=("a.txt", "b.txt"))}
    async with stage(recorded.opening(), answers=answers) as on:
        await on.pilot.press(*"/diff a.txt", "enter")
        await on.until(lambda: isinstance(on.app.screen, PatchDialog) and on.app.screen.query(PatchView))
        assert "not committed yet" in str(on.app.screen.query_one(".dialog-title").render())
        (asked,) = [query for query in on.client.queries if isinstance(query, q.PatchQuery)]
        assert (asked.which, asked.paths) == ("accepted", ("a.txt",))


async def test_after_the_last_verdict_c_in_the_review_commits_and_elsewhere_a_notice_offers_it(stage):
    change = recorded.change("a.py", 1)
    record = VerdictRecord(
        id="v1",
        path="a.py",
        verdict="accept",
        hunks=change.hunks,
        base_before=change.base,
        base_after=change.pending,
        pending_before=change.pending,
        pending_after=change.pending,
    )
    started = e.SessionStarted(workspace="shop", mode="agent", model="scripted/demo", branch="topic")
    refused = q.CommitAnswer(refused="nothing to commit.")
    async with stage([started, *recorded.opening()[1:]], answers={q.CommitQuery: refused}, size=(80, 24)) as on:
        await on.emit(e.ChangeProposed(change=change))
        await on.emit(e.VerdictGiven(verdict=record), e.ChangeResolved(path="a.py"))
        offered = [notification for notification in on.app._notifications if "/commit commits" in notification.message]
        assert len(offered) == 1
        await on.pilot.press("ctrl+r")
        await on.until(lambda: on.panes.review is not None and on.panes.review.has_focus_within)
        view = on.panes.review.browser.diff_view
        assert "u undo · c commit" in view._text
        assert ("review.comment", "commit") in view.hints
        assert "/commit" in on.screen.controllers.guide._describe_hint()
        await on.pilot.press("c")
        await on.until(lambda: any(isinstance(query, q.CommitQuery) for query in on.client.queries))
        commit_event = e.CommitMade(id="c" * 40, branch="topic", subject="Change a", edits=("v1.0",), files=("a.py",))
        await on.emit(commit_event)
        assert view._text.endswith("All reviewed · u undo")
        assert on.screen.controllers.guide._describe_hint() == ""
