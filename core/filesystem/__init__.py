"""Files and directories: atomic writing, opening and removing without following links."""
