"""The status bar: its figures, what it warns of and from when on, what goes first, and where a click leads."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.widgets import Static

from core.engine.shared.box import build_box_event
from core.protocol import events as e
from core.protocol.messages import Usage
from core.sandbox.box import Tier
from core.state.goals import GoalState
from core.state.loops import LoopState
from core.state.session import TurnState
from tests.support import recorded
from tui.slash_commands import find_action
from tui.state import ViewState
from tui.state.fold import show_event
from tui.state.view import ModelWait
from tui.widgets.status_bar import StatusBar, StatusFact, list_facts


class Bar(App[None]):
    def compose(self) -> ComposeResult:
        yield StatusBar()


async def styles_of(state: ViewState, text: str) -> set[str]:
    """How `text` is drawn in a bar with room for all facts."""
    async with Bar().run_test(size=(160, 3)) as pilot:
        bar = pilot.app.query_one(StatusBar)
        bar.show(state, "")
        await pilot.pause()
        content = bar.render()
        start = content.plain.index(text)
        spans = [span for span in content.spans if span.start <= start < span.end]
        return {span.style for span in spans if isinstance(span.style, str)}


@pytest.mark.parametrize(
    ("used", "text", "is_warning"),
    [(500, "50%", False), (800, "80%", False), (801, "80%", True), (810, "81%", True), (1_200, "100%", True)],
)
async def test_a_window_of_which_more_than_80_percent_are_used_is_warned_of(used, text, is_warning):
    state = ViewState(model="openai/gpt-9")
    state.context_used, state.context_window = used, 1_000
    assert await styles_of(state, text) == ({"$warning"} if is_warning else {"$foreground 60%"})


@pytest.mark.parametrize(("used", "window"), [(0, 1_000), (900, 0)])
async def test_a_window_that_is_not_known_or_empty_is_not_measured(used, window):
    state = ViewState(model="openai/gpt-9")
    state.context_used, state.context_window = used, window
    with pytest.raises(ValueError, match="not found"):
        await styles_of(state, "%")


# Figures


def facts_of(state: ViewState) -> dict[str, StatusFact]:
    """The facts by what the bar says."""
    return {"".join(text for text, _ in fact.parts): fact for fact in list_facts(state)}


def a_session(*, turns=((1_000, 0, 0.5),), window=200_000, used=48_200) -> ViewState:
    """One with a turn for each of these prompt tokens, cached ones and dollars."""
    state = ViewState(model="openai/gpt-9", branch="main", context_window=window, context_used=used)
    for at, (sent, cached, cost) in enumerate(turns):
        usage = Usage(prompt_tokens=sent, cached_tokens=cached, completion_tokens=10, cost=cost)
        turn = TurnState(id=f"t{at}", seq=at, prompt="go", mode="agent", model="openai/gpt-9", started=0)
        turn.usage = usage
        state.turns.append(turn)
        state.model_choices.add_usage("chat", "openai/gpt-9", usage)
    return state


def test_the_context_is_what_is_used_of_the_window_and_no_sum_over_the_session():
    facts = facts_of(a_session(turns=((40_000, 0, None), (48_000, 0, None), (48_100, 0, None))))
    assert "48.2k of 200.0k" in facts
    assert facts["━━╌╌╌╌╌╌ 24%"].sentence == "Context: 48,200 of 200,000 tokens, 24% of the window"
    assert not [text for text in facts if "136" in text]
    assert "context 48.2k" in facts_of(a_session(window=0))


def test_cost_is_told_of_the_turn_and_of_the_session_and_once_while_they_are_the_same():
    assert [text for text in facts_of(a_session()) if "$" in text] == ["session $0.50"]
    two = facts_of(a_session(turns=((1_000, 0, 0.5), (2_000, 0, 0.75))))
    assert [text for text in two if "$" in text] == ["turn $0.75", "session $1.25"]
    assert two["session $1.25"].sentence == "Session cost: $1.2500, 3,000 tokens sent and 20 received"


def told_of_cache(state) -> list[str]:
    return [
        fact.sentence.split()[1] for fact in list_facts(state) if fact.sentence.startswith("Cache") and not fact.parts
    ]


def test_cache_hits_are_those_of_the_last_turn_and_stand_on_the_page_alone():
    assert told_of_cache(a_session(turns=((1_000, 0, None), (2_000, 1_500, None)))) == ["75%"]
    assert told_of_cache(a_session(turns=((1_000, 900, None), (2_000, 0, None)))) == ["0%"]
    assert told_of_cache(a_session()) == []  # nobody tells of one


@pytest.mark.parametrize(
    ("tier", "words"),
    [
        ("T1", "sandboxed"),
        ("T2c", "sandboxed"),
        ("T3", "partly sandboxed"),
        ("M1", "sandboxed"),
        ("T4", "not sandboxed, commands: ask"),
        ("container", "container"),
        ("in-place", "in-place"),
    ],
)
def test_the_bar_says_in_a_word_how_commands_are_held_and_the_page_names_the_tier(tier, words):
    state = a_session()
    state.box = build_box_event(Tier(tier))
    assert facts_of(state)[words].sentence.startswith(f"Sandbox {tier}: ")


def test_a_session_without_a_known_cost_tells_its_tokens_on_the_page():
    facts = facts_of(a_session(turns=((1_000, 0, None),)))
    assert facts[""].sentence == "Session cost: unknown, 1,000 tokens sent and 10 received"


def test_each_fact_leads_to_a_command_or_a_key():
    state = a_session(turns=((1_000, 900, 0.5), (2_000, 0, 0.75)))
    state.policy = e.PolicyChanged(policy="human", by="user")
    state.jobs["j"] = e.JobStarted(id="j", call="c", command="make")
    state.goal = GoalState(condition="the tests pass", max_rounds=10)
    loop = e.LoopStarted(id="loop_1", prompt="Check it", seconds=60)
    state.loops["loop_1"] = LoopState(loop=loop)
    state.box = build_box_event(Tier.NONE)
    state.is_private, state.client_count = True, 2
    assert {"goal", "1 loop"} <= facts_of(state).keys()
    ways = {fact.way for fact in list_facts(state)}
    assert {"/context", "/models", "/jobs", "/loop", "/policy", "/status"} <= ways
    for way in ways:
        assert find_action(way)


# Looks


async def test_at_narrow_widths_the_least_important_fact_goes_first(stage):
    opening = [
        e.SessionStarted(workspace="shop", mode="agent", model="openai/gpt-9", branch="feature/rates"),
        e.ModelChanged(model="openai/gpt-9", context_window=200_000),
        build_box_event(Tier.NAMESPACES),
        e.ChangeProposed(change=recorded.change()),
        e.TurnStarted(prompt="go", mode="agent", model="openai/gpt-9"),
        e.StepStarted(step=1),
        e.StepFinished(
            step=1, context_tokens=48_200, usage=Usage(prompt_tokens=48_000, cached_tokens=24_000, cost=0.25)
        ),
    ]
    bar_texts: dict[int, str] = {}
    for width in (160, 100, 80, 60):
        async with stage(opening, size=(width, 24)) as on:
            await on.all_shown()
            bar_texts[width] = str(on.screen.query_one(StatusBar).render())
            assert cell_len(bar_texts[width]) <= width
    everything = ("sandboxed", "on feature/rates", "session $0.25", "48.2k of 200.0k", "24%", "2 to review")
    assert [fact_text for fact_text in everything if fact_text not in bar_texts[160]] == []
    assert [fact_text for fact_text in everything if fact_text in bar_texts[80]] == [
        "session $0.25",
        "24%",
        "2 to review",
    ]
    assert [fact_text for fact_text in everything if fact_text in bar_texts[60]] == ["2 to review"]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("2 to review", lambda on: on.panes.side is not None and on.panes.side.current == "review"),
        ("sandboxed", lambda on: type(on.app.screen).__name__ == "PageDialog"),
        ("Agent", lambda on: type(on.app.screen).__name__ == "PickerDialog"),
    ],
)
async def test_a_click_on_a_fact_does_what_its_command_does(stage, text, seen):
    events = [build_box_event(Tier.NAMESPACES), e.ChangeProposed(change=recorded.change())]
    async with stage([*recorded.opening(), *events]) as on:
        await on.all_shown()
        at = str(on.screen.query_one(StatusBar).render()).index(text)
        await on.pilot.hover(StatusBar, offset=(at + 1, 0))
        assert on.screen.query_one(StatusBar).tooltip
        await on.pilot.click(StatusBar, offset=(at + 1, 0))
        await on.until(lambda: seen(on))


async def test_the_page_of_the_status_tells_all_facts_with_what_leads_to_more(stage):
    async with stage([*recorded.opening(), e.ChangeProposed(change=recorded.change())], size=(60, 16)) as on:
        await on.all_shown()
        on.prompt.text = "/status"
        on.prompt.action_send()
        await on.until(lambda: on.app.screen is not on.screen and on.app.screen.query("VerticalScroll > Static"))
        page_text = str(on.app.screen.query_one("VerticalScroll > Static", Static).content)
    for phrase in ("Mode: agent  /mode", "Model: scripted/demo  /model", "Review: 2 hunks pending  ctrl+r"):
        assert phrase in page_text


# The wait for a model


def working() -> ViewState:
    state = ViewState(model="llamacpp//models/smol.gguf")
    state.turns.append(TurnState(id="turn_1", prompt="Hello", mode="agent", step=1, seq=1, model="", started=0))
    return state


async def shown_of(*waits: ModelWait, after: float = 0.0) -> str:
    """The bar, so many seconds after it has seen the first wait."""
    async with Bar().run_test(size=(160, 3)) as pilot:
        bar, state = pilot.app.query_one(StatusBar), working()
        for wait in waits:
            state.wait = wait
            bar.show(state, "")
        bar._wait_start = (bar._wait_start[0], bar._wait_start[1] - after)
        return bar.render().plain


async def test_a_prompt_that_is_read_slowly_is_told_with_its_share_and_its_time():
    assert "step 1 · prompt 25%" in await shown_of(ModelWait(7), ModelWait(7, 500, 2_000))
    assert "step 1 · prompt 25% · 1 min 23 s" in await shown_of(ModelWait(7, 500, 2_000), after=83)
    assert "step 1 · 12 s" in await shown_of(ModelWait(7, 2_000, 2_000), after=12)


async def test_a_short_wait_is_not_told():
    bar = await shown_of(ModelWait(7))
    assert "step 1" in bar
    assert "·" not in bar.partition("step 1")[2]


async def test_the_next_model_call_is_timed_from_its_own_start():
    async with Bar().run_test(size=(160, 3)) as pilot:
        bar, state = pilot.app.query_one(StatusBar), working()
        state.wait = ModelWait(7)
        bar.show(state, "")
        bar._wait_start = (7, bar._wait_start[1] - 60)
        state.wait = ModelWait(9)
        bar.show(state, "")
        assert "min" not in bar.render().plain


def test_a_wait_ends_with_the_first_words():
    view = ViewState()
    for seq, event in enumerate((e.StepStarted(step=1), e.PromptRead(processed=5, total=9)), 1):
        show_event(view, e.Envelope(seq=seq, session="ses_1", at=seq, event=event))
    assert view.wait == ModelWait(1, 5, 9)
    show_event(
        view, e.Envelope(seq=3, session="ses_1", at=3, event=e.DocumentStarted(id="doc_1", sequence=1, kind="text"))
    )
    assert view.wait is None


async def test_a_model_of_a_file_is_shown_by_its_name():
    async with Bar().run_test(size=(160, 3)) as pilot:
        bar = pilot.app.query_one(StatusBar)
        bar.show(working(), "")
        assert "llamacpp/smol.gguf" in bar.render().plain
