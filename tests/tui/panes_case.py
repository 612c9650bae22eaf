"""A made-up project, plan and list of sessions, and apps that hold one pane each and write down what it posts."""

from __future__ import annotations

from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.widget import Widget

from core.protocol.documents import Plan, Todo
from core.protocol.queries import FileAnswer, SessionInfo, TreeAnswer, TreeEntry
from tui.files.file_tree import FileTree
from tui.files.messages import FileSelected, MentionRequested
from tui.files.preview import FilePreview
from tui.plan import messages as plan_messages
from tui.plan.panel import PlanPanel
from tui.review import messages as review_messages
from tui.themes.appearance import ThemedApp

PROJECT: dict[str, list[tuple[str, str, bool]]] = {
    "": [
        ("docs", "directory", False),
        ("node_modules", "directory", True),
        ("src", "directory", False),
        ("README.md", "file", False),
        ("debug.log", "file", True),
        ("latest", "symlink", False),
    ],
    "docs": [("index.md", "file", False)],
    "node_modules": [],
    "src": [("shop", "directory", False), ("main.py", "file", False)],
    "src/shop": [("prices.py", "file", False), ("rounding.py", "file", False), ("zones.py", "file", False)],
}
MARKS = {"src/shop/prices.py": "edit", "src/shop/rounding.py": "create", "src/shop/old.py": "delete"}
CODE = '"""Prices of the shop."""\n\nfrom __future__ import annotations\n\n\nclass Basket:\n' + "".join(
    f'    def item_{number}(self) -> int:\n        return {number}  # "{number}"\n\n' for number in range(40)
)
PLAN = Plan(
    path=".cursor/plans/prices_1a2b3c4d.plan.md",
    name="Exact prices",
    overview="Sums are decimal from the basket to the receipt.",
    body="# Why\n\nFloats lose cents. **Decimal** does not:\n\n- `Basket.total` rounds once\n- the receipt shows it\n\n"
    "```python\nDecimal('0.01')\n```\n",
    todos=(
        Todo(id="measure", content="Find every sum of floats", status="completed"),
        Todo(id="basket", content="Make Basket.total decimal", status="in_progress", dependencies=("measure",)),
        Todo(id="receipt", content="Print the receipt with two places", dependencies=("basket", "locale")),
        Todo(
            id="locale",
            content="Read the separator from the locale, which is not the one of the shell in which the "
            "server was started but that of the customer",
        ),
        Todo(id="float", content="Keep a float API", status="cancelled"),
    ),
)
NOW = 1_800_000_000_000
SESSIONS = (
    SessionInfo(
        id="s1",
        title="Exact prices",
        started=NOW - 9_000_000,
        updated=NOW - 120_000,
        model="openai/gpt-x",
        mode="agent",
        turns=4,
        pending=3,
    ),
    SessionInfo(
        id="s2",
        title="Why is the index slow?",
        started=0,
        updated=NOW - 7_200_000,
        model="anthropic/c",
        mode="ask",
        turns=1,
        locked=True,
    ),
    SessionInfo(
        id="s3", title="", started=0, updated=NOW - 3 * 86_400_000, model="scripted/demo", mode="plan", turns=2
    ),
    SessionInfo(
        id="s4",
        title="A torn one",
        started=0,
        updated=NOW - 86_400_000,
        model="x/y",
        mode="agent",
        problem="the log can't be read",
    ),
)


class PaneApp(ThemedApp[None]):
    """Holds the widget that `make` gives for it."""

    CSS = "Screen > * { width: 100%; height: 100%; }"

    def __init__(self, make: Callable[[PaneApp], Widget]) -> None:
        super().__init__()
        self.make = make
        self.posted: list[object] = []
        self.loads: list[str] = []
        self.project = {path: list(entries) for path, entries in PROJECT.items()}
        self.files = {"src/main.py": FileAnswer(path="src/main.py", text=CODE, language="python", size=len(CODE))}

    async def tree(self, path: str) -> TreeAnswer:
        self.loads.append(path)
        tree_entries = [TreeEntry(name=n, kind=k, ignored=i) for n, k, i in self.project[path]]  # type: ignore[arg-type]
        return TreeAnswer(path=path, entries=tuple(tree_entries))

    async def file(self, path: str) -> FileAnswer:
        self.loads.append(path)
        return self.files[path]

    def compose(self) -> ComposeResult:
        yield self.make(self)

    def on_mount(self) -> None:
        self.query(Widget).first().focus()

    @on(FileSelected)
    @on(MentionRequested)
    @on(plan_messages.PlanRequested)
    @on(plan_messages.StatusRequested)
    @on(plan_messages.BuildRequested)
    @on(plan_messages.TodosEdited)
    @on(plan_messages.RemovalRequested)
    @on(plan_messages.HunksRequested)
    @on(plan_messages.ExternalEditRequested)
    @on(plan_messages.TextSaved)
    @on(plan_messages.DiscardRequested)
    @on(review_messages.CommandRequested)
    @on(review_messages.CommentsRequested)
    def write_down(self, event: object) -> None:
        self.posted.append(getattr(event, "command", event))


def tree_app() -> PaneApp:
    return PaneApp(lambda app: FileTree(app.tree))


def preview_app() -> PaneApp:
    return PaneApp(lambda app: FilePreview(app.file))


def plan_app() -> PaneApp:
    return PaneApp(lambda _: PlanPanel())
