"""Addresses: what decides and what is dialled are the same value, and what reads in two ways is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import WebFailed
from core.web.address import join_address, parse_address


@pytest.mark.parametrize(
    ("text", "host", "whole"),
    [
        ("https://Example.ORG", "example.org", "https://example.org/"),
        ("https://example.org.:443/a?b=c#d", "example.org", "https://example.org/a?b=c"),
        ("http://example.org:8080/ä ö".replace(" ", ""), "example.org", "http://example.org:8080/%C3%A4%C3%B6"),
        ("https://xn--bcher-kva.example/x", "xn--bcher-kva.example", "https://xn--bcher-kva.example/x"),
        ("http://[2001:4860:4860::8888]/", "2001:4860:4860::8888", "http://[2001:4860:4860::8888]/"),
        ("https://example.org?q=1", "example.org", "https://example.org/?q=1"),
        ("https://example.org/a%2e%2e/@b", "example.org", "https://example.org/a%2e%2e/@b"),
    ],
)
def test_i12_an_address_is_one_value(text, host, whole):
    address = parse_address(text)
    assert (address.host, str(address)) == (host, whole)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "example.org",
        "//example.org/",
        "https://",
        "https:///path",
        "https://allowed.example@evil.example/",
        "https://user:pass@example.org/",
        "https://evil\0.allowed.example/",
        "https://allowed.example\\@evil.example/",
        "https://exa mple.org/",
        "https://example.org/a\r\nHost: evil",
        "https://example.org:0/",
        "https://example.org:99999/",
        "https://example.org:80:80/",
        "https://bücher.example/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://[::1%25lo]/",
        "http://-a.example/",
        "http://a.example/\ud800",
        f"https://example.org/{'a' * 5000}",
    ],
)
def test_i12_what_reads_in_two_ways_is_refused(text):
    with pytest.raises(WebFailed) as caught:
        parse_address(text)
    assert caught.value.code == "bad_address"


def test_a_reference_is_resolved_against_its_page():
    base = parse_address("https://example.org/a/b?c")
    assert str(join_address(base, "../d")) == "https://example.org/d"
    assert str(join_address(base, "//other.example/x")) == "https://other.example/x"
    with pytest.raises(WebFailed):
        join_address(base, "javascript:alert(1)")
    with pytest.raises(WebFailed):
        join_address(base, "http://[::1")


@given(st.text(max_size=60))
def test_i12_any_text_is_an_address_that_reads_as_itself_or_is_refused(text):
    for whole in (text, f"https://{text}", f"http://example.org/{text}"):
        try:
            address = parse_address(whole)
        except WebFailed:
            continue
        assert parse_address(str(address)) == address
        assert str(address).isascii()
