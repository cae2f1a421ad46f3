"""Files that land in folders or buckets, and files that are delivered to them.

`connector` is asked by the engine. What it goes through, in this order:

1. which files there are: `places` (folder and archive), `landing` (complete, new or archived), by `landed_names` and
   `by_stamp`, in a bucket `bucket_listing`; `completeness` (is one whole), `markers` (AWAIT), `looks` (CHANGED)
2. how they are to be read: `reading_options`
3. what they hold: `scanning` puts all into one frame. `zips` are unpacked before, `file_schemas` has the columns from
   the heads, `raw_rows` reads one shape: by Spark's readers, with `json_records`, `xml_documents` and `fixed_width`, or
   `by_python`, with `avro_reading` and `excel_reading`; `origins` has the file of a row, `lines` its number there
4. what went wrong there: `misfits` marks it in Spark's error, `broken` finds file, line and reason
5. `archiving`, after the commit

`delivery` brings sealed slices, `writing` makes a file of one: `avro_writing`, `excel_writing`.
"""

from __future__ import annotations
