"""The queries of bench/temporal in DuckDB and Polars, as their users write them. They compute all values."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

CORES = 2
os.environ.setdefault("POLARS_MAX_THREADS", str(CORES))

ATTRIBUTES = ("name", "city", "size", "rate", "born", "status")
WANTED = ("city", "tier", "rate", "owner")
OPEN = "TIMESTAMPTZ '9999-12-31 00:00:00+00'"
BEGIN = "TIMESTAMPTZ '0001-01-01 00:00:00+00'"


def _listed(form: str, names: tuple[str, ...] = ATTRIBUTES, between: str = ", ") -> str:
    return between.join(form.format(a=name) for name in names)


VERSIONS = f"""
WITH filled AS (
  SELECT k, t, {_listed("last_value({a} IGNORE NULLS) OVER w AS {a}")}, lead(t) OVER o AS next_t
  FROM '{{folder}}/raw_{{kind}}.parquet'
  WINDOW o AS (PARTITION BY k ORDER BY t, {_listed("{a} NULLS FIRST")}),
         w AS (PARTITION BY k ORDER BY t, {_listed("{a} NULLS FIRST")} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
), lasts AS (SELECT * FROM filled WHERE next_t IS NULL OR next_t <> t
), known AS (
  SELECT k, t, {_listed("coalesce({a}, first_value({a} IGNORE NULLS) OVER w) AS {a}")},
    lag(t) OVER o IS NULL OR {_listed("coalesce({a} <> lag({a}) OVER o, false)", between=" OR ")} AS is_kept
  FROM lasts
  WINDOW o AS (PARTITION BY k ORDER BY t),
         w AS (PARTITION BY k ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
)
SELECT k, t AS rec_eff_time, {_listed("{a}")},
  coalesce(lead(t) OVER (PARTITION BY k ORDER BY t), {OPEN}) AS rec_exp_time
FROM known WHERE is_kept
"""
AS_OF = f"""
SELECT f.*, {_listed("CASE WHEN f.{{time}} < p.rec_exp_time THEN p.{a} END AS {a}_then", WANTED)}
FROM '{{folder}}/{{child}}.parquet' f ASOF LEFT JOIN '{{folder}}/parent_{{kind}}.parquet' p
  ON f.p = p.p AND f.{{time}} >= p.rec_eff_time
"""
EXACT = f"""
WITH starts AS (
  SELECT p, rec_eff_time AS eff, rec_exp_time AS exp, {_listed("{a}", WANTED)},
    lag(rec_eff_time) OVER o IS NULL AS is_first, coalesce(lead(rec_eff_time) OVER o, {OPEN}) AS next_eff
  FROM '{{folder}}/parent_even.parquet' WINDOW o AS (PARTITION BY p ORDER BY rec_eff_time)
), whole AS (
  SELECT p, eff, exp, {_listed("{a}", WANTED)} FROM starts
  UNION ALL SELECT p, {BEGIN}, eff, {_listed("NULL", WANTED)} FROM starts WHERE is_first
  UNION ALL SELECT p, exp, next_eff, {_listed("NULL", WANTED)} FROM starts WHERE exp < next_eff
)
SELECT c.* EXCLUDE (rec_eff_time, rec_exp_time), greatest(c.rec_eff_time, w.eff) AS rec_eff_time,
  least(c.rec_exp_time, w.exp) AS rec_exp_time, {_listed("w.{a} AS {a}_then", WANTED)}
FROM '{{folder}}/child.parquet' c LEFT JOIN whole w
  ON c.p = w.p AND c.rec_eff_time < w.exp AND w.eff < c.rec_exp_time
"""
TEXTS = r"""
SELECT upper(nullif(trim(regexp_replace(a, '[\s\p{{Z}}]+', ' ', 'g')), '')) AS a FROM '{folder}/texts.parquet'
"""


def by_duckdb(query: str, folder: Path, aggregate: str = "max", **said: str) -> dict[str, int]:
    """Run a DuckDB query and return the maximum of each column, so that every value is computed, or its non-null count.

    A count alone measures too little: DuckDB skips columns without nulls according to statistics.
    """
    with duckdb.connect(config={"threads": CORES}) as connection:
        asked = query.format(folder=folder, **said)
        names = [row[0] for row in connection.execute(f"DESCRIBE {asked}").fetchall()]
        aggregates = ", ".join(f'{aggregate}("{name}")' for name in names)
        found = connection.execute(f"SELECT {aggregates}, count(*) FROM ({asked})").fetchone()
        return dict(zip([*names, "rows"], found or (), strict=True))


def polars_versions(folder: Path, kind: str) -> int:
    import polars as pl

    raw = pl.scan_parquet(folder / f"raw_{kind}.parquet").drop("gone")
    filled = raw.sort("k", "t", *ATTRIBUTES, nulls_last=False).with_columns(pl.col(ATTRIBUTES).forward_fill().over("k"))
    lasts = filled.unique(["k", "t"], keep="last", maintain_order=True)
    known = lasts.with_columns(pl.col(ATTRIBUTES).backward_fill().over("k"))
    changed = [pl.col(name).ne_missing(pl.col(name).shift().over("k")) for name in ATTRIBUTES]
    kept = known.filter(pl.any_horizontal(pl.col("k") != pl.col("k").shift(fill_value=-1), *changed))
    return kept.with_columns(pl.col("t").shift(-1).over("k").alias("exp")).collect().height


def polars_as_of(folder: Path, child: str, time: str, kind: str) -> int:
    import polars as pl

    parent = pl.scan_parquet(folder / f"parent_{kind}.parquet").select("p", "rec_eff_time", "rec_exp_time", *WANTED)
    parent = parent.rename({name: f"{name}_then" for name in ("rec_exp_time", *WANTED)}).sort("rec_eff_time")
    facts = pl.scan_parquet(folder / f"{child}.parquet").sort(time)
    right = "rec_eff_time" if time != "rec_eff_time" else "since"
    parent = parent.rename({"rec_eff_time": right}) if right != "rec_eff_time" else parent
    joined = facts.join_asof(parent, left_on=time, right_on=right, by="p", strategy="backward", check_sortedness=False)
    held = pl.col(time) < pl.col("rec_exp_time_then")
    return (
        joined.with_columns(pl.when(held).then(pl.col(f"{name}_then")).alias(f"{name}_then") for name in WANTED)
        .collect()
        .height
    )


def polars_texts(folder: Path) -> int:
    import polars as pl

    single = pl.col("a").str.replace_all(r"[\s\p{Z}]+", " ").str.strip_chars(" ").str.to_uppercase()
    return pl.scan_parquet(folder / "texts.parquet").select(pl.when(single != "").then(single)).collect().height
