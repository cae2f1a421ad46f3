"""Masks texts: the rules of `mask_text`, and the function for columns of DataFrames.

`mask_text` has the rules of the function of that name, `columns` the functions on DataFrames, `keyed_sql` the SQL of
functions with a key (`hash_keyed`, `encrypt`, `perturb`), `generalizing` the SQL of `generalize`, which makes values
coarser, `row_keys` the SQL of `key_of`, and `row_refusals` the errors of a row.
"""
