"""Running commands: the process, its environment, its output and its end."""
