"""Four todos that can be worked at once on a real project, and one model that plays each of their subagents."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from core.engine import Engine, EngineOptions
from core.engine.shared.models import ModelAccess
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.client import Client
from core.protocol.messages import AssistantMessage, Message, UserMessage
from core.providers.base import Delta, ModelInfo, ModelRequest
from tests.support.agent_case import Step, calls, played, says
from tests.support.default_model import access_to
from tests.support.story import MODEL
from tests.support.trust import trust

E = TypeVar("E", bound=ev.Event)
PATH = ".cursor/plans/shop_01234567.plan.md"
CALC = '''"""Prices."""

RATE = 0.2


def gross(price):
    return price * (1 + RATE)


def show(price):
    return str(price)
'''
PROOF = "grep -q 'round(' calc.py"
PLAN = f"""---
name: Shop
todos:
  - id: rounding # the till rounds
    content: Round the gross price
    status: pending
    verify: {PROOF}
  - id: showing
    content: Show prices in euros
    status: pending
  - id: docs
    content: Write the README
    status: pending
  - id: rate
    content: gross() knows the rate
    status: pending
  - id: release
    content: Release it
    status: pending
    dependencies: [ rounding, showing, docs, rate ]
---
# Shop
"""
ROUNDED, KNOWN = "    return round(price * (1 + RATE), 2)", "    return price * 1.19"
_TODO = re.compile(r"(?:Your todo is |\[part )(\w+)[:\]]")

Play = Mapping[str, Sequence[Step]]


def edit(old: str, new: str) -> Step:
    return calls(("search_replace", {"file_path": "calc.py", "old_string": old, "new_string": new}))


def play() -> dict[str, list[Step]]:
    """What each subagent does; `rounding` and `rate` clash, and `showing` makes a file that git ignores."""
    return {
        "rounding": [edit("    return price * (1 + RATE)", ROUNDED), says("It is rounded.")],
        "showing": [
            edit("    return str(price)", '    return f"{price:.2f} EUR"'),
            calls(("run_terminal_cmd", {"command": "mkdir -p out && echo shown > out/log"})),
            says("In euros."),
        ],
        "docs": [calls(("write", {"file_path": "docs/use.md", "contents": "Use it.\n"})), says("Written.")],
        "rate": [edit("    return price * (1 + RATE)", KNOWN), says("It knows.")],
        "release": [calls(("write", {"file_path": "NEWS.md", "contents": "1.0\n"})), says("Released.")],
    }


class SubagentModel:
    """Plays the steps of whichever todo (or `[part …]`) it is asked to do; an exception is raised, an event waited for,
    a function called, where it stands in a step. A provider of its own for each session, one play for all."""

    name = "crew"

    def __init__(self, plays: Play) -> None:
        self._plays = plays

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        async for delta in played(self._step(request.messages)):
            yield delta

    def _step(self, messages: Sequence[Message]) -> Step:
        """The next step of the todo, counted over all of the subagent's turns; what was cut off is played again."""
        matches = [_TODO.search(message.content) for message in messages if isinstance(message, UserMessage)]
        todo = next((match[1] for match in reversed(matches) if match), "")
        done = sum(isinstance(message, AssistantMessage) and not message.interrupted for message in messages)
        steps = self._plays.get(todo, ())
        return steps[done] if done < len(steps) else says("Done.")

    async def models(self) -> tuple[ModelInfo, ...]:
        return ()

    async def close(self) -> None:
        self._plays = self._plays


def access(plays: Play | None = None) -> ModelAccess:
    crew_plays = play() if plays is None else plays
    return access_to(lambda _id, _settings: (SubagentModel(crew_plays), "crew"), MODEL, cost=0.25)


def project_at(root: Path) -> Path:
    """A git project with the plan in it."""
    files = {"calc.py": CALC, ".gitignore": "out/\n", PATH: PLAN}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git = ("git", "-c", "user.email=a@example.org", "-c", "user.name=A")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one")):
        subprocess.run([*git, *words], cwd=root, check=True, capture_output=True)
    trust(root)
    return root


