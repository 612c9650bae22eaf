"""Search over the transcripts of a workspace: what of a record was said and done, and where words of it stand."""
