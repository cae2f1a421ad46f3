"""Parses waterclock.toml: its model, its environments, and the place of each setting."""
