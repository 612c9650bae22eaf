from __future__ import annotations

from msgspec.structs import replace

from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol.messages import Usage
from core.protocol.review import Change, Check, FileState, Hunk, Origin, VerdictRecord
from core.state.receipt import ReceiptFile, build_receipt, render_receipt
from core.state.session import CheckRun, SessionState
from tests.support.folded import fold_events

OLD, NEW = FileState(blob="1" * 64), FileState(blob="2" * 64)
ORIGIN = Origin(turn="t1", call="c", tool="search_replace")


def hunk(name: str, added: int, removed: int) -> Hunk:
    return Hunk(id=name, old_start=1, old_lines=removed, new_start=1, new_lines=added)


def change(path: str, *hunks: Hunk, origin: Origin = ORIGIN) -> ev.ChangeProposed:
    added, removed = sum(hunk.new_lines for hunk in hunks), sum(hunk.old_lines for hunk in hunks)
    return ev.ChangeProposed(
        change=Change(
            path=path, operation="edit", base=OLD, pending=NEW, hunks=hunks, added=added, removed=removed, origin=origin
        )
    )


def verdict(path: str, word: str, *hunks: Hunk, **more: str) -> ev.VerdictGiven:
    states = {"base_before": OLD, "base_after": NEW, "pending_before": NEW, "pending_after": NEW}
    states |= {"id": f"{path} {word}", "path": path, "verdict": word, **more}
    return ev.VerdictGiven(verdict=VerdictRecord(hunks=hunks, origin=ORIGIN, **states))


def command(call: str, line: str, code: int, output: str) -> ev.DocumentFinished:
    run = d.TerminalCommandMetadata(command=line, exit_code=code, output=output, tool_call_id=call)
    return ev.DocumentFinished(document=d.TerminalCommandDocument(id=f"d{call}", sequence=1, metadata=run))


def folded(*events: ev.AnyEvent) -> SessionState:
    started = ev.TurnStarted(prompt="Fix the rate\nplease", mode="agent", model="openai/m")
    ended = ev.TurnFinished(reason="done", steps=3, duration_ms=4200, usage=Usage(prompt_tokens=900, cost=0.02))
    every = (started, *events, ended)
    return fold_events(
        [ev.Envelope(seq=seq, session="s", at=seq, turn="t1", event=event) for seq, event in enumerate(every, 1)]
    )


def test_a_receipt_tells_files_with_the_verdicts_that_stand_and_the_last_run_of_each_check():
    one, two = hunk("1", 3, 1), hunk("2", 2, 2)
    state = folded(
        command("c1", "pytest", 1, "1 failed, 2 passed in 1s\n"),
        command("c2", "ls", 0, "a.py\n"),
        change("a.py", one, two),
        change("b.py", hunk("3", 1, 0)),
        change("other.py", hunk("4", 9, 9), origin=Origin(turn="t0")),
        ev.CheckRecorded(check=Check(call="c3", command="pytest", exit_code=0, tests="3 passed")),
        command("c3", "pytest", 0, "3 passed in 1s\n"),
        ev.CheckRecorded(check=Check(call="c4", command="ruff check", exit_code=0)),
        verdict("a.py", "accept", one),
        change("a.py", two),
        verdict("c.py", "reject", hunk("5", 4, 0)),
    )
    receipt = build_receipt(state, state.turns[-1])
    assert receipt.files == (
        ReceiptFile("a.py", 5, 3, accepted=1, waiting=1),
        ReceiptFile("b.py", 1, 0, waiting=1),
        ReceiptFile("c.py", 4, 0, rejected=1),
    )
    assert [file.verdict for file in receipt.files] == ["1 accepted, 1 to review", "to review", "rejected"]
    assert receipt.checks == (("pytest", CheckRun(0, "3 passed", "c3")), ("ruff check", CheckRun(0, "", "c4")))


def test_n26_what_a_command_prints_makes_no_check_of_it():
    state = folded(
        command("c1", "cat ci.log", 0, "12 passed in 1s\n"),
        command("c2", "echo '== 9 passed in 1s =='", 0, "== 9 passed in 1s ==\n"),
    )
    assert build_receipt(state, state.turns[-1]).checks == ()


def test_n26_a_run_that_did_not_end_takes_the_tick_of_the_one_before():
    passed = ev.CheckRecorded(check=Check(call="c1", command="pytest", exit_code=0, tests="3 passed"))
    stopped = d.TerminalCommandMetadata(command="pytest", exit_code=None, output="", tool_call_id="c2")
    ended = ev.DocumentFinished(document=d.TerminalCommandDocument(id="d2", sequence=1, metadata=stopped))
    state = folded(passed, command("c1", "pytest", 0, "3 passed in 1s\n"), ended)
    assert build_receipt(state, state.turns[-1]).checks == ()


def test_a_rename_is_one_file_with_both_names_before_and_after_its_verdict():
    def renamed(*events: ev.ChangeProposed | ev.VerdictGiven) -> str:
        state = folded(*events)
        return render_receipt(build_receipt(state, state.turns[-1])).split("\n")[5]

    new, old, none = change("new.py", hunk("1", 1, 1)), change("old.py", hunk("2", 0, 79)), FileState(kind="absent")
    new = replace(new, change=replace(new.change, base=none, source=OLD, renamed_from="old.py"))
    old = replace(old, change=replace(old.change, operation="delete", pending=none))
    assert renamed(new, old) == "| `old.py` → `new.py` | +1 −1 | to review |"
    verdict_event = verdict("new.py", "accept", hunk("1", 1, 1), renamed_from="old.py", moved_with="old.py accept")
    beside = verdict("old.py", "accept", hunk("2", 0, 79), moved_with="new.py accept")
    assert renamed(verdict_event, beside) == "| `old.py` → `new.py` | +1 −1 | accepted |"


def test_a_receipt_is_markdown_in_which_foreign_text_is_only_text():
    check = Check(call="c1", command="pytest | tee `x`", exit_code=1, tests="1 failed")
    state = folded(change("a`|b.py", hunk("1", 3, 1)), ev.CheckRecorded(check=check))
    assert render_receipt(build_receipt(state, state.turns[-1])) == (
        "> Fix the rate\n> please\n\n"
        "| file | lines | |\n|:--|--:|:--|\n| `aˋ¦b.py` | +3 −1 | to review |\n\n"
        "- ❌ `pytest ¦ tee ˋxˋ`: 1 failed\n\n"
        "openai/m · 3 steps · 4.2 s · 900 tokens · $0.0200\n"
    )


def test_a_verdict_that_is_undone_is_told_no_more():
    one = hunk("1", 3, 1)
    state = folded(
        change("a.py", one),
        verdict("a.py", "accept", one),
        ev.ChangeResolved(path="a.py"),
        change("a.py", one),
        ev.VerdictUndone(id="a.py accept", path="a.py"),
    )
    assert build_receipt(state, state.turns[-1]).files == (ReceiptFile("a.py", 3, 1, waiting=1),)
