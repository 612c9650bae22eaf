from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli.arguments import parse
from core.cli.print_mode.headless import run_print
from core.exits import ExitCode
from tests.support.agent_case import DirectedModel, calls, says
from tests.support.default_model import access_to
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
