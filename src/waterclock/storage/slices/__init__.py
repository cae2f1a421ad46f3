"""Sealed slices: written once, each with a manifest; checked, digested and read.

`writer` writes and seals slices, `manifest` describes them, `read` reads them; `row_filter` and `rule_marks` separate
rows that break rules, `quarantined_rows` reads these; `damage`, `digest` and `reseal` check and repair.
"""
