"""Pictures and PDFs in a session, from the command to the request."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli.arguments import parse
from core.cli.print_mode.headless import run_print
from core.engine import Engine, EngineOptions
from core.engine.shared.models import ModelAccess
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.messages import ToolMessage, Usage, UserMessage
from core.providers.catalog.capabilities import Capabilities
from core.sessions.listing import list_sessions
from core.sessions.store import SessionStore
from tests.integration.test_headless import Pipe
from tests.support.agent_case import DirectedModel, calls, says
from tests.support.configured import configured
from tests.support.default_model import access_to
from tests.support.open_session import compact
from tests.support.pictures import opened, pdf, picture
from tests.support.story import project_at

BLIND, SIGHTED = "directed/blind", "directed/sighted"
needs_pypdf = pytest.mark.skipif(importlib.util.find_spec("pypdf") is None, reason="pypdf is not installed here")
PNG = picture(640, 480)


class Desk:
    """An engine in a project, with a model that sees and one that does not."""

    def __init__(self, project: Path, *steps) -> None:
        self.project = project
        self.model = DirectedModel(steps)
        self.able = {SIGHTED: Capabilities(images=True, pdf=True), BLIND: Capabilities(images=False, pdf=False)}
        self.engine = Engine(project, options=EngineOptions(watch=False), models=self.access())
        self.session = ""

    def access(self) -> ModelAccess:
        return access_to(
            lambda name, _settings: (self.model, name),
            SIGHTED,
            cost=0.0,
            capabilities=lambda name, _settings: self.able.get(name, Capabilities(images=False)),
        )

    async def open(self, model: str = SIGHTED) -> None:
        reply = await self.engine.submit(cmd.SessionOpen(model=model))
        assert isinstance(reply, cmd.Ack), reply
        self.session = reply.session

    async def submit(self, command: cmd.AnyCommand) -> cmd.Reply:
        reply = await self.engine.submit(command)
        await self.engine.wait_idle(self.session)
        return reply

    async def attach(self, **fields) -> cmd.Reply:
        return await self.submit(cmd.AttachmentAdd(session=self.session, **fields))

    @property
    def labels(self) -> list[str]:
        return list(self.engine.state(self.session).attachments)

    async def turn(self, text: str, **fields) -> list[ev.AnyEvent]:
        before = self.engine.state(self.session).seq
        reply = await self.submit(cmd.TurnSubmit(session=self.session, text=text, **fields))
        assert isinstance(reply, cmd.Ack), reply
        return await self.until_turn_end(before)

    async def until_turn_end(self, before: int) -> list[ev.AnyEvent]:
        seen: list[ev.AnyEvent] = []
        async with contextlib.aclosing(self.engine.events(self.session, after=before)) as stream:
            async for envelope in stream:
                seen.append(envelope.event)
                if isinstance(envelope.event, ev.TurnFinished):
                    break
        return seen

    def sent(self, request: int = -1) -> list[bytes]:
        """The bytes of all attachments of a request."""
        asked = self.model.requests[request]
        return [
            asked.blobs(attachment.digest)
            for message in asked.messages
            if isinstance(message, UserMessage | ToolMessage)
            for attachment in message.attachments
        ]

    def words(self, request: int = -1) -> str:
        return "\n".join(message.content for message in self.model.requests[request].messages)

    def notices(self) -> list[str]:
        log = self.engine._find_session(self.session).log
        events = [envelope.event for envelope in log.read(after=0, limit=10_000, brief=False)]
        return [notice.message for notice in events if isinstance(notice, ev.Notice)]


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


@contextlib.asynccontextmanager
async def desk_in(project: Path, *steps, model: str = SIGHTED):
    desk = Desk(project, *steps)
    await desk.open(model)
    try:
        yield desk
    finally:
        await desk.engine.close()


async def test_what_is_attached_is_sent_where_its_label_stands(project, tmp_path):
    (tmp_path / "shot.png").write_bytes(PNG)
    async with desk_in(project) as desk:
        assert isinstance(await desk.attach(path=str(tmp_path / "shot.png"), request="one"), cmd.Ack)
        (label,) = desk.labels
        assert label.startswith("[image 1: 640×480 png ")
        await desk.turn(f"What is in {label}?")
        assert desk.sent() == [PNG]
        assert label in desk.words()
        await desk.turn("And now?")
        assert desk.sent() == [PNG]
        assert desk.engine.state(desk.session).title == "What is in ?"


async def test_bytes_of_a_client_go_the_same_way_and_need_not_stand_in_the_text(project):
    async with desk_in(project) as desk:
        await desk.attach(data=PNG, name="clip.png")
        await desk.attach(data=picture(30, 20, "BMP"), name="b.bmp")
        await desk.turn("Compare", attachments=tuple(desk.labels))
        first, second = desk.sent()
        assert first == PNG
        assert opened(second).size == (30, 20)
        assert all(label in desk.words() for label in desk.labels)
        assert await desk.submit(
            cmd.TurnSubmit(session=desk.session, text="x", attachments=("[image 9: 1×1 png 1 B]",))
        ) == cmd.Reject(
            code="attachment_unknown",
            message="there is no attachment [image 9: 1×1 png 1 B].",
            hint="Attach it first.",
        )


async def test_a_log_line_holds_the_digest_and_the_blob_the_bytes(project):
    async with desk_in(project) as desk:
        await desk.attach(data=PNG)
        await desk.turn(desk.labels[0])
        session = desk.session
        directory = desk.engine._find_session(session).directory.path
    log = (directory / "log.jsonl").read_bytes()
    digest = log.split(b'"digest":"', 1)[1][:64].decode()
    assert len(max(log.splitlines(), key=len)) < 40_000
    assert (directory / "blobs" / digest[:2] / digest[2:]).read_bytes() == PNG


async def test_a_resumed_and_a_forked_session_send_the_same_bytes(project):
    async with desk_in(project) as desk:
        await desk.attach(data=PNG)
        await desk.turn(f"Look: {desk.labels[0]}")
        session = desk.session
    async with desk_in(project) as desk:
        reply = await desk.engine.submit(cmd.SessionResume(session=session))
        assert isinstance(reply, cmd.Ack), reply
        desk.session = session
        await desk.turn(f"Once more {desk.labels[0]}")
        assert desk.sent() == [PNG, PNG]
        forked = await desk.engine.submit(cmd.SessionFork(session=session))
        assert isinstance(forked, cmd.Ack), forked
        desk.session = forked.session
        await desk.turn("Go on")
        assert desk.sent() == [PNG, PNG]


async def test_bytes_that_are_gone_are_told_of_and_the_session_goes_on(project):
    async with desk_in(project) as desk:
        await desk.attach(data=PNG, name="shot.png")
        await desk.turn(desk.labels[0])
        session, runtime = desk.session, desk.engine._find_session(desk.session)
        digest = runtime.state.attachments[desk.labels[0]].digest
        (runtime.directory.blobs_path / digest[:2] / digest[2:]).unlink()
    async with desk_in(project) as desk:
        await desk.engine.submit(cmd.SessionResume(session=session))
        desk.session = session
        seen = await desk.turn("Go on")
        assert isinstance(seen[-1], ev.TurnFinished)
        assert seen[-1].reason == "done"
        assert desk.sent() == []
        assert "its content is missing" in desk.words()
        assert [notice for notice in desk.notices() if "can't be sent" in notice]


async def test_a_model_without_pictures_refuses_before_anything_is_sent(project):
    configured(f'model = "{BLIND}"\nsmall_model = "{SIGHTED}"\n')
    async with desk_in(project, model=BLIND) as desk:
        await desk.attach(data=PNG, name="shot.png")
        reply = await desk.submit(cmd.TurnSubmit(session=desk.session, text=f"What is {desk.labels[0]}?"))
        assert isinstance(reply, cmd.Reject)
        assert reply.code == "attachment_not_taken"
        assert reply.message.startswith("shot.png (")
        assert f"{BLIND} accepts no pictures" in reply.message
        assert f"/model {SIGHTED}" in reply.hint
        (project / "a.png").write_bytes(PNG)
        reply = await desk.submit(cmd.TurnSubmit(session=desk.session, text="What is @a.png?"))
        assert isinstance(reply, cmd.Reject)
        assert "@a.png is a picture" in reply.message
        assert desk.model.requests == []
        assert desk.engine.state(desk.session).turns == []
        await desk.turn("Nothing to see")


async def test_after_a_switch_to_a_model_without_pictures_words_stand_for_them(project):
    async with desk_in(project) as desk:
        await desk.attach(data=PNG, name="shot.png")
        await desk.turn(desk.labels[0])
        await desk.submit(cmd.ModelSet(session=desk.session, model=BLIND))
        await desk.turn("What was it?")
        assert desk.sent() == []
        assert "[image shot.png, 640×480 png" in desk.words()
        assert "this model accepts no pictures]" in desk.words()
        assert [notice for notice in desk.notices() if f"{BLIND} gets a line" in notice]
        await desk.turn("And again?")
        assert len([notice for notice in desk.notices() if f"{BLIND} gets" in notice]) == 1
        assert desk.model.requests[-1].messages[0] is desk.model.requests[-2].messages[0]
        await desk.submit(cmd.ModelSet(session=desk.session, model=SIGHTED))
        await desk.turn("Now you see it")
        assert desk.sent() == [PNG]


@needs_pypdf
async def test_a_model_without_pdfs_is_sent_their_text(project):
    data = pdf("Hello from page one", "and from two")
    async with desk_in(project, model=BLIND) as desk:
        await desk.attach(data=data, name="paper.pdf")
        assert desk.labels[0].startswith("[pdf 1: 2 pages pdf ")
        await desk.turn(f"Read {desk.labels[0]}")
        assert desk.sent() == []
        assert "Hello from page one" in desk.words()
        await desk.submit(cmd.ModelSet(session=desk.session, model=SIGHTED))
        await desk.turn("Look at it")
        assert desk.sent() == [data]


@needs_pypdf
async def test_a_pdf_without_text_is_refused_where_pdfs_are_not_taken(project):
    async with desk_in(project, model=BLIND) as desk:
        await desk.attach(data=pdf(""), name="scan.pdf")
        reply = await desk.submit(cmd.TurnSubmit(session=desk.session, text=desk.labels[0]))
        assert isinstance(reply, cmd.Reject)
        assert "accepts no PDFs, and this one has no text" in reply.message


async def test_a_mentioned_picture_is_attached_and_a_damaged_one_is_told_of(project):
    (project / "a.png").write_bytes(PNG)
    (project / "half.png").write_bytes(PNG[: len(PNG) // 2])
    (project / "dot.gif").write_bytes(picture(1, 1, "GIF"))
    async with desk_in(project) as desk:
        await desk.turn("Compare @a.png, @dot.gif and @half.png with @a.txt")
        assert desk.sent() == [PNG, picture(1, 1, "GIF")]
        words = desk.words()
        assert '<file path="a.png" note="attached, 640×480 png' in words
        assert '<file path="half.png" note="not attached: half.png is a damaged PNG' in words
        assert '<file path="a.txt">\none\ntwo' in words
        assert [notice for notice in desk.notices() if notice.startswith("half.png is not attached")]


async def test_read_file_shows_the_model_a_picture(project):
    (project / "a.png").write_bytes(PNG)
    async with desk_in(project, calls(("read_file", {"target_file": "a.png"})), says("I see.")) as desk:
        seen = await desk.turn("Look at a.png")
        (done,) = [event for event in seen if isinstance(event, ev.ToolFinished)]
        assert done.status == "completed"
        assert done.summary.startswith("640×480 png")
        assert desk.sent() == [PNG]
        (attachment,) = next(
            event.document for event in seen if isinstance(event, ev.DocumentFinished)
        ).metadata.attachments
        assert (desk.engine._find_session(desk.session).log.path.parent / attachment.path).read_bytes() == PNG
        result = desk.model.requests[-1].messages[-1]
        assert isinstance(result, ToolMessage)
        assert result.content.startswith("image: 640×480 png")


async def test_read_file_tells_a_model_without_pictures_what_there_is(project):
    (project / "a.png").write_bytes(PNG)
    steps = (calls(("read_file", {"target_file": "a.png"})), says("I do not see."))
    async with desk_in(project, *steps, model=BLIND) as desk:
        await desk.turn("Look")
        assert desk.sent() == []
        assert "640×480 png" in desk.words()
        assert "this model accepts no pictures" in desk.words()


async def test_in_the_tags_dialect_a_result_keeps_its_picture(project):
    configured(f'[models."{SIGHTED}"]\ndialect = "tags"\n')
    (project / "a.png").write_bytes(PNG)
    call = '<tool_call>{"name": "read_file", "arguments": {"target_file": "a.png"}}</tool_call>'
    async with desk_in(project, says(call), says("I see.")) as desk:
        await desk.attach(data=picture(9, 9))
        await desk.turn(f"Look at a.png and {desk.labels[0]}")
        assert desk.sent() == [picture(9, 9), PNG]


async def test_what_is_said_to_a_running_turn_brings_its_picture(project):
    waits = asyncio.Event()
    read = calls(("read_file", {"target_file": "a.txt"}))
    async with desk_in(project, [waits, *read], says("I see.")) as desk:
        await desk.attach(data=PNG)
        before = desk.engine.state(desk.session).seq
        await desk.submit(cmd.TurnSubmit(session=desk.session, text="Begin"))
        reply = await desk.submit(cmd.TurnSteer(session=desk.session, text=f"also {desk.labels[0]}"))
        assert isinstance(reply, cmd.Ack), reply
        waits.set()
        await desk.until_turn_end(before)
        assert desk.sent() == [PNG]


async def test_a_compacted_history_keeps_what_the_user_attached(project):
    steps = [calls(("read_file", {"target_file": "a.txt"})), says("A long story. " * 8_000)]
    configured("[context]\nwindow = 100_000\n")
    async with desk_in(project, *steps) as desk:
        await desk.attach(data=PNG)
        await desk.turn(f"Look: {desk.labels[0]}")
        desk.model.steps[:] = [says("Brief.", usage=Usage(prompt_tokens=60_000)), says("Notes of what was done.")]
        await desk.turn("Shorter")
        await compact(desk.engine, desk.session)
        await desk.turn("Go on")
        assert "Notes of what was done." in desk.words()
        assert "A long story." not in desk.words()
        assert desk.sent() == [PNG]


async def test_going_back_leaves_the_picture_out_and_its_label_sends_it_again(project):
    async with desk_in(project) as desk:
        await desk.turn("Hello")
        await desk.attach(data=PNG)
        await desk.turn(f"Look: {desk.labels[0]}")
        mark = list(desk.engine.state(desk.session).checkpoints.values())[-1]
        await desk.submit(cmd.CheckpointRestore(session=desk.session, id=mark.id, what="conversation"))
        await desk.turn("Something else")
        assert desk.sent() == []
        await desk.turn(f"Again: {desk.labels[0]}")
        assert desk.sent() == [PNG]


async def test_a_picture_counts_in_the_context(project):
    async with desk_in(project, *[says("Seen.", usage=Usage())] * 2) as desk:
        await desk.turn("Hello")
        before = desk.engine.state(desk.session).context_used
        await desk.attach(data=picture(1500, 1500))
        await desk.turn(desk.labels[0])
        report = await desk.engine.query(q.ContextQuery(session=desk.session))
        assert report.used >= before + 3_000


async def test_what_can_not_be_attached_is_refused_with_a_reason(project, tmp_path):
    (tmp_path / "a.txt").write_text("words")
    async with desk_in(project) as desk:
        for fields, words in (
            ({"path": str(tmp_path / "a.txt")}, "neither a picture nor a PDF"),
            ({"path": str(tmp_path / "none.png")}, "No such file"),
            ({"path": str(tmp_path)}, "can't be read"),
            ({"path": "missing.png"}, "does not exist"),
            ({"path": "/dev/zero"}, "not a regular file"),
            ({"data": PNG[:100]}, "damaged"),
            ({}, "give either a file or its bytes"),
        ):
            reply = await desk.attach(**fields)
            assert isinstance(reply, cmd.Reject), fields
            assert words in reply.message, reply
        assert desk.labels == []


def test_a_prompt_without_a_screen_takes_pictures_along(project, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shot.png").write_bytes(PNG)
    monkeypatch.setattr("sys.stdin", Pipe(picture(20, 10)))
    desk = Desk(project, says("A gradient."))
    options = parse([str(project), "-p", "What is it?", "--image", "shot.png", "--image", "-"])
    assert options.images == ("shot.png", "-")
    assert run_print(options, models=desk.access()) == ExitCode.DONE
    assert desk.sent() == [PNG, picture(20, 10)]
    assert "What is it?" in desk.words()
    assert capsys.readouterr().out.strip() == "A gradient."


def test_a_picture_that_is_none_ends_a_prompt_without_a_screen(project, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Pipe(b"", tty=True))
    desk = Desk(project)
    options = PrintArguments(directory=project, prompt="x", images=(str(project / "a.txt"),))
    assert run_print(options, models=desk.access()) == ExitCode.FAILED
    assert "neither a picture nor a PDF" in capsys.readouterr().err
    assert desk.model.requests == []
    assert list_sessions(SessionStore(project), limit=9, summaries={}) == ()
