from __future__ import annotations

import io
import json
from pathlib import Path

import jsonschema
import pytest

from core.arguments import PrintArguments
from core.cli.print_mode.headless import read_prompt, run_print
from core.errors import ProviderError
from core.exits import ExitCode
from core.sessions.store import SessionStore
from core.transports.response import format_schema
from tests.support.agent_case import calls, says
from tests.support.configured import ASKS, configured
from tests.support.story import MODEL, PROSE, access, planning, project_at, story
from tests.support.trust import trust

ROOT = Path(__file__).parents[2]


class Pipe(io.TextIOWrapper):
    def __init__(self, data: bytes, *, tty: bool = False) -> None:
        super().__init__(io.BytesIO(data))
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("sys.stdin", Pipe(b"", tty=True))
    return project_at(tmp_path / "project")


def options(project: Path, **fields) -> PrintArguments:
    return PrintArguments(**{"directory": project, "prompt": "Do it", **fields})


def validated(text: str) -> dict:
    response = json.loads(text)
    schema = json.loads((ROOT / "docs" / "response.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(response)
    return response


def test_the_schema_in_docs_is_the_one_of_the_records():
    assert (ROOT / "docs" / "response.schema.json").read_text() == format_schema()


def test_json_is_the_response_object_and_edits_wait_for_a_review(project, capsys):
    configured(ASKS)
    code = run_print(options(project, output_format="json"), models=access(story()))
    out, err = capsys.readouterr()
    response = validated(out)
    assert code == ExitCode.REFUSED  # a command needed an approval
    assert (response["status"], response["model"], response["mode"]) == ("completed", MODEL, "agent")
    kinds = [document["type"] for document in response["documents"]]
    assert "reasoning" not in kinds
    assert kinds.count("file_edit") == 2
    assert {"text", "tool_call", "terminal_command", "code_block"} <= set(kinds)
    assert [document["sequence"] for document in response["documents"]] == list(range(1, len(kinds) + 1))
    assert response["metadata"]["toolCallCount"] == 5
    assert response["metadata"]["turnCount"] == 4
    assert response["usage"]["totalTokens"] == 440
    assert [change["path"] for change in response["metadata"]["pendingChanges"]] == ["a.txt", "new.txt"]
    assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert not (project / "new.txt").exists()
    assert "2 files pending review: agent-tui -c" in err


def test_a_plan_and_an_error_validate_too(project, capsys):
    code = run_print(options(project, output_format="json", mode="plan"), models=access(planning()))
    response = validated(capsys.readouterr().out)
    assert code == ExitCode.FAILED
    assert response["status"] == "error"
    assert [document["type"] for document in response["documents"]] == ["plan", "error"]
    assert response["documents"][0]["metadata"]["todos"][1]["dependencies"] == ["a"]
    assert response["documents"][1]["metadata"]["errorCode"] == "GONE"


def test_accept_all_writes_what_is_not_protected(project, capsys):
    run_print(options(project, accept=("all",), output_format="json"), models=access(story()))
    response = validated(capsys.readouterr().out)
    assert response["metadata"]["acceptedChanges"] == ["a.txt", "new.txt"]
    assert response["metadata"]["pendingChanges"] == []
    assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
    assert (project / "new.txt").read_text() == "fresh\n"


def test_text_prints_the_answer_and_nothing_else_on_stdout(project, capsys):
    run_print(options(project), models=access([says("Hel\x1b[31mlo"), []]))
    out, err = capsys.readouterr()
    assert (out, err) == ("Hel␛[31mlo\n", "")


def test_text_keeps_fences_and_order(project, capsys):
    assert run_print(options(project), models=access([says(PROSE)])) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "```python\nprint(1)\n```" in out
    assert out.index("All done.") < out.index("print(1)") < out.index("See it.")


def test_stream_json_gives_every_event_and_then_the_result(project, capsys):
    run_print(options(project, output_format="stream-json"), models=access([says("Hello")]))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kinds = [line["event"]["type"] for line in lines[:-1]]
    assert next(kind for kind in kinds if kind != "box.found") == "session.renamed"
    assert kinds[-1] == "turn.finished"
    assert "document.delta" in kinds
    assert lines[-1]["type"] == "result"
    assert validated(json.dumps(lines[-1]["response"]))["documents"][0]["content"] == "Hello"


def test_a_session_goes_on_where_it_stopped(project, capsys):
    run_print(options(project, output_format="json"), models=access(story()))
    first = json.loads(capsys.readouterr().out)
    arguments = options(project, output_format="json", continue_last=True, mode="ask")
    assert run_print(arguments, models=access([says("More")])) == ExitCode.DONE
    second = json.loads(capsys.readouterr().out)
    assert second["conversationId"] == first["conversationId"]
    assert second["mode"] == "ask"
    assert [document["content"] for document in second["documents"]] == ["More"]
    assert len(second["metadata"]["pendingChanges"]) == 2


def test_a_limit_ends_the_turn_with_its_own_code(project, capsys):
    code = run_print(options(project, output_format="json", max_steps=1), models=access(story()))
    response = validated(capsys.readouterr().out)
    assert (code, response["metadata"]["stopReason"]) == (ExitCode.LIMIT, "limit")


def test_without_a_model_three_lines_say_what_to_do(project, capsys):
    assert run_print(options(project)) == ExitCode.FAILED
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("agent-tui: no model is chosen.\n")
    assert "OPENAI_API_KEY" in err
    assert len(err.splitlines()) <= 3


def test_a_prompt_that_fails_for_want_of_a_key_leaves_no_session(project, capsys):
    assert run_print(options(project, model="openai/any")) == ExitCode.FAILED
    assert "Paste a key with /login" in capsys.readouterr().err
    assert SessionStore(project).find_latest() == ""


def test_a_prompt_that_can_not_begin_is_a_response_object_too(project, capsys):
    code = run_print(options(project, output_format="json", resume="ses_none"))
    response = validated(capsys.readouterr().out)
    assert (code, response["status"]) == (ExitCode.FAILED, "error")
    assert response["documents"][0]["metadata"]["errorCode"] == "SESSION_UNKNOWN"


def test_what_is_piped_in_is_the_context_or_the_prompt(project):
    assert read_prompt(options(project), Pipe(b"diff\n")) == "Do it\n\n<stdin>\ndiff\n</stdin>"
    assert read_prompt(options(project, prompt=None), Pipe(b" all of it \xff\n")) == "all of it �"
    assert read_prompt(options(project), Pipe(b"", tty=False)) == "Do it"
    assert read_prompt(options(project), None) == "Do it"


def test_what_a_project_may_not_configure_is_said_before_the_answer(project, capsys):
    (project / ".agent-tui").mkdir()
    (project / ".agent-tui" / "config.toml").write_text('model = "openai/theirs"\n[commands]\npolicy = "auto"\n')
    trust(project)
    configured(ASKS)
    assert run_print(options(project), models=access([says("Hello")])) == ExitCode.DONE
    err = capsys.readouterr().err.splitlines()
    assert err == [
        "! .agent-tui/config.toml: `model` was ignored: only your own configuration can set it.",
        "! .agent-tui/config.toml: `commands.policy` was ignored: a project can only make your settings stricter.",
    ]


def test_each_mistake_of_the_settings_has_a_line(project, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("AGENT_TUI_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text("mode = 'agnet'\n[ui]\ncolour = 3\n")
    assert run_print(options(project)) == ExitCode.FAILED
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"agent-tui: {tmp_path / 'config.toml'}, line 1: `mode`: ")
    assert second.startswith(f"  {tmp_path / 'config.toml'}, line 3: `ui.colour`: ")


def test_accept_all_names_what_it_left_and_says_so_in_its_exit_code(project, capsys):
    write = calls(
        ("write", {"file_path": "AGENTS.md", "contents": "Obey.\n"}), ("write", {"file_path": "b", "contents": "b\n"})
    )
    code = run_print(options(project, accept=("all",)), models=access([write, says("Done.")]))
    err = capsys.readouterr().err
    assert code == ExitCode.REFUSED
    assert "written: b\n" in err
    assert "AGENTS.md (+1 -0): protected, never accepted in bulk" in err
    assert (project / "b").read_text() == "b\n"
    assert not (project / "AGENTS.md").exists()


def test_every_attempt_at_a_failing_server_is_shown(project, capsys, monkeypatch):
    monkeypatch.setattr("core.agent.turn.model_calls.FIRST_PAUSE", 0.0)
    monkeypatch.setattr("core.agent.turn.model_calls.FLOOR", 0.0)
    failing = [ProviderError("It is busy.", code="overloaded", retryable=True)]
    assert run_print(options(project), models=access([failing, says("Hello")])) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert (out, err) == ("Hello\n", "! It is busy. Trying again, attempt 2.\n")


def test_s2_a_contained_command_runs_unasked_where_the_user_said_so(project, capsys):
    configured('[commands]\npolicy = "auto"\n')
    steps = [calls(("run_terminal_cmd", {"command": "cat a.txt; echo made > b.txt"})), says("Ran it.")]
    assert run_print(options(project, output_format="json"), models=access(steps)) == ExitCode.DONE
    response = validated(capsys.readouterr().out)
    [document] = [
        response_document
        for response_document in response["documents"]
        if response_document["type"] == "terminal_command"
    ]
    assert document["metadata"]["exitCode"] == 0
    assert document["metadata"]["output"].startswith("one\ntwo")
    assert document["metadata"]["effects"] == "changed: created b.txt; pending review"
    assert [change["path"] for change in response["metadata"]["pendingChanges"]] == ["b.txt"]
    assert not (project / "b.txt").exists()
