"""The commands as functions for notebooks and programs: what each means is said by the command line's own modules."""
