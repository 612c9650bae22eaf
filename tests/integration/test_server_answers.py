"""Answers of servers that are not as the protocol wants them: each ends its call, and no server costs a prompt."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from core.mcp.wire import message_repairs
from core.user_dirs import get_config_dir
from tests.integration.test_mcp_servers import results, script
from tests.support import odd_server
from tests.support.mcp_http import HttpServer
from tests.support.open_session import run_turn, session_in

PATIENCE = 60_000  # milliseconds that a call may take, which none of these needs
SAID = {
    "half_character": "half \ufffd of it",
    "half_in_a_key": '{"\ufffd": 1}',
    "error_is_a_text": "out of paper",
    "error_is_a_number": "its error is only 7",
    "error_without_message": "its error is only {'code': 5}",
    "error_with_a_code_in_words": "out of paper",
    "result_is_a_text": "its result is not an object but 'whole'",
    "result_is_a_list": "its result is not an object but '[1]'",
    "result_is_nothing": "its result is not an object but 'None'",
    "no_result": "its result is not an object",
    "content_is_a_text": "its answer violates the protocol: content",
    "number_with_a_point": "whole",
    "number_is_a_text": "whole",
    "number_is_a_list": "it has no number identifying the call",
    "number_of_nobody": "it answers the call 99999, which was never made",
    "no_number": "it has no number identifying the call",
    "error_of_no_number": "can not parse that",
    "no_version": "whole",
    "version_is_a_number": "whole",
    "batch": "whole",
    "cut_off": "it is not complete JSON",
    "too_deep": "it is not complete JSON",
    "byte_order_mark": "whole",
}
UNREAD = "the server's answer can't be read"


def odd(tool: str) -> tuple[str, dict[str, Any]]:
    return "call_tool", {"name": f"mcp__odd__{tool}", "arguments": "{}"}


def configure(entry: dict[str, Any]) -> None:
    place = get_config_dir()
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.toml").write_text('[commands]\npolicy = "auto"\n[permissions]\nallow = ["Mcp(odd:*)"]\n')
    (place / "mcp.json").write_text(json.dumps({"mcpServers": {"odd": {"timeout": PATIENCE, **entry}}}))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(message_repairs, "UNMATCHED_SECONDS", 0.5)
    root = tmp_path / "project"
    root.mkdir()
    shutil.copy(odd_server.__file__, root / "server.py")
    return root


def test_each_odd_answer_has_what_is_said_of_it():
    assert SAID.keys() == odd_server.ANSWERS.keys()


async def call_each(tmp_path: Path, project: Path) -> dict[str, str]:
    """What the model was told of the call of each tool."""
    model = script(tmp_path, *map(odd, SAID), "Done.")
    async with asyncio.timeout(PATIENCE / 1000), session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session)
        return dict(zip(SAID, (result.content for result in results(engine, session)), strict=True))


async def test_an_answer_ends_its_call_whatever_it_is_made_of(tmp_path, project):
    configure({"command": "python3", "args": ["${workspaceFolder}/server.py"]})
    heard = await call_each(tmp_path, project)
    assert {tool: text for tool, text in heard.items() if SAID[tool] not in text} == {}


@pytest.mark.parametrize("kind", ["http", "stream", "sse"])
async def test_an_answer_over_the_network_ends_its_call_whatever_it_is_made_of(tmp_path, project, kind):
    async with HttpServer(odd_server.OddHttp(kind)) as server:
        configure({"url": server.url, "type": "sse" if kind == "sse" else "http"})
        heard = await call_each(tmp_path, project)
    if kind == "stream":  # the answer to a request is what stands in its own stream, whatever number it has
        assert heard.pop("number_of_nobody") == "whole"
    assert {tool: text for tool, text in heard.items() if SAID[tool] not in text and UNREAD not in text} == {}


@pytest.mark.parametrize("kind", ["http", "stream", "sse"])
async def test_a_call_that_its_server_refuses_to_take_ends_with_that(tmp_path, project, kind):
    app = odd_server.OddHttp(kind)
    app.refused = "batch"
    async with HttpServer(app) as server:
        configure({"url": server.url, "type": "sse" if kind == "sse" else "http"})
        model = script(tmp_path, odd("batch"), odd("number_is_a_text"), "Done.")
        async with asyncio.timeout(PATIENCE / 1000), session_in(project, model=model, trust=True) as (engine, session):
            await run_turn(engine, session)
            refused, taken = results(engine, session)
            assert (refused.is_error, taken.content) == (True, "whole")
            assert "returned an error (500)" in refused.content
