"""grep: ripgrep over the project as the agent sees it: pending files in their pending state, notebooks as cells, and
files in other encodings as text."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from posixpath import normpath
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from core.edits.text_file import find_bytes
from core.errors import PathRefused, ToolInputInvalid
from core.notebooks.notebook import LARGEST, is_notebook_path
from core.notebooks.rendering import find_notebook_text, list_cells
from core.text.counting import count
from core.tools.base import ProgramData, Reader, ReadTool, ToolOutcome
from core.tools.builtin.editing.edit_targets import decode_project_file
from core.tools.builtin.reading.ripgrep import RipgrepOutput, list_scope, run_ripgrep
from core.tools.builtin.reading.search_scope import SearchScope
from core.workspace.file_names import from_os_name, to_os_name

_MAX_MATCHES = 50
_MAX_LISTED = 200
INCOMPLETE = "matches are missing: too many, in a file or in all"
_PER_FILE = 200
_MAX_CONTEXT = 20
_TIME_LIMIT = 20.0
_COLUMNS = 300
_PENDING_LIMIT = 16_000_000  # The size limit of a pending file, or one of a command, in bytes.
_MOST_COPIED = 128_000_000  # The limit for all of these.
_MOST_DECODED = 4_000_000  # The size limit of a file in another encoding, in bytes.
_MOST_ENCODED = 500  # The limit for files in another encoding.
# Invalid UTF-8: a lead byte without a continuation byte, or the reverse.
_NO_UTF8 = r"(?:^|[\x00-\x7f])[\x80-\xbf]|[\xc0-\xff](?:[\x00-\x7f\xc0-\xff]|$)"
_NOTHING = RipgrepOutput(data=b"")


class MatchRow(Struct, frozen=True):
    """A printed line; `hit` False: a line of context. Line 0 separates groups."""

    line: int
    text: str
    hit: bool


class GrepMatches(Struct, frozen=True):
    """The printed lines by file. `cut`, `timed_out`: there may be more."""

    files: dict[str, list[MatchRow]]
    cut: bool = False
    timed_out: bool = False


def _join_list(name: str, values: Sequence[str]) -> str:
    """Return a list of globs as one glob, and the only entry of any other list. Raises `ToolInputInvalid`."""
    if "glob" in name.lower() or "clude" in name.lower():
        return f"{{{','.join(values)}}}" if len(values) > 1 else "".join(values)
    if len(values) > 1:
        raise ToolInputInvalid(f"grep takes one {name}, not {len(values)}.", hint="Make a call for each.")
    return "".join(values)


class Grep(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "grep"
    argument_names: ClassVar = {
        "query": "pattern",
        "regex": "pattern",
        **dict.fromkeys(("glob", "include", "file_pattern", "globs", "include_globs", "includes"), "include_pattern"),
        **dict.fromkeys(("exclude", "exclude_globs", "excludes"), "exclude_pattern"),
        "search_term": "pattern",
        **dict.fromkeys(("target_directory", "dir", "dir_path", "file", "file_path", "SearchPath", "paths"), "path"),
        **dict.fromkeys(("limit", "max_results", "max_matches", "max_count", "total_max_matches"), "head_limit"),
        **dict.fromkeys(("before", "context_lines_before"), "before_context"),
        **dict.fromkeys(("after", "context_lines_after"), "after_context"),
        **dict.fromkeys(("literal", "literal_text"), "fixed_strings"),
        **dict.fromkeys(("line_number", "match_per_line"), "line_numbers"),
        "case_insensitive": "ignore_case",
        "-C": "context",
        "-A": "after_context",
        "-B": "before_context",
        "-i": "ignore_case",
        "-n": "line_numbers",
        "type": "file_type",
    }
    ignored_arguments: ClassVar = frozenset(("toolSummary",))
    assumed_arguments: ClassVar = {
        **dict.fromkeys(("respect_git_ignore", "use_default_ignore"), True),
        **dict.fromkeys(("no_ignore", "include_ignored", "includeIgnoredFiles", "-o", "only_matching"), False),
    }

    pattern: Annotated[str, Meta(min_length=1, max_length=2000, description="A regular expression (Rust syntax).")]
    path: Annotated[str, Meta(description="A file or folder; default: the workspace.")] = "."
    case_sensitive: Annotated[bool, Meta(description="false: ignore case.")] = True
    include_pattern: Annotated[str, Meta(description="Only files that match this glob, like *.ts or src/**.")] = ""
    exclude_pattern: Annotated[str, Meta(description="Skip files that match this glob.")] = ""
    context: Annotated[int, Meta(ge=0, le=20, description="Context lines around each match, at most 20.")] = 0
    # Arguments for models of other agents, which no schema describes.
    explanation: str = ""
    ignore_case: bool = False
    after_context: Annotated[int, Meta(ge=0)] = 0
    before_context: Annotated[int, Meta(ge=0)] = 0
    line_numbers: bool = True  # Line numbers are always in the output.
    multiline: bool = False
    file_type: str = ""
    fixed_strings: bool = False
    output_mode: Literal["content", "files_with_matches", "count"] = "content"
    head_limit: Annotated[int, Meta(ge=0)] = 0
    offset: Annotated[int, Meta(ge=0)] = 0

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        adapted_arguments = dict(arguments)
        for name in ("isRegexp", "is_regexp", "IsRegex", "isRegex", "is_regex"):
            if isinstance(is_regex := adapted_arguments.pop(name, None), bool):
                adapted_arguments["fixed_strings"] = not is_regex
        if adapted_arguments.pop("names_only", None) is True:
            adapted_arguments["output_mode"] = "files_with_matches"
        for name, value in adapted_arguments.items():
            if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
                adapted_arguments[name] = _join_list(name, value)
        return adapted_arguments

    def subject(self) -> str:
        location = "" if self.path in {"", "."} else f" in {self.path}"
        return f"{self.pattern}{location}" + (f" ({self.include_pattern})" if self.include_pattern else "")

    def paths(self) -> tuple[str, ...]:
        return (self.path,) if self.path not in {"", "."} else ()

    async def run(self, capability: Reader) -> ToolOutcome:
        matches = await self.find_matches(capability)
        if self.output_mode != "content" and matches.files:
            outcome = self._list_files(matches)
        else:
            limit = min(self.head_limit or _MAX_MATCHES, _MAX_MATCHES)
            outcome = _format_outcome(self.pattern, matches, limit, self.offset)
        return replace(outcome, build_data=lambda: self._build_data(matches))

    def _build_data(self, matches: GrepMatches) -> ProgramData:
        """Return the matching lines for a program, or the files with their counts."""
        note = INCOMPLETE if _is_incomplete(matches) else ""
        counts = {path: sum(row.hit for row in rows) for path, rows in sorted(matches.files.items())}
        if self.output_mode == "files_with_matches":
            return ProgramData(list(counts), note)
        if self.output_mode == "count":
            return ProgramData(counts, note)
        hits = ((path, row) for path, rows in sorted(matches.files.items()) for row in rows if row.hit)
        return ProgramData([{"path": path, "line": row.line, "text": row.text} for path, row in hits], note)

    def _list_files(self, matches: GrepMatches) -> ToolOutcome:
        """Return the files with matches instead of the matches, with their counts if requested."""
        limit = min(self.head_limit or _MAX_LISTED, _MAX_LISTED)
        counts = [(path, sum(row.hit for row in rows)) for path, rows in sorted(matches.files.items())]
        is_counted = self.output_mode == "count"
        part = counts[self.offset :][:limit]
        rows = [f"{path}:{n}{'+' * (n >= _PER_FILE)}" if is_counted else path for path, n in part]
        plus = "+" if matches.cut or matches.timed_out else ""
        head = f"{len(counts):,}{plus} file{'' if len(counts) == 1 else 's'} with matches"
        range_text = _name_part(limit, self.offset)
        note = f", {range_text} shown; narrow the pattern, path or include_pattern" * (len(counts) > len(rows))
        return ToolOutcome(content="\n".join([f"{head}{note}", *rows]) + _describe_end(matches), summary=head)

    async def find_matches(self, capability: Reader) -> GrepMatches:
        """Return the matching lines, pending files in their pending state; also those of a spilled result."""
        if (spilled_data := capability.read_spilled(self.path)) is not None:
            return await self._search_spilled(spilled_data)
        scope = SearchScope(capability, self.path, include=self.include_pattern, exclude=self.exclude_pattern)
        disk, notebook_paths = await asyncio.gather(
            self._search_disk(capability, scope), self._list_notebooks(capability, scope)
        )
        pending = scope.list_pending_files()
        deadline = time.monotonic() + _TIME_LIMIT
        notebooks = await asyncio.to_thread(_read_notebooks, capability, [*pending, *notebook_paths], deadline)
        encoded_paths = await self._list_encoded(capability, scope)
        texts = await asyncio.to_thread(_read_encoded, capability, [*pending, *encoded_paths], deadline) | notebooks
        is_late = time.monotonic() > deadline
        copies = await self._search_copies(capability, pending, texts)
        on_disk = ((path, rows) for path, rows in _group_by_file(disk.data) if path not in texts)
        files = {path: rows for path, rows in on_disk if scope.is_searched_on_disk(path)}
        for path, rows in _group_by_file(copies.data):
            files[path] = _name_cells(rows, notebooks[path]) if path in notebooks else rows
        files = await asyncio.to_thread(_decode_rows, capability, files)
        timed_out = disk.timed_out or copies.timed_out or is_late
        return GrepMatches(files, cut=disk.cut or copies.cut, timed_out=timed_out)

    async def _search_spilled(self, data: bytes) -> GrepMatches:
        with tempfile.TemporaryDirectory(prefix="agent-tui-") as folder:
            _write_files(Path(folder), {self.path: data})
            output = await run_ripgrep([*self._build_options(), "--", "./"], cwd=folder, time_limit=_TIME_LIMIT)
        return GrepMatches(dict(_group_by_file(output.data)), cut=output.cut, timed_out=output.timed_out)

    def _build_options(self) -> list[str]:
        return [
            "--null",
            "--line-number",
            "--no-heading",
            "--with-filename",
            "--max-columns-preview",
            f"--max-columns={_COLUMNS}",
            f"--max-count={_PER_FILE}",
            f"--before-context={min(self.before_context or self.context, _MAX_CONTEXT)}",
            f"--after-context={min(self.after_context or self.context, _MAX_CONTEXT)}",
            "--case-sensitive" if self.case_sensitive and not self.ignore_case else "--ignore-case",
            *(("--multiline", "--multiline-dotall") if self.multiline else ()),
            *((f"--type={self.file_type}",) if self.file_type else ()),
            *(("--fixed-strings",) if self.fixed_strings else ()),
            "-e",
            self.pattern,
        ]

    async def _search_disk(self, reader: Reader, scope: SearchScope) -> RipgrepOutput:
        arguments = scope.build_arguments()
        if not arguments:
            return _NOTHING
        options = [*list_scope(reader.root), *self._build_options(), *arguments]
        return await run_ripgrep(options, cwd=reader.root, time_limit=_TIME_LIMIT)

    async def _list_notebooks(self, reader: Reader, scope: SearchScope) -> list[str]:
        """List the notebooks on disk in the scope."""
        if self.file_type not in {"", "jupyter"} or not scope.may_include(".ipynb"):
            return []
        if scope.is_file:
            return [scope.path] if scope.is_searched_on_disk(scope.path) else []
        options = (*list_scope(reader.root), "--files", "--null", "--type-add=notebook:*.ipynb", "--type=notebook")
        ripgrep_output = await run_ripgrep([*options, "--", f"./{scope.path}"], cwd=reader.root, time_limit=_TIME_LIMIT)
        paths = (normpath(from_os_name(name)) for name in ripgrep_output.data.split(b"\0")[:-1])
        return [path for path in paths if scope.is_searched_on_disk(path)]

    async def _list_encoded(self, reader: Reader, scope: SearchScope) -> list[str]:
        """List the files on disk that may be in another encoding, if the pattern's bytes would differ in it."""
        arguments = scope.build_arguments()
        if not arguments or (self.pattern.isascii() and (self.fixed_strings or "\\" not in self.pattern)):
            return []
        options = (*list_scope(reader.root), "--null", "--files-with-matches", "--no-unicode", "-e", _NO_UTF8)
        ripgrep_output = await run_ripgrep([*options, *arguments], cwd=reader.root, time_limit=_TIME_LIMIT)
        paths = (normpath(from_os_name(name)) for name in ripgrep_output.data.split(b"\0")[:-1])
        return [path for path in paths if scope.is_searched_on_disk(path)][:_MOST_ENCODED]

    async def _search_copies(self, reader: Reader, pending: Sequence[str], texts: Mapping[str, str]) -> RipgrepOutput:
        """Search pending files and those of commands, and files whose text differs from their bytes."""
        if not pending and not texts:
            return _NOTHING
        with tempfile.TemporaryDirectory(prefix="agent-tui-") as folder:
            _write_files(Path(folder), {path: text.encode("utf-8", "replace") for path, text in texts.items()})
            others = [path for path in pending if path not in texts]
            is_whole = await asyncio.to_thread(_copy_files, reader, others, Path(folder))
            options = ["--no-ignore", "--hidden", "--no-messages", *self._build_options(), "--", "./"]
            output = await run_ripgrep(options, cwd=folder, time_limit=_TIME_LIMIT)
            return output if is_whole else replace(output, cut=True)


