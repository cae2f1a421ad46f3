"""Writes, describes, checks and reads sealed slices, which are written once, each with a manifest.

Start here for:

- writing and sealing a slice: `writer`; without writing rows: `hard_links`; its description: `manifest`
- reading its rows: `read`; its quarantined rows: `quarantine_reading`
- rules that remove rows: `row_filter`, applied by `rule_marks`; rules on inputs: `input_filter`
- checks and repairs: `damage`, `digest`, `reseal`
- the slices of a table's folder: `inventory`
"""
