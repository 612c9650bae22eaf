"""Credentials in the texts of git: what of them is secret, and what is a word like any other."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import secrets
from core.git.credentials import (
    find_credentials,
    register_command_credentials,
    register_git_credentials,
    register_read_repository,
)
from tests.support.commits import git

TOKEN = "ghp_A1b2C3d4E5f6G7h8"
BASIC = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        f'[remote "origin"]\n\turl = https://me:{TOKEN}@example.com/a.git',
        f"[remote]\n url = https://{TOKEN}@example.com/a.git",
        f"[remote]\n url = https://{TOKEN}:x-oauth-basic@example.com/a.git",
        f"[remote]\n pushurl = https://oauth2:{TOKEN}@example.com/a.git",
        f'[url "https://x:{TOKEN}@example.com/"]\n\tinsteadOf = https://example.com/',
        f'[http "https://example.com/"]\n\textraheader = AUTHORIZATION: bearer {TOKEN}',
        f"[http]\n\textraHeader = PRIVATE-TOKEN: {TOKEN}",
        f"[http]\n\textraheader = AUTHORIZATION: basic {BASIC}",
        f'[http]\n\textraheader = "Authorization: Basic {BASIC}"',
        f"[sendemail]\n\tsmtpPass = {TOKEN}",
        f"[github]\n\ttoken = {TOKEN}",
        f"https://me:{TOKEN}@example.com\n",
        f"0 1 A <a@b> 1 +0\tclone: from https://me:{TOKEN}@example.com/a.git",
        f"abc\t\tbranch 'main' of https://me:{TOKEN}@example.com/a",
    ],
)
def test_n38_a_token_is_found_wherever_git_keeps_it(text):
    assert TOKEN in find_credentials(text)


def test_n38_the_encoded_form_of_a_header_is_secret_too():
    assert {TOKEN, BASIC} <= find_credentials(f"[http]\n extraheader = AUTHORIZATION: basic {BASIC}")


def test_n38_an_escaped_password_is_secret_as_it_is_and_as_it_is_meant():
    assert find_credentials("url = https://me:p%40ss-w0rd@example.com/a") == {"p%40ss-w0rd", "p@ss-w0rd"}


@pytest.mark.parametrize(
    "text",
    [
        "url = git@example.com:a/b.git",
        "url = ssh://git@example.com/a.git",
        "url = https://example.com/a@b.git",
        "url = https://someone@example.com/a.git",
        "url = https://me:password@example.com/a.git",  # masked wherever it stands, a word would mask prose
        "[credential]\n\thelper = store",
        "name = A. Person\nemail = a@example.com",
    ],
)
def test_n38_what_is_no_credential_stays_readable(text):
    assert find_credentials(text) == set()


@given(st.text(max_size=300))
def test_n38_any_text_is_read_and_no_short_value_is_masked(text):
    assert all(len(value) >= 8 for value in find_credentials(text))


@pytest.mark.parametrize(
    "text",
    [
        f"[imap]\n\tpass = {TOKEN}",
        f'[credential]\n\thelper = "!f() {{ echo username=a; echo password={TOKEN}; }}; f"',
        f'[credential]\n\thelper = "!echo \\"password={TOKEN}\\""',
        f"[core]\n\tsshCommand = sshpass -p {TOKEN} ssh",
        f"[core]\n\tsshCommand = sshpass -p'{TOKEN}' ssh -o Port=2",
        f"[alias]\n\tup = !deploy --token={TOKEN} --now",
        f"     7|\tpassword = {TOKEN}",  # as read_file numbers it
        f"example.com\tFALSE\t/\tTRUE\t0\tsession\t{TOKEN}\n",
    ],
)
def test_n38_a_token_is_found_where_a_setting_or_a_cookie_holds_it(text):
    assert TOKEN in find_credentials(text)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(secrets, "_known", set())
    monkeypatch.setattr(secrets, "_credentials", set())
    secrets.list_masked_values.cache_clear()
    for name in (".", "lib/nested"):
        (tmp_path / "p" / name).mkdir(parents=True)
        git(tmp_path / "p" / name, "init", "-q")
    return tmp_path / "p"


def _is_masked(value: str) -> bool:
    return value not in secrets.mask_secrets(f"a {value} b")


def test_n38_files_that_a_configuration_names_are_read_too(project, tmp_path):
    (project / ".git/inc").write_text(
        f"[include]\n\tpath = {tmp_path}/more\n[http]\n\textraheader = A: Bearer {TOKEN}1\n"
    )
    (tmp_path / "more").write_text(f"[include]\n\tpath = p/.git/inc\n[github]\n\ttoken = {TOKEN}2\n")
    (tmp_path / "store").write_text(f"https://me:{TOKEN}3@example.com\n")
    (tmp_path / "jar").write_text(f"example.com\tFALSE\t/\tTRUE\t0\tsession\t{TOKEN}4\n")
    settings = f"[http]\n\tcookieFile = {tmp_path}/jar\n[credential]\n\thelper = store --file {tmp_path}/store\n"
    with (project / ".git/config").open("a") as config:
        config.write(f"[include]\n\tpath = inc\n{settings}")
    register_git_credentials(project)
    assert all(_is_masked(f"{TOKEN}{number}") for number in range(1, 5))


@pytest.mark.parametrize("command", ["cd lib/nested && git remote -v", "git -C lib/nested remote -v"])
def test_n38_a_repository_inside_the_project_that_a_command_names_is_read_too(project, command):
    git(project / "lib/nested", "remote", "add", "origin", f"https://me:{TOKEN}@example.com/a")
    register_command_credentials(project, ".", "git status")
    assert not _is_masked(TOKEN)
    register_command_credentials(project, ".", command)
    assert _is_masked(TOKEN)


def test_n38_a_repository_whose_own_files_are_read_is_known(project):
    git(project / "lib/nested", "remote", "add", "origin", f"https://me:{TOKEN}@example.com/a")
    register_read_repository(project, "lib/nested/README")
    assert not _is_masked(TOKEN)
    register_read_repository(project, "lib/nested/.git/config")
    assert _is_masked(TOKEN)
