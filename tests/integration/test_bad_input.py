"""Every kind of bad input, given to the program as a user starts it: what it says and that nothing is lost."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest

from core.exits import ExitCode
from core.user_dirs import get_config_dir
from tests.support.program import Ended, ask, environment, run
from tests.support.provider_server import Request, provider_server
from tests.support.provider_streams import Call, Step
from tests.support.story import project_at
from tests.support.trust import trust

ROOT = Path(__file__).parents[2]
EDIT = Call(name="search_replace", arguments={"file_path": "a.txt", "old_string": "two", "new_string": "TWO"})
PROPOSING = (Step(calls=[EDIT]), "I changed it.")
BEFORE, AFTER = "one\ntwo\nthree\n", "one\nTWO\nthree\n"
WAITING = "1 file pending review: agent-tui -c\n  a.txt (+1 -1)\n"
AT_ONCE = {"Retry-After": "0"}
both_dialects = pytest.mark.parametrize("dialect", ["openai", "anthropic"])


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def results(request: Request) -> list[str]:
    """What the tools of the step before answered, in a request of the OpenAI dialect."""
    return [message["content"] for message in request.json["messages"] if message["role"] == "tool"]


def configured(text: str | bytes) -> Path:
    get_config_dir().mkdir(parents=True, exist_ok=True)
    path = get_config_dir() / "config.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# the provider


@both_dialects
async def test_an_unknown_model_is_answered_with_those_there_are(project, dialect):
    missing = Step(status=404, error="model: tiny-3 not found", error_type="not_found_error")
    ended, requests = await ask(project, missing, dialect=dialect, model="tiny-3")
    assert (ended.code, ended.out, len(requests)) == (ExitCode.FAILED, "", 1)
    assert "has no model 'tiny-3'" in ended.err
    assert "Available: tiny-2, tiny-1. Choose one with /model." in ended.err
    assert len(ended.err.splitlines()) == 1


async def test_an_unknown_provider_is_answered_with_a_guess(project):
    ended = await run(project, "-p", "hi", "--model", "opanai/x", env=environment(None))
    assert ended.code in {ExitCode.FAILED, ExitCode.USAGE}
    assert "opanai" in ended.err
    assert "openai/" in ended.err


@both_dialects
async def test_k2_a_wrong_key_says_where_it_is_from_and_never_shows_it(project, dialect):
    ended, _ = await ask(project, Step(status=401, error="invalid key", echo_key=True), dialect=dialect)
    assert (ended.code, ended.out) == (ExitCode.FAILED, "")
    assert f"The key comes from environment variable {dialect.upper()}_API_KEY; fix it there." in ended.err


async def test_without_any_model_the_first_steps_are_told(project):
    ended = await run(project, "-p", "hi", env=environment(None))
    assert (ended.code, ended.out) == (ExitCode.FAILED, "")
    assert "no model is chosen" in ended.err
    assert "OPENAI_API_KEY or ANTHROPIC_API_KEY" in ended.err


@both_dialects
async def test_nothing_listening_is_given_up_after_few_tries_and_visibly(project, dialect):
    async with provider_server() as server:
        env = environment(server)
    ended = await run(project, "-p", "hi", "--model", f"{dialect}/x", env=env)
    assert ended.code == ExitCode.FAILED
    first, *tries, last = ended.err.splitlines()
    assert "nothing answers there (Connection refused). Attempt 2 in " in first
    assert len(tries) <= 3
    assert all(re.fullmatch(r"  Attempt \d in \d\.\d s\.", line) for line in tries)
    assert last.endswith("Check the network and the base URL, and that the server is running.")


async def test_a_rate_limit_is_waited_for_and_shown(project):
    ended, requests = await ask(project, Step(status=429, error="slow", headers=AT_ONCE), "Hello.")
    assert (ended.code, ended.out, len(requests)) == (ExitCode.DONE, "Hello.\n", 2)
    assert re.fullmatch(
        r"! OpenAI \(tiny-1\) limits the rate of requests \(429\): slow\. Attempt 2 in 0\.\d s\.\n", ended.err
    )


async def test_a_rate_limit_of_an_hour_is_told_instead(project):
    ended, requests = await ask(project, Step(status=429, error="slow", headers={"Retry-After": "3600"}))
    assert (ended.code, len(requests)) == (ExitCode.FAILED, 1)
    assert "It asks for a pause of 60 minutes." in ended.err


@both_dialects
@pytest.mark.parametrize("place", ["before", "text", "tool"])
async def test_v2_an_answer_that_was_cut_is_asked_for_again_and_printed_once(project, dialect, place):
    cut = Step(text="Half of an answer. " * 10, calls=[EDIT], cut=place)
    ended, requests = await ask(project, cut, "Whole.", dialect=dialect)
    assert (ended.code, ended.out, len(requests)) == (ExitCode.DONE, "Whole.\n", 2)
    assert "The connection to" in ended.err
    assert requests[0].json["messages"] == requests[1].json["messages"]
    assert (project / "a.txt").read_text() == BEFORE
    assert "pending review" not in ended.err


# the model


@both_dialects
async def test_malformed_arguments_are_told_to_the_model_with_what_is_wanted(project, dialect):
    broken = Step(calls=[Call(name="search_replace", arguments='{"file_path": "a.txt", "old')])
    ended, requests = await ask(project, broken, *PROPOSING, dialect=dialect)
    assert (ended.code, ended.out) == (ExitCode.DONE, "I changed it.\n")
    assert "not valid JSON" in requests[1].raw.decode()
    assert "Required: file_path, old_string, new_string" in requests[1].raw.decode()
    assert ended.err.endswith(WAITING)


async def test_an_unknown_tool_is_answered_with_the_tools_there_are(project):
    ended, requests = await ask(project, Step(calls=[Call(name="launch_rocket")]), "Sorry.")
    assert (ended.code, ended.out) == (ExitCode.DONE, "Sorry.\n")
    assert "There is no tool 'launch_rocket'. The tools are: read_file" in results(requests[1])[0]


@both_dialects
async def test_calls_with_the_same_id_are_both_run_and_told_apart(project, dialect):
    twins = Step(
        calls=[
            Call(name="read_file", arguments={"target_file": "a.txt"}, id="same"),
            Call(name="list_dir", id="same"),
        ]
    )
    ended, requests = await ask(project, twins, "Ok.", dialect=dialect)
    assert (ended.code, ended.out) == (ExitCode.DONE, "Ok.\n")
    sent = requests[1].raw.decode()
    assert "two" in sent
    key = "tool_call_id" if dialect == "openai" else "tool_use_id"
    call_ids = [part.split('"')[2] for part in sent.split(key)[1:]]
    assert len(set(call_ids)) == 2


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_an_edit_in_the_wrong_mode_changes_nothing_and_the_model_is_told_why(project, mode):
    ended, requests = await ask(project, *PROPOSING, arguments=("--mode", mode, "--accept", "all"))
    assert ended.code == ExitCode.DONE
    assert f"{mode} mode does not allow search_replace" in results(requests[1])[0]
    assert "! search_replace: denied" in ended.err
    assert (project / "a.txt").read_text() == BEFORE


# what the user gives


async def test_a_megabyte_on_standard_input_arrives_whole(project):
    lines = "".join(f"line {number}\n" for number in range(90_000)).encode()
    ended, requests = await ask(project, "Ok.", stdin=lines)
    assert (ended.code, ended.out, ended.err) == (ExitCode.DONE, "Ok.\n", "")
    assert f"<stdin>\n{lines.decode().rstrip()}\n</stdin>" in requests[0].json["messages"][-1]["content"]


async def test_standard_input_that_is_not_utf8_is_said_and_sent_as_far_as_it_goes(project):
    ended, requests = await ask(project, "Ok.", stdin=b"caf\xe9 \xff\n")
    assert (ended.code, ended.out) == (ExitCode.DONE, "Ok.\n")
    assert "standard input is not UTF-8 (byte 3)" in ended.err
    assert "caf\ufffd \ufffd" in requests[0].json["messages"][-1]["content"]


async def test_files_and_rules_that_are_not_utf8_are_read_as_far_as_they_go_or_named(project):
    (project / "AGENTS.md").write_bytes(b"Be \xff nice\n")
    trust(project)
    (project / "latin.txt").write_bytes("café\n".encode("latin-1"))
    read = Step(calls=[Call(name="read_file", arguments={"target_file": "latin.txt"})])
    ended, requests = await ask(project, read, "Ok.")
    assert (ended.code, ended.out) == (ExitCode.DONE, "Ok.\n")
    assert "AGENTS.md: not loaded: not UTF-8 (byte 3)" in ended.err
    assert "caf" in results(requests[1])[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[limits]\nmax_step = 3\n",
            "line 2: `limits.max_step`: unknown key.\n  Did you mean `max_steps`? Valid here: max_steps, max_cost",
        ),
        ("mode = 'agnet'\n", "line 1: `mode`"),
        ("a = = 3\n", "is not valid TOML"),
        (b"\xff\xfe", "is not UTF-8 (byte 0)"),
    ],
)
async def test_a_configuration_with_a_mistake_names_file_line_and_what_is_valid(project, text, said):
    path = configured(text)
    ended, requests = await ask(project, "Ok.")
    assert (ended.code, ended.out, requests) == (ExitCode.FAILED, "", [])
    assert f"agent-tui: {path}" in ended.err
    assert said in ended.err


# where it runs


@pytest.mark.parametrize("where", ["/", "home"])
async def test_p21_no_project_no_run(isolated, where):
    ended, requests = await ask(isolated if where == "home" else Path("/"), "Ok.")
    assert (ended.code, ended.out, requests) == (ExitCode.FAILED, "", [])
    assert "Start in a project's own directory, or name it." in ended.err


async def test_x1_a_project_with_a_core_and_a_tui_of_its_own_is_no_obstacle(project):
    for name in ("core", "tui"):
        (project / name).mkdir()
        (project / name / "__init__.py").write_text("raise RuntimeError('code of the project ran')\n")
    (project / "json.py").write_text("raise RuntimeError('code of the project ran')\n")
    ended, _ = await ask(project, "Hi.", env={"PYTHONPATH": "."})
    assert ended == Ended(ExitCode.DONE, "Hi.\n", "")


@pytest.fixture
def repository(project) -> Path:
    subprocess.run(["git", "init", "-q", project], check=True)
    subprocess.run(["git", "add", "a.txt"], cwd=project, check=True)
    trust(project)
    return project


async def test_g1_a_hostile_git_configuration_runs_nothing(repository, tmp_path):
    project, trap = repository, f"touch {tmp_path / 'sprung'}; false"
    (project / ".gitattributes").write_text("* filter=x diff=x\n")
    with (project / ".git" / "config").open("a") as config:
        config.write(f'[core]\nfsmonitor = "{trap}"\npager = "{trap}"\n[alias]\nstatus = "!{trap}"\n')
        config.write(f'[filter "x"]\nclean = "{trap}"\nrequired = true\n[diff "x"]\ntextconv = "{trap}"\n')
    (project / "a.txt").write_text(BEFORE)  # newer than the index: git has to look at it again
    ended, requests = await ask(project, *PROPOSING, arguments=("--accept", "all"))
    assert (ended.code, ended.err) == (ExitCode.DONE, "written: a.txt\n")
    assert "branch: " in requests[0].json["messages"][-1]["content"]
    assert (project / "a.txt").read_text() == AFTER
    assert not (tmp_path / "sprung").exists()


async def test_a_large_project_is_no_obstacle(project):
    for number in range(200):
        (project / f"d{number}").mkdir()
        for name in range(50):
            (project / f"d{number}" / f"{name}.py").touch()
    ended, requests = await ask(project, "Ok.")
    assert ended == Ended(ExitCode.DONE, "Ok.\n", "")
    assert len(requests[0].raw) < 200_000


# the response object


READ = Call(name="read_file", arguments={"target_file": "a.txt"})
PLAN = {
    "name": "A plan",
    "overview": "Two steps",
    "plan": "# Do it",
    "todos": [{"id": "a", "content": "First"}, {"id": "b", "content": "Then", "dependencies": ["a"]}],
}
EVERYTHING = {
    "agent": Step(calls=[EDIT, Call(name="read_file", arguments={"target_file": "gone.txt"})]),
    "plan": Step(calls=[Call(name="create_plan", arguments=PLAN)]),
}


@pytest.mark.parametrize(("mode", "kind"), [("agent", "file_edit"), ("plan", "plan")])
@both_dialects
async def test_a_response_with_everything_in_it_validates_and_the_schema_is_strict(project, mode, kind, dialect):
    steps = (
        Step(reasoning="Let me think.", text="I look.\n```py\nx\n```\n", calls=[READ]),
        EVERYTHING[mode],
        Step(status=400, error="that was too much"),
    )
    options = ("--output-format", "json", "--mode", mode)
    ended, _ = await ask(project, *steps, arguments=options, dialect=dialect)
    response = json.loads(ended.out)
    schema = json.loads((ROOT / "docs" / "response.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(response)
    assert (ended.code, response["status"], response["mode"]) == (ExitCode.FAILED, "error", mode)
    assert {"text", "code_block", "tool_call", kind, "error"} == {
        response_document["type"] for response_document in response["documents"]
    }
    assert "Let me think" not in ended.out
    for name in ("id", "conversationId", "model", "created", "status", "documents", "usage", "metadata"):
        assert not validator.is_valid({key: value for key, value in response.items() if key != name}), name
    assert not validator.is_valid(response | {"more": 1})
    assert not validator.is_valid(response | {"usage": response["usage"] | {"more": 1}})
    assert not validator.is_valid(response | {"metadata": response["metadata"] | {"more": 1}})
    for document in response["documents"]:
        assert not validator.is_valid(response | {"documents": [document | {"more": 1}]}), document
        assert not validator.is_valid(response | {"documents": [{"type": document["type"]}]}), document
