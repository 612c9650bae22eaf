"""The rights that a command of the protocol needs by HTTP. One that is not named here needs all of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.providers.registry import names_file_or_command
from core.transports.http.access import Grant

# What works with the agent and its shadow. Whatever writes to the project or the settings, runs a command of the user's
# own, grants something or raises a limit is none of these.
DRIVING: Final[frozenset[type]] = frozenset(
    {
        cmd.AttachmentAdd,
        cmd.BackgroundDelete,
        cmd.BackgroundMessage,
        cmd.BackgroundStart,
        cmd.BackgroundStop,
        cmd.BestRun,
        cmd.BestTake,
        cmd.CommentsSend,
        cmd.CommitDraft,
        cmd.CommitSort,
        cmd.ContextCompact,
        cmd.ContextDrop,
        cmd.DraftKeep,
        cmd.EffortSet,
        cmd.FindingsDismiss,
        cmd.FindingsFix,
        cmd.HunkComment,
        cmd.HunkEdit,
        cmd.HunkSplit,
        cmd.JobStop,
        cmd.ModeSet,
        cmd.ModelSet,
        cmd.PlanBuild,
        cmd.PlanComment,
        cmd.PlanEdit,
        cmd.PullRequestDraft,
        cmd.QuestionReply,
        cmd.SessionClose,
        cmd.SessionFork,
        cmd.SessionRename,
        cmd.SessionTag,
        cmd.ShellReset,
        cmd.SymbolRename,
        cmd.TodoSet,
        cmd.TurnInterrupt,
        cmd.TurnSteer,
        cmd.TurnSubmit,
        cmd.TurnUnsteer,
    }
)
_NOT_HERE: Final = {
    cmd.SessionOpen: "POST /api/v1/sessions opens one.",
    cmd.SessionResume: "A session is resumed by being asked for.",
}


class CheckedCommand(Struct, frozen=True):
    """A command about one session, and the rights that it needs."""

    command: cmd.AnyCommand
    needs: Grant


def check_command(command: cmd.AnyCommand, session: str) -> CheckedCommand:
    """Return a command that a client sends about a session. Raises `CommandRejected`."""
    if (hint := _NOT_HERE.get(type(command))) is not None:
        raise CommandRejected("a session is not opened by a command here.", hint=hint, code="command_refused")
    if command.session not in {"", session}:
        raise CommandRejected(f"the command is about {command.session[:100]!r}.", code="session_mismatch")
    return CheckedCommand(replace(command, session=session), find_needed_grant(command))


def find_needed_grant(command: cmd.AnyCommand) -> Grant:
    """Return the rights that a command needs."""
    if isinstance(command, cmd.SessionClose) and command.discard:
        return Grant.APPROVE
    if isinstance(command, cmd.AttachmentAdd) and _leads_out(command.path):
        return Grant.APPROVE
    if any(names_file_or_command(model) for model in _list_models(command)):
        return Grant.APPROVE
    return Grant.DRIVE if type(command) in DRIVING else Grant.APPROVE


def _list_models(command: cmd.AnyCommand) -> tuple[str, ...]:
    """Return the models that a command names, whichever command it is."""
    return (*filter(None, (getattr(command, "model", ""),)), *getattr(command, "models", ()))


def _leads_out(path: str) -> bool:
    pure = PurePosixPath(path)
    return pure.is_absolute() or ".." in pure.parts or path.startswith("~")


def find_answer(events: Iterable[ev.Envelope], approval: str) -> str | None:
    """Return a sentence about the answer that an approval has; None: it has none."""
    for envelope in events:
        if isinstance(event := envelope.event, ev.ApprovalResolved) and event.id == approval:
            note = f" ({event.note})" if event.note else ""
            return f"the {event.by} has answered {approval}: {event.decision}{note}."
    return None
