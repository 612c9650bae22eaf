"""Printers of `-p`: text, one response object, a stream of events, or the JSON value that `--json-schema` asks for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TextIO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.cli.streams import write_json
from core.errors import ConfigError
from core.patterns import compile_lazily
from core.prompts import render
from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol.renames import RenamedDirectory, format_change_path, group_renames
from core.records import decode_json, parse_json
from core.state.asides import describe_cost
from core.state.failure_excerpts import fit_failure_line
from core.state.findings import SEVERITIES
from core.state.goals import format_check, format_end
from core.state.loops import format_loop
from core.text.counting import count, format_size
from core.text.display_names import HIDDEN, cut_middle, display_name, to_one_line
from core.text.exposure import expose_text
from core.text.markup import choose_fence
from core.text.well_formed import encode_record
from core.transports.response import PendingBulk, PendingChange, Response, ResponseCheck, ResponseFinding, ResponseUsage

# Events outside of a turn: they print no line and end no count-down.
MAX_WIDTH: Final = 120  # characters of a command or a line of its output
BACKGROUND_EVENTS: Final = (ev.IndexProgressed,)
# Control and invisible characters, except for joiners, which scripts and emoji need.
_UNSAFE = compile_lazily(f"(?![\u200c\u200d])[{HIDDEN}]")
MAX_SCHEMA = 256 * 1024  # bytes
MAX_TOLD = 600  # characters of the problem with an answer
NOT_VALID = "The answer is not the requested JSON: {}"
RETRIES = 2  # prompts that report the problem to the model


class Printer(Protocol):
    """`event` is called for every event, then `end` once; `count_down` shows a person how long a wait still takes,
    `notify` prints lines between the answer and its end."""

    def event(self, envelope: ev.Envelope) -> None: ...

    def count_down(self, seconds: int) -> None: ...

    def notify(self, lines: Iterable[str]) -> None: ...

    def end(self, response: Response) -> None: ...


def escape_text(text: str) -> str:
    """Escape control and invisible characters for a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(lambda sign: expose_text(sign[0]), text.replace("\r\n", "\n"))


def format_questions(clarification: d.ClarificationMetadata) -> list[str]:
    """Format the questions of the model with their options and the answers."""
    answers, lines = {answer.question: answer for answer in clarification.answers}, list[str]()
    for question in clarification.questions:
        lines.append(f"? {_join_lines(question.text)}")
        answer = answers.get(question.id)
        for option in question.options:
            mark = "x" if answer and option.id in answer.options else "-"
            lines.append(f"  {mark} {_join_lines(option.label)}{' (recommended)' if option.recommended else ''}")
        lines += [f"  > {answer.text}"] if answer and answer.text else []
    return lines if answers else [*lines, "  Nobody answered."]


def _join_lines(text: str) -> str:
    """Join the text of a choice on one line, with invisible characters marked."""
    return " ".join(line for part in text.split("\n") if (line := expose_text(part).strip()))


def format_review_notice(response: Response) -> list[str]:
    """Return what the user has to know about edits that are still pending."""
    waiting, bulks = response.metadata.pending_changes, response.metadata.pending_bulks
    lines = []
    if waiting:
        count = len(waiting)
        rename_count = sum(bool(change.renamed_from) for change in waiting)
        rename_note = f" ({rename_count} renamed)" if rename_count else ""
        lines.append(f"{count} {'file' if count == 1 else 'files'} pending review{rename_note}: agent-tui -c")
    groups = group_renames(waiting)
    grouped_paths = {path for group in groups for path in group.files}
    lines += [f"  {format_rename(group)}" for group in groups]
    lines += [f"  {_format_waiting(change)}" for change in waiting if change.path not in grouped_paths]
    if bulks:
        lines.append("Accept each as a whole, by name: agent-tui review --accept NAME")
    return [*lines, *(f"  {_format_bulk(bulk)}" for bulk in bulks)]


def format_rename(rename: RenamedDirectory) -> str:
    """Format a renamed directory: `src/old/ -> src/new/ (100 files renamed)`."""
    return f"{display_name(rename.old)}/ -> {display_name(rename.new)}/ ({len(rename.files):,} files renamed)"


def _format_waiting(change: PendingChange) -> str:
    lines = f"+{change.added} -{change.removed}"
    if change.renamed_from:
        lines = f"renamed, {lines}" if change.added or change.removed else "renamed"
    return f"{format_change_path(change)} ({lines}){_explain(change.protected, change.conflict)}"


