"""The bar that asks before a command runs: the exact command, its directory, and its permissions.

It takes no key from the prompt, and Enter does nothing in it. Keys are ignored until all of its parts have been visible
for half a second. The rows of the keys are guaranteed; the command and its details share the rest, and scroll. The only
text by the model is the explanation, which is set apart.
"""

from __future__ import annotations

import asyncio
import re
import textwrap
from collections.abc import Sequence
from functools import reduce
from typing import Final, NamedTuple

from textual import on
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from core.patterns import compile_lazily
from core.protocol.events import ApprovalDecision, ApprovalRequested
from core.protocol.queries import PatternAnswer
from core.text import exposure
from core.text.counting import count
from tui.ask import messages
from tui.input.visibility import GracePeriod, GuardedWidget, is_fully_visible
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.text import expose_line, fit_line, format_path
from tui.themes.building import SYNTAX
from tui.widgets.highlight import HighlightedText
from tui.widgets.input_line import SteadyInput
from tui.widgets.key_hints import arrange_choices
from tui.workers import start_worker

GRACE: Final = 0.5
_LONG: Final = 400
_TAIL: Final = 40  # characters of a long command in the title
_TITLES: Final = {
    "command": "Run this command?",
    "mode": "Switch the mode?",
    "tool": "Allow this?",
    "machine": "Run this unsandboxed, on your machine?",
    "host": "Let the agent reach this?",
    "network": "It needs the network. Allow this and run it again?",
}
_CHOICES: Final[tuple[tuple[str, ApprovalDecision, str], ...]] = (
    ("approval.machine", "run_on_machine", "on my machine"),
    ("approval.allow", "allow_once", "once"),
    ("approval.session", "allow_session", "this session"),
    ("approval.always", "allow_always", "always"),
    ("approval.pattern", "allow_always", "pattern…"),
    ("approval.reject", "reject_once", "no"),
    ("approval.never", "reject_always", "never"),
)
_MACHINE_LABELS: Final = {"allow_once": "sandboxed", "allow_always": "always, on my machine"}
_BLANKS: Final = compile_lazily(r"(?: {24,}|\t{8,}|\n{4,}| +\Z|\t+\Z|\n+\Z)")
_DIM: Final = "$foreground 60%"
_GAP: Final = "   "  # between two choices
_PATTERN_ROWS: Final = 4  # a pattern, and the commands that it would allow
_TIER: Final = 3  # characters of the name of a tier
_LONG_CLAUSE: Final = 50  # maximum characters of the sandbox's name; the reason follows the colon of a longer one
MOST_ROWS: Final = 5  # of a short command, until more is asked for


def format_subject(subject: str) -> str:
    """Format a command for approval: hidden characters are named; long or trailing runs of blanks are counted."""
    text = _BLANKS.sub(_count_blanks, exposure.expose_text(subject, is_strict=True))
    return "\n".join(map(exposure.expose_blanks, text.split("\n")))


def _count_blanks(blanks: re.Match[str]) -> str:
    name = {" ": "space", "\t": "tab", "\n": "line end"}[blanks[0][0]]
    return f"‹{len(blanks[0]):,} {name}{'s' * (len(blanks[0]) > 1)}›"


