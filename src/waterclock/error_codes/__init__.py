"""The error codes with their explanations: one module for each subject, and `catalog` with all of them.

`waterclock.similar_names` suggests the nearest known name for a misspelled one.
"""
