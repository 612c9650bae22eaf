"""Control sequences outside of the screen: title, progress, notifications, the clipboard.

Text in them is one sanitized line of bounded length, so that foreign text can neither end nor start a sequence. A
multiplexer interprets the title and the clipboard; sequences for the terminal behind it are wrapped.
"""

from __future__ import annotations

import base64
from typing import Final, Literal

from core.protocol.queries.sessions import NotificationForm
from tui.terminal.capabilities import Multiplexer, TerminalCapabilities
from tui.text import fit_line

ProgressState = Literal["none", "busy", "waiting", "failed"]

BELL: Final = "\x07"
PUSH_TITLE: Final = "\x1b[22;2t"
POP_TITLE: Final = "\x1b[23;2t"  # of terminals that keep a stack of titles; others ignore it
MAX_TITLE: Final = 120
MAX_BODY: Final = 240
SCREEN_PIECE: Final = 500  # bytes; GNU screen drops a string that is longer than 768
# tmux accepts a megabyte; some terminals cut or drop anything longer than this, in bytes of base64.
MAX_CLIPBOARD: Final = 74_994
_PROGRESS: Final[dict[ProgressState, str]] = {"none": "0;0", "busy": "3;0", "waiting": "4;100", "failed": "2;100"}


def clean_line(text: str, length: int) -> str:
    """Sanitize foreign text for a sequence: printable, on one line."""
    return "".join(character for character in fit_line(text, length) if character.isprintable())


def format_title(text: str) -> str:
    return f"\x1b]2;{clean_line(text, MAX_TITLE)}{BELL}"


def format_progress_report(state: ProgressState, multiplexer: Multiplexer = "") -> str:
    """Format the state of the tab (OSC 9;4): busy, waiting for the user, failed, or nothing."""
    return wrap_sequence(f"\x1b]9;4;{_PROGRESS[state]}{BELL}", multiplexer)


def format_notification(form: NotificationForm, title: str, body: str, capabilities: TerminalCapabilities) -> str:
    """Format a notification in a form, "auto" = the terminal's; "" = none. tmux may swallow wrapped sequences, so
    the bell, which marks the window, is added there."""
    multiplexer = capabilities.multiplexer
    title, body = clean_line(title, MAX_TITLE), clean_line(body, MAX_BODY)
    resolved_form = (capabilities.form or "bell") if form == "auto" else form
    match resolved_form:
        case "off":
            return ""
        case "bell":
            return BELL
        case "osc9":
            sequence = f"\x1b]9;{title}: {body}{BELL}"
        case "osc777":
            sequence = f"\x1b]777;notify;{title.replace(';', ',')};{body}{BELL}"
        case _:
            sequence = f"\x1b]99;i=agent-tui:d=0;{title}{BELL}\x1b]99;i=agent-tui:p=body;{body}{BELL}"
    return wrap_sequence(sequence, multiplexer) + (BELL if multiplexer and form == "auto" else "")


def format_clipboard(text: str, multiplexer: Multiplexer = "") -> str:
    """Format the copying of a text (OSC 52); "" = the text is too long. tmux stores it in its buffer and forwards it
    according to its `set-clipboard`; GNU screen must be bypassed."""
    data = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    if len(data) > MAX_CLIPBOARD:
        return ""
    return wrap_sequence(f"\x1b]52;c;{data}{BELL}", "screen" if multiplexer == "screen" else "")


def wrap_sequence(sequence: str, multiplexer: Multiplexer) -> str:
    """Wrap a sequence so that a multiplexer passes it on (tmux: with `allow-passthrough`)."""
    match multiplexer:
        case "tmux":
            return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
        case "screen":
            pieces = (sequence[start : start + SCREEN_PIECE] for start in range(0, len(sequence), SCREEN_PIECE))
            return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
        case _:
            return sequence
