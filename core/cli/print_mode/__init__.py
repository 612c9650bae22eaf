"""`-p`: run one prompt without a screen, and print its answer."""
