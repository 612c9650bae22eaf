from __future__ import annotations

from dataclasses import fields

import msgspec
from msgspec import json

from core.engine.shared.box import build_box_event
from core.protocol import documents as d
from core.protocol import events as e
from core.protocol.documents import ErrorDocument, ErrorMetadata, Plan, TextDocument
from core.protocol.events import Envelope, LossyEvent
from core.protocol.messages import Usage
from core.sandbox.box import Tier
from core.state.session import TurnState
from tests.support import recorded
from tests.support.scripted_client import ScriptedClient
from tui.block import TranscriptBlock
from tui.state import ViewState, show_event


def envelopes(events: list[e.AnyEvent]) -> list[Envelope]:
    client = ScriptedClient(events[:1])
    return [client.log[0], *(client.emit(event) for event in events[1:])]


def folded(envelopes: list[Envelope]) -> ViewState:
    state = ViewState()
    for envelope in envelopes:
        show_event(state, envelope)
    return state


def facts(state: ViewState) -> dict[str, object]:
    def block(transcript_block: TranscriptBlock) -> tuple[object, ...]:
        return tuple(getattr(transcript_block, name) for name in TranscriptBlock.__slots__ if name != "revision")

    known = {field.name: getattr(state, field.name) for field in fields(state)}
    known["transcript"] = (
        [block(transcript_block) for transcript_block in state.blocks],
        sorted(state.transcript.by_key),
    )
    return known


WHOLE = [*recorded.opening(), *recorded.turn()]


def test_a_replay_without_lossy_events_gives_the_state_of_the_live_run():
    live = envelopes(WHOLE)
    logged = [envelope for envelope in live if not isinstance(envelope.event, LossyEvent)]
    again = [json.decode(json.encode(envelope), type=Envelope) for envelope in logged]
    assert facts(folded(again)) == facts(folded(live))


def test_an_envelope_that_was_seen_changes_nothing():
    live = envelopes(WHOLE)
    state = folded(live)
    before = facts(state)
    for envelope in live:
        if not isinstance(envelope.event, LossyEvent):
            assert show_event(state, envelope) == frozenset()
    assert facts(state) == before


def test_every_prefix_of_a_log_can_be_folded_and_gone_on_from():
    live = [envelope for envelope in envelopes(WHOLE) if not isinstance(envelope.event, LossyEvent)]
    for cut in range(len(live)):
        state = folded(live[:cut])
        for envelope in live:
            show_event(state, envelope)
        assert facts(state) == facts(folded(live))


def test_what_was_streamed_and_never_finished_is_gone_when_the_turn_ends():
    start = e.TurnStarted(prompt="hi", mode="agent", model="m")
    begun = [e.DocumentStarted(id="x", kind="text", sequence=1), e.DocumentDelta(id="x", text="half")]
    state = folded(envelopes([*recorded.opening(), start, *begun, e.TurnFinished(reason="interrupted")]))
    assert [block.kind for block in state.blocks] == ["prompt", "turn_end"]


def test_documents_of_a_failed_attempt_are_void():
    start = e.TurnStarted(prompt="hi", mode="agent", model="m")
    begun = [e.DocumentStarted(id="x", kind="text", sequence=1), e.DocumentDelta(id="x", text="half")]
    retry = e.StepRetried(step=1, attempt=2, delay_ms=500, message="overloaded", void_documents=("x",))
    state = folded(envelopes([*recorded.opening(), start, *begun, retry]))
    assert "x" not in state.transcript.by_key
    assert state.blocks[-1].text == "overloaded"


def test_a_delta_after_the_document_was_finished_is_ignored():
    events = [
        *recorded.opening(),
        e.DocumentFinished(document=TextDocument(id="x", sequence=1, content="all")),
        e.DocumentDelta(id="x", text="late"),
    ]
    state = folded(envelopes(events))
    assert state.transcript.by_key["x"].live == ""


def test_output_of_a_running_command_is_bounded():
    events = [
        *recorded.opening(),
        e.DocumentStarted(id="d", kind="terminal_command", sequence=1),
        e.ToolRequested(call="c", tool="run_terminal_cmd", arguments="{}", document="d"),
        *(e.ToolOutput(call="c", text="x" * 10_000) for _ in range(20)),
    ]
    assert len(folded(envelopes(events)).transcript.by_key["d"].output) <= 16_000


def test_costs_add_up_and_pending_hunks_are_counted():
    state = folded(envelopes(WHOLE))
    assert state.model_choices.sum_usage().cost == 0.0213
    assert state.pending_hunk_count == 2
    assert state.context_window == 200_000
    assert not state.is_running


def test_an_error_is_told_once_though_its_document_its_event_and_the_turn_say_it():
    error = e.ErrorRaised(code="unauthorized", message="The key is wrong.", hint="/model", retryable=False)
    document = ErrorDocument(id="x", sequence=1, content=error.message, metadata=ErrorMetadata(error_code=error.code))
    end = e.TurnFinished(reason="failed", message=f"{error.message} {error.hint}")
    start = e.TurnStarted(prompt="go", mode="agent", model="m")
    state = folded(envelopes([*recorded.opening(), start, e.DocumentFinished(document=document), error, end]))
    assert [(block.kind, block.text) for block in state.blocks] == [("prompt", "go"), ("error", ""), ("turn_end", "")]


def test_a_limit_is_told_once_though_a_notice_and_the_turn_say_it():
    notice = e.Notice(level="info", message="Stopped: no price.", hint="Say it.")
    end = e.TurnFinished(reason="limit", message="Stopped: no price. Say it.")
    start = e.TurnStarted(prompt="go", mode="agent", model="m")
    state = folded(envelopes([*recorded.opening(), start, notice, end]))
    assert [(block.kind, block.text) for block in state.blocks][1:] == [
        ("notice", "Stopped: no price."),
        ("turn_end", ""),
    ]


