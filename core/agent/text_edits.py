"""Whether an edit or a call that a model wrote into its text, where it has tools for that, is meant.

An edit is meant when all of it holds: the mode lets edits through; the text is a whole edit; each file that it names is
there, or is plainly to be created. A code fence may as well show something: there the edit has to fit the files as they
are now, and the model must not have edited by a call before, which it would have done now. All of it still waits for
the review. A call is meant by a model that has not made any.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from core.agent.capabilities import FileReader
from core.agent.debug_course import held_back
from core.agent.edit_calls import proposes
from core.agent.session import SessionContext
from core.dialects.edit_reader import Candidate
from core.edits.blocks import parse_blocks
from core.edits.patch import apply_file_patch
from core.edits.patch_reader import parse_patch
from core.edits.search_replace import apply_blocks
from core.errors import AgentTuiError
from core.modes import Access
from core.protocol.messages import AssistantMessage, ToolCall
from core.tools.apply_patch import ApplyPatch
from core.tools.base import Tool
from core.tools.edit_blocks import EditBlocks
from core.tools.registry import TOOLS, parse_call
from core.tools.targets import editable


def is_meant(session: SessionContext, candidate: Candidate) -> bool:
    """Whether a candidate is to be taken for what it looks like."""
    if candidate.is_call:
        return candidate.tool in TOOLS and not any(_calls(session))
    if not session.grants(Access.PROPOSE) or held_back(session, Access.PROPOSE):
        return False
    if candidate.fenced and _edits_by_calls(session):
        return False
    try:
        return _fits(FileReader(session), parse_call(candidate.tool, candidate.arguments), exactly=candidate.fenced)
    except (AgentTuiError, UnicodeError):
        return False


def _edits_by_calls(session: SessionContext) -> bool:
    """Whether the model has edited by a function call in this session."""
    return any(map(proposes, _calls(session)))


def _calls(session: SessionContext) -> Iterator[ToolCall]:
    """The function calls that the model has made in this session."""
    for message in session.state.messages:
        if isinstance(message, AssistantMessage) and message.model == session.route.id and not message.dialect:
            yield from (call for call in message.tool_calls if call.id not in message.in_text)


def _fits(reader: FileReader, tool: Tool[object], *, exactly: bool) -> bool:
    """Whether the files are there. `exactly`: and the edit can be made as they stand. May raise `AgentTuiError`."""
    match tool:
        case EditBlocks():
            blocks = parse_blocks(tool.diff)
            text = _text(reader, tool.file_path)
            if text is None:
                return len(blocks) == 1 and not blocks[0].search
            return bool(blocks) and (not exactly or bool(apply_blocks(text, blocks)))
        case ApplyPatch():
            patches = parse_patch(tool.input)
            texts = [(patch, _text(reader, patch.path)) for patch in patches]
            if exactly:
                return bool([apply_file_patch(text, patch) for patch, text in texts])
            return bool(texts) and all(text is not None or patch.action == "add" for patch, text in texts)
        case _:
            return all(_has_room(reader, path) for path in tool.paths())


def _text(reader: FileReader, path: str) -> str | None:
    """The text of a file that can be edited, None if there is none. Raises `AgentTuiError` for one that can't."""
    own = reader.relative(path)
    return None if reader.stat(own) is None else editable(reader, own).text


def _has_room(reader: FileReader, path: str) -> bool:
    """Whether a file is there, or at least the folder that it would be in."""
    own = reader.relative(path)
    return reader.stat(own) is not None or reader.stat(PurePosixPath(own).parent.as_posix()) is not None
