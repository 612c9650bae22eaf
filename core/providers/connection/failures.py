"""The errors of model APIs, mapped to one set of codes and messages that suggest what to do.

No SDK type leaves the provider: exceptions are recognised by the names of their classes (so that no SDK is imported to
inspect an error), bodies are cut to one line, and keys are redacted.
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from core.errors import AgentTuiError, ContextOverflow, ProviderError
from core.patterns import compile_lazily
from core.providers.connection.addresses import NamedProxy, find_proxy
from core.providers.connection.refusals import (
    QUOTA,
    Refusal,
    drop_echoes,
    find_refusal,
    is_too_large,
    parse_sizes,
    parse_wait,
)
from core.records import parse_json
from core.secrets import redact
from core.text.display_names import shorten_model
from core.text.lines import clip

MAX_DETAIL: Final = 300
MAX_DEPTH: Final = 8
MAX_MESSAGES: Final = 3
_MESSAGE_KEYS: Final = ("error", "message", "detail", "msg", "errors")
LONG_WAIT: Final = 20.0  # Seconds from which on a wait is mentioned to the user.
_MODEL: Final = compile_lazily(r"model|deployment", re.IGNORECASE)
_PAGE: Final = compile_lazily(r"<(!doctype|html|head|body)\b", re.IGNORECASE)
_DAILY: Final = compile_lazily(r"PerDay|free-models-per-day")
_TIMEOUTS: Final = frozenset({"ReadTimeout", "WriteTimeout", "PoolTimeout", "ConnectTimeout", "TimeoutException"})
_CONNECT_ERRORS: Final = frozenset({"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"})
_CUT_ERRORS: Final = frozenset({"RemoteProtocolError", "ReadError", "WriteError", "CloseError", "IncompleteRead"})
# Messages of TLS about plain bytes, and of TLS servers about a plain request;
# the last row is how the HTTP library reports a TLS alert.
_PLAIN_ANSWER: Final = compile_lazily(
    r"wrong[ _]version[ _]number|record[ _]layer[ _]failure|\[SSL: HTTP_REQUEST\]|unknown protocol", re.IGNORECASE
)
_TLS_REQUIRED: Final = compile_lazily(
    r"plain HTTP request was sent to HTTPS port|HTTP request to an HTTPS server|plain HTTP to an SSL-enabled server"
    r"|illegal request line|illegal status line: bytearray\(b'\\x1[56]\\x03",
    re.IGNORECASE,
)
_HTTP_PROXY: Final = compile_lazily(r"https?://|[^/]*$", re.IGNORECASE)
_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_TYPES: Final = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "timeout_error": 504,
    "api_error": 500,
    "server_error": 500,
    "overloaded_error": 529,
    "invalid_request_error": 400,
}
# Codes of a failed response that a retry would get again.
_PERMANENT: Final = compile_lazily(
    r"(invalid|image|empty_image|unsupported|failed_to_download|data_residency)_|.*_policy"
)


class Api(Struct, frozen=True, kw_only=True):
    """The facts about an API for error messages. `key`: where the key comes from; `variable`: the variable that may
    hold one. `prefixed`: the base URL contains the API's version (OpenAI's protocols)."""

    label: str
    base_url: str
    model: str = ""
    stall_seconds: float = 120
    key: str = ""
    variable: str = ""
    provider: str = ""
    prefixed: bool = True

    @property
    def address_hint(self) -> str:
        """The hint for an address that is not the API's."""
        form = "often ends in /v1" if self.prefixed else "goes without /v1, which is added"
        return f"Check the base URL ({redact(self.base_url)}): the API path {form}."

    @property
    def full_label(self) -> str:
        """The provider with its model."""
        name = shorten_model(self.id).partition("/")[2]
        return f"{self.label} ({name})" if self.model else self.label

    @property
    def id(self) -> str:
        """The model as the configuration names it."""
        return f"{self.provider or 'PROVIDER'}/{self.model or 'NAME'}"


class SilentTooLong(TimeoutError):
    """A stream sent `content`, which is nothing or only pings, for `seconds`."""

    def __init__(self, seconds: float, content: str = "nothing") -> None:
        super().__init__(f"{content} for {seconds:g} s")


