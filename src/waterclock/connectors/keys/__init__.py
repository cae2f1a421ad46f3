"""The connection type `keys`: the secrets from which functions such as `hash_keyed` and `encrypt` derive their keys.

The registry loads `connector`, which defines the options. `derivation` derives the keys of each purpose from a secret.
"""
