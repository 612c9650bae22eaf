"""Running background commands and the project: they see edits, share a loopback, and their files can be read."""

from __future__ import annotations

from core.protocol import events as ev
from core.protocol.review import Origin
from tests.support.agent_case import calls, says
from tests.support.boxes import boxed, command, wait_for_output

WATCH = """
import ctypes, os, struct
libc = ctypes.CDLL(None)
watch = libc.inotify_init()
libc.inotify_add_watch(watch, b".", 0x100 | 0x80 | 0x8 | 0x200)  # CREATE, MOVED_TO, CLOSE_WRITE, DELETE
print("watching", flush=True)
while True:
    data = os.read(watch, 65536)
    while data:
        size = struct.unpack_from("iIII", data)[3]
        name, data = data[16:16 + size].rstrip(b"\\0").decode(), data[16 + size:]
        try:
            text = open(name).read().strip()
        except OSError:  # what is being written has another name before
            text = "gone"
        print("saw", name, text, flush=True)
"""
SERVE = "exec python3 -u -m http.server 8766 2>&1"
GET = "python3 -c \"import urllib.request as u; print('GOT', u.urlopen('http://127.0.0.1:8766/{}').read())\""


def start_job(command_line: str, wait: int = 20):
    return calls(("run_terminal_cmd", {"command": command_line, "is_background": True, "timeout": wait}))


async def test_a_watcher_that_runs_is_told_of_edits_deletions_and_new_directories(tmp_path):
    async with boxed(tmp_path, start_job("python3 watch.py", 0), says(".")) as case:
        (case.project / "watch.py").write_text(WATCH)
        (case.project / "page.html").write_text("old\n")
        (case.project / "other.txt").write_text("other\n")
        await case.turn()
        await wait_for_output(case, "watching")
        jobs = case.session.terminal.jobs
        case.shadow.write("page.html", b"new\n")
        case.shadow.delete("other.txt")
        case.shadow.write("made.txt", b"made\n")
        await jobs.update_views()
        output = await wait_for_output(case, "saw page.html new", "saw other.txt gone", "saw made.txt made")
        assert "watching" in output
        await jobs.end("job_1")
        assert {path: change.operation for path, change in case.state.changes.items()} == {
            "page.html": "edit",
            "other.txt": "delete",
            "made.txt": "create",
        }
        assert case.shadow.read("page.html") == b"new\n"


async def test_a_server_serves_what_is_pending_and_the_next_command_reaches_it(tmp_path):
    steps = [
        start_job(SERVE, 0),
        calls(("read_file", {"target_file": "page.html"})),
        calls(("write", {"file_path": "page.html", "contents": "pending\n"})),
        command(f"until {GET.format('page.html')} 2>/dev/null; do sleep 0.05; done"),
        calls(("write", {"file_path": "app/deep/new.js", "contents": "new\n"})),
        command(GET.format("app/deep/new.js")),
        says("."),
    ]
    async with boxed(tmp_path, *steps) as case:
        (case.project / "page.html").write_text("project\n")
        await case.turn()
        assert "GOT b'pending\\n'" in case.results()[3]
        assert "GOT b'new\\n'" in case.results()[5]
        await case.session.terminal.jobs.end("job_1")
        assert set(case.state.changes) == {"page.html", "app/deep/new.js"}
        assert case.shadow.read("app/deep/new.js") == b"new\n"
        assert case.tree() == {"page.html": b"project\n"}


async def test_a_build_of_another_command_is_seen_by_a_running_server(tmp_path):
    steps = [
        start_job(SERVE, 0),
        command("mkdir dist && echo built > dist/o.js"),
        command(f"until {GET.format('dist/o.js')} 2>/dev/null; do sleep 0.05; done"),
        says("."),
    ]
    async with boxed(tmp_path, *steps) as case:
        (case.project / ".gitignore").write_text("dist/\n")
        await case.turn()
        assert "GOT b'built\\n'" in case.results()[2]
        await case.session.terminal.jobs.end("job_1")
        assert case.of(ev.EffectsRecorded)[-1].generated == 0


