"""Frames of the protocol, cut anywhere, with what real servers put around them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ToolFailed
from core.lsp.client import MAX_FRAME, FrameReader, build_frame


def read(*pieces: bytes) -> list[bytes]:
    reader = FrameReader()
    return [body for piece in pieces for body in reader.feed(piece)]


@given(st.lists(st.binary(max_size=200), max_size=5), st.data())
def test_bodies_come_out_whole_whatever_the_borders_of_the_pieces(bodies, data):
    stream = b"".join(map(build_frame, bodies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*pieces) == bodies


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n",
        b"content-length:2\r\nContent-Type: x\r\n\r\n",
        b"Content-Length: 2\n\n",
    ],
)
def test_other_headers_and_bare_newlines_are_read_over(head):
    assert read(head + b"{}", head, b"[]") == [b"{}", b"[]"]


def test_a_body_beyond_all_measure_is_skipped_and_the_next_one_read():
    head = b"Content-Length: %d\r\n\r\n" % (MAX_FRAME + 1)
    piece = bytes(1 << 20)
    assert read(head, *[piece] * 16, b"x" + build_frame(b"next")) == [b"next"]


@pytest.mark.parametrize("data", [b"Starting server...\n" * 2000, b"Content-Type: x\r\n\r\n{}"])
def test_what_is_no_frame_is_an_error(data):
    with pytest.raises(ToolFailed):
        read(data)
