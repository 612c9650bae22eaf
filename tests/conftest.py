"""Every test runs as a user nobody knows: an empty home, a fixed terminal, no keys, and no network but loopback."""

from __future__ import annotations

import gc
import ipaddress
import os
import re
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Under load nothing may fail for being slow: what takes too long is ended by the suite's own limit.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

pytest_plugins = ["tests.support.slow_tier", "tests.support.key_rows"]

PINNED = {
    "COLORTERM": "truecolor",
    "TERM": "xterm-256color",
    "TZ": "UTC",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TEXTUAL_ANIMATIONS": "none",
    "TEXTUAL_SPEEDUPS": "0",
    "AGENT_TUI_LOCAL_SERVERS": "127.0.0.1:9",  # nobody listens there, whatever model server this machine runs
    "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.invalid",
    "GIT_COMMITTER_NAME": "A Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.invalid",
}
XDG = {"CONFIG": ".config", "CACHE": ".cache", "DATA": ".local/share", "STATE": ".local/state", "RUNTIME": ".run"}
REMOVED = {
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "LINES",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "EDITOR",
    "VISUAL",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_CONNECTION",
    "TMUX",
    "CI",
}
REMOVED_PREFIXES = ("OPENAI_", "ANTHROPIC_", "AGENT_TUI_", "OLLAMA_", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
LONGEST_NAME = 300  # characters
REMOVED_SUFFIXES = ("_API_KEY", "_PROXY", "_proxy")


def _is_removed(name: str) -> bool:
    return name in REMOVED or name.startswith(REMOVED_PREFIXES) or name.endswith(REMOVED_SUFFIXES)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten the name of a case that is a long text. One of ten megabytes would be in each process several times."""
    text = val.decode("latin-1") if isinstance(val, bytes) else val
    return f"{text[:60]}…{len(text)}" if isinstance(text, str) and len(text) > LONGEST_NAME else None


def pytest_collection() -> None:
    """What is made now lives until the end, nearly all of it: to look for garbage would take a quarter of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Thousands of collected tests live until the end: no collection of garbage has to walk through them.

    What a test leaves is looked for soon, while it is young: an app is one cycle of thousands of objects that hold the
    strips and trees of all they drew, so that few of them are hundreds of megabytes.
    """
    gc.freeze()
    gc.collect()  # of nothing: from here on Python counts what is long-lived
    gc.enable()
    gc.set_threshold(10_000, 10, 50)


def pytest_unconfigure() -> None:
    """Pytest looks for garbage five times at the end, and Python twice; what the first time leaves is none."""
    gc.collect()
    gc.freeze()


def _make_directory(factory: pytest.TempPathFactory, name: str) -> Path:
    """Make a new directory. Pytest numbers its own, for which it lists all there are: thousands."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=factory.getbasetemp()))


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make_directory(tmp_path_factory, re.sub(r"\W", "_", request.node.name)[:30])


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty home directory; returns it."""
    home = _make_directory(tmp_path_factory, "home")
    for name in filter(_is_removed, list(os.environ)):
        monkeypatch.delenv(name)
    for name, value in PINNED.items():
        monkeypatch.setenv(name, value)
    for name, below in XDG.items():
        (home / below).mkdir(parents=True, mode=0o700)
        monkeypatch.setenv(f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}", str(home / below))
    monkeypatch.setenv("HOME", str(home))
    # An environment that is active has language servers, which would have their say on the edits of every test.
    own, directories = Path(sys.prefix, "bin"), os.environ["PATH"].split(os.pathsep)
    monkeypatch.setenv("PATH", os.pathsep.join(directory for directory in directories if Path(directory) != own))
    # Read by Textual when it is imported, which a pytest plug-in does before any fixture runs.
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "none")
    return home


def _refuse_outside(address: object) -> None:
    if not isinstance(address, tuple):
        return  # a unix socket
    host = str(address[0]).partition("%")[0]
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host in {"localhost", ""}
    if not local:
        raise PermissionError(f"a test tried to reach {host}; only loopback is open to tests")


@pytest.fixture(autouse=True)
def readable_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a record is written to a log that could not be read back: with it the rest of a session is lost."""
    from core.sessions import record_format

    encode = record_format.encode_record

    def encode_readable(envelope: Any, **options: Any) -> bytes:
        data = encode(envelope, **options)
        is_ours = envelope.v <= record_format.SCHEMA_VERSION
        assert not is_ours or record_format.decode_record(data.rstrip(b"\n")) is not None, data[:600]
        return data

    monkeypatch.setattr(record_format, "encode_record", encode_readable)


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuses every connection, datagram and name lookup that would leave this machine."""
    plain = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex", "sendto")}
    look_up = socket.getaddrinfo

    def connect(self: socket.socket, address: Any) -> None:
        _refuse_outside(address)
        plain["connect"](self, address)

    def connect_ex(self: socket.socket, address: Any) -> int:
        _refuse_outside(address)
        return int(plain["connect_ex"](self, address))

    def sendto(self: socket.socket, data: bytes, *rest: Any) -> int:
        _refuse_outside(rest[-1])
        return int(plain["sendto"](self, data, *rest))

    def getaddrinfo(host: Any, *rest: Any, **kwargs: Any) -> Any:
        text = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        _refuse_outside((text or "",))
        return look_up(host, *rest, **kwargs)

    for name, guarded in {"connect": connect, "connect_ex": connect_ex, "sendto": sendto}.items():
        monkeypatch.setattr(socket.socket, name, guarded)
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
