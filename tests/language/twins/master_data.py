"""Tables that people edit: each is declared by the column list of its collect."""

from __future__ import annotations

import waterclock as wc

wc.connection("forms", type="forms")
wc.connection("ops", type="sqlite")
wc.connection("landing", type="files")
wc.connection("out", type="files")
wc.collect("raw.products", columns="sku KEY, name", from_="ops.products", every="day")
wc.collect(
    "mdm.product_map",
    columns=(
        "supplier_sku KEY,"
        " sku NOT NULL EXPECT (sku RLIKE '^[A-Z]{2}-[0-9]{4}$') AS sku_form REFERENCES raw.products,"
        " kind STRING NOT NULL EXPECT (kind IN ('raw', 'finished', 'service')) AS kinds,"
        " pack_size INT, price DECIMAL(9, 2), since DATE, changed TIMESTAMP, is_open BOOLEAN, weight DOUBLE,"
        " remark COMMENT 'free text'"
    ),
    from_="forms.product_map",
    every="day",
    start="2024-01-01",
    comment="Supplier article numbers to our SKU",
)
wc.collect(
    "mdm.countries",
    columns="land KEY, region KEY, name NOT NULL",
    from_="forms.countries",
    options={"approval": True},
    every="hour",
    mode="replace",
)
