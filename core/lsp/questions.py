"""Requests about a name: its definition, its uses, its documentation, and the edits of a rename.

Locations refer to the text as the agent sees it. Locations outside of the workspace have no text, because only the
sandbox may read there. A rename is applied as a whole or not at all, and only if every location holds the old name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal

import msgspec
from msgspec import Struct

from core.errors import ToolFailed, ToolInputInvalid
from core.lsp.connection import ServerConnection
from core.lsp.language_servers import LanguageServers
from core.lsp.messages import LineTable, TextEdit, parse_hover, parse_locations, parse_workspace_edit
from core.patterns import compile_lazily
from core.protocol.language import Place
from core.text.lines import Splice, apply_splices

ANSWER_LIMIT: Final = 10.0  # seconds
MAX_LOCATIONS: Final = 500
_MAX_TEXT: Final = 300
_NAME: Final = compile_lazily(r"[^\W\d]\w*", re.UNICODE)
LocationKind = Literal["definition", "references"]


class NamePosition(Struct, frozen=True, kw_only=True):
    """A position of a name in a pending file: 1-indexed line and column, in characters."""

    path: str
    line: int
    column: int


async def locate(servers: LanguageServers, kind: LocationKind, name_position: NamePosition) -> tuple[Place, ...]:
    """Return the locations where a name is defined or used, by path and line. Raises `ToolFailed`: no server knows."""
    async with servers.borrow(name_position.path, kind) as connection:
        params = _build_params(connection, name_position)
        if kind == "references":
            params["context"] = {"includeDeclaration": True}
        answer = await _ask(connection, f"textDocument/{kind}", params)
        locations = parse_locations(answer)[:MAX_LOCATIONS]
        tables: dict[str, LineTable | None] = {}
        places = []
        for uri, span in locations:
            path = connection.to_relative(uri)
            if path not in tables:
                text = servers.texts.read(path) if path and not path.startswith("/") else None
                tables[path] = LineTable(text, connection.encoding) if text is not None else None
            lines = tables[path]
            if lines is None:
                places.append(Place(path=path or uri, line=max(0, span.start.line) + 1))
                continue
            line, column = lines.find_location(span.start)
            end, _ = lines.find_location(span.end)
            text = lines.get_line(line).strip()[:_MAX_TEXT]
            places.append(Place(path=path, line=line, column=column, end_line=end, text=text))
        return tuple(sorted(dict.fromkeys(places), key=lambda place: (place.path, place.line, place.column)))


async def describe_name(servers: LanguageServers, name_position: NamePosition) -> str:
    """Return signature and documentation of a name as Markdown; "" = unknown. Raises `ToolFailed`."""
    async with servers.borrow(name_position.path, "hover") as connection:
        return parse_hover(await _ask(connection, "textDocument/hover", _build_params(connection, name_position)))


async def plan_rename(servers: LanguageServers, name_position: NamePosition, new_name: str) -> dict[str, str]:
    """Return the new texts by path. Raises `ToolInputInvalid` for an invalid name, `ToolFailed` if a rename is
    impossible."""
    if not _NAME.fullmatch(new_name):
        raise ToolInputInvalid(f"{new_name!r} is not a valid name.", hint="Use letters, digits and underscores.")
    async with servers.borrow(name_position.path, "rename") as connection:
        old = _read_name(connection, name_position)
        params = _build_params(connection, name_position) | {"newName": new_name}
        edits = parse_workspace_edit(await _ask(connection, "textDocument/rename", params))
        if edits is None:
            raise ToolFailed(f"{connection.name} needs more than edits for this; nothing was changed.")
        edits_by_path = {connection.to_relative(uri): file_edits for uri, file_edits in edits.items() if file_edits}
        if not edits_by_path:
            raise ToolFailed(f"{connection.name} can't rename {old!r} here.", hint="Give a place where it is defined.")
        return {path: _apply_edits(servers, connection, path, edits_by_path[path], old) for path in edits_by_path}


def _build_params(connection: ServerConnection, name_position: NamePosition) -> dict[str, object]:
    document = connection.documents[name_position.path]
    position = document.lines.find_position(name_position.line, name_position.column)
    return {"textDocument": {"uri": document.uri}, "position": position}


async def _ask(connection: ServerConnection, method: str, params: Mapping[str, object]) -> msgspec.Raw:
    try:
        return await connection.client.request(method, params, seconds=ANSWER_LIMIT)
    except TimeoutError:
        raise ToolFailed(f"{connection.name} did not answer within {ANSWER_LIMIT:.0f} s.", hint="Use grep.") from None


def _read_name(connection: ServerConnection, name_position: NamePosition) -> str:
    line = connection.documents[name_position.path].lines.get_line(name_position.line)
    match = next(
        (match for match in _NAME.finditer(line) if match.start() < name_position.column <= match.end() + 1), None
    )
    if match is None:
        raise ToolInputInvalid(
            f"There is no name at {name_position.path}:{name_position.line}:{name_position.column}.",
            hint="Read the file again.",
        )
    return match[0]


def _apply_edits(
    servers: LanguageServers, connection: ServerConnection, path: str, edits: Sequence[TextEdit], old: str
) -> str:
    text = servers.texts.read(path) if path and not path.startswith("/") else None
    if text is None:
        raise ToolFailed(f"{old!r} is used in {path or 'a place'} that can't be edited here; nothing was changed.")
    lines = LineTable(text, connection.encoding)
    splices = sorted(
        Splice(lines.find_offset(edit.range.start), lines.find_offset(edit.range.end), edit.new_text) for edit in edits
    )
    fits = all(text[splice.start : splice.end] == old for splice in splices)
    if not fits or any(one.end > other.start for one, other in pairwise(splices)):
        raise ToolFailed(f"What {connection.name} reports for {path} does not match its text; nothing was changed.")
    return apply_splices(text, splices)
