"""A session as a document to give away: what was asked, said and done, each verdict with its hunks and evidence."""
