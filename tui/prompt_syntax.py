"""The syntax of a prompt: a command (`!…`), or words for the model (`?…` where the user types the commands)."""

from __future__ import annotations

from core.protocol.commands import TurnSubmit

ASK_PREFIX = "?"


def parse_command(text: str, *, types_commands: bool) -> str:
    """Return the command that a text is, "" = it is none."""
    if text.startswith("!"):
        return text[1:].strip()
    return "" if not types_commands or text.startswith(ASK_PREFIX) else text.strip()


def parse_prompt(text: str, open_files: tuple[str, ...], *, types_commands: bool) -> TurnSubmit:
    """Build the prompt that a text is."""
    anyway = types_commands and text.startswith(ASK_PREFIX) and bool(text[1:].strip())
    return TurnSubmit(text=text[1:].strip() if anyway else text, open_files=open_files, anyway=anyway)
