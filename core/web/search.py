"""Web search: the engine in the user's own configuration is queried, and its hits are normalised.

The request goes through the guarded network, without redirects, and the key goes only to the engine. Its address may be
private, because only the user can configure it: a project can't.
"""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote_plus

import msgspec
from msgspec import Struct, field

from core.config.settings import SearchSettings
from core.errors import ConfigError, ProviderError, WebFailed
from core.patterns import compile_lazily
from core.providers.connection.keys import find_key
from core.records import decode_json
from core.secrets import Secret
from core.text.display_names import expose_controls
from core.text.lines import clip
from core.web.address import WebAddress, parse_address
from core.web.download import Download, download
from core.web.network import GuardedNetwork

MAX_SNIPPET: Final = 500  # characters
MAX_TITLE: Final = 200  # characters
HOW_TO_CONFIGURE: Final = (
    'The user can set `provider` in `[web.search]`: "searxng", "brave", "tavily", "exa" or "model".'
)
_TAG: Final = compile_lazily(r"</?[a-zA-Z][^<>]{0,200}>")

# Raises if the engine may not be queried; called before the request.
ApproveEngine = Callable[[WebAddress], Awaitable[None]]


class WebQuery(Struct, frozen=True, kw_only=True):
    """A query for `text`. `allowed`: only these domains and their subdomains, () = any; `blocked`: none of these."""

    text: str
    count: int = 8
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


class WebHit(Struct, frozen=True, kw_only=True):
    """A hit. `date`: as the engine gives it, "" = unknown."""

    title: str
    url: str
    snippet: str = ""
    date: str = ""


class _Call(Struct, frozen=True, kw_only=True):
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None


class _Engine(Struct, frozen=True, kw_only=True):
    """An engine. `variable`: the environment variable of its key, "" = it needs none."""

    base_url: str
    variable: str
    build: Callable[[WebQuery, str], _Call]


def _ask_searxng(query: WebQuery, _: str) -> _Call:
    return _Call(path=f"/search?q={quote_plus(_name_sites(query))}&format=json")


def _ask_brave(query: WebQuery, key: str) -> _Call:
    path = f"/res/v1/web/search?q={quote_plus(_name_sites(query))}&count={query.count}&text_decorations=false"
    return _Call(path=path, headers={"X-Subscription-Token": key})


def _ask_tavily(query: WebQuery, key: str) -> _Call:
    domains = {"include_domains": query.allowed, "exclude_domains": query.blocked}
    body = {"query": query.text, "max_results": query.count, "search_depth": "basic"}
    return _Call(
        path="/search",
        headers={"Authorization": f"Bearer {key}"},
        body=body | {name: list(sites) for name, sites in domains.items() if sites},
    )


def _ask_exa(query: WebQuery, key: str) -> _Call:
    domains = {"includeDomains": query.allowed, "excludeDomains": query.blocked}
    contents = {"text": {"maxCharacters": MAX_SNIPPET}}
    body = {"query": query.text, "numResults": query.count, "type": "auto", "contents": contents}
    return _Call(
        path="/search",
        headers={"x-api-key": key},
        body=body | {name: list(sites) for name, sites in domains.items() if sites},
    )


ENGINES: Final[Mapping[str, _Engine]] = {
    "searxng": _Engine(base_url="", variable="", build=_ask_searxng),
    "brave": _Engine(base_url="https://api.search.brave.com", variable="BRAVE_API_KEY", build=_ask_brave),
    "tavily": _Engine(base_url="https://api.tavily.com", variable="TAVILY_API_KEY", build=_ask_tavily),
    "exa": _Engine(base_url="https://api.exa.ai", variable="EXA_API_KEY", build=_ask_exa),
}


class EngineHit(Struct, frozen=True):
    """A hit with the field names of all engines."""

    title: str | None = ""
    url: str = ""
    content: str | None = ""
    description: str | None = ""
    text: str | None = ""
    age: str | None = ""
    publishedDate: str | None = ""  # noqa: N815 (the engine's own name)
    published_date: str | None = ""


class _Results(Struct, frozen=True):
    results: tuple[msgspec.Raw, ...] = ()


class _Answer(Struct, frozen=True):
    """`results` of most engines, `web` of Brave, which omits it without hits."""

    results: tuple[msgspec.Raw, ...] | None = None
    web: _Results | None = None
    type: str = ""


def find_engine_address(settings: SearchSettings) -> WebAddress:
    """Return the address of the configured engine. Raises `WebFailed`."""
    base = settings.base_url or ENGINES[settings.provider].base_url
    try:
        return parse_address(base.rstrip("/"))
    except WebFailed as problem:
        raise WebFailed(
            f"`web.search.base_url` can't be used: {problem.message}",
            hint="Fix it in your configuration.",
            code="no_search",
        ) from None


