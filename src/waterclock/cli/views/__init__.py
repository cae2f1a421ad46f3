"""The output of commands: text for a terminal, and JSON for scripts."""
