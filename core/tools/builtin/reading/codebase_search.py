"""codebase_search: the passages of the project that answer a question, with their code, within a bounded answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

from msgspec import Meta

from core.notebooks.rendering import choose_limit, find_notebook_text
from core.protocol.events import IndexStatus
from core.protocol.queries import SearchAnswer, SearchHit, SearchQuery
from core.text.counting import count
from core.tools.base import Reader, ReadTool, ToolOutcome

_MOST_HITS: Final = 12
_MOST_CHARACTERS: Final = 24_000
"""Of the whole answer: less than 8,000 tokens of code."""

_WHOLE_HITS: Final = 5
"""The number of passages that are printed in whole; the others with their first lines."""

_LONGEST: Final = 4_000
_READ_LIMIT: Final = 1_000_000


class CodebaseSearch(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "codebase_search"
    argument_names: ClassVar = {
        "search_query": "query",
        "question": "query",
        "target_directory": "target_directories",
        **dict.fromkeys(("directories", "path"), "target_directories"),
        **dict.fromkeys(("information_request", "symbol_name"), "query"),
    }

    ignored_arguments: ClassVar = frozenset(("num_results", "max_results", "limit", "toolSummary"))

    query: Annotated[str, Meta(min_length=1, max_length=20_000, description="What to look for.")]
    target_directories: Annotated[tuple[str, ...], Meta(description="Only in these folders.")] = ()
    explanation: str = ""  # For models of other agents.
    search_only_prs: bool = False  # For models of other agents.

    def subject(self) -> str:
        location = f" in {', '.join(self.target_directories)}" if self.target_directories else ""
        return f"{' '.join(self.query.split())}{location}"

    def paths(self) -> tuple[str, ...]:
        return self.target_directories

    async def run(self, capability: Reader) -> ToolOutcome:
        names = (name.rstrip("*/") for name in self.target_directories)  # Models also write src/**.
        paths = [capability.relative(name or ".") for name in names]
        directories = () if "." in paths else tuple(paths)
        answer = await capability.search(
            SearchQuery(text=self.query, kind="meaning", directories=directories, limit=_MOST_HITS)
        )
        progress = _describe_progress(answer.status)
        if not answer.hits:
            return ToolOutcome(content=f"Nothing found. {progress}".strip(), summary="nothing found")
        body = "\n\n".join(_render_hits(capability, answer))
        return ToolOutcome(content=f"{body}\n\n{progress}".strip(), summary=count("place", len(answer.hits)))


def _describe_progress(status: IndexStatus) -> str:
    """Return what the model has to know about an incomplete index."""
    match status.state:
        case "ready":
            return ""
        case "building":
            progress = f"{status.indexed:,} of {status.files:,} files" if status.files else "no file"
            return f"[The index is being built: {progress} so far; the rest was searched by words.]"
        case _:
            reason = f" ({status.problem})" if status.problem else ""
            return f"[There is no index{reason}: files were searched by words. grep finds exact text.]"


def _render_hits(reader: Reader, answer: SearchAnswer) -> Iterator[str]:
    remaining = _MOST_CHARACTERS
    for number, hit in enumerate(answer.hits):
        lines = _read_lines(reader, hit) if number < _WHOLE_HITS else hit.text.split("\n")
        change_note = " (changed in the shadow)" if hit.is_changed else ""
        code = "\n".join(lines)[:_LONGEST]
        text = f"{hit.path}:{hit.start}-{hit.end}{f' {hit.symbol}' if hit.symbol else ''}{change_note}\n{code}"
        remaining -= len(text)
        if remaining < 0:
            return
        yield text


def _read_lines(reader: Reader, hit: SearchHit) -> list[str]:
    data = reader.read_bytes(hit.path, choose_limit(hit.path, _READ_LIMIT))
    notebook = find_notebook_text(hit.path, data, has_outputs=False)
    text = data.decode("utf-8", "replace") if notebook is None else notebook
    return [line.removesuffix("\r") for line in text.split("\n")[hit.start - 1 : hit.end]]
