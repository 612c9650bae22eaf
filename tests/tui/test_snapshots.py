from __future__ import annotations

from typing import get_args

import pytest

from core.protocol import documents as d
from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.messages import Usage
from core.protocol.models import ModelChoice, ProviderStatus
from core.protocol.queries import (
    ContextItem,
    ContextProblem,
    JobInfo,
    JobsAnswer,
    JobsQuery,
    LoadedSkill,
    MemoryAnswer,
    MemoryNote,
    MemoryQuery,
    ModelsAnswer,
    ModelsQuery,
    PromptContextAnswer,
    PromptContextQuery,
    RoutesQuery,
    RulesAnswer,
    RulesQuery,
    ServerRow,
    ServersAnswer,
    ServersQuery,
    ServerToolRow,
    SkillsAnswer,
    SkillsQuery,
    SkippedExtension,
)
from tests.support import recorded
from tests.tui.test_routes import TABLE
from tui.bridge import SessionRequest

START = e.TurnStarted(prompt="Run the tests", mode="agent", model="scripted/demo")
REQUEST = e.ApprovalRequested(
    id="a1",
    call="c1",
    kind="command",
    subject="rm -rf build && pytest -q [red]x[/red] \x1b[31m",
    explanation="Start from a clean build.",
    containment="not sandboxed: it runs in your project itself and can change anything you can",
)
REACHING = e.ApprovalRequested(
    id="apr_2",
    call="call_5",
    kind="host",
    subject="docs.python.org:443",
    containment="requested by: web_fetch https://docs.python.org/3/library/asyncio-task.html",
    options=("allow_once", "allow_session", "allow_always", "reject_once"),
    network=("docs.python.org",),
    reason="the conversation holds text from wiki.example, and this host is new in it",
)
LEAVING = e.ApprovalRequested(
    id="a1",
    call="c1",
    kind="machine",
    subject="git push origin main",
    explanation="The release branch has to be on the server.",
    options=("run_on_machine", "allow_once", "reject_once"),
    containment="runs as you, with your environment and network; nothing it does is reviewed; 2 files are "
    "pending review, and it sees only what is on disk",
    permissions=("all",),
)
PLANNING = e.TurnStarted(prompt="Keep sessions over a restart", mode="plan", model="m")
STORE = d.Question(
    id="store",
    text="Where should sessions live? They are in memory today, so a restart logs everybody out.",
    options=(
        d.Option(id="pg", label="PostgreSQL, beside the other tables", recommended=True),
        d.Option(id="redis", label="Redis with an expiry per key; a new service in every environment"),
        d.Option(id="lite", label="SQLite"),
    ),
)
LOGIN = d.Question(
    id="q2",
    header="Login",
    text="Which login?",
    options=(d.Option(id="jwt", label="JWT"), d.Option(id="cookie", label="Cookie")),
)
PARTS = d.Question(
    id="parts",
    header="Tests",
    text="Which parts shall be covered by tests?",
    options=(d.Option(id="unit", label="Unit", recommended=True), d.Option(id="e2e", label="End to end")),
    allow_multiple=True,
)
ANSWERED = d.ClarificationDocument(
    id="doc_q",
    sequence=3,
    content="Before I plan",
    metadata=d.ClarificationMetadata(
        questions=(STORE, PARTS),
        answers=(
            d.QuestionAnswer(question="store", options=("pg",)),
            d.QuestionAnswer(question="parts", options=("unit",), text="and the migration"),
        ),
    ),
)


def asking(*questions: d.Question) -> list[e.AnyEvent]:
    asked = e.QuestionAsked(id="q1", call="c1", questions=questions, title="Before I plan", lasting=True)
    return [*recorded.opening("plan"), PLANNING, *recorded.reading(), asked]


FOUND = ModelsAnswer(
    models=(ModelChoice(id="openai/gpt-5", source="OPENAI_API_KEY"),),
    providers=(
        ProviderStatus(id="openai", label="OpenAI", key="OPENAI_API_KEY"),
        ProviderStatus(id="anthropic", label="Anthropic"),
        ProviderStatus(id="ollama", label="Ollama", local=True, problem="nothing answers at 127.0.0.1:11434"),
    ),
)


