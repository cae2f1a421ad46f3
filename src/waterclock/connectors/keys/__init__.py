"""The connection type `keys`: the secrets from which keyed hashing and encryption derive their keys.

The registry loads `connector`, which defines the options. `derivation` derives the keys of each purpose from a secret.
"""