async def search_web(
    settings: SearchSettings, query: WebQuery, network: GuardedNetwork, approve: ApproveEngine
) -> tuple[WebHit, ...]:
    """Query the configured engine. Raises `WebFailed`, and the errors of `approve`."""
    base, engine = find_engine_address(settings), ENGINES[settings.provider]
    await approve(base)
    key = await asyncio.to_thread(_load_key, settings, engine)
    call = engine.build(query, key.reveal() if key else "")
    address = WebAddress(base.scheme, base.target, f"{base.path.rstrip('/')}{call.path}")
    response = await download(
        address,
        network.admit(base.target),
        headers={"Accept": "application/json", **call.headers},
        body=None if call.body is None else json.dumps(call.body).encode(),
    )
    _check_status(settings.provider, response)
    return select_hits(_read_answer(settings.provider, response), query)


def _load_key(settings: SearchSettings, engine: _Engine) -> Secret | None:
    variable = settings.api_key_env or engine.variable
    base = settings.base_url or engine.base_url
    try:
        secret, _ = find_key(settings.provider, base_url=base, variable=variable, command=settings.key_command)
    except (ConfigError, ProviderError) as problem:
        raise WebFailed(problem.message, hint=problem.hint, code="no_key") from None
    if secret is None and engine.variable:
        raise WebFailed(
            f"There is no key for {settings.provider}.",
            hint=f"The user can set it in {variable}, or set `web.search.key_command`.",
            code="no_key",
        )
    return secret


def _name_sites(query: WebQuery) -> str:
    """Return the text with the operators for domains that most engines support."""
    allowed_sites = " OR ".join(f"site:{domain}" for domain in query.allowed)
    blocked_sites = " ".join(f"-site:{domain}" for domain in query.blocked)
    return " ".join(
        filter(None, (query.text, f"({allowed_sites})" if len(query.allowed) > 1 else allowed_sites, blocked_sites))
    )


def _check_status(name: str, response: Download) -> None:
    if response.location or 300 <= response.status < 400:
        raise WebFailed(
            f"{name} answers with a redirect, which is not followed.",
            hint="The user can set `web.search.base_url` to the new address.",
            code="no_search",
        )
    if response.status in {401, 402, 403}:
        hint = f"The user can check the key of {name} and its permissions."
        if name == "searxng":
            hint = 'Its settings.yml has to allow JSON: `search: {formats: ["html", "json"]}`.'
        raise WebFailed(f"{name} refuses to answer ({response.status}).", hint=hint, code="refused_key")
    if response.status == 429:
        raise WebFailed(f"{name} limits the rate of searches.", hint="Search less, or later.", code="rate_limited")
    if response.status != 200:
        raise WebFailed(f"{name} returned an error ({response.status}).", hint="Try again.", code="server_error")


def _read_answer(name: str, response: Download) -> tuple[EngineHit, ...]:
    try:
        answer = decode_json(response.data, _Answer)
    except msgspec.MsgspecError:
        answer = _Answer()
    rows = answer.results
    if rows is None and (answer.web is not None or answer.type == "search"):
        rows = answer.web.results if answer.web else ()
    hits = [page for page in map(_read_hit, rows or ()) if page is not None]
    if hits or rows == ():
        return tuple(hits)
    raise WebFailed(f"{name} answered in an unknown form.", hint="Do without it.", code="bad_answer")


def _read_hit(row: msgspec.Raw) -> EngineHit | None:
    """Decode a hit; None for an invalid one."""
    try:
        return decode_json(row, EngineHit)
    except msgspec.MsgspecError:
        return None


def select_hits(pages: Iterable[EngineHit], query: WebQuery) -> tuple[WebHit, ...]:
    """Select the hits with valid addresses in the wanted domains, without duplicates."""
    hits = dict[str, WebHit]()
    for page in pages:
        try:
            address = parse_address(page.url)
        except WebFailed:
            continue
        if any(_is_below(address.host, domain) for domain in query.blocked):
            continue
        if query.allowed and not any(_is_below(address.host, domain) for domain in query.allowed):
            continue
        hits.setdefault(str(address), _build_hit(page, str(address)))
    return tuple(hits.values())[: query.count]


def _build_hit(page: EngineHit, url: str) -> WebHit:
    return WebHit(
        title=_clean(page.title or "", MAX_TITLE) or url,
        url=url,
        snippet=_clean(page.description or page.content or page.text or "", MAX_SNIPPET),
        date=_clean(page.publishedDate or page.published_date or page.age or "", 40),
    )


def _clean(text: str, limit: int) -> str:
    """Return foreign text in one line, without the tags by which some engines mark words."""
    line = " ".join(expose_controls(html.unescape(_TAG.sub("", text[: limit * 8]))).split())
    return clip(line, limit)


def _is_below(host: str, domain: str) -> bool:
    domain = domain.lower().removeprefix("*.").strip(".")
    return host == domain or host.endswith(f".{domain}")
