"""Random sequences. What is likely: things happen to the same few files, and verdicts meet what is pending."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from tests.fuzz import actions as act
from tests.fuzz.project import SECRETS

PATHS = ("a.py", "b.txt", "src/c.py", "src/deep/d.md", "run.sh", "new.txt", "src/new/e.py", ".gitignore")
COMMIT = "git add -A && git -c user.name=A -c user.email=a@example.invalid commit -qm more"
COMMANDS = (
    "echo {} >> a.py; echo {} > made.txt",
    "sed -i '3s/.*/{}/' a.py src/c.py",
    "rm -r src; echo {} > src",
    "mv a.py moved.py; echo {} >> moved.py",
    "git mv b.txt c.txt; echo {} >> c.txt",
    "mkdir -p build x; echo {} > build/one; echo {} > x/two; echo {} > big.log",
    "chmod 755 a.py; ln -s a.py new.txt; echo {} > '-odd name'",
    "rm -f link; ln -s ../../outside link; echo {} > src/deep/d.md",
    "printf '\\377\\0{}' > data.bin",
    "echo {} >> b.txt; " + COMMIT,
    "echo {} > new.txt; git stash -qu; echo {} > run.sh",
    "git checkout -qb topic; echo {} > new.txt; " + COMMIT + "; git tag t1",
    "cat .env local/.env ~/.ssh/id_ed25519; env; find / -name id_ed25519 -exec cat {{}} + 2>/dev/null; echo {} >> a.py",
    "cp .env local/.env src/ 2>/dev/null; cp -r ~/.ssh src/; grep -r . . > all.log; echo {} > new.txt",
    "git show HEAD:.env; git log -p | tail -3; echo {} >> run.sh",
    "(setsid sleep 300 >/dev/null 2>&1 &); echo {} > new.txt",
    "echo {} > new.txt; exit 3",
    "echo {} > $TMPDIR/left; echo {} > /tmp/left; echo {} > ~/left; echo {} > new.txt",
    "echo '#!/bin/sh\necho {}' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit",
    "git config alias.x '!echo {}'; echo {} > .vscode-tasks; mkdir -p .vscode; echo '{{}}' > .vscode/tasks.json",
)
UP = "while ! grep -q sleep /proc/$!/comm; do :; done; echo up"
TODOS = [{"id": "one", "content": "One"}, {"id": "two", "content": "Two", "dependencies": ["one"]}]
KILLED = f"echo {{}} > made.txt; sleep 300 & {UP}; wait; echo {{}} >> made.txt"


class _Marks:
    """Each is given once."""

    def __init__(self) -> None:
        self._number = 0

    def agents(self) -> str:
        self._number += 1
        return f"ag_{self._number}_x"

    def users(self) -> str:
        self._number += 1
        return f"us_{self._number}_x"


class Generator:
    """Sequences from a seed."""

    def __init__(self, seed: int) -> None:
        self._chance, self._marks, self._seed = Random(seed), _Marks(), seed
        self._makers: list[tuple[int, Callable[[], act.AnyAction]]] = [
            (10, self._turn),
            (5, self._outside),
            (2, self._command),
            (14, self._judge),
            (4, self._rework),
            (2, self._settle),
            (3, self._simple),
            (2, lambda: act.Simple(what="undo")),
            (1, self._restore),
            (1, self._mode),
            (1, lambda: act.Forget(at=self._number())),
            (3, lambda: act.Commit(split=self._chance.choice(("none", "todo", "prompt")))),
        ]

    def sequence(self, crash: bool) -> act.Sequence:
        """A turn first, so that there is something to judge; `crash`: with processes that are killed."""
        actions = [self._turn(), *(self._any() for _ in range(self._chance.randint(2, 6)))]
        if self._chance.random() < 0.4:
            scene = self._chance.choice((self._clash, self._planning, self._commit, self._best, self._reviewing))
            at = self._chance.randrange(len(actions) + 1)
            actions[at:at] = scene()
        if crash:
            at = self._chance.randrange(1, len(actions))
            actions[at] = act.Crash(during=actions[at], at=self._chance.randint(1, 30))
        return act.Sequence(seed=self._seed, actions=tuple(actions))

    def _any(self) -> act.AnyAction:
        weights, makers = zip(*self._makers, strict=True)
        return self._chance.choices(makers, weights)[0]()

    def _filled(self, text: str) -> str:
        while "{}" in text:
            text = text.replace("{}", self._marks.agents(), 1)
        return text.replace("{{", "{").replace("}}", "}")

    # what seldom comes together by chance

    def _clash(self) -> list[act.AnyAction]:
        """The agent and the user change the same line; then it is settled, judged or taken back."""
        number = self._chance.randint(2, 29)
        old, new = f"line_{number} = {number}\n", f"line_{number} = {self._marks.agents()}\n"
        change = act.Call(tool="search_replace", arguments={"file_path": "a.py", "old_string": old, "new_string": new})
        line = number - 1 + self._chance.choice((0, 0, 1, -1))
        outside = act.Outside(path="a.py", how="replace", text=f"{self._marks.users()}\n", line=line)
        after = [self._chance.choice((self._settle, self._judge))() for _ in range(3)]
        return [act.Turn(steps=((change,),)), outside, self._judge(), *after]

    def _planning(self) -> list[act.AnyAction]:
        plan = act.Turn(steps=((self._plan(),),))
        more = [act.Simple(what=self._chance.choice(("plan_edit", "todo")), text="# Another body\n") for _ in range(2)]
        steps = tuple(self._step() for _ in range(4))
        build = act.Build(steps=steps, workers=self._chance.choice((1, 2, 2)))
        after = [self._judge() for _ in range(2)]
        return [act.Mode(mode="plan"), plan, *more, act.Mode(mode="agent"), build, *after]

    def _best(self) -> list[act.AnyAction]:
        """A prompt is tried side by side over what is pending; then parts of it are taken, and judged."""
        steps = tuple(self._step() for _ in range(self._chance.randint(2, 5)))
        stops = self._number() if self._chance.random() < 0.3 else -1
        best = act.Best(steps=steps, candidates=self._chance.choice((2, 2, 3)), stops=stops)
        between = [self._chance.choice((self._judge, self._outside, self._restart))() for _ in range(2)]
        kinds = [self._chance.choice(("all", "file", "hunk")) for _ in range(self._chance.randint(1, 3))]
        taken = [act.Take(what=kind, at=self._number()) for kind in kinds]
        return [best, *between[: self._chance.randint(0, 2)], *taken, self._judge(), self._judge()]

    def _restart(self) -> act.Simple:
        return act.Simple(what="restart")

    def _commit(self) -> list[act.AnyAction]:
        """The agent commits what the user then accepts, rejects or both; then the state of git is decided."""
        commits = [command for command in COMMANDS if "git " in command and "{}" in command]
        run = {"command": self._filled(self._chance.choice(commits))}
        turn = act.Turn(steps=((self._replace(), act.Call(tool="run_terminal_cmd", arguments=run)),))
        bulk = act.Judge(what="bulk", verdict="accept", at=self._number())
        some = [self._judge() for _ in range(self._chance.randint(0, 3))]
        rest = act.Judge(what="all", verdict=self._chance.choice(("accept", "reject")))
        return [turn, *some, rest, bulk, bulk]

    def _reviewing(self) -> list[act.AnyAction]:
        """What the user has now is reviewed, by a model that may try to write; findings are fixed and dismissed."""
        finding_lines = [self._found(number) for number in range(self._chance.randint(0, 3))]
        tried = (self._chance.choice((self._write, self._replace, self._delete, self._run))(),)
        answer = (act.Call(text="\n".join(["Read.", *finding_lines])),)
        steps = (tried, answer) if self._chance.random() < 0.7 else (answer,)
        review = act.Review(
            of=self._chance.choice(("", "", "HEAD", "HEAD~1")), steps=steps, findings=len(finding_lines)
        )
        settled = [self._finding() for _ in range(self._chance.randint(1, 3))]
        between = [self._chance.choice((self._judge, self._outside, self._restart))() for _ in range(2)]
        accepted = act.Judge(what="all", verdict="accept")
        return [self._turn(), accepted, review, *between, *settled, self._judge()]

    def _found(self, number: int) -> str:
        line = self._chance.randint(1, 30)
        severity = self._chance.choice(("high", "medium", "low"))
        return f"```{line}:{line}:a.py\nline_{line} = {line}\n```\n{severity}: Fault {number}\n\nIt is wrong.\n"

    def _finding(self) -> act.Finding:
        how = self._chance.choice(("fix", "fix", "fix_all", "dismiss", "dismiss"))
        return act.Finding(how=how, at=self._number(), steps=(self._step(),) if how.startswith("fix") else ())

    # the model

    def _turn(self) -> act.Turn:
        steps = tuple(self._step() for _ in range(self._chance.randint(1, 3)))
        if self._chance.random() < 0.25:
            during = tuple(self._beside() for _ in range(self._chance.randint(1, 3)))
            return act.Turn(steps=steps, pause=self._chance.randint(0, len(steps)), during=during)
        return act.Turn(steps=steps)

    def _step(self) -> tuple[act.Call, ...]:
        makers = (
            self._write,
            self._write,
            self._replace,
            self._replace,
            self._replace,
            self._delete,
            self._run,
            self._odd,
            self._task,
        )
        return tuple(self._chance.choice(makers)() for _ in range(self._chance.randint(1, 3)))

    def _write(self) -> act.Call:
        text = "".join(f"{self._marks.agents()}\n" for _ in range(self._chance.randint(1, 4)))
        return act.Call(tool="write", arguments={"file_path": self._path(), "contents": text})

    def _replace(self) -> act.Call:
        path, line = self._chance.choice(
            (("a.py", "line_{0} = {0}\n"), ("src/c.py", "def f{0}():\n"), ("b.txt", "three"))
        )
        old = line.format(self._chance.randint(1, 30) if path == "a.py" else self._chance.randint(0, 7))
        new = old.replace("\n", f"  # {self._marks.agents()}\n") if "\n" in old else self._marks.agents()
        if self._chance.random() < 0.3:
            new += f"{self._marks.agents()}\n"
        return act.Call(tool="search_replace", arguments={"file_path": path, "old_string": old, "new_string": new})

    def _delete(self) -> act.Call:
        return act.Call(tool="delete_file", arguments={"target_file": self._path()})

    def _run(self) -> act.Call:
        command = self._filled(self._chance.choice(COMMANDS))
        asked = {0: ["git_write"], 1: ["all"], 2: ["network", "localhost:5432"]}.get(len(command) % 10)
        more = {"required_permissions": asked} if asked else {}
        return act.Call(tool="run_terminal_cmd", arguments={"command": command, **more})

    def _task(self) -> act.Call:
        kind = self._chance.choice(("generalPurpose", "generalPurpose", "explore"))
        arguments = {"description": "A part", "prompt": "Do a part of it", "subagent_type": kind}
        return act.Call(tool="task", arguments=arguments)

    def _odd(self) -> act.Call:
        odd = (
            ("read_file", {"target_file": self._chance.choice((*PATHS, ".env", "local/.env", "absent"))}),
            ("grep", {"pattern": "TOKEN|line_1"}),
            ("list_dir", {"target_directory": "."}),
            ("todo_write", {"merge": False, "todos": TODOS}),
            ("grep", {"pattern": "ag_"}),
            ("write", {"file_path": "../outside.txt", "contents": self._marks.agents()}),
            ("write", {"file_path": ".git/hooks/pre-commit", "contents": self._marks.agents()}),
            ("write", {"file_path": ".env", "contents": self._marks.agents()}),
            ("write", "{not json"),
            ("no_such_tool", {}),
        )
        if self._chance.random() < 0.2:
            return act.Call(text=f"Your key is {SECRETS['provider']}, I think.")
        tool, arguments = self._chance.choice(odd)
        return act.Call(
            tool=tool, arguments=arguments if isinstance(arguments, dict) else {"bad": json.dumps(arguments)}
        )

    def _plan(self) -> act.Call:
        body = f"# Do it\n\n{self._marks.agents()}\n"
        plan = {"name": "A plan", "overview": "Two steps", "plan": body, "todos": TODOS}
        return act.Call(tool="create_plan", arguments=plan)

    # the user

    def _path(self) -> str:
        return self._chance.choice(PATHS)

    def _beside(self) -> act.AnyAction:
        interrupt = act.Simple(what="interrupt")
        steer = act.Simple(what="steer", text="No, keep it.")
        makers = (self._judge, self._judge, self._outside, self._rework, lambda: interrupt, lambda: steer, self._mode)
        return self._chance.choice(makers)()

    def _outside(self) -> act.Outside:
        how = self._chance.choice(("append", "append", "replace", "replace", "write", "delete", "chmod"))
        text = f"{self._marks.users()}\n"
        return act.Outside(path=self._path(), how=how, text=text, line=self._chance.randint(0, 30))

    def _command(self) -> act.Command:
        if self._chance.random() < 0.15:
            return act.Command(command=self._filled(KILLED), kill=True)
        return act.Command(command=self._filled(self._chance.choice(COMMANDS)))

    def _judge(self) -> act.Judge:
        what = self._chance.choice(("hunk", "hunk", "hunk", "file", "file", "all", "bulk"))
        verdict = self._chance.choice(("accept", "accept", "reject"))
        return act.Judge(what=what, verdict=verdict, at=self._number(), confirmed=self._chance.random() < 0.7)

    def _rework(self) -> act.Rework:
        how = self._chance.choice(("split", "join", "edit", "comment"))
        return act.Rework(how=how, at=self._number(), text=f"{self._marks.agents()}\n" if how == "edit" else "Why?")

    def _settle(self) -> act.Settle:
        take = self._chance.choice(("mine", "theirs", "both", "text"))
        return act.Settle(take=take, at=self._number(), text=f"{self._marks.agents()}\n")

    def _simple(self) -> act.Simple:
        what = self._chance.choice(
            ("send_comments", "fork", "restart", "restart", "drop", "drop", "plan_edit", "todo", "undo")
        )
        return act.Simple(what=what, text="# Another body\n")

    def _restore(self) -> act.Restore:
        return act.Restore(what=self._chance.choice(("files", "conversation", "both")), at=self._number())

    def _mode(self) -> act.Mode:
        return act.Mode(mode=self._chance.choice(("agent", "agent", "plan", "ask", "debug")))

    def _number(self) -> int:
        return self._chance.randrange(1_000)
