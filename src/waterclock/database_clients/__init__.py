"""Connects to PostgreSQL for the ledger and the connectors, and limits how long a database or its server may take."""
