"""Intents of the pending files: a todo, a prompt, or nothing that anybody asked for. Risky ones stand first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from core.protocol.review import Change
from tui.text import fit_line

NOT_ASKED_FOR: Final = "not asked for · side effects of commands"
MIN_NAME: Final = 3  # characters from which a name in a prompt is no accident
MAX_WORDS: Final = 80  # characters of a prompt or a todo that are shown


class Wishes(Struct, frozen=True, eq=False):
    """Requests of the user: prompts and numbers of turns by turn, texts of todos by id."""

    prompts: Mapping[str, str] = {}
    turns: Mapping[str, int] = {}
    todos: Mapping[str, str] = {}


def arrange_by_intent(changes: Sequence[Change], wishes: Wishes) -> tuple[tuple[Change, ...], dict[str, str]]:
    """Return the changes by intent, and the name of each path's; none where all have the same and somebody asked.

    What nobody asked for stands first; then turns in their order. In a group: what is red, then what runs by itself,
    then deletions. Nothing that comes while the user reviews (a check, a conflict) moves a file.
    """
    names = {change.path: _name_intent(change, wishes) for change in changes}
    ranks: dict[str, tuple[bool, int]] = {}
    for change in changes:
        turn = wishes.turns.get(change.origin.turn, 0) if change.origin is not None else 0
        rank = (names[change.path] != NOT_ASKED_FOR, turn)
        ranks[names[change.path]] = min(ranks.get(names[change.path], rank), rank)
    order = {name: index for index, name in enumerate(sorted(ranks, key=lambda name: ranks[name]))}
    ordered_changes = tuple(sorted(changes, key=lambda change: (order[names[change.path]], _rank_risk(change))))
    return ordered_changes, names if len(ranks) > 1 or NOT_ASKED_FOR in ranks else {}


def _rank_risk(change: Change) -> int:
    if change.protected:
        return 0
    return 1 if change.risk else 2 if change.operation == "delete" else 3


def _name_intent(change: Change, wishes: Wishes) -> str:
    origin = change.origin
    todo = next((hunk.todo for hunk in change.hunks if hunk.todo), origin.todo if origin is not None else "")
    if todo:
        return f"todo “{fit_line(wishes.todos.get(todo, todo), MAX_WORDS)}”"
    if origin is None:
        return ""
    prompt = wishes.prompts.get(origin.turn, "")
    if origin.command and prompt and not _is_named(change, prompt):
        return NOT_ASKED_FOR
    if prompt:
        return f"“{fit_line(prompt, MAX_WORDS)}”"
    return f"turn {wishes.turns[origin.turn]}" if origin.turn in wishes.turns else ""


def _is_named(change: Change, prompt: str) -> bool:
    """True if the prompt names the file, with or without its suffix, or a directory that it is in."""
    path, prompt_text = PurePosixPath(change.path.lower()), prompt.lower()
    return any(len(name) >= MIN_NAME and name in prompt_text for name in (*path.parts, path.stem))
