"""Decides which edits and calls in the text of a model with function calls are intended to be executed.

An edit is intended if the mode allows edits, it is complete, and every file that it names exists or is plainly to be
created. In a code fence it also has to fit the present files, and the model must not have edited by a call before. All
edits wait for the review. A call of a known tool is intended if the answer ends with it, or if the model has made no
function calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from core.agent.answer.receiver import is_edit_call
from core.agent.base.permissions import CallPermissions
from core.agent.debug.debug_policy import explain_blocked_edit
from core.agent.gate.file_capabilities import FileReader
from core.dialects.written_edits import WrittenEdit
from core.edits.formats.patch import apply_file_patch
from core.edits.formats.patch_parser import parse_patch
from core.edits.formats.search_replace import apply_blocks, parse_blocks
from core.errors import AgentTuiError, ToolInputInvalid
from core.modes import Access
from core.protocol.messages import AssistantMessage, ToolCall
from core.state.session import SessionState
from core.tools.base import Tool
from core.tools.builtin.editing.apply_patch import ApplyPatch
from core.tools.builtin.editing.edit_targets import read_editable
from core.tools.builtin.editing.search_replace import EditBlocks
from core.tools.toolset import Toolset


def is_intended(
    candidate: WrittenEdit,
    state: SessionState,
    permissions: CallPermissions,
    tools: Toolset,
    model: str,
    open_reader: Callable[[], FileReader],
) -> bool:
    """True if a candidate is to be executed."""
    if candidate.is_call:
        is_known = candidate.is_sure or _is_tool(tools, candidate.tool)
        return is_known and (candidate.is_last or not any(_iterate_calls(state, model)))
    if not permissions.is_granted(Access.PROPOSE) or explain_blocked_edit(state, Access.PROPOSE) is not None:
        return False
    if candidate.is_fenced and any(is_edit_call(tools, call) for call in _iterate_calls(state, model)):
        return False
    try:
        return _is_applicable(
            open_reader(), tools.parse(candidate.tool, candidate.arguments), exactly=candidate.is_fenced
        )
    except (AgentTuiError, UnicodeError):
        return False


def _is_tool(tools: Toolset, name: str) -> bool:
    try:
        return tools.find(name) is not None
    except ToolInputInvalid:
        return False


def _iterate_calls(state: SessionState, model: str) -> Iterator[ToolCall]:
    for message in state.messages:
        if isinstance(message, AssistantMessage) and message.model == model and not message.dialect:
            yield from (call for call in message.tool_calls if call.id not in message.in_text)


def _is_applicable(reader: FileReader, tool: Tool[object], *, exactly: bool) -> bool:
    """True if the files exist; with `exactly`, if the edit fits their present text. May raise `AgentTuiError`."""
    match tool:
        case EditBlocks():
            blocks = parse_blocks(tool.diff)
            text = _read_text(reader, tool.file_path)
            if text is None:
                return len(blocks) == 1 and not blocks[0].search
            return bool(blocks) and (not exactly or bool(apply_blocks(text, blocks)))
        case ApplyPatch():
            patches = parse_patch(tool.input)
            texts = [(patch, _read_text(reader, patch.path)) for patch in patches]
            if exactly:
                return bool([apply_file_patch(text, patch) for patch, text in texts])
            return bool(texts) and all(text is not None or patch.action == "add" for patch, text in texts)
        case _:
            return all(_has_folder(reader, path) for path in tool.paths())


def _read_text(reader: FileReader, path: str) -> str | None:
    """Return the text of an editable file, None = absent. Raises `AgentTuiError` if it can't be edited."""
    relative_path = reader.relative(path)
    return None if reader.stat(relative_path) is None else read_editable(reader, relative_path).text


def _has_folder(reader: FileReader, path: str) -> bool:
    relative_path = reader.relative(path)
    return (
        reader.stat(relative_path) is not None
        or reader.stat(PurePosixPath(relative_path).parent.as_posix()) is not None
    )