async def test_what_a_job_writes_can_be_read_while_it_runs_and_is_for_review_at_its_end(tmp_path):
    job = "mkdir out; echo one > out/log.txt; echo new > a.txt; rm b.txt; echo ready; read; echo two >> out/log.txt"
    steps = [
        start_job(job, 0),
        says("."),
        calls(("read_file", {"target_file": "out/log.txt"}), ("list_dir", {"target_directory": "."})),
        command("cat out/log.txt a.txt; ls"),
        says("."),
    ]
    async with boxed(tmp_path, *steps) as case:
        for name in ("a.txt", "b.txt"):
            (case.project / name).write_text(f"{name}\n")
        await case.turn()
        await wait_for_output(case, "ready")
        await case.turn()
        _, read, listing, shown = case.results()
        assert "1|one" in read
        assert "out" in listing
        assert "b.txt" not in listing
        assert "one\nnew" in shown
        assert "b.txt" not in shown
        assert case.state.changes == {}
        case.session.terminal.jobs.send("job_1", "go\n")
        await case.session.terminal.jobs.read("job_1", 30)
        assert {path: change.operation for path, change in case.state.changes.items()} == {
            "out/log.txt": "create",
            "a.txt": "edit",
            "b.txt": "delete",
        }
        assert case.shadow.read("out/log.txt") == b"one\ntwo\n"


def search(pattern: str, path: str = "."):
    return "grep", {"pattern": pattern, "path": path}


async def test_the_agents_search_finds_what_a_job_has_written(tmp_path):
    job = "mkdir out dist; echo needle > out/log.txt; echo needle > dist/x.js; echo thread > a.txt; rm b.txt; "
    steps = [
        start_job(f"{job} echo needle > my.log; echo ready; read go", 0),
        says("."),
        calls(
            search("needle"),
            search("hay"),
            search("needle", "my.log"),
            search("needle", "dist"),
            search("needle", "src"),
        ),
        calls(("glob_file_search", {"glob_pattern": "*.txt"})),
        says("."),
        calls(search("needle"), search("needle", "my.log"), search("needle", "dist")),
        says("."),
    ]
    async with boxed(tmp_path, *steps) as case:
        for name in ("a.txt", "b.txt", "src/c.txt"):
            (case.project / name).parent.mkdir(exist_ok=True)
            (case.project / name).write_text("hay\n")
        (case.project / ".gitignore").write_text("*.log\ndist/\n")
        await case.turn()
        await wait_for_output(case, "ready")
        await case.turn()
        everywhere, replaced, log, ignored, elsewhere, names = case.results()[1:7]
        assert everywhere == "1 match in 1 file\n\nout/log.txt\n1:needle"
        assert replaced == "1 match in 1 file\n\nsrc/c.txt\n1:hay"
        assert log == "1 match in 1 file\n\nmy.log\n1:needle"
        assert ignored == "1 match in 1 file\n\ndist/x.js\n1:needle"
        assert elsewhere == "No matches for needle"
        assert sorted(names.split("\n")[1:]) == ["a.txt", "out/log.txt", "src/c.txt"]
        await case.session.terminal.jobs.end("job_1")
        await case.turn()
        assert case.results()[-3:] == [everywhere, log, ignored]


async def test_what_a_job_has_written_is_taken_in_while_it_runs_and_its_end_brings_the_rest(tmp_path):
    job = "echo one > a.txt; echo ready; read go; echo two >> a.txt; echo b > b.txt; echo done; read go"
    async with boxed(tmp_path, start_job(job, 0), says(".")) as case:
        await case.turn()
        await wait_for_output(case, "ready")
        jobs = case.session.terminal.jobs
        assert "created a.txt" in await jobs.absorb("job_1")
        assert case.shadow.read("a.txt") == b"one\n"
        assert await jobs.absorb("job_1") == "it has written nothing new"
        jobs.send("job_1", "go\n")
        await wait_for_output(case, "done")
        assert case.state.changes.keys() == {"a.txt"}
        jobs.send("job_1", "go\n")
        await jobs.read("job_1", 30)
        assert case.shadow.read("a.txt") == b"one\ntwo\n"
        assert case.shadow.read("b.txt") == b"b\n"
        assert case.of(ev.EffectsRecorded)[-1].created == ("b.txt",)


