"""Contents of files by their digest, the states of paths, and operations on paths."""
