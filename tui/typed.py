"""What a text of the prompt is: a command, or words for the model. Where the user types the commands, only `?…` is."""

from __future__ import annotations

from core.protocol.commands import TurnSubmit

ASKS = "?"


def command_in(text: str, *, by_hand: bool) -> str:
    """The command that a text is, "" = it is none."""
    if text.startswith("!"):
        return text[1:].strip()
    return "" if not by_hand or text.startswith(ASKS) else text.strip()


def prompt_in(text: str, open_files: tuple[str, ...], *, by_hand: bool) -> TurnSubmit:
    """The prompt that a text is."""
    anyway = by_hand and text.startswith(ASKS) and bool(text[1:].strip())
    return TurnSubmit(text=text[1:].strip() if anyway else text, open_files=open_files, anyway=anyway)
