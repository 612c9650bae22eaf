"""The `command` dialect: a thought and exactly one fenced shell block a step, for models that can do nothing else.

One PowerShell block, else one bash block, is the command; any other number of them is answered with what the form is.
The turn ends when a command's output has a line that is the completion mark; what follows it is handed in. What the
model is told comes from templates that the user may replace.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from core.dialects.base import CallBegun, CallEnded, Ending, Heard, Result, Said, as_json, spoken
from core.dialects.segments import Fence, dedented, opening_fence
from core.errors import AgentTuiError
from core.protocol.messages import Message, ToolCall

MARKS = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "FIX_CODE_AGENT_FINAL_OUTPUT")
LIMIT = 10_000  # characters of a command's output that the model gets
TOOL = "run_terminal_cmd"
SHELLS = ("powershell", "bash")  # blocks of the first kind that there is are the ones that count
_LONGEST_FENCE = 512
_FENCE_AT_END = re.compile(rf"(?P<lead>[^`]*?)(?P<mark>`{{3,}})(?P<info>(?i:{'|'.join(SHELLS)}))[ \t\r]*")
_DONE = re.compile(rf"echo[ \t]+(?P<quote>[\"']?)(?:{'|'.join(MARKS)})(?P=quote)")


class FormatError(AgentTuiError):
    """An answer without exactly one command."""

    code = "format_invalid"


class Block(Struct, frozen=True, kw_only=True):
    """A fenced shell block. `closed` False: the answer ended within it."""

    shell: str
    command: str
    closed: bool = True

    @property
    def says_done(self) -> bool:
        return _DONE.fullmatch(self.command) is not None


class BlockReader:
    """Cuts an answer into text and shell blocks, whatever the chunk borders; blocks in other fences are text.

    `on_block` is called when a block is complete. What stands before the first backtick or tilde of a line flows on
    at once; the rest of the line waits for its end.
    """

    def __init__(self, on_text: Callable[[str], None], on_block: Callable[[Block], None]) -> None:
        self._on_text = on_text
        self._on_block = on_block
        self._line: list[str] = []
        self._waiting: list[str] = []
        self._size = 0
        self._outer: Fence | None = None
        self._inner: Fence | None = None
        self._lines: list[str] = []

    def feed(self, text: str) -> None:
        first, *rest = text.split("\n")
        self._part(first)
        for piece in rest:
            self._end_line()
            self._part(piece)

    def finish(self) -> None:
        line = "".join(self._line)
        if self._inner is not None:
            if self._inner.closes(line):
                self._close()
            else:
                self._close(line, closed=False)
        elif self._waiting:
            self._on_text("".join(self._waiting))

    def _part(self, piece: str) -> None:
        if not piece:
            return
        self._line.append(piece)
        self._size += len(piece)
        if self._inner is not None:
            return
        if not self._waiting and (mark := re.search("[`~]", piece)) and self._outer is None:
            self._say(piece[: mark.start()])
            self._waiting.append(piece[mark.start() :])
        elif self._waiting:
            self._waiting.append(piece)
        else:
            self._say(piece)
        if self._size > _LONGEST_FENCE:
            self._release()

    def _say(self, text: str) -> None:
        if text:
            self._on_text(text)

    def _release(self) -> None:
        self._say("".join(self._waiting))
        self._waiting.clear()

    def _end_line(self) -> None:
        line = "".join(self._line)
        self._line.clear()
        self._size = 0
        if self._inner is not None:
            self._inner_line(line)
            return
        if self._outer is None and self._opens(line):
            self._waiting.clear()
            return
        self._release()
        self._on_text("\n")
        self._outer = self._after(line)

    def _inner_line(self, line: str) -> None:
        assert self._inner is not None
        if self._inner.closes(line):
            self._close()
        else:
            self._lines.append(dedented(line, self._inner.indent))

    def _opens(self, line: str) -> bool:
        """Whether the line opens a shell block; if so, it is open now."""
        if len(line) > _LONGEST_FENCE:
            return False
        fence = opening_fence(line)
        if fence is None and (found := _FENCE_AT_END.fullmatch(line)):
            fence = Fence(found["mark"], 0, found["info"])
        if fence is None or fence.info.lower() not in SHELLS:
            return False
        self._inner = fence
        return True

    def _after(self, line: str) -> Fence | None:
        """The other fence that is open after a line."""
        if self._outer is not None:
            return None if self._outer.closes(line) else self._outer
        return opening_fence(line) if len(line) <= _LONGEST_FENCE else None

    def _close(self, last: str = "", *, closed: bool = True) -> None:
        assert self._inner is not None
        lines = [*self._lines, dedented(last, self._inner.indent)] if last else self._lines
        text = "\n".join(line.removesuffix("\r") for line in lines).strip()
        self._on_block(Block(shell=self._inner.info.lower(), command=text, closed=closed))
        self._inner = None
        self._lines = []


def blocks_of(text: str) -> list[Block]:
    """Every shell block of an answer, in order."""
    found: list[Block] = []
    reader = BlockReader(lambda _: None, found.append)
    reader.feed(text)
    reader.finish()
    return found


def command_of(text: str) -> str:
    """The one command of an answer. Raises `FormatError`."""
    return chosen(blocks_of(text)).command


def chosen(blocks: Sequence[Block]) -> Block:
    """The one block that counts. Raises `FormatError` that says what there was instead."""
    if any(not block.closed for block in blocks):
        raise FormatError("The code block is not closed, so nothing of it was run.")
    counting: Sequence[Block] = ()
    for shell in SHELLS:
        counting = counting or [block for block in blocks if block.shell == shell]
    if len(counting) != 1:
        raise FormatError(f"Exactly one command is expected in an answer; this one has {len(counting) or 'none'}.")
    if not counting[0].command:
        raise FormatError("The code block is empty.")
    return counting[0]


class CommandListener:
    """Hears the one command of an answer, or what is wrong with it. `explain` makes the answer to a wrong form."""

    def __init__(self, explain: Callable[[str, Sequence[Block]], str] | None = None, time_limit: int = 0) -> None:
        self._explain = explain or (lambda error, _: error)
        self._time_limit = time_limit
        self._heard: list[Heard] = []
        self._blocks: list[Block] = []
        self._begun: list[Block] = []
        self._reader = BlockReader(lambda text: self._heard.append(Said(text)), self._take)
        self._ending = Ending()

    @property
    def ending(self) -> Ending:
        return self._ending

    def feed(self, text: str) -> list[Heard]:
        self._reader.feed(text)
        return self._taken()

    def finish(self) -> list[Heard]:
        self._reader.finish()
        try:
            block = chosen(self._blocks)
        except FormatError as error:
            self._ending = Ending(problem=self._explain(error.message, self._blocks))
            self._end(None)
        else:
            self._ending = Ending(over=block.says_done)
            self._end(block)
        return self._taken()

    def _take(self, block: Block) -> None:
        self._blocks.append(block)
        if not block.says_done and block.command:
            self._heard.append(CallBegun(len(self._begun), TOOL))
            self._begun.append(block)

    def _end(self, counting: Block | None) -> None:
        for index, block in enumerate(self._begun):
            problem = "" if block is counting else "Not run: this is not the one command of the answer."
            self._heard.append(
                CallEnded(index=index, name=TOOL, arguments=as_json(self._arguments(block)), problem=problem)
            )

    def _arguments(self, block: Block) -> dict[str, object]:
        limit: dict[str, object] = {"timeout": self._time_limit} if self._time_limit else {}
        return {"command": as_command(block), **limit}

    def _taken(self) -> list[Heard]:
        heard, self._heard = self._heard, []
        return heard


def as_command(block: Block) -> str:
    """What the terminal is to run: bash as it stands, PowerShell through its own program."""
    if block.shell == "powershell":
        return f"pwsh -NoProfile -NonInteractive -Command {shlex.quote(block.command)}"
    return block.command


class Templates(Protocol):
    """Texts with variables; which ones there are `CommandDialect` shows."""

    def render(self, name: str, variables: Mapping[str, object]) -> str: ...


class Output(Struct, frozen=True, kw_only=True):
    """What an observation shows: the fields are the template's `output.returncode` and `output.output`."""

    returncode: int
    output: str


