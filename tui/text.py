"""The one entry for foreign text: models, tools, files, paths and errors are sanitized here, and only here.

No text that leaves this module can move the cursor, reorder or hide text, or mean anything to a markup parser.
`guard_renderer` is the second check behind it: it looks at what is about to be written to the terminal.
"""

from __future__ import annotations

import re
from typing import Final

from textual.content import Content
from textual.strip import Strip

from core.text import display_names as names
from core.text.display_names import ELLIPSIS, HIDDEN

TAB_SIZE: Final = 4
LINE_LIMIT: Final = 2_000
expose_controls: Final = names.expose_controls

# CSI, the string commands (OSC, DCS, APC, PM, SOS; only when they end, so that none can swallow a page), two-byte ones.
_TERMINAL_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)|\x1b[ -/]+[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]|\x9b[0-?]*[ -/]*[@-~]"
)
_EMOJI_JOINT = re.compile("(?<=[^\x00-\u1fff])\u200d(?=[^\x00-\u1fff])")
_NEVER_WRITTEN = re.compile(f"[{HIDDEN}\n\t]")
_NEVER_DRAWN = re.compile(f"[{HIDDEN}]")


def clean(text: str) -> str:
    """Remove terminal sequences (colours, titles, links), expand tabs, and expose the other controls."""
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text or "\x9b" in text:
        text = _TERMINAL_SEQUENCE.sub("", text)
    if "\u200d" in text:
        text = _EMOJI_JOINT.sub("", text)
    text = expose_controls(text)
    return text.expandtabs(TAB_SIZE) if "\t" in text else text


def render_carriage_returns(text: str) -> str:
    """Clean the output of a program as a terminal would leave it: carriage returns overwrite their line."""
    if "\r" in text:
        lines = text.replace("\r\n", "\n").split("\n")
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return clean(text)


def shorten_lines(text: str, limit: int = LINE_LIMIT) -> str:
    """Cut each line to at most `limit` characters; the number of those left out is put at the line's end."""
    if len(text) <= limit:
        return text
    return "\n".join(
        line if len(line) <= limit else f"{line[:limit]}{ELLIPSIS} ({len(line) - limit:,} more characters)"
        for line in text.split("\n")
    )


def fit_line(text: str, width: int = 200) -> str:
    """Clean `text` and fit it on one line of `width` characters: white space is one space, an ellipsis ends it."""
    line = " ".join(clean(text[: 8 * width]).split())
    return line if len(line) <= width else line[: max(width - 1, 0)] + ELLIPSIS


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
    """Return foreign text as literal content: brackets are brackets. `style` is ours."""
    return Content.styled(shorten_lines(clean(text)), style)


def _replace_control(text: str) -> str:
    return text if text.isascii() and text.isprintable() else _NEVER_WRITTEN.sub("\ufffd", text)


def guard_renderer() -> None:
    """Make Textual itself unable to write a control or hidden character from content. Safe to call twice."""
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
