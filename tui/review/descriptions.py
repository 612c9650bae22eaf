"""Descriptions of changes and bulks in the review: intent, attributes, origin, check and risk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.protocol.events import DiagnosticsReported
from core.protocol.review import Bulk, Change, Check, FileState, Origin
from core.state.checks import FAILING, NO_CHECK, can_be_marked, describe_changed_tests, get_check_words
from core.text.counting import count, format_size
from tui.keymap import insert_keys
from tui.text import fit_line, format_path
from tui.widgets.diagnostics import build_diagnostic_badges
from tui.widgets.text_rows import measure_text

Part = tuple[str, str]

COMPETING_ADVICE: Final = "Both versions are kept. Resolve with {review.settle}; until then the file can't be accepted."
CONFLICT_ADVICE: Final = (
    "Your file is untouched. {review.settle} to resolve, {review.reject} to reject and keep yours, "
    "{review.reason} to reject with a reason, so the agent redoes its edit on top of yours."
)
PROTECTED_ADVICE: Final = "Accept it on its own and confirm."

SIGNS: Final = {
    "create": ("+", "$text-success"),
    "edit": ("~", "$text-warning"),
    "delete": ("-", "$text-error"),
    "rename": ("→", "$text-primary"),
    "mode": ("x", "$text-primary"),
}
CONFLICT_BADGE: Final[Part] = (" ! conflict ", "bold $text-warning on $warning-muted")
PROTECTED_BADGE: Final[Part] = (" ! protected ", "bold $text-error on $error-muted")
MUTED: Final = "$foreground 55%"
COMMAND_LENGTH: Final = 48  # maximum characters of a command
EMPTY: Final = (
    "Nothing to review\n\n"
    "The agent's changes appear here, hunk by hunk. Your files are untouched until you accept: "
    "{review.accept} accept, {review.reject} reject, {review.undo} undo."
)
EMPTY_AT_ONCE: Final = (
    "Nothing to review\n\n"
    "The agent's changes are written to your files at once; /rewind restores them. A change that still needs your "
    "verdict appears here."
)
NOT_ASKED_FOR: Final = "side effects of commands, not asked for"
MIN_NAME: Final = 3  # characters from which a name in a prompt is no accident
MAX_WORDS: Final = 80  # maximum characters of a prompt or a todo in a heading
COMMITTABLE: Final = "\n\n{review.comment} to commit what you accepted."
NOTHING_PENDING: Final = (
    "Nothing pending in this file\n\n"
    "It has been resolved. {review.next_file} and {review.previous_file} go to other files."
)


class UserRequests(Struct, frozen=True, eq=False):
    """The user's requests: prompts and numbers of turns by turn, texts of todos by id."""

    prompts: Mapping[str, str] = {}
    turns: Mapping[str, int] = {}
    todos: Mapping[str, str] = {}


def arrange_by_intent(changes: Sequence[Change], requests: UserRequests) -> tuple[tuple[Change, ...], dict[str, str]]:
    """Return the changes in order of their intents, and the intent by path; no intents if all are the same request.

    Unrequested changes come first, then turns in their order. Within a group: protected files, risky ones, then
    deletions. Updates during a review (a check, a conflict) don't move a file.
    """
    names = {change.path: _name_intent(change, requests) for change in changes}
    ranks: dict[str, tuple[bool, int]] = {}
    for change in changes:
        turn = requests.turns.get(change.origin.turn, 0) if change.origin is not None else 0
        rank = (names[change.path] != NOT_ASKED_FOR, turn)
        ranks[names[change.path]] = min(ranks.get(names[change.path], rank), rank)
    order = {name: index for index, name in enumerate(sorted(ranks, key=lambda name: ranks[name]))}
    ordered_changes = tuple(sorted(changes, key=lambda change: (order[names[change.path]], _rank_risk(change))))
    return ordered_changes, names if len(ranks) > 1 or NOT_ASKED_FOR in ranks else {}


def _rank_risk(change: Change) -> int:
    if change.protected:
        return 0
    return 1 if change.risk else 2 if change.operation == "delete" else 3


def _name_intent(change: Change, requests: UserRequests) -> str:
    origin = change.origin
    todo = next((hunk.todo for hunk in change.hunks if hunk.todo), origin.todo if origin is not None else "")
    if todo:
        return f"todo “{fit_line(requests.todos.get(todo, todo), MAX_WORDS)}”"
    if origin is None:
        return ""
    prompt = requests.prompts.get(origin.turn, "")
    if origin.command and prompt and not _is_named(change, prompt):
        return NOT_ASKED_FOR
    if prompt:
        return f"“{fit_line(prompt, MAX_WORDS)}”"
    return f"turn {requests.turns[origin.turn]}" if origin.turn in requests.turns else ""


