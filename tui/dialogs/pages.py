"""Pages of text over the main screen: reports, help, and the routes of models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from core.protocol.documents import TerminalCommandDocument, TerminalCommandMetadata
from core.protocol.events import Verification
from core.protocol.messages import Usage
from core.protocol.models import RouteRow
from core.protocol.queries import CommandPreviewAnswer, ConfigAnswer, MachinePlaceAnswer, ManualAnswer, RoutesAnswer
from core.protocol.review import Check
from core.state.checks import FAILING, get_check_words
from tui.block import TranscriptBlock
from tui.dialogs.dialog import Dialog
from tui.input.visibility import is_fully_visible
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.quantities import format_cost, format_count
from tui.review.descriptions import get_check_style
from tui.text import expose_line, expose_text, fit_line, format_path, render_output, render_prose, to_content
from tui.widgets.status_bar import PAGE, StatusFact
from tui.widgets.text_rows import find_line_breaks

LONGEST_KEY: Final = 28  # columns that the keys of settings are aligned in
MAX_CHECKED: Final = 8  # paths that a check looked at that are named
MUTED: Final = "$foreground 60%"
OUTPUT_GONE: Final = "Its output is no longer loaded: /history loads the rest of the conversation, ! runs it again."
NAME_COLUMNS: Final = 14  # columns
JOB_NOTES: Final = {
    "chat": "the conversation",
    "apply": "merges edits into files",
    "small": "summaries",
    "embed": "search by meaning",
    "subagent": "todos in parallel",
    "advisor": "consulted by the agent",
}


class ConfirmDialog(Dialog[bool]):
    """Asks yes or no; True only for `y`. Nothing is preselected, so Enter does nothing."""

    BINDINGS = get_bindings("confirm")
    asks_consent = True

    def __init__(self, question: str, yes: str, *, explanation: str = "", no: str = "stay") -> None:
        super().__init__(question)
        self._yes, self._no, self._about = yes, no, explanation

    def compose_body(self) -> ComposeResult:
        if self._about:
            yield Static(to_content(self._about), classes="dialog-about")
        yield self._build_keys()

    def _build_keys(self) -> Static:
        return Static(self.format_keys(), id="confirm-keys")

    def format_keys(self) -> Content:
        keymap = get_keymap(self.app)
        yes, no = (format_first_key(name, keymap) for name in ("confirm.yes", "confirm.no"))
        yes_parts = () if not self._yes else ((yes, "$accent bold"), f" {self._yes}   ")
        return Content.assemble(*yes_parts, (no, "$accent bold"), f" {self._no}")

    def can_take_answer(self) -> bool:
        return is_fully_visible(self.query_one(".dialog-title")) and super().can_take_answer()

    def action_answer(self, answer: bool) -> None:
        """Close with the answer; a yes that comes too soon, or to invisible content, is ignored."""
        self.answer(answer)


class PageText(Static):
    """Text that is drawn for its width: `draw(width)` gives it for so many columns."""

    def __init__(self, draw: Callable[[int], Content]) -> None:
        super().__init__()
        self._draw = draw

    def on_resize(self, event: events.Resize) -> None:
        self.update(self._draw(event.size.width))

    def redraw(self) -> None:
        """Draw the text again, for the same width."""
        if self.size.width:
            self.update(self._draw(self.size.width))


class PageDialog(Dialog[None]):
    """A page of text: the same for every width, or drawn for one."""

    BINDINGS = get_bindings("page")
    shape = "page"

    def __init__(self, title: str, content: Content | Callable[[int], Content]) -> None:
        super().__init__(title)
        self._content = content

    def compose_body(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._content) if isinstance(self._content, Content) else PageText(self._content)


def build_preview_page(answer: CommandPreviewAnswer) -> PageDialog:
    """Build the page with the prompt of a user's command."""
    runs = "".join(f"runs sandboxed when sent; its changes are dropped: {run}\n" for run in answer.runs)
    content = Content.assemble(
        (f"{expose_text(answer.path)}\n{expose_text(runs)}\n", "$foreground 60%"), to_content(answer.text)
    )
    return PageDialog("What is sent", content)


def build_proof_page(
    check: Check, blocks: Sequence[TranscriptBlock], verification: Verification | None = None
) -> PageDialog:
    """Build the page with a check's output and its significance. `verification`: the result of its repetition in a
    clean layer."""
    return PageDialog("Proof", build_proof_output(check, blocks, verification))


