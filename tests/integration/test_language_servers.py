"""Language servers through the real engine, in a real box: what an edit breaks comes back with it, and is mended."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from core.agent.gate import edit_diagnostics
from core.engine import Engine
from core.lsp import checked_files
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.messages import ToolMessage, UserMessage
from core.user_dirs import get_config_dir
from tests.support.open_session import run_turn, session_in, submit
from tests.support.own_programs import put_on_path

SERVER = Path(__file__).parents[1] / "support" / "language_server.py"
ADD = "def add(a: int, b: int) -> int:\n    return a + b\n"
USE = "from sums import add\n\ntotal: int = add(1, 2)\n"
Call = tuple[str, dict[str, Any]]


def edit(path: str, old: str, new: str) -> Call:
    return "search_replace", {"file_path": path, "old_string": old, "new_string": new}


def read(path: str) -> Call:
    return "read_file", {"target_file": path}


def script(root: Path, *steps: Call | str) -> str:
    played = [
        step if isinstance(step, str) else {"tool_calls": [{"name": step[0], "arguments": step[1]}]} for step in steps
    ]
    path = root / "script.json"
    path.write_text(json.dumps(played))
    return f"scripted/{path}"


def put(root: Path, **files: str) -> Path:
    project = root / "project"
    project.mkdir(exist_ok=True)
    for name, text in files.items():
        (project / name.replace("__", "/").replace("_dot_", ".")).write_text(text)
    return project


def results(engine: Engine, session: str) -> list[str]:
    return [message.content for message in engine.state(session).messages if isinstance(message, ToolMessage)]


def told(engine: Engine, session: str) -> list[str]:
    messages = engine.state(session).messages
    return [message.content for message in messages if isinstance(message, UserMessage) and message.origin == "program"]


@pytest.fixture
def with_ty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of this very environment on PATH: ty and ruff, which are waited for on a busy machine, too."""
    put_on_path(monkeypatch, "ty", "ruff")
    for name in ("EDIT_BUDGET", "TURN_BUDGET"):
        monkeypatch.setattr(edit_diagnostics, name, 30.0)


def configure(project: Path, *faults: str, **more: Any) -> None:
    """The scripted server alone, from a copy that the box shows."""
    shutil.copy(SERVER, project / "server")
    words = ["python3", "-u", "server", *faults]
    text = "".join(f"[lsp.{name}]\nenabled = false\n" for name in ("ty", "ruff", "basedpyright", "pyright"))
    place = get_config_dir() / "config.toml"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f'{text}[lsp.scripted]\ncommand = {json.dumps(words)}\nlanguages = ["python"]\n')


@pytest.mark.usefixtures("with_ty")
async def test_a_type_error_comes_back_with_the_edit_is_mended_and_the_review_never_shows_it(tmp_path):
    project = put(tmp_path, sums_dot_py=ADD)
    mend = edit("sums.py", "return str(a)", "return a - b")
    model = script(tmp_path, edit("sums.py", "return a + b", "return str(a)"), mend, "Done.")
    async with session_in(project, model=model, trust=True) as (engine, session):
        seen = await run_turn(engine, session)
        broken, mended = results(engine, session)
        assert "New since this edit (" in broken
        assert "sums.py:2:12: error: " in broken
        assert "ty" in mended.splitlines()[-1]
        assert mended.splitlines()[-1].endswith(": nothing new.")
        assert told(engine, session) == []
        reported = [event for event in seen if isinstance(event, ev.DiagnosticsReported)]
        assert any(event.diagnostics for event in reported)
        final = engine.state(session).review.diagnostics["sums.py"]
        assert (final.diagnostics, set(final.sources)) == ((), {"ty", "ruff"})


