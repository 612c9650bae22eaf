"""Plays actions on a real engine and asks the oracle after each: what is on disk, and is it what has to be there?"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from core.engine import Engine, EngineOptions
from core.engine.session.session import Session
from core.engine.shared.box import SharedBox
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.queries import ConflictQuery
from core.protocol.review import Change, ConflictChoice, ConflictSides, Hunk
from core.sessions.store import SessionStore
from tests.fuzz import actions as act
from tests.fuzz.disk import entry_of, marks_in_git, tree_of
from tests.fuzz.ending import looked_for
from tests.fuzz.history import choose_shortening
from tests.fuzz.model import FuzzModel, access
from tests.fuzz.oracle import Allowance, Broken, Oracle, foreseen
from tests.fuzz.outside import edit, kill_sleeper
from tests.fuzz.project import AWAITED
from tests.fuzz.reach import perform_reach
from tests.support.trust import trust

PATIENCE = 40  # seconds until something counts as hanging


class Driver:
    """One engine with one session, its model, and what is known of the disk. `about_to(may)` is told ahead of every
    effect what it may do, so that a process that survives this one knows."""

    def __init__(
        self, project: Path, oracle: Oracle, boxes: SharedBox, about_to: Callable[[Allowance], None] = lambda _: None
    ) -> None:
        self.project, self.oracle, self.boxes, self._about_to = project, oracle, boxes, about_to
        self.model = FuzzModel()
        self.session = ""
        self.heard: list[ev.AnyEvent] = []
        self.leaks: set[str] = set()
        self._news = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._asked: dict[str, cmd.AnyCommand] = {}

    async def open(self, session: str = "", may: Allowance | None = None) -> None:
        """Start an engine, with a new session or the one of this name, which may carry on what `may` allows."""
        trust(self.project)
        self._about_to(may or Allowance())
        options = EngineOptions(watch=False, trust=True)
        self.engine = Engine(self.project, options=options, models=access(self.model), boxes=self.boxes)
        reply = await self.engine.submit(cmd.SessionResume(session=session) if session else cmd.SessionOpen())
        await self._follow(self._acked(reply))
        await self.engine.wait_idle(self.session)
        self.look(may or Allowance())

    def _acked(self, reply: cmd.Reply) -> str:
        if isinstance(reply, cmd.Reject):
            raise Broken(f"refused: {reply.code}: {reply.message}")
        return reply.session

    async def _follow(self, session: str) -> None:
        self.session = session
        self._listening = asyncio.create_task(self._listen(session))
        await asyncio.sleep(0)  # it has begun to listen

    @property
    def runtime(self) -> Session:
        return self.engine._find_session(self.session)

    async def _listen(self, session: str) -> None:
        async for envelope in self.engine.events(session):
            text = str(envelope.event)
            self.leaks |= {f"event: {name}" for name, secret in looked_for() if secret in text}
            self.heard.append(envelope.event)
            self._news.set()
            match envelope.event:
                case ev.ApprovalRequested(id=name, subject=subject, kind=kind, options=options):
                    is_safe = kind != "network" and not any(
                        fragment in subject for fragment in (".env", ".ssh", "local")
                    )
                    is_permanent = kind == "command" and "allow_always" in options and len(subject) % 2
                    allowed = "allow_always" if is_permanent else "allow_once"
                    decision = allowed if is_safe else "reject_once"  # of "machine" too: it stays in the box
                    await self._tell(cmd.ApprovalAnswer(session=session, id=name, decision=decision))
                case ev.QuestionAsked(id=name):
                    await self._tell(cmd.QuestionReply(session=session, id=name))
                case _:
                    pass

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise Broken(f"{what} did not happen in {PATIENCE} seconds") from None

    @property
    def said_something(self) -> bool:
        """Whether there is something in the session that the user would miss."""
        return any(isinstance(event, ev.TurnStarted | ev.CommandRan | ev.ChangeProposed) for event in self.heard)

    def count(self, kind: type[ev.Event]) -> int:
        return sum(isinstance(event, kind) for event in self.heard)

    async def _tell(self, command: cmd.AnyCommand) -> cmd.Reply:
        reply = await self.engine.submit(command)
        if isinstance(reply, cmd.Reject):
            self._no_fault(reply.message)
        return reply

    def _no_fault(self, message: str) -> None:
        if message.startswith("internal error"):
            raise Broken(message)

    async def do(self, command: cmd.AnyCommand, may: Allowance | None = None) -> cmd.Reply:
        """Submit, wait for the effect, look at the disk."""
        self._about_to(may or Allowance())
        reply = await self._tell(command)
        await self.engine.wait_idle(self.session)
        self.look(may or Allowance())
        return reply

    def look(self, may: Allowance) -> None:
        for event in self.heard:
            if isinstance(event, ev.ErrorRaised):
                self._no_fault(event.message)
        disk = tree_of(self.project)
        git_moved = any(
            disk.get(path) != self.oracle.disk.get(path)
            for path in disk.keys() | self.oracle.disk.keys()
            if path.startswith(".git/")
        )
        faults = self.oracle.check(disk, may)
        if git_moved and "git" not in AWAITED and (strange := marks_in_git(self.project, disk) - self.oracle.accepted):
            faults.append(f"in git, and never accepted: {sorted(strange)}")
        if faults:
            raise Broken("; ".join(faults[:4]))

    # what is pending

    def _blob(self, name: str) -> bytes:
        return self.runtime.shadow.blobs.get(name)

    def list_changes(self) -> list[Change]:
        return list(self.runtime.shadow.list_changes())

    def _hunks(self) -> list[tuple[Change, Hunk]]:
        return [(change, hunk) for change in self.list_changes() for hunk in change.hunks]

    # actions

    async def perform(self, action: act.AnyAction) -> None:
        if isinstance(action, act.Crash):
            action = action.during  # where no process can be spared, it is what would have been cut off
        match action:
            case act.Outside():
                self._outside(action)
            case act.Mode(mode=mode):
                await self.do(cmd.ModeSet(session=self.session, mode=mode))
            case act.Best() | act.Take() | act.Forget() | act.Commit() | act.Review() | act.Finding():
                await perform_reach(self, action)
            case _:
                await getattr(self, f"_{type(action).__name__.lower()}")(action)

    async def _turn(self, turn: act.Turn) -> None:
        self.model.begin(turn)
        ended = self.count(ev.TurnFinished)
        reply = await self.do(cmd.TurnSubmit(session=self.session, text="Do it"))
        if isinstance(reply, cmd.Reject):
            return
        if turn.pause >= 0:
            reached = asyncio.ensure_future(self.model.reached.wait())
            reached.add_done_callback(lambda _: self._news.set())
            await self.until(lambda: reached.done() or self.count(ev.TurnFinished) > ended, "a turn's next step")
            reached.cancel()
            for action in turn.during:
                await self.perform(action)
            self.model.go_on.set()
        await self.until(lambda: self.count(ev.TurnFinished) > ended, "the end of a turn")
        await self.engine.wait_idle(self.session)
        self.look(Allowance())

    def _outside(self, action: act.Outside) -> None:
        path = self.project / action.path
        edit(path, action)
        there = os.path.relpath(path.resolve(), self.project)  # through a link, another file was edited
        self.look(
            Allowance(
                exact={
                    relative_path: [entry_of(self.project / relative_path)] for relative_path in (action.path, there)
                }
            )
        )

    async def _command(self, action: act.Command) -> None:
        ran, heard = self.count(ev.CommandRan), self.count(ev.ToolOutput)
        reply = await self.do(cmd.CommandRun(session=self.session, command=action.command))
        if isinstance(reply, cmd.Reject):
            return
        if action.kill:
            await self.until(lambda: self.count(ev.ToolOutput) > heard or self.count(ev.CommandRan) > ran, "output")
            kill_sleeper()
        await self.until(lambda: self.count(ev.CommandRan) > ran, f"the end of {action.command!r}")
        self.look(Allowance())

    async def _judge(self, action: act.Judge) -> None:
        if action.what == "bulk":
            await self._judge_bulk(action)
            return
        changes = self.list_changes()
        if not changes:
            return
        chosen, path, ids = [], "", ()
        if action.what == "all":
            chosen = [(change, ()) for change in changes if not change.protected]
        else:
            hunks = self._hunks()
            change, hunk = hunks[action.at % len(hunks)] if hunks else (changes[action.at % len(changes)], None)
            path, ids = change.path, ((hunk.id,) if action.what == "hunk" and hunk else ())
            chosen = [(change, ids)]
        accepts = action.verdict == "accept"
        may = foreseen(changes, chosen, self.oracle.disk, self._blob) if accepts else Allowance()
        command = cmd.HunkResolve(
            session=self.session, path=path, verdict=action.verdict, hunks=ids, confirmed=action.confirmed
        )
        await self._remembering(command, may)

    async def _remembering(self, command: cmd.AnyCommand, may: Allowance) -> None:
        """As `do`; what new verdicts changed is kept for when they are undone."""
        known = {verdict.id for verdict in self.runtime.review.verdicts}
        before = self.oracle.disk
        await self.do(command, may)
        changed = {
            path: before.get(path)
            for path in before.keys() | self.oracle.disk.keys()
            if before.get(path) != self.oracle.disk.get(path)
        }
        for verdict in self.runtime.review.verdicts:
            if verdict.id not in known:
                self.oracle.before[verdict.id] = changed

    async def _judge_bulk(self, action: act.Judge) -> None:
        bulks = self.runtime.review.bulks
        if not bulks:
            return
        bulk = bulks[action.at % len(bulks)]
        accepts, is_git = action.verdict == "accept", bulk.kind == "git"
        may = Allowance(generated=accepts and not is_git, git=accepts and is_git)
        command = cmd.BulkResolve(
            session=self.session, root=bulk.root, verdict=action.verdict, confirmed=action.confirmed
        )
        await self._remembering(command, may)

    async def _rework(self, action: act.Rework) -> None:
        hunks = self._hunks()
        if not hunks:
            return
        change, hunk = hunks[action.at % len(hunks)]
        where = {"session": self.session, "path": change.path, "hunk": hunk.id}
        match action.how:
            case "split":
                await self.do(cmd.HunkSplit(**where))
            case "join":
                await self.do(cmd.HunkJoin(**where))
            case "edit":
                await self.do(cmd.HunkEdit(**where, text=action.text))
            case "comment":
                await self.do(cmd.HunkComment(**where, text=action.text))

    async def _settle(self, action: act.Settle) -> None:
        conflicts = [pending_change for pending_change in self.list_changes() if pending_change.conflict]
        if not conflicts:
            return
        change = conflicts[action.at % len(conflicts)]
        sides = await self.engine.query(ConflictQuery(session=self.session, path=change.path))
        if not isinstance(sides, ConflictSides):
            return
        choices = tuple(ConflictChoice(take=action.take, text=action.text) for _ in sides.clashes)
        settle = cmd.ConflictResolve(
            session=self.session, path=change.path, choices=choices, mine=sides.mine.blob, theirs=sides.theirs.blob
        )
        await self.do(settle)

    async def _restore(self, action: act.Restore) -> None:
        points = sorted(self.runtime.review.checkpoints)
        if not points or self.engine._find_session(self.session).turn_slot.is_running:
            return
        may = Allowance(loose=set(self.oracle.written), generated=True)
        name = points[action.at % len(points)]
        await self.do(cmd.CheckpointRestore(session=self.session, id=name, what=action.what), may)

    async def _simple(self, action: act.Simple) -> None:
        match action.what:
            case "undo":
                await self._undo()
            case "interrupt":
                await self.do(cmd.TurnInterrupt(session=self.session))
            case "steer":
                await self.do(cmd.TurnSteer(session=self.session, text=action.text))
            case "send_comments":
                await self._sent_comments()
            case "fork":
                await self._fork()
            case "restart":
                await self.restart()
            case "compact" | "drop":
                if (command := await choose_shortening(self.engine, self.session, action.what)) is not None:
                    await self.do(command)
            case "plan_edit" | "todo":
                await self._plan(action)

    async def _undo(self) -> None:
        verdicts = self.runtime.review.verdicts
        may = Allowance()
        if verdicts and verdicts[-1].verdict == "accept":
            changed = self.oracle.before.get(verdicts[-1].id, {})
            may.loose = {*self.oracle.written}
            may.exact = {path: [entry] for path, entry in changed.items()}
            bulk = verdicts[-1].bulk
            may.generated, may.git = True, bulk is not None and bulk.kind == "git"
        await self.do(cmd.VerdictUndo(session=self.session), may)

    async def _sent_comments(self) -> None:
        if self.engine._find_session(self.session).turn_slot.is_running:
            await self.do(cmd.CommentsSend(session=self.session))
            return
        self.model.begin(act.Turn())
        ended = self.count(ev.TurnFinished)
        reply = await self.do(cmd.CommentsSend(session=self.session))
        if not isinstance(reply, cmd.Reject):
            await self.until(lambda: self.count(ev.TurnFinished) > ended, "the end of a turn about comments")

    async def _fork(self) -> None:
        if self.engine._find_session(self.session).turn_slot.is_running:
            return
        reply = await self.do(cmd.SessionFork(session=self.session))
        if isinstance(reply, cmd.Ack):
            await self.engine.submit(cmd.SessionClose(session=self.session))
            await self._follow(reply.session)
            self.oracle.before = {}

    async def _plan(self, action: act.Simple) -> None:
        plans = self.runtime.state.plans
        if not plans:
            return
        path, plan = sorted(plans.items())[0]
        if action.what == "plan_edit":
            await self.do(cmd.PlanEdit(session=self.session, path=path, body=action.text))
        elif plan.todos:
            await self.do(cmd.TodoSet(session=self.session, plan=path, id=plan.todos[0].id, status="in_progress"))

    def leaked(self) -> set[str]:
        """Where secrets were seen that still are some."""
        return {leak for leak in self.leaks if leak.partition(": ")[2] not in self.oracle.exposed}

    async def _build(self, action: act.Build) -> None:
        if not self.runtime.state.plans or self.engine._find_session(self.session).turn_slot.is_running:
            return
        path = min(self.runtime.state.plans)
        self.model.begin(act.Turn(steps=action.steps))
        ended = self.count(ev.TurnFinished)
        reply = await self.do(cmd.PlanBuild(session=self.session, path=path, workers=action.workers))
        if not isinstance(reply, cmd.Reject):
            await self.until(lambda: self.count(ev.TurnFinished) > ended, "the end of a build")
            await self.engine.wait_idle(self.session)
            self.look(Allowance())

    async def restart(self) -> None:
        session = self.session
        await self.close()
        is_kept = SessionStore(self.project).has_session(session)
        if not is_kept and self.said_something:
            raise Broken("the session is gone")
        await self.open(session if is_kept else "")

    async def give_up(self) -> None:
        """End what runs, whatever it is in the middle of."""
        self.model.go_on.set()
        with suppress(Exception):
            await self.engine.close()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})

    async def close(self) -> Session:
        """End the engine; returns what the session was at its end."""
        runtime = self.runtime
        self._about_to(Allowance())
        await self.engine.close()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        self.leaks |= self.model.leaks
        self.look(Allowance())
        return runtime
