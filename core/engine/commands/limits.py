"""Limits of a session's turns and its command policy, as configured and as changed in the session.

The user may widen what they configured themselves; what a project's file made stricter stays so in its sessions.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from msgspec.structs import asdict, replace

from core.config.loading import NARROWER
from core.config.settings import LoadedSettings, Settings, TurnLimits
from core.engine.configuration.explanation import CommandedValue
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.events import LimitsChanged, PolicyChanged

LIMIT_NAMES: Final = ("max_steps", "max_cost", "max_tokens")


def apply_limit_options(loaded_settings: LoadedSettings, options: Any) -> Settings:
    """Return the loaded settings with the limits of the command line (None = not given) and what it allows."""
    limits = replace(loaded_settings.settings.limits, **_read_limits(options))
    rules = loaded_settings.settings.permissions
    return replace(
        loaded_settings.settings, limits=limits, permissions=replace(rules, allow=(*rules.allow, *options.allow))
    )


def list_commanded(options: Any) -> dict[str, CommandedValue]:
    """Return what the command line sets in place of a setting, or beside it, by its dotted key."""
    limits = ((f"limits.{name}", name, value) for name, value in _read_limits(options).items())
    others = (
        ("mode", "mode", options.mode),
        ("model", "model", options.model),
        ("routes.chat.effort", "effort", options.effort),
        ("privacy", "no-private" if options.private is False else "private", options.private),
        ("permissions.allow", "allow", options.allow or None),
    )
    every = (*limits, *others)
    return {
        key: CommandedValue(f"--{name.replace('_', '-')}", value) for key, name, value in every if value is not None
    }


def _read_limits(options: Any) -> dict[str, Any]:
    return {name: value for name in LIMIT_NAMES if (value := getattr(options, name)) is not None}


def prepare_policy(session: Session, command: cmd.PolicySet) -> Effect:
    """Change who types the commands. Raises `CommandRejected` if the project forbids it."""
    _check_bound(session, "commands", "policy", command.policy)
    return partial(_apply_change, session, PolicyChanged(policy=command.policy, by="user"))


def prepare_limits(session: Session, command: cmd.LimitsSet) -> Effect:
    """Change the limits of turns. Raises `CommandRejected` if the project forbids it."""
    new_limits = _read_limits(command)
    for name, value in new_limits.items():
        _check_bound(session, "limits", name, value)
    limits = replace(session.settings.limits, **new_limits)
    return partial(_apply_change, session, _build_limits_event(limits, by_user=True))


def _check_bound(session: Session, section: str, key: str, value: object) -> None:
    bound = session.services.bounds.get((section, key))
    if bound is not None and NARROWER[section, key](value, bound):
        raise CommandRejected(
            f"the project's configuration says {section}.{key} = {bound!r}, and that can't be widened here.",
            hint="It stands in `.agent-tui/config.toml` of the project.",
            code="project_is_stricter",
        )


def _build_limits_event(limits: TurnLimits, *, by_user: bool) -> LimitsChanged:
    return LimitsChanged(**asdict(limits), by="user" if by_user else "configuration")


def _apply_change(session: Session, event: LimitsChanged | PolicyChanged) -> None:
    """Apply the change at once, also to the turn that runs and to subagents."""
    session.emit_outside_turn(event)
    now = session.settings
    if (context := session.context) is not None:
        context.use_settings(now)
    for child in session.subagents.values():
        services = child.services
        services.settings = replace(services.settings, limits=now.limits, commands=now.commands)
        if (context := child.context) is not None:
            context.use_settings(child.settings)


def announce_limits(session: Session, options: Any = None) -> None:
    """Record the limits and policy that hold now where that is news: on opening, or when the configuration changed.
    `options`: those of the command line, which outweigh what was chosen in the session before."""
    state = session.state
    option_limits = _read_limits(options) if options is not None else {}
    if option_limits and state.limits.by == "user":
        session.emit_outside_turn(_build_limits_event(replace(_to_limits(state.limits), **option_limits), by_user=True))
    now = session.settings
    if now.limits != _to_limits(state.limits):
        session.emit_outside_turn(_build_limits_event(now.limits, by_user=False))
    if now.commands.policy != state.policy.policy:
        session.emit_outside_turn(PolicyChanged(policy=now.commands.policy))


def _to_limits(event: LimitsChanged) -> TurnLimits:
    return TurnLimits(max_steps=event.max_steps, max_cost=event.max_cost, max_tokens=event.max_tokens)
