"""One module per command: its arguments and its help. `cli.actions` carries it out; `cli.views` prints the result."""
