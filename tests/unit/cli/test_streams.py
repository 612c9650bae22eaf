"""Output reaches its reader whole: through pipes that do not block, in any encoding, and to nobody at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

ROOT = Path(__file__).parents[3]
PREPARED = "import sys; from core.cli.streams import prepare_output; prepare_output(); "
TEXT = "é → 😀\\n"


def start(code: str, *redirections: str, **options):
    """Start Python with prepared streams, some of them redirected as a shell does."""
    words = " ".join(("exec", '"$0" -c "$1"', *redirections))
    command = ["sh", "-c", words, sys.executable, PREPARED + code]
    return subprocess.Popen(command, cwd=ROOT, **{"stderr": subprocess.PIPE, **options})


@pytest.mark.parametrize("stream", ["stdout", "stdout.buffer", "stderr"])
def test_a_pipe_that_does_not_block_gets_all(stream):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    word = "b'x'" if stream.endswith("buffer") else "'x'"
    process = start(
        f"sys.{stream}.write({word} * 3_000_000); sys.{stream}.flush()",
        **{"stdout": subprocess.DEVNULL, stream.partition(".")[0]: writer},
    )
    os.close(writer)
    parts = []

    def read() -> None:
        while part := os.read(reader, 65536):
            parts.append(part)

    reading = Thread(target=read)
    reading.start()
    process.communicate()
    reading.join()
    os.close(reader)
    assert b"".join(parts).count(b"x") == 3_000_000
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("utf-8", "é → 😀".encode()),
        ("latin-1", b"\xe9 \\u2192 \\ud83d\\ude00"),
        ("ascii", b"\\u00e9 \\u2192 \\ud83d\\ude00"),
        ("gbk", b"\xa8\xa6 \xa1\xfa \\ud83d\\ude00"),
        ("latin-1:replace", b"\xe9 ? ?"),
        ("ascii:surrogateescape", b"\\u00e9 \\u2192 \\ud83d\\ude00"),
    ],
)
def test_what_an_encoding_has_no_character_for_is_escaped_unless_the_user_has_said_how(setting, expected):
    code = f"print('{TEXT}'.strip()); print('{TEXT}'.strip(), file=sys.stderr)"
    process = start(code, stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": setting})
    out, err = process.communicate()
    assert out.strip() == expected
    if ":" not in setting:
        assert err.strip() == expected


def test_a_name_that_is_no_text_is_written():
    out, _ = start(r"print('a\udce9b')", stdout=subprocess.PIPE).communicate()
    assert out == b"a\\udce9b\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_one_that_nobody_reads_and_no_file_takes_its_number(closed):
    code = (
        "import os; print('out'); print('err', file=sys.stderr); assert sys.stdin.read() == '' or True; "
        "assert os.open('/', os.O_RDONLY) > 2; assert None not in (sys.__stdin__, sys.__stdout__, sys.__stderr__)"
    )
    process = start(code, closed, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out == (b"" if ">&-" in closed.split() else b"out\n")


def test_a_full_disk_is_told_once_and_standard_error_may_be_full():
    code = (
        "from core.errors import OutputFailed\n"
        "try:\n    print('x' * 100_000, flush=True)\n"
        "except OutputFailed as error:\n    print(error.message, file=sys.stderr)\n"
        "print('more', flush=True)"
    )
    process = start(code, ">/dev/full")
    assert process.communicate()[1] == b"standard output can't be written: No space left on device.\n"
    assert process.returncode == 0
    process = start("print('x', file=sys.stderr); print('y')", "2>/dev/full", stdout=subprocess.PIPE)
    assert (process.communicate()[0], process.returncode) == (b"y\n", 0)
