"""What the model is told about a command: what it did in git and to folders, and what it left running."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from core.config.settings import CommandSettings, ModelSettings, Settings
from core.protocol import events as ev
from core.sandbox.box import Tier
from tests.support.agent_case import Case, calls, says
from tests.support.boxes import boxed, command


def make_repository(case: Case) -> None:
    (case.project / "src").mkdir()
    (case.project / "src" / "a.py").write_text("x = 1\n")
    (case.project / "src" / "b.py").write_text("y = 1\n")
    setting = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (("init", "-q", "-b", "main", "."), ("add", "."), (*setting, "commit", "-qm", "first")):
        subprocess.run(("git", *words), cwd=case.project, check=True, capture_output=True)


async def tell(tmp_path, *lines: str) -> list[str]:
    """Run the commands, each as a call of its own, in a repository; return their results."""
    async with boxed(tmp_path, *map(command, lines), says("Done.")) as case:
        make_repository(case)
        assert (await case.turn()).reason == "done"
        return case.results()


COMMIT = "git -c user.name=A -c user.email=a@example.org commit -q"


async def test_a_commit_is_named_with_its_branch_and_as_what_it_is(tmp_path):
    [result] = await tell(tmp_path, f"git checkout -q -b fix && echo 'x = 2' > src/a.py && {COMMIT} -am 'fix x'")
    assert "[changed: edited src/a.py; git: commit " in result
    assert ' "fix x", branch fix; pending review]' in result
    assert 'in the shadow only; the user decides about it in the review. Say "proposed".]' in result
    assert "generated" not in result


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("echo 1 > src/a.py; git add src/a.py", "git: staged changes;"),
        ("git tag v1; git branch other", "git: branch other, tag v1;"),
        ("git checkout -q --detach", "git: HEAD at "),
        (f"{COMMIT} --allow-empty -m one; {COMMIT} --allow-empty -m two", '"one", '),
        ("git checkout -q -b next", "git: branch next;"),
        ("git status --short", "[changed nothing]"),
        ("git log --oneline >/dev/null; git diff HEAD", "[changed nothing]"),
    ],
)
async def test_what_became_of_references_is_one_line(tmp_path, line, told):
    [result] = await tell(tmp_path, line)
    assert told in result
    assert ("in the shadow only" in result) is ("git:" in told or "one" in told)


async def test_folders_are_named_and_what_is_restored_is_not_created(tmp_path):
    made, gone, back, moved = await tell(
        tmp_path,
        "mkdir x && mkdir -p y/z",
        "rm src/b.py; touch src/new.py",
        "git checkout -- src; rm src/new.py",
        "rmdir x",
    )
    assert "[changed: created the empty folders x, y/z; pending review]" in made
    assert "created src/new.py; deleted src/b.py" in gone
    assert "created" not in back
    assert "back to the project's version: src/b.py, src/new.py" in back
    assert "[changed: removed the empty folder x; pending review]" in moved


async def test_what_a_command_leaves_running_is_named_when_it_is_ended(tmp_path):
    lines = "sleep 501 & nohup sleep 502 >/dev/null 2>&1 & setsid sleep 503 & (sleep 504 &); sleep 0.2; echo ready"
    left, quiet = await tell(tmp_path, lines, "(true &); wait; echo two | cat")
    for seconds in range(501, 505):
        assert f"`sleep {seconds}`" in left
    assert "Ended with the command: " in left
    assert "Start what has to go on as a background command." in left
    assert "Ended with" not in quiet


async def test_in_a_container_it_goes_on_and_is_named_as_that(tmp_path):
    async with boxed(tmp_path, command("sleep 505 & sleep 0.2; echo ready"), says("."), tier=Tier.CONTAINER) as case:
        await case.turn()
        [result] = case.results()
        assert "Still running: `sleep 505`." in result


async def test_a_conflict_and_an_edit_of_the_user_reach_the_model_once(tmp_path):
    text = "".join(f"{number}\n" for number in range(1, 21))
    edits = [
        calls(("search_replace", {"file_path": name, "old_string": "\n10\n", "new_string": "\nten\n"}))
        for name in ("a.txt", "b.txt")
    ]
    async with boxed(tmp_path, *edits, says("One."), says("Two."), says("Three."), says("Four.")) as case:
        for name in ("a.txt", "b.txt"):
            (case.project / name).write_text(text)
        await case.turn()
        (case.project / "a.txt").write_text(text.replace("\n10\n", "\n10!\n"))
        (case.project / "b.txt").write_text(text.replace("\n19\n", "\nnineteen\n"))
        for name in ("a.txt", "b.txt"):
            case.shadow.check_disk(name)
        await case.turn("Go on")
        news = str(case.model.requests[-1].messages[-1])
        assert "These pending changes of yours are in conflict." in news
        assert "- a.txt, lines 10: the file was edited in the project at the same place" in news
        assert "The user edited files in which you have pending changes." in news
        assert "- b.txt" in news
        assert "+nineteen" in news
        await case.turn("And on")
        assert "in conflict" not in str(case.model.requests[-1].messages[-1])
        (case.project / "a.txt").write_text(text)
        case.shadow.check_disk("a.txt")
        await case.turn("Once more")
        assert "No longer in conflict: a.txt." in str(case.model.requests[-1].messages[-1])


async def test_a_turn_that_the_user_stopped_is_told_with_the_next_prompt(tmp_path):
    async with boxed(tmp_path, command("echo ready; exec sleep 600"), says("Fine."), says("Yes.")) as case:
        running = asyncio.Event()
        case.on_event = lambda event: running.set() if isinstance(event, ev.ToolOutput) else None
        turn = asyncio.ensure_future(case.turn())
        await asyncio.wait_for(running.wait(), 30)
        case.session.interrupt()
        assert (await turn).reason == "interrupted"
        assert "Stopped by the user" in case.results()[0] or "Stopped before it finished" in case.results()[0]
        await case.turn("Something else")
        assert "The user stopped your previous turn before it was done." in str(case.model.requests[-1].messages[-1])
        await case.turn("And more")
        assert "The user stopped" not in str(case.model.requests[-1].messages[-1])


async def test_a_mode_that_changed_while_the_session_was_closed_is_told_as_a_change(tmp_path):
    async with boxed(tmp_path, says("One."), says("Two."), mode="ask") as case:
        await case.turn()
        case.session.memory.forget()  # a resumed session has announced nothing
        case.emit(ev.ModeChanged(mode="agent"))
        await case.turn("Do it")
        assert "The mode changed from ask to agent." in str(case.model.requests[-1].messages[-1])


async def test_long_output_is_in_a_file_that_read_file_and_grep_take(tmp_path):
    async with boxed(tmp_path, command("seq 1 9000 | sed 's/^/line number /'"), says("."), says(".")) as case:
        await case.turn()
        [result] = case.results()
        name = result.partition("read_file ")[2].split()[0]
        assert len(result) <= 35_000
        assert "in lines " in result
        arguments = [("grep", {"pattern": "number 500[0-9]$", "path": name})]
        arguments.append(("read_file", {"target_file": name, "offset": 5_000, "limit": 2}))
        case.model.steps = [calls(*arguments), says("Done.")]
        await case.turn("Look")
        found, read = case.results()[-2:]
        assert "10 matches in 1 file" in found
        assert "5000|line number 5000" in read


@pytest.mark.parametrize("line", ["python3 -m http.server 8756 > server.log 2>&1 &", "cd . && nohup sleep 600 &"])
async def test_a_command_that_ends_in_an_ampersand_is_a_job_that_goes_on(tmp_path, line):
    async with boxed(tmp_path, command(line), says(".")) as case:
        await case.turn()
        assert "runs in the background as job_1" in case.results()[0]
        [job] = case.session.terminal.jobs.running_jobs
        assert job.command == line.rstrip("& ")


@pytest.mark.parametrize("line", ["true & sleep 0.1", "echo 'a &'", "true && true", "echo a \\&", "(sleep 600 &)"])
async def test_any_other_ampersand_is_left_to_the_shell(tmp_path, line):
    async with boxed(tmp_path, command(line), says(".")) as case:
        await case.turn()
        assert "exit code 0" in case.results()[0]


async def test_a_model_of_text_is_told_as_much(tmp_path):
    settings = Settings(commands=CommandSettings(policy="auto"), models={"directed/m": ModelSettings(dialect="tags")})
    lines = "<execute_bash>\nmkdir x; sleep 506 & sleep 0.2; echo ready\n</execute_bash>"
    async with boxed(tmp_path, says(lines), says("."), settings=settings) as case:
        await case.turn()
        text = case.results()[0]
        assert "ready\nEnded with the command: `sleep 506`" in text
        assert "[changed: created the empty folder x; pending review]\n[Command finished. exit code 0]" in text