def _format_bulk(bulk: PendingBulk) -> str:
    deletions = f", {bulk.deleted:,} deleted" if bulk.deleted else ""
    description = "git state" if bulk.kind == "git" else "too large to show line by line"
    files = f"{bulk.files:,} {'file' if bulk.files == 1 else 'files'}"
    size = f"{files}, {format_size(bulk.bytes)}{deletions}"
    return f"{display_name(bulk.root)} ({description}: {size}){_explain(is_protected=False, conflict=bulk.conflict)}"


def _explain(is_protected: bool, conflict: str) -> str:
    if conflict:
        return f": {to_one_line(conflict)}"
    return ": protected, never accepted in bulk" if is_protected else ""


class TextPrinter:
    """Prints the model's text to `out` and its actions to `err`.

    On a terminal the text is streamed. In a pipe the text of a step waits until the step is done, so that an answer
    that was cut off and repeated is printed once.
    """

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._tty = err.isatty()
        self._live = out.isatty()
        self._held: list[tuple[str, str | None]] = []  # document and text; None: a part begins
        self._printed: dict[str, int] = {}
        self._noted: set[str] = set()
        self._over = False  # the next attempt overwrites the last line on `err`
        self._spoke = False
        self._counting = False  # the cursor is in the count-down line
        self._open = False  # the cursor is behind text, on a terminal that shows both streams
        self._is_ended = True  # the text on `out` ends with its line

    def count_down(self, seconds: int) -> None:
        """Overwrite the count-down line on a terminal; elsewhere the line of the attempt is enough."""
        if self._tty:
            self._err.write(f"\r\x1b[K  retry in {seconds} s · Ctrl+C stops")
            self._err.flush()
            self._counting = True

    def _show_reading(self, processed: int, total: int) -> None:
        """Overwrite the line that says how much of a long prompt the server has read, on a terminal."""
        if self._tty and processed < total:
            self._err.write(f"\r\x1b[K  the server reads the prompt: {processed / total:.0%} of {total:,} tokens")
            self._err.flush()
            self._counting = True

    def _end_count(self) -> None:
        if self._counting:
            self._err.write("\r\x1b[K")
            self._err.flush()
            self._counting = False

    def event(self, envelope: ev.Envelope) -> None:
        if isinstance(envelope.event, BACKGROUND_EVENTS):
            return
        self._end_count()
        match envelope.event:
            case ev.PromptRead(processed=processed, total=total):
                self._show_reading(processed, total)
            case ev.DocumentStarted(kind="text", id=document):
                self._printed[document] = 0
            case ev.DocumentDelta(id=document, text=text) if document in self._printed:
                self._print_text(document, text)
            case ev.DocumentFinished(document=document):
                self._finish(document)
            case ev.StepRetried(void_documents=void) as retried:
                self._held = [entry for entry in self._held if entry[0] not in void]
                self._retry(retried)
            case ev.StepFinished():
                self._release()
            case ev.ToolRequested(tool=tool, summary=summary) if self._tty:
                self._print_notes(f"· {tool} {summary}".rstrip())
            case ev.RulesLoaded(rules=rules):
                notes = (f"! {display_name(rule.path)}: {rule.note}" for rule in rules if rule.note)
                self._print_notes(*(line for line in notes if line.removeprefix("! ") not in self._noted))
            case other:
                self._print_aside(other)
                self._print_notes(_describe_event(other))

    def _retry(self, event: ev.StepRetried) -> None:
        """Print the problem once; then a line for every attempt, on a terminal always the same one."""
        line = _describe_event(event)
        if f"{event.step} {event.message}" in self._noted:
            line = f"  {line.removeprefix(f'! {event.message} ')}"
        self._noted.add(f"{event.step} {event.message}")
        is_repeat = line.startswith("  ")
        if is_repeat and self._over and self._tty:
            self._err.write("\x1b[A\r\x1b[K")
        self._print_notes(line)
        self._over = is_repeat

    def _print_text(self, document: str, text: str) -> None:
        """Print more text of a document, with a blank line before its beginning."""
        if not self._printed[document] and text:
            self._put(document, None)
        self._printed[document] += len(text)
        self._put(document, escape_text(text))

    def _put(self, document: str, text: str | None) -> None:
        self._held.append((document, text))
        if self._live:
            self._release()

    def _release(self) -> None:
        for _, text in self._held:
            if text is not None:
                self._over = False
                self._out.write(text)
                self._is_ended = False
                self._open = self._live and self._tty and not text.endswith("\n")
            elif self._spoke:
                self._out.write("\n\n")
            self._spoke = True
        self._held.clear()
        self._out.flush()

    def _finish(self, document: d.AnyDocument) -> None:
        """Print what was not streamed of a text, or a block of code in its fence."""
        content = document.content or ""
        match document:
            case d.TextDocument():
                self._printed.setdefault(document.id, 0)
                rest = content[self._printed[document.id] :]
                if rest:
                    self._print_text(document.id, rest)
                self._out.flush()
            case d.CodeBlockDocument(metadata=block):
                self._fence(document.id, block.language, content)
            case d.CodeReferenceDocument(metadata=reference):
                head = f"{reference.start_line}:{reference.end_line}:{display_name(reference.file_path)}"
                self._fence(document.id, head, content)
            case d.ClarificationDocument(metadata=asked):
                self._print_notes(*format_questions(asked))
            case _:
                pass

    def _print_aside(self, event: ev.AnyEvent) -> None:
        """Print a piece of the answer to a side question; at its end what was not streamed of it."""
        if not isinstance(event, ev.AsideDelta | ev.AsideAnswered):
            return
        printed = self._printed.setdefault(event.id, 0)
        text = event.text[printed:] if isinstance(event, ev.AsideAnswered) else event.text
        if text:
            self._print_text(event.id, text)
        if isinstance(event, ev.AsideAnswered):
            self._release()
            self._print_notes(describe_cost(event))

    def _fence(self, document: str, head: str, content: str) -> None:
        mark = choose_fence(content)
        self._put(document, None)
        self._put(document, escape_text(f"{mark}{head}\n{content.rstrip()}\n{mark}"))

    def _print_notes(self, *lines: str) -> None:
        for line in filter(None, lines):
            self._err.write("\n" * self._open)  # a notice begins a line
            self._open = False
            self._noted.add(line.removeprefix("! "))
            self._err.write(f"{to_one_line(line)}\n")
            self._over = False
        self._err.flush()

    def notify(self, lines: Iterable[str]) -> None:
        self._end_text()
        self._err.writelines(f"{line}\n" for line in lines)
        self._err.flush()

    def _end_text(self) -> None:
        """End the line of the text, so that what follows on either stream begins one."""
        self._end_count()
        self._release()
        if self._spoke and not self._is_ended and (self._open or not (self._live and self._tty)):
            self._out.write("\n")
        self._open, self._is_ended = False, True
        self._out.flush()

    def end(self, response: Response) -> None:
        self._end_text()
        meta = response.metadata
        if response.status == "error" and not response.id:
            self._print_notes(*_describe_failure(response))
        elif meta.stop_reason != "done" and meta.stop_message not in self._noted:
            self._print_notes(f"agent-tui: {meta.stop_reason}{f': {meta.stop_message}' if meta.stop_message else ''}")
        if meta.accepted_changes:
            self._print_notes(f"written: {', '.join(map(display_name, meta.accepted_changes))}")
        for check in meta.checks:
            self._print_notes(
                _describe_check(check), *(f"  {fit_failure_line(line, MAX_WIDTH)}" for line in check.excerpt)
            )
        self._print_notes(*_describe_findings(meta.findings))
        self._print_notes(*format_review_notice(response))


