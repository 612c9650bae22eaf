"""The pane of a code review's findings: their rows, details and actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Static

from core.protocol.review import Finding, Severity
from core.state.findings import SEVERITIES, CodeReview
from core.state.receipt import build_receipt
from core.text.counting import count
from tui.keymap import get_bindings, get_keymap, insert_keys
from tui.panes import StatePane
from tui.state import ViewState
from tui.text import expose_text, fit_line, format_path, render_prose, shorten_path
from tui.widgets.key_hints import NOTHING_HINTS, Hint, HintsChanged
from tui.widgets.row_view import CursorView
from tui.widgets.text_rows import Piece, measure_text

SIGNS: Final[dict[Severity, tuple[str, str]]] = {
    "high": ("!", "bold $text-error"),
    "medium": ("▪", "$text-warning"),
    "low": ("·", "$foreground 60%"),
}
MUTED: Final = "$foreground 60%"
_WORD: Final = max(len(each) for each in SEVERITIES)
_STANDINGS: Final = {"dismissed": ("dismissed", MUTED), "fixing": ("being fixed", "$text-accent")}
ROWS: Final = 2  # of a finding
BESIDE_TEXT, LEAST_TEXT = 3, 20  # columns: of padding and scrollbar, and for the text of a finding at least
EMPTY: Final = (
    "No code review yet\n\n/review reviews this branch, /review BRANCH another branch, /review 12 pull request 12. "
    "Findings appear here; {findings.fix} lets the agent fix one."
)
CLEAN: Final = "No findings\n\n{subject}"
Use = Literal["open", "fix", "dismiss", "copy"]


def describe_standing(finding: Finding, review: CodeReview, state: ViewState) -> Piece:
    """Describe the status of a finding in a few words; for one that was sent to the agent, the result."""
    record = review.get_standing(finding.id)
    turn = (
        next((turn_state for turn_state in state.turns if turn_state.id == record.turn), None) if record.turn else None
    )
    if record.standing != "fixing" or (turn is not None and not turn.reason):
        return _STANDINGS.get(record.standing, ("", ""))
    files = build_receipt(state, turn).files if turn is not None else ()
    file = next(
        (receipt_file for receipt_file in files if receipt_file.path == finding.path), files[0] if files else None
    )
    if file is None:
        return "nothing changed for it", "$text-warning"
    return f"fix {file.verdict}", "$text-success" if file.accepted and not file.waiting else "$text-warning"


def render_finding(finding: Finding, standing: Piece, line: int, width: int) -> list[Piece]:
    """Render one of the two rows of a finding: severity and title, or location and status."""
    sign, style = SIGNS[finding.severity]
    is_settled = standing[0] == "dismissed"
    if line == 0:
        title = fit_line(finding.title, max(width - _WORD - 5, 4))
        return [
            (f" {sign} ", style),
            (f"{finding.severity:<{_WORD}} ", style),
            (title, MUTED if is_settled else "bold"),
        ]
    status = fit_line(standing[0] or finding.doubt, max(width - _WORD - 6, 4))
    status_style = standing[1] if standing[0] else "$text-warning"
    room = max(width - _WORD - 8 - measure_text(status), 8)
    number = f":{finding.start}"
    location = shorten_path(finding.path, max(room - len(number), 4)) + number if finding.path else "no place"
    return [(" " * (_WORD + 4), ""), (location, MUTED), (f" · {status}" if status else "", status_style)]


def describe_review(review: CodeReview) -> str:
    """Return the subject of the code review, and the number of findings per severity."""
    counts = [(sum(finding.severity == word for finding in review.findings), word) for word in SEVERITIES]
    count_texts = [f"{number} {word}" for number, word in counts if number]
    open_count = len(review.list_open())
    parts = [
        count("finding", len(review.findings)),
        *count_texts,
        f"{open_count} open" if open_count != len(review.findings) else "",
    ]
    return f"{' · '.join(filter(None, parts))} · {fit_line(review.subject, 200)}"


def format_finding(finding: Finding) -> str:
    """Format a finding as Markdown for a comment."""
    location = f" (`{finding.place}`)" if finding.path else ""
    parts = [f"**{finding.severity}: {finding.title}**{location}", finding.text]
    if finding.suggestion is not None:
        fence = "````" if "```" in finding.suggestion else "```"
        parts.append(f"{fence}suggestion\n{finding.suggestion}\n{fence}")
    return "\n\n".join(filter(None, parts)) + "\n"


def describe_finding(finding: Finding, standing: str, width: int) -> Sequence[Piece]:
    """Return all that is known of a finding in `width` columns, for the part of the pane that shows the marked one."""
    from tui.widgets.markdown_rows import render_styled_markdown

    location = f"{format_path(finding.path)}:{finding.start}" if finding.path else "No place given."
    if finding.end > finding.start:
        location += f"-{finding.end}"
    parts: list[Piece] = [(f"{location}\n", "$text-primary")]
    if finding.doubt:
        parts.append((f"! {finding.doubt}\n", "$text-warning"))
    if standing:
        parts.append((f"{standing}\n", MUTED))
    if finding.text:
        parts += [("\n", ""), *render_styled_markdown(render_prose(finding.text), width)]
    if finding.suggestion is not None:
        parts.append(("\nsuggested replacement:\n", MUTED))
        parts += [(f"- {expose_text(line)}\n", "$text-error") for line in finding.quote.split("\n") if finding.quote]
        parts += [(f"+ {expose_text(line)}\n", "$text-success") for line in finding.suggestion.split("\n")]
    return parts


class FindingList(CursorView):
    """Lists findings, the gravest first."""

    DEFAULT_CSS = "FindingList { overflow-x: hidden; }"
    BINDINGS = get_bindings("findings")

    @dataclass
    class Chosen(Message):
        """Requests an action on findings."""

        findings: tuple[Finding, ...]
        use: Use

    class Marked(Message):
        """The cursor moved to another finding, or its status changed."""

    @dataclass
    class Paged(Message):
        """Requests to scroll the text of the current finding down (1) or up (-1)."""

        step: int

    def __init__(self) -> None:
        super().__init__()
        self.review: CodeReview | None = None
        self._rows: list[tuple[Finding, Piece]] = []

    @property
    def current(self) -> tuple[Finding, Piece] | None:
        """The finding at the cursor, and its status."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    @property
    def hints(self) -> tuple[Hint, ...]:
        if self.current is None:
            return NOTHING_HINTS
        word = "reopen" if self.current[1][0] == "dismissed" else "dismiss"
        every: tuple[Hint, ...] = (("findings.fix_all", "fix all"),) if len(self._rows) > 1 else ()
        return (
            ("findings.open", "open"),
            ("findings.fix", "fix"),
            *every,
            ("findings.dismiss", word),
            ("findings.copy", "copy"),
        )

    def show(self, state: ViewState) -> None:
        """Show the findings of the last review; the cursor keeps its finding."""
        current_row, before, review = self.current, self.hints, state.review.code_review
        is_new = review is not None and (self.review is None or review.turn != self.review.turn)
        self.review = review
        findings = review.findings if review is not None else ()
        self._rows = [
            (finding, describe_standing(finding, review, state)) for finding in findings if review is not None
        ]
        self.virtual_size = Size(0, ROWS * len(self._rows))
        same = [
            index
            for index, finding in enumerate(findings)
            if current_row is not None and finding.id == current_row[0].id
        ]
        self.move_to(0 if is_new else same[0] if same else self.cursor)
        if self.hints != before:
            self.post_message(HintsChanged())

    def move_to(self, index: int) -> None:
        self.cursor = max(min(index, len(self._rows) - 1), 0)
        if self._rows:
            self.reveal_rows(self.cursor * ROWS, self.cursor * ROWS + ROWS - 1)
        self.post_message(self.Marked())
        self.redraw()

    def count_rows(self) -> int:
        return ROWS * len(self._rows) or self.size.height

    def get_row_text(self, row: int) -> str:
        index, line = divmod(row, ROWS)
        return (self._rows[index][0].place if line else self._rows[index][0].title) if index < len(self._rows) else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if not self._rows:
            subject = self.review.subject if self.review is not None else ""
            text = CLEAN.replace("{subject}", fit_line(subject, 200)) if self.review is not None else EMPTY
            return self.render_message(insert_keys(text, get_keymap(self.app)), row, width)
        index, line = divmod(row, ROWS)
        style = "on $marked-row" if self.has_focus else "on $foreground 10%"
        base = self.resolve_style(style if index == self.cursor else "")
        pieces = render_finding(*self._rows[index], line, width)
        return self.render_styled(pieces, base).adjust_cell_length(width, base.rich_style)

    on_focus = CursorView.redraw
    on_blur = CursorView.redraw

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.move_to(self.cursor)

    def on_click(self, event: events.Click) -> None:
        index = (event.y + self.scroll_offset.y) // ROWS
        if index < len(self._rows):
            self.move_to(index)
            if event.chain == 2:
                self.action_choose("open")

    def action_choose(self, use: Use) -> None:
        if self.current is not None:
            self.post_message(self.Chosen((self.current[0],), use))

    def action_page(self, step: int) -> None:
        self.post_message(self.Paged(step))

    def action_fix_all(self) -> None:
        if self.review is not None and self._rows:
            self.post_message(self.Chosen(tuple(self.review.list_open()), "fix"))


