"""Writes, describes, checks and reads sealed slices, which are written once, each with a manifest.

`writer` writes and seals slices, `manifest` describes them, and `read` reads them. `row_filter` and `rule_marks`
separate rows that break rules, and `quarantined_rows` reads these. `damage`, `digest` and `reseal` check and repair
slices.
"""
