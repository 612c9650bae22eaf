"""Questions to language servers about names, as functions for capabilities, and their refusal without a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from core.errors import ToolFailed
from core.lsp.language_servers import LanguageServers
from core.protocol.events import DiagnosticsReported
from core.protocol.language import Place
from core.protocol.queries import SearchAnswer, SearchQuery
from core.tools.base import Reader

if TYPE_CHECKING:
    from core.lsp.questions import LocationKind, NamePosition


class NameLookup(Struct, frozen=True):
    """The questions about names and about diagnostics of pending text."""

    locate: Callable[[LocationKind, NamePosition], Awaitable[tuple[Place, ...]]]
    describe: Callable[[NamePosition], Awaitable[str]]
    plan_rename: Callable[[NamePosition, str], Awaitable[dict[str, str]]]
    note_read: Callable[[str], None]
    diagnose: Callable[[tuple[str, ...]], Awaitable[tuple[DiagnosticsReported, ...]]]


SearchProject = Callable[[SearchQuery, Reader], Awaitable[SearchAnswer]]


async def search_nothing(_query: SearchQuery, _reader: Reader) -> SearchAnswer:
    """Find nothing: there is no index."""
    return SearchAnswer()


def open_lookup(servers: LanguageServers) -> NameLookup:
    """Build the questions to the servers of a session; the protocol module is imported with the first question."""

    async def locate(kind: LocationKind, name_position: NamePosition) -> tuple[Place, ...]:
        from core.lsp import questions

        return await questions.locate(servers, kind, name_position)

    async def describe(name_position: NamePosition) -> str:
        from core.lsp import questions

        return await questions.describe_name(servers, name_position)

    async def plan_rename(name_position: NamePosition, new_name: str) -> dict[str, str]:
        from core.lsp import questions

        return await questions.plan_rename(servers, name_position, new_name)

    async def diagnose(paths: tuple[str, ...]) -> tuple[DiagnosticsReported, ...]:
        return await servers.diagnose(paths)

    def note_read(path: str) -> None:
        servers.observe_read(path)

    return NameLookup(locate, describe, plan_rename, note_read, diagnose)


def _refuse_all() -> NameLookup:
    async def refuse(*_: object) -> tuple[Place, ...]:
        raise ToolFailed("Name lookup is not available here.")

    async def find_nothing(_: tuple[str, ...]) -> tuple[DiagnosticsReported, ...]:
        return ()

    return NameLookup(refuse, refuse, refuse, lambda _: None, find_nothing)  # type: ignore[arg-type]


NO_LOOKUP = _refuse_all()
