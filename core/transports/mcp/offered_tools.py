"""The tools of our MCP server: their arguments, and the calls that they become."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from core.errors import ToolInputInvalid
from core.protocol.renames import list_changes
from core.protocol.review import Change, Hunk
from core.records import convert
from core.state.session import SessionState
from core.transports.mcp.outside_agent import OutsideAgent, RequestedCall

MAX_SYMBOLS: Final = 50
EDITS: Final = ("patch", "content", "old_string", "delete")
Path_ = Annotated[str, Meta(min_length=1, description="Relative to the project, or absolute within it.")]
Symbol = Annotated[str, Meta(min_length=1, max_length=200, description="The name, as written there.")]
Line = Annotated[int, Meta(ge=0, description="Its line, from 1; 0: anywhere in the file.")]


class CodebaseSearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(min_length=1, max_length=20_000, description="What to look for, in words.")]
    target_directories: Annotated[tuple[str, ...], Meta(description="Only in these folders.")] = ()


class FindSymbolsArguments(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=200, description="A name or a part of it; compared fuzzily.")]
    limit: Annotated[int, Meta(ge=1, le=MAX_SYMBOLS)] = 20


class SymbolPlaceArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: Symbol
    path: Path_
    line: Line = 0


class ProposeEditArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file; not with patch, which names its files.")] = ""
    old_string: Annotated[str, Meta(description="The text to replace; it has to occur exactly once.")] = ""
    new_string: Annotated[str, Meta(description="The replacement.")] = ""
    replace_all: bool = False
    content: Annotated[str | None, Meta(description="The full content of a new or existing file.")] = None
    patch: Annotated[str, Meta(description="*** Begin Patch … *** End Patch, or a unified diff, of any files.")] = ""
    delete: Annotated[bool, Meta(description="Remove the file.")] = False


class ReviewStateArguments(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class ServedTool(Struct, frozen=True, kw_only=True):
    """A tool. `run` returns its answer, as text or a JSON object, and True if it failed."""

    name: str
    title: str
    description: str
    arguments: type[Struct]
    run: Callable[[OutsideAgent, Any], Awaitable[tuple[str | dict[str, Any], bool]]]
    is_reading: bool = True

    def build_schema(self) -> dict[str, Any]:
        """Build the JSON Schema of its arguments, without references, which some clients can't follow."""
        (_, schemas) = msgspec.json.schema_components([self.arguments])
        schema: dict[str, Any] = schemas[self.arguments.__name__]
        schema.pop("title", None)
        return {"properties": {}, **schema, "additionalProperties": False}

    async def call(self, agent: OutsideAgent, raw_arguments: dict[str, Any]) -> tuple[str | dict[str, Any], bool]:
        """Check the arguments and run the tool. Raises `ToolInputInvalid`, `CommandRejected`."""
        try:
            arguments = convert(raw_arguments, self.arguments)
        except msgspec.ValidationError as problem:
            raise ToolInputInvalid(f"{self.name}: {problem}.") from problem
        return await self.run(agent, arguments)


async def _search(agent: OutsideAgent, arguments: CodebaseSearchArguments) -> tuple[str, bool]:
    return await agent.call([RequestedCall("codebase_search", msgspec.to_builtins(arguments))])


async def _find_symbols(agent: OutsideAgent, arguments: FindSymbolsArguments) -> tuple[dict[str, Any], bool]:
    answer = await agent.search_symbols(arguments.name, arguments.limit)
    symbols = [
        {"name": hit.symbol, "kind": hit.kind, "path": hit.path, "startLine": hit.start, "endLine": hit.end}
        for hit in answer.hits
    ]
    return {"symbols": symbols, "index": answer.status.state}, False


async def _find_definition(agent: OutsideAgent, arguments: SymbolPlaceArguments) -> tuple[str, bool]:
    return await agent.call([RequestedCall("find_definition", msgspec.to_builtins(arguments))])


async def _find_references(agent: OutsideAgent, arguments: SymbolPlaceArguments) -> tuple[str, bool]:
    return await agent.call([RequestedCall("find_references", msgspec.to_builtins(arguments))])


