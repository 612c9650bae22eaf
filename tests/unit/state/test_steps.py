"""What single events do to a session: a rewind brings back what the model was told since."""

from __future__ import annotations

from core.protocol import events as ev
from core.protocol.review import FileState, VerdictRecord
from core.state.session import SessionState
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
