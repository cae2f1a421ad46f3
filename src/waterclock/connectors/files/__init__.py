"""The connection type `files`: collects files that arrive in folders or buckets, and delivers files to them.

The engine calls `connector`. A collect runs through these steps, in this order:

1. List the files. `connection_folders` resolves the folder and the archive, and `landing` lists complete files, new
   and archived. It uses `file_name_matching` and `files_by_stamp` (in a bucket `bucket_listing`), and
   `completeness` to skip files that are still being written. `markers` checks AWAIT, `change_scans` checks CHANGED
2. Parse the options: `reading_options`
3. Read the files: `scanning` reads all into one frame. First `zips` unpacks zips, and `file_schemas` reads the
   columns from file headers. `raw_rows` reads files of one format with the same columns: by Spark's readers, with
   `json_records`, `xml_documents` and `fixed_width`, or by `python_readers`, with `avro_reading` and
   `excel_reading`. `workbook_process` reads each workbook in a process, which runs `sheet_rows` with the checks of
   `sheet_size_limits` and `xlsx_checks`. `source_file_columns` adds the file of each row, `line_numbers` its line
   number
4. Explain errors: `type_errors` adds the file to Spark's error, `error_positions` finds file, line and reason
5. Archive the files after the commit: `archiving`

`erasure` rewrites archived files without the rows of erased persons: `text_erasure` (CSV, JSON, fixed width) with
`exact_text`, and `parquet_erasure`. `erased_sizes` records the sizes before.

`delivery` delivers sealed slices, and `file_writing` writes one file of a slice, with `avro_writing` and
`excel_writing`.
"""
