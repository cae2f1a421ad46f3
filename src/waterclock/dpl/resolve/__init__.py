"""Compiles statements to a flow: resolves names, cadences, columns and rules, checks them, and collects all errors."""