def build_proof_output(
    check: Check, blocks: Sequence[TranscriptBlock], verification: Verification | None = None
) -> Content:
    """Build the text of a check's output, as for `build_proof_page`."""
    verification = None if check.call else verification  # the displayed check ran in the session
    ran = verification or _find_run(check, blocks)
    success = (f"✓ {get_check_words(check).sentence}", get_check_style(check))
    verdict = success if check.has_passed else (f"✗ {FAILING}", "bold $text-error")
    location = ", ".join(format_path(path, 60) for path in check.paths[:MAX_CHECKED]) or "the project"
    content = Content.styled(OUTPUT_GONE, MUTED)
    if ran is not None:
        content = to_content(render_output(ran.output).strip() or "No output.")
    if verification is not None:
        location = f"{location}, rerun alone in a clean layer"
    parts = [
        Content.styled(*verdict),
        Content.styled(f" · exit code {check.exit_code} · checked {location}\n\n", MUTED),
        Content.styled(f"$ {expose_line(check.command, 2_000)}\n\n", "bold"),
        content,
    ]
    return Content.assemble(*parts)


def _find_run(check: Check, blocks: Iterable[TranscriptBlock]) -> TerminalCommandMetadata | None:
    """Return the run that was the check: by its call, else the last one of that command."""
    runs = [block.document.metadata for block in blocks if isinstance(block.document, TerminalCommandDocument)]
    matching_runs = [run for run in runs if run.tool_call_id == check.call]
    same = [run for run in runs if (run.command, run.exit_code) == (check.command, check.exit_code)]
    return next(reversed(matching_runs or same), None)


def build_machine_dialog(command: str, answer: MachinePlaceAnswer) -> ConfirmDialog:
    """Build the question before a user's command runs outside the sandbox, with its directory."""
    note = "It runs as you, unsandboxed, outside the shadow. Its changes take effect without review."
    warning = ""
    if answer.repositories:
        names = ", ".join(format_path(repository, 60) for repository in answer.repositories)
        warning = f"! {names}: a separate repository inside the project. Its git config can run programs.\n\n"
    explanation = f"$ {expose_text(command)}\n\nin {expose_text(answer.directory)}\n\n{warning}{note}"
    return ConfirmDialog("Run this on your real files?", "run", explanation=explanation, no="back to the prompt")


def build_settings_page(answer: ConfigAnswer) -> PageDialog:
    """Build the page of settings: mistakes first, then values and their origins; for a single setting, all of its
    details."""
    parts: list[tuple[str, str]] = []
    for problem in answer.problems:
        parts += [(f"{'✗' if problem.level == 'error' else '!'} {render_prose(problem.message)}\n", "$text-warning")]
        parts += [(f"  {render_prose(problem.hint)}\n", "$foreground 60%")] if problem.hint else []
    parts += [("\n", "")] if parts else []
    column = max((min(len(row.key), LONGEST_KEY) for row in answer.settings), default=0)
    for row in answer.settings:
        parts += [
            (f"{row.key:<{column}}", "bold" if row.source else ""),
            (f"  {_format_value(row.value)}", "$text-accent"),
        ]
        parts += [(f"  {fit_line(row.source, 200)}\n", "$foreground 60%") if row.source else ("\n", "")]
    if len(answer.settings) == 1:
        row = answer.settings[0]
        facts = (("means", row.meaning), ("valid", row.valid), ("default", _format_value(row.default)))
        parts += [(f"\n{name}: {render_prose(text)}\n", "") for name, text in facts]
    parts.append(("\nagent-tui config edit opens your config.toml and checks it.\n", "$foreground 60%"))
    return PageDialog("Settings", Content.assemble(*parts))


def _format_value(value: Any) -> str:
    """Format a value in the syntax of a settings file; a string without quotes."""
    if value in ("", None):
        return "–"
    return fit_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 200)


def build_status_page(facts: Iterable[StatusFact], keymap: Mapping[str, str]) -> PageDialog:
    """Build the page of the status bar's facts, with the command or key for more."""
    parts: list[tuple[str, str]] = []
    for fact in facts:
        shortcut = fact.way if fact.way.startswith("/") else format_first_key(fact.way, keymap)
        suffix = f"  {shortcut}" if fact.way != PAGE else ""
        parts += [(render_prose(fact.sentence), ""), (f"{suffix}\n", "$accent")]
    return PageDialog("Status", Content.assemble(*parts))


_HELP: Final = """\
Type what you want and press Enter. The agent works on a shadow copy of your project. \
Your files are untouched until you accept its changes in the review (Ctrl+R), hunk by hunk.

"""


_MIN_LABEL: Final = 16  # minimum columns of a label next to its command


def build_help_page(manual: ManualAnswer) -> PageDialog:
    """Build the page of the commands in the prompt, and of the pages that the manual has."""
    return PageDialog("Help", lambda width: render_help(manual, width))


