"""Compiles statements to a flow: resolves names, cadences, columns and rules, checks them, and collects all errors.

`compile` is the entry point. `table_declarations` makes an `UnresolvedTable` of each statement, and `table_reads`
and `views` resolve its queries. `flow_checks`, `read_checks` and `cycles` check the tables, and `flow_building`
makes the flow. Most other modules resolve or check the clause that they are named after. `fingerprints` detects
changed code.
"""
