"""Reads the state of a project and acts on it, for all interfaces: command line, web pages and notebooks.

Each module answers one question or carries out one action, such as `lag`, `lineage`, `freshness`, `withdrawing`.
`project_opening` opens a project for the others. `formatting`, `json` and `*_words` format results as text and JSON.
"""
