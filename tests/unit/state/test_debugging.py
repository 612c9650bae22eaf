from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.protocol import events as ev
from core.protocol.debug import Evidence, Hypothesis, Probe, ProbeRun
from core.protocol.review import Change, FileState, Origin
from core.state.debugging import DebugState
from core.state.session import SessionState
from tests.support.folded import fold_events

SUPPOSED = tuple(Hypothesis(id=f"H{number}", statement=f"Cause {number}") for number in (1, 2, 3))
CITED = (Evidence(run="r1", line=1, text="miss"),)
CONFIRMED = Hypothesis(id="H2", statement="Cause 2", state="confirmed", evidence=CITED)
BASE, FIRST, SECOND = (FileState(blob=name) for name in ("base", "first", "second"))


def probe(name: str) -> Probe:
    return Probe(id=name, path="a.py", line=1, code="log()")


def change(pending: FileState, call: str = "c1", tool: str = "write") -> Change:
    origin = Origin(turn="t1", call=call, tool=tool)
    return Change(path="a.py", operation="edit", base=BASE, pending=pending, origin=origin)


def after(*events: ev.AnyEvent, mode: str = "debug") -> SessionState:
    begun = [ev.SessionStarted(workspace="/w", mode=mode, model="m"), *events]
    return fold_events([ev.Envelope(seq=seq, session="s", at=1, event=event) for seq, event in enumerate(begun, 1)])


def test_a_verdict_is_kept_with_the_lines_that_it_cites():
    debug = after(ev.HypothesesSet(hypotheses=SUPPOSED), ev.HypothesisJudged(hypothesis=CONFIRMED)).debug
    assert list(debug.hypotheses) == ["H1", "H2", "H3"]
    assert debug.hypotheses["H2"].evidence == CITED
    assert debug.has_confirmed_cause
    assert not after(ev.HypothesesSet(hypotheses=SUPPOSED)).debug.has_confirmed_cause


@pytest.mark.parametrize(
    "end",
    [ev.TurnFinished(reason="done"), ev.TurnFinished(reason="interrupted"), ev.ModeChanged(mode="agent"),
     ev.ConversationRewound(checkpoint="c", to_seq=2), ev.ProbeRemoved(ids=("p1", "p2"))],
    ids=["done", "interrupted", "mode", "rewound", "removed"],
)  # fmt: skip
def test_no_probe_outlives_its_turn_or_debug_mode(end):
    put = [ev.HypothesesSet(hypotheses=SUPPOSED), ev.ProbeAdded(probe=probe("p1")), ev.ProbeAdded(probe=probe("p2"))]
    assert set(after(*put).debug.probes) == {"p1", "p2"}
    debug = after(*put, end).debug
    assert debug.probes == {}
    assert debug.probe_count == 2


def test_a_reproduction_waits_until_it_has_ended():
    asked = ev.ReproduceRequested(run="r1", steps=("Click",))
    assert after(asked).debug.reproduction == asked
    ended = after(asked, ev.RunRecorded(run=ProbeRun(id="r1")), ev.ReproduceEnded(run="r1", outcome="ran")).debug
    assert (ended.reproduction, list(ended.runs), ended.run_count) == (None, ["r1"], 1)


def test_what_is_changed_on_evidence_is_known_with_what_was_pending_before():
    confirmed = [ev.HypothesesSet(hypotheses=SUPPOSED), ev.HypothesisJudged(hypothesis=CONFIRMED)]
    first = ev.ChangeProposed(change=change(FIRST))
    again = ev.ChangeRevised(change=change(SECOND, "c2"))
    assert after(*confirmed, first, again).debug.fixes == {"a.py": None}
    assert after(first, *confirmed, again).debug.fixes == {"a.py": FIRST}
    assert after(first, *confirmed).debug.fixes == {}
    assert after(*confirmed, first, mode="agent").debug.fixes == {}
    assert after(*confirmed, ev.ChangeProposed(change=change(FIRST, tool="you"))).debug.fixes == {}
    assert after(*confirmed, first, ev.FileWritten(path="a.py", state=FIRST)).debug.fixes == {}
    assert after(*confirmed, first, ev.HypothesesSet(hypotheses=SUPPOSED)).debug.fixes == {}


