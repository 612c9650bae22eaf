"""A picture in a prompt and one in a tool's result, over each wire, against a server as strict as theirs."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.protocol import events as ev
from tests.integration.test_pasted_picture import pictures_in
from tests.support.configured import configured
from tests.support.open_session import set_keys
from tests.support.pictures import picture
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.story import project_at

SHOT, ICON = picture(640, 480), picture(31, 17)
WIRES = {
    "chat": ("openai/tiny-1", 'wire = "chat"'),
    "responses": ("openai/gpt-6-sol", 'wire = "responses"'),
    "messages": ("anthropic/claude-opus-5-5", ""),
}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    set_keys(monkeypatch)
    root = project_at(tmp_path / "project")
    (root / "icon.png").write_bytes(ICON)
    return root


@pytest.mark.parametrize("wire", WIRES)
async def test_pictures_reach_the_server_byte_for_byte_and_the_history_only_grows(project, monkeypatch, wire):
    model, chosen = WIRES[wire]
    configured(f"[providers.openai]\n{chosen}\n" if chosen else "")
    read = Step(calls=[Call(name="read_file", arguments={"target_file": "icon.png"})])
    steps = [read, "An icon and a gradient.", "Still."]
    async with provider_server(steps, strict=True, models=[model.partition("/")[2]]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        engine = Engine(project, options=EngineOptions(watch=False))
        try:
            session = (await engine.submit(cmd.SessionOpen(model=model))).session
            await engine.submit(cmd.AttachmentAdd(session=session, data=SHOT, name="shot.png"))
            await engine.wait_idle(session)
            (label,) = engine.state(session).attachments
            for text in (f"Compare {label} with icon.png", "And now?"):
                await one_turn(engine, session, text)
        finally:
            await engine.close()
        assert server.rules.refusals == []
        sent = [list(pictures_in(request.json)) for request in server.answered]
        assert sent == [[SHOT], [SHOT, ICON], [SHOT, ICON]]


async def one_turn(engine: Engine, session: str, text: str) -> None:
    after = engine.state(session).seq
    reply = await engine.submit(cmd.TurnSubmit(session=session, text=text))
    assert isinstance(reply, cmd.Ack), reply
    async with contextlib.aclosing(engine.events(session, after=after)) as stream:
        async for envelope in stream:
            if isinstance(envelope.event, ev.TurnFinished):
                assert envelope.event.reason == "done", envelope.event.message
                return
