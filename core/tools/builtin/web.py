"""The tools that reach the web: a page as text or an answer to a question about it, and a search for pages."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from core.errors import ToolInputInvalid, WebFailed
from core.modes import Access
from core.tools.base import PageRequest, Tool, ToolOutcome, WebVisitor
from core.web.search import WebQuery

Domain = Annotated[str, Meta(pattern=r"^(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$", max_length=253)]


class WebFetch(Tool[WebVisitor], frozen=True, kw_only=True):
    name: ClassVar[str] = "web_fetch"
    access: ClassVar[Access] = Access.NET
    argument_names: ClassVar = {
        **dict.fromkeys(("uri", "urls"), "url"),
        **dict.fromkeys(("question", "objective"), "prompt"),
        "start_index": "offset",
        "query": "find",
    }
    ignored_arguments: ClassVar = frozenset(("format", "timeout", "explanation", "max_length", "toolSummary"))
    ignores_unknown: ClassVar = True

    url: Annotated[str, Meta(min_length=1, max_length=4_000, description="http(s)://host/path.")]
    prompt: Annotated[str, Meta(max_length=4_000, description="A question: you get its answer, not the page.")] = ""
    offset: Annotated[int, Meta(ge=0, description="The character to start from.")] = 0
    find: Annotated[str, Meta(max_length=200, description="Words to find in the page.")] = ""
    raw: Annotated[bool, Meta(description="The source, not its text.")] = False

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Take the address of a list of one, and the only one in a prompt that has to hold it."""
        match arguments:
            case {"urls": [str(url)], **rest}:
                return {"url": url, **rest}
            case {"urls": [_, _, *_]}:
                raise ToolInputInvalid("web_fetch opens one page.", hint="Make one call for each, in one message.")
            case {"prompt": str(prompt), **rest} if "url" not in arguments and "uri" not in arguments:
                addresses = re.findall(r"https?://[^\s<>\"'`)\]]+", prompt)
                return {"url": addresses[0].rstrip(".,;:!?"), **arguments} if len(set(addresses)) == 1 else arguments
        return arguments

    def subject(self) -> str:
        return self.url

    async def run(self, capability: WebVisitor) -> ToolOutcome:
        request = PageRequest(url=self.url, prompt=self.prompt, offset=self.offset, find=self.find, is_raw=self.raw)
        try:
            page = await capability.visit(request)
        except WebFailed as problem:
            return ToolOutcome(
                content=f"{problem.code}: {problem.format_with_hint()}", summary=problem.message, failed=True
            )
        attachments = () if page.picture is None else (page.picture,)
        return ToolOutcome(content=page.text, summary=page.summary, attachments=attachments)


class WebSearch(Tool[WebVisitor], frozen=True, kw_only=True):
    name: ClassVar[str] = "web_search"
    access: ClassVar[Access] = Access.NET
    argument_names: ClassVar = {
        "search_term": "query",
        "q": "query",
        "objective": "query",
        **dict.fromkeys(("max_results", "num_results", "limit"), "count"),
        **dict.fromkeys(("include_domains", "domain"), "allowed_domains"),
        "exclude_domains": "blocked_domains",
    }
    ignored_arguments: ClassVar = frozenset(("toolSummary",))
    ignores_unknown: ClassVar = True

    query: Annotated[str, Meta(min_length=1, max_length=400, description="What the pages should be about.")]
    count: Annotated[int, Meta(ge=1, le=20, description="Pages at most.")] = 8
    allowed_domains: Annotated[tuple[Domain, ...], Meta(max_length=20, description="Only these sites.")] = ()
    blocked_domains: Annotated[tuple[Domain, ...], Meta(max_length=20, description="Not these sites.")] = ()
    explanation: Annotated[str, Meta(max_length=1_000, description="For the user: why, in one sentence.")] = ""

    def subject(self) -> str:
        return self.query

    async def run(self, capability: WebVisitor) -> ToolOutcome:
        web_query = WebQuery(
            text=self.query, count=self.count, allowed=self.allowed_domains, blocked=self.blocked_domains
        )
        try:
            page = await capability.search(web_query)
        except WebFailed as problem:
            content = f"{problem.code}: {problem.format_with_hint()}"
            return ToolOutcome(content=content, summary=problem.message, failed=True)
        return ToolOutcome(content=page.text, summary=page.summary)
