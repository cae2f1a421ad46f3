"""Waterclock's commands as functions for notebooks and programs. There are no notebook magics (`%…`).

A function does the same as the command of its name.
"""
