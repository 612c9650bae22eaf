"""Permissions of a workspace: list those that hold, preview a pattern."""

from __future__ import annotations

from collections.abc import Sequence

from core.config import Settings
from core.engine.session.session import Session
from core.errors import AgentTuiError
from core.modes import Access
from core.permissions.policy import CommandTerms, check_pattern, decide_call
from core.permissions.rules import parse_rule
from core.permissions.saved_rules import SavedRule, SavedRules
from core.protocol import queries as q
from core.workspace import Workspace

MAX_ALSO = 5
_WILDCARD_EXAMPLE = "anything"


def list_permissions(workspace: Workspace, settings: Settings, session: Session | None) -> q.PermissionsAnswer:
    """Return what is allowed and denied in a workspace. Raises `StateError` when the saved rules can't be read."""
    configured = [
        q.SavedPermission(choice=rule.choice, rule=str(rule), source=rule.source)
        for rule in settings.permissions.parse_rules()
    ]
    context = session.context if session is not None else None
    return q.PermissionsAnswer(
        trusted=session is None or session.services.trust.trusted,
        kept=(*configured, *map(_to_wire, SavedRules(workspace.root).load())),
        hosts=context.permissions.network_grants.list_hosts() if context is not None else (),
    )


def _to_wire(kept: SavedRule) -> q.SavedPermission:
    return q.SavedPermission(
        choice=kept.choice,
        rule=kept.rule or kept.shown,
        id=kept.id,
        exactly=not kept.rule,
        directory=kept.directory,
    )


def preview_pattern(query: q.PatternQuery, commands: Sequence[str]) -> q.PatternAnswer:
    """Return which earlier `commands` a pattern would cover beside the one that is asked about."""
    choice = query.choice
    try:
        check_pattern(query.pattern, query.command, choice)
    except AgentTuiError as problem:
        return q.PatternAnswer(problem=problem.format_with_hint())
    rule = parse_rule(f"Shell({query.pattern})", choice)
    also = [
        command
        for command in commands
        if command != query.command
        and decide_call(Access.EXEC, command, CommandTerms(is_contained=True), rules=[rule]).choice == choice
    ]
    return q.PatternAnswer(also=tuple(also[-MAX_ALSO:]), example=_build_example(query.pattern))


def _build_example(pattern: str) -> str:
    """Return a command that the pattern allows beyond those seen; "" = it allows this one alone."""
    return pattern.replace("*", _WILDCARD_EXAMPLE) if "*" in pattern else ""
