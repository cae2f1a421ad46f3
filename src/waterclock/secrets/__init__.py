"""Reads secrets from variables, files, the keyring and Vault, and finds credentials that are written in texts."""
