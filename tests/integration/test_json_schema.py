from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli.arguments import parse
from core.cli.print_mode.headless import _PrintRun, run_print
from core.engine import Engine
from core.exits import ExitCode
from tests.support import wires
from tests.support.agent_case import DirectedModel, calls, says
from tests.support.default_model import access_to
from tests.support.makers import makers_own
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.story import MODEL, access, project_at

SCHEMA = {
    "type": "object",
    "required": ["verdict", "lines"],
    "properties": {"verdict": {"enum": ["good", "bad"]}, "lines": {"type": "array", "items": {"type": "integer"}}},
    "additionalProperties": False,
}
GOOD = '{"verdict": "good", "lines": [1, 2]}'


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    project = project_at(tmp_path / "project")

    def build(**fields) -> PrintArguments:
        defaults = {"directory": project, "prompt": "Judge it", "json_schema": tmp_path / "schema.json"}
        return PrintArguments(**(defaults | fields))

    return build


@pytest.mark.parametrize("answer", [GOOD, f"```json\n{GOOD}\n```", f"Here it is:\n\n```json\n{GOOD}\n```"])
def test_only_the_json_is_printed(options, capsys, answer):
    assert run_print(options(), models=access([says(answer)])) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out) == json.loads(GOOD)


def test_the_model_is_told_the_schema_and_what_was_wrong_and_the_response_holds_both_turns(options, capsys):
    model = DirectedModel([says('{"verdict": "fine", "lines": []}'), says("It is good."), says(GOOD)])
    code = run_print(options(output_format="json"), models=access_to(lambda *_: (model, "story"), MODEL))
    response = json.loads(capsys.readouterr().out)
    asked = [request.messages[-1].content for request in model.requests]
    assert '"enum": ["good", "bad"]' in asked[0]
    assert "at $.verdict: 'fine' is not one of ['good', 'bad']" in asked[1]
    assert "it is not a single JSON value" in asked[2]
    assert (code, response["metadata"]["structuredOutput"]) == (ExitCode.DONE, json.loads(GOOD))
    assert [document["sequence"] for document in response["documents"]] == list(
        range(1, len(response["documents"]) + 1)
    )
    assert response["metadata"]["turnCount"] == 3


def test_an_answer_that_stays_wrong_fails_and_writes_nothing(options, capsys):
    write = calls(("write", {"file_path": "b.txt", "contents": "b\n"}))
    arguments = options(accept=("all",))
    code = run_print(arguments, models=access([write, says("NaN"), says("[1, NaN]"), says("[]")]))
    out, err = capsys.readouterr()
    assert (code, out) == (ExitCode.FAILED, "")
    assert "agent-tui: failed: The answer is not the requested JSON: at $: [] is not of type 'object'." in err
    assert not (arguments.directory / "b.txt").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [("{", "can't be read as JSON"), ('{"type": 3}', "is not a JSON Schema"), ("[]", "an object is expected")],
)
def test_a_schema_that_is_none_starts_nothing(tmp_path, capsys, text, why):
    path = Path(tmp_path / "bad.json")
    path.write_text(text)
    with pytest.raises(SystemExit) as left:
        parse(["-p", "x", "--json-schema", str(path)])
    assert left.value.code == ExitCode.USAGE
    assert why in capsys.readouterr().err


OPEN = {**SCHEMA, "additionalProperties": True}
BOUNDED = {
    "type": "object",
    "required": ["count"],
    "properties": {"count": {"type": "integer", "minimum": 1}, "place": {"type": "object", "properties": {}}},
}
LOOK = Step(calls=[Call(name="list_dir", arguments={"relative_workspace_path": "."})])


def schema_of(body) -> tuple[object, object]:
    """The schema that a request names, and what it says of calls."""
    format_ = (body.get("text") or {}).get("format") or (body.get("response_format") or {}).get("json_schema")
    format_ = format_ or (body.get("output_config") or {}).get("format") or {}
    return format_.get("schema"), body.get("tool_choice")


async def asked(project: Path, monkeypatch, schema: object, wire: str, *steps, own: bool = True):
    """How a run with a schema ended, and the requests that it made. `own`: it is the maker's own service."""
    path = project.parent / "asked.json"
    path.write_text(json.dumps(schema))
    model = {"chat": "openai/gpt-4.1", "responses": "mine/gpt-6-sol", "messages": "anthropic/claude-opus-5-5"}[wire]
    serve = makers_own(monkeypatch, *steps) if own else provider_server(steps, strict=True)
    async with serve as server:
        wires.configure(monkeypatch, server)
        arguments = PrintArguments(directory=project, prompt="Judge it", json_schema=path, model=model, trust=True)
        code = await _PrintRun(Engine(project, options=arguments), arguments, "Judge it").run()
    return code, server


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
@pytest.mark.parametrize("schema", [SCHEMA, OPEN, BOUNDED])
async def test_the_makers_api_is_given_the_schema_from_the_first_request_on(options, monkeypatch, capsys, wire, schema):
    answer = '{"count": 3}' if schema is BOUNDED else GOOD
    code, server = await asked(options().directory, monkeypatch, schema, wire, LOOK, answer)
    assert (code, json.loads(capsys.readouterr().out)) == (ExitCode.DONE, json.loads(answer))
    assert server.rules.refusals == []
    sent = [schema_of(request.json) for request in server.answered]
    assert len(sent) == 2
    assert sent[0] == sent[1]
    named, choice = sent[0]
    assert choice is None
    assert set(named["properties"]) == set(schema["properties"])
    if wire == "messages":
        assert named["additionalProperties"] is False
        assert "minimum" not in json.dumps(named)
    else:
        assert named == schema


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
async def test_another_server_is_given_the_schema_where_no_tool_is_called(options, monkeypatch, capsys, wire):
    code, server = await asked(options().directory, monkeypatch, SCHEMA, wire, LOOK, "It is good.", GOOD, own=False)
    assert (code, json.loads(capsys.readouterr().out)) == (ExitCode.DONE, json.loads(GOOD))
    assert server.rules.refusals == []
    sent = [schema_of(request.json) for request in server.answered]
    assert sent[:2] == [(None, None)] * 2
    assert sent[2] == (SCHEMA, {"type": "none"} if wire == "messages" else "none")


@pytest.mark.parametrize(
    ("wire", "error"),
    [
        ("chat", "Invalid schema for response_format 'answer': In context=(), 'allOf' is not permitted."),
        ("responses", "Invalid schema for response_format 'answer': In context=(), 'allOf' is not permitted."),
        ("messages", "output_config.format.schema: Schema is too complex for compilation."),
    ],
)
async def test_a_schema_that_an_api_refuses_is_left_to_the_prompts_words(options, monkeypatch, capsys, wire, error):
    refused = Step(status=400, error=error, error_type="invalid_request_error")
    code, server = await asked(options().directory, monkeypatch, SCHEMA, wire, refused, LOOK, GOOD)
    assert (code, json.loads(capsys.readouterr().out)) == (ExitCode.DONE, json.loads(GOOD))
    sent = [schema_of(request.json)[0] is not None for request in server.answered]
    assert sent == [True, False, False]
    if wire == "messages":
        assert all("thinking" in request.json for request in server.answered)
