"""Changes on the command line: pending ones as a patch, accepted ones as commits and pull requests."""
