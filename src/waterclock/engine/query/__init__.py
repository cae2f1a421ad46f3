"""Answers users' queries as of a tick, and returns the columns of stored tables."""
