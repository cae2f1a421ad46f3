"""Data types of a flow's declarations: tables, functions, modes, policies, and their graph. Pure functions."""
