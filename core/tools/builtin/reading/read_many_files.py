"""read_many_files: several files in one call, named by paths or globs, each as read_file returns it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused, ToolFailed
from core.text.counting import count
from core.tools.base import Reader, ReadTool, ToolOutcome
from core.tools.builtin.reading.list_files import GlobFileSearch
from core.tools.builtin.reading.read_file import ReadFile
from core.tools.builtin.reading.search_scope import compile_glob

_MOST_FILES: Final = 40
_MOST_CHARACTERS: Final = 100_000
_WILDCARDS: Final = frozenset("*?[{")


class FilePart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(min_length=1, description="A path or a glob.")]
    offset: Annotated[int, Meta(description="Its first line.")] = 1
    limit: Annotated[int, Meta(ge=0, description="How many lines.")] = 0
    end_line: Annotated[int, Meta(ge=0)] = 0


class ReadManyFiles(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "read_many_files"
    argument_names: ClassVar = {
        **{name: "path" if own == "target_file" else own for name, own in ReadFile.argument_names.items()},
        **dict.fromkeys(("paths", "file_paths", "include"), "files"),
        "exclude": "exclude_globs",
    }
    ignored_arguments: ClassVar = frozenset(("recursive", "explanation"))
    assumed_arguments: ClassVar = {"useDefaultExcludes": True, "use_default_excludes": True}

    files: Annotated[tuple[FilePart, ...], Meta(min_length=1, max_length=200, description="The files.")]
    exclude_globs: Annotated[tuple[str, ...], Meta(description="Skip what matches one of these.")] = ()

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        adapted_arguments = dict(arguments)
        for name in ("files", "paths", "file_paths", "include"):
            if isinstance(entries := adapted_arguments.get(name), str | dict):
                adapted_arguments[name] = entries = [entries]
            if isinstance(entries, list):
                adapted_arguments[name] = [{"path": entry} if isinstance(entry, str) else entry for entry in entries]
        return adapted_arguments

    def subject(self) -> str:
        return ", ".join(file.path for file in self.files)

    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files if _WILDCARDS.isdisjoint(file.path))

    async def run(self, capability: Reader) -> ToolOutcome:
        parts = list(dict.fromkeys(file for file in self.files if not _is_pattern(capability, file.path)))
        listings = await self._list_matches(capability)
        outcomes: list[ToolOutcome] = []
        remaining = _MOST_CHARACTERS
        left_out = [part.path for part in parts[_MOST_FILES:]]
        for number, part in enumerate(parts[:_MOST_FILES]):
            outcome = await _read_part(capability, part)
            remaining -= len(outcome.content)
            if remaining < 0 and number:
                left_out = [other.path for other in parts[number:]]
                break
            outcomes.append(replace(outcome, content=f"==> {part.path} <==\n{outcome.content}"))
        if outcomes and all(outcome.failed for outcome in outcomes):
            raise ToolFailed("\n".join(outcome.content for outcome in outcomes))
        notes = [*listings, *([f"[not shown, read them by themselves: {', '.join(left_out)}]"] if left_out else [])]
        return ToolOutcome(
            content="\n\n".join([*(outcome.content for outcome in outcomes), *notes]),
            summary=count("file", sum(not outcome.failed for outcome in outcomes)),
            attachments=tuple(attachment for outcome in outcomes for attachment in outcome.attachments),
        )

    async def _list_matches(self, reader: Reader) -> list[str]:
        """Return the files that every glob matches."""
        excluding = [compile_glob(glob) for glob in self.exclude_globs]
        listings = []
        for pattern in dict.fromkeys(file.path for file in self.files if _is_pattern(reader, file.path)):
            found_paths = (await GlobFileSearch(glob_pattern=pattern).find_paths(reader)).paths
            paths = sorted(path for path in found_paths if not any(glob.fullmatch(path) for glob in excluding))
            names = ", ".join(paths[:_MOST_FILES]) or "no file"
            listings.append(f"[{pattern} matches {names}{'; name those that you want to read' * bool(paths)}]")
        return listings


def _is_pattern(reader: Reader, path: str) -> bool:
    """Return True for a glob that is not the name of a file."""
    if _WILDCARDS.isdisjoint(path):
        return False
    try:
        return reader.stat(path) is None
    except PathRefused:
        return True


async def _read_part(reader: Reader, part: FilePart) -> ToolOutcome:
    try:
        tool = ReadFile(target_file=part.path, offset=part.offset, limit=part.limit, end_line=part.end_line)
        return await tool.run(reader)
    except (AgentTuiError, ValueError) as problem:
        text = problem.format_with_hint() if isinstance(problem, AgentTuiError) else str(problem)
        return ToolOutcome(content=f"[{text}]", failed=True)
