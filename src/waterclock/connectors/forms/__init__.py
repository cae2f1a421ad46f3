"""The connection type `forms`: tables of master data that people edit, with the history of each row."""
