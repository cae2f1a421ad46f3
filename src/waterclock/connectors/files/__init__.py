"""The connection type `files`: files that arrive in folders or buckets, and files that are delivered to them.

The engine calls `connector`. A collect runs through these steps, in this order:

1. List the files: `places` (folder and archive), `landing` (complete, new or archived), by `landed_names` and
   `stamped_files`, in a bucket `bucket_listing`; `completeness` (is a file complete), `markers` (AWAIT), `change_scans`
   (CHANGED)
2. Parse the options: `reading_options`
3. Read the files: `scanning` reads all into one frame. First `zips` unpacks zips, and `file_schemas` reads the columns
   from file headers. `raw_rows` reads one shape: by Spark's readers, with `json_records`, `xml_documents` and
   `fixed_width`, or `python_readers`, with `avro_reading` and `excel_reading`. `workbook_process` reads each workbook
   in a process, which runs `sheet_rows` with the checks of `used_ranges` and `formulas`. `origins` adds the file of a
   row, `lines` its line number
4. Explain errors: `type_errors` marks the file in Spark's error, `error_positions` finds file, line and reason
5. Archive the files after the commit: `archiving`

`delivery` delivers sealed slices, `writing` writes a file from one: `avro_writing`, `excel_writing`.
"""
