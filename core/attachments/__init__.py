"""Pictures and PDFs that go with messages: recognised by their bytes, checked, and made fit to be sent."""