@pytest.mark.usefixtures("with_ty")
async def test_what_an_edit_breaks_elsewhere_is_told_and_handed_back_once(tmp_path):
    project = put(tmp_path, sums_dot_py=ADD, use_dot_py=USE)
    steps = [
        read("use.py"),
        edit("sums.py", "a: int, b: int) -> int:\n    return a + b", "a: str) -> str:\n    return a"),
    ]
    async with session_in(project, model=script(tmp_path, *steps, "Done.", "It stays."), trust=True) as (
        engine,
        session,
    ):
        seen = await run_turn(engine, session)
        assert "use.py:3:" in results(engine, session)[-1]
        (notice,) = (event.message for event in seen if isinstance(event, ev.Notice))
        assert notice == "The edits leave 3 new errors; the agent is asked about them once."
        (left,) = told(engine, session)
        assert "Your edits leave these errors behind" in left
        assert "use.py:3:" in left
        assert engine.state(session).messages[-1].content == "It stays."


@pytest.mark.usefixtures("with_ty")
async def test_errors_that_the_user_has_already_are_nobodys_news(tmp_path):
    project = put(tmp_path, sums_dot_py=ADD + "\nx: int = 'old'\n")
    moved = edit("sums.py", "def add", "# moved down\n\n\ndef add")
    touched = edit("sums.py", "'old'", "'old'  # touched")
    async with session_in(project, model=script(tmp_path, moved, touched, "Done."), trust=True) as (engine, session):
        await run_turn(engine, session)
        assert [result.splitlines()[-1].partition(": ")[2] for result in results(engine, session)] == [
            "nothing new."
        ] * 2
        assert told(engine, session) == []


@pytest.mark.usefixtures("with_ty")
async def test_a_new_module_is_known_to_those_that_import_it(tmp_path):
    project = put(tmp_path, use_dot_py="x = 1\n")
    new = ("write", {"file_path": "sums.py", "contents": ADD})
    importing = edit("use.py", "x = 2", "from sums import add\n\nx: str = add(1, 2)")
    async with session_in(
        project, model=script(tmp_path, edit("use.py", "1", "2"), new, importing, "."), trust=True
    ) as (
        engine,
        session,
    ):
        await run_turn(engine, session)
        last = results(engine, session)[-1]
        assert "[invalid-assignment]" in last
        assert "unresolved" not in last


@pytest.mark.usefixtures("with_ty")
@pytest.mark.parametrize("trusted", [True, False])
async def test_nothing_runs_before_the_project_is_trusted_or_against_a_rule(tmp_path, trusted):
    project = put(tmp_path, sums_dot_py=ADD)
    place = get_config_dir() / "config.toml"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text('[permissions]\ndeny = ["Shell(ty *)", "Shell(ruff *)"]\n' if trusted else "")
    model = script(tmp_path, edit("sums.py", "a + b", "str(a)"), "Done.")
    async with session_in(project, model=model, trust=trusted) as (engine, session):
        await run_turn(engine, session)
        assert "New since" not in results(engine, session)[0]
        assert engine.state(session).review.diagnostics == {}