async def test_a_newer_edit_wins_over_what_a_job_wrote_and_the_job_may_change_what_it_was_sent(tmp_path):
    job = "echo job > a.txt; echo ready; read go; echo more >> a.txt; echo more >> sent.txt"
    async with boxed(tmp_path, start_job(job, 0), says(".")) as case:
        await case.turn()
        await wait_for_output(case, "ready")
        jobs = case.session.terminal.jobs
        assert case.shadow.read("a.txt") == b"job\n"
        origin = Origin(call="call_1", tool="write")
        case.shadow.write("a.txt", b"agent\n", origin)
        case.shadow.write("sent.txt", b"agent\n", origin)
        assert case.shadow.read("a.txt") == b"agent\n"
        await jobs.update_views()
        assert case.shadow.read("a.txt") == b"agent\n"
        jobs.send("job_1", "go\n")
        await jobs.read("job_1", 30)
        assert case.shadow.read("a.txt") == b"agent\nmore\n"
        assert case.shadow.read("sent.txt") == b"agent\nmore\n"


async def test_a_rejected_edit_is_taken_back_from_a_running_job(tmp_path):
    async with boxed(tmp_path, start_job("read go; cat page.html new.html", 0), says(".")) as case:
        (case.project / "page.html").write_text("project\n")
        await case.turn()
        jobs = case.session.terminal.jobs
        case.shadow.write("page.html", b"pending\n")
        case.shadow.write("new.html", b"pending\n")
        await jobs.update_views()
        case.shadow.resolve("page.html", (), "reject")
        case.shadow.resolve("new.html", (), "reject")
        await jobs.update_views()
        jobs.send("job_1", "go\n")
        report = await jobs.read("job_1", 30)
        assert "project" in report.output
        assert "new.html: No such file" in report.output
        assert case.state.changes == {}


async def test_a_watcher_is_told_of_changes_that_the_user_makes_in_the_own_files(tmp_path):
    async with boxed(tmp_path, start_job("python3 watch.py", 0), says(".")) as case:
        (case.project / "watch.py").write_text(WATCH)
        for name in ("in_place.txt", "replaced.txt"):
            (case.project / name).write_text("old\n")
        await case.turn()
        await wait_for_output(case, "watching")
        jobs = case.session.terminal.jobs
        (case.project / "in_place.txt").write_text("new\n")
        (case.project / "new").write_text("newer\n")
        (case.project / "new").replace(case.project / "replaced.txt")
        (case.project / "created.txt").write_text("made\n")
        jobs.note_disk_changes(("in_place.txt", "replaced.txt", "created.txt"))
        output = await wait_for_output(case, "saw in_place.txt new", "saw replaced.txt newer", "saw created.txt made")
        assert "watching" in output
        for text in ("second", "third"):
            (case.project / "in_place.txt").write_text(f"{text}\n")
            jobs.note_disk_changes(("in_place.txt",))
            await wait_for_output(case, f"saw in_place.txt {text}")
        case.shadow.write("in_place.txt", b"agent\n", Origin(call="call_1", tool="write"))
        jobs.update_views_soon()
        await wait_for_output(case, "saw in_place.txt agent")
        case.shadow.resolve("in_place.txt", ())
        (case.project / "in_place.txt").write_text("last\n")
        jobs.note_disk_changes(("in_place.txt",))
        await wait_for_output(case, "saw in_place.txt last")
        await jobs.end("job_1")
        assert case.state.changes == {}
        jobs.note_disk_changes(())
        assert case.tree()["in_place.txt"] == b"last\n"