def _is_named(change: Change, prompt: str) -> bool:
    """True if the prompt names the file, with or without its suffix, or a directory that it is in."""
    path, prompt_text = PurePosixPath(change.path.lower()), prompt.lower()
    return any(len(name) >= MIN_NAME and name in prompt_text for name in (*path.parts, path.stem))


def describe_attributes(change: Change) -> list[str]:
    """Return attributes that no line shows: binary content, links, modes."""
    base, pending = change.counted_state, change.pending
    attributes = []
    if change.binary:
        sizes = (format_size(state.size) for state in (base, pending) if state.kind != "absent")
        attributes.append(f"binary {' → '.join(sizes)}")
    if base.kind != pending.kind and "absent" not in (base.kind, pending.kind):
        attributes.append(f"{describe_kind(base)} → {describe_kind(pending)}")
    elif "symlink" in (base.kind, pending.kind):
        attributes.append("symbolic link")
    if base.mode != pending.mode and (base.kind, pending.kind) == ("file", "file"):
        attributes.append(f"mode {base.mode & 0o7777:o} → {pending.mode & 0o7777:o}")
    elif base.kind == "absent" and pending.kind == "file" and pending.mode & 0o111:
        attributes.append("executable")
    return attributes


def describe_kind(state: FileState) -> str:
    return "symbolic link" if state.kind == "symlink" else "file"


def build_badges(change: Change, report: DiagnosticsReported | None = None) -> list[Part]:
    """Return the badges of a change, most urgent first. `report`: its diagnostics."""
    badges: list[Part] = []
    if change.conflict:
        badges.append(CONFLICT_BADGE)
    if change.protected:
        badges.append(PROTECTED_BADGE)
    elif change.risk:
        badges.append((" ⚑ runs ", "$text-warning"))
    if change.broken:
        badges.append((" ✗ syntax ", "bold $text-error"))
    badges += build_diagnostic_badges(report)
    badges += build_check_badges(change)
    if change.operation in {"create", "delete", "rename"}:
        badges.append((f" {change.operation} ", MUTED))
    return [*badges, *((f" {words} ", MUTED) for words in describe_attributes(change))]


def build_check_badges(change: Change) -> list[Part]:
    """Return the badge of the last check that ran over a change, if one did."""
    if change.check is None or not can_be_marked(change):
        return []
    badge, style = get_check_words(change.check).mark, get_check_style(change.check)
    badge = f"{badge}, verified" if change.check.is_verified else badge
    return [(f" ✓ {badge} ", style) if change.check.has_passed else (f" ✗ {FAILING} ", "bold $text-error")]


def get_check_style(check: Check) -> str:
    """Return the style of a check that passed: green for tests only, unless the change itself brought them."""
    if check.changed_here:
        return "$text-warning"
    return "$text-success" if check.kind == "tests" else "$foreground 75%"


def format_command(text: str, length: int = COMMAND_LENGTH) -> str:
    """Return a command between backquotes, on one line."""
    return f"`{fit_line(text, length)}`"


def describe_origin(
    origin: Origin | None, turns: Mapping[str, int], todos: Mapping[str, str], length: int = COMMAND_LENGTH
) -> str:
    """Return the origin of a change, "" = unknown; a command is cut to `length` characters."""
    if origin is None:
        return ""
    parts = ["edited by you"] if origin.tool == "you" else []
    tool = origin.over if origin.tool == "you" else origin.tool
    if origin.command:
        parts.append(f"by {format_command(origin.command, length)}")
    elif tool:
        subagent_label = f" “{fit_line(origin.subagent, 40)}”" if origin.subagent else ""
        parts.append(f"by {fit_line(tool, 40)}{subagent_label}")
    if origin.turn in turns:
        parts.append(f"turn {turns[origin.turn]}")
    if origin.todo:
        parts.append(f"todo “{fit_line(todos.get(origin.todo, origin.todo), 40)}”")
    return " · ".join(parts)


def describe_check(change: Change, length: int = COMMAND_LENGTH) -> Part:
    """Return the result of the last check that ran over this very state."""
    if not can_be_marked(change):
        return "", MUTED
    if change.check is None:
        return NO_CHECK, MUTED
    ran = format_command(change.check.command, length)
    if change.check.has_passed:
        words, style = get_check_words(change.check).sentence, get_check_style(change.check)
        if change.check.changed_here:
            path = format_path(change.check.changed_here[0], 40)
            return f"✓ {words}: {ran}, {describe_changed_tests(change.check, path)}", style
        rerun_note = ", rerun in a clean layer" if change.check.is_verified else ""
        return f"✓ {words}: {ran}{rerun_note}", style
    return f"✗ {FAILING}: {ran} ended with {change.check.exit_code}", "$text-error"


