"""Commands on plans: edits, comments, builds, a todo's status."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from core.agent.context.turn_context import BuildTarget
from core.engine.commands.terminal import build_verification_error, run_verify
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.subagents.sessions import find_unresolved_paths, has_unfinished_todos
from core.engine.turns.lifecycle import build_plan, reserve_turn, reset_memory, start_turn
from core.errors import CommandRejected
from core.ids import new_id
from core.plans.plan_merge import MergedPlan
from core.plans.todo_graph import DONE, check_not_blocked, find_blockers, list_problems, select_current
from core.prompts import render
from core.protocol import commands as cmd
from core.protocol.documents import Plan, Todo
from core.protocol.events import ContextCompacted, ModeChanged, PlanCommented, PlanUpdated, TodoChanged
from core.protocol.review import Comment

MAX_COMMENT = 20_000  # characters


def prepare_edit(session: Session, command: cmd.PlanEdit) -> Effect:
    session.plans.store.load(command.path)
    return partial(_edit_plan, session, command)


def _edit_plan(session: Session, command: cmd.PlanEdit) -> None:
    if all(value is None for value in (command.name, command.overview, command.body, command.todos)):
        plan = session.plans.store.load(command.path)
        session.emit(PlanUpdated(plan=plan))
        session.emit(TodoChanged(todos=plan.todos, plan=plan.path))
        return
    merged_plan = session.plans.store.edit(
        command.path,
        name=command.name,
        overview=command.overview,
        body=command.body,
        todos=command.todos,
        base=command.base or session.state.plans.get(command.path),
    )
    _emit_plan(session, merged_plan)


def prepare_comment(session: Session, command: cmd.PlanComment) -> Effect:
    text = command.text.strip()
    existing_comment = session.review.comments.get((command.path, command.id))
    if command.id and existing_comment is None:
        raise CommandRejected(f"there is no such comment on {command.path}.", code="no_comment")
    if existing_comment is None and not (text and command.start > 0):
        raise CommandRejected("a comment needs text, and lines to refer to.", code="no_comment")
    if existing_comment is None and command.path not in session.state.plans:
        raise CommandRejected(f"there is no plan {command.path} in this session.", code="plan_unknown")
    if max(len(text), len(command.excerpt)) > MAX_COMMENT:
        raise CommandRejected(f"a comment can have at most {MAX_COMMENT:,} characters.", code="text_too_long")
    comment = existing_comment or Comment(
        path=command.path,
        hunk=new_id("say"),
        text=text,
        start=command.start,
        lines=command.excerpt.count("\n") + 1,
        excerpt=command.excerpt,
        on_plan=True,
    )
    return partial(session.emit, PlanCommented(comment=replace(comment, text=text)))


def _emit_plan(session: Session, merged_plan: MergedPlan) -> None:
    session.plans.publish(merged_plan)
    if session.state.todos_plan_path == merged_plan.plan.path:
        session.emit(TodoChanged(todos=merged_plan.plan.todos, plan=merged_plan.plan.path))


async def prepare_build(session: Session, command: cmd.PlanBuild) -> Effect:
    plan = session.plans.store.load(command.path)
    _check_build(plan, command)
    await reserve_turn(session)
    return partial(_start_build, session, plan, command)


def _check_build(plan: Plan, command: cmd.PlanBuild) -> None:
    if not 1 <= command.workers <= cmd.MAX_SUBAGENTS:
        raise CommandRejected(
            f"{command.workers} workers are not possible.",
            hint=f"Choose from 1 to {cmd.MAX_SUBAGENTS}.",
            code="workers_invalid",
        )
    if faults := list_problems(plan.todos):
        raise CommandRejected(
            f"{plan.path} can't be built: {faults[0]}",
            hint="agent-tui plan check lists all faults with their lines.",
            code="plan_faulty",
        )
    target_todo = next((todo for todo in plan.todos if todo.id == command.todo), None)
    if command.todo and target_todo is None:
        raise CommandRejected(f"the plan has no todo {command.todo!r}.", code="todo_unknown")
    open_todos = [todo for todo in ((target_todo,) if target_todo else plan.todos) if todo.status not in DONE]
    if (plan.todos or target_todo) and not open_todos:
        raise CommandRejected(
            "there is nothing left to build.", hint="All todos are completed.", code="nothing_to_build"
        )
    if target_todo and (blockers := find_blockers(plan.todos).get(target_todo.id)):
        raise CommandRejected(f"{target_todo.id} depends on {', '.join(blockers)}.", code="todo_blocked")


def _start_build(session: Session, plan: Plan, command: cmd.PlanBuild) -> None:
    if session.state.mode != "agent":
        session.emit(ModeChanged(mode="agent"))
    if command.fresh and session.state.messages:
        session.emit(ContextCompacted(messages=(), before_tokens=session.state.context_used, after_tokens=0))
        reset_memory(session)
    session.emit(PlanUpdated(plan=plan))
    session.emit(TodoChanged(todos=plan.todos, plan=plan.path))
    target_todo = next((todo for todo in plan.todos if todo.id == command.todo), None)
    now = next((todo.id for todo in plan.todos if todo.status == "in_progress"), "")
    subject = f"the todo {target_todo.id} of the plan" if target_todo else "the plan"
    prompt = f"Build {subject} “{plan.name}” ({plan.path})."
    if command.workers > 1 or has_unfinished_todos(session, plan.path):
        from core.engine.subagents.parallel_build import ParallelBuild

        build = ParallelBuild(session, plan.path, command.workers, command.todo)
        start_turn(session, partial(build.run, prompt=prompt), prompt)
        return
    is_outside = plan.path.startswith("/")  # commands can't write there
    by_file = session.settings.get_dialect(session.state.model) == "command" and not is_outside
    current_todos = select_current(plan.todos)
    current_todos += (target_todo,) if target_todo and target_todo not in current_todos else ()
    hidden_count = len(plan.todos) - len(current_todos)
    variables = {
        "plan": plan,
        "chosen": target_todo,
        "now": now,
        "by_file": by_file,
        "todos": current_todos,
        "left_out": hidden_count,
    }
    instruction = render("plan_build", **variables)
    target = BuildTarget(plan.path, command.todo)
    start_turn(session, partial(build_plan, prompt=prompt, target=target, instruction=instruction), prompt)


def prepare_todo_status(session: Session, command: cmd.TodoSet) -> Effect:
    path = command.plan or session.state.todos_plan_path
    todos = session.plans.store.load(path).todos if path else session.state.todos
    todo = next((candidate for candidate in todos if candidate.id == command.id), None)
    if todo is None:
        raise CommandRejected(f"there is no todo {command.id!r}.", code="todo_unknown")
    check_not_blocked(todos, command.id, command.status, anyway=command.anyway)
    if command.status == "completed" != todo.status and todo.verify:
        work = partial(_complete_verified, session, command, path, todo)
        return partial(session.run_in_parallel, work, name=f"proof of {todo.id}")
    return partial(_set_status, session, command, path)


def complete_resolved_todos(session: Session, path: str) -> None:
    """Complete todos that only waited for conflicts in `path` ("" = any). A running build does that itself."""
    state = session.state
    if session.is_building:
        return
    working = {todo.id for todo in state.todos if todo.status == "in_progress"}
    for subagent in state.subagents.values():
        is_affected = (
            subagent.state == "merged" and path in {"", *subagent.conflicts} and subagent.plan == state.todos_plan_path
        )
        if (
            is_affected
            and subagent.conflicts
            and subagent.todo in working
            and not find_unresolved_paths(session, subagent)
        ):
            todo_set = cmd.TodoSet(plan=subagent.plan, id=subagent.todo, status="completed")
            session.tasks.schedule(prepare_todo_status(session, todo_set))


def _set_status(session: Session, command: cmd.TodoSet, path: str) -> None:
    if path:
        _emit_plan(session, MergedPlan(plan=session.plans.store.set_todo(path, command.id, command.status)))
        return
    todos = session.state.todos
    new_todos = tuple(replace(todo, status=command.status) if todo.id == command.id else todo for todo in todos)
    session.emit(TodoChanged(todos=new_todos))


async def _complete_verified(session: Session, command: cmd.TodoSet, path: str, todo: Todo) -> None:
    """Complete a todo if its `verify` passes. The command is recorded like one of the user."""
    verification = await run_verify(session.terminal, session.hooks, path, todo)
    if verification is None or not verification.has_passed:
        raise build_verification_error(todo, verification)
    _set_status(session, command, path)
