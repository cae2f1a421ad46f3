"""The actions of commands, which call planner, ledger and engine. The views print the results."""