@pytest.mark.usefixtures("with_ty")
async def test_questions_about_names_are_answered_from_pending_text(tmp_path):
    project = put(tmp_path, sums_dot_py=ADD, use_dot_py=USE)
    asked = [
        edit("sums.py", "def add", "\n\ndef add"),
        ("find_definition", {"path": "use.py", "line": 3, "symbol": "add"}),
        ("find_references", {"path": "sums.py", "symbol": "add"}),
        ("find_definition", {"path": "use.py", "symbol": "nothing"}),
        ("rename_symbol", {"path": "use.py", "symbol": "add", "new_name": "plus"}),
        ("rename_symbol", {"path": "use.py", "symbol": "plus", "new_name": "not a name"}),
    ]
    async with session_in(project, model=script(tmp_path, *asked, "Done."), trust=True) as (engine, session):
        await run_turn(engine, session)
        _, defined, used, missing, renamed, refused = results(engine, session)
        assert "sums.py:3: def add(a: int, b: int) -> int:" in defined
        assert "4 places" not in used
        assert "use.py:3: total: int = add(1, 2)" in used
        assert "is not in that file at all" in missing
        assert renamed.startswith("Renamed add to plus in 2 files:\n  ")
        assert "is not a" in refused
        text = engine._sessions[session].shadow.read("use.py")
        assert text == USE.replace("add", "plus").encode()
        assert (project / "use.py").read_text() == USE
        place = {"session": session, "path": "use.py", "line": 3, "column": 14}
        answer = await engine.query(q.DefinitionQuery(**place))
        assert [(location.path, location.line) for location in answer.places] == [("sums.py", 3)]
        assert "plus" in (await engine.query(q.HoverQuery(**place))).text
        everywhere = await engine.query(q.ReferencesQuery(**place))
        assert {location.path for location in everywhere.places} == {"sums.py", "use.py"}
        await submit(engine, cmd.SymbolRename(session=session, path="use.py", line=3, column=14, new_name="total_of"))
        assert b"total_of(1, 2)" in (engine._sessions[session].shadow.read("use.py") or b"")
        nowhere = await engine.query(q.DefinitionQuery(session=session, path="no.txt", line=1))
        assert "No language server" in nowhere.problem


@pytest.mark.usefixtures("with_ty")
async def test_read_lints_gives_the_same_and_says_nothing_twice(tmp_path):
    project = put(tmp_path, sums_dot_py=ADD)
    steps = [edit("sums.py", "return a + b", "import os\n    return str(a)"), ("read_lints", {}), "Done.", "Left."]
    async with session_in(project, model=script(tmp_path, *steps), trust=True) as (engine, session):
        await run_turn(engine, session)
        lints = results(engine, session)[1]
        assert sorted(line for line in lints.splitlines() if not line.startswith(" ")) == [
            "ruff: 1 new problem",
            "ty: 1 new problem",
        ]
        assert "  sums.py:2:12: `os` imported but unused [F401]" in lints
        assert "  sums.py:3:12: " in lints


BAD = edit("a.py", "x = 1", "BAD = 1")
FOUND = "a.py:1:1: error: bad name [7]"


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ("", FOUND),
        ("content-type", FOUND),
        ("push", FOUND),
        ("push no-version", FOUND),
        ("nonsense", FOUND),
        ("asks", FOUND),
        ("many", "a.py:1:1: warning: bad name 19 [7]\n  [... 1980 more]"),
        ("wrong-ranges", "a.py:2:1: error: bad name [7]"),
    ],
)
async def test_a_server_with_ways_of_its_own_is_understood(tmp_path, monkeypatch, faults, expected):
    monkeypatch.setattr(edit_diagnostics, "EDIT_BUDGET", 30.0)
    project = put(tmp_path, a_dot_py="x = 1\n")
    configure(project, *faults.split())
    async with session_in(project, model=script(tmp_path, BAD, "Done.", "Left."), trust=True) as (engine, session):
        await run_turn(engine, session)
        assert expected in results(engine, session)[0]


