"""The `command` dialect: a thought and exactly one fenced shell block per step, for models without any other ability.

One PowerShell block, else one bash block, is the command; for any other number of blocks, and for PowerShell where
there is none, the model gets an explanation of the form. Output is cut at `OUTPUT_LIMIT`, whether the template does it
or not. The turn ends when a command's output has a line that is the completion mark; the lines after it are the
submission. The messages to the model are rendered from templates that the user may replace.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

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
from core.errors import AgentTuiError
from core.patterns import compile_lazily
from core.protocol.messages import Message, ToolCall
from core.records import parse_json
from core.text.markup import MAX_FENCE_LINE, Fence, dedent_line, parse_opening_fence, track_fence

COMPLETION_MARKS = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "FIX_CODE_AGENT_FINAL_OUTPUT")
OUTPUT_LIMIT = 10_000  # characters of a command's output that the model gets
TOOL = "run_terminal_cmd"
SHELLS = ("powershell", "bash")  # only blocks of the first kind in the answer count
_FENCE_AT_END = compile_lazily(rf"(?P<lead>[^`]*?)(?P<mark>`{{3,}})(?P<info>(?i:{'|'.join(SHELLS)}))[ \t\r]*")
_DONE = compile_lazily(rf"echo[ \t]+(?P<quote>[\"']?)(?:{'|'.join(COMPLETION_MARKS)})(?P=quote)")


NO_POWERSHELL = "There is no PowerShell on this machine: give the command for {0}, in a ```bash block."
_POWERSHELL = compile_lazily(r"(?i)powershell")
_CUT = (
    "[… {0:,} of {1:,} characters left out: use a command that prints less, such as head, tail, sed or a narrower "
    "search, or send the output to a file …]"
)


class FormatError(AgentTuiError):
    """An answer without exactly one command."""

    code = "format_invalid"


class ShellBlock(Struct, frozen=True, kw_only=True):
    """A fenced shell block. `is_closed` False: the answer ended within it."""

    shell: str
    command: str
    is_closed: bool = True

    @property
    def is_completion(self) -> bool:
        """True if the command only prints a completion mark."""
        return _DONE.fullmatch(self.command) is not None


class ShellBlockReader(Struct, eq=False):
    """Splits a streamed answer into text and shell blocks, however it is chunked; blocks in other fences are text.

    `on_block` is called when a block is complete. Text before the first backtick or tilde of a line is passed on at
    once; the rest of the line waits for its end.
    """

    _on_text: Callable[[str], None]
    _on_block: Callable[[ShellBlock], None]
    _line: list[str] = field(default_factory=list)
    _waiting: list[str] = field(default_factory=list)
    _size: int = 0
    _outer: Fence | None = None
    _inner: Fence | None = None
    _lines: list[str] = field(default_factory=list)

    def feed(self, text: str) -> None:
        """Read a chunk."""
        first, *rest = text.split("\n")
        self._read_piece(first)
        for piece in rest:
            self._end_line()
            self._read_piece(piece)

    def finish(self) -> None:
        """End the answer; an open block is passed on as not closed."""
        line = "".join(self._line)
        if self._inner is not None:
            if self._inner.is_closed_by(line):
                self._close_block()
            else:
                self._close_block(line, is_closed=False)
        elif self._waiting:
            self._on_text("".join(self._waiting))

    def _read_piece(self, piece: str) -> None:
        if not piece:
            return
        self._line.append(piece)
        self._size += len(piece)
        if self._inner is not None:
            return
        if not self._waiting and (mark := re.search("[`~]", piece)) and self._outer is None:
            self._emit_text(piece[: mark.start()])
            self._waiting.append(piece[mark.start() :])
        elif self._waiting:
            self._waiting.append(piece)
        else:
            self._emit_text(piece)
        if self._size > MAX_FENCE_LINE:
            self._release_line()

    def _emit_text(self, text: str) -> None:
        if text:
            self._on_text(text)

    def _release_line(self) -> None:
        self._emit_text("".join(self._waiting))
        self._waiting.clear()

    def _end_line(self) -> None:
        line = "".join(self._line)
        self._line.clear()
        self._size = 0
        if self._inner is not None:
            self._read_inner_line(line)
            return
        if self._outer is None and self._open_block(line):
            self._waiting.clear()
            return
        self._release_line()
        self._on_text("\n")
        self._outer = track_fence(self._outer, line)

    def _read_inner_line(self, line: str) -> None:
        assert self._inner is not None
        if self._inner.is_closed_by(line):
            self._close_block()
        else:
            self._lines.append(dedent_line(line, self._inner.indent))

    def _open_block(self, line: str) -> bool:
        if len(line) > MAX_FENCE_LINE:
            return False
        fence = parse_opening_fence(line)
        if fence is None and (match := _FENCE_AT_END.fullmatch(line)):
            fence = Fence(match["mark"], 0, match["info"])
        if fence is None or fence.info.lower() not in SHELLS:
            return False
        self._inner = fence
        return True

    def _close_block(self, last: str = "", *, is_closed: bool = True) -> None:
        assert self._inner is not None
        lines = [*self._lines, dedent_line(last, self._inner.indent)] if last else self._lines
        text = "\n".join(line.removesuffix("\r") for line in lines).strip()
        self._on_block(ShellBlock(shell=self._inner.info.lower(), command=text, is_closed=is_closed))
        self._inner = None
        self._lines = []


def find_shell_blocks(text: str) -> list[ShellBlock]:
    """Find every shell block of an answer, in order."""
    blocks: list[ShellBlock] = []
    reader = ShellBlockReader(lambda _: None, blocks.append)
    reader.feed(text)
    reader.finish()
    return blocks


def parse_command(text: str) -> str:
    """Parse the one command of an answer. Raises `FormatError`."""
    return choose_block(find_shell_blocks(text)).command


def choose_block(blocks: Sequence[ShellBlock]) -> ShellBlock:
    """Choose the block that counts. Raises `FormatError` that describes the actual blocks."""
    if any(not block.is_closed for block in blocks):
        raise FormatError("The code block is not closed, so none of it was run.")
    counting: Sequence[ShellBlock] = ()
    for shell in SHELLS:
        counting = counting or [block for block in blocks if block.shell == shell]
    if len(counting) != 1:
        raise FormatError(f"An answer must have exactly one command; this one has {len(counting) or 'none'}.")
    if not counting[0].command:
        raise FormatError("The code block is empty.")
    return counting[0]


class CommandParser(AnswerParser):
    """Parser of the one command of an answer. `explain` renders the answer to a wrong form; `no_powershell`: that to
    PowerShell, "" = there is one."""

    def __init__(
        self,
        explain: Callable[[str, Sequence[ShellBlock]], str] | None = None,
        time_limit: int = 0,
        *,
        no_powershell: str = "",
    ) -> None:
        super().__init__()
        self._no_powershell = no_powershell
        self._explain = explain or (lambda error, _: error)
        self._time_limit = time_limit
        self._blocks: list[ShellBlock] = []
        self._started: list[ShellBlock] = []
        self._reader = ShellBlockReader(lambda text: self._parts.append(AnswerText(text)), self._add_block)

    def feed(self, text: str) -> list[AnswerPart]:
        self._reader.feed(text)
        return self._take_parts()

    def finish(self) -> list[AnswerPart]:
        self._reader.finish()
        try:
            block = choose_block(self._blocks)
            if self._no_powershell and block.shell == "powershell" and not block.is_completion:
                raise FormatError(self._no_powershell)
        except FormatError as error:
            self.ending = AnswerEnding(problem=self._explain(error.message, self._blocks))
            self._finish_calls(None)
        else:
            self.ending = AnswerEnding(is_done=block.is_completion)
            self._finish_calls(block)
        return self._take_parts()

    def _add_block(self, block: ShellBlock) -> None:
        self._blocks.append(block)
        if not block.is_completion and block.command:
            self._parts.append(CallStarted(len(self._started), TOOL))
            self._started.append(block)

    def _finish_calls(self, counting: ShellBlock | None) -> None:
        for index, block in enumerate(self._started):
            problem = "" if block is counting else "Not run: an answer can have only one command."
            limit = {"timeout": self._time_limit} if self._time_limit else {}
            arguments = encode_arguments({"command": to_bash_command(block), **limit})
            self._parts.append(CallFinished(index=index, name=TOOL, arguments=arguments, problem=problem))


def to_bash_command(block: ShellBlock) -> str:
    """Convert a block to a command for the terminal: bash unchanged, PowerShell through its own program."""
    if block.shell == "powershell":
        return f"pwsh -NoProfile -NonInteractive -Command {shlex.quote(block.command)}"
    return block.command


class TemplateSource(Protocol):
    """Texts with variables; `CommandDialect` defines which ones."""

    def render(self, name: str, variables: Mapping[str, object]) -> str: ...


class ObservedOutput(Struct, frozen=True):
    """Output in an observation: the fields are the template's `output.returncode` and `output.output`."""

    returncode: int
    output: str