def build_status_error(status: int, body: object, headers: Mapping[str, str], api: Api) -> ProviderError:
    """Return the error for an HTTP answer of 300 or more; `body` is parsed JSON, text or None."""
    detail = extract_detail(body)
    clean_body = drop_echoes(body, api.model)
    body_text = json.dumps(clean_body) if isinstance(clean_body, (dict, list)) else clean_body or ""
    full_text = f"{extract_detail(clean_body)} {body_text}"
    if is_too_large(status, full_text):
        window, tokens = parse_sizes(clean_body, full_text)
        return build_overflow_error(api, detail, window=window, tokens=tokens)
    match = _TLS_REQUIRED.search(full_text) if status == 400 else None
    if match and (other := _build_scheme_error(api, "http://", match[0])) is not None:
        return other
    wait = parse_wait(headers, body, full_text) if status == 429 or status >= 498 else None
    is_temporary = status == 429 and wait is not None and not _DAILY.search(full_text)  # A per-minute quota recovers.
    if isinstance(clean_body, str) and _PAGE.search(clean_body) and 400 <= status < 500:
        # Another server answers at the address, or a proxy does.
        if status in {404, 405}:
            return _build_not_found_error(status, detail, "", api)
        hint = (
            f"Check the base URL ({redact(api.base_url)}), the proxy, the VPN, and whether that host "
            "requires a sign-in."
        )
        return _build_error(f"{api.label} answered with a web page ({status})", detail, code="page_answered", hint=hint)
    refusal = None if is_temporary else find_refusal(status, full_text)
    if refusal is not None:
        return _build_refused(refusal, status, detail, api, wait)
    error = _classify_status(status, detail, full_text, api, wait)
    retry_advice = headers.get("x-should-retry")
    error.retryable = retry_advice == "true" if retry_advice in {"true", "false"} else error.retryable
    return error


def _classify_status(status: int, detail: str, full_text: str, api: Api, wait: float | None) -> ProviderError:
    """Return the error that follows from the status alone."""
    label, hint = api.full_label, "Try again in a moment."
    if wait and wait >= LONG_WAIT:
        hint = f"It asks for a pause of {format_duration(wait)}."
    match status:
        case 402:
            return _build_refused(QUOTA, status, detail, api, wait)
        case 401 | 403:
            return _build_key_error(status, detail, api)
        case 404 | 405:
            return _build_not_found_error(status, detail, full_text, api)
        case 429:
            summary, code = f"{label} limits the rate of requests", "rate_limited"
        case 498 | 503 | 529:
            summary, code = f"{label} is overloaded", "overloaded"
        case _ if status in {408, 409, 425} or status >= 500:
            summary, code = f"{label} failed", "server_failed"
        case _:
            summary, code = f"{label} refused the request", "request_invalid"
            hint = "If this model does not support what was asked, choose another with /model."
            if 300 <= status < 400:
                hint = f"{redact(api.base_url)} redirects; set the base URL to the address it leads to."
    retryable = code != "request_invalid"
    return _build_error(f"{summary} ({status})", detail, code=code, hint=hint, retryable=retryable, retry_after=wait)


def _build_refused(refusal: Refusal, status: int, detail: str, api: Api, wait: float | None) -> ProviderError:
    if refusal.code == "key_rejected":
        return _build_key_error(status, detail, api)
    fields = {"who": api.full_label, "label": api.label, "model": api.model or "the model", "id": api.id}
    summary = refusal.what.replace("{model!r}", repr(api.model)).format(**fields)
    hint = refusal.hint.format(**fields, check_address=api.address_hint)
    text = f"{summary} ({status})" if status else summary
    return _build_error(text, detail, code=refusal.code, hint=hint, retryable=refusal.retryable, retry_after=wait)


def format_duration(seconds: float) -> str:
    """ "45 seconds", "5 minutes", "3 hours"."""
    if seconds < 2 * 60:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 2 * 3600 else f"{seconds / 3600:.0f} hours"


def _build_key_error(status: int, detail: str, api: Api) -> ProviderError:
    if api.key:
        hint = f"The key comes from {api.key}; fix it there."
    else:
        hint = f"No key was found; set {api.variable}." if api.variable else "This server needs a key."
    verb = "does not allow this with" if status == 403 else "rejected"
    return _build_error(f"{api.full_label} {verb} the key ({status})", detail, code="key_rejected", hint=hint)


