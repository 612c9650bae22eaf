"""Commands on the terminal: the user's own commands, background jobs, the shell, a todo's `verify` command.

The `verify` command comes from a file of the project, so it runs only in a box.
"""

from __future__ import annotations

from functools import partial

from core.engine.commands.turns import check_text
from core.engine.session.hooks import USER_TOOL, find_hook_refusal
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.errors import CommandRejected
from core.hooks.dialect_names import HookEvent
from core.hooks.payload import HookCall
from core.hooks.session_hooks import HOOKS_HINT, HookOccasion, SessionHooks
from core.protocol import commands as cmd
from core.protocol.documents import Todo
from core.protocol.events import Notice, TodoVerified
from core.shell.terminal import Terminal
from core.shell.user_command import UserCommand
from core.shell.verification.clean_run import verify_todo_run


def prepare_run(session: Session, command: cmd.CommandRun) -> Effect:
    """Run a command that the user typed, in parallel to turns."""
    check_text(command.command, "command")
    if "\0" in command.command:
        raise CommandRejected("the command holds a NUL character.", code="command_invalid")
    return partial(run_typed, session, command.command, on_machine=command.on_machine)


def run_typed(session: Session, command: str, *, on_machine: bool = False) -> None:
    """Run a command as one of the user, in parallel to turns."""
    run = UserCommand(session.terminal, command, is_unsandboxed=on_machine)

    async def work() -> None:
        if (refusal := await find_hook_refusal(session.hooks, command, run.call)) is not None:
            session.report_error(CommandRejected(refusal, hint="It was not run.", code="hook_refused"))
        else:
            await run.run()
            await report_command(session.hooks, command, run)

    session.run_in_parallel(work, name=run.call)


async def report_command(hooks: SessionHooks, command: str, run: UserCommand) -> None:
    """Report a command of the user to the hooks."""
    if run.result is None:
        return
    hook_call = HookCall(
        tool=USER_TOOL,
        call=run.call,
        arguments={"command": command},
        result=run.result.output,
        duration_ms=run.result.duration_ms,
    )
    await hooks.run(HookOccasion(event=HookEvent.AFTER_SHELL, call=hook_call, subjects=(command,)))


def prepare_job_stop(session: Session, command: cmd.JobStop) -> Effect:
    """Stop a background job, or all of them."""
    jobs = session.terminal.jobs
    living = [job.id for job in jobs.running_jobs]
    if command.job:
        _check_running(session, command.job)

    async def stop() -> None:
        for job in [command.job] if command.job else living:
            await jobs.end(job)

    return stop


def prepare_job_absorb(session: Session, command: cmd.JobAbsorb) -> Effect:
    """Take in what a running job has written so far."""
    jobs = session.terminal.jobs
    _check_running(session, command.job)

    async def absorb() -> None:
        effects = await jobs.absorb(command.job)
        session.emit_outside_turn(Notice(level="info", message=f"{command.job}: {effects}."))

    return absorb


def prepare_job_restart(session: Session, command: cmd.JobRestart) -> Effect:
    """End a job and start it again, now or whenever it can't see what has changed."""
    jobs = session.terminal.jobs
    _check_running(session, command.job)
    if jobs.get_job(command.job).execution.request.is_driven:
        raise CommandRejected(f"{command.job} is the agent's own interpreter: it can only be stopped.")
    if command.when == "now":
        return partial(jobs.restart, command.job)

    async def choose() -> None:
        jobs.set_restarts_on_edit(command.job, is_on=command.when == "edited")

    return choose


def _check_running(session: Session, name: str) -> None:
    """Raise `CommandRejected` unless a job of this name is running."""
    if name not in [job.id for job in session.terminal.jobs.running_jobs]:
        raise CommandRejected(f"no job {name!r} is running.", code="job_unknown")


def prepare_port_open(session: Session, command: cmd.PortOpen) -> Effect:
    """Forward a port to this machine."""
    network = session.terminal.host.network
    network.check_port(command.port, session.terminal.host.box.tier)
    return partial(network.open_port, command.port)


def prepare_port_close(session: Session, command: cmd.PortClose) -> Effect:
    """Stop forwarding a port."""
    return partial(session.terminal.host.network.close_port, command.port)


def prepare_reset(session: Session, _: cmd.ShellReset) -> Effect:
    return session.terminal.reset_shell


async def run_verify(terminal: Terminal, hooks: SessionHooks, plan: str, todo: Todo) -> TodoVerified | None:
    """Run the `verify` command of a todo in a clean layer. Return the verification; None = it could not be started,
    which is reported already. Raises `CommandRejected` if there is no box, or a hook refuses it."""
    if not await terminal.find_box():
        raise CommandRejected(
            f"{todo.id} is verified by `{todo.verify}`, and commands can't be sandboxed on this machine.",
            hint="Run it yourself, and set the status in the plan file.",
            code="not_contained",
        )
    command = UserCommand(terminal, todo.verify, is_clean=True)
    if (refusal := await find_hook_refusal(hooks, todo.verify, command.call)) is not None:
        raise CommandRejected(
            f"{todo.id} is not completed, because its command was not run: {refusal}",
            hint=HOOKS_HINT,
            code="hook_refused",
        )
    await command.run()
    await report_command(hooks, todo.verify, command)
    if command.result is None:
        return None
    emit = terminal.host.emit_outside_turn
    return verify_todo_run(terminal.host, todo, plan=plan, result=command.result, emit=emit)


def build_verification_error(todo: Todo, verification: TodoVerified | None) -> CommandRejected:
    """Return the error for a todo whose command did not pass."""
    code = verification.exit_code if verification is not None else None
    outcome = "it did not finish" if code is None else f"exit code {code}"
    output = (verification.output.strip() if verification is not None else "") or "(no output)"
    reason = f"{verification.problem}\n" if verification is not None and verification.problem else ""
    return CommandRejected(
        f"{todo.id} is not completed: `{todo.verify}` did not pass ({outcome}).",
        hint=f"{reason}{output}",
        code="not_proved",
    )
