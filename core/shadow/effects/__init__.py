"""Effects of commands: taken out of their layers and sorted into changes, bulks and what is dropped."""
