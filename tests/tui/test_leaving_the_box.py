"""The question whether a command may leave the box: its key, and where else the way out is offered."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.protocol.events import ApprovalRequested
from tests.tui.test_permissions import ALL, STARTED, answers, approval, text_of


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    monkeypatch.setattr("tui.ask.approval_bar.GRACE", 0.0)


MACHINE = ApprovalRequested(
    id="apr_2",
    call="c1",
    kind="machine",
    subject="git push origin main",
    options=("run_on_machine", "allow_once", "reject_once"),
    containment="runs as you, with your environment and network; nothing it does is reviewed; 2 files are "
    "pending review, and it sees only what is on disk",
    permissions=("all",),
)


@pytest.mark.parametrize(("key", "decision"), [("m", "run_on_machine"), ("y", "allow_once"), ("n", "reject_once")])
async def test_leaving_the_box_has_a_key_of_its_own(stage, key, decision):
    async with stage([STARTED]) as on:
        await approval(on, MACHINE)
        assert "unsandboxed, on your machine?" in text_of(on, "#approval-title")
        assert "sandboxed" in text_of(on, "#approval-keys")
        assert "always" not in text_of(on, "#approval-keys")
        assert "it sees only what is on disk" in text_of(on, "#approval-about")
        await on.pilot.press("a", "N", "p", "s", "enter")
        assert answers(on) == []
        await on.pilot.press(key)
        await on.until(lambda: answers(on))
        assert answers(on)[0].decision == decision


async def test_always_on_the_machine_says_so_on_its_key(stage):
    request = replace(MACHINE, options=("run_on_machine", "allow_always", "allow_once", "reject_once"))
    async with stage([STARTED]) as on:
        await approval(on, request)
        assert "a always, on my machine" in text_of(on, "#approval-keys")
        await on.pilot.press("p", "a")
        await on.until(lambda: answers(on))
        assert answers(on)[0].decision == "allow_always"


async def test_no_other_question_takes_the_key_that_leaves_the_box(stage):
    async with stage([STARTED]) as on:
        await approval(on)
        await on.pilot.press("m")
        await on.pilot.press("n")
        await on.until(lambda: answers(on))
        assert [answer.decision for answer in answers(on)] == ["reject_once"]


async def test_it_is_the_last_choice_of_a_question_about_a_command(stage):
    options = (*ALL, "run_on_machine")
    async with stage([STARTED]) as on:
        await approval(on, ApprovalRequested(id="apr_1", call="c1", kind="command", subject="make", options=options))
        assert text_of(on, "#approval-keys").rstrip().endswith("m on my machine")
        assert text_of(on, "#approval-keys").startswith("y once")
        await on.pilot.press("m")
        await on.until(lambda: answers(on))
        assert answers(on)[0].decision == "run_on_machine"