async def test_of_very_many_findings_the_log_holds_a_part_and_their_number(tmp_path, monkeypatch):
    monkeypatch.setattr(edit_diagnostics, "EDIT_BUDGET", 30.0)
    project = put(tmp_path, a_dot_py="x = 1\n")
    configure(project, "many")
    again = edit("a.py", "BAD = 1", "BAD = 1  # again")
    async with session_in(project, model=script(tmp_path, BAD, again, "Done."), trust=True) as (engine, session):
        seen = await run_turn(engine, session)
        reported = [event for event in seen if isinstance(event, ev.DiagnosticsReported) and event.diagnostics]
        assert {(len(event.diagnostics), event.more_warnings) for event in reported} == {(100, 1_900)}
        assert "New since" not in results(engine, session)[1], "what is not in the log is not taken for new"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("crash", "it ended (exit code 3): a fault of the server"),
        ("babble", "Its output is not the language server protocol"),
        ("flood", "It floods its client with messages"),
        ("hang", "it does not answer"),
    ],
)
async def test_a_server_that_fails_holds_nothing_up_and_is_given_up_with_a_word(tmp_path, monkeypatch, fault, reason):
    if fault == "hang":
        monkeypatch.setattr(checked_files, "CHECK_LIMIT", 0.3)
    monkeypatch.setattr(edit_diagnostics, "EDIT_BUDGET", 30.0)  # the end is waited for, whatever the machine does
    project = put(tmp_path, a_dot_py="x = 1\n")
    configure(project, fault)
    edits = [edit("a.py", f"x = {number}", f"x = {number + 1}") for number in range(1, 14)]
    async with session_in(project, model=script(tmp_path, *edits, "Done."), trust=True) as (engine, session):
        seen = await run_turn(engine, session)
        notices = [notice.message for notice in seen if isinstance(notice, ev.Notice)]
        (given_up,) = [message for message in notices if "scripted" in message]
        assert f"is no longer used: {reason}" in given_up
        assert seen[-1].reason == "done"
        assert engine.state(session).review.diagnostics == {}


async def test_a_rename_that_lies_about_its_places_changes_nothing(tmp_path):
    project = put(tmp_path, a_dot_py="x = 1\nname = x\n")
    configure(project)
    lie = ("rename_symbol", {"path": "a.py", "symbol": "name", "new_name": "other"})
    async with session_in(project, model=script(tmp_path, lie, "Done."), trust=True) as (engine, session):
        await run_turn(engine, session)
        assert "does not match its text; nothing was changed" in results(engine, session)[0]
        assert engine.state(session).review.changes == {}


async def test_the_same_with_typescript(tmp_path):
    installed = shutil.which("typescript-language-server")
    if installed is None:
        pytest.skip(
            "typescript-language-server is not on PATH (npm install -g typescript@5 typescript-language-server)"
        )
    project = put(
        tmp_path, package_dot_json='{"type": "module"}', tsconfig_dot_json='{"compilerOptions":{"strict":true}}'
    )
    (project / "sums.ts").write_text("export function add(a: number, b: number): number {\n  return a + b;\n}\n")
    shutil.copytree(Path(installed).parents[1], project / "node_modules", symlinks=True)
    (project / ".gitignore").write_text("node_modules\n")
    wait: Call = ("run_terminal_cmd", {"command": "sleep 5"})
    steps = [read("sums.ts"), wait, edit("sums.ts", "a + b", "String(a)"), edit("sums.ts", "String(a)", "a - b")]
    async with session_in(project, model=script(tmp_path, *steps, "Done."), trust=True) as (engine, session):
        await run_turn(engine, session)
        broken, mended = results(engine, session)[2:]
        assert "sums.ts:2:3: error: Type 'string' is not assignable to type 'number'. [2322]" in broken
        assert "nothing new." in mended
        assert told(engine, session) == []
        assert engine.state(session).review.diagnostics["sums.ts"].diagnostics == ()


async def test_without_a_server_a_definition_is_found_by_its_name_in_the_index(tmp_path):
    project = put(tmp_path, sums_dot_py=ADD, use_dot_py=USE)
    steps = [edit("sums.py", "def add", "\n\ndef add"), ("find_definition", {"path": "use.py", "symbol": "add"})]
    place = get_config_dir() / "config.toml"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text('[permissions]\ndeny = ["Shell(ty *)"]\n')
    async with session_in(project, model=script(tmp_path, *steps, "Done."), trust=True) as (engine, session):
        await engine._load().services.index.wait_ready(30)
        await run_turn(engine, session)
        result = results(engine, session)[-1]
        assert "by its name in the project's index" in result
        assert "sums.py:3: def add(a: int, b: int) -> int:" in result
