"""Pictures of a prompt that is tried several times, and of the conversation that the candidates know."""

from __future__ import annotations

from core.protocol import commands as cmd
from tests.integration.test_attachments import BLIND, PNG, desk_in
from tests.support.agent_case import says
from tests.support.pictures import picture
from tests.support.story import project_at

DOT = picture(9, 9)


async def test_candidates_are_sent_the_pictures_of_the_prompt_and_of_what_was_said(tmp_path):
    steps = says("A line."), says("One."), says("Two."), says("After.")
    async with desk_in(project_at(tmp_path / "project"), *steps) as desk:
        await desk.attach(data=PNG)
        await desk.turn(f"Look: {desk.labels[0]}")
        await desk.attach(data=DOT)
        before = desk.engine.state(desk.session).seq
        tried = cmd.BestRun(session=desk.session, text="Compare", models=("", ""), attachments=(desk.labels[1],))
        assert isinstance(await desk.submit(tried), cmd.Ack)
        await desk.until_turn_end(before)
        assert [desk.sent(1), desk.sent(2)] == [[PNG, DOT]] * 2
        await desk.turn("And now?")
        assert desk.sent() == [PNG, DOT]


async def test_a_picture_that_the_model_does_not_take_is_refused_before_anything_is_tried(tmp_path):
    async with desk_in(project_at(tmp_path / "project"), model=BLIND) as desk:
        await desk.attach(data=DOT)
        reply = await desk.submit(cmd.BestRun(session=desk.session, text=desk.labels[0], models=("", "")))
        assert isinstance(reply, cmd.Reject)
        assert f"{BLIND} accepts no pictures" in reply.message
        assert desk.model.requests == []
