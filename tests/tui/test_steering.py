"""What is said to a running turn: seen until the model has it, given back when it never will."""

from __future__ import annotations

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol.messages import UserMessage
from tests.support import recorded
from tests.support.scripted_client import ScriptedClient
from tests.tui.conftest import Stage
from tui.bridge import SessionRequest
from tui.chat.above_prompt import QueuedMessages

RUNS = [*recorded.opening(), e.TurnStarted(prompt="rewrite it", mode="agent", model="m"), e.StepStarted(step=1)]
OLD, NEW = "delete the old parser", "no, keep the old parser"
SAID = e.TurnSteered(id="s1", text=OLD)
BACK = (e.SteerReturned(id="s1", text=OLD), e.TurnFinished(reason="interrupted"))


def queue(on: Stage) -> str:
    matches = on.screen.query(QueuedMessages)
    return str(matches.first().render()) if matches and matches.first().display else ""


async def give_back(on: Stage) -> None:
    """Something is typed when what was said comes back."""
    await on.emit(SAID)
    await on.pilot.press(*"keep")
    await on.emit(*BACK)
    await on.until(lambda: queue(on).startswith("not sent"))


async def test_n6_what_the_model_was_not_sent_stands_above_the_prompt_until_it_is(stage):
    async with stage(RUNS) as on:
        await on.emit(SAID)
        await on.until(lambda: queue(on))
        assert queue(on) == f"queued {OLD}   ↑ to edit"
        assert not [block for block in on.screen.state.blocks if block.kind == "steer"]
        await on.emit(e.MessageAppended(message=UserMessage(content="…"), steers=("s1",)))
        await on.until(lambda: not queue(on))
        assert [block.text for block in on.screen.state.blocks if block.kind == "steer"] == [OLD]


async def test_n6_an_interrupt_gives_back_what_was_not_sent_and_typing_on_does_not_send_it(stage):
    async with stage(RUNS) as on:
        await on.emit(SAID)
        await on.pilot.press("escape")
        await on.until(lambda: on.sent(c.TurnInterrupt))
        await on.emit(*BACK)
        await on.until(lambda: on.prompt.text == OLD)
        assert not queue(on)
        await on.pilot.press(*"no")
        assert on.prompt.text == "no"
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert [command.text for command in on.sent(c.TurnSubmit)] == ["no"]


async def test_n6_what_comes_back_while_something_is_typed_waits_above_and_up_brings_it(stage):
    async with stage(RUNS) as on:
        await give_back(on)
        assert on.prompt.text == "keep"
        await on.pilot.press("up")
        await on.until(lambda: on.prompt.text == f"{OLD}\nkeep")
        await on.until(lambda: not queue(on))


async def test_n6_up_takes_back_what_the_model_was_not_sent(stage):
    async with stage(RUNS) as on:
        await on.emit(SAID, e.TurnSteered(id="s2", text="and that"))
        await on.until(lambda: queue(on).count("queued") == 2)
        await on.pilot.press("up")
        await on.until(lambda: on.sent(c.TurnUnsteer))
        await on.emit(e.SteerReturned(id="s1", text=OLD), e.SteerReturned(id="s2", text="and that"))
        await on.until(lambda: on.prompt.text)
        assert on.prompt.text == f"{OLD}\nand that"


async def test_n6_a_word_that_comes_too_late_for_the_turn_is_the_next_prompt(stage):
    def react(_: object, command: c.AnyCommand) -> c.Reply | None:
        return c.Reject(code="turn_stopping", message="-") if isinstance(command, c.TurnSteer) else None

    async with stage(RUNS, react=react) as on:
        await on.pilot.press("escape", *NEW.replace(" ", "_"), "enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        kinds = [
            type(sent_command) for sent_command in on.client.commands if not isinstance(sent_command, c.SessionOpen)
        ]
        assert kinds == [c.TurnInterrupt, c.TurnSteer, c.TurnSubmit]


async def test_n6_two_prompts_sent_at_once_are_said_in_the_order_of_typing(stage):
    def react(client: ScriptedClient, command: c.AnyCommand) -> c.Reply | None:
        running = sum(isinstance(sent_command, c.TurnSubmit) for sent_command in client.commands) > 1
        return c.Reject(code="turn_running", message="-") if isinstance(command, c.TurnSubmit) and running else None

    async with stage(recorded.opening(), react=react) as on:
        for text in ("one", "two", "three"):
            on.prompt.text = text
            on.prompt.submit()
        await on.until(lambda: len(on.sent(c.TurnSteer)) == 2)
        assert [sent_command.text for sent_command in on.sent(c.TurnSteer)] == ["two", "three"]


async def test_n6_what_a_killed_engine_had_not_sent_is_offered_when_the_session_goes_on(stage):
    async with stage([*RUNS, SAID, *BACK, e.SessionResumed()], wish=SessionRequest(resume="")) as on:
        await on.until(lambda: on.prompt.text)
        assert on.prompt.text == OLD


async def test_n6_what_was_given_back_before_a_later_prompt_is_not_offered_again(stage):
    later = e.TurnStarted(prompt=NEW, mode="agent", model="m")
    async with stage([*RUNS, SAID, *BACK, later, e.TurnFinished(reason="done")], wish=SessionRequest(resume="")) as on:
        await on.pilot.pause(0.2)
        assert on.prompt.text == ""


async def test_n16a_what_was_not_sent_when_the_user_left_is_kept(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"half a tho")
        on.app.exit()
    assert [command.text for command in on.sent(c.DraftKeep)] == ["half a tho"]


async def test_n16a_it_stands_in_the_prompt_when_the_session_is_gone_on_with(stage):
    async with stage([*recorded.opening(), e.DraftKept(text="half a tho")]) as on:
        await on.until(lambda: on.prompt.text == "half a tho")
        await on.pilot.press(*"ught")
        assert on.prompt.text == "half a thought"


async def test_n16a_a_draft_is_not_offered_once_something_newer_was_said(stage):
    later = [e.TurnStarted(prompt="newer", mode="agent", model="m"), e.TurnFinished(reason="done")]
    async with stage([*recorded.opening(), e.DraftKept(text="older"), *later]) as on:
        await on.until(lambda: on.screen.state.blocks)
        assert on.prompt.text == ""


async def test_what_was_given_back_is_not_offered_any_more_once_something_newer_is_said(stage):
    async with stage(RUNS) as on:
        await give_back(on)
        await on.emit(e.TurnStarted(prompt="keep", mode="agent", model="m"))
        assert on.prompt.text == "keep"
        await on.until(lambda: not queue(on))
