"""What holds for a session beside mode and model, as it looks: a wait, privacy, commands that the user types."""

from __future__ import annotations

from typing import Any

import pytest

from core.engine.shared.box import build_box_event
from core.protocol import events as e
from core.protocol.review import VerdictRecord
from core.sandbox.box import Tier
from tests.support import recorded
from tests.support.scripted_client import ScriptedClient
from tui.app import AgentApp
from tui.bridge import SessionRequest
from tui.dialogs.picker import PickerDialog
from tui.review.diff.view import DiffView

SAID = "OpenAI (gpt-9) is overloaded (529): Overloaded."
WAITING = [
    *recorded.opening(),
    e.LimitsChanged(max_cost=2.0, max_steps=20, by="user"),
    e.TurnStarted(prompt="Mend the tax", mode="agent", model="m"),
    e.StepStarted(step=1),
    e.StepFinished(step=1, usage=recorded.Usage(prompt_tokens=12_000, completion_tokens=300, cost=0.25)),
    e.StepStarted(step=2),
    e.StepRetried(step=2, attempt=2, delay_ms=70_000, message=SAID, code="overloaded"),
]
BY_HAND = [
    e.SessionStarted(workspace="shop", mode="agent", model="scripted/demo", private=True),
    build_box_event(Tier.NAMESPACES),
    e.PolicyChanged(policy="human", by="user"),
    e.ChangeProposed(change=recorded.change()),
]

NOTICED = [
    *recorded.opening(),
    build_box_event(Tier.NAMESPACES),
    e.Notice(level="warning", message="The MCP server github does not start: npx: not found.", hint="/mcp shows it."),
    e.Notice(level="warning", message="ui.theme: there is no theme 'nope'."),
]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)], ids=["120x40", "80x24", "60x16"])
@pytest.mark.parametrize("events", [WAITING, BY_HAND, NOTICED], ids=["waiting", "by_hand", "noticed"])
def test_what_holds_for_a_session_looks_as_it_did(snap_compare, monkeypatch, events, size):
    monkeypatch.setattr("tui.widgets.status_bar.monotonic", lambda: 100.0)
    monkeypatch.setattr("tui.widgets.status_bar.FRAME_INTERVAL", 3_600.0)
    assert snap_compare(app_with(events), terminal_size=size, run_before=settled)


@pytest.mark.parametrize("size", [(80, 24), (60, 16)], ids=["80x24", "60x16"])
def test_what_is_asked_before_a_private_session_is_left_looks_as_it_did(snap_compare, size):
    async def leaving(pilot: Any) -> None:
        await settled(pilot)
        await pilot.press("ctrl+q")
        while not isinstance(pilot.app.screen, PickerDialog):
            await pilot.pause(0.01)
        await pilot.pause(0.2)

    assert snap_compare(app_with(BY_HAND), terminal_size=size, run_before=leaving)


def accepted_before() -> list[e.AnyEvent]:
    """A turn whose change was accepted, and a later one that changed nothing."""
    change = recorded.change("a.py", 1)
    texts = {"base_before": change.base, "base_after": change.pending}
    texts |= {"pending_before": change.pending, "pending_after": change.pending}
    record = VerdictRecord(id="v1", path="a.py", verdict="accept", hunks=change.hunks, **texts)
    return [
        e.SessionStarted(workspace="shop", mode="agent", model="scripted/demo", branch="main"),
        e.TurnStarted(prompt="Mend the tax", mode="agent", model="m"),
        e.ChangeProposed(change=change),
        e.TurnFinished(reason="completed"),
        e.VerdictGiven(verdict=record),
        e.ChangeResolved(path="a.py"),
        e.TurnStarted(prompt="Run the tests", mode="agent", model="m"),
        e.TurnFinished(reason="completed"),
    ]


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)], ids=["120x40", "80x24", "60x16"])
def test_a_review_with_nothing_but_a_commit_left_to_do_looks_as_it_did(snap_compare, size):
    async def reviewing(pilot: Any) -> None:
        await settled(pilot)
        await pilot.press("ctrl+r")
        while not pilot.app.screen.query(DiffView) or ("review.comment", "commit") not in _find_view(pilot).hints:
            await pilot.pause(0.01)
        await pilot.pause(0.2)

    assert snap_compare(app_with(accepted_before()), terminal_size=size, run_before=reviewing)


def _find_view(pilot: Any) -> DiffView:
    return pilot.app.screen.query_one(DiffView)


async def settled(pilot: Any) -> None:
    """Until all that the client has emitted is on the screen."""
    while not pilot.app.main.state.seq:
        await pilot.pause(0.01)
    await pilot.pause(0.3)


def app_with(events: list[e.AnyEvent]) -> AgentApp:
    client = ScriptedClient(events)

    async def connect() -> ScriptedClient:
        return client

    return AgentApp(connect, SessionRequest(model="scripted/demo"))
