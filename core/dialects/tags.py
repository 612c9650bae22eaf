"""The `tags` dialect: calls are tagged blocks in the text, for models without function calls.

`<execute_bash>`, `<execute_ipython>`, `<file-edit filePath="…">` with SEARCH/REPLACE blocks, `<file_edit path=… start=…
end=…>` with a draft, `<edit_file target_file=…>` with new code, a patch from `*** Begin Patch` to `*** End Patch`, and
`<tool_call>` with a JSON object for every other tool. A tag within backticks or a fence is text. `<chat>` and
`<finish>` only frame text. The turn ends with an answer without a call.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from core.dialects.base import CallBegun, CallEnded, Ending, Heard, Result, Said, as_json, spoken
from core.dialects.tag_reader import PATCH, Block, TagReader
from core.dialects.terminal import STILL_RUNNING, wanted
from core.protocol.messages import Message, ToolCall

EDIT_TOOL: Final = "edit_blocks"
DRAFT_TOOL: Final = "file_edit"
NEW_CODE_TOOL: Final = "edit_file"
PATCH_TOOL: Final = "apply_patch"
PYTHON_TOOL: Final = "run_python"
TERMINAL_TOOL: Final = "run_terminal_cmd"
_NUMBER = re.compile(r"[+-]?\d{1,9}")
_FOR_PATH = ("filePath", "path", "file_path", "target_file")
_ONE_AT_A_TIME = "Not run: only one block that executes something is run per message. Read the result of the first one."
TIMED_OUT = "Command timed out. Sending SIGINT to the process"


class _Asked(Struct, frozen=True, kw_only=True):
    name: str
    arguments: str
    problem: str = ""


def _bash(block: Block, job: str, goes_on: bool) -> _Asked:
    asked = wanted(block.body, job, goes_on=goes_on)
    return _Asked(name=asked.tool, arguments=as_json(asked.arguments), problem=asked.problem)


def _python(block: Block) -> _Asked:
    code = block.body if block.body.startswith("\n") else block.body.lstrip(" \t")
    code = textwrap.dedent(code).strip("\n").rstrip()
    problem = "" if code.strip() else "The block is empty: there is nothing to run."
    return _Asked(name=PYTHON_TOOL, arguments=as_json({"code": code}), problem=problem)


def _browse(block: Block) -> _Asked:
    return _Asked(
        name="execute_browse",
        arguments=as_json({"request": block.body.strip()}),
        problem="There is no browser here. Do without, or tell the user what to look up.",
    )


def _file_edit(block: Block) -> _Asked:
    path = _path(block)
    problem = "" if path else 'The file is missing: write <file-edit filePath="the/file">.'
    return _Asked(name=EDIT_TOOL, arguments=as_json({"file_path": path, "diff": block.body}), problem=problem)


def _draft(block: Block) -> _Asked:
    lines = {name: int(text) for name in ("start", "end") if _NUMBER.fullmatch(text := block.attributes.get(name, ""))}
    wrong = [name for name in ("start", "end") if name in block.attributes and name not in lines]
    problem = f"{wrong[0]} is {block.attributes[wrong[0]]!r}, not a whole number. Nothing was changed." if wrong else ""
    path = _path(block)
    return _Asked(
        name=DRAFT_TOOL,
        arguments=as_json({"path": path, "draft": block.body.removeprefix("\n"), **lines}),
        problem=problem if path else 'The file is missing: write <file_edit path="the/file">.',
    )


def _new_code(block: Block) -> _Asked:
    path = _path(block)
    instructions = block.attributes.get("instructions", "")
    arguments = {"target_file": path, "instructions": instructions, "code_edit": block.body.removeprefix("\n")}
    problem = "" if path else 'The file is missing: write <edit_file target_file="the/file">.'
    return _Asked(name=NEW_CODE_TOOL, arguments=as_json(arguments), problem=problem)


def _patch(block: Block) -> _Asked:
    text = f"{PATCH[0]}{block.body}{PATCH[1]}" if block.tag == PATCH[0] else block.body.strip("\n")
    return _Asked(name=PATCH_TOOL, arguments=as_json({"input": text}))


def _tool_call(block: Block) -> _Asked:
    """Hermes form: `{"name": …, "arguments": {…}}`."""
    try:
        call = json.loads(block.body)
        name, given = call["name"], call.get("arguments", call.get("parameters", {}))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        call = name = given = None
    if not isinstance(name, str) or not name:
        problem = 'A <tool_call> holds one JSON object: {"name": "the tool", "arguments": {…}}. It was not run.'
        return _Asked(name="tool_call", arguments=as_json({"raw": block.body.strip()}), problem=problem)
    return _Asked(name=name, arguments=given if isinstance(given, str) else as_json(given))


def _path(block: Block) -> str:
    return next((block.attributes[name] for name in _FOR_PATH if block.attributes.get(name)), "")


_ASKED: Final[Mapping[str, Callable[[Block], _Asked]]] = {
    "execute_ipython": _python,
    "execute_browse": _browse,
    "file-edit": _file_edit,
    "file_edit": _draft,
    "edit_file": _new_code,
    "apply_patch": _patch,
    PATCH[0]: _patch,
    "tool_call": _tool_call,
}
# What a call will be as soon as its block begins; the name in a <tool_call> is only known at its end.
_BEGUN: Final = {
    "execute_bash": TERMINAL_TOOL,
    "execute_ipython": PYTHON_TOOL,
    "file-edit": EDIT_TOOL,
    "file_edit": DRAFT_TOOL,
    "edit_file": NEW_CODE_TOOL,
    "apply_patch": PATCH_TOOL,
    PATCH[0]: PATCH_TOOL,
}


class TagListener:
    """Hears the calls of an answer. `job` is the id of the command that still runs, "" = none."""

    ending = Ending()

    def __init__(self, job: str = "", *, goes_on: bool = False) -> None:
        self._job = job
        self._goes_on = goes_on
        self._heard: list[Heard] = []
        self._count = 0
        self._executed = False
        self._reader = TagReader(lambda text: self._heard.append(Said(text)), self._open, self._close)

    def feed(self, text: str) -> list[Heard]:
        self._reader.feed(text)
        return self._taken()

    def finish(self) -> list[Heard]:
        self._reader.finish()
        return self._taken()

    def _open(self, tag: str) -> None:
        if tag in _BEGUN:
            self._heard.append(CallBegun(self._count, _BEGUN[tag]))

    def _close(self, block: Block) -> None:
        asked = _bash(block, self._job, self._goes_on) if block.tag == "execute_bash" else _ASKED[block.tag](block)
        if block.tag not in _BEGUN:
            self._heard.append(CallBegun(self._count, asked.name))
        self._heard.append(
            CallEnded(
                index=self._count,
                name=asked.name,
                arguments=asked.arguments,
                problem=self._objection(block) or asked.problem,
            )
        )
        self._count += 1

    def _objection(self, block: Block) -> str:
        executes, before = block.tag.startswith("execute_"), self._executed
        self._executed = before or executes
        if not block.closed and block.tag == PATCH[0]:
            return f"The patch does not end with {PATCH[1]}. Nothing of it was applied."
        if not block.closed:
            return f"The <{block.tag}> block is not closed with </{block.tag}>. Nothing of it was run."
        return _ONE_AT_A_TIME if executes and before else ""

    def _taken(self) -> list[Heard]:
        heard, self._heard = self._heard, []
        return heard


class TagDialect:
    """Calls as tags, results as the user's words. `goes_on`: a command that takes long can go on between steps."""

    name = "tags"

    def __init__(self, *, goes_on: bool = False) -> None:
        self._goes_on = goes_on

    def listener(self, *, job: str = "") -> TagListener:
        return TagListener(job, goes_on=self._goes_on)

    def task(self, prompt: str) -> str:
        return prompt

    def sent(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        return spoken(messages, written)

    def result(self, result: Result) -> str:
        """A command's output with its exit code, everything else as it is."""
        if not result.command:
            return f"OBSERVATION:\n{result.content}"
        if result.timed_out:
            return f"OBSERVATION:\n{result.output}\n[{TIMED_OUT}]"
        code = STILL_RUNNING if result.running else result.exit_code
        if code is None:
            return f"OBSERVATION:\n{result.content}"
        told = "The command is still running." if result.running else "Command finished."
        return f"OBSERVATION:\n{result.output.rstrip()}\n[{told} exit code {code}]"

    def ends(self, result: Result) -> bool:
        return False

    def final(self, result: Result) -> str:
        return ""


def written(call: ToolCall) -> str:
    """A call of another dialect, as this one would have said it."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = {"raw": call.arguments}
    command = arguments.get("command") if isinstance(arguments, dict) and call.name == TERMINAL_TOOL else None
    if isinstance(command, str):
        return f"<execute_bash>\n{command}\n</execute_bash>"
    return f"<tool_call>\n{as_json({'name': call.name, 'arguments': arguments})}\n</tool_call>"
