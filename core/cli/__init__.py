"""The command line: one module per subcommand, with its own arguments; printers of what they show."""
