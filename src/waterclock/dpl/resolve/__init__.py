"""Compiles statements to a flow: names, cadences, columns, rules and legality, with all errors collected."""
