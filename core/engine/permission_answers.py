"""What there is to say about permissions: what holds in a workspace, and what a pattern would speak of."""

from __future__ import annotations

from functools import partial

from core.config import Settings
from core.engine.live import Effect, LiveSession
from core.errors import AgentTuiError, CommandRejected
from core.modes import Access
from core.permissions.remembered import Kept, Remembered
from core.permissions.rules import parse_rule
from core.policy import Terms, check_pattern, decide
from core.protocol import commands as cmd
from core.protocol import queries as q
from core.workspace import Workspace

ALSO = 5
_STAND_IN = "anything"


def permissions(workspace: Workspace, settings: Settings, live: LiveSession | None) -> q.Permissions:
    """Raises `StateError` when the answers that were kept can't be read."""
    configured = [
        q.KeptPermission(choice=rule.choice, rule=str(rule), source=rule.source)
        for rule in settings.permissions.rules()
    ]
    context = live.turns.context if live is not None else None
    return q.Permissions(
        trusted=live is None or live.runtime.trusted,
        kept=(*configured, *map(_shown, Remembered(workspace.root).all())),
        hosts=context.way_out.hosts() if context is not None else (),
    )


def _shown(kept: Kept) -> q.KeptPermission:
    return q.KeptPermission(
        choice=kept.choice,
        rule=kept.rule or kept.shown,
        id=kept.id,
        exactly=not kept.rule,
        directory=kept.directory,
    )


def preview(query: q.PatternQuery, live: LiveSession | None) -> q.PatternPreview:
    """What a pattern would speak of beside the command that is asked about now."""
    choice = query.choice
    try:
        check_pattern(query.pattern, query.command, choice)
    except AgentTuiError as problem:
        return q.PatternPreview(problem=problem.explained())
    rule = parse_rule(f"Shell({query.pattern})", choice)
    also = [
        command
        for command in _commands_of(live)
        if command != query.command
        and decide(Access.EXEC, command, Terms(contained=True), rules=[rule]).choice == choice
    ]
    return q.PatternPreview(also=tuple(also[-ALSO:]), example=_example(query.pattern))


def _example(pattern: str) -> str:
    """A command that the pattern allows and that nobody thought of; "" = it allows this one alone."""
    return pattern.replace("*", _STAND_IN) if "*" in pattern else ""


def _commands_of(live: LiveSession | None) -> list[str]:
    if live is None:
        return []
    return list(live.runtime.state.commands)


def removed(live: LiveSession, command: cmd.PermissionRemove) -> Effect:
    """Forget an answer. `CommandRejected`: there is none of this id."""
    remembered = Remembered(live.runtime.workspace.root)
    if not any(kept.id == command.id for kept in remembered.all()):
        raise CommandRejected(f"there is no permission {command.id!r}.", code="permission_unknown")
    return partial(_forget, remembered, command.id)


def _forget(remembered: Remembered, identity: str) -> None:
    remembered.remove(identity)
