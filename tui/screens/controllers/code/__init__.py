"""Controllers of reading code: the search of the project, and what is known about a name in the preview."""