@pytest.mark.parametrize("mode", get_args(e.ModeName))
def test_the_main_screen_in_each_mode(looks, mode):
    assert looks(
        [
            *recorded.opening(mode),
            recorded.turn(mode)[0],
            *recorded.reading(),
            *recorded.answering(),
            *recorded.ending(),
        ]
    )


@pytest.mark.parametrize("size", [(80, 24), (60, 16), (40, 10)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_main_screen_in_smaller_windows(looks, size):
    assert looks([*recorded.opening(), *recorded.turn()], size)


def test_the_empty_screen(looks):
    assert looks(recorded.opening(demo=True))


def test_a_running_turn(looks):
    live = [e.DocumentStarted(id="live", kind="text", sequence=9), e.DocumentDelta(id="live", text="I look at `total`")]
    assert looks([*recorded.opening(), START, e.StepStarted(step=2), *recorded.reading(), *live])


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)], ids=["120x40", "80x24", "60x16"])
def test_an_approval(looks, size):
    assert looks([*recorded.opening(), START, *recorded.reading(), REQUEST], size)


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)], ids=["120x40", "80x24", "60x16"])
def test_an_approval_to_leave_the_box(looks, size):
    assert looks([*recorded.opening(), START, *recorded.reading(), LEAVING], size)


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)], ids=["120x40", "80x24", "60x16"])
def test_an_approval_of_a_host(looks, size):
    assert looks([*recorded.opening(), START, *recorded.reading(), REACHING], size)


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)], ids=["120x40", "80x24", "60x16"])
def test_the_permissions(looks, size):
    permissions = (
        q.SavedPermission(choice="allow", rule="Service(docker)", id="session:x", source="this session"),
        q.SavedPermission(choice="allow", rule="WebFetch(*.pypi.org)", source="config.toml"),
        q.SavedPermission(choice="allow", rule="npm run build -- --watch=no", id="p1", exactly=True, directory="web"),
        q.SavedPermission(choice="deny", rule="Machine(*)", source=".agent-tui/config.toml"),
    )
    answer = q.PermissionsAnswer(trusted=True, kept=permissions, hosts=("*.pypi.org",), services=("docker",))
    keys = (*"/permissions", "enter")
    assert looks(recorded.opening(), size, keys=keys, answers={q.PermissionsQuery: answer})


@pytest.mark.parametrize(
    ("questions", "size", "keys"),
    [
        ((STORE,), (120, 40), ()),
        ((STORE, LOGIN, PARTS), (80, 24), ("1", "1", "2")),
        ((STORE, LOGIN, PARTS), (60, 16), ("tab", *"neither")),
    ],
    ids=["one", "three-80x24", "three-60x16"],
)
def test_questions(looks, monkeypatch, questions, size, keys):
    monkeypatch.setattr("tui.ask.question_bar.GRACE", 0.0)
    assert looks(asking(*questions), size, keys=keys)


def test_an_answered_question_and_one_that_is_left_open(looks):
    answered = [e.DocumentFinished(document=ANSWERED), e.QuestionAnswered(id="q1", by="user")]
    left = e.QuestionAsked(id="q2", call="c2", questions=(LOGIN, PARTS), lasting=True)
    end = e.TurnFinished(reason="interrupted")
    assert looks([*asking(STORE, PARTS), *answered, left, end], (80, 24), keys=("escape",))


def test_an_error_and_a_failed_turn(looks):
    assert looks([*recorded.opening(), START, *recorded.trouble(), *recorded.ending("failed")])


def test_the_welcome_screen(looks):
    assert looks([], wish=SessionRequest(), answers={ModelsQuery: FOUND})


KEYLESS = tuple(ProviderStatus(id=name.lower(), label=name) for name in ("Anthropic", "OpenAI", "OpenRouter", "Groq"))
MANY = ModelsAnswer(models=(), providers=KEYLESS)


