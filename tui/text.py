"""The one door for foreign text: what models, tools, files, paths and errors say becomes harmless here, and only here.

Nothing that leaves this module can move the cursor, reorder or hide text, or mean anything to a markup parser.
`arm_renderer` is the second lock behind the door: it looks at what is about to be written to the terminal.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from textual.content import Content
from textual.strip import Strip

from tui.lookalikes import marked

TAB_SIZE: Final = 4
LINE_LIMIT: Final = 2_000
ELLIPSIS: Final = "…"

# C0 without tab and newline, DEL, C1, line and paragraph separators, bidi controls, zero-width and invisible
# characters, lone surrogates, interlinear and musical format characters, tags, variation selectors beyond emoji.
_HIDDEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
    "\ufe00-\ufe0f\ufe20-\ufe2f"
)
_MARKS_KEPT: Final = 4

_UNSAFE = re.compile(f"[{_HIDDEN}]|[{_MARKS}]{{{_MARKS_KEPT + 1},}}")
_RUNS = re.compile(f"([{_HIDDEN}])\\1*|([{_MARKS}]{{{_MARKS_KEPT}}})[{_MARKS}]+|[\U000e0000-\U000e0fff]+")
_TAG_RUN = re.compile("[\U000e0000-\U000e0fff]{2,}")
# CSI, the string commands (OSC, DCS, APC, PM, SOS; only when they end, so that none can swallow a page), two-byte ones.
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)|\x1b[ -/]+[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]|\x9b[0-?]*[ -/]*[@-~]"
)
_EMOJI_JOINT = re.compile("(?<=[^\x00-\u1fff])\u200d(?=[^\x00-\u1fff])")
_ON_THE_WIRE = re.compile(f"[{_HIDDEN}\n\t]")
# Blanks other than one between two words, variation selectors, and what no font has.
_ODD_SPACE = re.compile("^ +| +$|(?<= ) +|[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u2800\ufe00-\ufe0f]")
_OURS = re.compile("([‹›\u2400-\u2426…])()")
_NEVER_DRAWN = re.compile(f"[{_HIDDEN}]")


def _made_visible(match: re.Match[str]) -> str:
    run = match.group()
    if match.group(2):
        return f"{match.group(2)}‹+{len(run) - _MARKS_KEPT} marks›"
    code = ord(run[0])
    if code < 0x20 and len(run) == 1:
        return chr(0x2400 + code)
    count = f"×{len(run)}" if len(run) > 1 else ""
    return f"‹U+{code:04X}{count}›"


def exposed(text: str) -> str:
    """Every control, bidi, zero-width or tag character as a visible escape; newlines and tabs stay.

    For what the user has to judge (a command that asks for approval): nothing is dropped.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    if not _UNSAFE.search(text):
        return text
    text = _TAG_RUN.sub(lambda tags: f"‹U+{ord(tags.group()[0]):04X} and {len(tags.group()) - 1} more›", text)
    return _RUNS.sub(_made_visible, text)


def clean(text: str) -> str:
    """Like `exposed`, but terminal sequences (colours, titles, links) are left out and tabs are expanded."""
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text or "\x9b" in text:
        text = _SEQUENCE.sub("", text)
    if "\u200d" in text:
        text = _EMOJI_JOINT.sub("", text)
    text = exposed(text)
    return text.expandtabs(TAB_SIZE) if "\t" in text else text


def console(text: str) -> str:
    """What a program printed, as a terminal would leave it: carriage returns overwrite their line."""
    if "\r" in text:
        lines = text.replace("\r\n", "\n").split("\n")
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return clean(text)


def shortened(text: str, limit: int = LINE_LIMIT) -> str:
    """`text` with each line at most `limit` characters long; what was left out is counted at the line's end."""
    if len(text) <= limit:
        return text
    return "\n".join(
        line if len(line) <= limit else f"{line[:limit]}{ELLIPSIS} ({len(line) - limit:,} more characters)"
        for line in text.split("\n")
    )


def one_line(text: str, width: int = 200) -> str:
    """`text` on one line of at most `width` characters: white space is one space, the end may be an ellipsis."""
    if len(text) > 8 * width:
        text = text[: 8 * width]
    line = " ".join(clean(text).split())
    return line if len(line) <= width else line[: max(width - 1, 0)] + ELLIPSIS


def named(path: str, width: int = 400) -> str:
    """The name of a file as it is judged, on one line of at most `width` characters, the beginning may be an ellipsis.

    Two names that differ are shown as different: nothing is dropped or joined, and what can be taken for something else
    is named.
    """
    if not (path.isascii() and path.isprintable()) or "  " in path or path != path.strip():
        path = _named(path[-4 * width :])
    return path if len(path) <= width else ELLIPSIS + path[len(path) - max(width - 1, 0) :]


def _named(path: str) -> str:
    path = _OURS.sub(_made_visible, path)  # else a name could be written that looks like one that is explained here
    if unicodedata.normalize("NFC", path) != path:
        path = "".join(f"‹U+{ord(each):04X}›" if unicodedata.combining(each) else each for each in path)
    path = _ODD_SPACE.sub(lambda found: "".join(f"‹U+{ord(each):04X}›" for each in found.group()), marked(path))
    return exposed(path.replace("\r", "␍").replace("\n", "␊").replace("\t", "␉"))


def seen(text: str) -> str:
    """`text` with every hidden character replaced by one visible one, so that positions in it stay what they are."""
    return text if text.isascii() and text.isprintable() else _NEVER_DRAWN.sub("\ufffd", text)


def plain(text: str, style: str = "") -> Content:
    """Foreign text as literal content: brackets are brackets. `style` is ours, a theme variable or a Textual style."""
    return Content.styled(shortened(clean(text)), style) if style else Content(shortened(clean(text)))


def _guarded(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return _ON_THE_WIRE.sub("\ufffd", text)


def arm_renderer() -> None:
    """Make Textual itself unable to write a control or hidden character from content. Safe to call twice."""
    if getattr(Strip, "_is_armed", False):
        return
    render = Strip.render

    def render_guarded(self: Strip, console: object) -> str:
        if self._render_cache is None:
            for index, segment in enumerate(self._segments):
                text, style, control = segment
                if (harmless := _guarded(text)) is not text and harmless != text:
                    self._segments[index] = type(segment)(harmless, style, control)
                if style is not None and style.link and _guarded(style.link) != style.link:
                    self._segments[index] = type(segment)(harmless, style.update_link(None), control)
        return render(self, console)  # type: ignore[arg-type]

    Strip.render = render_guarded  # type: ignore[method-assign]
    Strip._is_armed = True  # type: ignore[attr-defined]
