"""A search of the web by the model's own API: a request beside the conversation, whose answer is foreign text.

What the API searched for and found stands in the answer as it came, in the words of its wire.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from core.agent.answer.side_requests import SideRequests
from core.agent.turn.turn_context import TurnContext
from core.errors import ProviderError, WebFailed
from core.prompts import render
from core.protocol.messages import UserMessage, WireAnswer
from core.providers.base import HostedSearch
from core.text.display_names import expose_controls
from core.web.search import EngineHit, WebHit, WebQuery, select_hits

_SEARCHED = frozenset({"web_search_call", "web_search_tool_result"})


class ModelFindings(Struct, frozen=True, kw_only=True):
    """The outcome of a search. `engine`: the provider that searched; `text`: what its model says about the pages."""

    engine: str
    text: str
    hits: tuple[WebHit, ...]


async def search_by_model(context: TurnContext, query: WebQuery) -> ModelFindings:
    """Have the API of the conversation's model search the web, which it can. Raises `WebFailed`."""
    route = replace(context.routes.current, effort="")
    side = SideRequests(context.routes, context.budget, context.emit, context.id, private=context.is_private)
    question, wish = UserMessage(content=query.text), HostedSearch(query.allowed, query.blocked)
    system = render("web_search_by_model", blocked=query.blocked)
    try:
        text, answer = await side.search(route, system, [question], wish)
    except ProviderError as problem:
        raise WebFailed(problem.message, hint=problem.hint, code="no_search") from None
    items = answer.items if answer is not None else ()
    if not any(part.get("type") in _SEARCHED for part in items):
        raise WebFailed(
            f"{route.id} answered without a search.", hint="Ask for what a page would say.", code="no_answer"
        )
    hits = select_hits(_list_found(answer), query) if answer is not None else ()
    return ModelFindings(engine=route.provider.name, text=expose_controls(text).strip(), hits=hits)


def _list_found(answer: WireAnswer) -> Iterator[EngineHit]:
    """List the pages that an answer cites, then those that it only found; a page may come twice."""
    message_parts = [
        part for item in answer.items for part in _tables(item.get("content")) if item.get("type") == "message"
    ]
    texts = [*message_parts, *(item for item in answer.items if item.get("type") == "text")]
    for citation in (
        annotation for part in texts for annotation in _tables(part.get("annotations")) + _tables(part.get("citations"))
    ):
        yield _build_page(citation)
    for item in answer.items:
        action = item.get("action")
        sources = action.get("sources") if isinstance(action, dict) else None
        pages = item.get("content") if item.get("type") == "web_search_tool_result" else sources
        yield from map(_build_page, _tables(pages))


def _build_page(table: dict[str, Any]) -> EngineHit:
    parts = {"url": "url", "title": "title", "text": "cited_text", "age": "page_age"}
    return EngineHit(**{field: str(table.get(key) or "") for field, key in parts.items()})


def _tables(value: object) -> list[dict[str, Any]]:
    return [table for table in value if isinstance(table, dict)] if isinstance(value, list) else []
