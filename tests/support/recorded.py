"""A recorded turn with every kind of document, for tests of what the screen shows."""

from __future__ import annotations

from core.protocol import documents as d
from core.protocol import events as e
from core.protocol.documents import Plan
from core.protocol.messages import Usage
from core.protocol.review import Change, Check, FileState, Hunk

TODOS = (
    d.Todo(id="find", content="Find where the rate is applied", status="completed"),
    d.Todo(id="fix", content="Round half up in `total`", status="in_progress", dependencies=("find",)),
    d.Todo(id="test", content="Run the tests", dependencies=("fix",)),
)

MARKDOWN = """\
The rate is applied **twice**: once in `line_total` and once in `total`. See https://example.invalid/tax for the rule.

## What I will do

1. Round once, at the end
2. Add a test for the border case
   - 0.5 cents rounds up

| function | rounds | calls |
|---|---|---|
| `line_total` | no | 3 |
| `total` | yes | 1 |

> Amounts are kept in cents.
"""

CODE = """\
def total(lines: list[Line]) -> int:
    'Cents, rounded once.'
    return round(sum(line.net for line in lines) * 1.19)  # VAT"""


def change(path: str = "shop/tax.py", hunks: int = 2) -> Change:
    return Change(
        path=path,
        operation="edit",
        base=FileState(blob="a" * 64, size=120),
        pending=FileState(blob="b" * 64, size=130),
        hunks=tuple(
            Hunk(id=f"h{n}", old_start=n * 10, old_lines=1, new_start=n * 10, new_lines=2) for n in range(1, hunks + 1)
        ),
        added=4,
        removed=2,
        language="python",
    )


def opening(mode: e.ModeName = "agent", *, demo: bool = False) -> list[e.AnyEvent]:
    return [
        e.SessionStarted(workspace="shop", mode=mode, model="scripted/demo", demo=demo),
        e.ModelChanged(model="scripted/demo", context_window=200_000),
    ]


def reading() -> list[e.AnyEvent]:
    call = d.ToolCallMetadata(
        tool_name="read_file",
        tool_call_id="c1",
        arguments={"target_file": "shop/tax.py", "should_read_entire_file": True},
        result=d.ToolResult(status="success", data="1|RATE = 1.19\n2|def total(lines):"),
        duration_ms=12,
        summary="214 lines",
    )
    return [
        e.DocumentStarted(id="r1", kind="reasoning", sequence=1),
        e.DocumentDelta(id="r1", text="The rate looks doubled."),
        e.DocumentFinished(
            document=d.ReasoningDocument(
                id="r1", sequence=1, content="The rate looks doubled.", metadata=d.ReasoningMetadata(duration_ms=3200)
            )
        ),
        e.DocumentStarted(id="t1", kind="tool_call", sequence=2, title="read_file"),
        e.ToolRequested(call="c1", tool="read_file", arguments="{}", document="t1", summary="shop/tax.py"),
        e.DocumentFinished(document=d.ToolCallDocument(id="t1", sequence=2, metadata=call)),
        e.ToolFinished(call="c1", tool="read_file", status="completed", duration_ms=12, summary="214 lines"),
    ]


def answering() -> list[e.AnyEvent]:
    where = d.CodeReferenceMetadata(file_path="shop/tax.py", start_line=12, end_line=14, language="python")
    return [
        e.DocumentStarted(id="x1", kind="text", sequence=3),
        e.DocumentDelta(id="x1", text=MARKDOWN[:100]),
        e.DocumentFinished(document=d.TextDocument(id="x1", sequence=3, content=MARKDOWN)),
        e.DocumentFinished(document=d.CodeReferenceDocument(id="x2", sequence=4, content=CODE, metadata=where)),
        e.DocumentFinished(
            document=d.CodeBlockDocument(
                id="x3", sequence=5, content=CODE, metadata=d.CodeBlockMetadata(language="python")
            )
        ),
    ]


def editing() -> list[e.AnyEvent]:
    diff = d.FileEditDiff(
        old_string="    return round(x)\n",
        new_string="    # once\n    return round_half_up(x)\n",
        start_line=14,
        end_line=14,
    )
    edit = d.FileEditMetadata(
        file_path="shop/tax.py", operation="edit", diff=diff, added=4, removed=2, tool_call_id="c2"
    )
    run = d.TerminalCommandMetadata(
        command="pytest -q tests/test_tax.py",
        exit_code=0,
        output="....\n4 passed in 0.21s\n",
        duration_ms=1240,
        tests="4 passed",
        tool_call_id="c3",
    )
    check = Check(call="c3", command=run.command, exit_code=0, paths=("tests/other.py",), tests="4 passed")
    return [
        e.DocumentStarted(id="f1", kind="file_edit", sequence=6, title="shop/tax.py"),
        e.ChangeProposed(change=change()),
        e.DocumentFinished(document=d.FileEditDocument(id="f1", sequence=6, metadata=edit)),
        e.CheckRecorded(check=check),
        e.DocumentFinished(document=d.TerminalCommandDocument(id="f2", sequence=7, metadata=run)),
    ]


def planning() -> list[e.AnyEvent]:
    plan = Plan(
        path=".cursor/plans/tax_1234abcd.plan.md", name="Round once", overview="Apply the rate at the end.", todos=TODOS
    )
    metadata = d.PlanMetadata(title=plan.name, overview=plan.overview, todos=TODOS, path=plan.path)
    return [
        e.PlanCreated(plan=plan),
        e.DocumentFinished(document=d.PlanDocument(id="p1", sequence=8, metadata=metadata)),
        e.TodoChanged(todos=TODOS, plan=plan.path),
    ]


def trouble() -> list[e.AnyEvent]:
    error = d.ErrorMetadata(
        error_code="rate_limited", details="Send the prompt again later, or choose another model with /model."
    )
    return [
        e.DocumentFinished(
            document=d.ErrorDocument(
                id="e1", sequence=9, content="429: the provider refused the request", metadata=error
            )
        ),
        e.Notice(level="warning", message="AGENTS.md is longer than 32 kB", hint="only its start is sent"),
    ]


def ending(reason: e.TurnEnd = "done") -> list[e.AnyEvent]:
    usage = Usage(prompt_tokens=41_200, completion_tokens=1_130, cost=0.0213)
    return [
        e.StepFinished(step=1, usage=usage, context_tokens=46_000),
        e.TurnFinished(reason=reason, usage=usage, steps=3, duration_ms=8_400),
    ]


def turn(mode: e.ModeName = "agent") -> list[e.AnyEvent]:
    """A whole turn, finished."""
    start = e.TurnStarted(prompt="Why is the total of an invoice one cent off?", mode=mode, model="scripted/demo")
    return [start, e.StepStarted(step=1), *reading(), *answering(), *editing(), *planning(), *trouble(), *ending()]
