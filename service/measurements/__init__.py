"""What benchmark programs print, read as it stands: one file per format, nothing matched or judged yet."""
