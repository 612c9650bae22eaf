"""Offers: what a session has beside its fixed list of tools, told by messages: skills, agents, tools of servers.

What the model was told stands in the conversation, so that is where it is looked up: an offer that a compaction took
away is told anew, and so is one that changed. Nothing that was sent is ever rendered again.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from core.agent.base.prompt_tags import wrap_tag
from core.protocol.events import AnyEvent, MessageAppended
from core.protocol.messages import Message, UserMessage

NOTHING_LEFT = "None any more."


class Offer(Struct, frozen=True):
    """One offer, in a tag of its own: `available_` and a word. `describe` returns the text as it is now, "" = there is
    nothing to offer; what is foreign in it has its tags escaped."""

    tag: str
    describe: Callable[[], Awaitable[str]]


async def render_offers(offers: Sequence[Offer], messages: Sequence[Message]) -> list[str]:
    """Render the offers that the model does not know as they hold now; empty = it knows all."""
    parts = []
    for offer in offers:
        text, known_part = await offer.describe(), find_last_offer(offer.tag, messages)
        part = wrap_tag(offer.tag, text or NOTHING_LEFT)
        if part != known_part and (text or known_part):
            parts.append(part)
    return parts


async def append_offers(offers: Sequence[Offer], messages: Sequence[Message], emit: Callable[[AnyEvent], None]) -> None:
    """Append what has changed of the offers since the model was told of them, as a message of its own."""
    for part in await render_offers(offers, messages):
        emit(MessageAppended(message=UserMessage(content=part, origin="program")))


def find_last_offer(tag: str, messages: Sequence[Message]) -> str:
    """Find the block that the model was told last of an offer, with its tag; "" = it was told nothing."""
    block = re.compile(rf"<{tag}>\n.*?\n</{tag}>", re.DOTALL)
    for message in reversed(messages):
        if isinstance(message, UserMessage) and (matches := block.findall(message.content)):
            return str(matches[-1])
    return ""