def test_what_stands_beside_the_changes_is_folded_too():
    from core.protocol.review import Bulk, Check, Comment

    state = ViewState()
    bulk = Bulk(root="out", kind="generated", files=2, bytes=9)
    comment = Comment(path="shop/tax.py", hunk="h", text="Why?")
    events = [
        e.TurnStarted(prompt="go", mode="agent", model="m"),
        e.ChangeProposed(change=recorded.change()),
        e.CheckRecorded(check=Check(call="c", command="pytest", exit_code=1)),
        e.LayersChanged(layers=("1",), bulks=(bulk,)),
        e.HunkCommented(comment=comment),
    ]
    for seq, event in enumerate(events, 1):
        topics = show_event(state, e.Envelope(seq=seq, session="s", at=1, event=event, turn="t"))
        assert seq == 1 or "review" in topics
    assert (state.turn_numbers, state.bulks) == ({"t": 1}, (bulk,))
    assert not state.changes["shop/tax.py"].check.has_passed
    assert state.comments == {("shop/tax.py", "h"): comment}
    show_event(state, e.Envelope(seq=6, session="s", at=1, event=e.CommentsSent(), turn="t"))
    assert state.comments == {}


async def test_at_sixty_columns_the_status_says_what_waits_rather_than_a_whole_name():
    from textual.app import App, ComposeResult

    from tui.widgets.status_bar import StatusBar

    class Bar(App[None]):
        def compose(self) -> ComposeResult:
            yield StatusBar()

    state = ViewState(model="provider/a-model-with-a-name-as-long-as-a-line-is")
    state.turns = [TurnState(id="t", seq=1, prompt="", mode="agent", model="", started=0, step=12)]
    state.review.changes = {"a": recorded.change(), "b": recorded.change()}
    async with Bar().run_test(size=(60, 3)) as pilot:
        bar = pilot.app.query_one(StatusBar)
        bar.show(state, "")
        await pilot.pause()
        line = bar.render().plain
        assert "4 to review" in line
        assert "Agent" in line
        assert len(line) == 60


async def test_a_long_model_name_gives_way_to_the_facts_and_a_zero_is_the_first_of_them_to_go():
    from textual.app import App, ComposeResult

    from tui.widgets.status_bar import StatusBar

    class Bar(App[None]):
        def compose(self) -> ComposeResult:
            yield StatusBar()

    state = ViewState(model="openrouter/anthropic/claude-sonnet-4.5-with-a-date")
    state.model_choices.add_usage("chat", state.model, Usage(prompt_tokens=9000, cost=0.0))
    state.box, state.context_used, state.context_window = build_box_event(Tier.NAMESPACES), 10, 100
    bar_words = {}
    async with Bar().run_test(size=(160, 3)) as pilot:
        bar = pilot.app.query_one(StatusBar)
        bar.show(state, "")
        for width in (160, 80, 60):
            await pilot.resize_terminal(width, 3)
            bar_words[width] = bar.render().plain.split()
    facts = ["sandboxed", "10", "of", "100", "━╌╌╌╌╌╌╌", "10%"]
    assert bar_words[160] == ["Agent", state.model, "sandboxed", "session", "$0.00", *facts[1:]]
    assert bar_words[80][0] == "Agent"
    assert bar_words[80][1].startswith("…")
    assert bar_words[80][2:] == facts
    assert bar_words[60][2:] == ["sandboxed", "━╌╌╌╌╌╌╌", "10%"]


def test_n16a_a_card_of_a_plan_shows_what_is_done():
    todos = (d.Todo(id="a", content="First"), d.Todo(id="b", content="Then", dependencies=("a",)))
    card = d.PlanDocument(
        id="doc", sequence=1, content="", metadata=d.PlanMetadata(title="P", overview="", todos=todos, path="p.md")
    )
    done = tuple(msgspec.structs.replace(todo, status="completed") for todo in todos)
    state = ViewState()
    steps = (e.DocumentFinished(document=card), e.TodoChanged(todos=(done[0], todos[1]), plan="p.md"))
    for seq, event in enumerate(steps, 1):
        topics = show_event(state, e.Envelope(seq=seq, session="s", at=seq, event=event, turn="t"))
    assert "blocks" in topics
    assert [todo.status for todo in state.transcript.by_key["doc"].document.metadata.todos] == ["completed", "pending"]
    plan = Plan(path="p.md", name="P", todos=done)
    show_event(state, e.Envelope(seq=3, session="s", at=3, event=e.PlanUpdated(plan=plan)))
    assert {todo.status for todo in state.transcript.by_key["doc"].document.metadata.todos} == {"completed"}
    other = e.TodoChanged(todos=todos, plan="other.md")
    assert "blocks" not in show_event(state, e.Envelope(seq=4, session="s", at=4, event=other))


def test_n16c_attempts_at_a_step_are_one_line_that_the_next_one_takes_over():
    state = ViewState()
    for seq, attempt in enumerate((2, 3, 4), 1):
        retry = e.StepRetried(step=1, attempt=attempt, delay_ms=4_000, message="It was deleted.", code="overloaded")
        show_event(state, e.Envelope(seq=seq, session="s", at=seq, event=retry, turn="t"))
    assert [(block.text, block.hint) for block in state.blocks] == [("It was deleted.", "Attempt 4 in 4.0 s.")]
    assert state.retry == (4_000, 3, "overloaded")
    show_event(state, e.Envelope(seq=4, session="s", at=4, event=e.StepFinished(step=1, usage=Usage()), turn="t"))
    assert state.retry is None
