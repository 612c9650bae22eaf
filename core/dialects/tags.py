"""The `tags` dialect: calls are tagged blocks in the text, for models without function calls.

`<execute_bash>`, `<execute_ipython>`, `<file-edit filePath="…">` with SEARCH/REPLACE blocks, `<file_edit path=… start=…
end=…>` with a draft, `<edit_file target_file=…>` with new code, a patch from `*** Begin Patch` to `*** End Patch`, and
`<tool_call>` with a JSON object for every other tool. `<execute_browse>` reads the page that it names, or searches the
web. Functions that models know as Python's (`open_file`, `scroll_down`, `search_dir`, `create_file`) are tools, too,
where one stands alone in its block; to those that write, the answer elsewhere is what to use instead. A tag within
backticks or a fence is text. `<chat>` and `<finish>` only frame text. The turn ends with an answer without a call.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from core.dialects.dialect import (
    AnswerEnding,
    AnswerParser,
    AnswerPart,
    AnswerText,
    CallFinished,
    CallResult,
    CallStarted,
    Dialect,
    encode_arguments,
    flatten_history,
)
from core.dialects.leaked_calls import find_leak, read_calls
from core.dialects.tag_reader import TaggedBlock, TagReader
from core.edit_formats import EDIT_TAGS, PATCH, PATCH_FRAME
from core.patterns import compile_lazily
from core.protocol.messages import Message, ToolCall
from core.records import parse_json
from core.syntax.python_parser import parse_python, parse_python_expression

PYTHON_TOOL: Final = "run_python"
TERMINAL_TOOL: Final = "run_terminal_cmd"
_NUMBER = compile_lazily(r"[+-]?\d{1,9}")
_PATH_ATTRIBUTES = ("filepath", "path", "file_path", "target_file")
_ONE_AT_A_TIME = "Not run: only one executing block runs per message. Read the result of the first one."
TIMED_OUT = "Command timed out. Sending SIGINT to the process"
STILL_RUNNING = -1
INTERRUPT = "ctrl+c"
COMMAND_WAIT = 30  # seconds after which a command counts as still running
INPUT_WAIT = 3  # seconds to wait for output after an input
_CUT_CALL: Final = "Nothing was run: the call of {} in your answer is not closed or not in the required form."
_IDLE = "No command is running, so there is nothing to {}. Send a command."


class _TagCall(Struct, frozen=True, kw_only=True):
    """The tool call for a block, or the `problem` with it."""

    name: str
    arguments: str
    problem: str = ""


# Python functions that are tools here, with their arguments in order (OpenHands' agent skills).
_FUNCTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "open_file": ("path", "line_number", "context_lines"),
    "goto_line": ("line_number",),
    "scroll_down": (),
    "scroll_up": (),
    "search_dir": ("search_term", "dir_path"),
    "search_file": ("search_term", "file_path"),
    "find_file": ("file_name", "dir_path"),
    "create_file": ("filename",),
}
# Functions of the same kind that write files.
_EDITING_FUNCTIONS: Final = frozenset(
    ("create_file", "append_file", "edit_file_by_line", "edit_file_by_replace", "insert_content_at_line", "edit_file")
)
_EDIT_INSTEAD: Final = (
    "Not run: `{0}` is no function of this Python. Edit with <file-edit>, which creates a file, too, or "
    '<file_edit path="…">.'
)
_URL = compile_lazily(r"https?://[^\s<>\"'`)\]]+")
MAX_QUERY: Final = 400  # characters of a search


def _parse_python(block: TaggedBlock) -> _TagCall:
    code = block.body if block.body.startswith("\n") else block.body.lstrip(" \t")
    code = textwrap.dedent(code).strip("\n").rstrip()
    if (function := _parse_function(code)) is not None:
        return function
    problem = _find_foreign_function(code) if code.strip() else "The block is empty: there is nothing to run."
    return _TagCall(name=PYTHON_TOOL, arguments=encode_arguments({"code": code}), problem=problem)


def _parse_function(code: str) -> _TagCall | None:
    """Parse a block that is one call of a function with a tool, printed or not; None = it is other Python."""
    try:
        match parse_python_expression(code.strip()):
            case ast.Call(ast.Name("print"), [ast.Call(ast.Name(name)) as call], []):
                pass
            case ast.Call(ast.Name(name)) as call:
                pass
            case _:
                return None
        order = _FUNCTIONS[name]
        keyword_values = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        values = {**dict(zip(order, call.args, strict=False)), **keyword_values}
        if len(values) != len(call.args) + len(call.keywords):
            return None
        literals = {key: ast.literal_eval(value) for key, value in values.items()}
        arguments = encode_arguments({key: value for key, value in literals.items() if value is not None})
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError, SystemError):
        return None
    return _TagCall(name=name, arguments=arguments)


def _find_foreign_function(code: str) -> str:
    """Return what to do instead if code calls a function of another program's Python, "" = it does not."""
    try:
        nodes = list(ast.walk(parse_python(code)))
    except (SyntaxError, ValueError, SystemError):
        return ""
    called = [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    defined |= {
        alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    for name in called:
        if name not in defined and name in _EDITING_FUNCTIONS:
            return _EDIT_INSTEAD.format(name)
    return ""


def _parse_browse(block: TaggedBlock) -> _TagCall:
    """Parse a request to a browser, in words: it is about the one page that it names, or else a search."""
    request = block.body.strip()
    addresses = [address.rstrip(".,;:!?") for address in _URL.findall(request)]
    if not request:
        return _TagCall(name="web_search", arguments="{}", problem="The block is empty: there is nothing to look up.")
    if not addresses:
        return _TagCall(name="web_search", arguments=encode_arguments({"query": request[:MAX_QUERY]}))
    question = {} if request == addresses[0] else {"prompt": request}
    return _TagCall(name="web_fetch", arguments=encode_arguments({"url": addresses[0], **question}))


def _parse_edit(block: TaggedBlock) -> _TagCall:
    tool = EDIT_TAGS.get(block.tag, PATCH)
    form = tool.form
    assert form is not None
    if form.frame is not None and block.tag == form.frame[0]:
        return _TagCall(name=tool.name, arguments=encode_arguments({form.body: block.body.join(form.frame)}))
    path = next((block.attributes[name] for name in _PATH_ATTRIBUTES if block.attributes.get(name)), "")
    number_texts = {name: block.attributes[name] for name in form.numbers if name in block.attributes}
    numbers = {name: int(text) for name, text in number_texts.items() if _NUMBER.fullmatch(text)}
    wrong = [f"{name} is {text!r}, not a whole number." for name, text in number_texts.items() if name not in numbers]
    body = block.body.strip("\n") if form.trim == "both" else block.body
    arguments = {
        **({form.path: path} if form.path else {}),
        **{name: block.attributes.get(name, "") for name in form.texts},
        form.body: body.removeprefix("\n") if form.trim == "start" else body,
        **numbers,
    }
    problem = f"{wrong[0]} Nothing was changed." if wrong else ""
    if form.path and not path:
        problem = f"The file is missing: write {form.example}."
    return _TagCall(name=tool.name, arguments=encode_arguments(arguments), problem=problem)


def _parse_tool_call(block: TaggedBlock) -> _TagCall:
    """Parse the Hermes form, `{"name": …, "arguments": {…}}`, or one call in the syntax of another template."""
    try:
        call = parse_json(block.body)
        name, call_arguments = call["name"], call.get("arguments", call.get("parameters", {}))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        call = name = call_arguments = None
        calls, end = read_calls(tagged_text := f"<tool_call>{block.body}</tool_call>")
        if len(calls) == 1 and end == len(tagged_text) and parse_json(calls[0].arguments):
            return _TagCall(name=calls[0].name, arguments=calls[0].arguments)
    if not isinstance(name, str) or not name:
        problem = 'A <tool_call> holds one JSON object: {"name": "the tool", "arguments": {…}}. It was not run.'
        return _TagCall(name="tool_call", arguments=encode_arguments({"raw": block.body.strip()}), problem=problem)
    return _TagCall(
        name=name, arguments=call_arguments if isinstance(call_arguments, str) else encode_arguments(call_arguments)
    )


_CALL_PARSERS: Final[Mapping[str, Callable[[TaggedBlock], _TagCall]]] = {
    "execute_ipython": _parse_python,
    "execute_browse": _parse_browse,
    "tool_call": _parse_tool_call,
}
# The tool of a call by its opening tag; that of a <tool_call> and of Python is only known at the end of the block.
_TOOLS_BY_TAG: Final = {
    "execute_bash": TERMINAL_TOOL,
    PATCH_FRAME[0]: PATCH.name,
    **{tag: tool.name for tag, tool in EDIT_TAGS.items()},
}


class TagParser(AnswerParser):
    """Parser of the calls of an answer. `job` is the id of the command that is still running, "" = none."""

    def __init__(self, job: str = "", *, allows_background: bool = False) -> None:
        super().__init__()
        self._job = job
        self._allows_background = allows_background
        self._count = 0
        self._has_executed = False
        self._answer: list[str] = []
        self._reader = TagReader(lambda text: self._parts.append(AnswerText(text)), self._start_call, self._finish_call)

    def feed(self, text: str) -> list[AnswerPart]:
        self._answer.append(text)
        self._reader.feed(text)
        return self._take_parts()

    def finish(self) -> list[AnswerPart]:
        self._reader.finish()
        if not self._count:
            self._parse_leak()
        return self._take_parts()

    def _parse_leak(self) -> None:
        """Parse the calls at the end of an answer without a block that are in the syntax of another template."""
        leak = find_leak("".join(self._answer))
        if leak is None or not leak.is_last:
            return
        if not leak.is_whole:
            self.ending = AnswerEnding(problem=_CUT_CALL.format(leak.calls[0].name))
            return
        for call in leak.calls:
            self._parts.append(CallStarted(self._count, call.name))
            self._parts.append(CallFinished(index=self._count, name=call.name, arguments=call.arguments))
            self._count += 1

    def _start_call(self, tag: str) -> None:
        if tag in _TOOLS_BY_TAG:
            self._parts.append(CallStarted(self._count, _TOOLS_BY_TAG[tag]))

    def _finish_call(self, block: TaggedBlock) -> None:
        call = (
            _parse_terminal_call(block.body, self._job, allows_background=self._allows_background)
            if block.tag == "execute_bash"
            else _CALL_PARSERS.get(block.tag, _parse_edit)(block)
        )
        if block.tag not in _TOOLS_BY_TAG:
            self._parts.append(CallStarted(self._count, call.name))
        self._parts.append(
            CallFinished(
                index=self._count,
                name=call.name,
                arguments=call.arguments,
                problem=self._find_objection(block) or call.problem,
            )
        )
        self._count += 1

    def _find_objection(self, block: TaggedBlock) -> str | None:
        executes, before = block.tag.startswith("execute_"), self._has_executed
        self._has_executed = before or executes
        if not block.is_closed and block.tag == PATCH_FRAME[0]:
            return f"The patch does not end with {PATCH_FRAME[1]}. None of it was applied."
        if not block.is_closed:
            return f"The <{block.tag}> block is not closed with </{block.tag}>. None of it was run."
        return _ONE_AT_A_TIME if executes and before else None


@dataclass(frozen=True)
class TagDialect(Dialect):
    """Calls as tags, results as the user's messages. `allows_background`: a long command may continue between steps."""

    name = "tags"

    allows_background: bool = False

    def create_parser(self, *, job: str = "") -> TagParser:
        return TagParser(job, allows_background=self.allows_background)

    def convert_history(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        return flatten_history(messages, format_call)

    def format_result(self, result: CallResult) -> str:
        """Format a command's output with its exit code, any other result unchanged."""
        if not result.command:
            return f"OBSERVATION:\n{result.content}"
        output = "\n".join((result.output.rstrip(), *result.notes))
        if result.is_timed_out:
            return f"OBSERVATION:\n{output}\n[{TIMED_OUT}]"
        code = STILL_RUNNING if result.is_running else result.exit_code
        if code is None:
            return f"OBSERVATION:\n{result.content}"
        state = "The command is still running." if result.is_running else "Command finished."
        return f"OBSERVATION:\n{output}\n[{state} exit code {code}]"


def format_call(call: ToolCall) -> str:
    """Format a call of another dialect in this one."""
    try:
        arguments = parse_json(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = {"raw": call.arguments}
    command = arguments.get("command") if isinstance(arguments, dict) and call.name == TERMINAL_TOOL else None
    if isinstance(command, str):
        return f"<execute_bash>\n{command}\n</execute_bash>"
    return f"<tool_call>\n{encode_arguments({'name': call.name, 'arguments': arguments})}\n</tool_call>"


def _parse_terminal_call(text: str, job: str, *, allows_background: bool = False) -> _TagCall:
    """Build the call for a block. `allows_background`: a command may take longer than `COMMAND_WAIT`."""
    text = text.strip()
    if not job:
        return _build_command_call(text, allows_background=allows_background)
    if not text:
        return _TagCall(name="read_terminal", arguments=encode_arguments({"job": job, "wait": COMMAND_WAIT}))
    if text.lower() == INTERRUPT:
        return _TagCall(name="stop_terminal", arguments=encode_arguments({"job": job, "interrupt": True}))
    return _TagCall(
        name="write_terminal", arguments=encode_arguments({"job": job, "text": f"{text}\n", "wait": INPUT_WAIT})
    )


def _build_command_call(text: str, *, allows_background: bool) -> _TagCall:
    problem = ""
    if not text:
        problem = _IDLE.format("read")
    elif text.lower() == INTERRUPT:
        problem = _IDLE.format("interrupt")
    extra_arguments: dict[str, object] = {"is_background": True, "timeout": COMMAND_WAIT} if allows_background else {}
    return _TagCall(
        name="run_terminal_cmd", arguments=encode_arguments({"command": text, **extra_arguments}), problem=problem
    )
