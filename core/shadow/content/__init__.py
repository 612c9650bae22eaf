"""Contents of files by their digest, and the states they are in."""