def describe_change(change: Change, turns: Mapping[str, int], todos: Mapping[str, str], room: int) -> list[Part]:
    """Return origin and check of a change; cut to `room` cells: commands first, then the last parts of the origin."""
    origin, syntax_problem = (
        _find_origin(change),
        f" ✗ does not parse: {fit_line(change.broken, 60)} ·" if change.broken else "",
    )
    if not describe_origin(origin, turns, todos):
        return []
    for left_out, length in product(range(5), (COMMAND_LENGTH, 32, 20, 12)):
        says, style = describe_check(change, length)
        pieces = describe_origin(origin, turns, todos, length).split(" · ")
        origin_text = "".join(f" · {piece}" for piece in pieces[: max(len(pieces) - left_out, 0)])
        if measure_text(syntax_problem) + 1 + measure_text(says) + measure_text(origin_text) <= room:
            break
    if not says:
        origin_text = origin_text.removeprefix(" ·")
    return [(syntax_problem, "$text-error"), (f" {says}" if says else "", style), (origin_text, MUTED)]


def _find_origin(change: Change) -> Origin | None:
    """Return the origin of a change, without a todo if its hunks belong to several."""
    is_mixed = len({hunk.todo for hunk in change.hunks}) > 1
    return replace(change.origin, todo="") if change.origin is not None and is_mixed else change.origin


def describe_risk(change: Change) -> str:
    """Return why a change is protected or labelled as a risk; "" = neither."""
    if not (change.risk or change.protected):
        return ""
    it = f"! It {change.risk}." if change.risk else "! It is protected."
    return f"{it} {PROTECTED_ADVICE}" if change.protected and not change.is_denied else it


def needs_confirmation(change: Change) -> bool:
    """True if accepting is confirmed once more: a protected file or a deletion."""
    return change.protected or change.operation == "delete"


def describe_verification(command: str, line: str) -> list[Part]:
    """Return which check is run again now, and the last line that it has printed; nothing if none is."""
    if not command:
        return []
    progress = [(f" · {fit_line(line, 80)}", MUTED)] if line else []
    return [(f" … rerunning {format_command(command)} alone in a clean layer", "$text-warning"), *progress]


def is_proven(change: Change) -> bool:
    """True if passing tests ran over this very state, and no separate confirmation is due."""
    is_tested = change.check is not None and change.check.has_passed and change.check.kind == "tests"
    return is_tested and not (change.conflict or change.broken or needs_confirmation(change))


def describe_problem(change: Change, refusal: str | None, keymap: Mapping[str, str]) -> str:
    """Return why a change cannot be accepted. `refusal`: why its last verdict failed; "" = because of its conflict."""
    if not change.conflict:
        return f"! Not done: {refusal}" if refusal else ""
    advice = insert_keys(COMPETING_ADVICE if change.competing_versions else CONFLICT_ADVICE, keymap)
    count = len(change.hunks)
    location = ""
    if change.clean_hunks:
        location = f" in {count - len(change.clean_hunks)} of {count} hunks; you can accept the others"
    return f"! {'Conflict' if refusal is None else 'Not accepted'}{location}: {change.conflict.strip()} {advice}"


def describe_bulk(bulk: Bulk) -> list[Part]:
    """Describe a bulk in one line: kind, size and origin."""
    if bulk.kind == "git":
        parts = ["git state", f"{count('file', bulk.files)} of .git"]
    else:
        parts = [format_path(bulk.root, 60), count("file", bulk.files), format_size(bulk.bytes)]
    if bulk.deleted:
        parts.append(f"{bulk.deleted:,} deleted")
    styled_parts: list[Part] = [(parts[0], "bold"), ("".join(f" · {part}" for part in parts[1:]), "$foreground 70%")]
    if bulk.conflict:
        styled_parts.append((" · " + fit_line(bulk.conflict, 80), "$text-warning"))
    if bulk.stale:
        styled_parts.append((" · " + fit_line(f"may be stale: {bulk.stale}", 120), "$text-warning"))
    if bulk.origin is not None and bulk.origin.command:
        preposition = "by" if bulk.needs_verdict else "generated by"
        styled_parts.append((f" · {preposition} {format_command(bulk.origin.command)}", "$foreground 70%"))
    return styled_parts


def build_bulk_badges(bulk: Bulk) -> list[Part]:
    badges: list[Part] = [CONFLICT_BADGE] if bulk.conflict else []
    return [*badges, PROTECTED_BADGE] if bulk.risk else badges