def render_help(manual: ManualAnswer, width: int) -> Content:
    """Render one row per command: its word, its description, and its arguments if there is room."""
    from tui.slash_commands import SLASH_COMMANDS

    parts: list[tuple[str, str]] = [(_HELP, "")]
    column = min(max(len(command.word) for command in SLASH_COMMANDS), max(width - _MIN_LABEL, 8)) + 2
    for command in SLASH_COMMANDS:
        room = width - column - 3
        label = fit_line(command.label, room)
        takes = command.argument if command.argument and len(label) + 2 + len(command.argument) <= room else ""
        parts += [(f"  /{command.word:<{column - 1}}", "bold"), (label, ""), (f"  {takes}\n", "$foreground 60%")]
    parts.append(("\n  @ mention a file   F1 keys   Ctrl+P all commands   Shift+Tab mode\n\n", ""))
    if manual.pages:
        parts.append(("More: /help and one of these words\n", "bold $accent"))
        words = "  ".join(page.name for page in manual.pages)
        parts += [(f"{words[start:end]}\n", "") for start, end in find_line_breaks(words, width)]
    return Content.assemble(*parts)


def build_manual_page(manual: ManualAnswer) -> PageDialog:
    """Build a page of the manual, drawn for the width that there is."""
    from tui.widgets.markdown_rows import render_styled_markdown

    return PageDialog(
        f"Manual: {manual.page}", lambda width: Content.assemble(*render_styled_markdown(manual.text, width))
    )


def build_routes_page(table: RoutesAnswer) -> PageDialog:
    return PageDialog("Models in use", lambda width: render_routes(table, width))


def render_routes(table: RoutesAnswer, width: int) -> Content:
    """Render every job with its model and notes, and the usage by model."""
    parts: list[tuple[str, str]] = []
    for row in table.rows:
        name = f"{row.mode.capitalize()} mode" if row.mode else row.job
        model = row.model if row.own else "same as chat"
        lines = [(model or "no model yet", "" if row.model and row.own else MUTED)]
        lines += [(line, MUTED) for line in _describe_route(row, table)]
        for model_usage in row.taken:
            whose = f" ({model_usage.model})" if model_usage.model != row.model else ""
            lines.append((f"{_format_usage(model_usage.usage)}{whose}", "$success"))
        for number, (line, style) in enumerate(_wrap_lines(lines, width - NAME_COLUMNS)):
            parts.append((f"{'' if number else name:<{NAME_COLUMNS}}", "" if number else "bold $accent"))
            parts.append((f"{line}\n", style))
    total = _wrap_lines([(_format_total(table), "bold")], width)
    return Content.assemble(*parts, *((f"\n{line}", style) for line, style in total))


def _wrap_lines(lines: list[tuple[str, str]], width: int) -> list[tuple[str, str]]:
    wrapped_lines = []
    for text, style in lines:
        flat = fit_line(text, 400)
        wrapped_lines += [(flat[start:end].strip(), style) for start, end in find_line_breaks(flat, max(width, 10))]
    return wrapped_lines


def _describe_route(row: RouteRow, table: RoutesAnswer) -> list[str]:
    notes = [] if row.mode else [JOB_NOTES[row.job]]
    if not row.model or not row.own:
        return notes
    effort = f"effort {row.effort or 'default'}" + (f" (it has no {row.wanted})" if row.wanted else "")
    window = f"window {format_count(row.context_window)}" if row.context_window else "window unknown"
    price = ("price of a similar model" if row.estimated else "price known") if row.priced else "price unknown"
    step = f"costs more above {format_count(row.price_step)} tokens" if row.price_step else ""
    end = f"ends {row.retires_at}" if row.retires_at else ""
    notes.append(", ".join(filter(None, (effort, window, price, step, end))))
    if row.tiers:
        factors = zip(row.tiers, row.tier_factors, strict=True)
        tiers = ", ".join(f"{tier} ×{factor:g}" for tier, factor in factors)
        notes.append(f"service tier {row.tier or 'standard'}; it has {tiers}")
    if row.fallback:
        notes.append(f"fallbacks: {', '.join(row.fallback)}")
    if table.answering and row.job == "chat" and not row.mode:
        notes.append(f"now answers: {table.answering}")
    return notes


def _format_usage(usage: Usage) -> str:
    cost = format_cost(usage.cost, is_estimated=usage.estimated) if usage.cost is not None else "cost unknown"
    return f"{format_count(usage.prompt_tokens)} in, {format_count(usage.completion_tokens)} out, {cost}"


def _format_total(table: RoutesAnswer) -> str:
    usages = [model_usage.usage for row in table.rows for model_usage in row.taken]
    if not usages:
        return "Nothing asked in this session yet."
    costs = [usage.cost for usage in usages if usage.cost is not None]
    tokens = sum(usage.prompt_tokens + usage.completion_tokens for usage in usages)
    unknown = " plus unknown costs" if len(costs) < len(usages) else ""
    is_estimated = any(usage.estimated for usage in usages)
    return f"This session: {format_count(tokens)} tokens, {format_cost(sum(costs), is_estimated=is_estimated)}{unknown}"
