"""Reads tables and queries of MariaDB and MySQL databases, and delivers tables to them."""
