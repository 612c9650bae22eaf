"""Files and directories: the atomic writer, opening and removing without following links."""