def count_nothing() -> Mapping[str, object]:
    """Return the counts before the first model call."""
    return {"n_model_calls": 0, "model_cost": 0.0}


class CommandDialect(Dialect):
    """The dialect with its templates, their variables (`facts`), and the `counts` of calls and cost of the turn.
    `has_powershell`: PowerShell can be run here."""

    name = "command"

    def __init__(
        self,
        templates: TemplateSource,
        facts: Mapping[str, object],
        *,
        time_limit: int = 0,
        counts: Callable[[], Mapping[str, object]] = count_nothing,
        has_powershell: bool = True,
    ) -> None:
        self._templates = templates
        self._facts = {"completion_mark": COMPLETION_MARKS[0], "output_limit": OUTPUT_LIMIT, **facts}
        self._time_limit = time_limit
        self._counts = counts
        self._no_powershell = "" if has_powershell else NO_POWERSHELL.format(self._facts.get("shell", "bash"))

    def create_parser(self, *, job: str = "") -> CommandParser:
        return CommandParser(self._render_format_error, self._time_limit, no_powershell=self._no_powershell)

    def render_system_prompt(self) -> str:
        """Render the system prompt. One that asks for PowerShell where there is none gets a sentence about it."""
        text = self._render("system_template")
        is_wrong = self._no_powershell and _POWERSHELL.search(text) is not None
        return f"{text.rstrip()}\n\n{self._no_powershell}\n" if is_wrong else text

    def format_prompt(self, prompt: str) -> str:
        return self._render("instance_template", task=prompt)

    def convert_history(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        return flatten_history(messages, format_call)

    def format_result(self, result: CallResult) -> str:
        if not result.command:
            return result.content
        output = _escape_frame(result.output)
        if result.is_timed_out:
            return self._render_cut(
                output, lambda text: self._render("timeout_template", action=result.command, output=text)
            )
        if (exit_code := result.exit_code) is None:
            return result.content

        def observe(text: str) -> str:
            return self._render("action_observation_template", output=ObservedOutput(exit_code, text))

        return "\n".join((self._render_cut(output, observe), *result.notes))

    def _render_cut(self, output: str, render: Callable[[str], str]) -> str:
        """Render output; if it is too long, and the template shows all of it, with its middle left out."""
        text = render(output)
        if len(output) <= OUTPUT_LIMIT or output.strip() not in text:
            return text
        half = OUTPUT_LIMIT // 2
        mark = _CUT.format(len(output) - 2 * half, len(output))
        return render("\n".join((output[:half], mark, output[-half:])))

    def is_final(self, result: CallResult) -> bool:
        return result.command != "" and any(line.strip() in COMPLETION_MARKS for line in result.output.splitlines())

    def extract_submission(self, result: CallResult) -> str:
        """Extract the lines that a command printed below the completion mark."""
        lines = result.output.splitlines(keepends=True)
        marks = [number for number, line in enumerate(lines) if line.strip() in COMPLETION_MARKS]
        return "".join(lines[marks[0] + 1 :]).strip() if marks else ""

    def _render_format_error(self, error: str, blocks: Sequence[ShellBlock]) -> str:
        return self._render("format_error_template", error=error, actions=[block.command for block in blocks])

    def _render(self, name: str, **variables: object) -> str:
        return self._templates.render(name, {**self._facts, **self._counts(), **variables})


_FRAME = compile_lazily(r"<(?=/(?:output|output_head|output_tail|returncode|warning)>)")


def _escape_frame(output: str) -> str:
    return _FRAME.sub("&lt;", output)


def format_call(call: ToolCall) -> str:
    """Format a call of another dialect in this one."""
    try:
        command = parse_json(call.arguments)["command"] if call.name == TOOL else ""
    except (ValueError, KeyError, TypeError):
        command = ""
    if isinstance(command, str) and command:
        return f"```bash\n{command}\n```"
    return f"(called {call.name} with {call.arguments or '{}'})"
