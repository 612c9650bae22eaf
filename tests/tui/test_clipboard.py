"""The clipboard of the desktop: which tool is asked, what it gives, and what is said where there is none."""

from __future__ import annotations

import pytest

from tests.support.fake_clipboard import clipboard_of
from tests.support.pictures import picture
from tui import clipboard
from tui.clipboard import (
    ClipboardContent,
    ClipboardTool,
    describe_clipboard,
    find_clipboard_tool,
    read_clipboard,
)

PNG = picture(20, 10)
WAYLAND, X11 = {"WAYLAND_DISPLAY": "wayland-0"}, {"DISPLAY": ":0"}


def having(*names):
    return lambda name: f"/usr/bin/{name}" if name in names else None


@pytest.mark.parametrize(
    ("environment", "platform", "tools", "session", "tool"),
    [
        (WAYLAND, "linux", ("wl-paste",), "wayland", "wl-paste"),
        (X11, "linux", ("xclip",), "x11", "xclip"),
        (WAYLAND | X11, "linux", ("xclip",), "x11", "xclip"),
        (WAYLAND | X11, "linux", (), "wayland", ""),
        (X11, "linux", ("wl-paste",), "x11", ""),
        ({}, "darwin", ("pngpaste",), "macos", "pngpaste"),
        ({}, "darwin", (), "macos", "osascript"),
        ({"WSL_DISTRO_NAME": "Debian"}, "linux", ("powershell.exe",), "wsl", "powershell.exe"),
        ({"SSH_CONNECTION": "1"}, "linux", ("xclip", "wl-paste"), "none", ""),
        ({}, "linux", ("xclip",), "none", ""),
    ],
)
def test_the_session_at_hand_says_which_tool_is_asked(environment, platform, tools, session, tool):
    clipboard_tool = find_clipboard_tool(environment, platform, having(*tools))
    assert (clipboard_tool.desktop, clipboard_tool.tool) == (session, tool)
    assert bool(clipboard_tool.install_hint) != bool(tool)


async def test_a_missing_tool_is_named_with_what_installs_it():
    assert "apt (or dnf, pacman) install wl-clipboard" in find_clipboard_tool(WAYLAND, "linux", having()).install_hint
    assert "apt (or dnf, pacman) install xclip" in find_clipboard_tool(X11, "linux", having()).install_hint
    assert "ssh HOST agent-tui image" in find_clipboard_tool({"SSH_CONNECTION": "1"}, "linux", having()).install_hint
    content = await read_clipboard(find_clipboard_tool(X11, "linux", having()))
    assert (content.problem, content.data) == ("Can't read the clipboard: xclip is missing.", b"")
    assert "apt (or dnf, pacman) install xclip" in content.hint


@pytest.fixture(params=["xclip", "wl-paste"])
def tool(request, tmp_path, monkeypatch):
    def held(types: dict[str, bytes]) -> ClipboardTool:
        programs = clipboard_of(tmp_path, types, request.param)
        monkeypatch.setenv("PATH", str(programs))
        return ClipboardTool("x11" if request.param == "xclip" else "wayland", request.param)

    return held


async def test_a_picture_is_read_byte_for_byte(tool):
    assert await read_clipboard(tool({"image/png": PNG, "text/plain": b"alt text"})) == ClipboardContent(data=PNG)


async def test_the_first_type_that_is_a_picture_is_taken(tool):
    bitmap = picture(5, 5, "BMP")
    assert await read_clipboard(tool({"image/bmp": bitmap, "text/html": b"<img>"})) == ClipboardContent(data=bitmap)


async def test_files_that_were_copied_are_named(tool, tmp_path):
    (tmp_path / "a b.png").write_bytes(PNG)
    uris = f"file://{tmp_path}/a%20b.png\r\n".encode()
    assert await read_clipboard(tool({"text/uri-list": uris})) == ClipboardContent(paths=(str(tmp_path / "a b.png"),))


async def test_where_there_is_no_picture_the_text_is_given(tool):
    assert await read_clipboard(tool({"UTF8_STRING": "wörter".encode()})) == ClipboardContent(text="wörter")
    nothing = await read_clipboard(ClipboardTool("x11", "xclip", ""))
    assert nothing == ClipboardContent(text="wörter") or nothing.problem


async def test_an_empty_clipboard_says_so(tool):
    assert (await read_clipboard(tool({}))).problem == "There is no picture on the clipboard."


async def test_a_tool_that_hangs_is_left(tmp_path, monkeypatch):
    programs = clipboard_of(tmp_path, {}, "xclip")
    (programs / "xclip").write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(clipboard, "READ_TIMEOUT", 0.2)
    assert "did not answer" in (await read_clipboard(ClipboardTool("x11", "xclip"))).problem


async def test_a_tool_that_is_no_program_is_told_of(tmp_path, monkeypatch):
    programs = clipboard_of(tmp_path, {}, "xclip")
    (programs / "xclip").write_text("not a program")
    monkeypatch.setenv("PATH", str(programs))
    assert "did not start" in (await read_clipboard(ClipboardTool("x11", "xclip"))).problem


async def test_more_than_can_be_attached_is_not_read(tool, monkeypatch):
    monkeypatch.setattr(clipboard, "MAX_ATTACHMENT_BYTES", 1_000)
    assert len((await read_clipboard(tool({"image/png": bytes(1_000_000)}))).data) == 1_001


async def test_macos_and_windows_give_their_pictures_in_their_own_ways(tmp_path, monkeypatch):
    import base64

    for name, words in (
        ("osascript", f"«data PNGf{PNG.hex().upper()}»"),
        ("powershell.exe", base64.b64encode(PNG).decode() + "\r\n"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\ncat <<'E'\n{words}\nE\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert await read_clipboard(ClipboardTool("macos", "osascript")) == ClipboardContent(data=PNG)
    assert await read_clipboard(ClipboardTool("wsl", "powershell.exe")) == ClipboardContent(data=PNG)


def test_doctor_has_a_line_for_it(monkeypatch):
    for name in ("WAYLAND_DISPLAY", "DISPLAY", "WSL_DISTRO_NAME", "WSL_INTEROP", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    assert describe_clipboard() == "none. Paste a file's path, or type @picture.png."
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.setenv("PATH", "/nowhere")
    assert describe_clipboard() == "none for x11. Install it: apt (or dnf, pacman) install xclip."
