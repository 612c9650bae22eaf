from __future__ import annotations

import json
from pathlib import Path

from core.arguments import ScreenArguments
from core.debug.probe_regions import REGION_NAME
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.documents import QuestionAnswer
from core.sessions.store import SessionStore
from core.transports.stdio_client import StdioClient, connect
from tests.support.debugging import COMPARE, FIX, PROBES, REPRODUCE, RUN, SUPPOSED, VERDICTS, project
from tests.support.program import PROGRAM
from tests.support.session_log import scan

READ = ("read_file", {"target_file": "prices.py"})
SEARCH = [[("hypotheses_set", SUPPOSED), READ], list(PROBES), [REPRODUCE], list(VERDICTS)]
MEND = [[FIX], [REPRODUCE], [COMPARE], [("probe_remove", {})]]
HANG = ("reproduce", {"command": f"{RUN}; sleep 300"})


def script(path: Path, *steps: list[tuple[str, dict]]) -> str:
    played = [{"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in step]} for step in steps]
    path.write_text(json.dumps([*played, "The key left the currency out; it has it now."]))
    return f"scripted/{path}"


async def debugging(root: Path, *steps: list[tuple[str, dict]], make=project) -> tuple[StdioClient, str, Path]:
    where = make(root / "project")
    model = script(root / "script.yaml", *steps)
    client = await connect(ScreenArguments(directory=where, program=PROGRAM, trust=True))
    opened = await client.submit(cmd.SessionOpen(model=model, mode="debug"))
    assert isinstance(opened, cmd.Ack), opened
    return client, opened.session, where


async def until(client: StdioClient, session: str, end: type[ev.Event]) -> list[ev.AnyEvent]:
    """All events of a turn until one of this kind; every question about a command is answered with a yes."""
    seen = []
    stream = client.events(session)
    await client.submit(cmd.TurnSubmit(session=session, text="The price in USD is wrong."))
    async for envelope in stream:
        seen.append(envelope.event)
        if isinstance(envelope.event, ev.ApprovalRequested):
            answer = cmd.ApprovalAnswer(session=session, id=envelope.event.id, decision="allow_once")
            await client.submit(answer)
        if isinstance(envelope.event, ev.QuestionAsked):
            question_answer = QuestionAnswer(question=envelope.event.questions[0].id, options=("fixed",))
            await client.submit(cmd.QuestionReply(session=session, id=envelope.event.id, answers=(question_answer,)))
        if isinstance(envelope.event, end | ev.TurnFinished):
            break
    return seen


def marked(*places: Path) -> list[str]:
    files = [path for place in places for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if REGION_NAME.encode() in path.read_bytes()]


async def test_marks_that_a_command_wrote_itself_are_taken_out_at_the_end_of_the_turn(tmp_path):
    whole = f"printf 'a\\n# region {REGION_NAME} p7\\nb\\n# endregion {REGION_NAME} p7\\nc\\n' > made.py"
    built = f"mkdir dist; printf '// region {REGION_NAME} p9' > dist/bundle.js; echo x > dist/clean.js"
    write = f"{whole}; printf '# region {REGION_NAME} p8\\n' > half.py; {built}"
    steps = [*SEARCH, [("run_terminal_cmd", {"command": write})]]
    client, session, where = await debugging(tmp_path, *steps, [("probe_remove", {})])
    (where / ".gitignore").write_text("dist/\n")
    seen = await until(client, session, ev.TurnFinished)
    assert (
        next(event for event in seen if isinstance(event, ev.ToolFinished) and event.tool == "probe_remove").status
        == "failed"
    )
    stream = client.events(session)
    async for envelope in stream:
        if isinstance(envelope.event, ev.ProbesChecked):
            assert envelope.event.left == ("half.py", "dist/bundle.js")
        if isinstance(envelope.event, ev.Notice):
            assert envelope.event.message == "Probe markers are left in half.py, dist/bundle.js."
            break
    await client.submit(cmd.HunkResolve(session=session, path="made.py", verdict="accept"))
    await client.close()
    assert (where / "made.py").read_text() == "a\nc\n"


POST = (
    "import json as _j, urllib.request as _u; _u.urlopen(_u.Request('__PROBE_URL__', "
    "_j.dumps({'hypothesisId': 'H1', 'message': 'posted', 'data': key}).encode()))"
)


async def test_a_probe_can_post_from_inside_of_the_box_while_its_run_goes_on(tmp_path):
    placed = ("probe_add", {"file_path": "prices.py", "line": 6, "code": POST, "hypothesis_id": "H1"})
    shell = "python3 check.py; echo $AGENT_TUI_PROBE_URL | cut -c1-17"
    later = ("run_terminal_cmd", {"command": "echo later $AGENT_TUI_PROBE_URL."})
    steps = [[("hypotheses_set", SUPPOSED)], [placed], [("reproduce", {"command": shell})], [later]]
    client, session, where = await debugging(tmp_path, *steps)
    await until(client, session, ev.TurnFinished)
    answer = await client.query(q.ProbeLogQuery(session=session, run="r1"))
    assert isinstance(answer, q.ProbeLogAnswer)
    posted = [(record.message, record.data) for record in answer.records if record.location != "output"]
    assert posted == [("posted", '"tea"')] * 3
    assert "http://127.0.0.1:" in [record.message for record in answer.records]
    both = await client.query(q.ProbeLogQuery(session=session, run="r1", compare_with="r1"))
    assert {place.side for place in both.places} == {"same"}
    missing = await client.query(q.ProbeLogQuery(session=session, run="r9"))
    assert isinstance(missing, q.RefusedAnswer)
    await client.close()
    envelopes = scan(SessionStore(where).sessions_path / session / "log.jsonl").envelopes
    contents = [
        envelope.event.message.content for envelope in envelopes if isinstance(envelope.event, ev.MessageAppended)
    ]
    assert any("\nlater .\n" in text for text in contents)
