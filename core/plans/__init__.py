"""Plans: Markdown files with a front matter of todos that depend on each other."""
