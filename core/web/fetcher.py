"""The fetcher of a session: it follows redirects one by one, checking each like the first address, and caches pages."""

from __future__ import annotations

import asyncio
import urllib.robotparser
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.clock import monotonic
from core.errors import WebFailed
from core.web.address import WebAddress, join_address, parse_address
from core.web.download import Download, download
from core.web.network import GuardedNetwork
from core.web.pages import Page, build_page, decode_text

MAX_REDIRECTS: Final = 5
CACHE_SECONDS: Final = 900.0
MAX_CACHED: Final = 20  # pages
MAX_ROBOTS_BYTES: Final = 500 * 1024  # of robots.txt (RFC 9309)
AGENT: Final = "agent-tui"
_BLOCKED: Final = frozenset({401, 402, 403, 407, 429, 451})

# Raises if an address may not be requested; called for every address before its request.
Approve = Callable[[WebAddress], Awaitable[None]]


class _CachedPage(Struct, frozen=True):
    page: Page
    way: tuple[WebAddress, ...]  # addresses of the redirects
    until: float


class WebFetcher:
    """A fetcher of pages. `network` is for tests only; no configuration sets it."""

    def __init__(self, network: GuardedNetwork | None = None) -> None:
        self.network = network or GuardedNetwork()
        self._cache: dict[str, _CachedPage] = {}
        self._robots: dict[str, urllib.robotparser.RobotFileParser] = {}

    async def fetch(self, text: str, approve: Approve, *, respects_robots: bool) -> Page:
        """Fetch a page. Raises `WebFailed`, and the errors of `approve`."""
        address = parse_address(text)
        if (cache_entry := self._find_cached(str(address))) is not None:
            for hop in cache_entry.way:
                await approve(hop)
            return cache_entry.page
        hops: list[WebAddress] = []
        while len(hops) <= MAX_REDIRECTS:
            self.network.refuse_literal(address.target)
            await approve(address)
            if respects_robots:
                await self._check_robots(address)
            hops.append(address)
            response = await download(address, self.network)
            if response.location:
                address = join_address(address, response.location)
                continue
            _check_status(response)
            page = await asyncio.to_thread(build_page, response)
            if not page.refresh:
                self._cache_page(page, tuple(hops))
                return page
            address = join_address(address, page.refresh)
        raise WebFailed(
            f"The page redirects more than {MAX_REDIRECTS} times, at last to {str(address)[:200]}.",
            hint="Fetch that address itself if you need it.",
            code="too_many_redirects",
        )

    def _find_cached(self, address: str) -> _CachedPage | None:
        cache_entry = self._cache.get(address)
        return cache_entry if cache_entry is not None and cache_entry.until > monotonic() else None

    def _cache_page(self, page: Page, hops: tuple[WebAddress, ...]) -> None:
        self._cache.pop(str(hops[0]), None)
        self._cache[str(hops[0])] = _CachedPage(page, hops, monotonic() + CACHE_SECONDS)
        while len(self._cache) > MAX_CACHED:
            del self._cache[next(iter(self._cache))]

    async def _check_robots(self, address: WebAddress) -> None:
        """Raise `WebFailed` if the host's robots.txt excludes programs. Without one, all is allowed."""
        rules = self._robots.get(address.origin)
        if rules is None:
            rules = await asyncio.to_thread(_read_rules, await self._read_robots(address))
            self._robots[address.origin] = rules
        if not rules.can_fetch(AGENT, str(address)):
            raise WebFailed(
                f"{address.host} asks programs not to fetch this page (robots.txt).",
                hint="Use another source. The user can set web.robots = false.",
                code="robots",
            )

    async def _read_robots(self, address: WebAddress) -> Download | None:
        """Return the host's robots.txt, None = there is none."""
        try:
            response = await download(WebAddress(address.scheme, address.target, "/robots.txt"), self.network)
        except WebFailed as problem:
            if problem.code == "refused_address":
                raise
            return None
        return response if response.status == 200 else None


def _read_rules(response: Download | None) -> urllib.robotparser.RobotFileParser:
    """Parse a robots.txt. Slow: call it in a thread."""
    rules = urllib.robotparser.RobotFileParser()
    text = "" if response is None else decode_text(replace(response, data=response.data[:MAX_ROBOTS_BYTES]))
    rules.parse(text.splitlines())
    return rules


def _check_status(response: Download) -> None:
    """Raise `WebFailed` for an error status."""
    host, status = response.address.host, response.status
    if status in {404, 410}:
        raise WebFailed(f"{host} has no such page ({status}).", hint="Check the address.", code="not_found")
    if status in _BLOCKED:
        raise WebFailed(
            f"{host} refuses programs or requires a login ({status}).",
            hint="Use another source, or ask the user to open it.",
            code="blocked",
        )
    if status >= 300:
        raise WebFailed(f"{host} returned an error ({status}).", hint="Try again later.", code="server_error")
