"""Pictures and PDFs come into a session, and what the chosen model can't be sent is refused before a turn begins."""

from __future__ import annotations

import asyncio
import os
import stat
from functools import partial
from pathlib import Path
from typing import Final

from core.agent.attached import takes
from core.agent.capabilities import FileReader
from core.agent.mentions import pictures_in
from core.agent.session import Route
from core.attachments import MAX_INPUT, PreparedAttachment, prepare
from core.attachments.pdf import facts_of
from core.config import Settings
from core.engine.live import Effect, LiveSession
from core.engine.models import ModelAccess
from core.engine.runtime import SessionRuntime
from core.errors import AgentTuiError, AttachmentRefused, CommandRejected, PathRefused
from core.modes import Mode
from core.protocol import commands as cmd
from core.protocol.attachments import PDF, attachments_in, described, kind_of, label_of
from core.protocol.events import AttachmentAdded
from core.protocol.messages import Attachment, Job
from core.shadow import ShadowView

NAME_LENGTH: Final = 120


async def attached(live: LiveSession, command: cmd.AttachmentAdd) -> Effect:
    """What `attachment.add` does. Raises `AttachmentRefused` for what can't be attached."""
    if bool(command.path) == bool(command.data):
        raise CommandRejected("name a file or give its bytes, one of them.", code="attachment_invalid")
    data = command.data or await asyncio.to_thread(_read, live.runtime, command.path)
    name = " ".join((command.name or Path(command.path).name).split())[:NAME_LENGTH]
    made = await asyncio.to_thread(prepare, data, name)
    return partial(_add, live.runtime, made, command.request)


def _add(runtime: SessionRuntime, made: PreparedAttachment, request: str) -> None:
    runtime.shadow.blobs.put(made.data)
    label = label_of(made.attachment, len(runtime.state.attached) + 1)
    runtime.emit_apart(AttachmentAdded(label=label, attachment=made.attachment, request=request, note=made.note))


def _read(runtime: SessionRuntime, path: str) -> bytes:
    """A file of the workspace as the agent sees it; else, by an absolute path, any file that the user may read."""
    try:
        return ShadowView(runtime.shadow).read_bytes(path, MAX_INPUT + 1)
    except (PathRefused, FileNotFoundError) as refused:
        outside = Path(path).expanduser()
        if not outside.is_absolute():
            raise AttachmentRefused(f"{path} can't be attached: {refused}", hint="Is the path right?") from None
        return _read_outside(outside)


def _read_outside(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not keep us waiting
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise AttachmentRefused(f"{path} is not a file.", hint="Name a picture or a PDF.")
            return file.read(MAX_INPUT + 1)
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", "") or str(problem)
        raise AttachmentRefused(f"{path} can't be read: {why}.", hint="Is the path right?") from None


def with_labels(text: str, labels: tuple[str, ...], runtime: SessionRuntime) -> str:
    """The text with the labels that do not stand in it put before it. `CommandRejected` for one that names nothing."""
    unknown = [each for each in labels if each not in runtime.state.attached]
    if unknown:
        raise CommandRejected(
            f"nothing is attached as {unknown[0]}.", hint="Attach it first.", code="attachment_unknown"
        )
    left = [each for each in labels if each not in text]
    return " ".join((*left, text)) if left else text


async def check_taken(live: LiveSession, text: str) -> None:
    """`CommandRejected` for a prompt with something in it that the chosen model can't be sent in any form."""
    runtime = live.runtime
    named = attachments_in(text, runtime.state.attached)
    if not named and "@" not in text:
        return
    route = await asyncio.to_thread(live.turns.route)
    able = route.capabilities
    for each in named:
        if not takes(able, each) and not (each.media_type == PDF and await _has_text(runtime, each)):
            what = f"{each.name} ({described(each)})" if each.name else described(each)
            raise _refusal(f"{what} is attached", kind_of(each), route, runtime.settings, runtime.models)
    if able.images or "@" not in text:
        return
    mentioned = pictures_in(FileReader(live.turns.ready_context()), text)
    shown = [path for path in mentioned if not path.lower().endswith(".pdf")]
    if shown:
        raise _refusal(f"@{shown[0]} is a picture", "image", route, runtime.settings, runtime.models)


async def _has_text(runtime: SessionRuntime, attachment: Attachment) -> bool:
    data = await asyncio.to_thread(runtime.shadow.blobs.get, attachment.digest)
    facts = await asyncio.to_thread(facts_of, data, text=True)
    return any(not line.startswith("---") and line.strip() for line in facts.text.splitlines())


def _refusal(what: str, kind: str, route: Route, settings: Settings, models: ModelAccess) -> CommandRejected:
    others = [each for each in _configured(settings) if each != route.id and _can(models, each, kind, settings)]
    plural = "pictures" if kind == "image" else "PDFs, and there is no text in this one"
    advice = (
        f"Of your models {' and '.join(others[:3])} can: /model {others[0]}."
        if others
        else ("Choose a model that can with /model.")
    )
    return CommandRejected(
        f"{what}, and {route.id} takes no {plural}. Nothing was sent.", hint=advice, code="attachment_not_taken"
    )


def _configured(settings: Settings) -> list[str]:
    """The models that the configuration names, each once."""
    jobs: tuple[Job, ...] = ("chat", "small", "apply", "subagent")
    routes = [settings.route(job) for job in jobs]
    modes = [settings.mode_of(mode.value).model for mode in Mode]
    named = [name for route in routes for name in (route.model, *route.fallback)]
    return list(dict.fromkeys(filter(None, (*named, *modes))))


def _can(models: ModelAccess, name: str, kind: str, settings: Settings) -> bool:
    try:
        able = models.capabilities(name, settings)
    except AgentTuiError:
        return False
    return able.images if kind == "image" else able.pdf
