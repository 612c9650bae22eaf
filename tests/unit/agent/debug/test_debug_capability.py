from __future__ import annotations

import asyncio

import pytest

from core.debug.probe_records import decode_records
from core.debug.probe_regions import REGION_NAME
from core.protocol import events as ev
from core.protocol.documents import QuestionAnswer
from core.tools.builtin.debugging import HypothesisVerdict
from tests.support.agent_case import Case, calls, says
from tests.support.boxes import boxed, command
from tests.support.debugging import (
    COMPARE,
    FIX,
    MENDED,
    PRICES,
    PROBES,
    REPRODUCE,
    SUPPOSED,
    answering,
    project,
    search,
)
from tests.support.history import faults

SUPPOSE = ("hypotheses_set", SUPPOSED)


APP = """\
function f() {
  return 1;
}

const a = `
  text
`;
/*
  said
*/
if (a)

  f()
  .b()
"""


def marks_in(case: Case) -> list[str]:
    """Every file with a mark of a probe: on disk, pending, in layers and blobs of the session, in logs beside them."""
    places = [case.project, case.directory]
    return [str(path) for place in places for path in place.rglob("*") if path.is_file() and REGION_NAME in _text(path)]


def _text(path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


async def test_n16a_a_fault_is_found_by_evidence_mended_and_shown_to_be_gone(tmp_path):
    remove = ("probe_remove", {})
    steps = [*search(), calls(FIX), calls(REPRODUCE), calls(COMPARE), calls(remove), says("Mended.")]
    async with boxed(tmp_path, *steps, mode="debug") as case:
        project(case.project)
        answering(case, "fixed")
        finished = await case.turn("The price in USD is wrong.")
        assert finished.reason == "done"
        asked = case.of(ev.QuestionAsked)[0].questions[0]
        assert asked.text.split("\n")[2:] == [
            "r2, after the fix: exit code 0 of `python3 check.py`",
            "r1, before it: exit code 1",
        ]
        assert [(event.run, event.outcome) for event in case.of(ev.FixJudged)] == [("r2", "fixed")]
        debug = case.state.debug
        assert {name: hypothesis.state for name, hypothesis in debug.hypotheses.items()} == {
            "H1": "confirmed",
            "H2": "rejected",
            "H3": "rejected",
        }
        first, second = (decode_records(case.shadow.blobs.get(run.log)) for run in debug.runs.values())
        assert [(record.hypothesis_id, record.data) for record in first if record.hypothesis_id] == [
            ("H1", '{"key":"tea","currency":"eur","hit":false}'),
            ("H2", '{"currency":"eur","rate":1}'),
            ("H1", '{"key":"tea","currency":"usd","hit":true}'),
            ("H1", '{"key":"tea","currency":"usd","hit":true}'),
        ]
        assert "AssertionError: 3" in [record.message for record in first if record.location == "output"][-1]
        for hypothesis in debug.hypotheses.values():
            assert [cited.text.split(" ")[0] for cited in hypothesis.evidence] == [
                f"[{first[cited.line - 1].hypothesis_id}]" for cited in hypothesis.evidence
            ]
        assert [(run.exit_code, run.after_fix, run.probes) for run in debug.runs.values()] == [
            (1, False, 2),
            (0, True, 2),
        ]
        assert [record.data for record in second if record.hypothesis_id == "H1"][-1].startswith('{"key":["tea","usd"]')
        assert "differs: [H1] prices.py:6: key" in case.results()[-2]
        assert case.shadow.read("prices.py") == MENDED.encode()
        assert (case.project / "prices.py").read_text() == PRICES
        assert [hunk.new_lines for hunk in case.state.changes["prices.py"].hunks] == [1]
        assert debug.probes == {}
        check = case.state.changes["prices.py"].check  # n16a: what a run has proved is no longer untested
        assert check is not None
        assert (check.command, check.exit_code) == ("python3 check.py", 0)
        assert marks_in(case) == []
        assert faults(case.messages) == []


async def test_no_edit_is_let_through_before_a_cause_is_confirmed(tmp_path):
    edits = calls(FIX, ("delete_file", {"target_file": "prices.py"}))
    async with boxed(
        tmp_path, edits, calls(SUPPOSE), edits, command("echo x > made; rm prices.py"), mode="debug"
    ) as case:
        project(case.project)
        await case.turn()
        assert [event.status for event in case.of(ev.ToolFinished)] == ["denied"] * 2 + ["completed"] + [
            "denied",
            "denied",
            "completed",
        ]
        assert "hypotheses_set" in case.results()[0]
        assert case.state.changes == {}
        assert case.shadow.read("made") is None


async def test_what_a_run_with_probes_changes_is_dropped_and_no_other_command_sees_them(tmp_path):
    spoil = ("reproduce", {"command": "cp prices.py copied.py; grep -c region prices.py; echo y >> prices.py"})
    steps = [calls(SUPPOSE), calls(*PROBES), calls(spoil), command("grep -c region prices.py; ls")]
    async with boxed(tmp_path, *steps, mode="debug") as case:
        project(case.project)
        await case.turn()
        results = case.results()
        assert "r1:1 output: 4" in results[-2]
        assert results[-1].splitlines()[1:] == ["0", "check.py", "prices.py", results[-1].splitlines()[-1]]
        assert case.state.changes == {}
        assert marks_in(case) == []


@pytest.mark.parametrize(
    ("path", "line", "code", "problem"),
    [
        ("prices.py", 6, "log(", "'(' was never closed"),
        ("prices.py", 6, "return 1\n  x", "unexpected indent"),
        ("text.py", 2, "log()", "inside a string"),
        ("app.js", 2, "log((", "does not parse: line 3: this does not parse: log(("),
        ("app.js", 6, "log();", "inside a string"),
        ("app.js", 9, "log();", "inside a comment"),
        ("app.js", 13, "log();", "would split a statement (if statement)"),
        ("app.js", 14, "log()", "would split a statement (call expression)"),
        ("page.tsx", 3, "log();", "inside a jsx text"),
        ("late.py", 2, "log()", "__future__"),
        ("data.json", 1, "log()", "comment syntax"),
        ("missing.py", 1, "log()", "no file"),
        ("prices.py", 99, "log()", "13 lines"),
        ("../outside.py", 1, "log()", "outside"),
        ("image.py", 1, "log()", "not text"),
    ],
)
async def test_a_probe_that_would_break_its_file_is_refused_with_what_is_wrong(tmp_path, path, line, code, problem):
    bad = ("probe_add", {"file_path": path, "line": line, "code": code, "hypothesis_id": "H1"})
    async with boxed(tmp_path, calls(SUPPOSE), calls(bad), mode="debug") as case:
        project(case.project)
        (case.project / "text.py").write_text('X = """\na\nb\n"""\n')
        (case.project / "app.js").write_text(APP)
        (case.project / "page.tsx").write_text("const a = (\n  <div>\n    <b/>\n  </div>\n);\n")
        (case.project / "late.py").write_text('"""Says."""\nfrom __future__ import annotations\n')
        (case.project / "data.json").write_text("{}\n")
        (case.project / "image.py").write_bytes(b"\x89PNG\0\0")
        await case.turn()
        assert case.of(ev.ToolFinished)[-1].status == "failed"
        assert problem in case.results()[-1]
        assert case.of(ev.ProbeAdded) == []


async def test_a_turn_that_ends_with_probes_left_is_asked_once_and_then_they_are_taken_away(tmp_path):
    steps = [calls(SUPPOSE), calls(*PROBES), says("Done."), says("Done, really.")]
    async with boxed(tmp_path, *steps, mode="debug") as case:
        project(case.project)
        await case.turn()
        assert "p1, p2" in case.messages[-2].content
        assert case.of(ev.ProbeRemoved)[0].by == "program"
        assert case.of(ev.Notice)[0].message == "2 probes were removed: the turn ended."
        assert case.state.debug.probes == {}


async def test_leaving_debug_drops_the_probes_and_closes_the_tools(tmp_path):
    leave = lambda: case.emit(ev.ModeChanged(mode="agent"))  # noqa: E731
    steps = [calls(SUPPOSE), calls(*PROBES), [leave, *calls(REPRODUCE)]]
    async with boxed(tmp_path, *steps, mode="debug") as case:
        project(case.project)
        await case.turn()
        assert case.state.debug.probes == {}
        assert case.of(ev.ToolFinished)[-1].status == "denied"
        assert "debug mode" in case.results()[-1]


async def test_a_fix_that_the_user_still_finds_broken_is_taken_back_and_edits_wait_for_new_hypotheses(tmp_path):
    removed = calls(("probe_remove", {}))
    steps = [*search(), calls(FIX), calls(REPRODUCE), removed, calls(FIX), calls(SUPPOSE), removed, says("Not found.")]
    async with boxed(tmp_path, *steps, mode="debug") as case:
        project(case.project)
        answering(case, "broken")
        await case.turn()
        assert [(event.outcome, event.taken_back) for event in case.of(ev.FixJudged)] == [("broken", ("prices.py",))]
        assert case.state.changes == {}
        assert case.of(ev.Notice)[0].message == "Still broken. The fix was reverted in prices.py."
        reports = [result for result in case.results() if "reverted in prices.py" in result]
        assert len(reports) == 1
        assert "Active: p1, p2." in reports[0]
        assert [event.status for event in case.of(ev.ToolFinished)][-3:] == ["denied", "completed", "completed"]
        assert case.of(ev.HypothesesSet)[-1].taken_back == ()
        assert [event.ids for event in case.of(ev.ProbeRemoved)] == [("p1", "p2")]


async def test_a_fix_that_no_run_has_shown_is_asked_for_once_and_the_user_judges_it_at_the_end_of_the_turn(tmp_path):
    steps = [
        *search(),
        calls(("probe_remove", {})),
        calls(FIX),
        says("Mended."),
        calls(REPRODUCE),
        says("It was deleted."),
    ]
    async with boxed(tmp_path, *steps, says("Again: gone."), mode="debug") as case:
        project(case.project)
        answering(case, "proceed")
        await case.turn()
        assert sum("Nothing was run since you changed prices.py" in message.content for message in case.messages) == 1
        assert [(event.run, event.outcome) for event in case.of(ev.FixJudged)] == [("r2", "unsure")]
        assert case.shadow.read("prices.py") == MENDED.encode()


async def test_nobody_is_asked_without_a_screen_and_that_is_said(tmp_path):
    steps = [*search(), calls(FIX), calls(REPRODUCE), calls(("probe_remove", {})), says("Mended.")]
    async with boxed(tmp_path, *steps, mode="debug") as case:
        project(case.project)
        case.session.user.is_interactive = False
        await case.turn()
        assert [(event.outcome, event.by) for event in case.of(ev.FixJudged)] == [("unsure", "program")]
        notices = [notice.message for notice in case.of(ev.Notice)]
        assert notices == [
            "Nobody could be asked whether the fault is gone. r2, after the fix: exit code 0 of `python3 check.py`."
        ]
        assert case.results()[-1].startswith("Nobody could be asked")
        assert case.shadow.read("prices.py") == MENDED.encode()


async def test_a_fix_that_did_not_help_is_taken_back_with_new_hypotheses(tmp_path):
    steps = [*search(), calls(FIX, ("write", {"file_path": "new.py", "contents": "x\n"})), calls(SUPPOSE), calls(FIX)]
    async with boxed(tmp_path, *steps, mode="debug") as case:
        project(case.project)
        case.shadow.write("prices.py", b"# before\n" + PRICES.encode())
        await case.turn()
        assert case.of(ev.HypothesesSet)[-1].taken_back == ("prices.py", "new.py")
        assert case.shadow.read("prices.py") == b"# before\n" + PRICES.encode()
        assert case.shadow.read("new.py") is None
        assert case.of(ev.ToolFinished)[-1].status == "denied"


@pytest.mark.parametrize(("chosen", "outcome"), [("proceed", "proceed"), ("fixed", "fixed"), ("", "stopped")])
async def test_the_user_shows_the_fault_with_the_probes_and_says_what_came_of_it(tmp_path, chosen, outcome):
    from core.shell.user_command import UserCommand

    ask = ("reproduce", {"steps": ["Run !python3 check.py", "See the wrong price"]})
    async with boxed(tmp_path, calls(SUPPOSE), calls(*PROBES), calls(ask), mode="debug") as case:
        project(case.project)

        async def user(asked: ev.QuestionAsked) -> None:
            run = UserCommand(case.session.terminal, "python3 check.py; echo z > made")
            await run.run()
            answers = (QuestionAnswer(question="reproduce", options=(chosen,)),) if chosen else ()
            case.session.user.resolve_question(asked.id, answers)

        waiting = []
        case.on_event = lambda event: (
            waiting.append(asyncio.ensure_future(user(event))) if isinstance(event, ev.QuestionAsked) else None
        )
        await case.turn()
        assert "1. Run !python3 check.py" in case.of(ev.QuestionAsked)[0].questions[0].text
        run = case.state.debug.runs["r1"]
        assert (run.records, dict(run.counts)) == (4, {"H1": 3, "H2": 1})
        assert case.of(ev.ReproduceEnded)[0].outcome == outcome
        assert case.shadow.read("made") is None
        assert case.session.terminal.probe_mount is None
        assert marks_in(case) == []


async def test_what_is_logged_comes_live(tmp_path):
    slow = ("reproduce", {"command": 'echo \'{"message": "one"}\' >> $AGENT_TUI_PROBE_LOG; sleep 1'})
    async with boxed(tmp_path, calls(SUPPOSE), calls(slow), mode="debug") as case:
        await case.turn()
        kinds = [type(event) for event in case.events]
        assert kinds.index(ev.ProbeLogged) < kinds.index(ev.RunRecorded)
        assert [record.message for record in case.of(ev.ProbeLogged)[0].records] == ["one"]


async def test_a_log_that_a_command_made_something_else_is_no_log(tmp_path):
    secret = tmp_path / "secret.ndjson"
    secret.write_text('{"message": "secret"}\n')
    link = ("reproduce", {"command": f"ln -s {secret} $AGENT_TUI_PROBE_LOG"})
    pipe = ("reproduce", {"command": "mkfifo $AGENT_TUI_PROBE_LOG"})
    junk = ("reproduce", {"command": "head -c 10000000 /dev/zero | tr '\\0' x >> $AGENT_TUI_PROBE_LOG"})
    async with boxed(tmp_path, calls(SUPPOSE), calls(link), calls(pipe), calls(junk), mode="debug") as case:
        await case.turn()
        assert [run.records for run in case.state.debug.runs.values()] == [0, 0, 1]
        assert "secret" not in "".join(case.results()[1:2]).replace("secret.ndjson", "")


async def test_a_verdict_on_lines_that_were_not_logged_is_refused(tmp_path):
    wrong = ("hypothesis_verdict", {"id": "H1", "verdict": "confirmed", "evidence": ["r1:9"]})
    none = ("hypothesis_verdict", {"id": "H1", "verdict": "confirmed"})
    async with boxed(tmp_path, calls(SUPPOSE), calls(REPRODUCE), calls(wrong, none), mode="debug") as case:
        project(case.project)
        await case.turn()
        assert [event.status for event in case.of(ev.ToolFinished)[-2:]] == ["failed", "failed"]
        assert not case.state.debug.has_confirmed_cause
        assert HypothesisVerdict.name == "hypothesis_verdict"


async def test_an_edit_with_marks_in_it_is_refused_in_any_mode(tmp_path):
    marked = (
        "write",
        {"file_path": "a.py", "contents": f"# region {REGION_NAME} p1\nx = 1\n# endregion {REGION_NAME} p1\n"},
    )
    case = Case(tmp_path, calls(marked))
    await case.turn()
    assert case.of(ev.ToolFinished)[0].status == "failed"
    assert case.state.changes == {}


async def test_a_run_that_is_interrupted_leaves_what_was_logged_and_nothing_else(tmp_path):
    slow = ("reproduce", {"command": 'echo \'{"message": "one"}\' >> $AGENT_TUI_PROBE_LOG; sleep 60'})
    async with boxed(tmp_path, calls(SUPPOSE), calls(*PROBES), calls(slow), mode="debug") as case:
        project(case.project)
        case.on_event = lambda event: case.session.interrupt() if isinstance(event, ev.ProbeLogged) else None
        finished = await case.turn()
        assert finished.reason == "interrupted"
        assert case.of(ev.ReproduceEnded)[0].outcome == "stopped"
        assert case.state.debug.runs["r1"].records == 1
        assert case.state.debug.probes == {}
        assert list((case.directory / "cache").iterdir()) == []


async def test_where_nothing_holds_a_run_there_are_no_probes_and_a_fix_is_seen_once_it_was_accepted(tmp_path):
    own = f'echo \'{{"hypothesisId": "H1", "message": "own"}}\' >> $AGENT_TUI_PROBE_LOG; {REPRODUCE[1]["command"]}'
    show = calls(("reproduce", {"command": own}))
    judge = calls(("hypothesis_verdict", {"id": "H1", "verdict": "confirmed", "evidence": ["r1:1"]}))
    read = ("read_file", {"target_file": "prices.py"})
    case = Case(tmp_path, calls(SUPPOSE, read), calls(PROBES[0]), show, judge, calls(FIX), show, says("Accept it."))
    case.emit(ev.ModeChanged(mode="debug"))
    project(case.project)
    answering(case, "fixed")
    await case.turn()
    assert "Probes can't be added here" in case.messages[0].content
    assert "can't sandbox" in case.results()[2]
    assert "ask the user to accept" in case.results()[-1]
    assert case.of(ev.QuestionAsked) == []
    assert [run.after_fix for run in case.state.debug.runs.values()] == [False, False]
    case.shadow.resolve("prices.py", (), "accept", "")
    case.model.steps += [show, says("It was deleted.")]
    await case.turn()
    assert [(run.id, run.exit_code) for run in case.state.debug.runs.values() if run.after_fix] == [("r3", 0)]
    assert [(event.run, event.outcome) for event in case.of(ev.FixJudged)] == [("r3", "fixed")]
    assert marks_in(case) == []


async def test_a_log_of_100_000_lines_is_bounded_for_the_model_and_whole_in_a_file(tmp_path):
    line = '{\\"hypothesisId\\": \\"H%d\\", \\"message\\": \\"n\\", \\"data\\": {\\"n\\": %d}}\\n'
    many = f"awk 'BEGIN {{ for (i = 1; i <= 100003; i++) printf \"{line}\", i % 3, i }}' >> $AGENT_TUI_PROBE_LOG"
    read = ("read_probe_log", {"hypothesis_id": "H1", "run": "r1"})
    search_call = ("read_probe_log", {"containing": '"n":77777}', "run": "r1"})
    both = ("read_probe_log", {"run": "r1", "compare_with": "r2"})
    runs = [calls(("reproduce", {"command": many})), calls(("reproduce", {"command": "echo more"}))]
    file = calls(("read_file", {"target_file": "output:log_r1.txt", "offset": 99_990, "limit": 5}))
    async with boxed(tmp_path, calls(SUPPOSE), *runs, calls(read, search_call, both), file, mode="debug") as case:
        await case.turn()
        assert [(run.records, run.left) for run in case.state.debug.runs.values()] == [(100_000, 3), (1, 0)]
        once, _, mine, one, compared, whole = case.results()[1:]
        assert "3 lines more were logged than are kept" in once
        assert mine.startswith("33,334 lines of r1:\nr1:1 [H1] n")
        assert mine.endswith("[32934 more; the whole log: read_file output:log_r1.txt]")
        assert one == '1 line of r1:\nr1:77777 [H2] n {"n":77777}'
        assert "only in r1: [H1] : n (33334 and 0 lines)\n  r1:1 " in compared
        assert "only in r2: [] output:  (0 and 1 lines)\n  r2:1 more" in compared
        assert "r1:99990 " in whole
        assert max(len(result) for result in case.results()) < 120_000