def _build_not_found_error(status: int, detail: str, full_text: str, api: Api) -> ProviderError:
    if status == 404 and _MODEL.search(full_text):
        summary = f"{api.label} has no model {api.model!r}"
        return _build_error(summary, detail, code="model_unknown", hint="Choose one with /model.")
    summary = f"{api.label} has no such address ({status})"
    return _build_error(summary, detail, code="address_unknown", hint=api.address_hint)


def build_overflow_error(api: Api, detail: str = "", *, window: int = 0, tokens: int = 0) -> ContextOverflow:
    label = api.full_label if api.model else "the model"
    text = f"The conversation is too large for {label}{': ' + detail if detail else ''}."
    hint = "Shorten it with /compact, or choose a model with a larger window."
    return ContextOverflow(text, hint=hint, window=window, tokens=tokens)


def build_event_error(body: object, api: Api) -> ProviderError:
    """Return the error for an error object inside a stream."""
    fault = body.get("error", body) if isinstance(body, dict) else {}
    fault = fault if isinstance(fault, dict) else {}
    code, kind = (str(fault.get(key, "")) for key in ("code", "type"))
    status = int(code) if re.fullmatch("[45][0-9][0-9]", code) else _TYPES.get(code) or _TYPES.get(kind)
    return build_status_error(status or (400 if _PERMANENT.match(code) else 500), body, {}, api)


def build_exception_error(error: BaseException, api: Api, *, has_started: bool = False) -> ProviderError:
    """Return the error for any exception of a client. `has_started`: a part of the answer had already come."""
    chain = list(_list_causes(error))
    for cause in chain:
        if isinstance(cause, ProviderError):
            return cause
        if isinstance(cause, AgentTuiError):
            return ProviderError(cause.message, hint=cause.hint, code=cause.code)
        response, status = getattr(cause, "response", None), getattr(cause, "status_code", None)
        if isinstance(status, int) and (status < 200 or status >= 300):
            return build_status_error(status, getattr(cause, "body", None), getattr(response, "headers", {}), api)
    if isinstance(getattr(error, "body", None), (dict, str)):
        return build_event_error(getattr(error, "body", None), api)
    return _build_transport_error(chain, api, has_started=has_started)


def _build_transport_error(chain: list[BaseException], api: Api, *, has_started: bool) -> ProviderError:
    names = {name for cause in chain for name in (kind.__name__ for kind in type(cause).__mro__)}
    words = " ".join(str(cause) for cause in chain)
    for pattern, scheme in ((_PLAIN_ANSWER, "https://"), (_TLS_REQUIRED, "http://")):
        match = pattern.search(words)
        if match and not has_started and (other := _build_scheme_error(api, scheme, match[0])) is not None:
            return other
    if names & _CONNECT_ERRORS or any(isinstance(cause, ConnectionRefusedError) for cause in chain):
        return _build_unreachable_error(chain, api)
    if names & _TIMEOUTS or "TimeoutError" in names:
        stall = next((cause for cause in chain if isinstance(cause, SilentTooLong)), SilentTooLong(api.stall_seconds))
        return ProviderError(f"{api.full_label} sent {stall}.", code="stalled", retryable=True, hint="Try again.")
    if names & _CUT_ERRORS or isinstance(chain[0], ConnectionError):
        error = build_cut_error(api, has_started=has_started)
        if "without sending a response" in words and redact(api.base_url).lower().startswith("http://"):
            error.hint = "Try again. If that server needs https, use https in the base URL."
        return error
    reason = to_one_line(f"{type(chain[0]).__name__}: {chain[0]}")
    if names & {"JSONDecodeError", "UnicodeDecodeError"}:
        text = f"{api.label} sent something that is not a stream of JSON events ({reason})."
        return ProviderError(text, code="stream_invalid", retryable=True, hint=f"Check the base URL ({api.base_url}).")
    return ProviderError(f"{api.label} can't be used: {reason}.", code="provider_failed", hint="Try again.")