def nothing_used() -> Mapping[str, object]:
    """The counts before the first model call."""
    return {"n_model_calls": 0, "model_cost": 0.0}


class CommandDialect:
    """The dialect with its templates. `facts` are variables that every template may use, `counts` gives those that say
    what the turn has used so far: `n_model_calls`, and `model_cost` in US dollars (0.0 where it is not known)."""

    name = "command"

    def __init__(
        self,
        templates: Templates,
        facts: Mapping[str, object],
        *,
        time_limit: int = 0,
        counts: Callable[[], Mapping[str, object]] = nothing_used,
    ) -> None:
        self._templates = templates
        self._facts = {"completion_mark": MARKS[0], "output_limit": LIMIT, **facts}
        self._time_limit = time_limit
        self._counts = counts

    def listener(self, *, job: str = "") -> CommandListener:
        return CommandListener(self._format_error, self._time_limit)

    def system(self) -> str:
        return self._render("system_template")

    def task(self, prompt: str) -> str:
        return self._render("instance_template", task=prompt)

    def sent(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        return spoken(messages, written)

    def result(self, result: Result) -> str:
        if not result.command:
            return result.content
        if result.timed_out:
            return self._render("timeout_template", action=result.command, output=_sealed(result.output))
        if result.exit_code is None:
            return result.content
        output = Output(returncode=result.exit_code, output=_sealed(result.output))
        return self._render("action_observation_template", output=output)

    def ends(self, result: Result) -> bool:
        return result.command != "" and any(line.strip() in MARKS for line in result.output.splitlines())

    def final(self, result: Result) -> str:
        """What a command printed below the completion mark."""
        lines = result.output.splitlines(keepends=True)
        marks = [number for number, line in enumerate(lines) if line.strip() in MARKS]
        return "".join(lines[marks[0] + 1 :]).strip() if marks else ""

    def _format_error(self, error: str, blocks: Sequence[Block]) -> str:
        return self._render("format_error_template", error=error, actions=[block.command for block in blocks])

    def _render(self, name: str, **variables: object) -> str:
        return self._templates.render(name, {**self._facts, **self._counts(), **variables})


_FRAME = re.compile(r"<(?=/(?:output|output_head|output_tail|returncode|warning)>)")


def _sealed(output: str) -> str:
    """Output that can't close the frame that it is shown in."""
    return _FRAME.sub("&lt;", output)


def written(call: ToolCall) -> str:
    """A call of another dialect, as this one would have said it."""
    try:
        command = json.loads(call.arguments)["command"] if call.name == TOOL else ""
    except (ValueError, KeyError, TypeError):
        command = ""
    if isinstance(command, str) and command:
        return f"```bash\n{command}\n```"
    return f"(called {call.name} with {call.arguments or '{}'})"
