from __future__ import annotations

import pytest

from core.protocol.events import AsideAnswered
from core.protocol.messages import Usage
from core.state.asides import describe_cost


@pytest.mark.parametrize(
    ("usage", "line"),
    [
        (Usage(), ""),
        (Usage(prompt_tokens=1_200, completion_tokens=20), "haiku-5-5 · 1,200 tokens in, 20 out · price unknown"),
        (
            Usage(prompt_tokens=1_000, cached_tokens=900, completion_tokens=5, cost=0.0123, estimated=True),
            "haiku-5-5 · 1,000 tokens in (90% from the cache), 5 out · ~$0.0123",
        ),
        (Usage(cost=0.5), "haiku-5-5 · 0 tokens in, 0 out · $0.5000"),
    ],
)
def test_the_cost_of_an_answer_is_told_in_a_line(usage, line):
    event = AsideAnswered(id="a", question="Why?", model="anthropic/claude-haiku-5-5", usage=usage)
    assert (
        describe_cost(event) == line.replace("haiku-5-5", "anthropic/claude-haiku-5-5") or describe_cost(event) == line
    )
