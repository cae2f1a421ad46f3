"""The answers to questions about a project, as models: the JSON of commands, pages and notebooks, and its reference.

Instants are `2013-01-05T05:00:00Z`, labels `20130105050000`. `local` is a label's date or time in its table's zone.
"""
