"""Prompts of the chat API that are refused: nothing of them has begun, and nothing has changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from core.providers.base import TextDelta
from tests.support.agent_case import says
from tests.support.http_server import CHAT, SESSIONS, prompt, serving
from tests.support.story import access, project_at


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


async def test_a_prompt_whose_stream_finds_no_room_is_not_begun(project):
    async with serving(project, access([says("Seen.")])) as served, served.client() as client:
        served.service.streams._most = 0
        answer = await client.post(CHAT, json=prompt(stream=True))
        listed = (await client.get(SESSIONS)).json()["sessions"]
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "streams_full")
    assert [session["turns"] for session in listed] == [0] * len(listed)


async def test_a_prompt_that_comes_too_early_changes_neither_mode_nor_model_of_the_turn_that_runs(project):
    hold = asyncio.Event()
    async with serving(project, access([[TextDelta("So "), hold]])) as served, served.client() as client:
        async with client.stream("POST", CHAT, json=prompt(mode="ask", stream=True)) as answer:
            conversation = answer.headers["x-conversation-id"]
            session = f"{SESSIONS}/ses_{conversation.removeprefix('conv_')}"
            async for piece in answer.aiter_text():
                if "content_delta" in piece:
                    break
        before = (await client.get(session)).json()
        early = await client.post(CHAT, json=prompt(mode="agent", model="story/other", conversationId=conversation))
        after = (await client.get(session)).json()
        hold.set()
    assert (early.status_code, early.json()["error"]["code"]) == (409, "turn_running")
    assert (before["mode"], after["mode"], after["model"]) == ("ask", "ask", before["model"])


async def test_an_unknown_tool_is_refused_before_the_mode_changes(project):
    async with serving(project, access([says("Seen.")])) as served, served.client() as client:
        first = (await client.post(CHAT, json=prompt(mode="ask"))).json()
        more = {"mode": "agent", "tools": ["nix"], "conversationId": first["conversationId"]}
        refused = await client.post(CHAT, json=prompt("Go on", **more))
        state = (await client.get(f"{SESSIONS}/{first['metadata']['sessionId']}")).json()
    assert (refused.status_code, state["mode"]) == (400, "ask")
