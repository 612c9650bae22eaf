"""The Python that lives on between blocks, with a real interpreter."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from core.sandbox.host_view import build_environment
from core.sandbox.unboxed_run import UnboxedProcess
from core.shell.python_repl import ENDED_NOTE, INTERRUPTED_NOTE, PythonInterpreter, _BlockOutput


@pytest.fixture
async def session(tmp_path):
    env = {**build_environment(os.environ), "VIRTUAL_ENV": sys.prefix}

    async def start(command, on_output):
        running = UnboxedProcess(on_output)
        await running.start(command, tmp_path, env)
        return running

    interpreter = PythonInterpreter(start)
    yield interpreter
    await interpreter.close()


async def shown(session: PythonInterpreter, code: str, *, limit: float = 60.0):
    streamed: list[str] = []
    result = await session.run(code, time_limit=limit, on_output=streamed.append)
    if result.exit_code is not None:
        assert "".join(streamed) == result.output
    return result


async def test_what_a_block_defines_the_next_one_finds(session):
    assert (await shown(session, "import math\nx = 41")).output == ""
    assert (await shown(session, "x += 1\nx")).output == "42\n"
    assert (await shown(session, "print(math.floor(2.5), end='')\n_")).output == "242\n"


async def test_an_error_is_told_with_the_lines_of_the_block_and_nothing_of_ours(session):
    result = await shown(session, "def f():\n    return 1 / 0\nf()")
    assert result.exit_code == 1
    assert "return 1 / 0" in result.output
    assert "ZeroDivisionError" in result.output
    assert "<string>" not in result.output
    assert (await shown(session, "f.__name__")).output == "'f'\n"


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "exit()", "import sys; sys.exit()", "x ="])
async def test_neither_an_exit_nor_a_syntax_error_ends_the_session(session, code):
    await shown(session, "x = 1")
    assert (await shown(session, code)).exit_code == 1
    assert (await shown(session, "x")).output == "1\n"


async def test_output_of_children_and_of_both_streams_is_shown(session):
    result = await shown(
        session, "import subprocess, sys\nsubprocess.run(['echo', 'child'])\nsys.stderr.write('err\\n')\nNone"
    )
    assert "child\n" in result.output
    assert "err\n" in result.output


async def test_reading_from_the_user_finds_nothing(session):
    assert "EOFError" in (await shown(session, "input()")).output
    assert (await shown(session, "1")).output == "1\n"


async def test_shell_lines_are_understood(session):
    assert (await shown(session, "y = 1\n!echo hello; exit 0\ny")).output == "hello\n1\n"
    assert "pip " in (await shown(session, "%pip --version")).output


async def test_a_pip_that_fails_fails_its_block_and_what_stands_below_does_not_run(session):
    result = await shown(session, "%pip install ./no/such/package\nprint('installed')")
    assert result.exit_code == 1
    assert "no/such/package" in result.output
    assert "CalledProcessError" in result.output
    assert "\ninstalled\n" not in result.output


async def test_a_block_that_takes_too_long_is_interrupted_and_its_names_are_kept(session):
    await shown(session, "x = 7")
    result = await shown(session, "import time\nprint('so far')\ntime.sleep(600)", limit=1.0)
    assert (result.timed_out, result.exit_code) == (True, None)
    assert "so far" in result.output
    assert result.output.endswith(INTERRUPTED_NOTE)
    assert (await shown(session, "x")).output == "7\n"


async def test_a_block_that_can_not_be_interrupted_ends_the_session(session):
    stubborn = (
        "import time\nwhile True:\n    try:\n        time.sleep(600)\n    except KeyboardInterrupt:\n        pass"
    )
    result = await shown(session, stubborn, limit=1.0)
    assert result.timed_out
    assert result.output.endswith(ENDED_NOTE)
    assert "NameError" in (await shown(session, "time")).output


async def test_a_python_that_dies_is_told_and_the_next_block_begins_anew(session):
    await shown(session, "x = 1")
    result = await shown(session, "print('bye', flush=True)\nimport os\nos._exit(9)")
    assert (result.exit_code, result.timed_out) == (None, False)
    assert result.output == f"bye\n{ENDED_NOTE}"
    assert "NameError" in (await shown(session, "x")).output


async def test_a_cancelled_block_is_interrupted_and_the_session_goes_on(session):
    await shown(session, "x = 5")
    began = asyncio.Event()
    code = "import time\nprint('began', flush=True)\nprint('', flush=True)\ntime.sleep(600)"
    running = asyncio.create_task(session.run(code, time_limit=600, on_output=lambda _: began.set()))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await shown(session, "x")).output == "5\n"


async def test_blocks_do_not_overlap(session):
    both = await asyncio.gather(*(shown(session, f"import time\nfor _ in range(9):\n    print({n})") for n in (1, 2)))
    assert [result.output for result in both] == ["1\n" * 9, "2\n" * 9]


async def test_a_flood_of_output_ends_the_session(session):
    result = await shown(session, "while True:\n    print('x' * 1000)")
    assert result.exit_code is None
    assert len(result.output) < 2_100_000
    assert result.output.endswith(ENDED_NOTE)


async def test_closing_leaves_no_process(session, tmp_path):
    pid = int((await shown(session, "import os\nos.getpid()")).output)
    await session.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_unusual_code_arrives_as_it_is(session):
    code = "text = '''a\n\n é \\u00e9 '''\ntext"
    assert (await shown(session, code)).output == "'a\\n\\n é é '\n"
    assert (await shown(session, "")).exit_code == 0


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_the_mark_is_taken_out_wherever_the_stream_is_cut(size):
    streamed: list[str] = []
    watch = _BlockOutput("::m::", streamed.append)
    text = "a\n::n\n\n::m:: 0\nlater"
    for start in range(0, len(text), size):
        watch.feed(text[start : start + size])
    assert (watch.render_text(), "".join(streamed), watch.status) == ("a\n::n\n", "a\n::n\n", "0")
