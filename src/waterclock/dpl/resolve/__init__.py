"""Compiles statements to a flow: resolves names, cadences, columns and rules, checks them, and collects all errors.

`compile` is the entry. A statement becomes an `unresolved` table (`drafts`); `table_reads` and `views` resolve its
queries; `flow_building` makes the flow, which `flow_checks`, `read_checks` and `cycles` check. Most other modules
resolve or check the clause that they are named after. `fingerprints` decides whether code has changed.
"""
