"""Refusals of model APIs: the reasons that an error body names, and the time after which a call may be repeated."""

from __future__ import annotations

import datetime
import email.utils
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from core.patterns import compile_lazily

_SWITCH_MODEL: Final = "choose another model with /model"
_SPAN: Final = compile_lazily(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_UNITS: Final = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_WORDS: Final = compile_lazily(
    r"(?:try again in|retry (?:in|after)|wait) +(?P<span>(?:\d+(?:\.\d+)?(?:ms|[dhms]))+(?![a-z])"
    r"|\d+(?:\.\d+)? *(?P<unit>milliseconds|seconds?|minutes?))",
    re.IGNORECASE,
)
_WORD_SECONDS: Final = {"milliseconds": 0.001, "second": 1.0, "seconds": 1.0, "minute": 60.0, "minutes": 60.0}
_NUMBER: Final = compile_lazily(r"\s*\d+(\.\d+)?\s*")
_MILLISECONDS_SINCE_1970: Final = 100_000_000_000  # Larger numbers are not seconds.
_DEPTH: Final = 6


class Refusal(Struct, frozen=True):
    """One reason for a refusal. `words`: a pattern, matched case-insensitively in the body from the beginning of a
    word; `statuses`: the statuses that it comes with (an error within a stream without a status counts as 500)."""

    code: str
    what: str
    hint: str
    words: str
    statuses: tuple[int, ...]
    retryable: bool = False


TOO_LARGE: Final = (
    r"context[ _]length[ _]exceeded|maximum (context|prompt) length|context (window|size|length).{0,60}exceed"
    r"|exceed.{0,60}context[ _](window|size|length|limit)|(prompt|input) is too long|too many (input )?tokens"
    r"|prompt contains \d+ tokens.{0,60}too large|input token count.{0,40}exceeds|input length.{0,40}exceed"
    r"|exceeds? the (available|model'?s?) (context|maximum)|model_context_window_exceeded|reduce the length of"
    r"|request_too_large|request too large for|tokens to keep from the initial prompt is greater than the context"
    r"|trying to keep the first \d+ tokens when context|cannot truncate prompt with n_keep"
    r"|input \(\d+ tokens\) is too large to process"
)
# The numbers in such a message: of the window, and of the request.
_WINDOW_SIZES: Final = (
    r"available context size \((\d+) tokens",
    r"maximum (?:context|prompt) length (?:is|of) (?:only )?(\d[\d,]*)",
    r"(\d[\d,]*) maximum (?:context|prompt) length",
    r"context length of (?:only )?(\d[\d,]*)",
    r"tokens > (\d[\d,]*) maximum",
    r"maximum number of tokens allowed \((\d[\d,]*)\)",
)
_REQUEST_SIZES: Final = (
    r"request \((\d+) tokens\)",
    r"(?:resulted in|requested|request has|contains|too long:) (\d[\d,]*) (?:input )?tokens",
    r"input token count \((\d[\d,]*)\)",
    r"keep the first (\d[\d,]*) tokens",
)
_MIN_WINDOW: Final = 256  # tokens; a smaller number is no window


TOO_LARGE_STATUSES: Final = (400, 413, 422, 429, 500)


_SERVER_FAULTS: Final = tuple(range(500, 600))


# Echoes of validators and gateways that repeat the request: keys of a body, and its beginning in a text.
_ECHO_KEYS: Final = frozenset({"input", "ctx", "body", "request", "messages", "prompt", "failed_generation"})


_ECHO_TEXT: Final = compile_lazily(
    r"['\"]input['\"]: |input_value=|\bReceived Messages="
    r"|\b(?:messages|prompt)=[\[{'\"]|['\"](?:messages|prompt)['\"]: ",
)


MAX_DEPTH: Final = 8


NEEDS_RESPONSES: Final = r"\bv1/responses\b"


# The messages of templates and gateways that reject the order of roles, or a role.
ALTERNATES: Final = (
    r"roles? (must|should|have to|need to) (strictly )?(be )?alternat|(must|should|to) (be )?alternat(e|ing)\b"
    r"|alternat(e|es|ing) (between|user|with)|alternating (user|roles)"
    r"|(successive|consecutive|two|multiple|several) [^.]{0,30}\b(user|assistant|messages|roles?)\b"
    r"[^.]{0,60}(row|allowed|supported|same role|not|in your input)|successive (user|assistant)"
    r"|unexpected role .?(user|assistant|system).? after|same role|expected (user|assistant|alternating)"
    r"|(user|assistant) message (must|should|cannot|can't|can not) (follow|be followed|come after)"
)


NO_SYSTEM: Final = (
    r"system (role|messages?|prompts?|instructions?) (is |are )?(not|un)[ -]?(supported|allowed|enabled)"
    r"|(does not|doesn't|do not) support (the )?.?system.? (role|messages?|prompts?)"
    r"|developer instruction is not enabled"
    r"|(unsupported|unknown|invalid|unexpected) (message )?role:? .?system|role .?system.? is (not|un)"
)


QUOTA: Final = Refusal(
    "quota_exhausted",
    "{who} refused the request: this key has no quota or credit left",
    f"Check the account's billing page, or {_SWITCH_MODEL}.",
    r"insufficient_quota|exceeded your current quota|exceeded_current_quota|credit balance is too low"
    r"|insufficient (balance|credits|funds)|(requires|need) more credits|billing_(error|hard_limit|not_active)"
    r"|payment required|spend_limit|specified api usage limits|extra usage is required|free-models-per-day|\w*PerDay",
    (400, 402, 403, 429, 500, 503),
)


REFUSALS: Final = (
    Refusal(
        "reasoning_refused",
        "{who} no longer accepts the model's earlier reasoning",
        "Send it again, or start a new session with /new.",
        r"signature`? in `?(redacted_)?thinking|thinking`? blocks?.{0,80}can(not|'t) be modified"
        r"|bound to a different (conversation|account|model)|expected `(redacted_)?thinking`"
        r"|without its required.{0,30}(following|reasoning)|invalid_encrypted_content"
        r"|encrypted.content.{0,80}(verified|decrypted|parsed)|(invalid|corrupt|not valid).{0,60}thought.?signature"
        r"|thought.?signature.{0,60}(invalid|corrupt|not valid)",
        (400, 422),
    ),
    Refusal(
        "region_refused",
        "{label} does not serve this country or region",
        "Use another provider; /model lists those that you have a key for.",
        r"unsupported_country_region_territory|country, region, or territory not supported"
        r"|user location is not supported",
        (400, 403, 451, 500),
    ),
    QUOTA,
    Refusal(
        "key_rejected",
        "{who} rejected the key",
        "",
        r"api key not valid|pass a valid api key|API_KEY_INVALID|incorrect api key|invalid api key|invalid x-api-key",
        (400,),
    ),
    Refusal(
        "access_denied",
        "{label} does not allow this account to use {model}",
        f"Check the account's settings (verification, model access, organization, project), or {_SWITCH_MODEL}.",
        r"organization (must be verified|has been disabled)|does not have access to model"
        r"|endpoints found matching your (data|guardrail)|access to this model is (not|denied)",
        (400, 403, 404),
    ),
    Refusal(
        "content_filtered",
        "{who} refused the content of the conversation",
        f"Rephrase it, go back with /rewind, or {_SWITCH_MODEL}.",
        r"content_filter(?!_results)|ResponsibleAIPolicyViolation|content_policy_violation|content filtering policy"
        r"|content exists risk|data_inspection_failed|content violates usage guidelines|violating our usage policy"
        r"|flagged_input|cyber_policy",
        (400, 403, 422, 451, 500),
    ),
    Refusal(
        "tools_unsupported",
        "{who} supports no tools",
        "Choose a model that supports function calls with /model, or let this one write calls as text: "
        '[models."{id}"] dialect = "tags".',
        r"(does|do|is) not support(ed)? (tools?|tool[ -](use|calls?|calling|choice)|function[ -]?call(s|ing)?)\b"
        r"|support tool use|`?tool calling`? is not supported|function calling is not (enabled|supported)"
        r"|requires --enable-auto-tool-choice|tools param requires --jinja|unsupported param: tools"
        r"|[`'\"]?tools[`'\"]? (is|are) not supported|tool (use|calls?) (is|are) not supported"
        r"|endpoints found that support the provided .{0,3}tool",
        (400, 404, 405, 422, 500, 501),
    ),
    Refusal(
        "embeddings_unsupported",
        "{label} does not compute embeddings",
        "Start its server with embeddings, or choose another model with /embeddings.",
        r"(does|do|is) not support(ed)? embeddings?|embeddings? (is|are) not (supported|enabled)",
        (400, 404, 405, 422, 500, 501),
    ),
    Refusal(
        "schema_refused",
        "{who} refused the definition of a tool",
        f'Let it write its calls as text ([models."{id}"] dialect = "tags"), or {_SWITCH_MODEL}.',
        r"invalid schema for function|invalid_function_parameters|function_declarations\[|flavored json schema"
        r"|tools\.\d+\.(custom\.)?input_schema|tools\[\d+\](\.function)?\.(description|parameters|name)",
        (400, 422),
    ),
    Refusal(
        "call_malformed",
        "{who} wrote a tool call that its own server could not read",
        "Try again.",
        r"tool_use_failed|failed to call a function|failed to parse tool call",
        (400, 422, 500),
        retryable=True,
    ),
    Refusal(
        "out_of_memory",
        "{label} has not enough memory for {model}",
        "Choose a smaller model with /model, or give its server more memory.",
        r"requires more system memory|insufficient (system )?resources|out of memory\b|OutOfMemory(Error)?\b|OOM\b",
        _SERVER_FAULTS,
    ),
    Refusal(
        "model_loading",
        "{label} is still loading {model}",
        "Try again in a moment.",
        r"loading model|model is (currently )?loading",
        (500, 503),
        retryable=True,
    ),
    Refusal(
        "model_unknown",
        "{label} has no model {model!r}",
        "Choose one with /model.",
        r"DeploymentNotFound|no models? (is )?loaded|model_not_found|(invalid|unknown) model\b|is not a valid model"
        r"|no endpoints found for",
        (400, 403, 404),
    ),
    Refusal(
        "address_unknown",
        "{label} has no such address",
        "{check_address}",
        r"unexpected endpoint or method",
        (400, 404, 405, 500),
    ),
)


def matches_words(words: str, text: str) -> bool:
    """Return True if a pattern matches in a server's message, in any case, from the beginning of a word."""
    return re.search(rf"(?<![A-Za-z0-9])(?:{words})", text, re.IGNORECASE | re.DOTALL) is not None


def drop_echoes(body: Any, model: str = "", depth: int = 0) -> Any:
    """Return a body, JSON or text, without its echo of the request, since a prompt is no reason for a refusal. The name
    of the `model` is removed too, since it may contain any words."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(body, dict):
        fields = {key: value for key, value in body.items() if key not in _ECHO_KEYS}
        return {key: drop_echoes(value, model, depth + 1) for key, value in fields.items()}
    if isinstance(body, list):
        return [drop_echoes(entry, model, depth + 1) for entry in body]
    if not isinstance(body, str):
        return body
    echo = _ECHO_TEXT.search(body)
    text = body[: echo.start()] if echo else body
    return re.sub(rf"(?<!\w){re.escape(model)}(?!\w)", "MODEL", text) if len(model) > 2 else text


def find_refusal(status: int, text: str) -> Refusal | None:
    """Return the known reason that a body names, else None."""
    if matches_words(NEEDS_RESPONSES, text):
        return None  # The API asks for its other wire.
    rows = (refusal for refusal in REFUSALS if status in refusal.statuses)
    return next((row for row in rows if matches_words(row.words, text)), None)


def is_too_large(status: int, text: str) -> bool:
    """Return True if the request was too large for the model or for a proxy in front of it."""
    return status == 413 or (status in TOO_LARGE_STATUSES and matches_words(TOO_LARGE, text))


def parse_sizes(body: object, text: str) -> tuple[int, int]:
    """Return the window and the size of the request in tokens that a refusal of a long request names, 0 = it names
    none. llama.cpp names both in fields of their own."""
    window, tokens = (_find_number(patterns, text) for patterns in (_WINDOW_SIZES, _REQUEST_SIZES))
    for mapping in _walk_mappings(body):
        known_window, known_tokens = mapping.get("n_ctx"), mapping.get("n_prompt_tokens")
        window = known_window if isinstance(known_window, int) else window
        tokens = known_tokens if isinstance(known_tokens, int) else tokens
    window = window if window >= _MIN_WINDOW else 0
    return window, tokens if tokens >= window else 0


def _find_number(patterns: Iterable[str], text: str) -> int:
    matches = (re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
    return next((int(match[1].replace(",", "")) for match in matches if match), 0)


def parse_wait(headers: Mapping[str, str], body: object = None, text: str = "") -> float | None:
    """Return the seconds that a server asks to wait, from its most exact statement; None: there is no statement."""
    # OpenRouter forwards the headers of the upstream server in `error.metadata.headers`.
    inner = (mapping["headers"] for mapping in _walk_mappings(body) if isinstance(mapping.get("headers"), dict))
    waits = (_parse_retry_after(headers), _parse_retry_info(body), _parse_words(text))
    resets = (_parse_reset(headers), _parse_reset(next(inner, {})))
    return next((max(0.0, seconds) for seconds in (*waits, *resets) if seconds is not None), None)


def _parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Parse `retry-after-ms`, and `retry-after` in seconds or as a date."""
    milliseconds, value = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        if milliseconds:
            return float(milliseconds) / 1000
        if value and _NUMBER.fullmatch(value):
            return float(value)
        return email.utils.parsedate_to_datetime(value).timestamp() - time.time() if value else None
    except (TypeError, ValueError, OverflowError):
        return None


def _parse_retry_info(body: object) -> float | None:
    """Parse Google's `RetryInfo`: {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "22.5s"}."""
    delays = (mapping.get("retryDelay") for mapping in _walk_mappings(body))
    spans = (parse_duration(delay) for delay in delays if isinstance(delay, str))
    return next((span for span in spans if span is not None), None)


def _parse_words(text: str) -> float | None:
    """Parse phrases such as "Please try again in 1m0.36s" and "Please retry after 26 seconds"."""
    match = _WORDS.search(text)
    if match is None:
        return None
    if unit := match["unit"]:
        return float(match["span"].removesuffix(unit)) * _WORD_SECONDS[unit.lower()]
    return parse_duration(match["span"])


def _parse_reset(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until the exhausted limits are reset."""
    fields = {str(name).lower(): str(value) for name, value in headers.items()}
    waits = []
    for name, value in fields.items():
        if "ratelimit" not in name or "reset" not in name:
            continue
        remaining = fields.get(name.replace("reset", "remaining"))
        if remaining is not None and _NUMBER.fullmatch(remaining) and float(remaining) <= 0:
            waits.append(_parse_moment(value))
    return max((wait for wait in waits if wait is not None), default=None)


def _parse_moment(value: str) -> float | None:
    """Return the seconds until a reset that is a span "2m59.56s", a clock (1741305600000, 1741305600) or a date of
    RFC 3339."""
    if _NUMBER.fullmatch(value):
        number = float(value)
        if number > _MILLISECONDS_SINCE_1970:
            return number / 1000 - time.time()
        return number - time.time() if number > 1_000_000_000 else number
    if (span := parse_duration(value)) is not None:
        return span
    try:
        return datetime.datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp() - time.time()
    except ValueError:
        return None


def parse_duration(span: str) -> float | None:
    """Return the seconds of "1h2m3.5s", "22s", "60ms"; None for anything else."""
    match = _SPAN.fullmatch(span.strip())
    if match is None or not any(match.groups()):
        return None
    return sum(float(part) * unit for part, unit in zip(match.groups(), _UNITS, strict=True) if part)


def _walk_mappings(value: object, depth: int = 0) -> Iterator[dict[str, Any]]:
    if depth > _DEPTH:
        return
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for child in value:
            yield from _walk_mappings(child, depth + 1)
