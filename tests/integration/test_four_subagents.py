"""Four subagents in a repository of a thousand files, from the screen through the SDKs to a server that is as strict
as the real ones: three wires, four at once, one is stopped, one asks, two clash."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol.messages import ToolMessage
from core.protocol.review import ConflictChoice
from tests.support import wires
from tests.support.committed import OWN, commit_own_sources
from tests.support.open_session import session_in, submit
from tests.support.provider_server import ProviderServer, Script, provider_server
from tests.support.provider_streams import Call, Step
from tests.support.roster_screen import mark, open_screen, read_rows, until
from tui.app import AgentApp
from tui.ask.question_bar import QuestionBar

PLACE = "tui/quantities.py"
COST = next(line for line in (OWN / PLACE).read_text().splitlines() if '"< $0.0001"' in line)
CENTS = '    return f"${cost:.2f}"'
EURO = '    return f"{cost:.4f} EUR"'
NOW, MOMENT = '    return "just now"', '    return "a moment ago"'
ASKED = {"questions": [{"id": "q", "prompt": "Euros?", "options": [{"label": "No"}, {"label": "Yes"}]}]}


def edit(old: str, new: str) -> Call:
    return Call(name="search_replace", arguments={"file_path": PLACE, "old_string": old, "new_string": new})


def write(path: str) -> Call:
    return Call(name="write", arguments={"file_path": path, "contents": "Costs.\n"})


def task(part: str, kind: str, **more: str) -> Call:
    arguments = {"description": f"Do {part}", "prompt": f"[part {part}]", "subagent_type": kind, **more}
    return Call(name="task", arguments=arguments)


GIVEN = (
    task("search", "explore"),
    task("cents", "generalPurpose"),
    task("euros", "generalPurpose", model=wires.MODELS["chat"]),
    task("slow", "generalPurpose", model=wires.MODELS["messages"]),
)
PLAYS: Mapping[str, Script] = {
    "parent": [Step(calls=GIVEN), "All have ended."],
    "search": [
        Step(calls=[Call(name="grep", arguments={"pattern": "def format_cost"}), write("docs/no.md")]),
        Step(text=f"Costs are written at `{PLACE}:11`.", hold="before"),
    ],
    "cents": [Step(calls=[edit(COST, CENTS)]), Step(text="In cents.", hold="before")],
    "euros": [
        Step(calls=[edit(COST, EURO), edit(NOW, MOMENT)]),
        Step(calls=[Call(name="ask_question", arguments=ASKED)]),
        Step(calls=[write("docs/costs.md")]),
        "In euros.",
    ],
    "slow": [Step(calls=[write("docs/slow.md")]), Step(text="never said", hang="before")],
}


def find_part(body: Mapping[str, Any]) -> str:
    """The part that a conversation was begun with: those of its own tasks stand behind it."""
    match = re.search(r"\[part (\w+)\]", str(body.get("input", body.get("messages"))))
    return match[1] if match else ""


@contextlib.asynccontextmanager
async def open_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Engine, str, ProviderServer]]:
    """A session in the project, whose model gives four tasks."""
    async with provider_server(strict=True, models=wires.NAMES, plays=PLAYS, find_play=find_part) as server:
        small = f'[routes.small]\nmodel = "{wires.OTHER_MODELS["messages"]}"\n'
        wires.configure(monkeypatch, server, small)
        project = commit_own_sources(tmp_path / "project")
        async with session_in(project, model=wires.MODELS["responses"], trust=True) as (engine, session):
            yield engine, session, server
        assert server.rules is not None
        assert server.rules.refusals == []


async def watch_four(app: AgentApp, pilot: Pilot[Any]) -> None:
    """Send the prompt, and wait until all four are at work and one of them asks."""
    app.main.context.prompt.text = "[part parent] Look after the costs"
    app.main.context.prompt.action_send()
    state = app.main.state
    await until(pilot, lambda: len(state.transcript.subagents) == 4 and state.questions)
    await pilot.press("f9")
    await until(pilot, lambda: "waiting for you: Euros?" in read_rows(app) and "docs/slow.md" in read_rows(app))
    await until(pilot, lambda: read_rows(app).count("2 steps") == 4)


async def end_four(app: AgentApp, pilot: Pilot[Any], server: ProviderServer) -> None:
    """Stop the slow one by its key, let two go on to their ends, and then answer the one that asks."""
    mark(app, "Do slow")
    await pilot.press("x")
    await until(pilot, lambda: "⊘ generalPurpose · Do slow" in read_rows(app))
    server.released.set()
    await until(pilot, lambda: "✓ generalPurpose · Do cents" in read_rows(app))
    await pilot.press("f2")
    await until(pilot, lambda: app.main.query_one(QuestionBar).has_focus)
    await pilot.press("2")
    await until(pilot, lambda: not app.main.state.is_running)


def read_parts(engine: Engine, session: str) -> dict[str, Any]:
    """The subagents of a session, by the parts that they were given."""
    return {subagent.title.removeprefix("Do "): subagent for subagent in engine.state(session).subagents.values()}


async def test_four_work_at_once_and_each_is_seen_stopped_asked_and_merged(tmp_path, monkeypatch):
    monkeypatch.setattr("tui.ask.question_bar.GRACE", 0.0)
    async with (
        open_four(tmp_path, monkeypatch) as (engine, session, server),
        open_screen(engine, session) as (app, pilot),
    ):
        await watch_four(app, pilot)
        assert {subagent.state for subagent in read_parts(engine, session).values()} == {"working"}, "all at once"
        rows = [line.strip() for line in read_rows(app).splitlines()]
        assert all(" tokens" in row for row in rows[0:8:2])
        assert rows[4].startswith("? generalPurpose · Do euros")
        assert rows[5] == "waiting for you: Euros?"
        assert re.fullmatch(r"Wrote docs/slow\.md · 1 file( +\d+ s)?", rows[7]), "it is at work, for so long"
        await end_four(app, pilot, server)
        check_ends(engine, session)
        looked = b"".join(request.raw for request in server.answered if find_part(request.json) == "search")
        assert b"ask mode does not allow write" in looked
        await check_review(engine, session, tmp_path / "project")


def check_ends(engine: Engine, session: str) -> None:
    """Each worked with its own model, and the parent was told what came of it."""
    parts = read_parts(engine, session)
    assert {part: subagent.model for part, subagent in parts.items()} == {
        "search": wires.OTHER_MODELS["messages"],
        "cents": wires.MODELS["responses"],
        "euros": wires.MODELS["chat"],
        "slow": wires.MODELS["messages"],
    }
    assert [subagent.reason for subagent in parts.values()] == ["done", "done", "done", "interrupted"]
    assert [subagent.conflicts for subagent in parts.values()] == [(), (), (PLACE,), ()]
    messages = [message for message in engine.state(session).messages if isinstance(message, ToolMessage)]
    assert [message.is_error for message in messages] == [False, False, False, True]
    search, cents, euros, slow = (message.content for message in messages)
    assert search == f"Costs are written at `{PLACE}:11`.\n\n[explore {parts['search'].id} is done.]"
    assert f"Its changes are merged into yours: {PLACE}." in cents
    assert f"They conflict in {PLACE}: the user resolves that in the review." in euros
    assert "did not finish: it was stopped. Its changes are kept with it and not merged." in slow


async def check_review(engine: Engine, session: str, project: Path) -> None:
    """Nothing is written before a verdict, and of what clashes only what the user chose."""
    changes, before = engine.state(session).changes, (project / PLACE).read_text()
    assert COST in before
    assert not (project / "docs/costs.md").exists()
    assert {path: len(change.hunks) for path, change in changes.items()} == {PLACE: 2, "docs/costs.md": 1}
    [version] = changes[PLACE].competing_versions
    assert version.by == read_parts(engine, session)["euros"].id

    accept = cmd.HunkResolve(session=session, path="", verdict="accept")
    await submit(engine, accept)
    assert (project / "docs/costs.md").read_text() == "Costs.\n"
    assert (project / PLACE).read_text() == before.replace(NOW, MOMENT), "what does not clash is written"
    choice = ConflictChoice(take="theirs")
    await submit(engine, cmd.ConflictResolve(session=session, path=PLACE, choices=(choice,)))
    await submit(engine, accept)
    assert (project / PLACE).read_text() == before.replace(NOW, MOMENT).replace(COST, EURO)
    assert not engine.state(session).changes
    assert not (project / "docs/slow.md").exists()
    assert not (project / "docs/no.md").exists()
