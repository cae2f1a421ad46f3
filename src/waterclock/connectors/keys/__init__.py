"""The connection type `keys`: secrets of functions with a key.

The registry loads `connector`, which defines the options. `derivation` derives the keys of each purpose from a secret.
"""
