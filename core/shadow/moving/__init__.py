"""Which files were renamed: found in what is pending, by content, as git finds it."""
