from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from core.agent.probe_check import take_out
from core.cli import Options
from core.config import state_dir
from core.debug.marks import MARK
from core.debug.records import stored
from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.documents import QuestionAnswer
from core.sessions.fold import fold
from core.sessions.log import scan
from core.sessions.store import SessionStore
from core.shadow import BlobStore, ReviewState
from core.transports.stdio_client import StdioClient, connect
from tests.support.debugging import COMPARE, FIX, MENDED, PRICES, PROBES, REPRODUCE, RUN, SUPPOSED, VERDICTS, project
from tests.support.program import PROGRAM

READ = ("read_file", {"target_file": "prices.py"})
SEARCH = [[("hypotheses_set", SUPPOSED), READ], list(PROBES), [REPRODUCE], list(VERDICTS)]
MEND = [[FIX], [REPRODUCE], [COMPARE], [("probe_remove", {})]]
HANG = ("reproduce", {"command": f"{RUN}; sleep 300"})


def script(path: Path, *steps: list[tuple[str, dict]]) -> str:
    played = [{"tool_calls": [{"name": name, "arguments": given} for name, given in step]} for step in steps]
    path.write_text(json.dumps([*played, "The key left the currency out; it has it now."]))
    return f"scripted/{path}"


async def debugging(root: Path, *steps: list[tuple[str, dict]], make=project) -> tuple[StdioClient, str, Path]:
    where = make(root / "project")
    model = script(root / "script.yaml", *steps)
    client = await connect(Options(front="screen", directory=where, program=PROGRAM, trust=True))
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
            given = QuestionAnswer(question=envelope.event.questions[0].id, options=("fixed",))
            await client.submit(cmd.QuestionReply(session=session, id=envelope.event.id, answers=(given,)))
        if isinstance(envelope.event, end | ev.TurnFinished):
            break
    return seen


def marked(*places: Path) -> list[str]:
    files = [path for place in places for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if MARK.encode() in path.read_bytes()]


@pytest.mark.timeout(120)
async def test_a_wrong_cache_key_is_found_and_mended_by_evidence_and_no_probe_is_left(tmp_path):
    client, session, where = await debugging(tmp_path, *SEARCH, *MEND)
    seen = await until(client, session, ev.TurnFinished)
    tools = [(event.tool, event.status) for event in seen if isinstance(event, ev.ToolFinished)]
    assert [tool for tool, status in tools if status != "completed"] == []
    assert seen[-1].reason == "done"
    directory = SessionStore(where).sessions / session
    debug = fold(scan(directory / "log.jsonl").envelopes, ReviewState()).debug
    logs = {name: stored(BlobStore(directory / "blobs").get(run.log)) for name, run in debug.runs.items()}
    assert {name: each.state for name, each in debug.hypotheses.items()} == {
        "H1": "confirmed",
        "H2": "rejected",
        "H3": "rejected",
    }
    keys = {each.data for each in logs["r1"] if each.hypothesis_id == "H1"}
    assert keys == {
        '{"key":"tea","currency":"eur","hit":false}',
        '{"key":"tea","currency":"usd","hit":true}',
    }
    for evidence in (each for hypothesis in debug.hypotheses.values() for each in hypothesis.evidence):
        cited = logs[evidence.run][evidence.line - 1]
        assert cited.message in evidence.text
        assert cited.data in evidence.text
    assert [(run.exit_code, run.after_fix) for run in debug.runs.values()] == [(1, False), (0, True)]
    assert (where / "prices.py").read_text() == PRICES
    await client.submit(cmd.HunkResolve(session=session, path="", verdict="accept"))
    await client.close()
    assert (where / "prices.py").read_text() == MENDED
    assert marked(where, state_dir()) == []


@pytest.mark.timeout(120)
async def test_d1_killed_while_the_probes_run_none_is_left_in_shadow_or_workspace(tmp_path):
    client, session, where = await debugging(tmp_path, *SEARCH, [FIX], [HANG])
    seen = await until(client, session, ev.ProbeLogged)
    while not (isinstance(seen[-1], ev.ProbeLogged) and seen[-1].run == "r2"):
        seen = await until_more(client, session, seen)
    assert marked(state_dir()) != []
    os.kill(client.pid, signal.SIGKILL)
    await client.close()
    assert marked(where) == []
    engine = Engine(where, options=EngineOptions(watch=False))
    assert isinstance(await engine.submit(cmd.SessionResume(session=session)), cmd.Ack)
    debug, shadow = engine.state(session).debug, engine._live(session).runtime.shadow
    assert (debug.probes, debug.reproducing, list(debug.runs)) == ({}, None, ["r1"])
    assert take_out(shadow, debug.probed, kept=True).left == ()
    assert shadow.read("prices.py") == MENDED.encode()
    await engine.close()
    assert marked(where, state_dir()) == []


async def until_more(client: StdioClient, session: str, seen: list[ev.AnyEvent]) -> list[ev.AnyEvent]:
    stream = client.events(session, after=0)
    async for envelope in stream:
        event = envelope.event
        if isinstance(event, ev.ApprovalRequested):
            await client.submit(cmd.ApprovalAnswer(session=session, id=event.id, decision="allow_once"))
        if isinstance(event, ev.ProbeLogged) and event.run == "r2":
            return [*seen, event]
        assert not isinstance(event, ev.TurnFinished)
    return seen