async def _propose(agent: OutsideAgent, arguments: ProposeEditArguments) -> tuple[str, bool]:
    edit_kinds = [name for name in EDITS if getattr(arguments, name) not in ("", None, False)]
    if len(edit_kinds) != 1:
        raise ToolInputInvalid(f"propose_edit takes one of {', '.join(EDITS)}, got {len(edit_kinds)}.")
    if bool(arguments.path) == (edit_kinds == ["patch"]):
        raise ToolInputInvalid("propose_edit takes a path, except with patch, which names its files.")
    return await agent.call(_list_edit_calls(arguments, edit_kinds[0]))


def _list_edit_calls(arguments: ProposeEditArguments, kind: str) -> list[RequestedCall]:
    """List the calls of an edit. A file that is replaced as a whole is read first, since it may have changed."""
    match kind:
        case "patch":
            return [RequestedCall("apply_patch", {"input": arguments.patch})]
        case "content":
            read = RequestedCall("read_file", {"target_file": arguments.path})
            return [read, RequestedCall("write", {"file_path": arguments.path, "contents": arguments.content})]
        case "delete":
            return [RequestedCall("delete_file", {"target_file": arguments.path})]
        case _:
            replacement = {"old_string": arguments.old_string, "new_string": arguments.new_string}
            options = {"file_path": arguments.path, "replace_all": arguments.replace_all}
            return [RequestedCall("search_replace", {**options, **replacement})]


async def _read_review(agent: OutsideAgent, _: ReviewStateArguments) -> tuple[dict[str, Any], bool]:
    return describe_review(await agent.read_state()), False


def describe_review(state: SessionState) -> dict[str, Any]:
    """Describe pending changes, hunk by hunk, and the verdicts so far."""
    waiting = [
        {
            "path": change.path,
            "operation": change.operation,
            "renamedFrom": change.renamed_from,
            "protected": change.protected,
            "conflict": change.conflict,
            "check": _describe_check(change),
            "hunks": [_describe_hunk(hunk) for hunk in change.hunks],
        }
        for change in list_changes(state.changes)
    ]
    verdicts = [
        {"path": record.path, "verdict": record.verdict, "reason": record.reason}
        for record in (*state.reported_verdicts.values(), *state.unreported_verdicts.values())
    ]
    return {"session": state.session_id, "pending": waiting, "verdicts": verdicts}


def _describe_check(change: Change) -> dict[str, Any] | None:
    check = change.check
    return None if check is None else {"command": check.command, "passed": check.has_passed}


def _describe_hunk(hunk: Hunk) -> dict[str, Any]:
    return {
        "id": hunk.id,
        "oldStart": hunk.old_start,
        "oldLines": hunk.old_lines,
        "newStart": hunk.new_start,
        "newLines": hunk.new_lines,
    }


TOOLS: Final = (
    ServedTool(
        name="codebase_search",
        title="Search the project by meaning",
        description=(
            "Find the places of this project that answer a question, with their code. Includes pending edits."
        ),
        arguments=CodebaseSearchArguments,
        run=_search,
    ),
    ServedTool(
        name="find_symbols",
        title="Find names",
        description="Find classes, functions and other names of this project by all or part of their "
        "name. While the index is `off` or `building`, a later call may find more.",
        arguments=FindSymbolsArguments,
        run=_find_symbols,
    ),
    ServedTool(
        name="find_definition",
        title="Find a definition",
        description="Find where a name in a file is defined, with a language server.",
        arguments=SymbolPlaceArguments,
        run=_find_definition,
    ),
    ServedTool(
        name="find_references",
        title="Find uses of a name",
        description="Find where a name in a file is used, with a language server.",
        arguments=SymbolPlaceArguments,
        run=_find_references,
    ),
    ServedTool(
        name="propose_edit",
        title="Propose an edit for the user's review",
        description="Propose an edit. The file does not change: the user reviews the edit, hunk by "
        "hunk, in agent-tui review. Give a path with old_string and new_string, with "
        "content, or with delete; or a patch.",
        arguments=ProposeEditArguments,
        run=_propose,
        is_reading=False,
    ),
    ServedTool(
        name="review_state",
        title="Look at the review",
        description="List proposals pending review, and what the user accepted and rejected, with reasons.",
        arguments=ReviewStateArguments,
        run=_read_review,
    ),
)
