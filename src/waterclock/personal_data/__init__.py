"""Recognizes personal data by names of columns and by values. Pure functions, which return no values."""
