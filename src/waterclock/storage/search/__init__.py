"""Searches stored files for values, such as those of erased persons: `byte_search` reads files, `matching` matches."""
