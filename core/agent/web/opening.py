"""The web of a session: its offer, told with the first prompt, and what opens it for a call.

Its tools are in no list and are called by name. What fetches and asks is loaded with the first page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from core.agent.gate.gated_call import CallLease, OpenCapability
from core.agent.turn.offers import Offer
from core.agent.turn.turn_context import TurnContext
from core.errors import ProviderError, WebFailed
from core.permissions.rules import select_rules
from core.prompts import render
from core.protocol.messages import UserMessage
from core.protocol.review import Origin
from core.secrets import mask_secrets

if TYPE_CHECKING:
    from core.web.fetcher import WebFetcher

TAG: Final = "available_web"


def build_web_offer(context: TurnContext) -> Offer:
    """Build the offer of the web: none where it is switched off, or where no host could ever be granted."""

    async def describe() -> str:
        permissions = context.permissions
        granted = context.user.is_interactive or select_rules(permissions.load_rules(), "WebFetch", "allow")
        if not context.settings.web.enabled or not granted or context.dialect == "command":
            return ""
        return render("web", in_text=context.dialect == "tags")

    return Offer(TAG, describe)


async def answer_question(context: TurnContext, page: str, question: str) -> str:
    """Return the answer of the first small model that gives one. Raises `WebFailed`."""
    from core.agent.answer.side_requests import SideRequests

    side = SideRequests(context.routes, context.budget, context.emit, context.id, private=context.is_private)
    for route in (*side.routes.small, replace(side.routes.current, effort="")):
        room = (route.window or len(page)) * 2  # characters: about half of the window
        prompt = UserMessage(content=f"{page[:room]}\n\nThe question: {mask_secrets(question)}")
        try:
            if said := (await side.ask("small", route, render("web_answer"), [prompt])).strip():
                return said
        except ProviderError:
            continue
    raise WebFailed(
        "The page was fetched, and no model answered the question about it.",
        hint="Fetch it without `prompt`, and read it.",
        code="no_answer",
    )


def open_web(context: TurnContext, find_fetcher: Callable[[], WebFetcher]) -> OpenCapability:
    """Build what opens NET for the calls of a turn."""

    def build(origin: Origin, lease: CallLease) -> object:
        from core.agent.gate.approvals import Approver
        from core.agent.web.visitor import PageVisitor

        async def answer(page: str, question: str) -> str:
            return await answer_question(context, page, question)

        approver = Approver(context.user, context.permissions, context.emit)
        return PageVisitor(find_fetcher(), approver, answer, origin, lease)

    return build
