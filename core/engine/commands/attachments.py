"""Attach pictures and PDFs to a session; refuse, before a turn begins, those that the chosen model does not accept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from core.agent.base.routes import Route
from core.agent.context.sent_attachments import can_send
from core.agent.mentions.blocks import is_picture
from core.attachments.preparation import MAX_INPUT_BYTES, PreparedAttachment, prepare_attachment, read_pdf_facts
from core.config.settings import Settings
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.turns.prompt_sources import build_session_reader
from core.errors import AgentTuiError, AttachmentRefused, CommandRejected, PathRefused
from core.filesystem.open_files import read_regular_file
from core.modes import Mode
from core.protocol import commands as cmd
from core.protocol.attachment_labels import (
    PDF_MEDIA_TYPE,
    classify_attachment,
    describe_attachment,
    find_attachments,
    format_label,
)
from core.protocol.events import AttachmentAdded
from core.protocol.messages import Attachment, ModelJob
from core.protocol.queries import ContextItem

NAME_LENGTH: Final = 120


async def prepare_attachment_effect(session: Session, command: cmd.AttachmentAdd) -> Effect:
    """Check an attachment and return its effect. Raises `CommandRejected`, `AttachmentRefused`."""
    if bool(command.path) == bool(command.data):
        raise CommandRejected("give either a file or its bytes.", code="attachment_invalid")
    data = command.data or await asyncio.to_thread(_read_attachment, session, command.path)
    name = " ".join((command.name or Path(command.path).name).split())[:NAME_LENGTH]
    prepared_attachment = await asyncio.to_thread(prepare_attachment, data, name)
    return partial(_add_attachment, session, prepared_attachment, command.request)


def _add_attachment(session: Session, prepared_attachment: PreparedAttachment, request: str) -> None:
    session.shadow.blobs.put(prepared_attachment.data)
    label = format_label(prepared_attachment.attachment, len(session.state.attachments) + 1)
    session.emit_outside_turn(
        AttachmentAdded(
            label=label, attachment=prepared_attachment.attachment, request=request, note=prepared_attachment.note
        )
    )


def _read_attachment(session: Session, path: str) -> bytes:
    """Read a file of the workspace as the agent sees it, or, by an absolute path, any file that the user may read."""
    try:
        return session.shadow.read_existing(session.workspace.to_relative(path), MAX_INPUT_BYTES + 1)
    except (PathRefused, FileNotFoundError) as refused:
        outside = Path(path).expanduser()
        if not outside.is_absolute():
            raise AttachmentRefused(f"{path} can't be attached: {refused}", hint="Is the path right?") from None
        return _read_outside_file(outside)


def _read_outside_file(path: Path) -> bytes:
    try:
        return read_regular_file(path, MAX_INPUT_BYTES + 1)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", "") or str(problem)
        raise AttachmentRefused(f"{path} can't be read: {reason}.", hint="Is the path right?") from None


async def check_labels_accepted(session: Session, text: str) -> None:
    """Raise `CommandRejected` if the chosen model accepts an attachment of the prompt in no form."""
    attachments = find_attachments(text, session.state.attachments)
    if not attachments:
        return
    route = await asyncio.to_thread(session.routes.open)
    capabilities = route.capabilities
    for attachment in attachments:
        if not can_send(capabilities, attachment) and not (
            attachment.media_type == PDF_MEDIA_TYPE and await _has_pdf_text(session, attachment)
        ):
            subject = (
                f"{attachment.name} ({describe_attachment(attachment)})"
                if attachment.name
                else describe_attachment(attachment)
            )
            raise _build_refusal(f"{subject} is attached", classify_attachment(attachment), route, session)


async def check_pictures_accepted(session: Session, items: Sequence[ContextItem]) -> None:
    """Raise `CommandRejected` if a picture is mentioned and the chosen model accepts none."""
    reader = build_session_reader(session)
    paths = (
        context_item.path
        for context_item in items
        if context_item.kind == "file" and not context_item.start and not context_item.places
    )
    picture_paths = [path for path in paths if not path.lower().endswith(".pdf") and is_picture(reader, path)]
    if not picture_paths:
        return
    route = await asyncio.to_thread(session.routes.open)
    if not route.capabilities.images:
        raise _build_refusal(f"@{picture_paths[0]} is a picture", "image", route, session)


async def _has_pdf_text(session: Session, attachment: Attachment) -> bool:
    data = await asyncio.to_thread(session.shadow.blobs.get, attachment.digest)
    facts = await asyncio.to_thread(read_pdf_facts, data, text=True)
    return any(not line.startswith("---") and line.strip() for line in facts.text.splitlines())


def _build_refusal(subject: str, kind: str, route: Route, session: Session) -> CommandRejected:
    configured_models = _list_configured_models(session.settings)
    others = [model for model in configured_models if model != route.id and _accepts(session, model, kind)]
    plural = "pictures" if kind == "image" else "PDFs, and this one has no text"
    advice = "/model chooses one that can."
    if others:
        advice = f"Of your models, {' and '.join(others[:3])} can: /model {others[0]}."
    return CommandRejected(
        f"{subject}, and {route.id} accepts no {plural}. Nothing was sent.", hint=advice, code="attachment_not_taken"
    )


def _list_configured_models(settings: Settings) -> list[str]:
    jobs: tuple[ModelJob, ...] = ("chat", "small", "apply", "subagent")
    routes = [settings.resolve_route(job) for job in jobs]
    modes = [settings.get_mode_settings(mode.value).model for mode in Mode]
    route_models = [name for route in routes for name in (route.model, *route.fallback)]
    return list(dict.fromkeys(filter(None, (*route_models, *modes))))


def _accepts(session: Session, name: str, kind: str) -> bool:
    try:
        capabilities = session.services.models.capabilities(name, session.settings)
    except AgentTuiError:
        return False
    return capabilities.images if kind == "image" else capabilities.pdf
