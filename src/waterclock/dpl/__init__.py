"""Compiles a project's statements, in DPL and Python, to a flow of resolved declarations."""
