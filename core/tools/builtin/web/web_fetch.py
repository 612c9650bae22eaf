"""web_fetch: a page of the web as text, in parts, or the answer to a question about it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.errors import WebFailed
from core.modes import Access
from core.tools.base import PageRequest, Tool, ToolOutcome, WebVisitor


class WebFetch(Tool[WebVisitor], frozen=True, kw_only=True):
    name: ClassVar[str] = "web_fetch"
    access: ClassVar[Access] = Access.NET
    argument_names: ClassVar = {"uri": "url", "question": "prompt", "start_index": "offset", "query": "find"}
    ignored_arguments: ClassVar = frozenset(("format", "timeout", "explanation", "max_length"))

    url: Annotated[str, Meta(min_length=1, max_length=4_000, description="http(s)://host/path.")]
    prompt: Annotated[str, Meta(max_length=4_000, description="A question: you get its answer, not the page.")] = ""
    offset: Annotated[int, Meta(ge=0, description="Character of the page to go on from.")] = 0
    find: Annotated[str, Meta(max_length=200, description="Words to find in the page.")] = ""
    raw: Annotated[bool, Meta(description="The source instead of its text.")] = False

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