def _describe_check(check: ResponseCheck) -> str:
    """Describe a check as the receipt does: the command and its result."""
    outcome = check.told or ("passed" if check.exit_code == 0 else f"exit code {check.exit_code}")
    return f"checked: {cut_middle(to_one_line(check.command), MAX_WIDTH)} · {outcome}"


def _describe_findings(findings: Sequence[ResponseFinding] | None) -> list[str]:
    """Describe the findings of a code review, and those whose position is not certain."""
    if findings is None:
        return []
    doubts = [
        f"  {display_name(finding.path)}:{finding.start_line}: {finding.doubt}" for finding in findings if finding.doubt
    ]
    counts = [(sum(finding.severity == word for finding in findings), word) for word in SEVERITIES]
    breakdown = ", ".join(f"{number} {word}" for number, word in counts if number)
    return [f"{count('finding', len(findings))}{f': {breakdown}' if breakdown else ''}", *doubts]


def _describe_event(event: ev.AnyEvent) -> str:
    match event:
        case ev.GoalChecked() | ev.GoalEnded() | ev.LoopStarted() | ev.LoopEnded():
            return _describe_progress(event)
        case ev.ToolFinished(status=status, tool=tool, summary=summary) if status != "completed":
            return f"! {tool}: {status}{f': {summary}' if summary else ''}"
        case ev.EffectsRecorded(command=command, on_machine=True, in_place=False):
            return f"! Unsandboxed, on your machine: {command}"
        case ev.ErrorRaised(message=message, hint=hint) | ev.Notice(message=message, hint=hint):
            return f"! {message} {hint}".rstrip()
        case ev.StepRetried(message=message) as retried:
            return f"! {message} {_describe_retry(retried)}"
        case _:
            return f"! {event.repaired}" if isinstance(event, ev.SessionResumed) and event.repaired else ""


