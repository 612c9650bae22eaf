"""The user's view of the configuration: effective settings, their sources, their problems, and changes of the files."""
