"""Going back: the transcript follows, the picker and the preview show what would change, single keys choose."""

from __future__ import annotations

import pytest

from core.protocol import commands as c
from core.protocol import documents as d
from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.debug import Hypothesis
from tests.support import recorded
from tui.dialogs.picker import PickerDialog
from tui.dialogs.rewind import RewindDialog
from tui.screens.controllers.turn import TWICE_SECONDS
from tui.state import ViewState, show_event

EARLY = q.CheckpointInfo(id="check_1", seq=1, at=0, prompt="Fix the [/red] parser", files=2)
LATE = q.CheckpointInfo(id="check_2", seq=9, at=0, prompt="Now the tests\nand more", files=1)
BEFORE = q.CheckpointInfo(id="check_3", seq=20, at=0, before="check_1", left=True)
LISTED = q.CheckpointsAnswer(checkpoints=(EARLY, LATE, BEFORE))
PREVIEW = q.CheckpointPreviewAnswer(
    info=EARLY,
    paths=(
        q.RestoredPath(path="src/a.py", pending="propose", disk="edit"),
        q.RestoredPath(path="src/new.py", pending="resolve"),
        q.RestoredPath(path="docs/[x].md", reason="it was edited in the project at the same place since."),
    ),
    bulks=("node_modules",),
    messages=12,
)
ANSWERS = {q.CheckpointsQuery: LISTED, q.CheckpointPreviewQuery: PREVIEW}
DONE = e.TurnFinished(reason="done")


def said(prompt: str, check: str, answer: str) -> list[e.AnyEvent]:
    document = d.TextDocument(id=f"doc_{check}", sequence=0, content=answer)
    return [
        e.CheckpointCreated(id=check, seq=0, prompt=prompt),
        e.TurnStarted(prompt=prompt, mode="agent", model="m"),
        e.DocumentFinished(document=document),
        DONE,
    ]


TWO = [*recorded.opening(), *said("First thing", "check_1", "Answer one."), *said("Second", "check_2", "Answer two.")]


def texts(state: ViewState) -> list[str]:
    return [block.text for block in state.blocks if block.kind == "prompt"]


async def chosen(on, key: str) -> None:
    """Choose the oldest checkpoint, then press the key on its preview."""
    await on.until(lambda: isinstance(on.app.screen, PickerDialog))
    await on.pilot.press("up")
    await on.pilot.press("enter")
    await on.until(lambda: isinstance(on.app.screen, RewindDialog))
    await on.pilot.press(key)
    await on.until(lambda: on.app.screen is on.screen)


async def test_the_transcript_goes_back_and_comes_back(stage):
    async with stage(TWO) as on:
        await on.all_shown()
        assert texts(on.screen.state) == ["First thing", "Second"]
        await on.emit(
            e.CheckpointCreated(id="check_3", seq=9, before="check_2"),
            e.ConversationRewound(to_seq=5, checkpoint="check_2"),
        )
        assert texts(on.screen.state) == ["First thing"]
        assert not any("Answer two" in line for line in on.lines())
        assert any("Answer one" in line for line in on.lines())
        await on.emit(*said("Third", "check_4", "Answer three."))
        assert texts(on.screen.state) == ["First thing", "Third"]
        await on.emit(e.ConversationRewound(to_seq=9, checkpoint="check_3"))
        assert texts(on.screen.state) == ["First thing", "Second"]
        assert any("Answer two" in line for line in on.lines())
        assert not any("Answer three" in line for line in on.lines())


@pytest.mark.parametrize(
    ("key", "what", "prompt"),
    [("b", "both", EARLY.prompt), ("f", "files", ""), ("c", "conversation", EARLY.prompt)],
)
async def test_a_prompt_is_chosen_looked_at_and_gone_back_to(stage, key, what, prompt):
    async with stage(TWO, answers=ANSWERS) as on:
        await on.all_shown()
        await on.pilot.press("f5")
        await chosen(on, key)
        await on.until(lambda: on.sent(c.CheckpointRestore))
        assert [(command.id, command.what) for command in on.sent(c.CheckpointRestore)] == [(EARLY.id, what)]
        await on.pilot.pause(0.05)
        assert on.prompt.text == prompt


async def test_the_list_says_what_enter_does_and_what_was_left_comes_back_as_it_was(stage):
    answers = ANSWERS | {q.CheckpointPreviewQuery: q.CheckpointPreviewAnswer(info=BEFORE)}
    async with stage(TWO, size=(60, 16), answers=answers) as on:
        await on.all_shown()
        await on.pilot.press("f5")
        await on.until(lambda: isinstance(on.app.screen, PickerDialog))
        assert "enter previews" in str(on.app.screen.query_one(".dialog-about").render())
        await on.pilot.press("enter")
        await on.until(lambda: isinstance(on.app.screen, RewindDialog))
        preview_text = str(on.app.screen.query_one("VerticalScroll > Static").render())
        assert preview_text.startswith("conversation  as it was before the rewind\n")


async def test_what_is_written_in_the_prompt_stays_there(stage):
    async with stage(TWO, answers=ANSWERS) as on:
        await on.all_shown()
        on.prompt.text = "half a thought"
        await on.pilot.press("f5")
        await chosen(on, "b")
        await on.until(lambda: on.sent(c.CheckpointRestore))
        await on.pilot.pause(0.05)
        assert on.prompt.text == "half a thought"


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_leaving_the_preview_takes_nothing_back(stage, key):
    async with stage(TWO, answers=ANSWERS) as on:
        await on.all_shown()
        await on.pilot.press("f5")
        await chosen(on, key)
        assert on.sent(c.CheckpointRestore) == []


