"""Edit formats: the forms in which a model describes changes of a file. Registered in `core.edit_formats`."""
