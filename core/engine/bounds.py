"""What bounds the turns of a session: limits and who types the commands, as configured and as chosen in the session.

The user may widen what they configured themselves; what a project's file made stricter stays so in its sessions.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from core.config import CommandPolicy, Limits, LoadedSettings, Settings
from core.config.narrowing import NARROWER
from core.engine.live import Effect, LiveSession
from core.engine.runtime import SessionRuntime
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.events import LimitsChanged, PolicyChanged

NAMES: Final = ("max_steps", "max_cost", "max_tokens")
TYPED_HERE: Final = "you type the commands here (policy `human`), and no model is asked."
TYPED_HINT: Final = "Send it as `!command`, ask the agent with `?question`, or let it work with /policy confirm."


def with_limits(loaded: LoadedSettings, options: Any) -> Settings:
    """The settings with what the command line says of limits (None = nothing)."""
    limits = replace(loaded.settings.limits, **_said(options))
    return replace(loaded.settings, limits=limits)


def _said(options: Any) -> dict[str, Any]:
    return {name: value for name in NAMES if (value := getattr(options, name)) is not None}


def bounded(live: LiveSession, command: cmd.LimitsSet | cmd.PolicySet) -> Effect:
    """The effect of a change. Raises `CommandRejected` for one that the project's configuration forbids."""
    runtime = live.runtime
    if isinstance(command, cmd.PolicySet):
        _check(runtime, "commands", "policy", command.policy)
        return partial(_change, live, PolicyChanged(policy=command.policy, by="user"))
    wanted = {name: value for name in NAMES if (value := getattr(command, name)) is not None}
    for name, value in wanted.items():
        _check(runtime, "limits", name, value)
    limits = replace(runtime.settings.limits, **wanted)
    return partial(_change, live, _changed(limits, by_user=True))


def _check(runtime: SessionRuntime, section: str, key: str, value: object) -> None:
    theirs = runtime.bounds.get((section, key))
    if theirs is not None and NARROWER[section, key](value, theirs):
        raise CommandRejected(
            f"the project's configuration says {section}.{key} = {theirs!r}, and that can't be widened here.",
            hint="It stands in `.agent-tui/config.toml` of the project.",
            code="project_is_stricter",
        )


def _changed(limits: Limits, *, by_user: bool) -> LimitsChanged:
    return LimitsChanged(
        max_steps=limits.max_steps,
        max_cost=limits.max_cost,
        max_tokens=limits.max_tokens,
        by="user" if by_user else "configuration",
    )


def _change(live: LiveSession, event: LimitsChanged | PolicyChanged) -> None:
    """It holds at once, also in the turn that runs."""
    live.runtime.emit_apart(event)
    now = live.runtime.settings
    if (context := live.turns.context) is not None:
        context.settings = now
    for child in live.children.values():
        child.runtime.configured = replace(child.runtime.configured, limits=now.limits, commands=now.commands)
        if (context := child.turns.context) is not None:
            context.settings = child.runtime.settings


def state_bounds(runtime: SessionRuntime, options: Any = None) -> None:
    """When a session is opened, or the configuration has changed: say what holds now where that is news. What the
    command line says counts more than what was chosen in the session before."""
    state = runtime.state
    said = _said(options) if options is not None else {}
    if said and state.limits.by == "user":
        runtime.emit_apart(_changed(replace(_limits(state.limits), **said), by_user=True))
    now = runtime.settings
    if now.limits != _limits(state.limits):
        runtime.emit_apart(_changed(now.limits, by_user=False))
    if now.commands.policy != state.policy.policy:
        runtime.emit_apart(PolicyChanged(policy=now.commands.policy))


def _limits(event: LimitsChanged) -> Limits:
    return Limits(max_steps=event.max_steps, max_cost=event.max_cost, max_tokens=event.max_tokens)


def check_prompt(runtime: SessionRuntime, command: cmd.TurnSubmit) -> None:
    """Raises `CommandRejected` for a prompt where the user types the commands, unless the model is meant."""
    policy: CommandPolicy = runtime.settings.commands.policy
    if policy == "human" and not command.anyway:
        raise CommandRejected(TYPED_HERE, hint=TYPED_HINT, code="typed_by_user")
