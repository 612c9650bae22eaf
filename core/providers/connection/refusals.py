"""The reasons for which model APIs refuse requests, as a table: by the words that servers really use, since their codes
differ.

The first row that speaks of an answer wins. `{who}` is the provider with its model, `{label}` the provider alone.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

_ANOTHER: Final = "choose another model with /model"


class Refusal(Struct, frozen=True, kw_only=True):
    """One reason. `statuses` () = any of 300 and above; `words` in the body, in any case."""

    code: str
    what: str
    hint: str
    words: re.Pattern[str]
    statuses: tuple[int, ...] = ()
    retryable: bool = False

    def matches(self, status: int, text: str) -> bool:
        """Return True if this is the reason for an answer of `status` with this body."""
        return (not self.statuses or status in self.statuses) and self.words.search(text) is not None


def _build_pattern(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(words), re.IGNORECASE | re.DOTALL)


TOO_LARGE: Final = _build_pattern(
    r"context[ _]length[ _]exceeded",
    r"maximum context length",
    r"maximum prompt length",
    r"context (window|size|length).{0,60}exceed",
    r"exceed.{0,60}context[ _](window|size|length|limit)",
    r"prompt is too long",
    r"input is too long",
    r"prompt contains \d+ tokens.{0,60}too large",
    r"too many (input )?tokens",
    r"input token count.{0,40}exceeds",
    r"exceeds? the (available|model'?s?) (context|maximum)",
    r"model_context_window_exceeded",
    r"reduce the length of",
    r"input length.{0,40}exceed",
    r"request_too_large",
    r"request too large for",
    r"tokens to keep from the initial prompt is greater than the context",
    r"trying to keep the first \d+ tokens when context",
    r"cannot truncate prompt with n_keep",
)
TOO_LARGE_STATUSES: Final = (400, 413, 422, 429, 500)

NEEDS_RESPONSES: Final = _build_pattern(r"\bv1/responses\b")

REFUSALS: Final = (
    Refusal(
        code="reasoning_refused",
        what="{who} no longer takes what the model thought before",
        hint="Send it again, or begin a new session with /new.",
        words=_build_pattern(
            r"signature`? in `?(redacted_)?thinking",
            r"thinking`? blocks?.{0,80}can(not|'t) be modified",
            r"bound to a different (conversation|account|model)",
            r"expected `(redacted_)?thinking`",
            r"without its required.{0,30}(following|reasoning)",
            r"invalid_encrypted_content",
            r"encrypted.content.{0,80}(verified|decrypted|parsed)",
            r"(invalid|corrupt|not valid).{0,60}thought.?signature",
            r"thought.?signature.{0,60}(invalid|corrupt|not valid)",
        ),
        statuses=(400, 422),
    ),
    Refusal(
        code="region_refused",
        what="{label} does not serve this country or region",
        hint="Use a provider that serves it; /model lists those that you have a key for.",
        words=_build_pattern(
            r"unsupported_country_region_territory",
            r"country, region, or territory not supported",
            r"user location is not supported",
        ),
    ),
    Refusal(
        code="quota_exhausted",
        what="{who} refuses the request: the quota or the credit of this key is used up",
        hint=f"Look at the billing page of the account, or {_ANOTHER}.",
        words=_build_pattern(
            r"insufficient_quota",
            r"exceeded your current quota",
            r"exceeded_current_quota",
            r"credit balance is too low",
            r"insufficient (balance|credits|funds)",
            r"(requires|need) more credits",
            r"billing_(error|hard_limit|not_active)",
            r"payment required",
            r"spend_limit",
            r"specified api usage limits",
            r"extra usage is required",
            r"free-models-per-day",
            r"PerDay",
        ),
    ),
    Refusal(
        code="key_rejected",
        what="{who} rejected the key",
        hint="",
        words=_build_pattern(
            r"api key not valid",
            r"pass a valid api key",
            r"API_KEY_INVALID",
            r"incorrect api key",
            r"invalid api key",
            r"invalid x-api-key",
        ),
        statuses=(400,),
    ),
    Refusal(
        code="access_denied",
        what="{label} does not let this account use {model}",
        hint=f"Look at the account's settings (verification, model access, organization, project), or {_ANOTHER}.",
        words=_build_pattern(
            r"organization must be verified",
            r"organization has been disabled",
            r"does not have access to model",
            r"endpoints found matching your (data|guardrail)",
            r"access to this model is (not|denied)",
        ),
    ),
    Refusal(
        code="content_filtered",
        what="{who} refused what the conversation says",
        hint=f"Say it otherwise, go back to before it with /rewind, or {_ANOTHER}.",
        words=_build_pattern(
            r"content_filter(?!_results)",
            r"ResponsibleAIPolicyViolation",
            r"content_policy_violation",
            r"content filtering policy",
            r"content exists risk",
            r"data_inspection_failed",
            r"content violates usage guidelines",
            r"violating our usage policy",
            r"flagged_input",
            r"cyber_policy",
        ),
        statuses=(400, 403, 422, 451, 500),
    ),
    Refusal(
        code="tools_unsupported",
        what="{who} takes no tools",
        hint="Choose a model that can call functions with /model, or have this one write them as text: "
        '[models."{id}"] dialect = "tags".',
        words=_build_pattern(
            r"(does|do|is) not support(ed)? (tools?|tool[ -](use|calls?|calling|choice)|function[ -]?call(s|ing)?)\b",
            r"support tool use",
            r"`?tool calling`? is not supported",
            r"function calling is not (enabled|supported)",
            r"requires --enable-auto-tool-choice",
            r"tools param requires --jinja",
            r"unsupported param: tools",
            r"[`'\"]?tools[`'\"]? (is|are) not supported",
            r"tool (use|calls?) (is|are) not supported",
            r"endpoints found that support the provided .{0,3}tool",
        ),
    ),
    Refusal(
        code="schema_refused",
        what="{who} refused the definition of a tool",
        hint=f'Have it write its calls as text ([models."{{id}}"] dialect = "tags"), or {_ANOTHER}.',
        words=_build_pattern(
            r"invalid schema for function",
            r"invalid_function_parameters",
            r"function_declarations\[",
            r"tools\.\d+\.(custom\.)?input_schema",
            r"flavored json schema",
            r"tools\[\d+\](\.function)?\.(description|parameters|name)",
        ),
        statuses=(400, 422),
    ),
    Refusal(
        code="call_malformed",
        what="{who} wrote a tool call that its own server could not read",
        hint="Try again.",
        words=_build_pattern(r"tool_use_failed", r"failed to call a function", r"failed to parse tool call"),
        retryable=True,
    ),
    Refusal(
        code="out_of_memory",
        what="{label} has not enough memory for {model}",
        hint="Choose a smaller model with /model, or give its server more memory.",
        words=_build_pattern(
            r"requires more system memory", r"insufficient (system )?resources", r"out of memory", r"OOM\b"
        ),
    ),
    Refusal(
        code="model_loading",
        what="{label} is still loading {model}",
        hint="Try again in a moment.",
        words=_build_pattern(r"loading model", r"model is (currently )?loading"),
        statuses=(500, 503),
        retryable=True,
    ),
    Refusal(
        code="model_unknown",
        what="{label} has no model {model!r}",
        hint="Choose one with /model.",
        words=_build_pattern(
            r"DeploymentNotFound",
            r"no models? (is )?loaded",
            r"model_not_found",
            r"(invalid|unknown) model\b",
            r"is not a valid model",
            r"no endpoints found for",
        ),
        statuses=(400, 403, 404),
    ),
    Refusal(
        code="address_unknown",
        what="{label} has no such address",
        hint="{check_address}",
        words=_build_pattern(r"unexpected endpoint or method"),
    ),
)


QUOTA: Final = next(each for each in REFUSALS if each.code == "quota_exhausted")


def find_refusal(status: int, text: str) -> Refusal | None:
    """The reason that a body names; None: none that is known."""
    if NEEDS_RESPONSES.search(text):
        return None  # another wire of the same API is asked for
    return next((each for each in REFUSALS if each.matches(status, text)), None)


def is_too_large(status: int, text: str) -> bool:
    """Return True if the request was larger than the model, or whatever stands before it, takes."""
    return status == 413 or (status in TOO_LARGE_STATUSES and TOO_LARGE.search(text) is not None)
