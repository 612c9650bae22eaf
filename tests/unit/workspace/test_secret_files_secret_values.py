from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from core.secrets import MASK
from core.workspace.secret_files import MAX_BYTES, SecretMasker, find_secret_values

ENV = """# a comment with abc12345678
export TOKEN="hunter2hunter2"
KEY: 'sk_live_0123456789'
NODE_ENV=development
PORT=8080
HOME_PAGE=https://example.org/page1
DATABASE=postgres://me:secret1@host/db
PLACE=/usr/share/thing1234
"""
BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
SECRETS = {"hunter2hunter2", "sk_live_0123456789", "postgres://me:secret1@host/db"}


def test_n16_k5_values_are_told_by_their_looks(tmp_path):
    (tmp_path / ".env").write_text(ENV)
    (tmp_path / "id_rsa").write_text(f"-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----\n")
    (tmp_path / "notes.txt").write_text("TOKEN=notasecret123\n")
    (tmp_path / "big.env").write_text("\n" * MAX_BYTES + "\nTOKEN=beyond123456\n")
    secret_values = find_secret_values(tmp_path, [".env", "id_rsa", "notes.txt", "big.env", "gone.env"])
    assert set(secret_values) == {*SECRETS, BODY}
    assert list(secret_values) == sorted(secret_values, key=lambda value: (-len(value), value))


@given(st.lists(st.sampled_from(["hunter2", "hunter2hunter2", "hun", "ter2", "x", "aab", "aaba", " "])), st.data())
def test_n16_k5_no_value_comes_through_whatever_the_pieces_are_and_all_else_does(parts, data):
    values = ("hunter2hunter2", "aaab", "hunter2")
    whole, chunks = "".join(parts), []
    veil, left = SecretMasker(chunks.append, values), whole
    while left:
        size = data.draw(st.integers(1, len(left)))
        veil.feed(left[:size])
        left = left[size:]
    veil.finish()
    output = "".join(chunks)
    assert not any(value in output for value in values)
    if not any(value in whole for value in values):
        assert output == whole
    assert (MASK in output) == (veil.masked_count > 0)


def test_without_values_everything_is_handed_on_at_once():
    chunks: list[str] = []
    SecretMasker(chunks.append).feed("a")
    assert chunks == ["a"]


def test_n38_a_directory_or_pipe_with_the_name_of_a_secret_holds_none_and_leaves_nothing_open(tmp_path):
    (tmp_path / ".env/bin").mkdir(parents=True)
    os.mkfifo(tmp_path / "id_rsa")
    before = len(list(Path("/dev/fd").iterdir()))
    assert find_secret_values(tmp_path, [".env", "id_rsa", "credentials"]) == ()
    assert len(list(Path("/dev/fd").iterdir())) == before
