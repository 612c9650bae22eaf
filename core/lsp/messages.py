"""Messages and positions of the language server protocol as records, read leniently because servers differ.

Positions outside of a text are clamped to it: a line after the last one to the end of the text, a column after the end
of a line to the end of that line.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Final, Literal
from urllib.parse import quote, unquote, urlsplit

import msgspec
from msgspec import Struct, field

from core.errors import ToolFailed
from core.patterns import compile_lazily
from core.protocol.language import Diagnostic, Severity
from core.records import convert, decode_json

Encoding = Literal["utf-8", "utf-16", "utf-32"]
ENCODINGS: Final[tuple[Encoding, ...]] = ("utf-32", "utf-8", "utf-16")  # in order of preference
_CODECS: Final = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}  # bytes per code unit
_LINE_END: Final = compile_lazily(r"\r\n|\n|\r")
MAX_DIAGNOSTICS: Final = 2_000  # per file
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of decoding an invalid message; the contents of a `Raw` are decoded late."""
_MAX_MESSAGE: Final = 1_000
_MAX_HOVER: Final = 20_000
_MAX_URI: Final = 4_096
_SEVERITIES: Final[dict[int, Severity]] = {1: "error", 2: "warning", 3: "information", 4: "hint"}


class Position(Struct, frozen=True):
    """A position in a text: 0-indexed line, and code units of the encoding before it in the line."""

    line: int = 0
    character: int = 0


class Range(Struct, frozen=True):
    start: Position = Position()
    end: Position = Position()


class LineTable:
    """A text by the lines of the protocol, where CR, LF and CRLF end a line, and by ours, where LF and CRLF do."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self._text, self._encoding = text, encoding
        self._encoded: dict[int, bytes] = {}
        ends = list(_LINE_END.finditer(text))
        self._wire_starts = [0, *(match.end() for match in ends)]
        self._wire_stops = [*(match.start() for match in ends), len(text)]
        self._line_starts = [0, *(match.end() for match in ends if match[0] != "\r")]

    def list_lines(self) -> list[str]:
        """Return our lines without their endings."""
        return [self.get_line(line) for line in range(1, len(self._line_starts) + 1)]

    def get_line(self, line: int) -> str:
        """Return one of our lines, 1-indexed; "" after the last."""
        if not 0 < line <= len(self._line_starts):
            return ""
        stop = self._line_starts[line] if line < len(self._line_starts) else len(self._text)
        body = self._text[self._line_starts[line - 1] : stop]
        return body.removesuffix("\n").removesuffix("\r") if body.endswith("\n") else body

    def find_offset(self, position: Position) -> int:
        """Return the offset of a position, in characters."""
        if position.line < 0:
            return 0
        if position.line >= len(self._wire_starts):
            return len(self._text)
        return self._wire_starts[position.line] + self._count_characters(position)

    def find_location(self, position: Position) -> tuple[int, int]:
        """Return our line and column of a position, 1-indexed and in characters."""
        offset = self.find_offset(position)
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def find_position(self, line: int, column: int) -> Position:
        """Return the position of our line and column, 1-indexed and in characters."""
        if line > len(self._line_starts):
            return Position(len(self._wire_starts), 0)
        line_number = max(line, 1)
        offset = self._line_starts[line_number - 1] + min(max(0, column - 1), len(self.get_line(line_number)))
        line_index = bisect_right(self._wire_starts, offset) - 1
        body = self._text[self._wire_starts[line_index] : offset]
        return Position(line_index, len(body) if self._encoding == "utf-32" else _count_units(body, self._encoding))

    def _count_characters(self, position: Position) -> int:
        body = self._text[self._wire_starts[position.line] : self._wire_stops[position.line]]
        units = max(0, position.character)
        if self._encoding == "utf-32" or body.isascii():
            return min(units, len(body))
        codec, width = _CODECS[self._encoding]
        if position.line not in self._encoded:  # a long line may be queried very often
            self._encoded[position.line] = body.encode(codec, "surrogatepass")
        return len(self._encoded[position.line][: units * width].decode(codec, "ignore"))


def _count_units(text: str, encoding: Encoding) -> int:
    codec, width = _CODECS[encoding]
    return len(text.encode(codec, "surrogatepass")) // width


class WireDiagnostic(Struct, frozen=True):
    range: Range = Range()
    message: str | dict[str, Any] = ""
    severity: int | None = None
    code: int | str | None = None


class DiagnosticReport(Struct, frozen=True):
    """The response to a pull. `kind` "unchanged": the same as before."""

    kind: str = "full"
    items: list[msgspec.Raw] = field(default_factory=list)


class PublishedDiagnostics(Struct, frozen=True):
    uri: str = ""
    version: int | None = None
    diagnostics: list[msgspec.Raw] = field(default_factory=list)


class Location(Struct, frozen=True, rename="camel"):
    """A `Location` or a `LocationLink`."""

    uri: str = ""
    range: Range = Range()
    target_uri: str = ""
    target_selection_range: Range | None = None

    def get_target(self) -> tuple[str, Range]:
        return (self.target_uri, self.target_selection_range or Range()) if self.target_uri else (self.uri, self.range)


class TextEdit(Struct, frozen=True, rename="camel"):
    range: Range = Range()
    new_text: str = ""


def parse_diagnostics(items: list[msgspec.Raw], path: str, lines: LineTable, server: str) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a file. Invalid ones are skipped, ranges clamped to the text."""
    diagnostics: list[Diagnostic] = []
    for raw in items[:MAX_DIAGNOSTICS]:
        try:
            item = decode_json(raw, WireDiagnostic)
        except UNREADABLE:
            continue
        line, column = lines.find_location(item.range.start)
        end = max((line, column), lines.find_location(item.range.end))
        message = item.message if isinstance(item.message, str) else str(item.message.get("value", ""))
        diagnostics.append(
            Diagnostic(
                path=path,
                line=line,
                column=column,
                end_line=end[0],
                end_column=end[1],
                severity=_SEVERITIES.get(item.severity or 1, "error"),
                message=message[:_MAX_MESSAGE],
                code="" if item.code is None else str(item.code)[:100],
                source=server,
            )
        )
    return tuple(diagnostics)


