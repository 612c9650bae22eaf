from __future__ import annotations

from pathlib import Path

import pytest

from core.background.locations import resolve_blobs
from core.background.object_store import BucketAddress, ObjectStore, parse_address
from core.errors import ConfigError

NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")


def test_an_address_names_bucket_prefix_endpoint_and_region():
    assert parse_address("s3://team") == BucketAddress(bucket="team")
    address = parse_address("s3://team/a/b/?endpoint=http://127.0.0.1:9000/&region=eu-west-1")
    assert address == BucketAddress(bucket="team", prefix="a/b", endpoint="http://127.0.0.1:9000", region="eu-west-1")
    assert address.place == "s3://team/a/b"


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("https://team/a", "has no bucket"),
        ("s3:///a", "has no bucket"),
        ("s3://team:80/a", "has no bucket"),
        ("s3://team/a/../b", "not a"),
        ("s3://team/a//b", "not a"),
        ("s3://team?endpoint=host:9000", "not a server address"),
        ("s3://team?endpoint=http://host:port", "can't be read"),
        ("s3://team?secret_access_key=hidden", "unknown option: secret_access_key"),
        ("s3://key:hidden@team/a", "contains credentials"),
        ("s3://team?endpoint=http://key:hidden@host", "contains credentials"),
    ],
)
def test_an_address_that_is_none_is_refused_and_what_is_secret_in_it_not_repeated(address, told):
    with pytest.raises(ConfigError, match=told) as caught:
        parse_address(address)
    assert "hidden" not in caught.value.format_with_hint()


def test_the_environment_outweighs_the_configured_address(monkeypatch):
    assert resolve_blobs("s3://one") == "s3://one"
    monkeypatch.setenv("AGENT_TUI_BLOBS", "s3://two")
    assert resolve_blobs("s3://one") == "s3://two"


@pytest.fixture
def profiles(monkeypatch, tmp_path: Path) -> Path:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    return tmp_path / ".aws"


async def test_without_credentials_it_says_where_they_belong_before_anything_is_sent(profiles):
    store = ObjectStore(parse_address("s3://team?endpoint=http://127.0.0.1:9"))
    with pytest.raises(ConfigError, match="no AWS credentials") as caught:
        await store.check()
    assert "AWS_ACCESS_KEY_ID" in caught.value.hint


async def test_a_profile_file_that_can_not_be_read_is_named_and_not_quoted(profiles):
    (profiles / "credentials").write_text("aws_secret_access_key = hidden\n")
    with pytest.raises(ConfigError, match="credentials can't be read") as caught:
        await ObjectStore(parse_address("s3://team")).check()
    assert "hidden" not in caught.value.format_with_hint()
