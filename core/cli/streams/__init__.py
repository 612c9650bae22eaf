"""The standard streams of the commands: what is written reaches its reader whole, what is read is waited for."""
