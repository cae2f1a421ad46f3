"""Checks who can change files, decides which projects may run, and confines what processes may access."""
