"""The files of the project: tree and preview."""
