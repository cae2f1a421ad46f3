"""Connects to PostgreSQL for the ledger and the connectors, and limits how long databases and servers may take."""