class ApprovalBar(GuardedWidget, Vertical, can_focus=True):
    """Shows one approval request at a time."""

    BINDINGS = get_bindings("approval")

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._request: ApprovalRequested | None = None
        self.grace_period = GracePeriod(GRACE)
        self._can_save = False
        self._is_unfolded = False  # all details of the command are visible
        self.display = False

    def compose(self) -> ComposeResult:
        yield Static(id="approval-title")
        with VerticalScroll(id="approval-subject", can_focus=False):
            yield Static(id="approval-text")
        with VerticalScroll(id="approval-details", can_focus=False):
            yield Static(id="approval-about")
        yield Static(id="approval-keys")
        yield SteadyInput(placeholder="a command; * matches anything", id="approval-pattern")
        yield Static(id="approval-preview")

    def show(self, request: ApprovalRequested | None) -> bool:
        """Show `request`, None hides the bar. True if it is another request than before."""
        is_new = request is not None and (self._request is None or request.id != self._request.id)
        self._request = request
        self.display = request is not None
        if request is not None and is_new:
            self.restart_grace()
            self._is_unfolded = False
            self._render_request(request)
        return is_new

    def _render_request(self, request: ApprovalRequested) -> None:
        self._show_input(False)
        title = [(_TITLES.get(request.kind, "Allow this?"), "bold $warning")]
        size = len(request.subject)
        lines = request.subject.count("\n") + 1
        if size > _LONG or lines > 8:
            tail = fit_line(format_subject(request.subject[-_TAIL:]))
            rows = f"{lines:,} line{'s' * (lines > 1)}"
            title.append((f"  {size:,} characters, {rows}, ends with: …{tail}", "$warning"))
        self.query_one("#approval-title", Static).update(Content.assemble(*title))
        self.query_one("#approval-text", Static).update(Content.styled(format_subject(request.subject), "bold"))
        if request.kind in {"command", "machine"}:
            start_worker(self, self._colour_command, request, group="approval", exclusive=True)
        self.query_one("#approval-subject", VerticalScroll).scroll_home(animate=False)
        self.query_one("#approval-details", VerticalScroll).scroll_home(animate=False)
        self._share_rows(request)

    async def _colour_command(self, request: ApprovalRequested) -> None:
        """Colour the command as the shell parses it; the text is not changed."""
        lines = format_subject(request.subject).split("\n")
        highlighted_text = HighlightedText(lines, "bash", "")
        await asyncio.to_thread(highlighted_text.highlight_chunk, 0)
        if self._request is not request:
            return
        rows = [
            reduce(
                lambda row, span: row.stylize(SYNTAX[span[2]], span[0], span[1]),
                highlighted_text.get_spans(index) or (),
                Content.styled(line, "bold"),
            )
            for index, line in enumerate(lines)
        ]
        self.query_one("#approval-text", Static).update(Content("\n").join(rows))

    def on_resize(self) -> None:
        if self._request is not None:
            self._share_rows(self._request)

    def _share_rows(self, request: ApprovalRequested) -> None:
        """Give the keys their rows, and divide the rest: the details get at most half of it, and what a short command
        does not need. Until the user unfolds it, the bar is limited to the card's height."""
        width = self.content_size.width
        if not width and isinstance(self.parent, Widget):
            # The card is not laid out yet, nor its parent if a pane covers it.
            width = (self.parent.content_size.width or self.app.size.width) - self.gutter.width
        if self.styles.max_height is None:
            return
        title, text = self._measure("title", width), self._measure("text", width)
        rows = self._arrange_keys(request, width)
        detail_rows = self._show_details(_format_details(request, width - 2), width)
        card = MOST_ROWS - self.gutter.height - title
        if text < MOST_ROWS and text + detail_rows + len(rows) > card and not self._is_unfolded:
            rows = self._arrange_keys(request, width, "more")
            max_rows = max(card - text - len(rows), 1)
            detail_rows = self._show_details(_fold_details(request, width - 2, max_rows=max_rows), width)
        free = int(self.styles.max_height.value) - self.gutter.height - title
        if text + detail_rows + len(rows) > free:
            with_scroll = self._arrange_keys(request, width, "scroll")
            rows = with_scroll if len(with_scroll) == len(rows) else rows
        self.query_one("#approval-keys", Static).update(Content("\n").join(rows))
        free = max(free - max(len(rows), _PATTERN_ROWS if self.query_one("#approval-pattern").display else 0), 2)
        details_height = max(free - text, min(detail_rows, free // 2))
        self.query_one("#approval-subject").styles.max_height = free - min(detail_rows, details_height)
        self.query_one("#approval-details").styles.max_height = details_height

    def _show_details(self, details: Content, width: int) -> int:
        """Show the details of the command. Return the number of their rows."""
        self.query_one("#approval-about", Static).update(details)
        return self._measure("about", width)

    def _arrange_keys(self, request: ApprovalRequested, width: int, below: str = "") -> list[Content]:
        """Return the rows of the keys. `below`: the label of the key that scrolls; "" leaves it out."""
        scroll = _format_choice(format_first_key("approval.down", get_keymap(self.app)), below)
        return arrange_choices([*self._list_choices(request), *([scroll] if below else [])], _GAP, width)

    def _measure(self, part: str, width: int) -> int:
        """Return the number of rows of a part's text; the command has a margin of a column and a bar."""
        widget = self.query_one(f"#approval-{part}", Static)
        return widget.get_content_height(self.size, self.screen.size, width - 3 if part == "text" else width)

    def _list_choices(self, request: ApprovalRequested) -> list[Content]:
        """Return the keys of answers with their labels."""
        keymap = get_keymap(self.app)
        choices: list[Content] = []
        first = "run_on_machine" if request.kind == "machine" else ""  # elsewhere it is the last choice, not the first
        choices_in_order = sorted(_CHOICES, key=lambda choice: (choice[1] == "run_on_machine") and not first)
        for key, decision, words in choices_in_order:
            if decision in request.options and (key != "approval.pattern" or _takes_pattern(request)):
                label = _MACHINE_LABELS.get(decision, words) if request.kind == "machine" else words
                choices.append(_format_choice(format_first_key(key, keymap), label))
        return choices

    def action_answer(self, decision: ApprovalDecision) -> None:
        request = self._request
        if request is None or decision not in request.options or not self.can_take_answer():
            return
        self.post_message(messages.DecisionMade(request.id, decision))

    def can_take_answer(self) -> bool:
        """True if no part is covered or clipped, and none was when the key was pressed."""
        parts = (self.query_one(f"#approval-{part}") for part in ("subject", "details", "keys"))
        return all(is_fully_visible(widget) for widget in parts if widget.display) and super().can_take_answer()

    def action_page(self, lines: int) -> None:
        """Scroll the command and then its details, which unfold first."""
        subject = self.query_one("#approval-subject", VerticalScroll)
        details = self.query_one("#approval-details", VerticalScroll)
        if lines > 0:
            is_at_end = subject.scroll_offset.y >= subject.max_scroll_y
            if is_at_end and not self._is_unfolded:
                self._unfold(True)
            target = details if is_at_end else subject
        else:
            if not (details.scroll_offset.y or subject.scroll_offset.y):
                self._unfold(False)
            target = details if details.scroll_offset.y > 0 else subject
        target.scroll_relative(y=lines, animate=False)

    def _unfold(self, is_unfolded: bool) -> None:
        self._is_unfolded = is_unfolded
        if self._request is not None:
            self._share_rows(self._request)

    # A pattern of the user's own.

    def action_type_pattern(self) -> None:
        request = self._request
        if request is None or not _takes_pattern(request):
            return
        if self.can_take_answer():
            box = self.query_one("#approval-pattern", Input)
            self._show_input(True)
            box.value = fit_line(request.subject, 2_000) if "\n" not in request.subject else ""
            box.focus()

    def action_cancel_pattern(self) -> None:
        if not self.query_one("#approval-pattern").display:
            raise SkipAction
        self._show_input(False)
        self.focus()

    def _show_input(self, is_shown: bool) -> None:
        self._can_save = False
        self.query_one("#approval-pattern").display = is_shown
        self.query_one("#approval-preview").display = is_shown
        self.query_one("#approval-keys").display = not is_shown
        if self._request is not None:
            self._share_rows(self._request)

    @on(Input.Changed, "#approval-pattern")
    def _on_pattern_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._can_save = False
        if self._request is not None and event.input.display:
            self.post_message(messages.PatternChanged(event.value, self._request.subject))

    def show_preview(self, pattern: str, preview: PatternAnswer) -> None:
        """Show the commands that `pattern` would allow; dropped if the input has changed meanwhile."""
        if pattern != self.query_one("#approval-pattern", Input).value:
            return
        self._can_save = not preview.problem
        if preview.problem:
            parts = [(fit_line(preview.problem, 300), "$error")]
        else:
            others = f" and {expose_line(preview.example, 120, is_strict=True)}" if preview.example else " alone"
            parts = [("allows this command", "$success"), (others, "")]
            if preview.also:
                also = expose_line("; ".join(preview.also), 300, is_strict=True)
                parts.append((f"\nalso from this session: {also}", _DIM))
            parts.append(("\nenter saves it and runs the command · esc back", _DIM))
        self.query_one("#approval-preview", Static).update(Content.assemble(*parts))

    @on(Input.Submitted, "#approval-pattern")
    def _on_pattern_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._request is not None and self._can_save:
            self._show_input(False)
            self.post_message(messages.DecisionMade(self._request.id, "allow_always", event.value))


def _format_choice(key: str, words: str) -> Content:
    return Content.assemble((key, "$accent bold"), f" {words}")


def _takes_pattern(request: ApprovalRequested) -> bool:
    """True if a rule for commands can answer the request; rules for hosts and services can't."""
    is_about_command = request.kind == "command" and "allow_session" not in request.options
    return is_about_command and "allow_always" in request.options


class Fact(NamedTuple):
    """A fact that the user needs for a decision. `shorter`: shorter forms of it, the best first; `is_granted`: an
    approval grants it, so that it is never folded away."""

    text: str
    style: str = _DIM
    shorter: tuple[str, ...] = ()
    is_granted: bool = False


def _format_details(request: ApprovalRequested, width: int) -> Content:
    """Return rows of chips, undivided if they fit: the permissions, the kind and place of the run, the reasons for
    asking. Permissions come first, because a low screen cuts off the end. The model's explanation is set apart."""
    rows = _arrange_chips([(fact.text, fact.style) for fact in _list_facts(request)], width)
    if request.explanation:
        rows.append(Content.styled(f"the model says: {fit_line(request.explanation, 400)}", f"{_DIM} italic"))
    return Content("\n").join(rows)


def _fold_details(request: ApprovalRequested, width: int, *, max_rows: int) -> Content:
    """Return at most `max_rows` rows of chips, but always everything that an approval grants."""
    facts = sorted(_list_facts(request), key=lambda fact: not fact.is_granted)
    chips: list[tuple[str, str]] = []
    for fact in facts:
        forms = [(form, fact.style) for form in (fact.text, *fact.shorter)]
        fitting = (form for form in forms if _fits([*chips, form], width, max_rows))
        chips += [chip] if (chip := next(fitting, forms[-1] if fact.is_granted else None)) else []
    return Content("\n").join(_arrange_chips(chips, width))


def _fits(chips: Sequence[tuple[str, str]], width: int, max_rows: int) -> bool:
    return sum(len(textwrap.wrap(row.plain, width)) for row in _arrange_chips(chips, width)) <= max_rows


def _arrange_chips(chips: Sequence[tuple[str, str]], width: int) -> list[Content]:
    """Return the rows of chips as (text, style)."""
    rows: list[Content] = []
    for text, style in chips:
        chip = Content.styled(f" {text} ", f"{style} on $foreground 12%")
        if chip.cell_length > width:  # it takes separate rows
            chip = Content.styled(text, style)
        if rows and rows[-1].cell_length + 1 + chip.cell_length <= width:
            rows[-1] = Content.assemble(rows[-1], " ", chip)
        else:
            rows.append(chip)
    return rows


def _list_facts(request: ApprovalRequested) -> list[Fact]:
    """Return the facts of the request, permissions first."""
    facts = []
    has_targets = request.kind == "command" and "allow_session" in request.options
    reason = Fact(fit_line(request.reason), is_granted=has_targets or request.kind == "host")
    if request.reason and has_targets:  # it names the request's subject
        facts.append(reason)
    if request.network and request.kind != "host":  # its subject has the same text
        words = f"can reach: {expose_line(', '.join(request.network), 200, is_strict=True)}"
        few = f"can reach {count('host', len(request.network))}"
        facts.append(Fact(words, "$warning", (few,), is_granted=has_targets and not request.reason))
    if request.permissions and request.kind != "machine":  # its title has the same text
        is_named = request.permissions == ("network",) and bool(request.network)  # the hosts say the same
        wanted = Fact(f"asks for: {', '.join(request.permissions)}", "$warning", is_granted=True)
        facts += [] if is_named else [wanted]
    if request.containment:
        containment = fit_line(format_subject(request.containment))
        is_machine = request.kind == "machine"  # an unreviewed change is the subject of the approval
        shorter = () if is_machine or request.kind == "host" else _shorten_containment(containment)
        facts.append(Fact(containment, "$warning", shorter, is_granted=is_machine))
    if request.kind in {"command", "machine"}:
        is_top = request.directory in {"", "."}
        location = "the project directory" if is_top else format_path(request.directory)
        facts.append(Fact(f"in {location}", is_granted=not is_top))
    if request.environment:
        names = expose_line(", ".join(request.environment), 200)
        facts.append(Fact(f"variables from earlier commands: {names}", is_granted=True))
    if request.reason and not has_targets:
        facts.append(reason)
    return facts


def _shorten_containment(containment: str) -> tuple[str, ...]:
    """Return shorter forms of the sandbox's name: without the method, and without the reason; the missing network
    stays."""
    first, *others = containment.split("; ")
    name, colon, reason = first.partition(": ")
    short_clause = reason if colon and len(name) <= _TIER else name if len(first) > _LONG_CLAUSE else first
    network = [other for other in others if other == "no network"]
    fewer = ("; ".join([first, *others[:end]]) for end in range(len(others) - 1, 0, -1) if not network)
    return (*fewer, "; ".join([short_clause, *network]), short_clause, *network)
