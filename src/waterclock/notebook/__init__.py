"""Waterclock's commands as functions for notebooks and programs; there are no magics (`%…`).

The command line's modules document their meaning.
"""
