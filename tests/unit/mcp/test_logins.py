"""Logins to remote servers as they are kept: in the keyring by issuer, for one address, by one process at a time."""

from __future__ import annotations

import base64
import stat

import pytest

from core.mcp import logins
from core.mcp.logins import Login, LoginEntry, LoginStore, build_refresh
from core.secrets import redact
from core.user_dirs import get_state_dir

URL = "https://mcp.example.org/mcp"
LOGIN = Login(
    issuer="https://login.example.org",
    token_endpoint="https://login.example.org/token",
    client_id="a client",
    resource=URL,
    access_token="access-0123456789",
    refresh_token="refresh-0123456789",
)


@pytest.fixture
def ring(monkeypatch) -> dict[str, str]:
    """A keyring that is there: its passwords by account."""
    passwords: dict[str, str] = {}
    monkeypatch.setattr("keyring.get_password", lambda _, name: passwords.get(name))
    monkeypatch.setattr("keyring.set_password", lambda _, name, value: passwords.update({name: value}))
    monkeypatch.setattr("keyring.delete_password", lambda _, name: passwords.pop(name))
    return passwords


def test_a_login_is_kept_in_the_keyring_by_its_issuer_and_in_no_file(ring):
    store = LoginStore(URL)
    assert store.save(LOGIN) == "the keyring"
    assert list(ring) == ["mcp https://login.example.org /mcp https://mcp.example.org"]
    assert store.load() == LOGIN
    files = [path for path in get_state_dir().rglob("*") if path.is_file()]
    assert not [path for path in files if LOGIN.access_token.encode() in path.read_bytes()]
    assert store.remove()
    assert (ring, store.load()) == ({}, None)


def test_another_issuer_takes_the_place_of_the_one_before(ring):
    store = LoginStore(URL)
    store.save(LOGIN)
    store.save(Login(issuer="https://new.example.org", token_endpoint="", client_id="", access_token="other-token"))
    assert [account.split()[1] for account in ring] == ["https://new.example.org"]
    assert store.find_entry() == LoginEntry("https://new.example.org", 2)


def test_k4_without_a_keyring_it_is_in_a_file_for_the_user_alone_and_no_text_shows_it():
    store = LoginStore(URL)
    place = get_state_dir() / "keys.json"
    assert store.save(LOGIN) == str(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert store.load() == LOGIN
    assert redact(f"Bearer is {LOGIN.access_token}, {LOGIN.refresh_token}").count("0123456789") == 0


def test_k9_a_login_is_for_one_address_and_not_for_another_of_the_same_host(ring):
    LoginStore(URL).save(LOGIN)
    assert LoginStore("https://mcp.example.org/other").load() is None
    assert LoginStore("https://evil.example.org/mcp").load() is None


def test_what_is_damaged_is_no_login(ring):
    store = LoginStore(URL)
    store.save(LOGIN)
    for damaged in ("no base64", base64.urlsafe_b64encode(b"{}").decode()):
        ring.update(dict.fromkeys(ring, damaged))
        assert store.load() is None


async def test_one_at_a_time_holds_a_login_and_one_that_hangs_is_waited_for_no_longer(monkeypatch):
    monkeypatch.setattr(logins, "LOCK_SECONDS", 0.0)
    passed = []
    async with LoginStore(URL).lock(), LoginStore("https://other.example.org/").lock(), LoginStore(URL).lock():
        passed.append("over the one that hangs")
    assert passed


@pytest.mark.parametrize(
    ("method", "secret", "header", "field"),
    [
        ("", "", False, False),
        ("client_secret_post", "word", False, True),
        ("client_secret_basic", "word", True, False),
    ],
)
def test_a_refresh_goes_to_the_issuer_that_gave_it_and_says_who_asks(method, secret, header, field):
    login = Login(
        issuer=LOGIN.issuer,
        token_endpoint=LOGIN.token_endpoint,
        client_id="a client",
        client_secret=secret,
        auth_method=method,
        resource=URL,
        refresh_token="refresh-1",
    )
    request = build_refresh(login)
    body = request.content.decode()
    assert str(request.url) == LOGIN.token_endpoint
    assert "grant_type=refresh_token&refresh_token=refresh-1&client_id=a+client&resource=https" in body
    assert ("authorization" in request.headers, "client_secret=word" in body) == (header, field)
