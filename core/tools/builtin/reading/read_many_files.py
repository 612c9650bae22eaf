"""read_many_files: several files in one call, named by paths or globs, each as read_file returns it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from core.errors import AgentTuiError, ToolFailed, ToolInputInvalid
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
        return tuple(file.path for file in self.files if not _is_glob(file.path))

    async def run(self, capability: Reader) -> ToolOutcome:
        parts, missing = await self._list_parts(capability)
        if not parts:
            raise ToolInputInvalid(
                "\n".join(missing) or "No file matches.", hint="Look for them with glob_file_search."
            )
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
        if all(outcome.failed for outcome in outcomes):
            raise ToolFailed("\n".join(outcome.content for outcome in outcomes))
        notes = [*missing, *([f"[not shown, read them by themselves: {', '.join(left_out)}]"] if left_out else [])]
        return ToolOutcome(
            content="\n\n".join([*(outcome.content for outcome in outcomes), *notes]),
            summary=count("file", sum(not outcome.failed for outcome in outcomes)),
            attachments=tuple(attachment for outcome in outcomes for attachment in outcome.attachments),
        )

    async def _list_parts(self, reader: Reader) -> tuple[list[FilePart], list[str]]:
        """Return the files to read without repetitions, and a note for every glob that matches none."""
        parts: dict[FilePart, None] = {}
        missing = []
        excluding = [compile_glob(glob) for glob in self.exclude_globs]
        for file in self.files:
            paths = [file.path]
            if _is_glob(file.path) and reader.stat(file.path) is None:
                paths = (await GlobFileSearch(glob_pattern=file.path).find_paths(reader))[0]
                paths = sorted(path for path in paths if not any(glob.fullmatch(path) for glob in excluding))
            missing += [] if paths else [f"[no file matches {file.path}]"]
            parts |= dict.fromkeys(replace(file, path=path) for path in paths)
        return list(parts), missing


def _is_glob(path: str) -> bool:
    return not _WILDCARDS.isdisjoint(path)


async def _read_part(reader: Reader, part: FilePart) -> ToolOutcome:
    try:
        tool = ReadFile(target_file=part.path, offset=part.offset, limit=part.limit, end_line=part.end_line)
        return await tool.run(reader)
    except (AgentTuiError, ValueError) as problem:
        text = problem.format_with_hint() if isinstance(problem, AgentTuiError) else str(problem)
        return ToolOutcome(content=f"[{text}]", failed=True)
