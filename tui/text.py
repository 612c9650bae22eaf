"""The sanitizer of foreign text: models, tools, files, paths and errors. No other module sanitizes.

Its results can't move the cursor, reorder or hide text, or be interpreted as markup. It has three entries. Text that
decisions depend on (code, commands, questions, names) goes through `expose_text` or `expose_line`: everything is
visible, and different texts look different. Prose (answers, notices, errors) goes through `render_prose`, which removes
nothing either, but blanks stay blanks. Output of programs goes through `render_output`, which acts like a terminal:
only there sequences are removed. `guard_renderer` checks everything again that is written to the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from textual.content import Content
from textual.strip import Strip

from core.patterns import compile_lazily
from core.text import display_names as names
from core.text import exposure
from core.text.display_names import ELLIPSIS, HIDDEN
from core.text.exposure import BLANK_SIGN, TAB_SIGN, TAB_SIZE

LINE_LIMIT: Final = 2_000

# CSI, the string commands (OSC, DCS, APC, PM, SOS; only when they end, so that none can swallow a page), two-byte ones.
_TERMINAL_SEQUENCE = compile_lazily(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)|\x1b[ -/]+[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]|\x9b[0-?]*[ -/]*[@-~]"
)
_EXPOSED = compile_lazily(rf"‹(?:. )?U\+[0-9A-F]+(?:×\d+)?›|‹[^‹›·]+·[A-Z][A-Za-z-]+›|[{exposure.OWN_SIGNS}]")
_BLANKS = compile_lazily("[ \t\n]+")
_NEVER_WRITTEN = compile_lazily(f"[{HIDDEN}\n\t]")
_NEVER_DRAWN = compile_lazily(f"[{HIDDEN}]")


def expose_text(text: str, *, keeps_blanks: bool = False) -> str:
    """Sanitize text for a decision: everything is visible, including tabs and trailing blanks unless they have to
    stay for a Markdown parser. Different texts look different."""
    if text.isascii() and text.isprintable() and text[-1:] != " ":
        return text
    exposed_text = exposure.expose_text(text)
    return exposed_text if keeps_blanks else "\n".join(map(exposure.expose_blanks, exposed_text.split("\n")))


def expose_line(text: str, width: int = 400, *, is_strict: bool = False) -> str:
    """Sanitize text for a decision as one line of at most `width` characters, with a sign for line ends.
    `is_strict`: for commands and names, which contain no prose."""
    line = exposure.expose_line(text, is_strict=is_strict)
    return line if len(line) <= width else line[: max(width - 1, 0)] + ELLIPSIS


def expose_content(text: str, style: str = "") -> Content:
    """Sanitize text for a decision as literal content with shortened lines. `style` is trusted."""
    return Content.styled(expose_text(shorten_lines(text)), style)


def restore_blanks(line: str, start: int, end: int) -> str:
    """Return the characters [start, end) of an exposed line as they are copied: with its tabs and blanks."""
    if TAB_SIGN not in line and BLANK_SIGN not in line:
        return line[start:end]
    characters, position = list[str](), start
    while position < min(end, len(line)):
        is_tab = line[position] == TAB_SIGN
        characters.append("\t" if is_tab else " " if line[position] == BLANK_SIGN else line[position])
        position = position + TAB_SIZE - position % TAB_SIZE if is_tab else position + 1
    return "".join(characters)


def find_exposed(line: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the ranges [start, end) of replaced characters in a sanitized line; True for tabs and blanks."""
    if not line.isascii():
        for match in _EXPOSED.finditer(line):
            yield match.start(), match.end(), match[0] in {TAB_SIGN, BLANK_SIGN}


def render_prose(text: str) -> str:
    """Sanitize prose: nothing is removed, control and hidden characters are visible, tabs become blanks."""
    if text.isascii() and text.isprintable():
        return text
    text = names.expose_controls(text)
    return text.expandtabs(TAB_SIZE) if "\t" in text else text


def render_output(text: str) -> str:
    """Return a program's output as a terminal would display it: carriage returns overwrite their line, sequences
    (colours, titles, links) are removed."""
    if "\r" in text:
        lines = text.replace("\r\n", "\n").split("\n")
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    if "\x1b" in text or "\x9b" in text:
        text = _TERMINAL_SEQUENCE.sub("", text)
    return render_prose(text)


def shorten_lines(text: str, limit: int = LINE_LIMIT) -> str:
    """Cut lines to at most `limit` characters; the line's end counts the omitted ones."""
    if len(text) <= limit:
        return text
    return "\n".join(
        line if len(line) <= limit else f"{line[:limit]}{ELLIPSIS} ({len(line) - limit:,} more characters)"
        for line in text.split("\n")
    )


def fit_line(text: str, width: int = 200) -> str:
    """Fit prose on one line of `width` characters: white space is one space, an ellipsis ends it if it is cut."""
    line = _BLANKS.sub(" ", render_prose(text[: 8 * width])).strip(" ")
    is_cut = len(line) > width or len(text) > 8 * width > 0
    return line[: max(width - 1, 0)] + ELLIPSIS if is_cut else line


def format_path(path: str, width: int = 400) -> str:
    """Format a path so that it can be judged, on one line of at most `width` characters."""
    return names.display_name(path, width)


def shorten_path(path: str, width: int) -> str:
    """Format a path on one line of at most `width` characters, cut at its start, so that the name stays."""
    text = format_path(path, 1000)
    return text if len(text) <= width else ELLIPSIS + text[-max(width - 1, 1) :]


def replace_hidden(text: str) -> str:
    """Replace every hidden character by one visible one, so that positions in the text stay the same."""
    return text if text.isascii() and text.isprintable() else _NEVER_DRAWN.sub("\ufffd", text)


def to_content(text: str, style: str = "") -> Content:
    """Return prose as literal content: brackets are not markup. `style` is trusted."""
    return Content.styled(shorten_lines(render_prose(text)), style)


def _replace_control(text: str) -> str:
    return text if text.isascii() and text.isprintable() else _NEVER_WRITTEN.sub("\ufffd", text)


def guard_renderer() -> None:
    """Patch Textual so that it can't write a control or hidden character of content. Idempotent."""
    if getattr(Strip, "_is_guarded", False):
        return
    render = Strip.render

    def render_guarded(self: Strip, console: object) -> str:
        if self._render_cache is None:
            for index, segment in enumerate(self._segments):
                text, style, control = segment
                if (harmless := _replace_control(text)) != text:
                    self._segments[index] = type(segment)(harmless, style, control)
                if style is not None and style.link and _replace_control(style.link) != style.link:
                    self._segments[index] = type(segment)(harmless, style.update_link(None), control)
        return render(self, console)  # type: ignore[arg-type]

    Strip.render = render_guarded  # type: ignore[method-assign]
    Strip._is_guarded = True  # type: ignore[attr-defined]
