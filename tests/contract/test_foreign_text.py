"""Hostile text through everything that shows text: nothing crashes, nothing acts, no control code is written."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from core.protocol import documents as d
from core.protocol import events as e
from core.protocol.documents import Plan
from core.protocol.models import ModelChoice, ProviderStatus
from core.protocol.queries import ModelsAnswer, ModelsQuery
from tests.contract.source_tree import modules
from tests.support import recorded
from tests.support.scripted_client import ScriptedClient
from tui.app import AgentApp
from tui.bridge import SessionRequest

HOSTILE = {
    "markup": "[/red] [@click=app.quit]x[/] [link=http://x]y[/link] [bold",
    "escapes": "\x1b]52;c;aGk=\x07\x1b]0;owned\x1b\\\x1b[2J\x1b[6n\x9b31m\x1bP0q\x1b\\\x1b_a\x1b\\ \x07\x08\x7f",
    "hidden": "a\u202eb\u2066c\u200bd\ufeff\U000e0041\U000e0042\ud800\u2028\x85",
    "combining": "z" + "\u0301" * 10_000,
    "long": "x" * 200_000,
    "wide": "漢字" * 5_000 + "👨‍👩‍👧‍👦" * 500,
    "markdown": "[a](javascript:x\x1b) ![i](file:///etc) <b>h</b>\n```\x1b[31m\n" + "> " * 500 + "\n" + "- " * 200,
}


def documents(text: str) -> list[e.AnyEvent]:
    call = d.ToolCallMetadata(
        tool_name=text,
        tool_call_id="c",
        arguments={text[:50]: text, "n": [text]},
        result=d.ToolResult(status="error", data=text),
        summary=text,
    )
    diff = d.FileEditDiff(old_string=text, new_string=text + "\n" + text, start_line=1, end_line=1)
    todo = d.Todo(id=text[:99], content=text, dependencies=(text[:99],))
    edit = d.FileEditMetadata(file_path=text, operation="edit", diff=diff, added=1)
    question = d.Question(id="q", text=text, options=(d.Option(id="o", label=text),))
    samples: list[d.AnyDocument] = [
        d.TextDocument(id="1", sequence=1, content=text),
        d.ReasoningDocument(id="2", sequence=1, content=text),
        d.CodeBlockDocument(id="3", sequence=1, content=text, metadata=d.CodeBlockMetadata(language=text[:30])),
        d.CodeReferenceDocument(
            id="4", sequence=1, content=text, metadata=d.CodeReferenceMetadata(file_path=text, start_line=1, end_line=2)
        ),
        d.FileEditDocument(id="5", sequence=1, content=text, metadata=edit),
        d.ToolCallDocument(id="6", sequence=1, metadata=call),
        d.TerminalCommandDocument(
            id="7", sequence=1, metadata=d.TerminalCommandMetadata(command=text, exit_code=1, output=text)
        ),
        d.PlanDocument(
            id="8", sequence=1, metadata=d.PlanMetadata(title=text, overview=text, todos=(todo,), path=text)
        ),
        d.ClarificationDocument(
            id="9",
            sequence=1,
            metadata=d.ClarificationMetadata(
                questions=(question,), answers=(d.QuestionAnswer(question="q", options=("o",), text=text),)
            ),
        ),
        d.ErrorDocument(id="10", sequence=1, content=text, metadata=d.ErrorMetadata(error_code=text, details=text)),
        d.TodoUpdateDocument(
            id="11", sequence=1, metadata=d.TodoUpdateMetadata(todos=(d.TodoStatusUpdate(id=text, status="pending"),))
        ),
    ]
    return [e.DocumentFinished(document=document) for document in samples]


def everything(text: str) -> list[e.AnyEvent]:
    plan = Plan(path=text[:200], name=text, overview=text, body=text, todos=(d.Todo(id="t", content=text),))
    return [
        e.SessionStarted(workspace=text, mode="agent", model=text, title=text, demo=True),
        e.TurnStarted(prompt=text, mode="agent", model=text),
        *documents(text),
        e.DocumentStarted(id="live", kind="text", sequence=1, title=text),
        e.DocumentDelta(id="live", text=text),
        e.DocumentStarted(id="run", kind="terminal_command", sequence=1, title=text),
        e.ToolRequested(call="r", tool=text, arguments=text, document="run", summary=text),
        e.ToolOutput(call="r", text=text),
        e.Notice(level="warning", message=text, hint=text),
        e.ErrorRaised(code="x", message=text, hint=text),
        e.ChangeProposed(change=recorded.change(text[:200])),
        e.PlanCreated(plan=plan),
        e.TodoChanged(todos=plan.todos),
        e.QuestionAsked(
            id="q", call="c", questions=(d.Question(id="q", text=text, options=(d.Option(id="o", label=text),)),)
        ),
        e.ApprovalRequested(
            id="a", call="c", kind="command", subject=text, directory=text, explanation=text, containment=text
        ),
    ]


def written(app: AgentApp) -> str:
    """The text of all that is on the screen, before colours are added to it."""
    strips = [strip for screen in app.screen_stack for strip in screen._compositor.render_strips()]
    return "".join(segment.text for strip in strips for segment in strip)


def hidden_in(text: str) -> set[str]:
    return {
        f"U+{ord(character):04X}"
        for character in text
        if ord(character) < 32 or 127 <= ord(character) < 160 or character in "\u202e\u2066\u200b\ufeff\u2028"
    }


async def show(pilot: Any, app: AgentApp, text: str) -> None:
    app.main.context.notify_user(text, text, is_error=True)
    await pilot.pause(0.1)
    for key in ("ctrl+r", "ctrl+t", "f2", "ctrl+up", "g"):
        await pilot.press(key)
    for index in range(len(app.main.state.blocks)):
        view = app.main.query_one("#transcript")
        view.cursor = index  # type: ignore[attr-defined]
        view.action_toggle_block()  # type: ignore[attr-defined]
        await pilot.pause()
        assert hidden_in(written(app)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
async def test_t1_t2_t4_hostile_text_is_shown_and_does_nothing(name):
    text = HOSTILE[name]
    client = ScriptedClient(everything(text))

    async def connect() -> ScriptedClient:
        return client

    app = AgentApp(connect, SessionRequest(model="m"))
    async with app.run_test(size=(120, 40)) as pilot:
        while app.main.state.seq < len(client.log):
            await pilot.pause(0.01)
        await show(pilot, app, text)
        assert not app._exit
        assert app.main.is_attached


@pytest.mark.parametrize("name", ["markup", "escapes", "hidden"])
async def test_t1_t2_hostile_names_in_the_dialogs_do_nothing(name):
    text = HOSTILE[name]
    models = ModelsAnswer(
        models=(ModelChoice(id=text, source=text),),
        providers=(ProviderStatus(id="x", label=text, key=text, problem=text),),
    )
    client = ScriptedClient(answers={ModelsQuery: models})

    async def connect() -> ScriptedClient:
        return client

    app = AgentApp(connect, SessionRequest())
    async with app.run_test(size=(120, 40)) as pilot:
        while type(app.screen).__name__ != "WelcomeDialog":
            await pilot.pause(0.01)
        await pilot.pause(0.1)
        assert hidden_in(written(app)) == set()
        await pilot.press("enter")
        await pilot.pause(0.1)
        assert type(app.screen).__name__ == "PickerDialog"
        assert hidden_in(written(app)) == set()


def test_widgets_are_given_no_plain_string_that_is_not_a_literal():
    violations = []
    for module in modules("tui"):
        for node in module.nodes:
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = ast.unparse(node.func).split(".")[-1]
            first = node.args[0]
            if name in {"Static", "Label", "update"} and isinstance(first, ast.JoinedStr | ast.BinOp):
                violations.append(f"{module.name}:{node.lineno} {ast.unparse(node)[:80]}")
    assert violations == []


def test_a_toast_is_never_markup():
    wrong = [
        f"{module.name}:{node.lineno}"
        for module in modules("tui")
        for node in module.nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".notify")
        if not any(keyword.arg == "markup" and ast.unparse(keyword.value) == "False" for keyword in node.keywords)
    ]
    assert wrong == []
