"""Edit formats: how a model says what a file is to become. Registered in `core.edit_formats`."""
