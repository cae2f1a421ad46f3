"""Masks texts: the rules of `mask_text`, and the function for columns of DataFrames."""
