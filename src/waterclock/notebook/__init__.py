"""Waterclock's commands as functions for notebooks and programs; there are no magics (`%…`).

They have the meaning of the commands of the same names.
"""
