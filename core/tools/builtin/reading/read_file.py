"""read_file: a part of a text file, with line numbers; bounded in lines, bytes and memory."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import force_setattr, replace

from core.attachments.preparation import PreparedAttachment, prepare_attachment
from core.attachments.signature import detect_media_type
from core.edits.text_file import decode_text, detect_binary
from core.errors import AttachmentRefused, ToolFailed
from core.notebooks.notebook import LARGEST, NotebookInvalid, is_notebook_path, looks_like_notebook, parse_notebook
from core.notebooks.rendering import OutputPicture, render_for_reading
from core.protocol.attachment_labels import classify_attachment, describe_attachment
from core.text.counting import count
from core.tools.base import ProgramData, Reader, ReadTool, ToolOutcome
from core.tools.builtin.editing.edit_targets import (
    build_not_text_error,
    decode_project_file,
    require_file,
    require_present,
)
from core.tools.builtin.reading.list_files import ListDir

_MAX_LINES = 1500
_MAX_BYTES = 100_000
_MAX_LINE = 2000
_SCAN = 16_000_000
_MAX_PICTURES = 4  # The limit for the pictures of a notebook.
_TOO_LARGE = f"Up to {LARGEST:,} are shown as cells: clear its outputs (jupyter nbconvert --clear-output --inplace)."
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class _LineWindow(Struct, kw_only=True):
    """The visible lines; `first` and `last` are 1-indexed, `total` counts those in `data`."""

    rows: list[str]
    first: int
    last: int
    total: int


class ReadFile(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "read_file"
    argument_names: ClassVar = {
        **dict.fromkeys(
            (
                *("path", "file_path", "filename", "file", "notebook_path", "relative_workspace_path"),
                *("absolute_path", "image_file"),
            ),
            "target_file",
        ),
        **dict.fromkeys(("start_line_one_indexed", "start_line", "line_number", "line_offset"), "offset"),
        **dict.fromkeys(("end_line_one_indexed_inclusive", "end_line_one_indexed"), "end_line"),
        "n_lines": "limit",
    }
    ignored_arguments: ClassVar = frozenset(
        ("pages", "detail", "allow_large", "toolSummary", "IncludeSummaryOfOtherLines")
    )
    assumed_arguments: ClassVar = {"mode": "slice"}

    target_file: Annotated[str, Meta(min_length=1, description="The file, relative to the workspace or absolute.")]
    offset: Annotated[int, Meta(description="The first line, from 1; negative counts from the end.")] = 1
    limit: Annotated[int, Meta(ge=0, description="How many lines; 0 = as many as fit.")] = 0
    # Arguments for models of other agents, which no schema describes.
    explanation: str = ""
    should_read_entire_file: bool = False
    end_line: Annotated[int, Meta(ge=0)] = 0

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        adapted_arguments = dict(arguments)
        if "absolute_path" in arguments and isinstance(first := arguments.get("offset"), int) and first >= 0:
            adapted_arguments["offset"] = first + 1  # The tool that has this name counts lines from 0.
        for name in ("view_range", "line_range", "read_range"):
            match adapted_arguments.get(name):
                case [int(first), int(last)]:
                    del adapted_arguments[name]
                    adapted_arguments |= {"offset": first, "end_line": max(last, 0)}  # -1 = to the end.
        if isinstance(lines := adapted_arguments.pop("context_lines", None), int) and lines > 0:
            middle = next(
                (
                    adapted_arguments[key]
                    for key in ("line_number", "offset")
                    if isinstance(adapted_arguments.get(key), int)
                ),
                1,
            )
            adapted_arguments.pop("line_number", None)
            adapted_arguments |= {"offset": max(1, middle - lines // 2), "limit": lines}
        return adapted_arguments

    def __post_init__(self) -> None:
        if self.should_read_entire_file:
            force_setattr(self, "offset", 1)
            force_setattr(self, "limit", 0)
        elif self.end_line:
            first = max(1, self.offset)
            if self.offset < 0 or self.end_line < first:
                raise ValueError(f"the last line, {self.end_line}, is before the first, {self.offset}")
            force_setattr(self, "limit", self.end_line - first + 1)

    def subject(self) -> str:
        if self.offset in {0, 1} and not self.limit:
            return self.target_file
        return f"{self.target_file} from line {self.offset}" + (f", {self.limit} lines" if self.limit else "")

    def paths(self) -> tuple[str, ...]:
        return (self.target_file,)

    async def run(self, capability: Reader) -> ToolOutcome:
        spilled_data = capability.read_spilled(self.target_file)
        if spilled_data is not None:
            return self._format_text(spilled_data[:_SCAN], len(spilled_data))[0]
        stat = require_present(capability, self.target_file)
        if stat.kind == "directory":
            return await self._list_directory(capability)
        require_file(stat, self.target_file)
        data = capability.read_bytes(self.target_file, _SCAN)
        if detect_media_type(data):
            return await self._build_outcome(data, max(stat.size, len(data)))
        if is_notebook_path(self.target_file) and looks_like_notebook(data):
            return await self._show_notebook(capability, data, stat.size)
        outcome, complete = self._format_text(data, max(stat.size, len(data)), capability)
        if complete:
            capability.mark_read(self.target_file)
        return outcome

    async def _list_directory(self, capability: Reader) -> ToolOutcome:
        """Return the entries of a directory: in other agents, the same tool shows both."""
        outcome = await ListDir(relative_workspace_path=self.target_file).run(capability)
        return replace(outcome, content=f"[{self.target_file} is a directory; list_dir shows it]\n{outcome.content}")

    async def _build_outcome(self, data: bytes, size: int) -> ToolOutcome:
        """Return a picture or a PDF as an attachment for the model."""
        if size > len(data):
            raise build_not_text_error(self.target_file, data, size)
        try:
            prepared_attachment = await asyncio.to_thread(
                prepare_attachment, data, PurePosixPath(self.target_file).name
            )
        except AttachmentRefused as refused:
            not_text_error = build_not_text_error(self.target_file, data, size)
            raise ToolFailed(
                f"{not_text_error.message} {refused.message}", hint=not_text_error.hint, code=not_text_error.code
            ) from None
        description = describe_attachment(prepared_attachment.attachment)
        note = f", {prepared_attachment.note}" if prepared_attachment.note else ""
        content = f"{classify_attachment(prepared_attachment.attachment)}: {description}{note}"
        return ToolOutcome(content=content, summary=description, attachments=(prepared_attachment,))

    async def _show_notebook(self, capability: Reader, data: bytes, size: int) -> ToolOutcome:
        """Return a notebook as its cells, with the pictures of their outputs; as plain text if it is not valid."""
        try:
            if size > LARGEST:
                raise NotebookInvalid(f"{self.target_file} has {size:,} bytes.", hint=_TOO_LARGE)
            notebook = await asyncio.to_thread(parse_notebook, self.target_file, data)
        except NotebookInvalid as invalid:
            outcome, _ = self._format_text(data, max(size, len(data)))
            return replace(outcome, content=f"[{invalid.format_with_hint()}]\n{outcome.content}")
        notebook_text = render_for_reading(notebook)
        text = notebook_text.text.encode("utf-8", "replace")
        outcome, complete = self._format_text(text, len(text))
        if complete:
            capability.mark_read(self.target_file)
        prepared_attachments = await asyncio.to_thread(_prepare_pictures, notebook_text.pictures)
        return replace(outcome, attachments=prepared_attachments)

    def _format_text(self, data: bytes, size: int, reader: Reader | None = None) -> tuple[ToolOutcome, bool]:
        """Return the result, and whether it reaches the end of the file. `reader`: the reader, for a file of the
        project."""
        if not data:
            return ToolOutcome(content="The file is empty.", summary="empty", build_data=partial(ProgramData, "")), True
        data, encoding = self._decode_to_utf8(data, size, reader)
        window = self._cut_window(data)
        is_whole = size <= _SCAN
        if not window.rows:
            content = f"The file has {window.total:,} lines; there is nothing at line {self.offset}."
            return ToolOutcome(content=content, summary=f"no line {self.offset}"), False
        notes = self._build_notes(window, size, is_whole)
        notes += [f"[the file is in {encoding}; what you write to it is converted]"] if encoding else []
        at_end = is_whole and window.last == window.total
        if window.first == 1 and at_end:
            summary = count("line", window.total)
        else:
            summary = f"lines {window.first:,}-{window.last:,} of {window.total:,}{'' if is_whole else '+'}"
        content = "\n".join([*window.rows, *notes])
        return ToolOutcome(content=content, summary=summary, build_data=partial(self._cut_text, data, size)), at_end

    def _decode_to_utf8(self, data: bytes, size: int, reader: Reader | None) -> tuple[bytes, str]:
        """Return the text as UTF-8, and the name of its encoding unless that is Unicode."""
        if data.startswith(_UTF16):
            text = decode_text(data[: len(data) & ~1])
            if text is not None:
                return text.text.encode("utf-8", "replace"), ""
        if detect_binary(data):
            raise build_not_text_error(self.target_file, data, size)
        file = decode_text(data) if reader is None else decode_project_file(reader, self.target_file, data)
        if file is not None and file.name:
            return file.text.encode("utf-8", "replace"), file.name
        return data.removeprefix(b"\xef\xbb\xbf"), ""

    def _cut_window(self, data: bytes) -> _LineWindow:
        total = data.count(b"\n") + (not data.endswith(b"\n"))
        first = max(1, self.offset if self.offset >= 0 else total + self.offset + 1)
        limit = min(self.limit or _MAX_LINES, _MAX_LINES)
        rows: list[str] = []
        byte_count = 0
        # One line at a time: a huge file of short lines must not become a huge list.
        for number, line in islice(enumerate(BytesIO(data), start=1), first - 1, first - 1 + limit):
            row = f"{number:6}|{_format_line(line)}"
            byte_count += len(row) + 1
            if rows and byte_count > _MAX_BYTES:
                break
            rows.append(row)
        return _LineWindow(rows=rows, first=first, last=first + len(rows) - 1, total=total)

    def _cut_text(self, data: bytes, size: int) -> ProgramData:
        """Return the bare text for a program, whole unless it asked for a part."""
        if self.offset not in {0, 1} or self.limit:
            lines = data.splitlines(keepends=True)
            start = max(self.offset - 1, 0) if self.offset >= 0 else max(len(lines) + self.offset, 0)
            data = b"".join(lines[start : start + self.limit] if self.limit else lines[start:])
        note = f"only the first {_SCAN:,} of {size:,} bytes were read" if size > _SCAN else ""
        return ProgramData(data.decode("utf-8", "replace"), note)

    def _build_notes(self, window: _LineWindow, size: int, is_whole: bool) -> list[str]:
        if is_whole and window.last == window.total:
            return []
        if window.last < window.total:
            total = f"{window.total:,}" if is_whole else f"more than {window.total:,}"
            return [
                f"[lines {window.first:,}-{window.last:,} of {total}, {size:,} bytes in all; continue "
                f"with offset={window.last + 1}]"
            ]
        return [f"[only the first {_SCAN:,} of {size:,} bytes can be read with this tool; search the rest with grep]"]


def _prepare_pictures(pictures: Sequence[OutputPicture]) -> tuple[PreparedAttachment, ...]:
    prepared_attachments: list[PreparedAttachment] = []
    for picture in pictures[:_MAX_PICTURES]:
        with suppress(AttachmentRefused, ValueError):
            prepared_attachments.append(
                prepare_attachment(base64.b64decode(picture.data), f"output of cell {picture.cell}")
            )
    return tuple(prepared_attachments)


def _format_line(line: bytes) -> str:
    bare = line.removesuffix(b"\n").removesuffix(b"\r")
    if len(bare) <= _MAX_LINE:
        return bare.decode("utf-8", "replace")
    text = bare[: _MAX_LINE * 4].decode("utf-8", "replace")[:_MAX_LINE]
    return f"{text} [... line clipped: {len(bare):,} bytes]"