def _build_scheme_error(api: Api, scheme: str, sign: str) -> ProviderError | None:
    """Return the error for a server that speaks the other of http and https, recognised by `sign`; None if the base URL
    does not have this `scheme`."""
    base, other = redact(api.base_url), "http://" if scheme == "https://" else "https://"
    if not base.lower().startswith(scheme):
        return None
    protocol, reason = scheme.removesuffix("://"), to_one_line(sign.strip("[]").replace("_", " ").lower())
    text = f"{api.label} can't be reached at {base}: the server there does not speak {protocol} ({reason})."
    hint = f"Use {other}{base[len(scheme) :]} as its base URL (and check the proxy, if you have one)."
    return ProviderError(text, code="tls_failed", retryable=False, hint=hint)


def _build_unreachable_error(chain: list[BaseException], api: Api) -> ProviderError:
    tls_errors = (error for error in chain if "[SSL" in str(error) or "certificate" in str(error).lower())
    main_error = next((error for error in chain if _is_tls(error)), None) or next(tls_errors, chain[-1])
    reason = to_one_line(_describe_system_error(main_error)) or type(main_error).__name__
    if type(chain[-1]).__name__ == "SSLWantReadError":
        reason = "the server did not answer the TLS handshake; does it speak https?"
    lower_text = " ".join(str(error) for error in chain).lower()
    if proxy := find_proxy(api.base_url, os.environ):
        return _build_proxy_error(chain, api, proxy, reason)
    if (
        "name or service" in lower_text
        or "getaddrinfo" in lower_text
        or "nodename" in lower_text
        or "resolution" in lower_text
    ):
        cause, hint = "its name can't be resolved", "Check the network and the base URL."
    elif "certificate" in lower_text or "ssl" in lower_text:
        text = f"{api.label} can't be reached at {redact(api.base_url)}: no secure connection is possible ({reason})."
        hint = "Check the base URL, the proxy, the clock, and whether this machine trusts the certificate."
        return ProviderError(text, code="tls_failed", retryable="certificate" not in lower_text, hint=hint)
    else:
        cause, hint = "nothing answers there", "Check the network and the base URL, and that the server is running."
    text = f"{api.label} can't be reached at {redact(api.base_url)}: {cause} ({reason})."
    return ProviderError(text, code="unreachable", retryable=True, hint=hint)


def _build_proxy_error(chain: list[BaseException], api: Api, proxy: NamedProxy, reason: str) -> ProviderError:
    """Return the error for a server that could not be reached through a proxy. It names which of the two did not
    answer."""
    if any(type(error).__name__ == "ProxyError" for error in chain):
        text = f"{api.label} can't be reached: {proxy} refused the connection ({reason})."
        hint = f"Check the address, name and password in {proxy.variable}, or add the host to NO_PROXY."
        return ProviderError(text, code="unreachable", retryable=not re.match(r"4\d\d\b", reason), hint=hint)
    if any(map(_is_tls, chain)):
        text = f"{api.label} can't be reached through {proxy}: no secure connection is possible ({reason})."
        hint = "A proxy that inspects traffic has its own certificate: set SSL_CERT_FILE to its file."
        return ProviderError(text, code="tls_failed", retryable="certificate" not in reason, hint=hint)
    text = f"{api.label} can't be reached through {proxy}: nothing answers there ({reason})."
    hint = f"Check that the proxy is running, unset {proxy.variable}, or add the host to NO_PROXY."
    return ProviderError(text, code="unreachable", retryable=True, hint=hint)


def _is_tls(error: BaseException) -> bool:
    """Return True for a TLS error, except one about missing bytes, which proves nothing."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return "SSLError" in names and not names & {"SSLWantReadError", "SSLWantWriteError"}


def _describe_system_error(error: BaseException) -> str:
    """Return the system's message without numbers and addresses, or the message of TLS."""
    if _is_tls(error):
        message = str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or error)
        return message.replace("_", " ").lower() if message.isupper() else message
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno) if error.errno > 0 else error.strerror or ""
    return str(error)


