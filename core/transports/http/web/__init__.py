"""The page of `serve --web`: its files, and the real screen in a browser's tab."""
