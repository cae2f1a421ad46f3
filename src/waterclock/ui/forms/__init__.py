"""The pages of forms: rows to edit, conflicts, history and pasted rows. They work without JavaScript.

Cells that are edited in the list need it.
"""
