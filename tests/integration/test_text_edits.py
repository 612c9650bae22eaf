"""An edit written as text by a model with function calls, over the wire to a real model server."""

from __future__ import annotations

import json

import pytest

from core.protocol.documents import FileEditDocument
from tests.integration.test_engine_dialects import EDIT, documents
from tests.integration.test_engine_provider import (
    READ,
    assert_prefixes_hold,
    assert_valid,
    opened,
    project,  # noqa: F401 (a fixture)
    serving,
)
from tests.support.history import faults
from tests.support.open_session import engine_in, run_turn
from tests.support.provider_streams import Step


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@pytest.mark.parametrize("piece", [1, 7, 1000])
async def test_it_is_applied_shown_as_an_edit_and_sent_back_as_it_was(project, monkeypatch, api, piece):  # noqa: F811
    reply = f"I propose this.\n{EDIT}\nThat is it."
    steps = (Step(text="I look.", calls=[READ]), Step(text=reply, piece=piece, reasoning="Hm."), "Proposed.", "Again.")
    async with serving(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await opened(engine, f"{api}/tiny-1")
        events = await run_turn(engine, session, "Make it loud")
        assert events[-1].reason == "done"
        finished_documents = documents(events)
        [edit] = [document for document in finished_documents if isinstance(document, FileEditDocument)]
        assert (edit.metadata.status, edit.metadata.file_path, edit.metadata.added) == ("success", "a.txt", 1)
        texts = [document.content for document in finished_documents if document.__struct_config__.tag == "text"]
        assert texts == ["I look.", "I propose this.", "That is it.", "Proposed."]
        assert set(engine.state(session).changes) == {"a.txt"}
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
        await run_turn(engine, session, "And now?")
        assert faults(engine.state(session).messages) == []
        asked = [request for request in server.requests if request.path.endswith(("/chat/completions", "/messages"))]
        third = asked[2].json["messages"]
        assert json.dumps(reply) in json.dumps(third)
        assert "treated as a call" in str(third[-1]["content"])
        for request in asked:
            assert_valid(request)
        assert_prefixes_hold(asked)
