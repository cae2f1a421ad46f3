"""Column lineage of DataFrame code: shapes of code, each with what its columns are made of, written down by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from waterclock.engine.batch.code_lineage import _plain
from waterclock.engine.batch.plan_lineage import lineage_of
from waterclock.engine.batch.plan_tree import plan_of
from waterclock.engine.spark.analysed_plan import analysed_plan
from waterclock.flow.declarations import Read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from waterclock.flow.code_lineage import CodeLineage

pytestmark = pytest.mark.spark
_COLUMNS = {
    "o": "id INT, customer INT, amount DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRING>, more STRUCT<a: INT, b: STRING>, "
    "m MAP<STRING, INT>, j STRING, timelabel STRING",
    "c": "id INT, name STRING, country STRING, timelabel STRING",
}
SHAPES: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {}
# what is told maybe, though it is not true: rows that Python brings are not told from those of an RDD, and of an unpivot
# Spark writes no expressions
INEXACT = {"local_rows", "unpivot"}


def shape(said: str) -> Callable[[Callable[[Any, Any, Any], Any]], None]:
    """Note a shape: `name=inputs` for each column, orders' columns by their names, customers' as c.NAME, ? before a maybe."""

    def note(code: Callable[[Any, Any, Any], Any]) -> None:
        SHAPES[code.__name__] = (code, said)

    return note


@shape("id=id total=amount")
def select(o, c, F): return o.select("id", F.col("amount").alias("total"))


@shape("x=amount id")
def arithmetic(o, c, F): return o.select((o.amount * 2 + o.id).alias("x"))


@shape("id=id customer=customer amount=amount at=at x=amount customer")
def with_column(o, c, F): return o.select("id", "customer", "amount", "at").withColumn("x", o.amount / o.customer)


@shape("id=id amount=amount")
def with_column_over(o, c, F): return o.select("id", "amount").withColumn("amount", F.round("amount"))


@shape("id=id sum=amount")
def renamed(o, c, F): return o.select("id", "amount").withColumnRenamed("amount", "sum")


@shape("id=id at=at")
def dropped(o, c, F): return o.select("id", "amount", "at").drop("amount")


@shape("a=id b=amount")
def to_df(o, c, F): return o.select("id", "amount").toDF("a", "b")


@shape("one= id=id")
def literal(o, c, F): return o.select(F.lit(1).alias("one"), "id")


@shape("now=")
def clock(o, c, F): return o.select(F.current_timestamp().alias("now"))


@shape("big=amount customer at")
def case_when(o, c, F): return o.select(F.when(o.amount > 5, o.customer).otherwise(F.year("at")).alias("big"))


@shape("id=id | filter: amount")
def where(o, c, F): return o.where("amount > 3").select("id")


@shape("id=id | filter: amount")
def where_after(o, c, F): return o.select("id", "amount").where("amount > 3").drop("amount")


@shape("id=id name=c.name | join: customer c.id")
def join(o, c, F): return o.join(c, o.customer == c.id).select(o.id, "name")


@shape("id=id amount=amount name=c.name | join: id c.id")
def join_using(o, c, F): return o.select("id", "amount").join(c.select("id", "name"), "id")


@shape("id=c.id name=c.name | join: id c.id")
def join_right_using(o, c, F): return o.select("id").join(c.select("id", "name"), "id", "right")


@shape("id=id c.id name=c.name | join: id c.id")
def join_full_using(o, c, F): return o.select("id").join(c.select("id", "name"), "id", "full")


@shape("id=id | join: customer c.id")
def join_semi(o, c, F): return o.join(c, o.customer == c.id, "left_semi").select("id")


@shape("id=id amount=amount | join: customer c.id")
def join_anti(o, c, F): return o.join(c, o.customer == c.id, "left_anti").select("id", "amount")


@shape("id=id name=c.name")
def join_cross(o, c, F): return o.crossJoin(c.select("name")).select("id", "name")


@shape("a=id b=amount | join: id customer")
def join_self(o, c, F):
    return o.alias("x").join(o.alias("y"), F.col("x.id") == F.col("y.customer")).select(
        F.col("x.id").alias("a"), F.col("y.amount").alias("b"))


@shape("id=id most=amount | join: customer | group: customer")
def join_own_aggregate(o, c, F):
    most = o.groupBy("customer").agg(F.max("amount").alias("most"))
    return o.join(most, "customer").select("id", "most")


@shape("id=id name=c.name | join: customer c.id")
def join_broadcast(o, c, F): return o.join(F.broadcast(c), o.customer == c.id, "left").select(o.id, c.name)


@shape("customer=customer total=amount n= | group: customer")
def group(o, c, F): return o.groupBy("customer").agg(F.sum("amount").alias("total"), F.count("*").alias("n"))


@shape("customer=customer count= | group: customer")
def group_count(o, c, F): return o.groupBy("customer").count()


@shape("total=amount")
def group_all(o, c, F): return o.agg(F.sum("amount").alias("total"))


@shape("year=at n=customer | group: at")
def group_by_expression(o, c, F): return o.groupBy(F.year("at").alias("year")).agg(F.countDistinct("customer").alias("n"))


@shape("customer=customer total=amount | group: customer | filter: amount")
def having(o, c, F): return o.groupBy("customer").agg(F.sum("amount").alias("total")).where("total > 3")


@shape("customer=customer first=id at | group: customer")
def group_min_by(o, c, F): return o.groupBy("customer").agg(F.min_by("id", "at").alias("first"))


@shape("customer=customer all=id amount | group: customer")
def group_collect(o, c, F): return o.groupBy("customer").agg(F.collect_list(F.struct("id", "amount")).alias("all"))


@shape("customer=customer 2024=amount at 2025=amount at | group: customer at")
def pivot(o, c, F):
    return o.withColumn("y", F.year("at")).groupBy("customer").pivot("y", [2024, 2025]).agg(F.sum("amount"))


@shape("customer=customer total=amount | group: customer")
def rollup(o, c, F): return o.rollup("customer").agg(F.sum("amount").alias("total"))


@shape("customer=customer id=id n= | group: customer id")
def cube(o, c, F): return o.cube("customer", "id").agg(F.count("*").alias("n"))


@shape("id=id what=?id ?customer ?amount value=?id ?customer ?amount | may read: id customer amount")
def unpivot(o, c, F):
    return o.select("id", o.customer.cast("double").alias("customer"), o.amount.cast("double").alias("amount")).unpivot(
        "id", ["customer", "amount"], "what", "value")


@shape("id=id r=customer at | window: customer at")
def window_rank(o, c, F):
    from pyspark.sql import Window

    return o.select("id", F.row_number().over(Window.partitionBy("customer").orderBy("at")).alias("r"))


@shape("id=id s=amount customer | window: customer")
def window_sum(o, c, F):
    from pyspark.sql import Window

    return o.withColumn("s", F.sum("amount").over(Window.partitionBy("customer"))).select("id", "s")


@shape("id=id amount=amount | window: customer at | filter: customer at")
def window_newest(o, c, F):
    from pyspark.sql import Window

    newest = F.row_number().over(Window.partitionBy("customer").orderBy(F.desc("at")))
    return o.withColumn("r", newest).where("r = 1").select("id", "amount")


@shape("id=id before=amount customer at | window: customer at")
def window_lag(o, c, F):
    from pyspark.sql import Window

    return o.select("id", F.lag("amount").over(Window.partitionBy("customer").orderBy("at")).alias("before"))


@shape("window=at n= | group: at | filter: at")
def window_of_time(o, c, F):
    return o.groupBy(F.window("at", "1 hour")).agg(F.count("*").alias("n"))


@shape("customer=customer session=at n= | group: customer at | filter: at")
def window_of_session(o, c, F):
    return o.groupBy("customer", F.session_window("at", "10 minutes").alias("session")).agg(F.count("*").alias("n"))


@shape("id=id name=customer c.name")
def union(o, c, F): return o.select("id", o.customer.cast("string").alias("name")).union(
    o.select("id", "j").join(c.select("name")).select("id", "name"))


@shape("id=id c.id who=customer c.name")
def union_by_place(o, c, F): return o.select("id", o.customer.cast("string").alias("who")).union(c.select("id", "name"))


@shape("id=id c.id j=j c.country")
def union_by_name(o, c, F): return o.select("id", "j").unionByName(c.select(c.country.alias("j"), "id"))


@shape("id=id c.id amount=amount name=c.name")
def union_missing(o, c, F): return o.select("id", "amount").unionByName(c.select("id", "name"), allowMissingColumns=True)


@shape("id=id customer | group: id customer")
def union_distinct(o, c, F): return o.select("id").union(o.select("customer")).distinct()


@shape("id=id | filter: id c.id")
def intersect(o, c, F): return o.select("id").intersect(c.select("id"))


@shape("id=id | filter: id c.id")
def subtract(o, c, F): return o.select("id").subtract(c.select("id"))


@shape("id=id amount=amount | group: id")
def drop_duplicates(o, c, F): return o.dropDuplicates(["id"]).select("id", "amount")


@shape("id=id | sort: amount")
def sort_limit(o, c, F): return o.orderBy(F.desc("amount")).limit(10).select("id")


@shape("id=id amount=amount")
def sample(o, c, F): return o.sample(0.5, seed=3).select("id", "amount").repartition(3, "amount").coalesce(1)


@shape("id=id tag=tags")
def explode(o, c, F): return o.select("id", F.explode("tags").alias("tag"))


@shape("id=id pos=tags col=tags")
def posexplode(o, c, F): return o.select("id", F.posexplode_outer("tags"))


@shape("id=id key=m value=m")
def explode_map(o, c, F): return o.select("id", F.explode("m"))


@shape("id=id n=tags | group: id")
def explode_and_group(o, c, F): return o.withColumn("t", F.explode("tags")).groupBy("id").agg(F.countDistinct("t").alias("n"))


@shape("a=more b=more")
def struct_star(o, c, F): return o.select("more.*")


@shape("a=more")
def struct_field(o, c, F): return o.select(F.col("more").getField("a").alias("a"))


@shape("more=more id")
def struct_with_field(o, c, F): return o.select(F.col("more").withField("c", o.id).alias("more"))


@shape("p=j q=j")
def json(o, c, F): return o.select(F.from_json("j", "p INT, q STRING").alias("d")).select("d.p", "d.q")


@shape("x=tags id")
def higher_order(o, c, F): return o.select(F.transform("tags", lambda t: F.concat(t, o.id.cast("string"))).alias("x"))


@shape("x=tags")
def aggregate_array(o, c, F): return o.select(F.aggregate("tags", F.lit(0), lambda s, t: s + F.length(t)).alias("x"))


@shape("id=id x=amount customer")
def udf(o, c, F):
    add = F.udf(lambda a, b: float(a) + b, "double")
    return o.select("id", add("amount", "customer").alias("x"))


@shape("id=id x=amount")
def pandas_udf(o, c, F):
    import pandas as pd

    def doubled(v): return v * 2

    doubled.__annotations__ = {"v": pd.Series, "return": pd.Series}
    doubled = F.pandas_udf(doubled, "double")
    return o.select("id", doubled(o.amount.cast("double")).alias("x"))


@shape("id=?id ?amount z=?id ?amount | may read: id amount")
def map_in_pandas(o, c, F): return o.select("id", "amount").mapInPandas(lambda rows: rows, "id INT, z DOUBLE")


@shape("id=?id ?amount | may read: id amount")
def map_in_arrow(o, c, F): return o.select("id", "amount").mapInArrow(lambda rows: rows, "id INT")


@shape("customer=?customer ?amount x=?customer ?amount | may read: customer amount")
def apply_in_pandas(o, c, F):
    return o.select("customer", "amount").groupBy("customer").applyInPandas(lambda rows: rows, "customer INT, x DOUBLE")


@shape("id=?id ?amount ?c.id ?c.name n=?id ?amount ?c.id ?c.name | may read: id amount c.id c.name")
def cogroup(o, c, F):
    left, right = o.select("id", "amount").groupBy("id"), c.select("id", "name").groupBy("id")
    return left.cogroup(right).applyInPandas(lambda a, b: a, "id INT, n STRING")


@shape("name=c.name x=?id ?amount | may read: id amount | join: c.id")
def map_and_join(o, c, F):
    made = o.select("id", "amount").mapInPandas(lambda rows: rows, "key INT, x DOUBLE")
    return made.join(c, made.key == c.id).select("name", "x")


@shape("id=id k=?o.* ?c.* | join: id | may read: o.* c.*")
def local_rows(o, c, F): return o.select("id").join(o.sparkSession.createDataFrame([(1, "k")], "id INT, k STRING"), "id")


@shape("id=?o.* ?c.* | may read: o.* c.*")
def rdd(o, c, F): return o.select("id").rdd.map(lambda row: row).toDF("id INT")


@shape("id=")
def numbers(o, c, F): return o.sparkSession.range(10).withColumn("id", F.col("id") + 1)


@shape("id=id x=amount | sort: amount")
def sql(o, c, F): return o.sparkSession.sql("SELECT id, amount + 1 AS x FROM {o} ORDER BY amount", o=o)


@shape("id=id name=c.name | join: customer c.id | filter: c.country")
def sql_with(o, c, F):
    return o.sparkSession.sql(
        "WITH u AS (SELECT * FROM {c} WHERE country = 'DE'), v AS (SELECT u.* FROM u) "
        "SELECT o.id, v.name FROM {o} o JOIN v ON o.customer = v.id", o=o, c=c)


@shape("id=id most=c.id | filter: c.country customer")
def sql_scalar(o, c, F):
    return o.sparkSession.sql(
        "SELECT id, (SELECT max(id) FROM {c} x WHERE x.country = o.customer) AS most FROM {o} o", o=o, c=c)


@shape("id=id | filter: c.id customer")
def sql_exists(o, c, F):
    return o.sparkSession.sql(
        "SELECT id FROM {o} o WHERE EXISTS (SELECT 1 FROM {c} x WHERE x.id = o.customer)", o=o, c=c)


@shape("id=id | filter: customer c.id")
def sql_in(o, c, F):
    return o.sparkSession.sql("SELECT id FROM {o} WHERE customer IN (SELECT id FROM {c})", o=o, c=c)


@shape("id=id x=c.name amount | filter: c.id customer")
def sql_lateral(o, c, F):
    return o.sparkSession.sql(
        "SELECT o.id, l.x FROM {o} o, LATERAL (SELECT concat(name, o.amount) AS x FROM {c} k WHERE k.id = o.customer) l",
        o=o, c=c)


@shape("id=id x=id")
def sql_values(o, c, F):
    return o.sparkSession.sql("SELECT o.id, o.id + v.n AS x FROM {o} o CROSS JOIN (VALUES (1), (2)) AS v(n)", o=o)


@shape("id=id tag=tags")
def sql_lateral_view(o, c, F):
    return o.sparkSession.sql("SELECT id, tag FROM {o} LATERAL VIEW explode(tags) e AS tag", o=o)


@shape("x=amount y=at")
def sql_stack(o, c, F):
    return o.sparkSession.sql("SELECT x, y FROM (SELECT amount AS x, at AS y FROM {o})", o=o)


@shape("id=id amount=amount")
def by_view(o, c, F):
    o.createOrReplaceTempView("lineage_orders")
    return o.sparkSession.table("lineage_orders").select("id", "amount")


@shape("id=id x=amount")
def cached(o, c, F): return o.select("id", "amount").cache().select("id", F.col("amount").alias("x"))


@shape("id=id amount=amount")
def filled(o, c, F): return o.select("id", "amount").na.fill(0).replace(3, 4)


@shape("id=id amount=amount at=at | filter: id at")
def without_nulls(o, c, F): return o.select("id", "amount", "at").na.drop(subset=["id", "at"])


@shape("id=id many=amount")
def chained(o, c, F):
    made = o.select("id", F.col("amount").alias("many"))
    for _ in range(60):
        made = made.withColumn("many", F.col("many") + 1)
    return made


@shape("a\u00a0#1=id c.d=amount")
def odd_names(o, c, F): return o.select(F.col("id").alias("a\u00a0#1"), F.col("amount").alias("c.d"))


@shape("id=id amount=amount | filter: amount id")
def watched(o, c, F):
    from pyspark.sql import Observation

    return o.select("id", "amount").observe(Observation("n"), F.count("*").alias("n")).where("amount > id")


@shape("id=id at=at")
def marked_late(o, c, F): return o.withWatermark("at", "1 hour").select("id", "at")


@shape("id=id label=timelabel")
def labelled(o, c, F): return o.select("id", F.col("timelabel").alias("label"))


@pytest.fixture(scope="module")
def reads(spark: SparkSession) -> dict[str, DataFrame]:
    """Both tables, without rows, named as the engine names what a transform reads."""
    return {name: spark.createDataFrame([], said).alias(f"_read_{name}") for name, said in _COLUMNS.items()}


def made(reads: Mapping[str, DataFrame], name: str) -> CodeLineage:
    from pyspark.sql import functions

    rows = SHAPES[name][0](reads["o"], reads["c"], functions)
    text = analysed_plan(rows)
    assert text is not None
    sources = {f"_read_{table}": _plain(Read(table)) for table in reads}
    return lineage_of(plan_of(text), rows.columns, sources, reads)


def told(found: CodeLineage) -> dict[str, set[str]]:
    shown = {name: {_word(each) for each in one.inputs} | {f"?{_word(each)}" for each in one.maybe}
             for name, one in found.columns.items()}
    return shown | {f"{use}:": {_word(each) for each in of} for use, of in found.uses.items()}


def _word(of: tuple[str, str]) -> str:
    return of[1] if of[0] == "o" and of[1] != "*" else ".".join(of)


def wanted(said: str) -> dict[str, set[str]]:
    columns, *uses = said.split(" | ")
    found: dict[str, set[str]] = {}
    name = ""
    for word in columns.split(" "):
        if "=" in word:
            name, _, word = word.partition("=")
            found[name] = set()
        found[name] |= {word} - {""}
    for use in uses:
        how, _, of = use.partition(": ")
        found[f"{how}:"] = set(of.split())
    return found


@pytest.mark.parametrize("name", list(SHAPES))
def test_each_column_is_made_of_what_is_written_down_by_hand(reads: Mapping[str, DataFrame], name: str) -> None:
    assert told(made(reads, name)) == wanted(SHAPES[name][1])


def test_the_corpus_is_as_large_and_as_exact_as_is_said() -> None:
    assert len(SHAPES) >= 60
    assert len(INEXACT) <= len(SHAPES) / 20
