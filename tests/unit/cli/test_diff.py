from __future__ import annotations

from core.cli.diff import expose_patch_line


def test_n21_a_patch_on_a_terminal_names_bytes_blanks_and_line_ends():
    lines = [b"+a", b"+a ", b"+a\t", b"+a\r", b"+\xff\xfe", "+ÿþ".encode(), "+\ufffd".encode(), "+‹byte FF›".encode()]
    visible_lines = [expose_patch_line(line) for line in lines]
    assert visible_lines[:5] == ["+a", "+a␣", "+a⇥  ", "+a␍", "+‹byte FF›‹byte FE›"]
    assert len(set(visible_lines)) == len(lines)
