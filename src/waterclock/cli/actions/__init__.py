"""Carries out commands with planner, ledger and engine. The views print the results."""
