"""A headless Chromium, driven by the protocol of its developer tools."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from benchmarks.terminal import ESCAPES

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars --remote-debugging-port=0"
)
WAIT = """new Promise((resolve, reject) => {{
  const started = Date.now();
  const look = () => {{
    let found;
    try {{ found = {what}; }} catch (problem) {{ found = null; }}
    if (found) resolve(found);
    else if (Date.now() - started > {limit}) reject(new Error(document.body.innerText.slice(0, 800)));
    else setTimeout(look, 25);
  }};
  look();
}})"""
# Each pause is longer than the one before: a page that is slow to answer is not made to begin again and again.
TAPS = """(() => {{
  let pause = 300, next = 0;
  window.tapNow = () => {{
    const element = document.querySelector({selector});
    if (element === null || Date.now() < next) return;
    pause *= 2;
    next = Date.now() + pause;
    element.click();
  }};
}})()"""


class Tab:
    """One tab. What the browser refused by a policy or an error stands in `complaints`, what came by WebSockets in
    `received`."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.complaints: list[str] = []
        self.received = bytearray()
        self._has_come = asyncio.Condition()
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                await self._hear(json.loads(await self._connection.recv()))

    async def _hear(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers.pop(message["id"]).set_result(message)
        elif message["method"] == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.complaints.append(message["params"]["entry"]["text"])
        elif message["method"] == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(message["params"]["exceptionDetails"])[:400])
        elif message["method"] == "Network.webSocketFrameReceived" and message["params"]["response"]["opcode"] == 2:
            async with self._has_come:
                self.received += base64.b64decode(message["params"]["response"]["payloadData"])
                self._has_come.notify_all()

    async def wait_drawn(self, text: str) -> None:
        """Wait until the terminal of the page was sent a text."""
        async with self._has_come, asyncio.timeout(30):
            await self._has_come.wait_for(lambda: text in ESCAPES.sub(b"", bytes(self.received)).decode())

    async def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol."""
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        response = await asyncio.wait_for(answer, 30)
        assert "error" not in response, response
        return response["result"]

    async def begin(self, width: int, height: int, *, scale: float = 1.0) -> None:
        """Make the tab of a size; the events that `complaints` needs are asked for."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        await self.call("Emulation.setDeviceMetricsOverride", **size)

    async def open(self, url: str) -> None:
        """Go to an address."""
        await self.call("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        response = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in response, response["exceptionDetails"].get("exception", response)
        return response["result"].get("value")

    async def see(self, what: str, *, seconds: float = 15.0) -> Any:
        """Wait until an expression in the page is true, and return its value."""
        return await self.run(WAIT.format(what=what, limit=int(seconds * 1000)))

    async def tap(self, selector: str, until: str) -> None:
        """Tap the first of what is selected until it has had an effect: what was just drawn takes no tap."""
        await self.run(TAPS.format(selector=json.dumps(selector)))
        await self.see(f"(tapNow(), {until})")

    async def press(self, text: str, key: str = "", code: int = 0) -> None:
        """Press one key."""
        fields = {"text": text, "key": key or text, "windowsVirtualKeyCode": code or ord(text.upper())}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **fields)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **fields)

    async def take_picture(self, path: Path) -> None:
        """Write what the tab shows, as PNG."""
        picture = base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])
        await asyncio.to_thread(path.write_bytes, picture)

    async def close(self) -> None:
        await self._connection.close()
        await self._reading


@asynccontextmanager
async def browsing(directory: Path, width: int = 390, height: int = 844, **more: Any) -> AsyncIterator[Tab]:
    """A browser with one tab; its profile lies in a directory."""
    profile = directory / "profile"
    none = asyncio.subprocess.DEVNULL
    browser = await asyncio.create_subprocess_exec(
        PROGRAM,
        *FLAGS.split(),
        f"--user-data-dir={profile}",
        "about:blank",
        stdout=none,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert browser.stderr is not None
        async with asyncio.timeout(30):
            while not (line := (await browser.stderr.readline()).decode()).startswith("DevTools listening on "):
                assert line, "the browser has ended"
        address = line.split()[-1]
        async with connect(address, proxy=None, max_size=None) as tools:
            await tools.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
            pages = json.loads(await tools.recv())["result"]["targetInfos"]
        page = next(target["targetId"] for target in pages if target["type"] == "page")
        place = address.partition("/devtools/")[0] + f"/devtools/page/{page}"
        tab = Tab(await connect(place, proxy=None, max_size=None))
        await tab.begin(width, height, **more)
        yield tab
        await tab.close()
    finally:
        with suppress(ProcessLookupError):
            browser.terminate()
        await browser.communicate()
