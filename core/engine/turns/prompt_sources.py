"""The sources that the prompts of a session can mention: files as the agent sees them, the index, the session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from core.agent.base.prompt_tags import wrap_tag
from core.agent.context.memory import SteerContext
from core.agent.context.sent_attachments import AttachmentSender
from core.agent.gate.file_capabilities import FileReader, build_reader
from core.agent.mentions.blocks import BlockWriter
from core.agent.mentions.resolution import resolve_prompt
from core.agent.mentions.session_sources import OpenSession
from core.agent.mentions.sources import ContextSources
from core.engine.session.session import Session
from core.engine.turns.agent_types import load_agent_types
from core.engine.turns.server_prompts import find_resource
from core.errors import CommandRejected, PathRefused
from core.index.database import IndexFailed
from core.protocol import commands as cmd
from core.protocol.events import IndexStatus
from core.protocol.messages import UserMessage
from core.protocol.queries import ContextItem
from core.tools.base import Reader

MAX_NAMES: Final = 400  # symbols that are compared with a misspelt one
MAX_OPEN_ITEMS: Final = 20
MAP_TOKENS: Final = 1_000  # of the map of the project


async def open_sources(session: Session, reader: Reader | None = None) -> ContextSources:
    """Open the sources of a session's prompts. `reader`: that of the turn, None = a new one."""
    services, session_reader = session.services, reader or build_session_reader(session)
    open_session = OpenSession(
        state=session.state,
        shadow=session.shadow,
        store=services.store,
        plans=session.plans.store,
        may_show=partial(may_show, session_reader),
        is_trusted_content=services.trust.is_readable if services.trust.trusted else None,
        list_agents=partial(list_agent_names, session),
        look_up_resource=partial(find_resource, session.server_access.servers),
    )

    async def build_map(paths: Sequence[str]) -> str:
        building = session.tasks.others.start(
            services.index.build_repo_map(MAP_TOKENS, paths, open_session.may_show), name="repo map"
        )
        return await asyncio.shield(building)  # a cancelled caller gets it with the next message

    async def list_names(prefix: str) -> Sequence[str]:
        try:
            symbol_places = await services.index.read(lambda reader: reader.complete_symbols(prefix, MAX_NAMES))
        except IndexFailed:
            return ()
        return [symbol_place.symbol for symbol_place in symbol_places]

    return ContextSources(
        reader=session_reader,
        names=await services.files.load_names(),
        session=open_session,
        find_places=services.index.find_symbols,
        build_map=build_map,
        list_names=list_names,
        index_state=_describe_index(services.index.status()),
    )


async def list_agent_names(session: Session) -> list[str]:
    """List the kinds of subagents that can start in a session."""
    trust = session.services.trust
    check = trust.is_readable if trust.trusted else None
    agent_types = await asyncio.to_thread(
        load_agent_types, session.workspace, check, session.tools, session.settings.browser
    )
    return [agent_type.name for agent_type in agent_types.types if not agent_type.refusals]


def may_show(reader: Reader, path: str) -> bool:
    """True if the agent may look at a path."""
    try:
        reader.stat(path)
    except PathRefused:
        return False
    return True


def _describe_index(status: IndexStatus) -> str:
    match status.state:
        case "ready":
            return ""
        case "building":
            share = f" ({status.indexed} of {status.files} files)" if status.files else ""
            return f"the index is still being built{share}, so symbols may be missing"
        case _:
            return f"there is no symbol index{f': {status.problem}' if status.problem else ''}"


def build_session_reader(session: Session) -> FileReader:
    """Build a reader of the session's files, with the digests of the files that the model has read."""
    digests = session.memory.read_digests if session.memory is not None else {}
    return build_reader(session.call_permissions, digests)


async def render_steer_context(session: Session, items: Sequence[ContextItem]) -> SteerContext:
    """Render the context items of a message to the running turn."""
    if not items:
        return SteerContext("")
    sent_texts = [message.content for message in session.state.messages if isinstance(message, UserMessage)]
    context_blocks = await BlockWriter(await open_sources(session), sent_texts).write(items)
    stand_ins = session.memory.stand_ins if session.memory is not None else {}
    mentioned_attachments = await AttachmentSender(session.shadow.blobs, stand_ins, session.emit).attach_mentioned(
        context_blocks.pictures
    )
    blocks = "\n".join((*context_blocks.blocks, *mentioned_attachments.blocks))
    return SteerContext(f"{wrap_tag('attached_files', blocks)}\n" if blocks else "", mentioned_attachments.attachments)


async def find_prompt_items(
    session: Session, command: cmd.TurnSubmit | cmd.TurnSteer, text: str
) -> tuple[ContextItem, ...]:
    """Return the context items of a prompt. Raises `CommandRejected` for a mention that can't be resolved."""
    sources = await open_sources(session)
    shift = len(text) - len(command.text)  # labels were inserted at the start
    pasted_ranges = tuple((start + shift, end + shift) for start, end in command.pasted)
    answer = await resolve_prompt(sources, text, pasted_ranges, command.excluded)
    if answer.problems:
        first, *others = answer.problems
        suffix = f" And {len(others)} more: {', '.join(problem.key for problem in others)}." if others else ""
        raise CommandRejected(f"{first.message}{suffix}", hint=first.hint, code="mention_unknown")
    return answer.items


async def list_open_items(
    session: Session, command: cmd.TurnSubmit, items: Sequence[ContextItem]
) -> tuple[ContextItem, ...]:
    """Return the open files as items, without those of the prompt. Their text is bounded as that of files that a
    sentence only names."""
    reader, named_paths = build_session_reader(session), {item.path for item in items}
    paths = [path for path in dict.fromkeys(command.open_files) if path not in named_paths and may_show(reader, path)]
    stats = await asyncio.to_thread(lambda: {path: reader.stat(path) for path in paths[:MAX_OPEN_ITEMS]})
    return tuple(
        ContextItem(key=path, kind="file", label=path, path=path, origin="found", reason="It is open.")
        for path, path_stat in stats.items()
        if path_stat is not None and path_stat.kind == "file"
    )
