"""Random walks through a session: whatever was done between two requests, the later one begins with the earlier one."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import Effort
from tests.contract.test_append_only import READ, READ_RULED, assert_only_appended, project, strict
from tests.integration.test_engine_provider import opened
from tests.support import wires
from tests.support.model_server.step import Call, Part, Say, Step, Think
from tests.support.open_session import engine_in, run_turn, submit

__all__ = ["project"]

SEEDS = (1, 2, 3)
# Each walk goes over one wire, and in a run of all tests over the others too.
WALKS = [
    pytest.param(wire, seed, marks=[] if number == index else [pytest.mark.slow])
    for number, wire in enumerate(wires.MODELS)
    for index, seed in enumerate(SEEDS)
]
LENGTH = 14


def answers(chance: random.Random, count: int) -> Iterator[Step]:
    """So many answers of a model that thinks, talks, reads, edits, fails at calls, and ends its turns."""
    for number in range(count):
        edit = {"file_path": f"made/{number}.txt", "old_string": "", "new_string": f"made {number} — «é»\n"}
        change = {"file_path": "a.txt", "old_string": chance.choice(["one", "TWO", "three"]), "new_string": str(number)}
        calls: list[Part] = [
            READ,
            READ_RULED,
            Call(name="search_replace", arguments=edit),
            Call(name="search_replace", arguments=change),
            Call(name="grep", arguments={"pattern": f"({number}" if number % 3 else "o"}),
            Call(name="no_such_tool", arguments={"number": number}),
        ]
        parts: list[Part] = []
        for part in chance.sample(calls, chance.choice([0, 0, 1, 2, 3])):
            thought = Think(text=f"I think of {number}. " * chance.randint(1, 5), redacted=chance.random() < 0.2)
            parts += [thought, part] if chance.random() < 0.7 else [part]
        say = Say(text=f"Number {number} ✓", phase="commentary" if parts else "final_answer")
        yield Step(parts=[Think(text=f"Begin {number}."), say, *parts], piece=chance.randint(3, 40))


class Walk:
    """A session that goes from one engine to the next."""

    def __init__(self, directory: Path, wire: str, chance: random.Random) -> None:
        self.directory, self.wire, self.chance = directory, wire, chance
        self.session = ""
        self.prompts = 0

    @contextlib.asynccontextmanager
    async def engine(self) -> AsyncIterator[Engine]:
        async with engine_in(self.directory) as engine:
            if self.session:
                await submit(engine, cmd.SessionResume(session=self.session))
            else:
                self.session = await opened(engine, wires.MODELS[self.wire])
            yield engine

    async def prompt(self, engine: Engine) -> None:
        self.prompts += 1
        mention = self.chance.choice(["", " @a.txt", " @src/b.py", " `@none.txt`"])
        finished = (await run_turn(engine, self.session, f"Prompt {self.prompts}{mention}"))[-1]
        assert finished.reason in {"done", "failed"}, finished  # failed: the same mistake three times

    async def mode(self, engine: Engine) -> None:
        await submit(engine, cmd.ModeSet(session=self.session, mode=self.chance.choice(get_args(ev.ModeName))))

    async def effort(self, engine: Engine) -> None:
        await submit(engine, cmd.EffortSet(session=self.session, effort=self.chance.choice(get_args(Effort))))

    async def verdict(self, engine: Engine) -> None:
        for path in sorted(engine.state(self.session).changes)[:2]:
            verdict = self.chance.choice(("accept", "reject"))
            await submit(engine, cmd.HunkResolve(session=self.session, path=path, verdict=verdict))

    async def outside(self, engine: Engine) -> None:
        assert not engine.state(self.session).current_turn
        (self.directory / "AGENTS.md").write_text(f"Rule {self.chance.random()}\n")
        (self.directory / f"outside-{self.chance.randint(0, 99)}.txt").write_text("from outside\n")

    async def fork(self, engine: Engine) -> None:
        reply = await engine.submit(cmd.SessionFork(session=self.session))
        assert isinstance(reply, cmd.Ack), reply
        await engine.wait_idle(self.session)
        self.session = reply.session


@pytest.mark.parametrize(("wire", "seed"), WALKS)
async def test_a_random_walk_only_appends(project, monkeypatch, wire, seed):
    chance = random.Random(seed)
    walk = Walk(project, wire, chance)
    ways: list[Callable[[Engine], Awaitable[None]]] = [walk.mode, walk.effort, walk.verdict, walk.outside, walk.fork]
    async with strict(monkeypatch, *answers(chance, 400)) as server:
        for _ in range(LENGTH // 4):
            async with walk.engine() as engine:
                for way in (chance.choice([walk.prompt, walk.prompt, *ways]) for _ in range(4)):
                    await way(engine)
                await walk.prompt(engine)
    assert len(server.answered) >= 5
    assert_only_appended(server)
