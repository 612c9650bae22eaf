"""The SEARCH/REPLACE block format: parse the blocks of a text, and apply all of them or none.

    ------- SEARCH
    lines that are there
    =======
    lines that take their place
    +++++++ REPLACE

An empty SEARCH stands for the whole file, an empty REPLACE deletes. Markers have seven or more signs and stand alone on
their line. Blocks opened with `<<<<<<< SEARCH` end with `>>>>>>> REPLACE`; as models write these in many ways, five
signs, a stray `>` and white space around are read too. Around the blocks there may be text, fences, `<chat>` and
`<file-edit filePath="…">` tags, or the file's name on one of the three lines before a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.edits.errors import EditError, format_part
from core.edits.formats.target_file import is_same_file
from core.edits.matching.ladder import LadderMatch, locate
from core.edits.matching.search_text import SearchText
from core.patterns import compile_lazily
from core.text.lines import apply_splices, carry_endings, find_line_number, normalise_endings
from core.text.markup import has_closing_tag, parse_open_tag

_DASHED: Final = (
    compile_lazily(r"-{7,} SEARCH$"),
    compile_lazily(r"={7,}$"),
    compile_lazily(r"(?:\+{7,}|>{7,}) REPLACE$"),
)
_ANGLED: Final = (
    compile_lazily(r"\s*<{5,} SEARCH>?\s*$"),
    compile_lazily(r"\s*={5,}\s*$"),
    compile_lazily(r"\s*(?:>{5,}|\+{7,}) REPLACE\s*$"),
)
_ANY_END = compile_lazily(r"\s*(?:>{5,}|\+{7,}) REPLACE\s*$")
_GLUED = compile_lazily(r"((?:\+{7,}|>{7,}) REPLACE)[ \t]*(</(?:file-edit|diff|content)>.*)$")
_START_LINE = compile_lazily(r":(start|end)_line:\s*\[?(\d+)\]?\s*$")
_RULE = compile_lazily(r"-{7,}\s*$")
_ESCAPED = compile_lazily(r"\\(?=(?:[<>=+-]{7}|:(?:start|end)_line:))")
_NAME = compile_lazily(r"(?:[^\s]+|[^\n]{0,80}[\w/\\-]\.\w{1,8})$")
_MISPLACED = compile_lazily(r"\s*:(?:start|end)_line:")
_NEARLY = compile_lazily(r"\s*(<{5,}|>{5,}|-{5,}|\+{5,}) ?(?:SEARCH|REPLAC\w*)\s*>?\s*$")
_CUT_OFF = compile_lazily(r"(?:-{7,}|<{7,}) S(?:E(?:A(?:RC?)?)?)?$")
_HINT: Final = (
    "A block is: ------- SEARCH, the old lines, =======, the new lines, +++++++ REPLACE; each marker alone on its "
    "line. Write \\======= for a line of the file that looks like a marker. Nothing was changed."
)
Parts = tuple[str, str]
_CONFLICT = compile_lazily(r"(<{7}|\|{7}|={7}|>{7})(?: .*)?$")
_NEXT: Final = {"<": "|=", "|": "=", "=": ">", ">": "<"}
_EQUALS_LINE = compile_lazily(r"^={5,}\s*$", re.MULTILINE)


class SearchReplaceBlock(Struct, frozen=True):
    """One block. `search` and `replace` are whole lines with their endings; "" is an empty part.

    `path` and `line` (1-indexed) are the file and the start that the text names. `alternatives` are further readings of
    a block with a line of equals signs that may be the underline of a heading.
    """

    search: str
    replace: str
    path: str | None = None
    line: int | None = None
    alternatives: tuple[Parts, ...] = ()


def parse_blocks(content: str) -> tuple[SearchReplaceBlock, ...]:
    """Parse all blocks of `content`, in order. Raises `EditError` that names the line for broken markers."""
    blocks = tuple(_BlockParser(content).parse())
    if not blocks:
        raise EditError("There is no SEARCH/REPLACE block in the text.", hint=_HINT)
    return blocks


def build_marker_error(problem: str, line: int) -> EditError:
    """Build the `EditError` for markers that are broken in `line` (1-indexed)."""
    return EditError(f"Broken SEARCH/REPLACE markers in line {line}: {problem}.", hint=_HINT)


def is_block_start(line: str) -> bool:
    """True if a line, with or without its ending, opens a block."""
    bare = line.rstrip("\r\n")
    return bool(_DASHED[0].match(bare) or _ANGLED[0].match(bare))


class _BlockParser:
    """Parser of a text: it reads the lines outside of blocks one by one, and every block as a whole."""

    def __init__(self, content: str) -> None:
        self.lines = _split_rows(content)
        self.index = 0
        self.tag_path: str | None = None
        self.heading_path: str | None = None

    def parse(self) -> Iterator[SearchReplaceBlock]:
        while self.index < len(self.lines):
            row = self.lines[self.index].rstrip("\r\n")
            if is_block_start(row):
                yield self._parse_block(_DASHED if _DASHED[0].match(row) else _ANGLED)
                continue
            if _ANY_END.match(row):
                raise build_marker_error(f"{row.strip()} without a SEARCH before it", self.index + 1)
            if _DASHED[1].match(row) and self._has_end_without_start():
                raise build_marker_error("======= is outside a block", self.index + 1)
            if _CUT_OFF.match(row) and self.index == len(self.lines) - 1:
                raise build_marker_error("the text ends in the middle of a marker", self.index + 1)
            self._read_tags(row)
            self.index += 1

    def _read_tags(self, row: str) -> None:
        if has_closing_tag(row, "file-edit"):
            self.tag_path = None
        attributes = parse_open_tag(row, "file-edit")
        if attributes is not None:
            self.tag_path = next(
                (attributes[name] for name in ("filepath", "path", "file_path") if name in attributes), None
            )

    def _has_end_without_start(self) -> bool:
        """True if the next marker is the end of a block, so that its start is missing."""
        rest = (row.rstrip("\r\n") for row in self.lines[self.index + 1 :])
        return _ANY_END.match(next((row for row in rest if is_block_start(row) or _ANY_END.match(row)), "")) is not None

    def _parse_block(self, style: Sequence[re.Pattern[str]]) -> SearchReplaceBlock:
        begin = self.index
        path = self._find_path(begin, style)
        end = self._find_end(begin, style)
        self.index = end + 1
        body = self.lines[begin + 1 : end]
        line, body = _split_line_number(body)
        dividers = [index for index, row in enumerate(body) if style[1].match(row.rstrip("\r\n"))]
        block_label = f"the block that begins in line {begin + 1}"
        if not dividers:
            raise build_marker_error(f"{block_label} has no ======= line before its end", end + 1)
        readings = split_at_dividers(body, dividers)
        if not readings:
            raise build_marker_error(f"{block_label} has several ======= lines", begin + 2 + dividers[1])
        (search, replace), *others = readings
        if residue := _find_stray_marker(search) or _find_stray_marker(replace):
            raise build_marker_error(f"{residue[:60]!r} in {block_label} looks like a marker", end + 1)
        if any(_MISPLACED.match(row) for row in replace.splitlines()):
            problem = f"a :start_line: is in the REPLACE part of the block in line {begin + 1}"
            raise build_marker_error(problem, begin + 1)
        return SearchReplaceBlock(_unescape(search), _unescape(replace), path, line, tuple(others))

    def _find_end(self, begin: int, style: Sequence[re.Pattern[str]]) -> int:
        has_divider, block_label = False, f"the block that begins in line {begin + 1}"
        for index in range(begin + 1, len(self.lines)):
            row = self.lines[index].rstrip("\r\n")
            if style[2].match(row) and not (style is _DASHED and row[0] == ">" and self._closes_nested(begin, index)):
                return index
            has_divider = has_divider or bool(style[1].match(row))
            if style[0].match(row):
                missing = "REPLACE" if has_divider else "======="
                raise build_marker_error(f"{block_label} has no {missing} line before", index + 1)
        missing = "+++++++ REPLACE" if has_divider else "======="
        raise build_marker_error(f"{block_label} has no {missing} line", begin + 1)

    def _closes_nested(self, begin: int, index: int) -> bool:
        """True if a >>>>>>> REPLACE closes a <<<<<<< SEARCH that is content of the block."""
        open_count = sum(row.startswith("<<<<<<<") for row in self.lines[begin + 1 : index])
        return open_count > sum(row.startswith(">>>>>>>") for row in self.lines[begin + 1 : index])

    def _find_path(self, begin: int, style: Sequence[re.Pattern[str]]) -> str | None:
        if self.tag_path is not None:
            return self.tag_path
        name = _find_file_name(self.lines[max(0, begin - 3) : begin])
        if name and (style is _ANGLED or re.search(r"[./]", name)):
            self.heading_path = name
        return self.heading_path


def _find_stray_marker(part: str) -> str:
    """Return a line of a part that is a marker of another block, or similar to one, and not one of a pair; "" =
    none."""
    markers = [(row, match[1][0] in "<-") for row in part.splitlines() if (match := _NEARLY.match(row))]
    depth = 0
    for row, opens_block in markers:
        is_complete = row.strip().endswith(("SEARCH" if opens_block else "REPLACE", ">"))
        depth += 1 if opens_block else -1
        if not is_complete or depth < 0 or depth > 1:
            return row.strip()
    return markers[-1][0].strip() if depth else ""


def _split_rows(content: str) -> list[str]:
    rows: list[str] = []
    for row in re.findall(r"[^\n]*\n|[^\n]+", content):
        match = _GLUED.match(row.rstrip("\n"))
        rows += [f"{match[1]}\n", f"{match[2]}\n"] if match else [row]
    return rows


def _split_line_number(body: list[str]) -> tuple[int | None, list[str]]:
    """Split off the `:start_line:` of a block: (1-indexed line or None, the remaining lines)."""
    line, count = None, 0
    for row in body:
        match = _START_LINE.match(row.strip())
        if not match:
            break
        line = int(match[2]) if match[1] == "start" else line
        count += 1
    if count and count < len(body) and _RULE.match(body[count].rstrip("\r\n")):
        count += 1
    return line, body[count:]


def _unescape(part: str) -> str:
    return "".join(_ESCAPED.sub("", row, count=1) if row[0] == "\\" else row for row in part.splitlines(keepends=True))


def _find_file_name(before: Sequence[str]) -> str | None:
    """Return the name of a file on the lines before a block, skipping fences; None = there is none."""
    names = []
    for row in reversed(before):
        names.append(_parse_file_name(row))
        if not row.strip().startswith("```"):
            break
    file_names = [name for name in names if name]
    return next((name for name in file_names if "." in name), file_names[0] if file_names else None)


def _parse_file_name(row: str) -> str:
    name = row.strip()
    if name == "...":
        return ""
    if name.startswith("```"):
        name = name.lstrip("`").strip()
        return name.split(":", 1)[-1] if "." in name or "/" in name else ""
    if name.startswith("<") and name.endswith(">"):
        return ""
    name = name.rstrip(":").lstrip("#").strip().strip("`").strip("*").strip()
    return name if _NAME.match(name) else ""


def split_at_dividers(body: Sequence[str], dividers: Sequence[int]) -> list[Parts]:
    """Return the ways to split a block into (search, replace) at one of its dividers: by conflict markers, else by
    underlined headings. The file has to decide between several."""
    halves = [(body[:divider], body[divider + 1 :]) for divider in dividers]
    if len(dividers) > 1:
        by_conflict = [half for half in halves if all(map(_is_conflict, half))]
        halves = by_conflict or [half for half in halves if all(map(_is_underlined, half))]
    return [("".join(search), "".join(replace)) for search, replace in halves]


def _is_conflict(part: Sequence[str]) -> bool:
    """True if the conflict markers of a part are in the order of a file, and no ======= is single."""
    tokens = [match[1][0] for row in part if (match := _CONFLICT.match(row.rstrip("\r\n")))]
    return tokens != ["="] and all(after in _NEXT[before] for before, after in pairwise(tokens))


def _is_underlined(part: Sequence[str]) -> bool:
    """True if every ======= of a part is below a line of about its length."""
    rows = ["", *(row.rstrip("\r\n") for row in part)]
    return all(
        before.strip() and not before.startswith("=") and abs(len(before.rstrip()) - len(row)) <= 3
        for before, row in pairwise(rows)
        if re.fullmatch(r"={5,}\s*", row)
    )


class SearchReplaceResult(Struct, frozen=True, kw_only=True):
    """The result of all blocks. `rungs` and `lines` have one entry per applied block.

    `lines` are 1-indexed starts, in the running text if blocks build on each other. `slips`: the kinds of mistakes that
    were repaired, including a repeated block.
    """

    text: str
    rungs: tuple[str, ...]
    lines: tuple[int, ...]
    slips: tuple[str, ...] = ()


def apply_search_replace(text: str, content: str, path: str = "") -> SearchReplaceResult:
    """Apply the blocks of `content` that are meant for the file at `path`. Raises `EditError`."""
    return apply_blocks(text, select_blocks(parse_blocks(content), path))


def select_blocks(blocks: Sequence[SearchReplaceBlock], path: str) -> tuple[SearchReplaceBlock, ...]:
    """Select the blocks that name this file or none; if all name one other file, that is another name of it."""
    file_blocks = tuple(block for block in blocks if not path or block.path is None or is_same_file(block.path, path))
    if file_blocks and any(block.path is not None for block in file_blocks):
        return file_blocks
    return tuple(blocks) if len({block.path for block in blocks}) == 1 else file_blocks or tuple(blocks)


def apply_blocks(text: str, blocks: Sequence[SearchReplaceBlock]) -> SearchReplaceResult:
    """Apply every block or none.

    Blocks are applied to the original text, or one after the other if one is not in it or two touch the same lines. A
    repeated block is applied once. Raises `EditError` that names the block.
    """
    original_blocks, blocks = blocks, tuple(dict.fromkeys(blocks))
    if len(blocks) == 1 and not blocks[0].search:
        return SearchReplaceResult(text=_fit_endings(text, blocks[0].replace), rungs=("whole_file",), lines=(1,))
    if any(not block.search for block in blocks):
        raise EditError(
            "A block with an empty SEARCH part means the whole file and can't be mixed with other blocks.",
            hint="Send it alone, or give the lines to replace. Nothing was changed.",
        )
    search_text = SearchText(text)
    result = _apply_at_once(search_text, blocks) or _apply_in_turn(search_text, blocks)
    return replace(result, slips=(*result.slips, "repeated")) if len(blocks) < len(original_blocks) else result


def _fit_endings(text: str, replace: str) -> str:
    """Give a new text CRLF endings if all lines of the file end with CRLF."""
    if "\r\n" in text and text.count("\n") == text.count("\r\n"):
        return normalise_endings(replace).replace("\n", "\r\n")
    return carry_endings("", replace, "\n")


def _find_block(search_text: SearchText, block: SearchReplaceBlock) -> LadderMatch:
    """Find the position of a block. Of several readings the one counts that the file has; a line of equals signs is
    only added to a file that has such lines."""
    if not block.alternatives:
        return locate(search_text, block.search, block.replace, whole_lines=True, line_hint=block.line)
    readings = [(block.search, block.replace), *block.alternatives]
    has_rule = _EQUALS_LINE.search(search_text.lf_text) is not None
    present_readings = [
        reading for reading in readings if reading[0] and f"\n{reading[0]}" in f"\n{search_text.lf_text}"
    ]
    exact = [reading for reading in present_readings if has_rule or not _EQUALS_LINE.search(reading[1])]
    if len(exact) != 1:
        raise EditError(
            "The block has several ======= lines, and the file does not tell which one divides it.",
            hint="Write \\======= for those that are lines of the file. Nothing was changed.",
        )
    return locate(search_text, *exact[0], whole_lines=True, line_hint=block.line)


def _apply_at_once(search_text: SearchText, blocks: Sequence[SearchReplaceBlock]) -> SearchReplaceResult | None:
    matches: list[LadderMatch] = []
    for number in range(len(blocks)):
        try:
            matches.append(_find_numbered(search_text, blocks, number))
        except EditError as error:
            if error.is_ambiguous or len(blocks) == 1:
                raise
            return None
    splices = [splice for match in matches for splice in match.splices]
    if any(first.end > second.start for first, second in pairwise(sorted(splices))):
        return None
    lines = tuple(_find_first_line(search_text.text, match) for match in matches)
    text = apply_splices(search_text.text, splices)
    return SearchReplaceResult(
        text=text, rungs=tuple(match.rung for match in matches), lines=lines, slips=_join_slips(matches)
    )


def _apply_in_turn(search_text: SearchText, blocks: Sequence[SearchReplaceBlock]) -> SearchReplaceResult:
    matches: list[LadderMatch] = []
    lines = []
    for number in range(len(blocks)):
        matches.append(_find_numbered(search_text, blocks, number))
        lines.append(_find_first_line(search_text.text, matches[-1]))
        search_text = search_text.with_text(apply_splices(search_text.text, matches[-1].splices))
    rungs = tuple(match.rung for match in matches)
    return SearchReplaceResult(text=search_text.text, rungs=rungs, lines=tuple(lines), slips=_join_slips(matches))


def _join_slips(matches: Sequence[LadderMatch]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(slip for match in matches for slip in match.slips))


def _find_numbered(search_text: SearchText, blocks: Sequence[SearchReplaceBlock], number: int) -> LadderMatch:
    try:
        return _find_block(search_text, blocks[number])
    except EditError as error:
        raise error.name_part(format_part("Block", number + 1, len(blocks))) from error


def _find_first_line(text: str, match: LadderMatch) -> int:
    return find_line_number(text, min(match.splices).start)
