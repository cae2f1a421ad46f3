"""Queries and actions on a project, shared by all interfaces: terminal, browser and notebook.

Each module has one question or action and is named after it, such as `lag`, `lineage`, `freshness`, `withdrawing`.
`opening` opens a project for all of them. The words and JSON of results are in `formatting`, `json` and `*_words`.
"""
