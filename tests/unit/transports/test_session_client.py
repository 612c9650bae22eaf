"""Files that are attached before a prompt, by whoever does so at the same time."""

from __future__ import annotations

import asyncio

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol.options import EngineOptions
from core.transports.session_client import SessionAttachments, SessionView, require_ack
from tests.support.pictures import picture
from tests.support.story import access, project_at

PNG, JPEG = picture(64, 48), picture(32, 16, "JPEG")


async def test_two_who_attach_at_once_get_the_labels_of_their_own_files(tmp_path):
    options = EngineOptions(preload=False, watch=False)
    engine = Engine(project_at(tmp_path / "project"), options=options, models=access())
    session = require_ack(await engine.submit(cmd.SessionOpen())).session

    async def attach(*pictures: bytes) -> tuple[str, ...]:
        async def submit(command: cmd.AnyCommand) -> cmd.Ack:
            return require_ack(await engine.submit(command))

        view = SessionView(engine, session, lambda envelope: labels.handle_event(envelope.event))
        labels = SessionAttachments(submit, view.settle)
        try:
            return await labels.attach(cmd.AttachmentAdd(session=session, data=picture) for picture in pictures)
        finally:
            await view.close()

    mine, theirs = await asyncio.gather(attach(PNG, JPEG), attach(JPEG, PNG, JPEG))
    held = engine.state(session).attachments
    assert [held[label].media_type for label in mine] == ["image/png", "image/jpeg"]
    assert [held[label].media_type for label in theirs] == ["image/jpeg", "image/png", "image/jpeg"]
    assert len({*mine, *theirs}) == 5
    await engine.close()