async def test_a_refusal_is_told_and_the_prompt_stays_empty(stage):
    def react(_client, command):
        refused = isinstance(command, c.CheckpointRestore)
        return c.Reject(code="turn_running", message="a turn is running.") if refused else None

    async with stage(TWO, answers=ANSWERS, react=react) as on:
        await on.all_shown()
        await on.pilot.press("f5")
        await chosen(on, "b")
        await on.until(
            lambda: any("A turn is running" in notification.message for notification in on.app._notifications)
        )
        assert on.prompt.text == ""


async def test_escape_twice_on_an_empty_prompt_goes_back_and_once_or_slowly_does_not(stage):
    async with stage(TWO, answers=ANSWERS) as on:
        await on.all_shown()
        now = [100.0]
        on.screen.controllers.rewind.clock = lambda: now[0]
        await on.pilot.press("escape")
        now[0] += TWICE_SECONDS + 1
        await on.pilot.press("escape")
        await on.pilot.pause(0.05)
        assert on.app.screen is on.screen
        now[0] += 0.1
        await on.pilot.press("escape")
        await on.until(lambda: isinstance(on.app.screen, PickerDialog))


async def test_escape_twice_does_not_go_back_with_words_in_the_prompt_or_while_a_turn_runs(stage):
    async with stage(TWO, answers=ANSWERS) as on:
        await on.all_shown()
        on.screen.controllers.rewind.clock = lambda: 100.0
        on.prompt.text = "words"
        await on.pilot.press("escape", "escape")
        on.prompt.text = ""
        await on.emit(e.TurnStarted(prompt="More", mode="agent", model="m"))
        await on.pilot.press("escape", "escape")
        await on.until(lambda: on.sent(c.TurnInterrupt))
        await on.pilot.pause(0.05)
        assert on.app.screen is on.screen
        assert not any(isinstance(query, q.CheckpointsQuery) for query in on.client.queries)


async def test_without_a_checkpoint_there_is_nothing_to_go_back_to(stage):
    async with stage(answers={q.CheckpointsQuery: q.CheckpointsAnswer(checkpoints=())}) as on:
        await on.all_shown()
        on.prompt.text = "/rewind "
        await on.pilot.press("enter")
        await on.until(
            lambda: any("Nothing to rewind to" in notification.message for notification in on.app._notifications)
        )
        assert on.app.screen is on.screen


async def test_a_fork_is_asked_for_and_followed(stage):
    other = "ses_0000000000000002"

    def react(_client, command):
        return c.Ack(session=other, seq=0) if isinstance(command, c.SessionFork) else None

    async with stage(TWO, react=react) as on:
        await on.all_shown()
        before = on.screen.state.session_id
        on.prompt.text = "/fork "
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.SessionFork))
        assert on.sent(c.SessionFork)[0].session == before
        await on.until(lambda: on.sent(c.SessionClose))
        assert on.sent(c.SessionClose)[0].session == before


async def test_the_preview_fits_the_smallest_window_and_scrolls(stage):
    many = tuple(q.RestoredPath(path=f"src/file_{number}.py", disk="edit") for number in range(60))
    answers = ANSWERS | {q.CheckpointPreviewQuery: q.CheckpointPreviewAnswer(info=EARLY, paths=many, messages=1)}
    async with stage(TWO, size=(60, 16), answers=answers) as on:
        await on.all_shown()
        await on.pilot.press("f5")
        await on.until(lambda: isinstance(on.app.screen, PickerDialog))
        await on.pilot.press("up")
        await on.pilot.press("enter")
        await on.until(lambda: isinstance(on.app.screen, RewindDialog))
        await on.pilot.pause(0.05)
        keys = on.app.screen.query_one("#rewind-keys")
        assert keys.region.bottom <= 16
        assert keys.region.height >= 1
        view = on.app.screen.query_one("VerticalScroll")
        assert view.max_scroll_y > 0
        await on.pilot.press("j", "j")
        await on.pilot.pause(0.05)
        below = view.scroll_y
        assert below > 0
        await on.pilot.press("k")
        above = view.scroll_y
        assert above < below
        for down, up in (("down", "up"), ("pagedown", "pageup")):
            await on.pilot.press(down)
            assert view.scroll_y == below
            await on.pilot.press(up)
            assert view.scroll_y == above


def test_n16a_the_board_goes_back_with_the_conversation():
    cause = Hypothesis(id="H1", statement="The rate is stale")
    judged = Hypothesis(id="H1", statement="The rate is stale", state="confirmed")
    state, events = ViewState(), [*TWO, e.ModeChanged(mode="debug")]
    events += [e.HypothesesSet(hypotheses=(cause,)), *said("Third", "check_3", "Now we know.")]
    events += [e.HypothesisJudged(hypothesis=judged), e.FixJudged(run="r1", outcome="fixed")]
    for seq, event in enumerate(events, 1):
        show_event(state, e.Envelope(seq=seq, session="s", at=seq, event=event, turn="t"))
    assert state.debug.hypotheses["H1"].state == "confirmed"
    rewound = e.Envelope(seq=99, session="s", at=99, event=e.ConversationRewound(checkpoint="check_3", to_seq=0))
    assert "debug" in show_event(state, rewound)
    assert (state.debug.hypotheses, state.debug.fix_verdict) == ({"H1": cause}, None)
    show_event(
        state, e.Envelope(seq=100, session="s", at=100, event=e.ConversationRewound(checkpoint="check_1", to_seq=0))
    )
    assert state.debug.hypotheses == {}
