"""Offers: extensions of a session besides its fixed list of tools (skills, agents, tools of servers), sent by messages.

The conversation itself shows which offers the model knows: an offer that a compaction removed is sent again, and so is
one that changed. Messages that were sent are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from core.agent.base.prompt_tags import wrap_tag
from core.protocol.events import AnyEvent, MessageAppended
from core.protocol.messages import Message, UserMessage

NOTHING_LEFT = "No longer any."


class Offer(Struct, frozen=True):
    """One offer in its tag, `available_` and a word. `describe` returns the present text with escaped tags, "" =
    nothing to offer."""

    tag: str
    describe: Callable[[], Awaitable[str]]


async def render_offers(offers: Sequence[Offer], messages: Sequence[Message]) -> list[str]:
    """Render the offers that are new to the model or changed; empty = it knows all of them."""
    parts = []
    for offer in offers:
        text, known_part = await offer.describe(), find_last_offer(offer.tag, messages)
        part = wrap_tag(offer.tag, text or NOTHING_LEFT)
        if part != known_part and (text or known_part):
            parts.append(part)
    return parts


async def append_offers(offers: Sequence[Offer], messages: Sequence[Message], emit: Callable[[AnyEvent], None]) -> None:
    """Append a message for every offer that is new to the model or changed."""
    for part in await render_offers(offers, messages):
        emit(MessageAppended(message=UserMessage(content=part, origin="program")))


def find_last_offer(tag: str, messages: Sequence[Message]) -> str:
    """Find the latest block of an offer in the messages, with its tag, "" = there is none."""
    block = re.compile(rf"<{tag}>\n.*?\n</{tag}>", re.DOTALL)
    for message in reversed(messages):
        if isinstance(message, UserMessage) and (matches := block.findall(message.content)):
            return str(matches[-1])
    return ""
