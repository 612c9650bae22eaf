"""What runs inside a check: this directory is on the path of the project's own Python, whatever its version from 3.8."""
