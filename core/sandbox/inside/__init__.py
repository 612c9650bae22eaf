"""Code that runs inside of a box, or starts it, under `python -I -S -B`: with the standard library alone."""
