"""Pydantic models of the JSON that commands, pages and notebooks return. The reference is generated from them.

Instants are `2013-01-05T05:00:00Z`, labels `20130105050000`. `local` is a label's date or time in its table's zone.
"""
