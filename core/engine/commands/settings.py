"""Commands on the settings of a session, and on saved permissions, notes and consents.

The settings are title, mode, model, effort, limits and the command policy. Consent to an MCP server is bound to the
entry that the user saw. The user may widen limits that they configured themselves, but not those that the project's
file narrows.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final, assert_never

from msgspec.structs import asdict, replace

from core.config.loading import NARROWER
from core.config.rules.notes import ProjectNotes
from core.config.settings import LoadedSettings, Settings, TurnLimits
from core.engine.commands.turns import check_text
from core.engine.configuration.explanation import CommandLineValue
from core.engine.configuration.guide_file import save_guide
from core.engine.session.closed_sessions import clean_title, export_to_file
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.turns.lifecycle import announce_route, preload
from core.errors import CommandRejected
from core.permissions.saved_rules import SESSION_PREFIX
from core.protocol import commands as cmd
from core.protocol.events import (
    EffortChanged,
    LimitsChanged,
    ModeChanged,
    ModelChanged,
    PolicyChanged,
    SessionRenamed,
    SessionTagged,
    TierChanged,
)

LIMIT_NAMES: Final = ("max_steps", "max_cost", "max_tokens")


def prepare_rename(session: Session, command: cmd.SessionRename) -> Effect:
    check_text(command.title, "title")
    return partial(session.emit, SessionRenamed(title=clean_title(command.title)))


def prepare_tag(session: Session, command: cmd.SessionTag) -> Effect:
    return partial(session.emit, SessionTagged(tags=tuple(dict.fromkeys(command.tags))))


async def prepare_export(session: Session, command: cmd.SessionExport) -> Effect:
    """Export the session to a new file. Raises `StateError`."""
    session.log.flush()
    await asyncio.to_thread(
        export_to_file, session.services.store, command, session.log if session.log.find_loss() else None
    )
    return lambda: None


async def prepare_guide(session: Session, command: cmd.GuideKeep) -> Effect:
    """Save the progress of tour and hints, except for a private session."""
    if not session.state.is_private:
        await asyncio.to_thread(save_guide, command)
    return lambda: None


def refuse_deletion(_: Session, __: cmd.SessionDelete) -> Effect:
    raise CommandRejected("this session is open here.", hint="Open another one first.", code="session_locked")


def prepare_mode(session: Session, command: cmd.ModeSet) -> Effect:
    def set_mode() -> None:
        if session.state.mode != command.mode:
            session.emit(ModeChanged(mode=command.mode))
            announce_route(session)

    return set_mode


def prepare_effort(session: Session, command: cmd.EffortSet) -> Effect:
    """Set the effort, only for the current mode if that has its own effort."""

    def set_effort() -> None:
        mode = session.state.mode
        is_own = session.settings.get_mode_settings(mode).effort
        session.emit(EffortChanged(effort=command.effort, mode=mode if is_own else ""))
        announce_route(session)

    return set_effort


def prepare_tier(session: Session, command: cmd.TierSet) -> Effect:
    def set_tier() -> None:
        session.emit(TierChanged(tier=command.tier))
        announce_route(session)

    return set_tier


async def prepare_model(session: Session, command: cmd.ModelSet) -> Effect:
    """Set the model, only for the current mode if that has its own model."""
    models = session.services.models
    model = await asyncio.to_thread(models.complete, command.model, session.settings)
    await asyncio.to_thread(models.resolve, model, session.settings)

    async def set_model() -> None:
        window = session.settings.context.window or await asyncio.to_thread(models.window, model)
        mode = session.state.mode
        is_own = session.settings.get_mode_settings(mode).model
        session.emit(ModelChanged(model=model, context_window=window, mode=mode if is_own else ""))
        announce_route(session)
        preload(session)

    return set_model


def prepare_permission_removal(session: Session, command: cmd.PermissionRemove) -> Effect:
    """Remove a permission, saved or of the session. Raises `CommandRejected` for an unknown id."""
    grants, saved_rules = session.permissions.network_grants, session.permissions.rules.saved
    rule = command.id.removeprefix(SESSION_PREFIX)
    if rule != command.id and rule in grants.list_session_grants():
        return partial(grants.revoke, rule)
    permission = next((saved_rule for saved_rule in saved_rules.load() if saved_rule.id == command.id), None)
    if permission is None:
        raise CommandRejected(f"there is no permission {command.id!r}.", code="permission_unknown")

    def remove() -> None:
        saved_rules.remove(command.id)
        if permission.rule and permission.choice == "allow":
            grants.end_connections(permission.rule)

    return remove


def prepare_note(session: Session, command: cmd.MemoryAdd) -> Effect:
    """Save a note of the user."""
    check_text(command.text, "note")
    notes = ProjectNotes(session.workspace.root)
    return partial(asyncio.to_thread, notes.add, command.text, is_kept=True)


async def prepare_note_verdict(session: Session, command: cmd.MemoryJudge) -> Effect:
    """Accept or reject a note. Raises `CommandRejected` for an unknown id."""
    notes = ProjectNotes(session.workspace.root)
    if not any(memory_note.id == command.id for memory_note in await asyncio.to_thread(notes.load)):
        raise CommandRejected("this note no longer exists.", hint="/memory lists the notes.", code="note_unknown")
    if command.verdict == "reject":
        return partial(asyncio.to_thread, notes.reject, command.id)
    return partial(asyncio.to_thread, notes.accept, command.id, command.text)


async def prepare_server_control(session: Session, command: cmd.ServerControl) -> Effect:
    """Control a server. Raises `CommandRejected`: the name is unknown, or its entry has changed since it was
    displayed."""
    servers = session.server_access.servers
    config = await servers.find_config(command.server)
    if config is None:
        raise CommandRejected(
            f"there is no MCP server {command.server[:80]!r} here.", hint="/mcp lists them.", code="server_unknown"
        )
    if command.action == "allow" and command.digest != config.compute_hash():
        raise CommandRejected(
            f"the entry of {config.name} has changed since it was shown.",
            hint="Look at it again.",
            code="entry_changed",
        )
    if command.action in {"allow", "withdraw"} and not config.is_project:
        raise CommandRejected(
            f"{config.name} comes from your own configuration, so it is already approved.",
            hint="Turn it off instead.",
            code="server_is_yours",
        )
    action = command.action
    match action:
        case "on" | "off":
            return partial(servers.switch, config.name, tool=command.tool, is_off=action == "off")
        case "stop":
            return partial(servers.stop, config.name)
        case "restart":
            return partial(servers.restart, config)
        case "allow" | "withdraw":
            return partial(servers.answer_consent, config, is_allowed=action == "allow")
        case _:
            assert_never(action)


def apply_limit_options(loaded_settings: LoadedSettings, options: Any) -> Settings:
    """Return the loaded settings with the limits (None = not set) and allow rules of the command line."""
    limits = replace(loaded_settings.settings.limits, **_read_limits(options))
    rules = loaded_settings.settings.permissions
    return replace(
        loaded_settings.settings, limits=limits, permissions=replace(rules, allow=(*rules.allow, *options.allow))
    )


def list_command_line_values(options: Any) -> dict[str, CommandLineValue]:
    """Return the options of the command line that replace or extend settings, by dotted key."""
    limits = ((f"limits.{name}", name, value) for name, value in _read_limits(options).items())
    others = (
        ("mode", "mode", options.mode),
        ("model", "model", options.model),
        ("routes.chat.effort", "effort", options.effort),
        ("privacy", "no-private" if options.private is False else "private", options.private),
        ("permissions.allow", "allow", options.allow or None),
    )
    all_options = (*limits, *others)
    return {
        key: CommandLineValue(f"--{name.replace('_', '-')}", value)
        for key, name, value in all_options
        if value is not None
    }


def _read_limits(options: Any) -> dict[str, Any]:
    return {name: value for name in LIMIT_NAMES if (value := getattr(options, name)) is not None}


def prepare_policy(session: Session, command: cmd.PolicySet) -> Effect:
    """Change the command policy. Raises `CommandRejected` if the project forbids it."""
    _check_bound(session, "commands", "policy", command.policy)
    return partial(_apply_limits, session, PolicyChanged(policy=command.policy, by="user"))


def prepare_limits(session: Session, command: cmd.LimitsSet) -> Effect:
    """Change the limits of turns. Raises `CommandRejected` if the project forbids it."""
    new_limits = _read_limits(command)
    for name, value in new_limits.items():
        _check_bound(session, "limits", name, value)
    limits = replace(session.settings.limits, **new_limits)
    return partial(_apply_limits, session, _build_limits_event(limits, by_user=True))


def _check_bound(session: Session, section: str, key: str, value: object) -> None:
    bound = session.services.bounds.get((section, key))
    if bound is not None and NARROWER[section, key](value, bound):
        raise CommandRejected(
            f"the project's configuration sets {section}.{key} = {bound!r}, which can't be loosened here.",
            hint="It is in the project's `.agent-tui/config.toml`.",
            code="project_is_stricter",
        )


def _build_limits_event(limits: TurnLimits, *, by_user: bool) -> LimitsChanged:
    return LimitsChanged(**asdict(limits), by="user" if by_user else "configuration")


def _apply_limits(session: Session, event: LimitsChanged | PolicyChanged) -> None:
    """Apply a change at once, also to the running turn and to subagents."""
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
    """Record the effective limits and policy if they have changed, on opening or by the configuration. `options`: those
    of the command line, which override earlier choices in the session."""
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
