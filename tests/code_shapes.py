"""Shapes of DataFrame code, each with the inputs of its columns, written by hand.

`o` are orders, `c` customers, `F` and `Window` PySpark's. `name=inputs` for each column: columns of orders by their
names, those of customers as c.NAME, ? before a possible input; after | the columns that select, partition or sort rows.
"""

from __future__ import annotations

SHAPES: dict[str, tuple[str, str]] = {
    "select": ("o.select('id', F.col('amount').alias('total'))", "id=id total=amount"),
    "arithmetic": ("o.select((o.amount * 2 + o.id).alias('x'))", "x=amount id"),
    "with_column": (
        "o.select('id', 'customer', 'amount', 'at').withColumn('x', o.amount / o.customer)",
        "id=id customer=customer amount=amount at=at x=amount customer",
    ),
    "with_column_over": ("o.select('id', 'amount').withColumn('amount', F.round('amount'))", "id=id amount=amount"),
    "renamed": ("o.select('id', 'amount').withColumnRenamed('amount', 'sum')", "id=id sum=amount"),
    "dropped": ("o.select('id', 'amount', 'at').drop('amount')", "id=id at=at"),
    "to_df": ("o.select('id', 'amount').toDF('a', 'b')", "a=id b=amount"),
    "literal": ("o.select(F.lit(1).alias('one'), 'id')", "one= id=id"),
    "clock": ("o.select(F.current_timestamp().alias('now'))", "now="),
    "case_when": (
        "o.select(F.when(o.amount > 5, o.customer).otherwise(F.year('at')).alias('big'))",
        "big=amount customer at",
    ),
    "where": ("o.where('amount > 3').select('id')", "id=id | filter: amount"),
    "where_after": ("o.select('id', 'amount').where('amount > 3').drop('amount')", "id=id | filter: amount"),
    "join": ("o.join(c, o.customer == c.id).select(o.id, 'name')", "id=id name=c.name | join: customer c.id"),
    "join_using": (
        "o.select('id', 'amount').join(c.select('id', 'name'), 'id')",
        "id=id amount=amount name=c.name | join: id c.id",
    ),
    "join_right_using": (
        "o.select('id').join(c.select('id', 'name'), 'id', 'right')",
        "id=c.id name=c.name | join: id c.id",
    ),
    "join_full_using": (
        "o.select('id').join(c.select('id', 'name'), 'id', 'full')",
        "id=id c.id name=c.name | join: id c.id",
    ),
    "join_semi": ("o.join(c, o.customer == c.id, 'left_semi').select('id')", "id=id | join: customer c.id"),
    "join_anti": (
        "o.join(c, o.customer == c.id, 'left_anti').select('id', 'amount')",
        "id=id amount=amount | join: customer c.id",
    ),
    "join_cross": ("o.crossJoin(c.select('name')).select('id', 'name')", "id=id name=c.name"),
    "join_self": (
        """
both = o.alias('x').join(o.alias('y'), F.col('x.id') == F.col('y.customer'))
return both.select(F.col('x.id').alias('a'), F.col('y.amount').alias('b'))
""",
        "a=id b=amount | join: id customer",
    ),
    "join_own_aggregate": (
        """
most = o.groupBy('customer').agg(F.max('amount').alias('most'))
return o.join(most, 'customer').select('id', 'most')
""",
        "id=id most=amount | join: customer | group: customer",
    ),
    "join_broadcast": (
        "o.join(F.broadcast(c), o.customer == c.id, 'left').select(o.id, c.name)",
        "id=id name=c.name | join: customer c.id",
    ),
    "group": (
        "o.groupBy('customer').agg(F.sum('amount').alias('total'), F.count('*').alias('n'))",
        "customer=customer total=amount n= | group: customer",
    ),
    "group_count": ("o.groupBy('customer').count()", "customer=customer count= | group: customer"),
    "group_all": ("o.agg(F.sum('amount').alias('total'))", "total=amount"),
    "group_by_expression": (
        "o.groupBy(F.year('at').alias('year')).agg(F.countDistinct('customer').alias('n'))",
        "year=at n=customer | group: at",
    ),
    "having": (
        "o.groupBy('customer').agg(F.sum('amount').alias('total')).where('total > 3')",
        "customer=customer total=amount | group: customer | filter: amount",
    ),
    "group_min_by": (
        "o.groupBy('customer').agg(F.min_by('id', 'at').alias('first'))",
        "customer=customer first=id at | group: customer",
    ),
    "group_collect": (
        "o.groupBy('customer').agg(F.collect_list(F.struct('id', 'amount')).alias('all'))",
        "customer=customer all=id amount | group: customer",
    ),
    "pivot": (
        "o.withColumn('y', F.year('at')).groupBy('customer').pivot('y', [2024, 2025]).agg(F.sum('amount'))",
        "customer=customer 2024=amount at 2025=amount at | group: customer at",
    ),
    "rollup": (
        "o.rollup('customer').agg(F.sum('amount').alias('total'))",
        "customer=customer total=amount | group: customer",
    ),
    "cube": (
        "o.cube('customer', 'id').agg(F.count('*').alias('n'))",
        "customer=customer id=id n= | group: customer id",
    ),
    "unpivot": (
        """
wide = o.select('id', o.customer.cast('double').alias('customer'), o.amount.cast('double').alias('amount'))
return wide.unpivot('id', ['customer', 'amount'], 'what', 'value')
""",
        "id=id what=?id ?customer ?amount value=?id ?customer ?amount | may read: id customer amount",
    ),
    "window_rank": (
        "return o.select('id', F.row_number().over(Window.partitionBy('customer').orderBy('at')).alias('r'))",
        "id=id r=customer at | window: customer at",
    ),
    "window_sum": (
        "return o.withColumn('s', F.sum('amount').over(Window.partitionBy('customer'))).select('id', 's')",
        "id=id s=amount customer | window: customer",
    ),
    "window_newest": (
        """
newest = F.row_number().over(Window.partitionBy('customer').orderBy(F.desc('at')))
return o.withColumn('r', newest).where('r = 1').select('id', 'amount')
""",
        "id=id amount=amount | window: customer at | filter: customer at",
    ),
    "window_lag": (
        "return o.select('id', F.lag('amount').over(Window.partitionBy('customer').orderBy('at')).alias('before'))",
        "id=id before=amount customer at | window: customer at",
    ),
    "window_of_time": (
        "o.groupBy(F.window('at', '1 hour')).agg(F.count('*').alias('n'))",
        "window=at n= | group: at | filter: at",
    ),
    "window_of_session": (
        "o.groupBy('customer', F.session_window('at', '10 minutes').alias('session')).agg(F.count('*').alias('n'))",
        "customer=customer session=at n= | group: customer at | filter: at",
    ),
    "union": (
        """
more = o.select('id', 'j').join(c.select('name')).select('id', 'name')
return o.select('id', o.customer.cast('string').alias('name')).union(more)
""",
        "id=id name=customer c.name",
    ),
    "union_by_place": (
        "o.select('id', o.customer.cast('string').alias('who')).union(c.select('id', 'name'))",
        "id=id c.id who=customer c.name",
    ),
    "union_by_name": (
        "o.select('id', 'j').unionByName(c.select(c.country.alias('j'), 'id'))",
        "id=id c.id j=j c.country",
    ),
    "union_missing": (
        "o.select('id', 'amount').unionByName(c.select('id', 'name'), allowMissingColumns=True)",
        "id=id c.id amount=amount name=c.name",
    ),
    "union_distinct": ("o.select('id').union(o.select('customer')).distinct()", "id=id customer | group: id customer"),
    "intersect": ("o.select('id').intersect(c.select('id'))", "id=id | filter: id c.id"),
    "subtract": ("o.select('id').subtract(c.select('id'))", "id=id | filter: id c.id"),
    "drop_duplicates": ("o.dropDuplicates(['id']).select('id', 'amount')", "id=id amount=amount | group: id"),
    "sort_limit": ("o.orderBy(F.desc('amount')).limit(10).select('id')", "id=id | sort: amount"),
    "sample": (
        "o.sample(0.5, seed=3).select('id', 'amount').repartition(3, 'amount').coalesce(1)",
        "id=id amount=amount",
    ),
    "explode": ("o.select('id', F.explode('tags').alias('tag'))", "id=id tag=tags"),
    "posexplode": ("o.select('id', F.posexplode_outer('tags'))", "id=id pos=tags col=tags"),
    "explode_map": ("o.select('id', F.explode('m'))", "id=id key=m value=m"),
    "explode_and_group": (
        "o.withColumn('t', F.explode('tags')).groupBy('id').agg(F.countDistinct('t').alias('n'))",
        "id=id n=tags | group: id",
    ),
    "struct_star": ("o.select('more.*')", "a=more b=more"),
    "struct_field": ("o.select(F.col('more').getField('a').alias('a'))", "a=more"),
    "struct_with_field": ("o.select(F.col('more').withField('c', o.id).alias('more'))", "more=more id"),
    "json": ("o.select(F.from_json('j', 'p INT, q STRING').alias('d')).select('d.p', 'd.q')", "p=j q=j"),
    "higher_order": (
        "o.select(F.transform('tags', lambda t: F.concat(t, o.id.cast('string'))).alias('x'))",
        "x=tags id",
    ),
    "aggregate_array": ("o.select(F.aggregate('tags', F.lit(0), lambda s, t: s + F.length(t)).alias('x'))", "x=tags"),
    "udf": (
        """
add = F.udf(lambda a, b: float(a) + b, 'double')
return o.select('id', add('amount', 'customer').alias('x'))
""",
        "id=id x=amount customer",
    ),
    "pandas_udf": (
        """
import pandas as pd
def doubled(v):
    return v * 2
doubled.__annotations__ = {'v': pd.Series, 'return': pd.Series}
doubled = F.pandas_udf(doubled, 'double')
return o.select('id', doubled(o.amount.cast('double')).alias('x'))
""",
        "id=id x=amount",
    ),
    "map_in_pandas": (
        "o.select('id', 'amount').mapInPandas(lambda rows: rows, 'id INT, z DOUBLE')",
        "id=?id ?amount z=?id ?amount | may read: id amount",
    ),
    "map_in_arrow": (
        "o.select('id', 'amount').mapInArrow(lambda rows: rows, 'id INT')",
        "id=?id ?amount | may read: id amount",
    ),
    "apply_in_pandas": (
        """
o.select('customer', 'amount').groupBy('customer').applyInPandas(lambda rows: rows, 'customer INT, x DOUBLE')
""",
        "customer=?customer ?amount x=?customer ?amount | may read: customer amount",
    ),
    "cogroup": (
        """
left, right = (o.select('id', 'amount').groupBy('id'), c.select('id', 'name').groupBy('id'))
return left.cogroup(right).applyInPandas(lambda a, b: a, 'id INT, n STRING')
""",
        "id=?id ?amount ?c.id ?c.name n=?id ?amount ?c.id ?c.name | may read: id amount c.id c.name",
    ),
    "map_and_join": (
        """
made = o.select('id', 'amount').mapInPandas(lambda rows: rows, 'key INT, x DOUBLE')
return made.join(c, made.key == c.id).select('name', 'x')
""",
        "name=c.name x=?id ?amount | may read: id amount | join: c.id",
    ),
    "local_rows": (
        "o.select('id').join(o.sparkSession.createDataFrame([(1, 'k')], 'id INT, k STRING'), 'id')",
        "id=id k=?o.* ?c.* | join: id | may read: o.* c.*",
    ),
    "rdd": ("o.select('id').rdd.map(lambda row: row).toDF('id INT')", "id=?o.* ?c.* | may read: o.* c.*"),
    "numbers": ("o.sparkSession.range(10).withColumn('id', F.col('id') + 1)", "id="),
    "sql": (
        "o.sparkSession.sql('SELECT id, amount + 1 AS x FROM {o} ORDER BY amount', o=o)",
        "id=id x=amount | sort: amount",
    ),
    "sql_with": (
        """
text = "WITH u AS (SELECT * FROM {c} WHERE country = 'DE'), v AS (SELECT u.* FROM u) "
return o.sparkSession.sql(text + "SELECT o.id, v.name FROM {o} o JOIN v ON o.customer = v.id", o=o, c=c)
""",
        "id=id name=c.name | join: customer c.id | filter: c.country",
    ),
    "sql_scalar": (
        """
o.sparkSession.sql('SELECT id, (SELECT max(id) FROM {c} x WHERE x.country = o.customer) AS most FROM {o} o', o=o, c=c)
""",
        "id=id most=c.id | filter: c.country customer",
    ),
    "sql_exists": (
        """
o.sparkSession.sql('SELECT id FROM {o} o WHERE EXISTS (SELECT 1 FROM {c} x WHERE x.id = o.customer)', o=o, c=c)
""",
        "id=id | filter: c.id customer",
    ),
    "sql_in": (
        "o.sparkSession.sql('SELECT id FROM {o} WHERE customer IN (SELECT id FROM {c})', o=o, c=c)",
        "id=id | filter: customer c.id",
    ),
    "sql_lateral": (
        """
of = 'SELECT concat(name, o.amount) AS x FROM {c} k WHERE k.id = o.customer'
return o.sparkSession.sql(f'SELECT o.id, l.x FROM {{o}} o, LATERAL ({of}) l', o=o, c=c)
""",
        "id=id x=c.name amount | filter: c.id customer",
    ),
    "sql_values": (
        "o.sparkSession.sql('SELECT o.id, o.id + v.n AS x FROM {o} o CROSS JOIN (VALUES (1), (2)) AS v(n)', o=o)",
        "id=id x=id",
    ),
    "sql_lateral_view": (
        "o.sparkSession.sql('SELECT id, tag FROM {o} LATERAL VIEW explode(tags) e AS tag', o=o)",
        "id=id tag=tags",
    ),
    "sql_stack": (
        "o.sparkSession.sql('SELECT x, y FROM (SELECT amount AS x, at AS y FROM {o})', o=o)",
        "x=amount y=at",
    ),
    "by_view": (
        """
o.createOrReplaceTempView('lineage_orders')
return o.sparkSession.table('lineage_orders').select('id', 'amount')
""",
        "id=id amount=amount",
    ),
    "cached": ("o.select('id', 'amount').cache().select('id', F.col('amount').alias('x'))", "id=id x=amount"),
    "filled": ("o.select('id', 'amount').na.fill(0).replace(3, 4)", "id=id amount=amount"),
    "without_nulls": (
        "o.select('id', 'amount', 'at').na.drop(subset=['id', 'at'])",
        "id=id amount=amount at=at | filter: id at",
    ),
    "chained": (
        """
made = o.select('id', F.col('amount').alias('many'))
for _ in range(60):
    made = made.withColumn('many', F.col('many') + 1)
return made
""",
        "id=id many=amount",
    ),
    "odd_names": ("o.select(F.col('id').alias('a\xa0#1'), F.col('amount').alias('c.d'))", "a\u00a0#1=id c.d=amount"),
    "watched": (
        """
from pyspark.sql import Observation
return o.select('id', 'amount').observe(Observation('n'), F.count('*').alias('n')).where('amount > id')
""",
        "id=id amount=amount | filter: amount id",
    ),
    "marked_late": ("o.withWatermark('at', '1 hour').select('id', 'at')", "id=id at=at"),
    "labelled": ("o.select('id', F.col('timelabel').alias('label'))", "id=id label=timelabel"),
}  # fmt: skip
