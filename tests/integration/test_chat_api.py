"""The chat API over a real socket: documents whole and streamed, plans with questions, coming back."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import jsonschema
import pytest

from core.transports.http.app import HANDLERS
from core.transports.http.chat.stream_events import format_stream_schema
from core.transports.http.openapi import format_document
from tests.support.http_server import CHAT, Told, parse_stream, prompt, serving
from tests.support.story import access, project_at, story

ROOT = Path(__file__).parents[2]
SEED = json.loads((ROOT / "tests" / "support" / "seed_examples.json").read_text())
STREAM_SCHEMA = json.loads((ROOT / "docs" / "stream.schema.json").read_text())
RESPONSE_SCHEMA = json.loads((ROOT / "docs" / "response.schema.json").read_text())
ASKED = {
    "title": "Before",
    "questions": [
        {"id": "q1", "prompt": "Which?", "options": [{"id": "jwt", "label": "JWT"}, {"id": "ses", "label": "Session"}]}
    ],
}
PLAN_CALL = (
    "create_plan",
    {
        "name": "A plan",
        "overview": "Two",
        "plan": "# Do",
        "todos": [{"id": "a", "content": "First", "dependencies": []}],
    },
)


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def assert_valid(told: list[Told]) -> None:
    check = jsonschema.Draft202012Validator(STREAM_SCHEMA)
    for each in told:
        if each.name:
            check.validate({"event": each.name, "data": each.data})


def documents_of(told: list[Told]) -> list[tuple[str, str]]:
    kinds = {each.data["id"]: each.data["type"] for each in told if each.name == "document_start"}
    return [(each.data["documentId"], kinds[each.data["documentId"]]) for each in told if each.name == "document_end"]


async def streamed(client: httpx2.AsyncClient, path: str, request: dict) -> list[Told]:
    answer = await client.post(path, json={**request, "stream": True})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream"
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
    assert answer.text.startswith("retry: 2000\n\n") and answer.text.endswith("data: [DONE]\n\n")
    return parse_stream(answer.text)


def test_schemas_and_openapi_in_docs_are_those_of_the_records():
    assert (ROOT / "docs" / "stream.schema.json").read_text() == format_stream_schema()
    assert (ROOT / "docs" / "openapi.json").read_text() == format_document(HANDLERS)


async def test_whole_and_streamed_answers_hold_the_same_documents_under_the_same_ids(project):
    refusing = {"available_tools": None}
    assert refusing
    async with serving(project, access(story(), story())) as served, served.client() as client:
        limits = {"availableTools": {"run_terminal_cmd": {"enabled": False}}}
        whole = (await client.post(CHAT, json=prompt(**limits))).json()
        told = await streamed(client, CHAT, prompt(**limits))
    jsonschema.Draft202012Validator(RESPONSE_SCHEMA).validate(whole)
    assert_valid(told)
    assert whole["status"] == "completed"
    assert documents_of(told)[:3] == [(each["id"], each["type"]) for each in whole["documents"]][:3]
    assert sorted(documents_of(told)) == sorted((each["id"], each["type"]) for each in whole["documents"])
    assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
