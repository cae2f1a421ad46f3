"""The data types of a resolved flow: tables, columns, rules, queries and connections, and their graph."""
