"""The example requests of the specification, word for word, by curl to the program as a user starts it.

The model that they name is found in the catalogue, and its API is a strict server on loopback.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from core.transports.http.chat.stream_events import format_stream_schema
from tests.support.http_server import CHAT, PLAN, parse_stream
from tests.support.program import PROGRAM, environment
from tests.support.provider_server import ProviderServer, provider_server
from tests.support.provider_streams import Call, Step
from tests.support.story import project_at

ROOT = Path(__file__).parents[2]
SEED = json.loads((ROOT / "tests" / "support" / "seed_examples.json").read_text())
RESPONSE = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "response.schema.json").read_text()))
STREAM = jsonschema.Draft202012Validator(json.loads(format_stream_schema()))
MODEL = "claude-opus-4-6"
MAIN = (
    "import os\nfrom flask import Flask\n\ndef main():\n    app = Flask(__name__)\n    app.register_blueprint(api_bp)\n"
)
EDIT = {
    "target_file": "src/main.py",
    "instructions": "Register the blueprint.",
    "code_edit": "# ... existing code ...\n    app = Flask(__name__)\n"
    "    app.register_blueprint(api_bp)\n    app.register_blueprint(auth_bp)\n",
}
# One line off, as in the specification.
QUOTE = "```5:6:src/main.py\ndef main():\n    app = Flask(__name__)\n```"
AUTH = {"file_path": "src/middleware/auth.py", "contents": "from functools import wraps\n"}
SEARCH = {"query": "Where is the Flask app initialized?", "target_directories": ["src/"]}
TODOS = next(document for document in SEED["documents"] if document["type"] == "plan")["metadata"]["todos"]
PLAN_CALL = {"name": "Auth Plan", "overview": "JWT.", "plan": "# Auth", "todos": TODOS}
STORY = [
    Step(
        text="Ich analysiere zuerst die bestehende Projektstruktur.",
        calls=[
            Call(name="codebase_search", arguments=SEARCH),
            Call(name="read_file", arguments={"target_file": "src/main.py"}),
        ],
    ),
    Step(
        text=f"Die App:\n\n{QUOTE}\n\nIch erstelle jetzt die Auth-Middleware.",
        calls=[
            Call(name="write", arguments=AUTH),
            Call(name="edit_file", arguments=EDIT),
            Call(name="run_terminal_cmd", arguments={"command": "pip install PyJWT"}),
        ],
    ),
    Step(text="Fertig:\n\n```python\n@authMiddleware\ndef protectedRoute():\n    pass\n```\n"),
]
PLANS = [Step(calls=[Call(name="create_plan", arguments=PLAN_CALL)]), Step(text="Das ist der Plan.")]


@dataclass
class Running:
    """The program that serves a project, and the API of its model."""

    url: str
    token: str
    project: Path
    models: ProviderServer

    async def post(self, path: str, body: Any, *headers: str) -> str:
        """What curl prints for a body that is sent as JSON."""
        words = [f"Authorization: Bearer {self.token}", "Content-Type: application/json", *headers]
        arguments = [part for word in words for part in ("-H", word)]
        run = await asyncio.create_subprocess_exec(
            *("curl", "-sN", "-d", json.dumps(body), *arguments, self.url + path), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await run.communicate()
        return out.decode()

    def request(self, **changes: Any) -> dict[str, Any]:
        """The request of the specification; its project is a placeholder, and is the one that is served."""
        context = {**SEED["request"]["context"], "workspacePath": str(self.project)}
        return {**SEED["request"], "context": context, **changes}


@asynccontextmanager
async def serving(tmp_path: Path, steps: Sequence[Step]) -> AsyncIterator[Running]:
    project = project_at(tmp_path / "project")
    (project / "src").mkdir()
    (project / "src/main.py").write_text(MAIN)
    (project / "src/utils.py").write_text("x = 1\n")
    async with provider_server(list(steps), strict=True) as models:
        words = ("serve", str(project), "--port", "0")
        env = environment(models)
        server = await asyncio.create_subprocess_exec(*PROGRAM, *words, env=env, stdout=asyncio.subprocess.PIPE)
        assert server.stdout is not None
        url, _, token = (await server.stdout.readline()).decode().strip().partition("/#")
        try:
            yield Running(url, token, project, models)
        finally:
            server.terminate()
            await server.wait()


def list_rows(documents: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(document["type"], document["metadata"].get("filePath", "")) for document in documents]


EXPECTED = [
    ("text", ""),
    ("tool_call", ""),
    ("tool_call", ""),
    ("text", ""),
    ("code_reference", "src/main.py"),
    ("text", ""),
    ("file_edit", "src/middleware/auth.py"),
    ("file_edit", "src/main.py"),
    ("terminal_command", ""),
    ("error", ""),
    ("text", ""),
    ("code_block", ""),
]


async def test_the_request_of_the_specification_is_answered_with_its_documents(tmp_path):
    async with serving(tmp_path, STORY) as running:
        whole = json.loads(await running.post(CHAT, running.request()))
    RESPONSE.validate(whole)
    assert (whole["status"], whole["model"], whole["mode"]) == ("completed", f"anthropic/{MODEL}", "agent")
    assert list_rows(whole["documents"]) == EXPECTED
    by_type = {document["type"]: document for document in whole["documents"]}
    place = by_type["code_reference"]["metadata"]
    assert (place["startLine"], place["endLine"], place["doubt"]) == (4, 5, "")
    assert by_type["file_edit"]["metadata"]["diff"] == {
        "oldString": "    app.register_blueprint(api_bp)\n",
        "newString": "    app.register_blueprint(api_bp)\n    app.register_blueprint(auth_bp)\n",
        "startLine": 6,
        "endLine": 6,
    }
    assert "turned off by the request" in by_type["terminal_command"]["metadata"]["output"]
    asked = running.models.answered[0].json
    assert asked["model"] == MODEL
    sent = json.dumps(asked["messages"], ensure_ascii=False)
    assert "Implementiere eine Authentication-Middleware" in sent
    assert "camelCase fuer Variablen" in sent
    assert "from flask import Flask" in sent  # the open file


async def test_the_same_request_streams_the_same_documents(tmp_path):
    async with serving(tmp_path, STORY) as running:
        text = await running.post(CHAT, running.request(stream=True), "Accept: text/event-stream")
    *events, last = parse_stream(text)
    for event in events:
        STREAM.validate({"event": event.name, "data": event.data})
    ended = sorted(event.data["sequence"] for event in events if event.name == "document_end")
    assert ended == list(range(1, len(EXPECTED) + 1))
    assert (last.data, events[-1].name, events[-1].data["status"]) == ("[DONE]", "done", "completed")


async def test_a_plan_of_the_specification_is_a_plan(tmp_path):
    async with serving(tmp_path, PLANS) as running:
        body = {key: value for key, value in running.request().items() if key != "mode"}
        whole = json.loads(await running.post(PLAN, body))
    RESPONSE.validate(whole)
    plan = whole["documents"][0]
    assert (plan["type"], plan["metadata"]["title"], whole["mode"]) == ("plan", "Auth Plan", "plan")
    assert [(todo["id"], todo["dependencies"]) for todo in plan["metadata"]["todos"]] == [
        (todo["id"], todo["dependencies"]) for todo in TODOS
    ]


async def test_the_registry_of_tools_of_the_specification_holds(tmp_path):
    async with serving(tmp_path, STORY) as running:
        request = running.request(availableTools=SEED["availableTools"])
        del request["tools"]
        whole = json.loads(await running.post(CHAT, request))
    # Edits wait for a yes under every name.
    assert (whole["status"], len(whole["metadata"]["waitsFor"])) == ("streaming", 1)


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        (CHAT, SEED["request"], "not a directory of this server"),  # the placeholder of its project
        ("/api/v1/background-composers", {"taskDescription": "Add it", "model": "no-such-model"}, "is not a model id"),
        (f"{CHAT}?stream=true", {"messages": SEED["request"]["messages"]}, "unknown parameter"),
    ],
)
async def test_what_can_not_be_done_is_refused_at_once(tmp_path, path, body, why):
    async with serving(tmp_path, []) as running:
        refused = json.loads(await running.post(path, body))
    assert why in refused["error"]["message"]
    assert running.models.answered == []
