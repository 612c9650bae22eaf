"""The chat API over a real socket: documents whole and streamed, plans with questions, coming back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import msgspec
import pytest

from core.errors import ProviderError
from core.protocol.documents import Document
from core.providers.base import TextDelta
from core.transports.http.app import ALL_ROUTES, format_document
from core.transports.http.chat.requests import ChatRequest
from core.transports.http.chat.stream_events import format_stream_schema
from tests.support.agent_case import DirectedModel, calls, says
from tests.support.default_model import access_to
from tests.support.http_server import CHAT, PLAN, SESSIONS, TOKENS, Told, parse_stream, prompt, serving
from tests.support.story import MODEL, access, project_at, story

ROOT = Path(__file__).parents[2]
SEED = json.loads((ROOT / "tests" / "support" / "seed_examples.json").read_text())
STREAM = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "stream.schema.json").read_text()))
RESPONSE = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "response.schema.json").read_text()))
OPTIONS = [{"id": "jwt", "label": "JWT"}, {"id": "ses", "label": "Session"}]
ASKS = calls(("ask_question", {"title": "Before", "questions": [{"id": "q1", "prompt": "Which?", "options": OPTIONS}]}))
TODOS = [{"id": "a", "content": "First", "dependencies": []}]
PLANS = calls(("create_plan", {"name": "A plan", "overview": "Two", "plan": "# Do", "todos": TODOS}))
RUNS = calls(("run_terminal_cmd", {"command": "echo hi"}))


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def ended(events: list[Told]) -> list[tuple[str, str]]:
    kinds = {event.data["id"]: event.data["type"] for event in events if event.name == "document_start"}
    return [
        (event.data["documentId"], kinds[event.data["documentId"]]) for event in events if event.name == "document_end"
    ]


def names(events: list[Told], document: str) -> list[str]:
    return [event.name for event in events if document in (event.data.get("id"), event.data.get("documentId"))]


async def streamed(client: httpx2.AsyncClient, path: str, request: dict[str, Any]) -> list[Told]:
    answer = await client.post(path, json={**request, "stream": True})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream"
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
    assert answer.text.startswith("retry: 2000\n\n")
    assert answer.text.endswith("data: [DONE]\n\n")
    events = parse_stream(answer.text)[:-1]
    for event in events:
        STREAM.validate({"event": event.name, "data": event.data})
    return events


def without_ids(value: Any) -> Any:
    """A response without what differs from one run to the next."""
    moving = {"id", "conversationId", "created", "duration_ms", "sessionId", "toolCallId", "path"}
    if isinstance(value, dict):
        return {key: without_ids(member) for key, member in value.items() if key not in moving}
    return [without_ids(member) for member in value] if isinstance(value, list) else value


def test_schemas_and_openapi_in_docs_are_those_of_the_records():
    assert (ROOT / "docs" / "stream.schema.json").read_text() == format_stream_schema()
    assert (ROOT / "docs" / "openapi.json").read_text() == format_document(ALL_ROUTES)


def test_the_examples_of_the_specification_are_documents_and_events_of_ours():
    kinds = {document["type"] for document in SEED["documents"]}
    assert len(kinds) == 10
    for document in [*SEED["documents"], *SEED["response"]["documents"]]:
        known = msgspec.convert(
            document, type=next(k for k in Document.__subclasses__() if k.__struct_config__.tag == document["type"])
        )
        assert holds(msgspec.to_builtins(known), document)
    for event in (stream_event for stream in SEED["streams"] for stream_event in stream):
        STREAM.validate(event)
    request = msgspec.convert(SEED["request"] | {"availableTools": SEED["availableTools"]}, type=ChatRequest)
    assert request.available_tools["read_file"].allowed_paths == ("src/", "tests/")


def holds(ours: Any, theirs: Any) -> bool:
    """True if `ours` has all that `theirs` has, and perhaps more."""
    if isinstance(theirs, dict):
        return all(key in ours and holds(ours[key], value) for key, value in theirs.items())
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(holds, ours, theirs))
    return bool(ours == theirs)


async def test_a_whole_and_a_streamed_answer_are_the_same_documents_under_the_same_ids(project):
    limits = {"availableTools": {"run_terminal_cmd": {"enabled": False}}}
    async with serving(project, access(story(), story())) as served, served.client() as client:
        whole = (await client.post(CHAT, json=prompt(**limits))).json()
        events = await streamed(client, CHAT, prompt(**limits))
        again = (await client.get(f"/api/v1/chat/{events[-1].data['conversationId']}")).json()
    RESPONSE.validate(whole)
    assert whole["status"] == "completed"
    assert sorted(ended(events)) == [(document["id"], document["type"]) for document in whole["documents"]]
    assert without_ids(again) == without_ids(whole)
    assert {
        event.data["documentId"]: event.data["finalContent"] for event in events if "finalContent" in event.data
    } == {
        document["id"]: document["content"]
        for document in whole["documents"]
        if document["type"] in {"text", "code_block", "error"}
    }
    assert events[-1].name == "done"
    assert events[-1].data["usage"] == whole["usage"]
    assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"


async def test_the_seven_events_come_in_the_order_of_the_specification(project):
    async with serving(project, access(story())) as served, served.client() as client:
        events = await streamed(client, CHAT, prompt(availableTools={"run_terminal_cmd": {"enabled": False}}))
    kinds = {kind: document for document, kind in reversed(ended(events))}
    called = ["document_start", "tool_call_start", "tool_call_arguments", "tool_result", "document_end"]
    text = names(events, kinds["text"])
    assert (text[0], set(text[1:-1]), text[-1]) == ("document_start", {"content_delta"}, "document_end")
    assert names(events, kinds["tool_call"]) == called
    assert names(events, kinds["file_edit"]) == called
    assert {event.name for event in events} == {*called, "content_delta", "done"}
    # Not told whole yet.
    assert {event.name for event in events if not event.id} == {"tool_call_start", "tool_result", "content_delta"}
    read = next(event for event in events if event.name == "tool_result")
    assert read.data["result"]["status"] == "success"


async def test_plans_and_todos_stream_like_calls_and_each_event_says_of_which_document(project):
    todo = ("todo_write", {"merge": False, "todos": [{"id": "a", "content": "First", "status": "pending"}]})
    reads = calls(("read_file", {"target_file": "a.txt"}), ("grep", {"pattern": "two"}))
    play = [PLANS, calls(todo), reads, says("Planned.")]
    async with serving(project, access(play)) as served, served.client() as client:
        events = await streamed(client, PLAN, prompt("Plan it"))
    kinds = {kind: document for document, kind in reversed(ended(events))}
    called = ["document_start", "tool_call_start", "tool_call_arguments", "tool_result", "document_end"]
    assert names(events, kinds["plan"]) == [*called[:3], "content_delta", *called[3:]]
    assert names(events, kinds["todo_update"]) == called
    (end,) = [event for event in events if event.name == "document_end" and "# Do" in str(event.data)]
    assert (end.data["finalContent"], end.data["document"]["metadata"]["title"]) == ("# Do", "A plan")
    numbers = {event.data["id"]: event.data["sequence"] for event in events if event.name == "document_start"}
    assert [event.data["sequence"] for event in events[:-1]] == [
        numbers[event.data.get("documentId") or event.data["id"]] for event in events[:-1]
    ]


async def test_an_edit_that_fails_is_started_over_as_a_call(project):
    edit = ("search_replace", {"file_path": "a.txt", "old_string": "nowhere", "new_string": "x"})
    async with serving(project, access([calls(edit), says("No.")])) as served, served.client() as client:
        events = await streamed(client, CHAT, prompt())
        whole = (await client.get(f"/api/v1/chat/{events[-1].data['conversationId']}")).json()
    told = [event for event in events if "doc_001" in (event.data.get("id"), event.data.get("documentId"))]
    starts = [event.data["type"] for event in told if event.name == "document_start"]
    assert starts == ["file_edit", "tool_call"]
    since = [event.name for event in told][-5:]
    assert since == ["document_start", "tool_call_start", "tool_call_arguments", "tool_result", "document_end"]
    assert told[-1].data["document"] == whole["documents"][0]
    assert (whole["documents"][0]["type"], told[-2].data["result"]["status"]) == ("tool_call", "error")


async def test_results_of_calls_elsewhere_are_part_of_the_earlier_conversation(project):
    model = DirectedModel([says("Yes.")])
    called = {"id": "call_abc123", "type": "function", "function": {"name": "read_file", "arguments": '{"a": 1}'}}
    messages = [
        {"role": "user", "content": "Read it"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call_abc123", "content": "1|import os"},
        {"role": "user", "content": "Go on"},
    ]
    models = access_to(lambda _id, _settings: (model, "story"), MODEL)
    async with serving(project, models) as served, served.client() as client:
        answer = await client.post(CHAT, json={"messages": messages})
    assert answer.status_code == 200, answer.text
    sent = model.requests[0].messages[-1].content
    assert '<assistant>\n(called read_file with {"a": 1})\n</assistant>' in sent
    assert "<tool>\n(result of read_file)\n1|import os\n</tool>" in sent


async def test_a_cut_stream_goes_on_behind_the_last_event_that_was_received(project):
    hold = asyncio.Event()
    play = [calls(("read_file", {"target_file": "a.txt"}), text="Let me look."), [hold, *says("Done.")]]
    async with serving(project, access(play)) as served, served.client() as client:
        before = ""
        async with client.stream("POST", CHAT, json=prompt(stream=True)) as answer:
            conversation = answer.headers["x-conversation-id"]
            async for piece in answer.aiter_text():
                before += piece
                if "tool_result" in before and before.count("document_end") == 2:
                    break
        hold.set()  # the turn goes on without a reader
        first = parse_stream(before)
        last = [event.id for event in first if event.id][-1]
        replay = await client.get(f"/api/v1/chat/{conversation}/events", headers={"Last-Event-ID": last})
        whole = await client.get(f"/api/v1/chat/{conversation}/events?after=0")
    rest = parse_stream(replay.text)
    assert rest[-1].data == "[DONE]"
    assert ended(first + rest[:-1]) == ended(parse_stream(whole.text)[:-1])
    assert {event.id for event in rest if event.id}.isdisjoint(
        event.id for event in first if event.name != "content_delta"
    )


async def test_a_retried_call_gives_the_ids_of_its_void_documents_again(project, monkeypatch):
    monkeypatch.setattr("core.agent.turn.model_calls.FIRST_PAUSE", 0.0)
    monkeypatch.setattr("core.agent.turn.model_calls.FLOOR", 0.0)
    broken = [TextDelta("Half a "), ProviderError("the stream broke", code="cut", retryable=True)]
    async with serving(project, access([broken, says("Whole.")])) as served, served.client() as client:
        events = await streamed(client, CHAT, prompt())
        whole = (await client.get(f"/api/v1/chat/{events[-1].data['conversationId']}")).json()
    assert [event.data["id"] for event in events if event.name == "document_start"] == ["doc_001", "doc_001"]
    assert [(document["id"], document["content"]) for document in whole["documents"]] == [("doc_001", "Whole.")]


async def test_a_plan_asks_first_and_the_next_message_answers(project):
    async with serving(project, access([ASKS, PLANS, says("Planned.")])) as served, served.client() as client:
        asked = (await client.post(PLAN, json=prompt("Plan it"))).json()
        request = prompt("q1: jwt", conversationId=asked["conversationId"])
        events = await streamed(client, PLAN, request)
        state = (await client.get(f"{SESSIONS}/{events[-1].data['metadata']['sessionId']}")).json()
    RESPONSE.validate(asked)
    assert (asked["status"], asked["metadata"]["waitsFor"] != []) == ("completed", True)
    assert [document["type"] for document in asked["documents"]] == ["clarification"]
    assert asked["documents"][0]["metadata"]["questions"][0]["options"][0]["id"] == "jwt"
    (plan,) = [event.data["document"] for event in events if event.data.get("document", {}).get("type") == "plan"]
    assert plan["metadata"]["todos"][0]["id"] == "a"
    assert (state["mode"], state["questions"], [todo["id"] for todo in state["todos"]]) == ("plan", [], ["a"])


@pytest.mark.parametrize(
    ("words", "question"),
    [
        ("Nothing to plan here.", "There is no plan. What is to be planned, or what is missing for one?"),
        ("I looked.\n\nJWT or sessions?", "JWT or sessions?"),
    ],
)
async def test_where_a_plan_is_asked_for_the_answer_has_a_plan_or_a_clarification(project, words, question):
    model = DirectedModel([says(words)] * 3)
    models = access_to(lambda _id, _settings: (model, "story"), MODEL)
    async with serving(project, models) as served, served.client() as client:
        events = await streamed(client, PLAN, prompt("Plan it"))
        whole = (await client.get(f"/api/v1/chat/{events[-1].data['conversationId']}")).json()
    RESPONSE.validate(whole)
    last = whole["documents"][-1]
    assert (last["type"], last["content"], last["metadata"]["questions"][0]["text"]) == (
        "clarification",
        words,
        question,
    )
    assert sorted(ended(events)) == [(document["id"], document["type"]) for document in whole["documents"]]
    assert (whole["status"], whole["metadata"]["stopReason"]) == ("completed", "done")
    told = [str(message.content) for message in model.requests[-1].messages]
    reminders = [text for text in told if "your turn ends with a plan or with a question" in text]
    assert len(reminders) == len(model.requests) - 1 == (0 if words.endswith("?") else 2)


async def test_a_plan_that_comes_after_the_reminder_is_the_answer(project):
    async with serving(project, access([says("Well."), PLANS, says("Planned.")])) as served, served.client() as client:
        whole = (await client.post(PLAN, json=prompt("Plan it"))).json()
    assert [document["type"] for document in whole["documents"]] == ["text", "plan", "text"]


async def test_an_approval_is_told_of_and_the_second_answer_is_refused_with_the_first(project):
    settings = {"availableTools": {"run_terminal_cmd": {"requireApproval": True}}}
    async with serving(project, access([RUNS, says("Ran.")])) as served, served.client() as client:
        waiting = (await client.post(CHAT, json=prompt(**settings))).json()
        session = waiting["metadata"]["sessionId"]
        (approval,) = waiting["metadata"]["waitsFor"]
        path = f"{SESSIONS}/{session}/approvals/{approval}"
        both = await asyncio.gather(
            client.post(path, json={"decision": "allow_once"}), client.post(path, json={"decision": "reject_once"})
        )
        replay = parse_stream((await client.get(f"/api/v1/chat/{waiting['conversationId']}/events")).text)
    assert (waiting["status"], waiting["metadata"]["stopReason"]) == ("streaming", "running")
    assert sorted(response.status_code for response in both) == [202, 409]
    refused = next(response for response in both if response.status_code == 409).json()["error"]
    assert refused["code"] == "already_answered"
    assert "the user has answered" in refused["message"]
    events = [event for event in replay if event.name == "tool_call_arguments" and "approval" in event.data]
    assert [event.data["approval"]["id"] for event in events] == [approval]
    assert replay[-2].data["status"] == "completed"


async def test_a_question_that_holds_a_turn_up_is_told_of_and_the_next_message_answers_it(project):
    first, then = {"id": "a", "content": "First"}, {"id": "b", "content": "Then", "dependencies": ["a"]}
    makes = calls(("todo_write", {"merge": False, "todos": [{**first, "status": "pending"}, then]}))
    cuts = calls(("todo_write", {"merge": True, "todos": [{**first, "status": "cancelled"}]}))
    async with serving(project, access([makes, cuts, says("Done.")])) as served, served.client() as client:
        waiting = (await client.post(CHAT, json=prompt())).json()
        (asked,) = (await client.get(f"{SESSIONS}/{waiting['metadata']['sessionId']}")).json()["questions"]
        words = f"{asked['questions'][0]['id']}: {asked['questions'][0]['options'][0]['id']}"
        whole = (await client.post(CHAT, json=prompt(words, conversationId=waiting["conversationId"]))).json()
    assert (waiting["status"], waiting["metadata"]["waitsFor"]) == ("streaming", [asked["id"]])
    assert (whole["status"], whole["metadata"]["waitsFor"]) == ("completed", [])
    assert whole["documents"][-1]["content"] == "Done."


async def test_rules_open_files_and_what_was_said_before_reach_the_model(project):
    model = DirectedModel([says("Yes.")])
    models = access_to(lambda _id, _settings: (model, "story"), MODEL)
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello <user_query>"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "Go on"},
    ]
    (project / "long.txt").write_text("".join(f"line {number}\n" for number in range(5_000)))
    context = {
        "workspacePath": str(project),
        "openFiles": ["a.txt", "long.txt", "gone.txt"],
        "editHistory": ["a.txt: renamed two </edit_history>", "x" * 5_000],
        "rules": ["camelCase"],
        "projectLayout": "src/\n  main.py",
    }
    async with serving(project, models) as served, served.client() as client:
        answer = await client.post(CHAT, json={"messages": messages, "context": context, "tools": ["read_file"]})
    assert answer.status_code == 200, answer.text
    sent = model.requests[0].messages[-1].content
    assert "<client_rules>\ncamelCase\n\nBe brief.\n</client_rules>" in sent
    assert "<user>\nHello &lt;user_query>\n</user>\n<assistant>\nHi.\n</assistant>" in sent
    assert "<client_layout>\nsrc/\n  main.py\n</client_layout>" in sent
    assert "<open_and_recently_viewed_files>\na.txt\nlong.txt\ngone.txt\n</open_and_recently_viewed_files>" in sent
    assert '<file path="a.txt">\none\ntwo\nthree\n\n</file>' in sent
    assert '<file path="long.txt" note="only the beginning; ' in sent
    assert "line 100\n" in sent
    assert "line 4000" not in sent
    assert "<edit_history>\na.txt: renamed two &lt;/edit_history>\n\nxxx" in sent
    assert "x" * 2_001 not in sent
    assert "<available_tools>\nOnly the tools named here are on; all others are off.\n`read_file`: on" in sent
    assert sent.rstrip().endswith("</user_query>") or "<user_query>\nGo on\n</user_query>" in sent


BAD = [
    ({"messages": []}, 400, "messages"),
    (prompt(nonsense=1), 400, "nonsense"),
    (prompt(context={"workspace": "x"}), 400, "workspace"),
    (prompt(stream="yes"), 400, "bool"),
    (prompt(conversationId="conv_nothere"), 404, "no session"),
    (prompt(conversationId="../../etc"), 400, "conversation"),
    (prompt(context={"workspacePath": "/"}), 400, "not a directory of this server"),
    (prompt(context={"openFiles": ["../x"]}), 400, "openFiles"),
    (prompt(tools=["nix"]), 400, "no tool"),
    (prompt(availableTools={"nix": {}}), 400, "no tool"),
    ({"messages": [{"role": "assistant", "content": "x"}]}, 400, "last message"),
    ({"messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]}, 400, "last message"),
    ({"messages": [{"role": "tool", "content": "x"}, *prompt()["messages"]]}, 400, "tool_call_id"),
    ({"messages": [{"role": "user"}]}, 400, "no content"),
    (prompt(" "), 400, "empty"),
]


async def test_bad_requests_are_refused_with_what_is_wrong_and_nothing_is_begun(project):
    async with serving(project, access()) as served, served.client() as client:
        for request, status, word in BAD:
            answer = await client.post(CHAT, json=request)
            assert (answer.status_code, word in answer.json()["error"]["message"]) == (status, True), answer.text
        for body in (b"{", b"null", b"[]", b"\xff", b"", b'{"messages": NaN}'):
            answer = await client.post(CHAT, content=body, headers={"Content-Type": "application/json"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "request_invalid"), answer.text
        assert (await client.post(PLAN, json=prompt(mode="agent"))).json()["error"]["code"] == "mode_refused"
        for path in (f"{CHAT}?nonsense=1", f"{PLAN}?stream=true"):
            answer = await client.post(path, json=prompt())
            assert (answer.status_code, "unknown parameter" in answer.json()["error"]["message"]) == (400, True)
        answer = await client.get(f"{SESSIONS}?nonsense=1")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "request_invalid")
        listed = (await client.get(SESSIONS)).json()["sessions"]
    assert [session["turns"] for session in listed] == [0] * len(listed)


async def test_an_interrupt_ends_the_answer_and_a_client_that_leaves_does_not(project):
    hold = asyncio.Event()
    async with serving(project, access([[TextDelta("So "), hold]])) as served, served.client() as client:
        async with client.stream("POST", CHAT, json=prompt(stream=True)) as answer:
            conversation = answer.headers["x-conversation-id"]
            async for piece in answer.aiter_text():
                if "content_delta" in piece:
                    break
        running = (await client.get(f"/api/v1/chat/{conversation}")).json()
        stopped = await client.post(f"/api/v1/chat/{conversation}/interrupt", json={})
        events = parse_stream((await client.get(f"/api/v1/chat/{conversation}/events")).text)
        again = await client.post(f"/api/v1/chat/{conversation}/interrupt", json={})
    assert (running["status"], stopped.status_code) == ("streaming", 202)
    assert (events[-2].data["status"], events[-2].data["metadata"]["stopReason"]) == ("error", "interrupted")
    assert again.status_code == 409


async def test_a_server_that_ends_says_in_its_streams_that_the_turn_was_interrupted(project):
    hold, told, begun = asyncio.Event(), list[str](), asyncio.Event()

    async def read(client: httpx2.AsyncClient) -> None:
        async with client.stream("POST", CHAT, json=prompt(stream=True)) as answer:
            async for piece in answer.aiter_text():
                told.append(piece)
                if "content_delta" in piece:
                    begun.set()

    async with serving(project, access([[TextDelta("So "), hold]])) as served:
        client = served.client()
        reading = asyncio.create_task(read(client))
        await asyncio.wait_for(begun.wait(), 60)
    await asyncio.wait_for(reading, 60)
    await client.aclose()
    *events, last = parse_stream("".join(told))
    assert last.data == "[DONE]"
    assert (events[-1].name, events[-1].data["status"]) == ("done", "error")
    assert events[-1].data["metadata"]["stopReason"] == "interrupted"


async def test_a_verdict_by_http_writes_the_file_and_needs_the_right_to_approve(project):
    edit = calls(("search_replace", {"file_path": "a.txt", "old_string": "two", "new_string": "TWO"}))
    async with serving(project, access([edit, says("Done.")])) as served, served.client() as client:
        whole = (await client.post(CHAT, json=prompt())).json()
        session = f"{SESSIONS}/{whole['metadata']['sessionId']}"
        (change,) = (await client.get(f"{session}/hunks")).json()["changes"]
        diff = (await client.get(f"{session}/diff", params={"path": "a.txt"})).json()["diff"]
        verdict = {"verdict": "accept", "path": "a.txt", "hunks": [change["hunks"][0]["id"]]}
        async with served.client(TOKENS.drive) as driver:
            refused = await driver.post(f"{session}/verdicts", json=verdict)
            command = {"type": "hunk.resolve", "path": "a.txt", "verdict": "accept"}
            refused_too = await driver.post(f"{session}/commands", json=command)
        untouched = (project / "a.txt").read_text()
        accepted = await client.post(f"{session}/verdicts", json=verdict)
        left = (await client.get(session)).json()["pendingChanges"]
    assert diff["change"]["path"] == "a.txt"
    assert (refused.status_code, refused_too.status_code, accepted.status_code) == (403, 403, 202)
    assert untouched == "one\ntwo\nthree\n"
    assert ((project / "a.txt").read_text(), left) == ("one\nTWO\nthree\n", [])