def _read_notebooks(reader: Reader, paths: Iterable[str], deadline: float) -> dict[str, str]:
    """Return the texts of the notebooks among these files until the deadline; an invalid one is searched as
    plain text."""
    texts: dict[str, str] = {}
    for path in filter(is_notebook_path, paths):
        if time.monotonic() > deadline:
            break
        with suppress(PathRefused):  # It was deleted since it was listed.
            text = find_notebook_text(path, reader.read_bytes(path, LARGEST + 1), has_outputs=False)
            texts |= {path: text} if text is not None else {}
    return texts


def _read_encoded(reader: Reader, paths: Iterable[str], deadline: float) -> dict[str, str]:
    """Return the texts of the files in other encodings until the deadline."""
    texts: dict[str, str] = {}
    for path in paths:
        if time.monotonic() > deadline:
            break
        with suppress(PathRefused):  # It was deleted since it was listed.
            file = decode_project_file(reader, path, reader.read_bytes(path, _MOST_DECODED))
            texts |= {path: file.text} if file is not None and file.name else {}
    return texts


def _decode_rows(reader: Reader, files: Mapping[str, list[MatchRow]]) -> dict[str, list[MatchRow]]:
    """Return the rows with invalid UTF-8 decoded by the encoding of their file, else with U+FFFD."""
    decoded_files: dict[str, list[MatchRow]] = {}
    for path, rows in files.items():
        is_invalid = any(find_bytes(row.text) for row in rows)
        file = None
        if is_invalid:
            with suppress(PathRefused):
                file = decode_project_file(reader, path, reader.read_bytes(path, _MOST_DECODED))
        codec = file.encoding if file is not None else "utf-8"
        decoded_files[path] = [replace(row, text=_decode_row(row.text, codec)) for row in rows] if is_invalid else rows
    return decoded_files


