"""The services that all sessions of an engine share: models, box, trust, files, index, background agents."""
