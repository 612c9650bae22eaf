"""Whatever a printer writes without a screen: a name in it begins no line, hides nothing, and is like no other name."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from msgspec.structs import replace

from core.cli import box as box_run
from core.cli import permissions as permissions_print
from core.cli import plan as plan_print
from core.cli import sessions as sessions_print
from core.cli.print_mode.printer import JsonPrinter, StreamPrinter, TextPrinter, format_review_notice
from core.cli.review_output import render_patch
from core.permissions.saved_rules import SavedRule
from core.plans.plan_store import BrokenPlan, PlanListing, PlanStore
from core.protocol import events as ev
from core.protocol.commands import Reject
from core.protocol.documents import CodeReferenceDocument, CodeReferenceMetadata, Plan, Todo
from core.protocol.queries import SessionInfo
from core.protocol.renames import format_change_path
from core.protocol.review import Bulk, Change, ChangeDiff, FileState
from core.text.display_names import HIDDEN, display_name
from core.transports.response import PendingBulk, PendingChange, Response, build_refusal
from tests.unit.text.test_display_names import NAMES

ABSENT = FileState(kind="absent", mode=0)
CHANGE = Change(path="", operation="edit", base=FileState(blob="a"), pending=FileState(blob="b"))
RENAME = Change(path="new", operation="rename", base=ABSENT, pending=FileState(blob="b"))


def response(**more: Any) -> Response:
    refusal = build_refusal(Reject(code="", message=""), timestamp=0)
    return replace(refusal, id="chat_1", metadata=replace(refusal.metadata, stop_reason="done", **more))


def text_printed(name: str, *happened: ev.AnyEvent, **more: Any) -> str:
    out, err = io.StringIO(), io.StringIO()
    printer = TextPrinter(out, err)
    for number, event in enumerate(happened, start=1):
        printer.event(ev.Envelope(seq=number, session="s", at=0, event=event))
    printer.end(response(**more))
    return out.getvalue() + err.getvalue()


def said(run: Callable[[], object]) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        run()
    return out.getvalue()


def plan_of(name: str) -> Plan:
    todos = (Todo(id=name, content=name, verify=name), Todo(id="b", content="x", dependencies=(name,)))
    return Plan(path=name, name=name, todos=todos)


def listed(name: str) -> str:
    listing = PlanListing(plans=(plan_of(name),), broken=(BrokenPlan(path=name, problem=name),))
    store = cast("PlanStore", SimpleNamespace(list_plans=lambda: listing))
    return said(lambda: plan_print._list(store, json=False))


PENDING = PendingChange(path="", operation="edit", added=1, removed=1)
PRINTERS: dict[str, Callable[[str], str]] = {
    "pending": lambda name: "\n".join(format_review_notice(response(pending_changes=(replace(PENDING, path=name),)))),
    "conflict": lambda name: "\n".join(
        format_review_notice(response(pending_changes=(replace(PENDING, path="a", conflict=name),)))
    ),
    "renamed": lambda name: "\n".join(
        format_review_notice(response(pending_changes=(replace(PENDING, path="new", renamed_from=name),)))
    ),
    "directory": lambda name: "\n".join(
        format_review_notice(
            response(
                pending_changes=tuple(
                    replace(PENDING, path=f"new/{each}", renamed_from=f"{name}/{each}", added=0, removed=0)
                    for each in "abc"
                )
            )
        )
    ),
    "bulk": lambda name: "\n".join(
        format_review_notice(response(pending_bulks=(PendingBulk(root=name, kind="large", files=1, bytes=1),)))
    ),
    "written": lambda name: text_printed(name, accepted_changes=(name,)),
    "rule": lambda name: text_printed(
        name, ev.RulesLoaded(rules=(ev.LoadedRule(path=name, kind="always", note="left out"),))
    ),
    "notice": lambda name: text_printed(name, ev.Notice(level="warning", message=f"{name} was left.", hint=name)),
    "error": lambda name: text_printed(name, ev.ErrorRaised(code="x", message=f"{name}: no.", hint="")),
    "tool": lambda name: text_printed(name, ev.ToolFinished(call="1", tool="write", status="error", summary=name)),
    "reference": lambda name: text_printed(
        name,
        ev.DocumentFinished(
            document=CodeReferenceDocument(
                id="1",
                sequence=1,
                content="x",
                metadata=CodeReferenceMetadata(file_path=name, start_line=1, end_line=2),
            )
        ),
    ),
    "patch": lambda name: "\n".join(render_patch(ChangeDiff(change=replace(CHANGE, path=name), lines=()))),
    "remark": lambda name: "\n".join(
        render_patch(ChangeDiff(change=replace(CHANGE, path=name, protected=True, conflict=name), lines=()))
    ),
    "rename": lambda name: "\n".join(render_patch(ChangeDiff(change=replace(RENAME, renamed_from=name), lines=()))),
    "verdict": lambda name: format_change_path(replace(RENAME, renamed_from=name)),
    "box": lambda name: "\n".join(box_run._format_change(replace(CHANGE, path=name, conflict=name), None)),
    "box bulk": lambda name: box_run.format_bulk(
        Bulk(root=name, kind="large", files=1, bytes=1), box_run._escape_path(name)
    ),
    "box rename": lambda name: "\n".join(box_run._format_change(replace(RENAME, renamed_from=name), None)),
    "plans": listed,
    "plan": lambda name: said(lambda: plan_print._show(plan_of(name), json=False)),
    "permission": lambda name: permissions_print.format_answer(SavedRule(id="1", choice="allow", rule=name)),
    "permission for a command": lambda name: permissions_print.format_answer(
        SavedRule(id="1", choice="allow", digest="x", shown=name, directory=name)
    ),
    "sessions": lambda name: "\n".join(
        sessions_print.format_table(
            (SessionInfo(id="s", title=name, started=0, updated=0, model="m", mode="agent"),), frozenset({"s"})
        )
    ),
}
# Names stand in these as in prose: what hides or acts is told, letters that look like others are as they are; the title
# of a session is cut.
PROSE = {"conflict", "notice", "error", "tool", "sessions"}
ORDINARY = "pay.py"


@pytest.mark.parametrize("printer", PRINTERS)
@settings(max_examples=60)
@given(one=NAMES, other=NAMES)
@example(one="pay\n+++ b/x", other="pay\n")
@example(one="р\u0430y.py", other=ORDINARY)
@example(one="pa\u200by.py", other=ORDINARY)
@example(one="\x1b[2Jpay.py", other="pay.py\udce9")
@example(one="pay\ud83d.py", other="pay.py")
@example(one="\u00e9\U000e0100", other="\u00e9")
def test_n14_printed_names_forge_no_line_hide_nothing_and_differ(printer, one, other):
    output, like = PRINTERS[printer](one), PRINTERS[printer](other)
    for text in (output, like):
        assert not re.search(f"[{HIDDEN}\r]", text)
        assert len(text.splitlines()) == len(PRINTERS[printer](ORDINARY).splitlines())
        assert text.encode("utf-8")
    if printer not in PROSE:
        assert (output == like) == (one == other)
    if one != display_name(one) and printer not in PROSE | {"patch", "rename"} and not printer.startswith("box"):
        assert display_name(one) in output


@pytest.mark.parametrize("form", [JsonPrinter, StreamPrinter])
@settings(max_examples=60, deadline=None)
@given(name=NAMES.filter(lambda each: not re.search("[\ud800-\udfff]", each)))
def test_n14_json_escapes_a_name_as_json_does_and_keeps_its_value(form, name):
    out, err = io.StringIO(), io.StringIO()
    printer = form(out, err)
    printer.event(ev.Envelope(seq=1, session="s", at=0, event=ev.Notice(level="info", message=name)))
    printer.end(response(pending_changes=(replace(PENDING, path=name, renamed_from=name),)))
    assert not re.search(f"[{HIDDEN}]", out.getvalue() + err.getvalue())
    last = json.loads(out.getvalue() if form is JsonPrinter else out.getvalue().splitlines()[-1])
    answer = last if form is JsonPrinter else last["response"]
    assert answer["metadata"]["pendingChanges"][0]["path"] == name


@given(name=NAMES.filter(lambda each: not re.search("[\ud800-\udfff]", each)))
def test_n14_a_plan_in_json_keeps_its_values(name):
    text = said(lambda: plan_print._show(plan_of(name), json=True))
    assert not re.search(f"[{HIDDEN}]", text)
    assert json.loads(text)["plan"]["todos"][0]["id"] == name


def test_n14_a_project_of_an_odd_name_has_no_line_that_its_name_made(tmp_path, capsys):
    place = tmp_path / "a\nSESSION  \u202e"
    place.mkdir()
    sessions_print.run(sessions_print.SessionsArguments(directory=place))
    permissions_print.run(cast("Any", SimpleNamespace(directory=place, remove="", is_verifying=False)))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all("a␊SESSION" in line for line in lines[:2])
    assert not re.search(f"[{HIDDEN}]", "".join(lines))