@pytest.mark.timeout(60)
async def test_marks_that_a_command_wrote_itself_are_taken_out_at_the_end_of_the_turn(tmp_path):
    whole = f"printf 'a\\n# region {MARK} p7\\nb\\n# endregion {MARK} p7\\nc\\n' > made.py"
    write = f"{whole}; printf '# region {MARK} p8\\n' > half.py"
    steps = [*SEARCH, [("run_terminal_cmd", {"command": write})]]
    client, session, where = await debugging(tmp_path, *steps, [("probe_remove", {})])
    seen = await until(client, session, ev.TurnFinished)
    assert (
        next(each for each in seen if isinstance(each, ev.ToolFinished) and each.tool == "probe_remove").status
        == "failed"
    )
    stream = client.events(session)
    async for envelope in stream:
        if isinstance(envelope.event, ev.Notice):
            assert "half.py" in envelope.event.message
            break
    await client.submit(cmd.HunkResolve(session=session, path="made.py", verdict="accept"))
    await client.close()
    assert (where / "made.py").read_text() == "a\nc\n"


POST = (
    "import json as _j, urllib.request as _u; _u.urlopen(_u.Request('__PROBE_URL__', "
    "_j.dumps({'hypothesisId': 'H1', 'message': 'posted', 'data': key}).encode()))"
)


@pytest.mark.timeout(60)
async def test_a_probe_can_post_from_inside_of_the_box_while_its_run_goes_on(tmp_path):
    placed = ("probe_add", {"file_path": "prices.py", "line": 6, "code": POST, "hypothesis_id": "H1"})
    shell = "python3 check.py; echo $AGENT_TUI_PROBE_URL | cut -c1-17"
    later = ("run_terminal_cmd", {"command": "echo later $AGENT_TUI_PROBE_URL."})
    steps = [[("hypotheses_set", SUPPOSED)], [placed], [("reproduce", {"command": shell})], [later]]
    client, session, where = await debugging(tmp_path, *steps)
    await until(client, session, ev.TurnFinished)
    answer = await client.query(q.ProbeLogQuery(session=session, run="r1"))
    assert isinstance(answer, q.ProbeLog)
    posted = [(each.message, each.data) for each in answer.records if each.location != "output"]
    assert posted == [("posted", '"tea"')] * 3
    assert "http://127.0.0.1:" in [each.message for each in answer.records]
    both = await client.query(q.ProbeLogQuery(session=session, run="r1", compare_with="r1"))
    assert {place.side for place in both.places} == {"same"}
    missing = await client.query(q.ProbeLogQuery(session=session, run="r9"))
    assert isinstance(missing, q.Refused)
    await client.close()
    envelopes = scan(SessionStore(where).sessions / session / "log.jsonl").envelopes
    told = [each.event.message.content for each in envelopes if isinstance(each.event, ev.MessageAppended)]
    assert any("\nlater .\n" in text for text in told)


SHOP = """\
const pause = () => new Promise((done) => setTimeout(done, 5));
let stock = 1;

async function take() {
  const seen = stock;
  await pause();
  if (seen < 1) return false;
  stock = seen - 1;
  return true;
}

Promise.all([take(), take()]).then((sold) => process.exit(sold[0] && sold[1] ? 1 : 0));
"""
MENDED_SHOP = SHOP.replace(
    "  const seen = stock;\n  await pause();\n", "  const seen = stock--;\n  await pause();\n"
).replace("  stock = seen - 1;\n", "")
NODE_LOG = (
    "require('fs').appendFileSync(process.env.AGENT_TUI_PROBE_LOG, "
    "JSON.stringify({hypothesisId: 'H1', location: 'shop.js:7', message: 'seen', data: {seen, stock}}) + '\\n');"
)
RACE = {
    "hypotheses": [
        {"statement": "Both see the stock before either of them takes from it."},
        {"statement": "The stock is wrong from the beginning."},
        {"statement": "The stock is never lowered."},
    ]
}


def shop(root: Path) -> Path:
    root.mkdir(parents=True)
    (root / "shop.js").write_text(SHOP)
    return root


@pytest.mark.timeout(60)
@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
async def test_a_race_in_a_node_program_is_found_and_mended_by_evidence(tmp_path):
    show = ("reproduce", {"command": "node shop.js"})
    verdicts = [
        ("hypothesis_verdict", {"id": "H1", "verdict": "confirmed", "evidence": ["r1:1", "r1:2"]}),
        ("hypothesis_verdict", {"id": "H2", "verdict": "rejected", "evidence": ["r1:1"]}),
        ("hypothesis_verdict", {"id": "H3", "verdict": "inconclusive"}),
    ]
    steps = [
        [("hypotheses_set", RACE), ("read_file", {"target_file": "shop.js"})],
        [("probe_add", {"file_path": "shop.js", "line": 7, "code": NODE_LOG, "hypothesis_id": "H1"})],
        [show],
        verdicts,
        [("write", {"file_path": "shop.js", "contents": MENDED_SHOP})],
        [show, ("probe_remove", {})],
    ]
    client, session, where = await debugging(tmp_path, *steps, make=shop)
    seen = await until(client, session, ev.TurnFinished)
    failed = [each for each in seen if isinstance(each, ev.ToolFinished) and each.status != "completed"]
    assert failed == []
    first, second = [
        [json.loads(each.data) for each in (await client.query(q.ProbeLogQuery(session=session, run=run))).records]
        for run in ("r1", "r2")
    ]
    assert first == [{"seen": 1, "stock": 1}, {"seen": 1, "stock": 0}]
    assert [each["seen"] for each in second] == [1, 0]
    runs = [each.run for each in seen if isinstance(each, ev.RunRecorded)]
    assert [(run.exit_code, run.after_fix) for run in runs] == [(1, False), (0, True)]
    await client.submit(cmd.HunkResolve(session=session, path="", verdict="accept"))
    await client.close()
    assert (where / "shop.js").read_text() == MENDED_SHOP
    assert marked(where, state_dir()) == []