def _describe_progress(event: ev.GoalChecked | ev.GoalEnded | ev.LoopStarted | ev.LoopEnded) -> str:
    """Describe what happens to a goal or a loop of the run."""
    if isinstance(event, ev.GoalChecked):
        return format_check(event)
    return f"! {format_end(event) if isinstance(event, ev.GoalEnded) else format_loop(event)}"


def _describe_retry(event: ev.StepRetried) -> str:
    if event.delay_ms:
        return f"Attempt {event.attempt} in {event.delay_ms / 1000:.1f} s."
    return f"Trying again, attempt {event.attempt}." if event.attempt > 1 else "Trying again."


def _describe_failure(response: Response) -> list[str]:
    """Describe why a prompt could not begin and what to do, one line for every problem."""
    lines = []
    for document in response.documents:
        if isinstance(document, d.ErrorDocument):
            first, *others = (document.content or "").split("\n")  # mistakes of a settings file, one a line
            lines.append(f"agent-tui: {first}")
            lines += [f"  {line}" for line in (*others, *document.metadata.details.splitlines())]
    return lines


@dataclass
class JsonPrinter:
    """Prints one response object on `out`, at the end."""

    _out: TextIO
    _err: TextIO

    def event(self, envelope: ev.Envelope) -> None:
        """Print nothing before the end."""

    def count_down(self, seconds: int) -> None:
        """Print nothing: the count-down is for people."""

    def notify(self, lines: Iterable[str]) -> None:
        self._err.writelines(f"{line}\n" for line in lines)

    def end(self, response: Response) -> None:
        write_json(json.dumps(msgspec.to_builtins(response), indent=2, ensure_ascii=False), self._out)
        self._out.flush()
        for line in format_review_notice(response):
            self._err.write(f"{line}\n")


@dataclass
class StreamPrinter:
    """Prints every event as one line, as on the wire; the last line is `{"type":"result","response":{…}}`."""

    _out: TextIO
    _err: TextIO

    def event(self, envelope: ev.Envelope) -> None:
        self._write_line(encode_record(envelope))

    def count_down(self, seconds: int) -> None:
        """Print nothing: the event that began the wait has its length."""

    def notify(self, lines: Iterable[str]) -> None:
        self._err.writelines(f"{line}\n" for line in lines)

    def end(self, response: Response) -> None:
        self._write_line(encode_record({"type": "result", "response": response}))

    def _write_line(self, data: bytes) -> None:
        write_json(data, self._out)
        self._out.flush()


def read_schema(path: Path) -> dict[str, Any] | bool:
    """Read a JSON Schema. Raises `ConfigError` if the file holds none."""
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
    from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]

    try:
        data = path.read_bytes()
        if len(data) > MAX_SCHEMA:
            raise ConfigError(f"{path} is larger than {MAX_SCHEMA // 1024} KB.", code="schema_invalid")
        schema: dict[str, Any] | bool = decode_json(data)
        if not isinstance(schema, dict | bool):
            raise ConfigError(f"{path} is not a JSON Schema: an object is expected.", code="schema_invalid")
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except (OSError, msgspec.DecodeError, RecursionError) as problem:
        raise ConfigError(f"{path} can't be read as JSON: {problem}.", code="schema_invalid") from problem
    except SchemaError as problem:
        raise ConfigError(
            f"{path} is not a JSON Schema: {_shorten_problem(problem.message)}.", code="schema_invalid"
        ) from problem
    return schema


