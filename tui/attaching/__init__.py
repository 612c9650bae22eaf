"""How pictures and PDFs come to the prompt: from the clipboard, as paths, and how they are looked at."""
