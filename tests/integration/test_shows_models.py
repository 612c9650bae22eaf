"""A long turn with reasoning on each wire, a kill in its middle, `-c`, more turns, another mode, a compaction.

`pytest -s` prints for every request how much of its prompt the server had in its cache.
"""

from __future__ import annotations

from core.protocol import commands as cmd
from core.protocol import events as ev
from tests.contract.test_append_only import READ, killed_in_a_step, on_every_wire, opaque, project, strict, thought
from tests.support import wires
from tests.support.open_session import engine_in, read_until, run_turn, submit
from tests.support.program import environment, run
from tests.support.provider_server import ProviderServer
from tests.support.provider_streams import Call, Say, Step, Think

__all__ = ["project"]

MUCH = "It is a longer thought, and it goes on for a while. " * 6


def looks(number: int) -> Step:
    """The step of that number: it thinks, says what it does, and reads and searches."""
    grep = Call(name="grep", arguments={"pattern": f"needle {number}"})
    return thought(Say(text=f"Step {number}: I look.", phase="commentary"), READ, grep, text=f"{number}. {MUCH}")


def edits(number: int) -> Step:
    place = {"file_path": f"made-{number}.txt", "old_string": "", "new_string": f"number {number}\n"}
    return Step(
        parts=[
            Think(text=f"{number}. {MUCH}"),
            Call(name="search_replace", arguments=place),
            Think(text=f"Then I read it. {MUCH}"),
            Call(name="read_file", arguments={"target_file": f"made-{number}.txt"}),
        ]
    )


END = thought(Say(text="That is all of it.", phase="final_answer"))
BEFORE = [looks(1), edits(2), looks(3), looks(4), edits(5)]
AFTER = [looks(6), edits(7), looks(8), looks(9), looks(10), END]
MORE = [edits(11), END, looks(12), END, looks(13), "Planned.", END, "NOTES: ten steps were done.", looks(14), END, END]


def report(wire: str, server: ProviderServer) -> list[float]:
    """Of each prompt, the share that was cached. Printed with the counts of tokens."""
    print(f"\n{wires.MODELS[wire]}: tokens of each prompt, and of it from the cache")
    shares = []
    for number, (prompt, cached) in enumerate(wires.cached(server), 1):
        print(f"  {number:2}  {prompt:7,}  {cached:7,}  {cached / prompt:6.1%}")
        shares.append(cached / prompt)
    return shares


@on_every_wire
async def test_ten_steps_a_kill_and_all_that_follows_are_one_prefix(project, monkeypatch, wire):
    (project / "a.txt").write_text("".join(f"{number} a line of the file\n" for number in range(400)))
    cut = Step(**{**looks(6).__dict__, "hang": "tool"})
    more = "[context]\nwindow = 100000\n"
    async with strict(monkeypatch, *BEFORE, cut, *AFTER, *MORE, more=more) as server:
        session = await killed_in_a_step(project, server, wires.MODELS[wire], "Take ten steps @a.txt")
        for prompt in ("Go on", "And one more"):
            ended = await run(project, "-p", prompt, "-c", env=environment(server))
            assert (ended.code, ended.err.count("Traceback")) == (0, 0), ended
        async with engine_in(project) as engine:
            await submit(engine, cmd.SessionResume(session=session))
            await run_turn(engine, session, "And another")
            await submit(engine, cmd.ModeSet(session=session, mode="plan"))
            await run_turn(engine, session, "Plan the rest")
            grown = list(server.answered)
            reasoning = opaque(server)
            before = engine.state(session).seq
            await submit(engine, cmd.ContextCompact(session=session))
            await read_until(engine, session, ev.ContextCompacted, after=before)
            await run_turn(engine, session, "And after that?")
        shares = report(wire, server)
        assert server.rules is not None
        assert (server.rules.refusals, server.rules.remarks) == ([], [])
        assert wires.breaks(grown) == []
        assert wires.breaks(server.answered[-3:]) == []
        assert reasoning >= 16
        assert len(server.answered) == len(BEFORE) + 1 + len(AFTER) + len(MORE)
        assert all(share > 0.5 for share in shares[1 : len(grown)])
        assert sum(shares[1 : len(grown)]) / (len(grown) - 1) > 0.85
