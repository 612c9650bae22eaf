"""What single events do to a session: a rewind brings back what the model was told since."""

from __future__ import annotations

from core.protocol import events as ev
from core.protocol.messages import AssistantMessage, ToolCall
from core.protocol.review import Change, FileState, Hunk, Origin, VerdictRecord
from core.state.session import SessionState
from core.state.steps import MAX_CLAIM, MAX_CLAIMS
from tests.support.folded import fold_events


def verdict(name: str) -> ev.VerdictGiven:
    state = FileState(blob=name * 64)
    return ev.VerdictGiven(
        verdict=VerdictRecord(
            id=name,
            path="a.py",
            verdict="reject",
            hunks=(),
            base_before=state,
            base_after=state,
            pending_before=state,
            pending_after=state,
        )
    )


def folded(*events: ev.AnyEvent) -> SessionState:
    return fold_events([ev.Envelope(seq=seq, session="s", at=seq, event=event) for seq, event in enumerate(events, 1)])


TOLD_ONE = (verdict("1"), ev.VerdictsReported(ids=("1",)), ev.CheckpointCreated(id="chk", seq=2))
TOLD_TWO = (*TOLD_ONE, verdict("2"), ev.VerdictsReported(ids=("2",)))


def known(state: SessionState) -> tuple[list[str], list[str]]:
    """The verdicts that the model does not know, and those it knows."""
    return list(state.unreported_verdicts), list(state.reported_verdicts)


def test_after_a_rewind_the_model_is_told_again_of_the_verdicts_that_it_was_told_of_since():
    assert known(folded(*TOLD_TWO)) == ([], ["1", "2"])
    assert known(folded(*TOLD_TWO, ev.ConversationRewound(checkpoint="chk", to_seq=2))) == (["2"], ["1"])


def test_a_rewind_to_a_checkpoint_that_is_not_there_changes_nothing():
    assert known(folded(*TOLD_TWO, ev.ConversationRewound(checkpoint="other", to_seq=2))) == ([], ["1", "2"])


def wrote(text: str, *calls: str, dialect: str = "") -> ev.MessageAppended:
    tool_calls = tuple(ToolCall(id=call, name="write", arguments="{}") for call in calls)
    return ev.MessageAppended(message=AssistantMessage(content=text, tool_calls=tool_calls, dialect=dialect))


def changed(origin: Origin | None, *hunks: str) -> ev.ChangeProposed:
    rows = tuple(Hunk(id=name, old_start=1, old_lines=1, new_start=1, new_lines=1) for name in hunks)
    change = Change(path="a.py", operation="edit", base=FileState(), pending=FileState(), hunks=rows, origin=origin)
    return ev.ChangeProposed(change=change)


def test_a_hunk_has_the_words_of_the_call_that_made_it_and_no_others():
    first = (wrote("I have looked.\n\nThe rate is wrong:\nit is 0.19.", "c1"), changed(Origin(call="c1"), "h1"))
    second = (wrote("", "c2"), changed(Origin(call="c2"), "h1", "h2"))
    third = (wrote("And the name.\n\n<write>h4</write>", "c3", dialect="tags"), changed(Origin(call="c3"), "h1", "h4"))
    yours = changed(Origin(call="c3", tool="you"), "h4", "h5")
    state = folded(*first, *second)
    assert [state.find_claim("a.py", hunk) for hunk in ("h1", "h2", "h3")] == ["The rate is wrong: it is 0.19.", "", ""]
    state = folded(*first, *second, *third, yours)
    assert [state.find_claim("a.py", hunk) for hunk in ("h1", "h4", "h5")] == ["", "And the name.", ""]
    state = folded(*first, ev.ChangeResolved(path="a.py"), changed(None, "h1"))
    assert state.find_claim("a.py", "h1") == ""


def test_the_words_of_calls_are_bounded():
    state = folded(wrote("x" * 2 * MAX_CLAIM, "c0"), *(wrote("y", f"c{number}") for number in range(1, MAX_CLAIMS)))
    assert len(state.claims["c0"]) == MAX_CLAIM
    assert "c0" not in folded(*(wrote("y", f"c{number}") for number in range(MAX_CLAIMS + 1))).claims