def _decode_row(text: str, codec: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode(codec, "replace")


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        target = folder / os.fsdecode(to_os_name(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _copy_files(reader: Reader, paths: Iterable[str], folder: Path) -> bool:
    """Copy files as the agent sees them to a folder. Return False if not all of their bytes are copied."""
    room, is_whole = _MOST_COPIED, True
    for path in paths:
        if not room:
            return False
        with suppress(PathRefused):  # A command removes it concurrently.
            limit = min(_PENDING_LIMIT, room)
            data = reader.read_bytes(path, limit + 1)
            is_whole = is_whole and len(data) <= limit
            _write_files(folder, {path: data[:limit]})
            room -= len(data[:limit])
    return is_whole


def _name_cells(rows: Sequence[MatchRow], text: str) -> list[MatchRow]:
    """Return the rows of a notebook with the head of every cell above its rows."""
    lines, cells, seen_heads = text.split("\n"), list_cells(text), set[int]()
    named_rows: list[MatchRow] = []
    for row in rows:
        head = next((cell.head for cell in cells if cell.head <= row.line <= cell.last), 0)
        if head not in {0, row.line} and head not in seen_heads:
            named_rows.append(MatchRow(head, lines[head - 1], False))
        seen_heads.add(head)
        named_rows.append(row)
    return named_rows


def _group_by_file(data: bytes) -> Iterator[tuple[str, list[MatchRow]]]:
    """Yield ripgrep's `path NUL line:text` rows grouped by file (the rows of a file are contiguous)."""
    for path, rows in groupby(_parse_rows(data), key=itemgetter(0)):
        yield path, [row for _, row in rows]


def _parse_rows(data: bytes) -> Iterator[tuple[str, MatchRow]]:
    """Yield every row with its file, in sequence: a file name may contain a newline. A truncated last row is
    dropped."""
    offset, name = 0, ""
    while offset < len(data):
        if data.startswith(b"--\n", offset):
            yield name, MatchRow(0, "", False)
            offset += 3
            continue
        null = data.find(b"\0", offset)
        end = data.find(b"\n", null) if null >= 0 else -1
        if end < 0:
            return
        name = from_os_name(data[offset:null].removeprefix(b"./"))
        yield name, _parse_row(data[null + 1 : end])
        offset = end + 1


def _parse_row(row: bytes) -> MatchRow:
    digits = len(row) - len(row.lstrip(b"0123456789"))
    text = row[digits + 1 :].decode("utf-8", "surrogateescape").removesuffix("\r")
    return MatchRow(int(row[:digits] or 0), text, row[digits : digits + 1] == b":")


def _describe_end(matches: GrepMatches) -> str:
    limit_note = f"\n[stopped after {_TIME_LIMIT:.0f} s; narrow the search by path or include_pattern]"
    return limit_note if matches.timed_out else ""


def _name_part(limit: int, offset: int) -> str:
    return f"{offset + 1} to {offset + limit}" if offset else f"the first {limit}"


def _format_outcome(pattern: str, matches: GrepMatches, limit: int, offset: int = 0) -> ToolOutcome:
    files, limit_note = matches.files, _describe_end(matches)
    total = sum(row.hit for rows in files.values() for row in rows)
    if not total:
        return ToolOutcome(content=f"No matches for {pattern}{limit_note}", summary="no matches")
    number = f"{total:,}{'+' if _is_incomplete(matches) else ''}"
    head = f"{number} match{'' if number == '1' else 'es'} in {count('file', len(files))}"
    note = f", {_name_part(limit, offset)} shown; narrow the pattern, path or include_pattern"
    note *= total > limit or bool(offset)
    body = "\n".join(_format_rows(_skip_hits(sorted(files.items()), offset), limit))
    return ToolOutcome(content=f"{head}{note}\n{body}{limit_note}", summary=head)


def _is_incomplete(matches: GrepMatches) -> bool:
    is_cut = matches.cut or matches.timed_out
    return is_cut or any(sum(row.hit for row in rows) >= _PER_FILE for rows in matches.files.values())


def _skip_hits(files: Iterable[tuple[str, list[MatchRow]]], count: int) -> Iterator[tuple[str, list[MatchRow]]]:
    """Yield the rows after the first `count` matches."""
    for path, rows in files:
        remaining_rows = rows
        while count and remaining_rows:
            count -= remaining_rows[0].hit
            remaining_rows = remaining_rows[1:]
        if remaining_rows:
            yield path, remaining_rows


def _format_rows(files: Iterable[tuple[str, list[MatchRow]]], limit: int) -> Iterator[str]:
    remaining = limit
    for path, rows in files:
        if remaining <= 0:
            return
        yield f"\n{path}"
        for row in rows:
            if row.hit and remaining <= 0:
                return
            remaining -= row.hit
            yield "--" if not row.line else f"{row.line}{':' if row.hit else '-'}{row.text}"
