"""Reads and writes files at rest: on this machine, and as objects of an object store."""
