"""Credentials in the texts of git: what of them is secret, and what is a word like any other."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.git.credentials import find_credentials

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
