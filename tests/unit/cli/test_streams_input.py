"""Standard input is read to its end, however it comes, and who leaves it open hears of it."""

from __future__ import annotations

import io
import os
from threading import Thread

import pytest

from core.cli import streams as streams_input
from core.cli.streams import read_input

NOTICE = "Waiting for standard input"


class Said(io.StringIO):
    """Standard error that closes the other end once something was said."""

    def __init__(self, writer: int) -> None:
        super().__init__()
        self._writer = writer

    def flush(self) -> None:
        os.write(self._writer, b"late")
        os.close(self._writer)


@pytest.mark.parametrize("blocks", [True, False])
def test_an_input_that_is_left_open_is_spoken_of_and_then_read_to_its_end(monkeypatch, blocks):
    monkeypatch.setattr(streams_input, "PATIENCE", 0.01)
    reader, writer = os.pipe()
    os.set_blocking(reader, blocks)
    os.write(writer, b"early ")
    stderr = Said(writer)
    monkeypatch.setattr("sys.stderr", stderr)
    with os.fdopen(reader, "rb") as source:
        assert read_input(source) == b"early late"
    assert stderr.getvalue().count(NOTICE) == 1


@pytest.mark.parametrize("blocks", [True, False])
def test_a_large_input_is_read_whole_and_no_further_than_its_limit(capsys, blocks):
    data = bytes(range(256)) * 2000
    for limit in (-1, 100_000):
        reader, writer = os.pipe()
        os.set_blocking(reader, blocks)

        def write(end: int = writer) -> None:
            with os.fdopen(end, "wb") as sink:
                sink.write(data)

        writing = Thread(target=write)
        writing.start()
        with os.fdopen(reader, "rb") as source:
            assert read_input(source, limit) == (data if limit < 0 else data[:limit])
            while os.read(reader, 65536) if blocks else writing.is_alive() and not _drain(reader):
                pass
        writing.join()
    assert NOTICE not in capsys.readouterr().err


def _drain(reader: int) -> bool:
    try:
        return not os.read(reader, 65536)
    except BlockingIOError:
        return False


def test_what_is_no_file_is_read_as_it_is(tmp_path):
    assert read_input(io.BytesIO(b"abc"), 2) == b"ab"
    (tmp_path / "a").write_bytes(b"xyz")
    with (tmp_path / "a").open("rb") as source:
        assert read_input(source) == b"xyz"
