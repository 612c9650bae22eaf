"""A long session opens with its latest answers; the others come when they are asked for."""

from __future__ import annotations

import pytest

from core.protocol import documents as d
from core.protocol import events as e
from tests.support import recorded
from tests.tui.conftest import Stage
from tui import bridge


def turn(number: int) -> list[e.AnyEvent]:
    document = d.TextDocument(id=f"doc_{number}", sequence=1, content=f"answer {number}")
    return [
        e.TurnStarted(prompt=f"question {number}", mode="agent", model="m"),
        e.DocumentStarted(id=document.id, sequence=1, kind="text"),
        e.DocumentFinished(document=document),
        e.TurnFinished(reason="done"),
    ]


SESSION = [*recorded.opening(), *(event for number in range(30) for event in turn(number))]


def texts(on: Stage) -> list[str]:
    blocks = on.screen.state.blocks
    return [block.document.content if block.document else block.text for block in blocks if block.kind != "turn_end"]


@pytest.fixture
def long(monkeypatch):
    monkeypatch.setattr(bridge, "LONG_LOG", 100)


async def test_n16e_a_long_session_is_opened_briefly_and_says_so(stage, long):
    async with stage(SESSION) as on:
        await on.until(lambda: "question 29" in texts(on))
        assert on.client.brief == [True]
        assert texts(on)[0] == bridge.BRIEF_NOTICE


async def test_n16e_a_short_session_is_opened_whole(stage):
    async with stage(SESSION) as on:
        await on.until(lambda: "answer 29" in texts(on))
        assert on.client.brief == [False]
        assert bridge.BRIEF_NOTICE not in texts(on)


async def test_n16e_history_loads_what_was_left_out(stage, long):
    async with stage(SESSION) as on:
        await on.until(lambda: "question 29" in texts(on))
        await on.pilot.press(*"/history", "enter")
        await on.until(lambda: on.client.brief == [True, False] and bridge.BRIEF_NOTICE not in texts(on))
        assert "answer 0" in texts(on)
        await on.emit(*turn(30))
        await on.until(lambda: "answer 30" in texts(on))
        assert texts(on).count("answer 30") == 1