def test_a_fix_is_judged_once_a_run_has_shown_it_and_again_when_it_has_changed():
    mended = [
        ev.HypothesesSet(hypotheses=SUPPOSED),
        ev.HypothesisJudged(hypothesis=CONFIRMED),
        ev.ChangeProposed(change=change(FIRST)),
    ]
    events = [*mended, ev.RunRecorded(run=ProbeRun(id="r2", after_fix=True))]
    assert not after(*mended).debug.awaits_fix_verdict
    assert after(*events).debug.awaits_fix_verdict
    fixed = after(*events, ev.FixJudged(run="r2", outcome="fixed")).debug
    assert (fixed.awaits_fix_verdict, fixed.fixes, fixed.has_fix, fixed.has_confirmed_cause) == (False, {}, True, True)
    unsure = [*events, ev.FixJudged(run="r2", outcome="unsure")]
    assert not after(*unsure).debug.awaits_fix_verdict
    assert after(*unsure, ev.RunRecorded(run=ProbeRun(id="r3", after_fix=True))).debug.awaits_fix_verdict
    changed = after(*unsure, ev.ChangeRevised(change=change(SECOND, "c2"))).debug
    assert (changed.fix_run, changed.awaits_fix_verdict, changed.fixes) == ("", False, {"a.py": None})
    broken = [*events, ev.FixJudged(run="r2", outcome="broken", taken_back=("a.py",))]
    assert (after(*broken).debug.has_confirmed_cause, after(*broken).debug.fixes) == (False, {})
    again = after(*broken, ev.HypothesesSet(hypotheses=SUPPOSED), ev.HypothesisJudged(hypothesis=CONFIRMED)).debug
    assert (again.has_confirmed_cause, again.has_fix, again.fix_verdict) == (True, False, None)
    accepted = after(*mended, ev.FileWritten(path="a.py", state=FIRST)).debug
    assert (accepted.fixes, accepted.has_fix) == ({}, True)


def test_going_back_brings_the_hypotheses_of_that_moment_back():
    one = ev.HypothesesSet(hypotheses=SUPPOSED[:1])
    back = ev.ConversationRewound(checkpoint="c", to_seq=2)
    state = after(one, ev.CheckpointCreated(id="c", seq=2), ev.HypothesesSet(hypotheses=SUPPOSED), back)
    assert list(state.debug.hypotheses) == ["H1"]


EVENTS = st.sampled_from(
    [
        ev.HypothesesSet(hypotheses=SUPPOSED),
        ev.HypothesisJudged(hypothesis=CONFIRMED),
        ev.ProbeAdded(probe=probe("p1")),
        ev.ProbeRemoved(ids=("p1", "p9")),
        ev.ReproduceRequested(run="r1"),
        ev.ReproduceEnded(run="r1", outcome="stopped"),
        ev.RunRecorded(run=ProbeRun(id="r1")),
        ev.RunRecorded(run=ProbeRun(id="r2", after_fix=True)),
        ev.FixJudged(run="r2", outcome="broken"),
        ev.ProbesChecked(files=1),
        ev.ChangeProposed(change=change(FIRST)),
        ev.ModeChanged(mode="ask"),
        ev.ModeChanged(mode="debug"),
        ev.TurnFinished(reason="done"),
    ]
)


@given(st.lists(EVENTS, max_size=20))
def test_a_log_that_is_folded_twice_gives_one_state_and_probes_only_in_debug_mode(events):
    state = after(*events)
    assert after(*events).debug == state.debug
    assert state.mode == "debug" or not state.debug.probes
    assert isinstance(state.debug, DebugState)