async def converse(
    client: Client,
    session: str,
    text: str,
    *,
    on: Callable[[ev.AnyEvent], cmd.AnyCommand | None] = lambda _: None,
    after: int = 0,
    answers: bool = True,
) -> list[ev.AnyEvent]:
    """Send a prompt, say yes to commands (with `answers`), send what `on` answers to an event; return the events of the
    turn."""
    seen: list[ev.AnyEvent] = []
    async with contextlib.aclosing(client.events(session, after=after)) as stream:
        reply = await client.submit(cmd.TurnSubmit(session=session, text=text))
        assert isinstance(reply, cmd.Ack), reply
        async for envelope in stream:
            seen.append(envelope.event)
            command = on(envelope.event)
            if answers and isinstance(envelope.event, ev.ApprovalRequested):
                command = cmd.ApprovalAnswer(session=session, id=envelope.event.id, decision="allow_once")
            if command is not None:
                assert isinstance(await client.submit(command), cmd.Ack)
            if isinstance(envelope.event, ev.TurnFinished):
                return seen
    raise AssertionError("the events ended")


class SubagentBuild:
    """One session of an engine, followed; `on` is told of every event."""

    def __init__(self, client: Client, session: str) -> None:
        self.client = client
        self.session = session
        self.seen: list[ev.AnyEvent] = []

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.seen if isinstance(event, kind)]

    async def build(
        self,
        *,
        workers: int = 4,
        todo: str = "",
        after: int = 0,
        on: Callable[[ev.AnyEvent], cmd.AnyCommand | None] = lambda _: None,
        until: Callable[[ev.AnyEvent], bool] = lambda _: False,
    ) -> ev.AnyEvent:
        """Build, saying yes to commands and sending what `on` answers; the event that it ended with."""
        self.seen.clear()
        order = cmd.PlanBuild(session=self.session, path=PATH, workers=workers, todo=todo)
        async with contextlib.aclosing(self.client.events(self.session, after=after)) as stream:
            reply = await self.client.submit(order)
            assert isinstance(reply, cmd.Ack), reply
            async for envelope in stream:
                event = envelope.event
                self.seen.append(event)
                self._check_order(event, workers)
                command = on(event)
                if isinstance(event, ev.ApprovalRequested):
                    command = cmd.ApprovalAnswer(session=self.session, id=event.id, decision="allow_once")
                if command is not None:
                    assert isinstance(await self.client.submit(command), cmd.Ack)
                if isinstance(event, ev.TurnFinished) or until(event):
                    return event
        raise AssertionError("the events ended")

    def _check_order(self, event: ev.AnyEvent, workers: int) -> None:
        """Never more at work than there may be, and none before what it waits for is done."""
        if not isinstance(event, ev.SubagentStarted):
            return
        ended = {finish.id for finish in self.of(ev.SubagentFinished)}
        at_work = [start for start in self.of(ev.SubagentStarted) if start.id not in ended]
        assert len({start.id for start in at_work}) <= workers
        todos = {todo.id: todo for todo in self.of(ev.TodoChanged)[-1].todos}
        assert todos[event.todo].status == "in_progress"
        needs = [todos[key].status for key in todos[event.todo].dependencies]
        assert set(needs) <= {"completed", "cancelled"}


@contextlib.asynccontextmanager
async def open_build(
    project: Path, plays: Play | None = None, **options: Any
) -> AsyncIterator[tuple[Engine, SubagentBuild]]:
    engine = Engine(project, options=EngineOptions(watch=False, **options), models=access(plays))
    opened = await engine.submit(cmd.SessionOpen())
    assert isinstance(opened, cmd.Ack), opened
    try:
        yield engine, SubagentBuild(engine, opened.session)
    finally:
        await engine.close()


def statuses(engine: Engine, crew: SubagentBuild) -> dict[str, str]:
    """The todos by id."""
    return {todo.id: todo.status for todo in engine.state(crew.session).todos}


def todo_of(team: SubagentBuild, subagent: str) -> str:
    """What a subagent works at."""
    return next(start.todo for start in team.of(ev.SubagentStarted) if start.id == subagent)
