from __future__ import annotations

from core.engine.turns.bisection import read_history
from core.protocol import events as ev
from core.protocol.review import Change, FileState, Origin, VerdictRecord

BASE, ONE, TWO = FileState(blob="0"), FileState(blob="1"), FileState(blob="2")


def revised(path: str, pending: FileState, call: str, tool: str = "write") -> ev.ChangeProposed:
    origin = Origin(turn="turn_1", call=call, tool=tool)
    return ev.ChangeProposed(change=Change(path=path, operation="edit", base=BASE, pending=pending, origin=origin))


def history_of(*events: ev.Event):
    started = ev.TurnStarted(prompt="Do it", mode="agent", model="m")
    envelopes = [
        ev.Envelope(seq=number, session="ses_1", at=0, event=event, turn="turn_1")
        for number, event in enumerate((started, *events), 1)
    ]
    return read_history(envelopes)


def test_each_call_has_the_files_after_it():
    history = history_of(revised("a.py", ONE, "c1"), revised("b.py", ONE, "c1"), revised("a.py", TWO, "c2"))
    assert history.before == {"a.py": BASE, "b.py": BASE}
    assert [step.files for step in history.steps] == [{"a.py": ONE, "b.py": ONE}, {"a.py": TWO, "b.py": ONE}]
    assert [(step.call, step.paths, step.prompt) for step in history.steps] == [
        ("c1", ["a.py", "b.py"], "Do it"),
        ("c2", ["a.py"], "Do it"),
    ]


def test_an_event_that_changes_no_content_is_no_step():
    assert len(history_of(revised("a.py", ONE, "c1"), revised("a.py", ONE, "c2")).steps) == 1


def test_a_rejection_is_a_step_of_the_user():
    record = VerdictRecord(
        id="v",
        path="a.py",
        verdict="reject",
        hunks=(),
        base_before=BASE,
        base_after=BASE,
        pending_before=ONE,
        pending_after=BASE,
    )
    history = history_of(revised("a.py", ONE, "c1"), ev.VerdictGiven(verdict=record))
    assert history.steps[-1].files == {"a.py": BASE}
    assert history.steps[-1].call == ""
