"""The key that verifies: its question, what it sends, and the check that runs again on the screen."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList, Static

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol import queries as q
from tests.tui.test_review_dialogs import proposed, reviewing
from tests.tui.test_review_list import change
from tui.dialogs.pages import ConfirmDialog
from tui.dialogs.picker import ActionPickerDialog


async def choose_verify(on) -> None:
    """Press the key that accepts what is proven; without evidence of hunks it offers to run the tests again."""
    await on.pilot.press("P")
    await on.until(lambda: isinstance(on.app.screen, ActionPickerDialog) and on.app.screen.query(OptionList))
    on.app.screen.grace_period._seconds = 0
    await on.pilot.pause()
    await on.pilot.press(*"again", "enter")


async def press_verify(on, clock, answer: str) -> str:
    """Press the key that verifies, read its question and answer it."""
    await reviewing(on, clock)
    await choose_verify(on)
    await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
    clock[0] += 10
    asked = "\n".join(str(widget.render()) for widget in on.app.screen.query(Static))
    await on.pilot.press(answer)
    return asked


@pytest.mark.parametrize(("answer", "sent"), [("y", [True]), ("n", [])])
async def test_n27_the_checks_run_again_after_one_question_that_names_commands_and_files(stage, clock, answer, sent):
    plan = q.VerificationAnswer(commands=("pytest -q", "make check"), paths=("a.py", "b.py"))
    async with stage(proposed(change("a.py"), change("b.py")), answers={q.VerificationQuery: plan}) as on:
        asked = await press_verify(on, clock, answer)
        assert "Accept 2 files if the tests pass again?" in asked
        assert all(phrase in asked for phrase in ("a.py, b.py", "pytest -q, make check", "alone in a clean layer"))
        await on.until(lambda: not isinstance(on.app.screen, ConfirmDialog))
        await on.pilot.pause()
        assert [command.tests_only for command in on.sent(c.ChangesVerify)] == sent
        assert on.sent(c.HunkResolve) == []


async def test_n27_where_nothing_can_be_verified_the_reason_is_told_and_nothing_runs(stage, clock):
    plan = q.VerificationAnswer(refused="No check has passed over what waits.")
    async with stage(proposed(change("a.py")), answers={q.VerificationQuery: plan}) as on:
        await reviewing(on, clock)
        await choose_verify(on)
        await on.until(
            lambda: any("No check has passed" in notification.message for notification in on.app._notifications)
        )
        assert on.sent(c.ChangesVerify) == []


async def test_n27_the_review_shows_the_check_that_runs_again_and_what_it_printed_last(stage, clock):
    async with stage(proposed(change("a.py"))) as on:
        await reviewing(on, clock)
        line = on.panes.side.get_pane("review").query_one(".review--verification", Static)
        assert not line.display
        on.client.emit(e.VerificationProgressed(command="pytest -q", text="collected 12 items\n\n"))
        await on.until(lambda: line.display)
        verification_text = str(line.render())
        assert "rerunning `pytest -q` alone in a clean layer" in verification_text
        assert "collected 12 items" in verification_text
        on.client.emit(e.VerificationProgressed(command=""))
        await on.until(lambda: not line.display)