@pytest.mark.parametrize("size", [(120, 40), (60, 16)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_ways_on_without_a_key(looks, size):
    assert looks([], size, wish=SessionRequest(), answers={ModelsQuery: MANY})


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_an_address_of_the_users_own(looks, size):
    keys = ("down", "down", "down", "down", "enter", "enter", *"host", "enter")
    assert looks([], size, wish=SessionRequest(), answers={ModelsQuery: MANY}, keys=keys)


def test_opened_rows(looks):
    keys = ("ctrl+up", "enter", "up", "up", "enter")
    assert looks([*recorded.opening(), recorded.turn()[0], *recorded.reading(), *recorded.editing()[2:]], keys=keys)


@pytest.mark.parametrize("key", ["f1", "ctrl+p", "ctrl+full_stop"])
def test_dialogs(looks, key):
    assert looks(recorded.opening(), keys=(key,))


def test_the_light_theme(looks):
    events = [*recorded.opening(), *recorded.turn()[:1], *recorded.reading(), *recorded.answering()]
    assert looks(events, keys=(*"/theme agent-light", "enter"))


ROUTE = e.RouteTaken(model="openai/gpt-6.1-sol", effort="medium", instead_of="anthropic/claude-opus-5-5")


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_who_does_what(looks, size):
    assert looks([*recorded.opening(), ROUTE], size, keys=["f8"], answers={RoutesQuery: TABLE})


@pytest.mark.parametrize("size", [(120, 40), (60, 16)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_list_of_efforts(looks, size):
    assert looks([*recorded.opening(), ROUTE], size, keys=["f7"], answers={RoutesQuery: TABLE})


@pytest.mark.parametrize("size", [(120, 40), (60, 16)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_what_goes_with_a_prompt(looks, monkeypatch, size):
    monkeypatch.setattr("tui.screens.controllers.prompt.CHIPS_WAIT", 0.001)
    answer = PromptContextAnswer(
        items=(
            ContextItem(key="1", kind="file", label="src/utils.ts", reason="named in the prompt", origin="found"),
            ContextItem(key="2", kind="symbol", label="add · src/utils.ts:3-9", reason="named in the prompt"),
            ContextItem(key="3", kind="diff", label="@diff · 3 files", reason="mentioned: what is pending"),
        ),
        problems=(ContextProblem(key="@utlis.ts", message="@utlis.ts: there is no file with this name."),),
    )
    keys = [*"fix add in utils", "alt+up", "right"]
    assert looks(recorded.opening(), size, keys=keys, answers={PromptContextQuery: answer})


@pytest.mark.parametrize("size", [(120, 40), (60, 16)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_skills_and_why_they_are_told(looks, size):
    def skill(name, state, reason, **more):
        place = {"path": f".claude/skills/{name}/SKILL.md", "scope": "project", "source": ".claude"} | more
        return LoadedSkill(name=name, description="Fill forms in", state=state, reason=reason, **place)

    answer = SkillsAnswer(
        skills=(
            skill("pdf", "open", "it was opened in this session"),
            skill("release-notes", "offered", "its name and description are listed", note="unknown key 'x'"),
            skill("sql", "hidden", "no file in use matches *.sql", scope="user"),
        ),
        skipped=(SkippedExtension(path=".cursor/skills/old/SKILL.md", reason="it has no description"),),
    )
    keys = ["slash", *"skills", "enter", "j"]
    assert looks(recorded.opening(), size, keys=keys, answers={SkillsQuery: answer})


@pytest.mark.parametrize("size", [(120, 40), (60, 16)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_mcp_servers_with_the_tools_of_one(looks, size):
    def server(name, state, source=".mcp.json", **more):
        entry = f'command: ["{name}"]'
        return ServerRow(name=name, state=state, source=source, is_project=True, entry=entry, digest="d", **more)

    tools = (
        ServerToolRow(name="read_text_file", description="Reads a file as text.", tokens=310, is_reading=True),
        ServerToolRow(name="write_file", description="Writes a file.", tokens=1_120, is_on=False),
    )
    answer = ServersAnswer(
        servers=(
            server("filesystem", "running", "~/.cursor/mcp.json", tools=tools),
            server("git", "idle", tools=(ServerToolRow(name="git_log", tokens=540),)),
            server("time", "unasked"),
            server("tickets", "failed", problem="It ended (exit code 3). Its log ends: no licence"),
            server("old", "off"),
        ),
        problems=('MCP server bad of .mcp.json: it needs either "command" or "url", as text',),
    )
    keys = ["slash", *"mcp", "enter", "enter", "j"]
    assert looks(recorded.opening(), size, keys=keys, answers={ServersQuery: answer})


@pytest.mark.parametrize("size", [(120, 40), (60, 16)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_rules_and_why_they_bind(looks, size):
    rules = (
        e.LoadedRule(path="AGENTS.md", kind="agents_md", size=710, reason="applies to every file", position=1),
        e.LoadedRule(path=".cursor/rules/style.mdc", kind="globs", size=2_131, reason="a.py fits *.py", position=2),
        e.LoadedRule(path=".cursor/rules/sql.mdc", kind="described", size=90, reason="listed", position=3),
        e.LoadedRule(path="web/CLAUDE.md", kind="claude_md", size=40_000, reason="no file is at hand", note="cut"),
    )
    keys = ["slash", *"rules", "enter", "j"]
    assert looks(recorded.opening(), size, keys=keys, answers={RulesQuery: RulesAnswer(rules=rules)})


@pytest.mark.parametrize("size", [(120, 40), (60, 16)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_notes_that_wait_and_notes_that_are_kept(looks, size):
    noon = 1_763_640_000_000
    notes = (
        MemoryNote(id="1", text="Spell it colour, also in names.", at=noon, is_kept=True),
        MemoryNote(id="2", text="Tests need a database.", why="you said so twice", at=noon),
        MemoryNote(id="3", text=f"Generated files lie in build/. {'They are never edited by hand. ' * 4}", at=noon + 1),
    )
    keys = ["slash", *"memory", "enter"]
    assert looks(recorded.opening(), size, keys=keys, answers={MemoryQuery: MemoryAnswer(notes=notes)})


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_answer_to_a_side_question(looks, size):
    text = (
        "We are at **two** of three steps:\n\n1. `tax.py` is pending.\n2. The tests have not been run.\n\n"
        "| step | state |\n|---|---|\n| write | done |\n| test | open |\n\n```python\nRATE = 1.19\n```\n\n"
        "Nothing else was asked."
    )
    usage = Usage(prompt_tokens=6_233, cached_tokens=6_112, completion_tokens=23, cost=0.0041)
    questions = [
        e.AsideAnswered(id=f"aside_{number}", question=question, text=text, model="openai/gpt-6.1-sol", usage=usage)
        for number, question in enumerate(("Who calls it?", "Where are we, and what comes next?"))
    ]
    assert looks([*recorded.opening(), *questions], size, keys=["slash", *"btw", "enter"])


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_ports_of_commands(looks, size):
    ports = (
        e.OpenPort(port=5173, command="node node_modules/.bin/vite --host", address="http://localhost:5173"),
        e.OpenPort(port=8000, command="/usr/bin/python3 -m http.server"),
    )
    assert looks([*recorded.opening(), e.PortsChanged(ports=ports)], size, keys=(*"/ports", "enter"))


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_jobs_with_output_and_changes(looks, size):
    job = JobInfo(
        id="job_1",
        command="npm run dev",
        directory=".",
        duration_ms=65_000,
        output="\n".join(f"[vite] page reload {number}.html" for number in range(9)),
        changed=("dist/app.js",),
        changed_count=1,
        missed_count=3,
    )
    events = [*recorded.opening(), e.JobStarted(id="job_1", call="c", command="npm run dev")]
    assert looks(events, size, keys=(*"/jobs", "enter"), answers={JobsQuery: JobsAnswer(jobs=(job,))})
