"""The web of a session: its offer for the first prompt, pages that a prompt mentions, and the NET capability.

The tools of the web are in no list and are called by name. `web_visitor` is imported with the first page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from core.agent.base.call_lease import CallLease, OpenCapability
from core.agent.base.prompt_tags import escape_attribute
from core.agent.context.offers import Offer
from core.agent.context.turn_context import TurnContext
from core.errors import ProviderError, WebFailed
from core.modes import Access
from core.permissions.rules import select_rules
from core.prompts import render
from core.protocol.events import Notice
from core.protocol.messages import UserMessage
from core.protocol.review import Origin
from core.providers.base import SearchingProvider
from core.secrets import mask_secrets
from core.tools.base import PageRequest, ShownPage

if TYPE_CHECKING:
    from core.agent.gate.web_visitor import ModelFindings
    from core.web.fetcher import WebFetcher
    from core.web.search import WebQuery

TAG: Final = "available_web"
MAX_ASKED_CHARS: Final = 200_000  # characters of a page in a request with a question about it


def build_web_offer(context: TurnContext) -> Offer:
    """Build the offer of the web, which is empty if the web is switched off or no host can be granted."""

    async def describe() -> str:
        permissions = context.permissions
        can_fetch = context.user.is_interactive or select_rules(permissions.rules.load(), "WebFetch", "allow")
        settings = context.settings.web
        searches = explain_no_search(context) is None and "web_search" not in context.tools.disabled
        if not settings.enabled or not (can_fetch or searches) or context.dialect == "command":
            return ""
        return render("web", in_text=context.dialect == "tags", fetches=bool(can_fetch), searches=searches)

    return Offer(TAG, describe)


def explain_no_search(context: TurnContext) -> str | None:
    """Explain why the web can't be searched in a turn, as a part of a sentence; None: it can."""
    settings, route = context.settings.web.search, context.routes.current
    if settings.provider != "model":
        return settings.explain_absence()
    provider: object = route.provider
    has_search = isinstance(provider, SearchingProvider) and provider.can_search(route.model)
    return None if has_search else f"the API of {route.id} has no built-in search"


async def answer_question(context: TurnContext, wrap: Callable[[int], str], question: str) -> tuple[str, int]:
    """Return the answer of the first small model that has one, and the number of the page's characters that it got.

    `wrap`: wraps that many characters from the start of the page. Raises `WebFailed`.
    """
    side = context.build_side_requests()
    for route in (*side.routes.small, replace(side.routes.current, effort="", tier="")):
        room = min(MAX_ASKED_CHARS, (route.window or MAX_ASKED_CHARS) * 2)  # about half of the window
        prompt = UserMessage(content=f"{wrap(room)}\n\nThe question: {mask_secrets(question)}")
        try:
            if answer := (await side.ask("small", route, render("web_answer"), [prompt])).strip():
                return answer, room
        except ProviderError:
            continue
    raise WebFailed(
        "The page was fetched, but no model answered the question about it.",
        hint="Fetch it without `prompt` and read it.",
        code="no_answer",
    )


async def fetch_mentioned(context: TurnContext, urls: Sequence[str]) -> list[ShownPage]:
    """Fetch pages that a prompt mentions, with the questions of a call. Errors are reported to the user and the model.

    The hosts are recorded as foreign sources at the end, since no page could influence the addresses in the prompt.
    """
    from core.agent.gate.web_visitor import PageVisitor

    opening, lease = context.outward.get(Access.NET), CallLease()
    visitor = opening(Origin(turn=context.turn_id), lease) if opening is not None else None
    is_open = isinstance(visitor, PageVisitor) and context.permissions.is_granted(Access.NET)
    pages: list[ShownPage] = []
    try:
        for url in urls:
            try:
                if not isinstance(visitor, PageVisitor) or not is_open:
                    raise WebFailed("Pages can't be fetched here.", hint="Paste the relevant part.", code="denied")
                visitor.is_deferred = True
                pages.append(await visitor.visit(PageRequest(url=url)))
            except WebFailed as problem:
                message = f"@{url} is not sent with the prompt: {problem.message}"
                context.emit(Notice(level="warning", message=message, hint=problem.hint))
                pages.append(_explain_missing(url, problem))
    finally:
        lease.end()
        if isinstance(visitor, PageVisitor):
            visitor.record_deferred()
    return pages


def _explain_missing(url: str, problem: WebFailed) -> ShownPage:
    note = escape_attribute(f"not fetched: {problem.code}: {problem.message}")
    return ShownPage(text=f'<web_page url="{escape_attribute(url)}" note="{note}"/>', summary="")


def open_web(context: TurnContext, find_fetcher: Callable[[], WebFetcher]) -> OpenCapability:
    """Build the function that opens NET for the calls of a turn."""

    def build(origin: Origin, lease: CallLease) -> object:
        from core.agent.base.approvals import Approver
        from core.agent.gate.web_visitor import PageVisitor

        async def answer(wrap: Callable[[int], str], question: str) -> tuple[str, int]:
            return await answer_question(context, wrap, question)

        approver = Approver(context.user, context.permissions, context.emit)

        async def search(query: WebQuery) -> ModelFindings:
            from core.agent.gate.web_visitor import search_by_model
            from core.web.search import HOW_TO_CONFIGURE

            if (reason := explain_no_search(context)) is not None:
                raise WebFailed(f"There is no search: {reason}.", hint=HOW_TO_CONFIGURE, code="no_search")
            return await search_by_model(context, query)

        return PageVisitor(find_fetcher(), approver, answer, search, origin, lease)

    return build
