"""Language servers: a small client, and the servers of a session in their boxes."""
