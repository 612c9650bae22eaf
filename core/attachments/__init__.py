"""Pictures and PDFs of messages: recognised by their bytes, checked, and prepared for sending."""
