"""What the review says in words: what a change is, where it came from, whether it was checked, what a bulk holds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Final

from msgspec.structs import replace

from core.protocol.review import Bulk, Change, FileState, Origin
from tui.text import named, one_line
from tui.widgets.code_view import cells

Part = tuple[str, str]

RIVAL_ADVICE: Final = "Both are kept: t settles it place by place; nothing of the file is accepted before."
CONFLICT_ADVICE: Final = (
    "Your file is untouched. t settles it place by place; reject with r to keep yours; w says why, so that the agent "
    "makes its edit again on top of yours."
)
RED_ADVICE: Final = "Accepted alone, and confirmed."

SIGNS: Final = {
    "create": ("+", "$text-success"),
    "edit": ("~", "$text-warning"),
    "delete": ("-", "$text-error"),
    "rename": ("→", "$text-primary"),
    "mode": ("x", "$text-primary"),
}
CONFLICT_BADGE: Final[Part] = (" ! conflict ", "bold $text-warning on $warning-muted")
RED_BADGE: Final[Part] = (" ! red ", "bold $text-error on $error-muted")
MUTED: Final = "$foreground 55%"
SHOWN: Final = 48  # characters of a command that are shown
EMPTY: Final = (
    "Nothing to review\n\n"
    "What the agent changes waits here, hunk by hunk. Your files stay as they are until you accept: "
    "a accepts, r rejects, u takes a verdict back."
)
GONE: Final = "Nothing is pending here any more\n\nIt was settled meanwhile. ] and [ go to the other files."


def size(count: int) -> str:
    """Bytes for people: 980 B, 12 kB, 48 MB."""
    amount, units = float(count), ["B", "kB", "MB", "GB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.1f} {units[0]}" if units[0] != "B" and amount < 10 else f"{amount:.0f} {units[0]}"


def special(change: Change) -> list[str]:
    """What is not to be seen from its lines: a binary, a link, a mode."""
    base, pending = change.counted, change.pending
    found = []
    if change.binary:
        found.append("binary " + " → ".join(size(each.size) for each in (base, pending) if each.kind != "absent"))
    if base.kind != pending.kind and "absent" not in (base.kind, pending.kind):
        found.append(f"{_kind(base)} → {_kind(pending)}")
    elif "symlink" in (base.kind, pending.kind):
        found.append("symbolic link")
    if base.mode != pending.mode and (base.kind, pending.kind) == ("file", "file"):
        found.append(f"mode {base.mode & 0o7777:o} → {pending.mode & 0o7777:o}")
    elif base.kind == "absent" and pending.kind == "file" and pending.mode & 0o111:
        found.append("executable")
    return found


def _kind(state: FileState) -> str:
    return "symbolic link" if state.kind == "symlink" else "file"


def badges(change: Change) -> list[Part]:
    """What a reader of the list has to know at once, most urgent first."""
    found: list[Part] = []
    if change.conflict:
        found.append(CONFLICT_BADGE)
    if change.protected:
        found.append(RED_BADGE)
    elif change.risk:
        found.append((" ⚑ runs ", "$text-warning"))
    if change.broken:
        found.append((" ✗ syntax ", "bold $text-error"))
    if change.check is not None:
        passed = change.check.passed
        found.append((" ✓ verified ", "$text-success") if passed else (" ✗ failing ", "bold $text-error"))
    if change.operation in {"create", "delete", "rename"}:
        found.append((f" {change.operation} ", MUTED))
    return [*found, *((f" {words} ", MUTED) for words in special(change))]


def command(text: str, shown: int = SHOWN) -> str:
    """A command between backquotes, on one line."""
    return f"`{one_line(text, shown)}`"


def origin(found: Origin | None, turns: Mapping[str, int], todos: Mapping[str, str], shown: int = SHOWN) -> str:
    """Where a change came from, "" = not known. `shown`: characters of a command."""
    if found is None:
        return ""
    parts = ["edited by you"] if found.tool == "you" else []
    tool = found.over if found.tool == "you" else found.tool
    if found.command:
        parts.append(f"by {command(found.command, shown)}")
    elif tool:
        parts.append(f"by {one_line(tool, 40)}")
    if found.turn in turns:
        parts.append(f"turn {turns[found.turn]}")
    if found.todo:
        parts.append(f"todo “{one_line(todos.get(found.todo, found.todo), 40)}”")
    return " · ".join(parts)


def check(change: Change, shown: int = SHOWN) -> Part:
    """Whether the latest command that checks passed over this very state."""
    if change.check is None:
        return "untested", MUTED
    ran = command(change.check.command, shown)
    if change.check.passed:
        return f"✓ verified by {ran}", "$text-success"
    return f"✗ failing: {ran} ended with {change.check.exit_code}", "$text-error"


def told(change: Change, turns: Mapping[str, int], todos: Mapping[str, str], room: int) -> list[Part]:
    """Where a change came from and whether it was checked, in `room` cells: commands are cut first, then what is said
    last of where it came from. [] = nothing is known."""
    found, broken = _whole(change), f" ✗ does not parse: {one_line(change.broken, 60)} ·" if change.broken else ""
    if not origin(found, turns, todos):
        return []
    for left_out, shown in product(range(5), (SHOWN, 32, 20, 12)):
        says, style = check(change, shown)
        pieces = origin(found, turns, todos, shown).split(" · ")
        came = "".join(f" · {each}" for each in pieces[: max(len(pieces) - left_out, 0)])
        if cells(broken) + 1 + cells(says) + cells(came) <= room:
            break
    return [(broken, "$text-error"), (f" {says}", style), (came, MUTED)]


def _whole(change: Change) -> Origin | None:
    """Where a change came from; of one that was made for several todos, each hunk says its own."""
    is_mixed = len({each.todo for each in change.hunks}) > 1
    return replace(change.origin, todo="") if change.origin is not None and is_mixed else change.origin


def risk(change: Change) -> str:
    """Why a change is red, or labelled; "" = it is neither."""
    if not (change.risk or change.protected):
        return ""
    it = f"! It {change.risk}." if change.risk else "! It is protected."
    return f"{it} {RED_ADVICE}" if change.protected else it


def asks_first(change: Change) -> bool:
    """Whether accepting it is asked about once more: what is red, and what is gone from the disk with it."""
    return change.protected or change.operation == "delete"


def trouble(change: Change, refused: str | None = None) -> str:
    """Why a change can't be accepted. `refused`: what its latest verdict failed for, "" = for its conflict."""
    if not change.conflict:
        return f"! Not done: {refused}" if refused else ""
    advice = RIVAL_ADVICE if change.rivals else CONFLICT_ADVICE
    count = len(change.hunks)
    where = f" in {count - len(change.clean)} of {count} hunks, the others can be accepted" if change.clean else ""
    return f"! {'Conflict' if refused is None else 'Not accepted'}{where}: {change.conflict.strip()} {advice}"


def bulk_line(bulk: Bulk) -> list[Part]:
    """A bulk on one line: what it is, how much, and what made it."""
    if bulk.kind == "git":
        parts = ["git state", f"{bulk.files:,} {'file' if bulk.files == 1 else 'files'} of .git"]
    else:
        parts = [named(bulk.root, 60), f"{bulk.files:,} {'file' if bulk.files == 1 else 'files'}", size(bulk.bytes)]
    if bulk.deleted:
        parts.append(f"{bulk.deleted:,} deleted")
    found: list[Part] = [(parts[0], "bold"), ("".join(f" · {part}" for part in parts[1:]), "$foreground 70%")]
    if bulk.conflict:
        found.append((" · " + one_line(bulk.conflict, 80), "$text-warning"))
    if bulk.origin is not None and bulk.origin.command:
        found.append((f" · {'by' if bulk.waits else 'generated by'} {command(bulk.origin.command)}", "$foreground 70%"))
    return found


def bulk_badges(bulk: Bulk) -> list[Part]:
    """What has to be known of a bulk at once."""
    found: list[Part] = [CONFLICT_BADGE] if bulk.conflict else []
    return [*found, RED_BADGE] if bulk.risk else found