def build_environment_error(label: str, error: Exception, environment: Mapping[str, str]) -> ProviderError:
    """Return the error for a client that can't be built with the environment's proxies and certificates."""
    for name, value in environment.items():
        kind, _, scheme = name.lower().rpartition("_")
        if scheme == "proxy" and kind != "no" and value and not _HTTP_PROXY.match(value):
            text = (
                f"{label} can't be reached through the proxy of {name} ({redact(value)}): only HTTP "
                "proxies are supported"
            )
            hint = f"Set {name} to an http:// proxy address, unset it, or add the host to NO_PROXY."
            if value.lower().startswith("socks5"):
                text = f"{text} without the Python package socksio"
                hint = f"Install socksio beside agent-tui (pip install socksio), or: {hint[0].lower()}{hint[1:]}"
            return ProviderError(f"{text}.", code="proxy_unusable", hint=hint)
    for name in _CERTIFICATES:
        value = environment.get(name, "")
        if value and isinstance(error, OSError):
            reason = _describe_system_error(error)
            text = f"{label} can't be reached: {name} names {value!r}, which has no readable certificates ({reason})."
            hint = f"Set {name} to a file with certificates in PEM form, or unset it."
            return ProviderError(text, code="tls_failed", hint=hint)
    reason = to_one_line(f"{type(error).__name__}: {error}")
    hint = "Check the variables HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE."
    return ProviderError(f"{label} can't be reached: {reason}.", code="provider_failed", hint=hint)


def build_cut_error(api: Api, *, has_started: bool) -> ProviderError:
    """Return the error for a stream that ended before the answer did."""
    when = "in the middle of the answer" if has_started else "before any answer came"
    text = f"The connection to {api.label} ended {when}."
    return ProviderError(text, code="stream_cut", retryable=True, hint="Try again.")


def extract_detail(body: object) -> str:
    """Return the server's message in one line, without markup and keys; "" if there is none."""
    if isinstance(body, (dict, list)):
        return to_one_line(_extract_message(body) or json.dumps(body))
    text = str(body or "")
    if _PAGE.search(text):
        title = re.search(r"<(title|h1)[^>]*>(.*?)</\1>", text, re.IGNORECASE | re.DOTALL)
        text = title[2] if title else re.sub(r"(?is)<(script|style).*?</\1>|<[^>]*>", " ", text)
        return to_one_line(html.unescape(re.sub(r"<[^>]*>", " ", text)))
    return to_one_line(text)


def _extract_message(body: Any, depth: int = 0) -> str:
    """Return the first text under the keys that servers use for it; the upstream message is more precise than a
    router's own."""
    if depth > MAX_DEPTH:
        return ""
    if isinstance(body, str):
        return _unpack(body, depth)
    if isinstance(body, list):
        return "; ".join(
            [message for message in (_extract_message(part, depth + 1) for part in body[:MAX_MESSAGES]) if message]
        )
    if not isinstance(body, dict):
        return ""
    upstream = body.get("metadata")
    if isinstance(upstream, dict) and (raw := _extract_message(upstream.get("raw"), depth + 1)):
        return f"{upstream['provider_name']}: {raw}" if isinstance(upstream.get("provider_name"), str) else raw
    text = next(filter(None, (_extract_message(body.get(key), depth + 1) for key in _MESSAGE_KEYS)), "")
    location = body.get("loc")
    return f"{'.'.join(map(str, location))}: {text}" if isinstance(location, list) and text else text


def _unpack(text: str, depth: int) -> str:
    if text.lstrip()[:1] in {"{", "["}:
        with contextlib.suppress(ValueError, RecursionError):
            return _extract_message(parse_json(text), depth + 1) or text
    return text


def to_one_line(text: str) -> str:
    """Return foreign text in one line of at most 300 characters, without control characters and keys."""
    text = "".join(char if char.isprintable() else " " for char in redact(text))
    text = " ".join(text.split()).rstrip(".")
    return clip(text, MAX_DETAIL)


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, outermost first."""
    seen_ids: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen_ids:
        seen_ids.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _build_error(
    summary: str, detail: str, *, code: str, hint: str, retryable: bool = False, retry_after: float | None = None
) -> ProviderError:
    text = f"{summary}: {detail}." if detail else f"{summary}."
    return ProviderError(text, hint=hint, code=code, retryable=retryable, retry_after=retry_after)
