"""The answer of `-p --json-schema FILE`: one JSON value that is valid under the schema, asked for and checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.cli.print_mode.printer import TextPrinter
from core.cli.streams.json_escapes import write_json
from core.errors import ConfigError
from core.prompts import render
from core.protocol import documents as d
from core.records import decode_json, parse_json
from core.transports.response import Response, ResponseUsage

MAX_SCHEMA = 256 * 1024  # bytes
MAX_TOLD = 600  # characters of what is wrong with an answer
NOT_VALID = "The answer is not the JSON that was asked for: {}"
RETRIES = 2  # times that the model is told what is wrong with its answer


def read_schema(path: Path) -> dict[str, Any] | bool:
    """Read a JSON Schema. Raises `ConfigError`: there is none in the file."""
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
    from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]

    try:
        data = path.read_bytes()
        if len(data) > MAX_SCHEMA:
            raise ConfigError(f"{path} is larger than {MAX_SCHEMA // 1024} KB.", code="schema_invalid")
        schema: dict[str, Any] | bool = decode_json(data)
        if not isinstance(schema, dict | bool):
            raise ConfigError(f"{path} is no JSON Schema: an object is expected.", code="schema_invalid")
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except (OSError, msgspec.DecodeError, RecursionError) as problem:
        raise ConfigError(f"{path} can't be read as JSON: {problem}.", code="schema_invalid") from problem
    except SchemaError as problem:
        raise ConfigError(f"{path} is no JSON Schema: {_shorten(problem.message)}.", code="schema_invalid") from problem
    return schema


class JsonAnswer(Struct, eq=False):
    """The wanted answer. `text`: its JSON in one line once there is one; `problem`: why the last answer is none."""

    schema: dict[str, Any] | bool
    text: str = ""
    value: Any = None
    problem: str = ""

    def add_request(self, prompt: str) -> str:
        """Return the prompt with what the model is told of the answer."""
        return f"{prompt}\n\n{render('json_answer', schema=json.dumps(self.schema, ensure_ascii=False))}"

    def render_retry(self) -> str:
        """Return the prompt that asks once more."""
        return render("json_answer_again", problem=self.problem)

    def read(self, documents: list[d.AnyDocument]) -> bool:
        """Look for the answer at the end of a turn's documents. Returns False: there is no valid one."""
        self.problem = "it is not one JSON value."
        for text in _list_candidates(documents):
            try:
                value = parse_json(text, parse_constant=_refuse_constant)
            except (ValueError, RecursionError):
                continue
            self.problem = self._find_fault(value)
            if not self.problem:
                self.value, self.text = value, json.dumps(value, ensure_ascii=False)
                return True
        return False

    def _find_fault(self, value: object) -> str:
        """Return where a value is not valid and why, "" = it is. References that lead out of the schema are not
        followed."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match
        from jsonschema.validators import validator_for

        validator = validator_for(self.schema, default=Draft202012Validator)(self.schema)
        try:
            error = best_match(validator.iter_errors(value))
        except Exception as problem:  # of the library: a reference that leads nowhere, a pattern that is none
            return f"the schema can't be followed: {_shorten(str(problem))}."
        return "" if error is None else f"at {error.json_path}: {_shorten(error.message)}."


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TOLD else f"{text[:MAX_TOLD]} …"


def _list_candidates(documents: list[d.AnyDocument]) -> list[str]:
    """Return what may be the value: all of the last words, or the one block of code among them."""
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
    """Return the turns of one run as one response: all their documents, what they used together, and the answer."""
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
    """Prints the JSON alone on standard output; everything else is as with text."""

    def _release(self) -> None:
        self._held.clear()

    def end(self, response: Response) -> None:
        super().end(response)
        if response.status == "completed" and response.metadata.stop_reason == "done":
            write_json(json.dumps(response.metadata.structured_output, ensure_ascii=False), self._out)
            self._out.flush()