class FindingsPane(StatePane):
    """Shows the findings of the session's last code review."""

    DEFAULT_CSS = """
    FindingsPane { height: 1fr; background: $background; }
    FindingsPane .findings--sum { height: 1; text-style: bold; padding: 0 1; }
    FindingsPane .findings--sum { text-wrap: nowrap; text-overflow: ellipsis; }
    FindingsPane VerticalScroll { height: auto; max-height: 50%; border-top: hkey $panel; padding: 0 1; }
    FindingsPane .findings--text { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.list = FindingList()

    def compose(self) -> ComposeResult:
        yield Static(classes="findings--sum")
        yield self.list
        with VerticalScroll(can_focus=False):
            yield Static(classes="findings--text")

    def focus(self, scroll_visible: bool = True) -> FindingsPane:
        self.list.focus(scroll_visible)
        return self

    def show_state(self, state: ViewState) -> None:
        self.list.show(state)
        total, review = self.query_one(".findings--sum", Static), state.review.code_review
        total.display = review is not None and bool(review.findings)
        if review is not None:
            total.update(Content(describe_review(review)))
        self._show_marked()

    def on_resize(self) -> None:
        self._show_marked()

    def on_finding_list_marked(self, event: FindingList.Marked) -> None:
        event.stop()
        self._show_marked()

    def on_finding_list_paged(self, event: FindingList.Paged) -> None:
        event.stop()
        view = self.query_one(VerticalScroll)
        view.scroll_relative(y=event.step * max(view.size.height - 1, 1), animate=False)

    def _show_marked(self) -> None:
        current_row, view = self.list.current, self.query_one(VerticalScroll)
        view.display = current_row is not None
        if current_row is not None:
            parts = describe_finding(current_row[0], current_row[1][0], max(self.size.width - BESIDE_TEXT, LEAST_TEXT))
            self.query_one(".findings--text", Static).update(Content.assemble(*parts))
            view.scroll_home(animate=False)
