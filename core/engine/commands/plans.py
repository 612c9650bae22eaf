"""Commands on plans: edits, comments, builds, a todo's status."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from core.agent.planning.plan_sync import build_plan_events
from core.engine.proofs import build_not_proved, run_verify
from core.engine.session.live_session import Effect, LiveSession
from core.engine.subagents.merging import find_unresolved_paths, has_unfinished_todos
from core.errors import CommandRejected
from core.ids import new_id
from core.plans.plan_merge import MergedPlan
from core.plans.todo_graph import DONE, find_blockers, list_problems, select_current
from core.plans.todo_transitions import check_not_blocked
from core.prompts import render
from core.protocol import commands as cmd
from core.protocol.documents import Todo
from core.protocol.events import ContextCompacted, ModeChanged, PlanCommented, PlanUpdated, TodoChanged
from core.protocol.plans import Plan
from core.protocol.review import Comment

PlanCommand = cmd.PlanEdit | cmd.PlanComment | cmd.PlanBuild | cmd.TodoSet
MAX_COMMENT = 20_000


async def prepare_plan_command(live: LiveSession, command: PlanCommand) -> Effect:
    """Check a command on a plan and return its effect. Raises what `Reject` is to say."""
    if isinstance(command, cmd.PlanEdit):
        live.runtime.plans.load(command.path)
        return partial(_edit_plan, live, command)
    if isinstance(command, cmd.PlanComment):
        return _prepare_comment(live, command)
    if isinstance(command, cmd.TodoSet):
        return _prepare_todo_status(live, command)
    plan = live.runtime.plans.load(command.path)
    _check_build(plan, command)
    await live.turns.reserve()
    return partial(_start_build, live, plan, command)


def _edit_plan(live: LiveSession, command: cmd.PlanEdit) -> None:
    runtime = live.runtime
    if all(given is None for given in (command.name, command.overview, command.body, command.todos)):
        plan = runtime.plans.load(command.path)
        runtime.emit(PlanUpdated(plan=plan))
        runtime.emit(TodoChanged(todos=plan.todos, plan=plan.path))
        return
    merged = runtime.plans.edit(
        command.path,
        name=command.name,
        overview=command.overview,
        body=command.body,
        todos=command.todos,
        base=command.base or runtime.state.plans.get(command.path),
    )
    _emit_plan(live, merged)


def _prepare_comment(live: LiveSession, command: cmd.PlanComment) -> Effect:
    runtime, text = live.runtime, command.text.strip()
    known = runtime.review.comments.get((command.path, command.id))
    if command.id and known is None:
        raise CommandRejected(f"there is no such comment on {command.path}.", code="no_comment")
    if known is None and not (text and command.start > 0):
        raise CommandRejected("a comment needs words, and lines that it is about.", code="no_comment")
    if known is None and command.path not in runtime.state.plans:
        raise CommandRejected(f"there is no plan {command.path} in this session.", code="plan_unknown")
    if max(len(text), len(command.excerpt)) > MAX_COMMENT:
        raise CommandRejected(f"a comment has at most {MAX_COMMENT:,} characters.", code="text_too_long")
    said = known or Comment(
        path=command.path,
        hunk=new_id("say"),
        text=text,
        start=command.start,
        lines=command.excerpt.count("\n") + 1,
        excerpt=command.excerpt,
        on_plan=True,
    )
    return partial(runtime.emit, PlanCommented(comment=replace(said, text=text)))


def _emit_plan(live: LiveSession, merged: MergedPlan) -> None:
    runtime = live.runtime
    for event in build_plan_events(merged):
        runtime.emit(event)
    if runtime.state.todos_plan_path == merged.plan.path:
        runtime.emit(TodoChanged(todos=merged.plan.todos, plan=merged.plan.path))


def _check_build(plan: Plan, command: cmd.PlanBuild) -> None:
    if not 1 <= command.workers <= cmd.MAX_SUBAGENTS:
        raise CommandRejected(
            f"{command.workers} can't work at once.", hint=f"From 1 to {cmd.MAX_SUBAGENTS} can.", code="workers_invalid"
        )
    if faults := list_problems(plan.todos):
        raise CommandRejected(
            f"{plan.path} can't be built: {faults[0]}",
            hint="agent-tui plan check names every fault with its line.",
            code="plan_faulty",
        )
    chosen = next((todo for todo in plan.todos if todo.id == command.todo), None)
    if command.todo and chosen is None:
        raise CommandRejected(f"the plan has no todo {command.todo!r}.", code="todo_unknown")
    left = [todo for todo in ((chosen,) if chosen else plan.todos) if todo.status not in DONE]
    if (plan.todos or chosen) and not left:
        raise CommandRejected("nothing is left to build.", hint="Every todo is completed.", code="nothing_to_build")
    if chosen and (waits := find_blockers(plan.todos).get(chosen.id)):
        raise CommandRejected(f"{chosen.id} waits for {', '.join(waits)}.", code="todo_blocked")


def _start_build(live: LiveSession, plan: Plan, command: cmd.PlanBuild) -> None:
    runtime = live.runtime
    if runtime.state.mode != "agent":
        runtime.emit(ModeChanged(mode="agent"))
    if command.fresh and runtime.state.messages:
        runtime.emit(ContextCompacted(messages=(), before_tokens=runtime.state.context_used, after_tokens=0))
        live.turns.reset_context()
    runtime.emit(PlanUpdated(plan=plan))
    runtime.emit(TodoChanged(todos=plan.todos, plan=plan.path))
    chosen = next((todo for todo in plan.todos if todo.id == command.todo), None)
    now = next((todo.id for todo in plan.todos if todo.status == "in_progress"), "")
    what = f"the todo {chosen.id} of the plan" if chosen else "the plan"
    prompt = f"Build {what} “{plan.name}” ({plan.path})."
    if command.workers > 1 or has_unfinished_todos(live, plan.path):
        from core.engine.subagents.parallel_build import ParallelBuild

        build = ParallelBuild(live, plan.path, command.workers, command.todo)
        live.turns.start_work(prompt, lambda context: build.run(context, prompt))
        return
    by_file = runtime.settings.get_dialect(runtime.state.model) == "command"
    shown = select_current(plan.todos)
    shown += (chosen,) if chosen and chosen not in shown else ()
    more = len(plan.todos) - len(shown)
    told = {"plan": plan, "chosen": chosen, "now": now, "by_file": by_file, "todos": shown, "left_out": more}
    instruction = render("plan_build", **told)
    live.turns.start_build(prompt, plan.path, command.todo, instruction)


def _prepare_todo_status(live: LiveSession, command: cmd.TodoSet) -> Effect:
    runtime = live.runtime
    path = command.plan or runtime.state.todos_plan_path
    todos = runtime.plans.load(path).todos if path else runtime.state.todos
    todo = next((each for each in todos if each.id == command.id), None)
    if todo is None:
        raise CommandRejected(f"there is no todo {command.id!r}.", code="todo_unknown")
    check_not_blocked(todos, command.id, command.status, anyway=command.anyway)
    if command.status == "completed" != todo.status and todo.verify:
        return partial(live.run_beside, partial(_complete_proved, live, command, path, todo), f"proof of {todo.id}")
    return partial(_set_status, live, command, path)


def complete_resolved_todos(live: LiveSession, path: str) -> None:
    """Complete the todos that only waited for conflicts in `path` ("" = any) and whose `verify` passes.

    A build that still runs does that itself.
    """
    state = live.runtime.state
    working = {todo.id for todo in state.todos if todo.status == "in_progress"}
    for each in state.subagents.values():
        is_meant = each.state == "merged" and path in {"", *each.conflicts} and each.plan == state.todos_plan_path
        if (
            is_meant
            and each.conflicts
            and each.todo in working
            and not live.builds
            and not find_unresolved_paths(live, each)
        ):
            live.schedule(_prepare_todo_status(live, cmd.TodoSet(plan=each.plan, id=each.todo, status="completed")))


def _set_status(live: LiveSession, command: cmd.TodoSet, path: str) -> None:
    runtime = live.runtime
    if path:
        _emit_plan(live, MergedPlan(plan=runtime.plans.set_todo(path, command.id, command.status)))
        return
    changed = tuple(_replace_status(todo, command) for todo in runtime.state.todos)
    runtime.emit(TodoChanged(todos=changed))


async def _complete_proved(live: LiveSession, command: cmd.TodoSet, path: str, todo: Todo) -> None:
    """Complete a todo if its `verify` passes; the chat shows that command like one that the user typed."""
    result = await run_verify(live.runtime.terminal, path, todo)
    if result is None or result.exit_code != 0:
        raise build_not_proved(todo, result)
    _set_status(live, command, path)


def _replace_status(todo: Todo, command: cmd.TodoSet) -> Todo:
    return replace(todo, status=command.status) if todo.id == command.id else todo
