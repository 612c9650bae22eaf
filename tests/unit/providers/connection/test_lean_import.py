from __future__ import annotations

import json
import subprocess
import sys

import pytest

ASK = """
import asyncio, json, sys
import msgspec
from core.providers.connection import lean_import
if {plain}:
    plainly = lean_import.load_sdk_plainly("{sdk}")
    lean_import.load_sdk = lambda sdk: plainly
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tests.support.provider_calls import Answer, ask, connect, request
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from core.errors import ProviderError

STEPS = [
    Step(text="Grüße", reasoning="hm", calls=[Call(name="grep", id="c1")], usage={{"prompt": 9, "cached": 3}}),
    Step(status=429, error="slow down", headers={{"Retry-After": "2"}}),
    Step(text="x" * 99, cut="text"),
    Step(status=404, error="model: no", error_type="not_found_error"),
]

async def main():
    seen = []
    async with provider_server(STEPS) as server:
        provider = connect(server, "{sdk}")
        for _ in STEPS:
            answer = Answer()
            try:
                await ask(provider, into=answer)
            except ProviderError as error:
                seen.append([error.code, error.message, error.hint, error.retry_after])
            seen.append(msgspec.to_builtins(answer.deltas))
        sent = [each.json for each in server.requests if each.raw]
        await provider.close()
    loaded = [module for name, module in sys.modules.items() if name.startswith("{sdk}.types")]
    models = sum(not isinstance(module, lean_import.WaitingModule) for module in loaded)
    print(json.dumps({{"seen": seen, "sent": sent, "models": models}}))

asyncio.run(main())
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_the_lean_import_streams_the_same_with_a_fraction_of_the_modules(sdk):
    lean, plain = (json.loads(run(ASK.format(sdk=sdk, plain=is_plain))) for is_plain in (False, True))
    assert lean["sent"] == plain["sent"]
    assert lean["seen"] == plain["seen"]
    assert len(lean["seen"]) == 7
    assert plain["models"] > 300
    assert lean["models"] < 30


@pytest.mark.parametrize(
    ("sdk", "uses"),
    [
        (
            "openai",
            "openai.AsyncOpenAI, openai.RateLimitError, openai.types.chat.ChatCompletionChunk, openai.__version__",
        ),
        (
            "anthropic",
            "anthropic.AsyncAnthropic, anthropic.types.Message, anthropic.types.beta.BetaMessage, anthropic.lib",
        ),
    ],
)
def test_all_of_the_sdk_can_still_be_had_after_a_lean_import(sdk, uses):
    code = f"""
from core.providers.connection import lean_import
client = lean_import.load_sdk("{sdk}")
assert lean_import.load_sdk("{sdk}") is client
import {sdk}
found = [{uses}]
assert found[0] is client.Async{"OpenAI" if sdk == "openai" else "Anthropic"}
real = client.Async{"OpenAI" if sdk == "openai" else "Anthropic"}(api_key="x")
print(type(real.{"chat.completions" if sdk == "openai" else "messages"}).__name__)
"""
    assert run(code).strip() in {"AsyncCompletions", "AsyncMessages"}


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_an_sdk_of_another_shape_is_imported_plainly(sdk):
    code = f"""
import sys
from core.providers.connection import lean_import
def broken(package):
    raise RuntimeError("an __init__ of another shape")
lean_import._relative_imports = broken
lean_import.WaitingModule._from_its_own_module = lambda self, name: broken(self)
client = lean_import.load_sdk("{sdk}")
print(client.AsyncStream.__name__, sum(name.startswith("{sdk}.types") for name in sys.modules) > 300)
print(any(isinstance(module, lean_import.WaitingModule) for module in list(sys.modules.values())))
"""
    assert run(code).split() == ["AsyncStream", "True", "False"]


def test_an_sdk_that_is_already_there_is_taken_as_it_is():
    code = """
import openai
from core.providers.connection import lean_import
assert lean_import.load_sdk("openai").AsyncOpenAI is openai.AsyncOpenAI
print(any(isinstance(module, lean_import.WaitingModule) for module in list(__import__("sys").modules.values())))
"""
    assert run(code).strip() == "False"


def test_two_threads_may_load_at_once():
    code = """
import threading
from core.providers.connection import lean_import
found = []
threads = [threading.Thread(target=lambda: found.append(lean_import.load_sdk("anthropic"))) for _ in range(4)]
[each.start() for each in threads]; [each.join() for each in threads]
print(len(found), len(set(map(id, found))))
"""
    assert run(code).split() == ["4", "1"]


def test_no_sdk_is_imported_by_the_modules_that_wrap_it():
    code = """
import sys
import core.providers.openai.provider, core.providers.anthropic_provider, core.providers.registry
import core.providers.discovery
import core.providers.scripted_provider, core.providers.catalog.capabilities, core.providers.connection.keys
slow = ("openai", "anthropic", "httpx2", "pydantic", "keyring", "genai_prices", "ruamel")
print([name for name in slow if name in sys.modules])
"""
    assert run(code).strip() == "[]"


def test_no_plugin_of_pydantic_is_looked_for():
    # The attribute is pydantic's own: this fails when a new version has another one.
    counts = run(
        "import importlib.metadata as metadata\n"
        "searches, search = [], metadata.entry_points\n"
        "metadata.entry_points = lambda **query: searches.append(query) or search(**query)\n"
        "from core.providers.connection.lean_import import load_sdk\n"
        "load_sdk('openai')\n"
        "from pydantic.plugin._loader import get_plugins\n"
        "print(len(searches), len(list(get_plugins())))\n"
    )
    assert counts.split() == ["0", "0"]
