"""The file system of a box: what is mounted where, and what is masked."""
