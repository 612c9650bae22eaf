"""The proof of a change: the output of the check that ran over it, and the files that one key would accept for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from textual.content import Content

from core.protocol.documents import TerminalCommandDocument, TerminalCommandMetadata
from core.protocol.review import Change, Check
from tui.block import TranscriptBlock
from tui.quantities import count
from tui.review.descriptions import PROOFS
from tui.screens.dialogs.pages import PageDialog
from tui.text import clean, fit_line, format_path, to_content

MUTED: Final = "$foreground 60%"
MAX_NAMED: Final = 8  # files of several that are named
GONE: Final = "Its output is no longer on this screen: /history loads the rest of the conversation, ! runs it again."


def build_proof_page(check: Check, blocks: Sequence[TranscriptBlock]) -> PageDialog:
    """Build the page that shows what a check said, and what that proves."""
    ran = _find_run(check, blocks)
    _, words, style = PROOFS[check.kind]
    verdict = (f"✓ {words.removesuffix(':')}", style) if check.has_passed else ("✗ failing", "bold $text-error")
    where = ", ".join(format_path(each, 60) for each in check.paths[:MAX_NAMED]) or "the project"
    said = Content.styled(GONE, MUTED)
    if ran is not None:
        said = to_content(clean(ran.output).strip() or "It printed nothing.")
    parts = [
        Content.styled(*verdict),
        Content.styled(f" · exit code {check.exit_code} · looked at {where}\n\n", MUTED),
        to_content(f"$ {fit_line(check.command, 2_000)}\n\n", "bold"),
        said,
    ]
    return PageDialog("Proof", Content.assemble(*parts))


def describe_proven(changes: Sequence[Change]) -> str:
    """Return in words which files these are, and what ran over them."""
    names = ", ".join(format_path(each.path, 60) for each in changes[:MAX_NAMED])
    more = f" and {count('more file', len(changes) - MAX_NAMED)}" if len(changes) > MAX_NAMED else ""
    ran = dict.fromkeys(fit_line(each.check.command, 60) for each in changes if each.check is not None)
    return f"{names}{more}. Tests that passed over them: {', '.join(ran)}. What is red or deletes a file is left out."


def _find_run(check: Check, blocks: Iterable[TranscriptBlock]) -> TerminalCommandMetadata | None:
    """Return the run that was the check: by its call, else the last one of that command."""
    runs = [each.document.metadata for each in blocks if isinstance(each.document, TerminalCommandDocument)]
    mine = [each for each in runs if each.tool_call_id == check.call]
    same = [each for each in runs if (each.command, each.exit_code) == (check.command, check.exit_code)]
    return next(reversed(mine or same), None)
