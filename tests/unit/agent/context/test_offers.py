from __future__ import annotations

from core.agent.context.offers import NOTHING_LEFT, Offer, append_offers, find_last_offer, render_offers
from core.protocol.events import MessageAppended
from core.protocol.messages import AssistantMessage, UserMessage


def offering(*texts):
    """An offer that is described by one text after the other."""
    left = list(texts)

    async def describe():
        return left.pop(0)

    return Offer("available_skills", describe)


async def test_an_offer_is_told_once_and_again_when_it_changed_or_the_history_lost_it():
    history = []
    offers = (offering("one", "one", "two", "two", ""),)
    for expected in ("one", None, "two"):
        blocks = await render_offers(offers, history)
        assert blocks == ([f"<available_skills>\n{expected}\n</available_skills>"] if expected else [])
        history += [UserMessage(content=f"before\n\n{block}\n\nafter") for block in blocks]
    assert find_last_offer("available_skills", history) == "<available_skills>\ntwo\n</available_skills>"
    assert await render_offers(offers, []) == ["<available_skills>\ntwo\n</available_skills>"]
    assert await render_offers(offers, history) == [f"<available_skills>\n{NOTHING_LEFT}\n</available_skills>"]


async def test_no_offer_is_told_as_a_message_of_the_programs():
    events = []
    await append_offers(
        (offering(""), offering("one")), [AssistantMessage(content="<available_skills>")], events.append
    )
    assert events == [
        MessageAppended(message=UserMessage(content="<available_skills>\none\n</available_skills>", origin="program"))
    ]
