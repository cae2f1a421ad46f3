"""Parses the project file waterclock.toml, and locates each of its keys for messages."""