class JsonAnswer(Struct, eq=False):
    """The answer that a schema requires. `text`: its JSON on one line once there is one; `problem`: why the last answer
    is not valid."""

    schema: dict[str, Any] | bool
    text: str = ""
    value: Any = None
    problem: str = ""

    @property
    def bindable_schema(self) -> dict[str, Any]:
        """The schema, {} if it is not that of an object: APIs bind answers to no other."""
        return self.schema if isinstance(self.schema, dict) and self.schema.get("type") == "object" else {}

    def add_request(self, prompt: str) -> str:
        """Return the prompt with the schema of the answer."""
        return f"{prompt}\n\n{render('json_answer', schema=json.dumps(self.schema, ensure_ascii=False))}"

    def render_retry(self) -> str:
        """Return the prompt that asks again."""
        return render("json_answer_again", problem=self.problem)

    def read(self, documents: list[d.AnyDocument]) -> bool:
        """Read the answer from the end of a turn's documents. Returns False if there is no valid one."""
        self.problem = "it is not a single JSON value."
        for text in _list_candidates(documents):
            try:
                value = parse_json(text, parse_constant=_refuse_constant)
            except (ValueError, RecursionError):
                continue
            self.problem = self._find_fault(value) or ""
            if not self.problem:
                self.value, self.text = value, json.dumps(value, ensure_ascii=False)
                return True
        return False

    def _find_fault(self, value: object) -> str | None:
        """Return why a value is not valid; None: it is. References that lead out of the schema are not followed."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match
        from jsonschema.validators import validator_for

        validator = validator_for(self.schema, default=Draft202012Validator)(self.schema)
        try:
            error = best_match(validator.iter_errors(value))
        except Exception as problem:  # the library fails on dangling references and invalid patterns
            return f"the schema can't be used: {_shorten_problem(str(problem))}."
        return None if error is None else f"at {error.json_path}: {_shorten_problem(error.message)}."


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _shorten_problem(text: str) -> str:
    return text if len(text) <= MAX_TOLD else f"{text[:MAX_TOLD]} …"


def _list_candidates(documents: list[d.AnyDocument]) -> list[str]:
    """Return the texts that may be the value: all of the final text, and its only block of code."""
    last_documents: list[d.AnyDocument] = []
    for document in reversed(documents):
        if isinstance(document, d.ReasoningDocument):
            continue
        if not isinstance(document, d.TextDocument | d.CodeBlockDocument):
            break
        last_documents.insert(0, document)
    blocks = [document.content or "" for document in last_documents if isinstance(document, d.CodeBlockDocument)]
    return ["\n".join(document.content or "" for document in last_documents), *(blocks if len(blocks) == 1 else ())]


def merge_responses(parts: list[Response], answer: JsonAnswer) -> Response:
    """Merge the turns of one run into one response: all documents, total usage, and the answer."""
    last = parts[-1]
    documents = [document for part in parts for document in part.documents]
    numbered_documents = tuple(
        replace(document, id=f"doc_{number:03}", sequence=number) for number, document in enumerate(documents, 1)
    )
    names = (name for name in ResponseUsage.__struct_fields__ if name != "cost")
    counts = {name: sum(getattr(response.usage, name) for response in parts) for name in names}
    costs = [response.usage.cost for response in parts]
    cost = None if None in costs else sum(amount for amount in costs if amount is not None)
    totals = {
        name: sum(getattr(response.metadata, name) for response in parts)
        for name in ("duration_ms", "tool_call_count", "turn_count")
    }
    metadata = replace(last.metadata, structured_output=answer.value, **totals)
    if not answer.text and metadata.stop_reason == "done":
        metadata = replace(metadata, stop_reason="failed", stop_message=NOT_VALID.format(answer.problem))
    status = last.status if answer.text else "error"
    return replace(
        last,
        created=parts[0].created,
        status=status,
        documents=numbered_documents,
        usage=ResponseUsage(**counts, cost=cost),
        metadata=metadata,
    )


class JsonAnswerPrinter(TextPrinter):
    """Prints only the JSON on standard output; everything else is as with text."""

    def _release(self) -> None:
        self._held.clear()

    def end(self, response: Response) -> None:
        super().end(response)
        if response.status == "completed" and response.metadata.stop_reason == "done":
            write_json(json.dumps(response.metadata.structured_output, ensure_ascii=False), self._out)
            self._out.flush()
