"""Changes made by hand, and an app that holds a review of them and writes down what it posts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events, on
from textual.app import ComposeResult

from core.protocol.review import Change, ChangeDiff, DiffLine, FileState, Hunk, Operation
from tui.review import messages as review_messages
from tui.review.pane import ReviewPane
from tui.themes.appearance import ThemedApp

Block = tuple[str, str]


def diff_of(path: str, blocks: Sequence[Block], *, language: str = "python", **more: object) -> ChangeDiff:
    """A diff from blocks `(" " | "-+" | "⋯", text)`: context, old and new text apart by `=>`, or a gap of n lines."""
    lines: list[DiffLine] = []
    hunks: list[Hunk] = []
    old = new = 1
    for kind, text in blocks:
        if kind == "⋯":
            lines.append(DiffLine(kind="gap", old=0, new=0, text=f"{int(text)} unchanged lines"))
            old, new = old + int(text), new + int(text)
            continue
        if kind == " ":
            for line in text.split("\n"):
                lines.append(DiffLine(kind="context", old=old, new=new, text=line))
                old, new = old + 1, new + 1
            continue
        removed, _, added = text.partition("=>")
        before, after = [side.split("\n") if side else [] for side in (removed, added)]
        index = len(hunks)
        hunks.append(
            Hunk(
                id=f"{path}:{removed.strip()[:12]}>{added.strip()[:12]}",
                old_start=old,
                old_lines=len(before),
                new_start=new,
                new_lines=len(after),
            )
        )
        for number, line in enumerate(before):
            marks = _marks(line, after[number]) if number < len(after) else ()
            lines.append(DiffLine(kind="removed", old=old + number, new=0, text=line, hunk=index, marks=marks))
        for number, line in enumerate(after):
            marks = _marks(line, before[number]) if number < len(before) else ()
            lines.append(DiffLine(kind="added", old=0, new=new + number, text=line, hunk=index, marks=marks))
        old, new = old + len(before), new + len(after)
    return ChangeDiff(change=change_of(path, hunks, lines, language=language, **more), lines=tuple(lines))


def change_of(path: str, hunks: Sequence[Hunk], lines: Sequence[DiffLine], **more: object) -> Change:
    fields: dict[str, object] = {
        "operation": "edit",
        "base": FileState(blob="b", size=100),
        "pending": FileState(blob=f"p{len(hunks)}", size=120),
        "hunks": tuple(hunks),
        "added": sum(line.kind == "added" for line in lines),
        "removed": sum(line.kind == "removed" for line in lines),
    }
    return Change(path=path, **{**fields, **more})  # type: ignore[arg-type]


def _marks(line: str, other: str) -> tuple[tuple[int, int], ...]:
    start = next((i for i, (a, b) in enumerate(zip(line, other, strict=False)) if a != b), min(len(line), len(other)))
    end = 0
    while end < min(len(line), len(other)) - start and line[-1 - end] == other[-1 - end]:
        end += 1
    return ((start, len(line) - end),) if start < len(line) - end else ()


PRICES = diff_of(
    "src/shop/prices.py",
    [
        (" ", '"""Prices of the shop."""\n\nfrom __future__ import annotations\n'),
        ("-+", "from math import floor=>from decimal import ROUND_HALF_UP, Decimal"),
        (" ", "\n\nclass Basket:\n    def __init__(self) -> None:"),
        ("-+", "        self.items = []=>        self.items: list[Item] = []"),
        (" ", ""),
        ("⋯", "120"),
        (" ", "    def total(self):\n        # sum of all the items, rounded"),
        (
            "-+",
            "        value = sum(i.price for i in self.items)\n        return floor(value * 100) / 100"
            "=>        value = sum((each.price for each in self.items), Decimal(0))\n"
            '        return value.quantize(Decimal("0.01"), ROUND_HALF_UP)',
        ),
        (" ", "\n    def is_empty(self) -> bool:\n        return not self.items\n"),
        (
            "-+",
            '=>    def discount(self, percent: int) -> Decimal:\n        """The total after a discount."""\n'
            "        if not 0 <= percent <= 100:\n            raise ValueError(percent)\n"
            "        return self.total() * (100 - percent) / 100\n",
        ),
        ("⋯", "8"),
    ],
)
TESTS = diff_of(
    "tests/test_prices.py",
    [
        (" ", "def test_total():"),
        ("-+", "    assert total([]) == 0.0=>    assert total([]) == Decimal(0)"),
        (" ", ""),
    ],
)
ADDED = diff_of("src/shop/rounding.py", [("-+", "=>PLACES = 2\nUNIT = 10 ** -PLACES")], operation="create")
GONE: Operation = "delete"
REMOVED = diff_of("src/shop/old.py", [("-+", "import math\n\nprint(math.pi)=>")], operation=GONE)
CASES = (PRICES, ADDED, REMOVED, TESTS)


class ReviewApp(ThemedApp[None]):
    """Holds one review of some diffs. `now` is its clock: `pace` seconds pass before each key."""

    CSS = "ReviewPane { width: 100%; height: 100%; }"

    def __init__(self, diffs: Sequence[ChangeDiff] = CASES, before: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.diffs = {diff.change.path: diff for diff in diffs}
        self.now, self.pace = 100.0, 1.0
        self.posted: list[object] = []
        self.offered: list[review_messages.SeenVerdictRequested] = []
        self.loads: list[str] = []

    async def load(self, path: str, context: int) -> ChangeDiff | None:
        self.loads.append(path)
        return self.diffs.get(path)

    def compose(self) -> ComposeResult:
        yield ReviewPane(self.load, clock=lambda: self.now)

    def on_mount(self) -> None:
        self.pane.set_changes(self.changes)
        self.pane.focus()
        self.now += 1

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and not event.is_forwarded:
            self.now += self.pace  # whoever strikes a key has looked at what is there
        await super().on_event(event)

    @property
    def pane(self) -> ReviewPane:
        return self.query_one(ReviewPane)

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(diff.change for diff in self.diffs.values())

    @on(review_messages.SeenVerdictRequested)
    def write_down_offer(self, event: review_messages.SeenVerdictRequested) -> None:
        self.offered.append(event)

    @on(review_messages.VerdictRequested)
    @on(review_messages.FileRequested)
    @on(review_messages.BulkResolved)
    @on(review_messages.ShownVerdictRequested)
    @on(review_messages.CommandRequested)
    @on(review_messages.HunkTextRequested)
    @on(review_messages.CommentsRequested)
    @on(review_messages.OriginVerdictRequested)
    @on(review_messages.ConflictRequested)
    @on(review_messages.ProvenVerdictRequested)
    @on(review_messages.ProofRequested)
    def write_down(self, event: object) -> None:
        self.posted.append(getattr(event, "command", event))