def _decode_answer(raw: msgspec.Raw) -> Any:
    """Return a response of any shape. Raises `ToolFailed`."""
    try:
        return decode_json(raw)
    except UNREADABLE:
        raise ToolFailed("The language server's answer can't be read.", hint="Use grep.") from None


def parse_locations(raw: msgspec.Raw) -> list[tuple[str, Range]]:
    """Return URI and range of every location in a response: none, one, or many. Raises `ToolFailed`."""
    value = _decode_answer(raw)
    locations = []
    for raw_location in value if isinstance(value, list) else [value] if value else []:
        try:
            locations.append(convert(raw_location, Location).get_target())
        except msgspec.ValidationError:
            continue
    return [(uri, span) for uri, span in locations if len(uri) <= _MAX_URI]


def parse_hover(raw: msgspec.Raw) -> str:
    """Return the Markdown of a hover; "" = there is none. Raises `ToolFailed`."""
    value = _decode_answer(raw)
    contents = value.get("contents") if isinstance(value, dict) else None
    parts = contents if isinstance(contents, list) else [contents]
    return "\n\n".join(filter(None, map(_format_marked, parts)))[:_MAX_HOVER]


def _format_marked(part: Any) -> str:
    if isinstance(part, str):
        return part.strip()
    if not isinstance(part, dict) or not isinstance(part.get("value"), str):
        return ""
    language = part.get("language")
    return f"```{language}\n{part['value']}\n```" if isinstance(language, str) else str(part["value"]).strip()


def parse_workspace_edit(raw: msgspec.Raw) -> dict[str, list[TextEdit]] | None:
    """Return the edits by URI; None: the edit also creates, renames or deletes files, or is invalid. Raises
    `ToolFailed`."""
    value = _decode_answer(raw)
    if not isinstance(value, dict):
        return None
    edits_by_uri: dict[str, list[TextEdit]] = {}
    try:
        if isinstance(value.get("documentChanges"), list):
            for change in value["documentChanges"]:
                edits = convert(change["edits"], list[TextEdit])
                edits_by_uri.setdefault(str(change["textDocument"]["uri"]), []).extend(edits)
        elif isinstance(value.get("changes"), dict):
            edits_by_uri = convert(value["changes"], dict[str, list[TextEdit]])
    except (msgspec.ValidationError, KeyError, TypeError):
        return None
    return edits_by_uri


def build_uri(path: str) -> str:
    """Return the URI of an absolute path."""
    return "file://" + quote(path.encode("utf-8", "surrogateescape"), safe="/~:@!$&'()*+,;=-._")


def parse_uri(uri: str) -> str:
    """Return the absolute path of a URI; "" if it is no local file."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return ""
    return unquote(parts.path, errors="surrogateescape")
