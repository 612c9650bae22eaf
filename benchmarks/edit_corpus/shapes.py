"""Edits with markers made from a change: hunks as a diff has them, in the two formats in which comments say what stays.

A draft shows a few lines of the file before and after each change, cut at any line; what it leaves out is marked. The
right answer is the file after the commit.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from benchmarks.edit_corpus.changes import Change, Span
from core.edits.drafts.line_matches import CONTINUED
from core.edits.indentation import measure_depth

FORMATS: Final = ("lazy", "draft")
SHAPES: Final = {
    "careful": "context that tells one place on both sides of a change, a marker for all that is left out",
    "ends-changed": "the last line before a marker is new or changed",
    "begins-changed": "the first line after a marker is new or changed",
    "bare": "no context at all between two markers",
    "lead-only": "no marker after the last part, though lines follow there",
    "trail-only": "no marker before the first part, though lines stand there",
    "unmarked-ends": "no marker at either end",
    "outline": "the heads of what the change lies in, each followed by a marker; context on both sides",
    "outline-ends-changed": "the same, and the last line before a marker is new or changed",
    "careless": "contexts and blank lines as they fall, also where they tell no place",
}
_HASH: Final = ("python", "ruby", "yaml", "toml", "shell", "tcl")
_MARKUP: Final = ("html", "markdown", "vue")
_SAID_LAZY: Final = (
    "... existing code ...", "... existing code ...", "... existing code ...", "... existing code ...", "...",
    "... rest of the file ...", "… existing code …", "... unchanged ...", "existing code", "rest of the code unchanged",
)  # fmt: skip
_SAID_DRAFT: Final = {
    "before": ("no changes before", "no changes before", "no changes above", "nothing changes before this",
               "code above is unchanged", "no changes"),
    "here": ("no changes here", "no changes here", "no changes", "unchanged", "this part remains unchanged"),
    "after": ("no changes after", "no changes after", "no changes below", "rest of the file unchanged", "no changes",
              "the rest stays the same"),
}  # fmt: skip
_INJECTED: Final = ("...", "... existing code ...", "no changes here", "rest of the code", "unchanged")


_APART: Final = 4  # lines between a change and a line with white space at its end


class Style(NamedTuple):
    """How one draft is written. `before` and `after` are lines of context; 0: drawn for each hunk, 1 to 6."""

    before: int
    after: int
    careful: bool
    shape: str
    padded: bool
    leading: bool
    trailing: bool
    stripped: bool
    depth: str
    wording: str


class Made(NamedTuple):
    """One edit: the file, the text of the edit, and the file that it means (the file itself: it has to be refused).
    `traits` tell what is special about it, `places` where its parts lie."""

    format: str
    path: str
    language: str
    original: str
    edit: str
    expected: str
    traits: tuple[str, ...]
    shape: str = "careful"
    places: tuple[Span, ...] = ()
    has_markers: bool = True

    @property
    def is_cut(self) -> bool:
        """Whether changes stand right beside markers or a blank line, or an end lacks a marker, so that the edit does
        not show all that they take the place of."""
        return self.shape.endswith(("-changed", "-only", "-ends")) or self.shape in ("bare", "careless")


class File(NamedTuple):
    """Lines without endings, before and after."""

    old: list[str]
    new: list[str]
    spans: tuple[Span, ...]


def make(change: Change, format_: str, chance: random.Random, *, shape: str = "careful") -> Made | None:
    """An edit of one format and one of the `SHAPES`; None where the change leaves nothing to say (an end of file
    alone), or the shape would not differ from a careful one.

    In all but the careless shape contexts are made longer, up to twelve lines more, until they tell one place; all
    that is left out is marked unless the shape says otherwise, and no blank lines that the file does not have stand
    beside markers.
    """
    crlf = "\r\n" in change.before
    before, after = (text.replace("\r\n", "\n") for text in (change.before, change.after))
    closed = [text.endswith("\n") for text in (before, after)]
    if closed[0] != closed[1] or "\r" in before + after:
        return None
    old, new = ([row.rstrip() for row in text.removesuffix("\n").split("\n")] for text in (before, after))
    file = File(old, new, change.spans)
    if not _decidable(file):
        return None
    traits = []
    comment = _comment(change.language, chance)
    if chance.random() < 0.05:
        file, traits = _injected(file, comment, chance), [*traits, "own-marker"]
    if chance.random() < 0.1:
        file, traits = _trailing(file, chance), [*traits, "trailing-space"]
    if not crlf and chance.random() < 0.05:
        crlf = True
    style = _style(format_, chance, shape)
    traits += [name for name in ("padded",) if getattr(style, name)] + (["crlf"] if crlf else [])
    segments = _segments(file, style, chance)
    if not _has_shape(shape, segments, file):
        return None
    edit = _Writer(change, file, segments, style, comment, chance)
    text = edit.lazy() if format_ == "lazy" else edit.draft()
    if shape in ("lead-only", "trail-only", "unmarked-ends") and not edit.has_markers:
        return None  # it is a whole range or file
    original, expected = ("\n".join(rows) + "\n" * closed[0] for rows in (file.old, file.new))
    if crlf:
        original, expected = (version.replace("\n", "\r\n") for version in (original, expected))
    if original == expected:
        return None
    traits += [f"hunks{min(len(segments), 3)}"]
    places = tuple(segments)
    return Made(
        format_, change.path, change.language, original, text, expected, tuple(traits), shape, places, edit.has_markers
    )


def _has_shape(shape: str, segments: Sequence[Span], file: File) -> bool:
    """Whether an edit lacks what its shape lacks, in comparison with a careful one."""
    before, after = segments[0].first > 0, segments[-1].last < len(file.old)
    edges = {"ends-changed": (-1,), "outline-ends-changed": (-1,), "begins-changed": (0,), "bare": (0, -1)}
    for span in file.spans:
        new = file.new[span.start : span.stop]
        if any(not new or not any(map(str.isalnum, new[e])) or new[e] in file.old for e in edges.get(shape, ())):
            return False  # what goes without anything in its place can't be shown, and a line of the file is context
    match shape:
        case "ends-changed" | "outline-ends-changed" | "lead-only":
            return after
        case "begins-changed" | "trail-only":
            return before
        case "bare" | "unmarked-ends":
            return before and after
        case _:
            return True


def _decidable(file: File) -> bool:
    """Whether every change is one of more than white space at the ends of lines or of the file."""
    ends = (file.old[0], file.old[-1], file.new[0], file.new[-1])
    spans = [file.old[span.first : span.last] != file.new[span.start : span.stop] for span in file.spans]
    return all(ends) and all(spans)


def _comment(language: str, chance: random.Random) -> tuple[str, str]:
    if chance.random() < 0.04:
        return ("", "")
    if language in _HASH:
        return ("# ", "")
    if language in _MARKUP:
        return ("<!-- ", " -->")
    if language == "rst":
        return (".. ", "") if chance.random() < 0.3 else ("# ", "")
    if language == "css":
        return ("/* ", " */")
    return ("/* ", " */") if chance.random() < 0.1 else ("// ", "")


def _style(format_: str, chance: random.Random, shape: str) -> Style:
    even, careful = chance.random() < 0.5, shape != "careless"
    return Style(
        before=3 if even else 0,
        after=3 if even else 0,
        careful=careful,
        shape=shape,
        padded=chance.random() < 0.12 and not careful,
        leading=(chance.random() < 0.85 or format_ == "draft" or careful)
        and shape not in ("trail-only", "unmarked-ends"),
        trailing=(chance.random() < 0.85 or format_ == "draft" or careful)
        and shape not in ("lead-only", "unmarked-ends"),
        stripped=chance.random() < 0.7,
        depth=chance.choice(("margin", "near", "near", "next")),
        wording=chance.choice(_SAID_LAZY),
    )


def _injected(file: File, comment: tuple[str, str], chance: random.Random) -> File:
    """A line of the file that looks like a marker, where nothing changes."""
    gaps = []
    for gap, (above, below) in enumerate(zip([None, *file.spans], [*file.spans, None], strict=True)):
        first = above.last if above else 0
        last = below.first if below else len(file.old)
        gaps += [(gap, index) for index in {first, last, chance.randint(first, last)} if first < index < last]
    if not gaps:
        return file
    gap, index = chance.choice(gaps)
    shift = (file.spans[gap - 1].stop - file.spans[gap - 1].last) if gap else 0
    row = comment[0] + chance.choice(_INJECTED) + comment[1]
    indent = file.old[index][: len(file.old[index]) - len(file.old[index].lstrip())]
    old, new = list(file.old), list(file.new)
    old.insert(index, indent + row)
    new.insert(index + shift, indent + row)
    moved = [Span(*(bound + 1 for bound in span)) for span in file.spans[gap:]]
    return File(old, new, (*file.spans[:gap], *moved))


def _trailing(file: File, chance: random.Random) -> File:
    """White space at the ends of lines that do not change and lie so far from a change that they are plainly not it."""
    old, new, first, shift = list(file.old), list(file.new), -_APART, 0
    for span in [*file.spans, None]:
        for index in range(first + _APART, span.first - _APART if span else len(old)):
            if chance.random() < (0.3 if not old[index].strip() else 0.03):
                tail = chance.choice(("  ", "    ", "\t"))
                old[index] += tail
                new[index + shift] += tail
        if span:
            first, shift = span.last, span.stop - span.last
    return File(old, new, file.spans)


def _segments(file: File, style: Style, chance: random.Random) -> list[Span]:
    """The changes with their context, those that touch made one; coordinates as in `Span`."""
    grown: list[Span] = []
    for number, span in enumerate(file.spans):
        low = file.spans[number - 1].last if number else 0
        high = file.spans[number + 1].first if number + 1 < len(file.spans) else len(file.old)
        before = min(span.first - low, style.before or chance.randint(1, 6))
        after = min(high - span.last, style.after or chance.randint(1, 6))
        if style.careful:
            before = _unique(file.old, span.first, before, span.first - low, -1)
            after = _unique(file.old, span.last, after, high - span.last, 1)
        before = 0 if style.shape in ("begins-changed", "bare") else before
        after = 0 if style.shape in ("ends-changed", "bare", "outline-ends-changed") else after
        grown.append(Span(span.first - before, span.last + after, span.start - before, span.stop + after))
    merged = [grown[0]]
    for segment in grown[1:]:
        above = merged[-1]
        apart = segment.first - above.last
        if apart <= 0 or (apart <= 2 and chance.random() < 0.5):
            merged[-1] = Span(above.first, segment.last, above.start, segment.stop)
        else:
            merged.append(segment)
    return merged


def _unique(rows: Sequence[str], gap: int, count: int, most: int, step: int) -> int:
    """As many lines as make the context one of its kind in the file, twelve more at most."""
    for index in range(count, min(most, count + 12) + 1):
        block = rows[gap : gap + index] if step > 0 else rows[gap - index : gap]
        if index and any(row.strip() for row in block):
            size = len(block)
            if sum(list(rows[index : index + size]) == list(block) for index in range(len(rows) - size + 1)) == 1:
                return index
    return min(most, count + 12)


class _Writer:
    """Writes the draft of a change."""

    def __init__(
        self,
        change: Change,
        file: File,
        segments: Sequence[Span],
        style: Style,
        comment: tuple[str, str],
        chance: random.Random,
    ) -> None:
        self.change, self.file, self.segments, self.style = change, file, segments, style
        self.comment, self.chance = comment, chance
        self.has_markers = False

    def lazy(self) -> str:
        return "\n".join(self._rows(0, len(self.file.old), lambda _: self.style.wording, bare=True)) + "\n"

    def draft(self) -> str:
        count = len(self.file.old)
        first, last = self.segments[0].first, self.segments[-1].last
        attributes = ""
        low, high = 0, count
        if count > 300 or self.chance.random() < 0.4:
            low = max(0, first - self.chance.choice((0, 0, 1, 2, 5, 12)))
            high = min(count, last + self.chance.choice((0, 0, 1, 2, 5, 12)))
            attributes = f" start={low + 1} end={high}"
        rows = self._rows(low, high, lambda side: self.chance.choice(_SAID_DRAFT[side]), bare=False)
        return f'<file_edit path="{self.change.path}"{attributes}>\n' + "\n".join(rows) + "\n</file_edit>"

    def _rows(self, low: int, high: int, remarks, *, bare: bool) -> list[str]:
        out: list[str] = []
        for number, segment in enumerate(self.segments):
            new_rows = self.file.new[segment.start : segment.stop]
            if self.style.stripped:
                new_rows = [row.rstrip() for row in new_rows]
            above = self.segments[number - 1].last if number else low
            for head in self._heads(segment.first, above):
                if head > above:
                    out = self._marked(out, remarks("here" if number else "before"), [self.file.old[head]])
                out.append(self.file.old[head])
                above = head + 1
            if segment.first > above and (number or self.style.leading):
                out = self._marked(out, remarks("here" if number else "before"), new_rows)
            out += new_rows
        if self.segments[-1].last < high and self.style.trailing:
            out = self._marked(out, remarks("after"), [])
        return out

    def _heads(self, side: int, above: int) -> list[int]:
        """The lines below which a line lies, outermost first, from the line `above` on; none in other shapes."""
        if not self.style.shape.startswith("outline"):
            return []
        depth = measure_depth(next((row for row in self.file.old[side:] if row.strip()), ""))
        heads: list[int] = []
        for index in range(side - 1, above - 1, -1):
            row = self.file.old[index]
            if row.strip() and measure_depth(row) < depth:
                depth = measure_depth(row)
                if not CONTINUED.match(row.strip()):
                    heads.append(index)
        return heads[::-1]

    def _marked(self, out: list[str], words: str, following: Sequence[str]) -> list[str]:
        near = next((row for row in reversed(out) if row.strip()), "")
        after = next((row for row in following if row.strip()), "")
        model = {"margin": "", "near": near or after, "next": after or near}[self.style.depth]
        indent = model[: len(model) - len(model.lstrip())]
        pad = self.style.padded
        self.has_markers = True
        return [
            *out,
            *([""] if pad and out and out[-1].strip() else []),
            indent + self.comment[0] + words + self.comment[1],
            *([""] if pad and following and following[0].strip() else []),
        ]
