"""The reasons for which model APIs refuse requests, as a table: by the words that servers really use, since their codes
differ.

The first row that speaks of an answer wins, among those that its status allows. Words count from their beginning on,
and only the server's own: what it repeats of the request (`drop_echoes`) may say anything. `{who}` is the provider with
its model, `{label}` the provider alone.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

_ANOTHER: Final = "choose another model with /model"


class Refusal(Struct, frozen=True):
    """One reason. `words`: a pattern, searched for in the body in any case from the beginning of a word on; `statuses`:
    those that it can come with (an error within a stream that has none counts as 500)."""

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
)
TOO_LARGE_STATUSES: Final = (400, 413, 422, 429, 500)

_SERVER_FAULTS: Final = tuple(range(500, 600))

# Of the validators and gateways that repeat the request in what they say: keys of a body, and its beginning in a text.
_ECHO_KEYS: Final = frozenset({"input", "ctx", "body", "request", "messages", "prompt", "failed_generation"})
_ECHO_TEXT: Final = re.compile(
    r"['\"]input['\"]: |input_value=|\bReceived Messages="
    r"|\b(?:messages|prompt)=[\[{'\"]|['\"](?:messages|prompt)['\"]: ",
)
MAX_DEPTH: Final = 8

NEEDS_RESPONSES: Final = r"\bv1/responses\b"

QUOTA: Final = Refusal(
    "quota_exhausted",
    "{who} refuses the request: the quota or the credit of this key is used up",
    f"Look at the billing page of the account, or {_ANOTHER}.",
    r"insufficient_quota|exceeded your current quota|exceeded_current_quota|credit balance is too low"
    r"|insufficient (balance|credits|funds)|(requires|need) more credits|billing_(error|hard_limit|not_active)"
    r"|payment required|spend_limit|specified api usage limits|extra usage is required|free-models-per-day|\w*PerDay",
    (400, 402, 403, 429, 500, 503),
)
REFUSALS: Final = (
    Refusal(
        "reasoning_refused",
        "{who} no longer takes what the model thought before",
        "Send it again, or begin a new session with /new.",
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
        "Use a provider that serves it; /model lists those that you have a key for.",
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
        "{label} does not let this account use {model}",
        f"Look at the account's settings (verification, model access, organization, project), or {_ANOTHER}.",
        r"organization (must be verified|has been disabled)|does not have access to model"
        r"|endpoints found matching your (data|guardrail)|access to this model is (not|denied)",
        (400, 403, 404),
    ),
    Refusal(
        "content_filtered",
        "{who} refused what the conversation says",
        f"Say it otherwise, go back to before it with /rewind, or {_ANOTHER}.",
        r"content_filter(?!_results)|ResponsibleAIPolicyViolation|content_policy_violation|content filtering policy"
        r"|content exists risk|data_inspection_failed|content violates usage guidelines|violating our usage policy"
        r"|flagged_input|cyber_policy",
        (400, 403, 422, 451, 500),
    ),
    Refusal(
        "tools_unsupported",
        "{who} takes no tools",
        "Choose a model that can call functions with /model, or have this one write them as text: "
        '[models."{id}"] dialect = "tags".',
        r"(does|do|is) not support(ed)? (tools?|tool[ -](use|calls?|calling|choice)|function[ -]?call(s|ing)?)\b"
        r"|support tool use|`?tool calling`? is not supported|function calling is not (enabled|supported)"
        r"|requires --enable-auto-tool-choice|tools param requires --jinja|unsupported param: tools"
        r"|[`'\"]?tools[`'\"]? (is|are) not supported|tool (use|calls?) (is|are) not supported"
        r"|endpoints found that support the provided .{0,3}tool",
        (400, 404, 405, 422, 500, 501),
    ),
    Refusal(
        "schema_refused",
        "{who} refused the definition of a tool",
        f'Have it write its calls as text ([models."{{id}}"] dialect = "tags"), or {_ANOTHER}.',
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


def is_said(words: str, text: str) -> bool:
    """Return True if a pattern fits in what a server said, in any case, from the beginning of a word on."""
    return re.search(rf"(?<![A-Za-z0-9])(?:{words})", text, re.IGNORECASE | re.DOTALL) is not None


def drop_echoes(body: Any, model: str = "", depth: int = 0) -> Any:
    """Return a body, JSON or text, without what it repeats of the request: nobody's prompt is a reason of the server's.
    The name of the `model` is one thing that is repeated, and may be any words, too."""
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
    """The reason that a body names; None: none that is known."""
    if is_said(NEEDS_RESPONSES, text):
        return None  # another wire of the same API is asked for
    rows = (refusal for refusal in REFUSALS if status in refusal.statuses)
    return next((row for row in rows if is_said(row.words, text)), None)


def is_too_large(status: int, text: str) -> bool:
    """Return True if the request was larger than the model, or whatever stands before it, takes."""
    return status == 413 or (status in TOO_LARGE_STATUSES and is_said(TOO_LARGE, text))
