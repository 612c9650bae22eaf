from __future__ import annotations

import pytest
from textual.widgets import Static

from core.engine.queries.context_report import report_context
from core.protocol.queries import ContextAnswer, ContextPart, ContextQuery
from core.state.session import SessionState
from tests.support import recorded

NOTES = (
    "The reasoning of 2 earlier answers is not sent any more.",
    "The provider's cache was missed: tools changed, about 12,345 tokens.",
)


async def test_the_report_says_what_the_last_request_lost_and_why():
    state = SessionState(context_used=900, context_window=1_000)
    assert (await report_context(None, state)).notes == ()
    state.dropped_reasoning_count, state.cache_miss = 2, "tools changed, about 12,345 tokens"
    assert (await report_context(None, state)).notes == NOTES


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)])
async def test_the_page_shows_it_below_the_parts(stage, size):
    parts = (ContextPart(name="tools", tokens=9),)
    answers = {ContextQuery: ContextAnswer(parts=parts, used=900, window=1_000, notes=NOTES)}
    async with stage(recorded.opening(), answers=answers, size=size) as on:
        on.prompt.text = "/context"
        on.prompt.action_send()

        def shown() -> str:
            return "\n".join(str(each.content) for each in on.app.screen.query(Static)).rstrip()

        await on.until(lambda: type(on.app.screen).__name__ == "PageDialog" and shown().endswith("\n".join(NOTES)))
        assert "tools" in shown()
