"""Settings: the user's file decides, a project's file may only narrow it."""
