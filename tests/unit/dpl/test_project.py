from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES, KNOWN, SETTINGS
from waterclock.dpl.project import Project, check_project, load_project
from waterclock.dpl.resolve.schemas import RecordedColumns
from waterclock.errors import ProjectErrors
from waterclock.flow.declarations import Secret


def write(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def load(root: Path, case: str = "", settings: str = SETTINGS, env: str | None = None) -> Project:
    write(root, {"waterclock.toml": settings, "flows/known.dpl": KNOWN, "flows/deep/case.dpl": case})
    return load_project(root, env=env, capabilities=CAPABILITIES)


TWO = (
    SETTINGS
    + """
[env.prod]
storage = "s3://lake/shop"
ledger = "postgresql://ledger.internal/waterclock"
publish = true
connections.landing = { path = "/mnt/new" }
connections.ops = { path = "/mnt/ops.sqlite" }
connections.out = { path = "/mnt/out", token = { secret = "out/token" } }
vars.late_minutes = 30
pools.heavy = 3
[project.nothing]
""".replace("[project.nothing]\n", "")
)


def test_settings_that_are_not_specified_have_defaults(tmp_path: Path) -> None:
    project = load(tmp_path)
    assert (project.env, project.publish, project.storage) == ("dev", False, str(tmp_path / ".waterclock"))
    assert project.ledger == f"sqlite:///{tmp_path / '.waterclock/ledger.db'}"
    assert project.pools == {"default": 4}
    assert project.flow.connections["project"].options == {"path": str(tmp_path)}
    assert project.files == ("flows/deep/case.dpl", "flows/known.dpl")


def test_an_environment_overrides_connections_variables_and_pools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_OUT_TOKEN", "x")
    project = load(tmp_path, settings=TWO, env="prod")
    assert (project.storage, project.publish, project.env) == ("s3://lake/shop", True, "prod")
    assert project.ledger == "postgresql://ledger.internal/waterclock"
    assert project.variables["late_minutes"] == 30
    assert project.pools == {"default": 4, "heavy": 3}
    assert project.flow.connections["out"].options == {"path": "/mnt/out", "token": Secret("out/token")}


def test_secrets_of_other_environments_are_not_required(tmp_path: Path) -> None:
    assert load(tmp_path, settings=TWO, env="dev").env == "dev"


def test_the_environment_variable_overrides_the_file_and_the_argument_overrides_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_OUT_TOKEN", "x")
    monkeypatch.setenv("WATERCLOCK_ENV", "prod")
    assert load(tmp_path, settings=TWO).env == "prod"
    assert load(tmp_path, settings=TWO, env="dev").env == "dev"


def test_the_most_exact_default_wins(tmp_path: Path) -> None:
    settings = SETTINGS.replace(
        "[vars]",
        '[defaults]\nowner = "all"\ntags = ["x"]\n[defaults."marts.*"]\nowner = "marts"\n'
        '[defaults."marts.daily_*"]\nowner = "daily"\n[defaults."marts.daily_sales"]\nowner = "sales"\n[vars]',
    )
    case = "".join(
        f"TRANSFORM {name} AS SELECT * FROM raw.orders;\n"
        for name in ("other.a", "marts.a", "marts.daily_a", "marts.daily_sales")
    )
    tables = load(tmp_path, case, settings).flow.tables
    assert [tables[name].about.owner for name in ("other.a", "marts.a", "marts.daily_a", "marts.daily_sales")] == (
        ["all", "marts", "daily", "sales"]
    )
    assert tables["marts.daily_sales"].about.tags == ("x",)


def test_load_raises_all_errors_in_the_order_of_places(tmp_path: Path) -> None:
    with pytest.raises(ProjectErrors) as raised:
        load(tmp_path, "COLLECT raw.x FROM ops.x;\nCOLECT;\nTRANSFORM marts.a AS SELECT * FROM raw.no;")
    assert [(error.code, error.where) for error in raised.value.errors] == [
        ("E228", "flows/deep/case.dpl:1:9"),
        ("E202", "flows/deep/case.dpl:2:1"),
        ("E213", "flows/deep/case.dpl:3:36"),
    ]


def test_a_reader_of_a_table_with_a_syntax_error_is_not_reported(tmp_path: Path) -> None:
    with pytest.raises(ProjectErrors) as raised:
        load(
            tmp_path,
            "TRANSFORM marts.a AS SELECT * FROM raw.new; TRANSFORM marts.b AS SELECT * FROM raw.knew;"
            "\nCOLLECT raw.new FROM ops.x EVERY 'DAY;",
        )
    assert [(error.code, error.what) for error in raised.value.errors if error.code == "E213"] == [
        ("E213", "unknown table raw.knew")
    ]
    assert len(raised.value.errors) == 2


def test_a_project_without_statements_is_reported_with_one_error(tmp_path: Path) -> None:
    write(tmp_path, {"waterclock.toml": SETTINGS})
    project, errors = check_project(tmp_path, capabilities=CAPABILITIES)
    assert (project, [(error.code, error.what) for error in errors]) == (None, [("E244", "no statements here")])


def test_a_folder_without_a_project_file_is_reported(tmp_path: Path) -> None:
    project, (error,) = check_project(tmp_path, capabilities=CAPABILITIES)
    assert (project, error.code) == (None, "E244")


def test_a_file_that_is_not_utf8_is_placed(tmp_path: Path) -> None:
    write(tmp_path, {"waterclock.toml": SETTINGS, "flows/known.dpl": KNOWN})
    (tmp_path / "flows/bad.dpl").write_bytes(b"-- ok\n-- \xff\n")
    _, (error,) = check_project(tmp_path, capabilities=CAPABILITIES)
    assert (error.code, error.where) == ("E201", "flows/bad.dpl:2:4")


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path) -> None:
    assert (
        load(tmp_path, "\ufeffTRANSFORM marts.a AS SELECT * FROM raw.orders;").flow.tables["marts.a"].place.column == 11
    )


def test_columns_of_the_last_run_are_known(tmp_path: Path) -> None:
    write(tmp_path, {"waterclock.toml": SETTINGS, "flows/known.dpl": KNOWN})
    write(tmp_path, {"flows/case.dpl": "TRANSFORM marts.a AS SELECT idd, name, country FROM raw.customers;"})
    known = {"raw.customers": {"id": "bigint", "name": "string"}}
    assert check_project(tmp_path, capabilities=CAPABILITIES)[1] == ()
    _, errors = check_project(tmp_path, capabilities=CAPABILITIES, known=RecordedColumns(known))
    assert [error.what for error in errors] == ["unknown column idd", "unknown column country"]


VERSIONED = """
COLLECT dim.a (id KEY, *) FROM landing.a EVERY DAY BY ARRIVAL TIME TEMPORAL AT {at} ORDER BY {order} DELETE WHEN {gone}
  TRACK ({track}) NULLS VALUE ({nulls}) EXPECT {rule} > 0;
TRANSFORM marts.b AS SELECT {read} FROM dim.a;
"""
RIGHT = {"at": "seen", "order": "seq", "gone": "is_gone", "track": "city", "nulls": "nick", "rule": "seq",
         "read": "city, rec_eff_time"}  # fmt: skip
ROWS = dict.fromkeys(("id", "city", "nick", "seen", "seq", "is_gone"), "string")
SEEN = dict.fromkeys(("id", "rec_eff_time", "city", "nick", "rec_exp_time", "rec_is_current"), "string")


@pytest.mark.parametrize(
    ("part", "wrong", "fix"),
    [("at", "sene", "seen"), ("order", "sek", "seq"), ("gone", "is_gon", "is_gone"), ("track", "citi", "city"),
     ("nulls", "nik", "nick"), ("rule", "sequ", "seq"), ("read", "seen", None)],
)  # fmt: skip
def test_columns_named_by_an_open_versioned_collect_are_checked_against_its_last_run(
    tmp_path: Path, part: str, wrong: str, fix: str | None
) -> None:
    known = RecordedColumns({"dim.a": SEEN}, {"dim.a": ROWS})
    write(tmp_path, {"waterclock.toml": SETTINGS, "flows/known.dpl": KNOWN})
    write(tmp_path, {"flows/case.dpl": VERSIONED.format(**RIGHT)})
    assert check_project(tmp_path, capabilities=CAPABILITIES, known=known)[1] == ()
    write(tmp_path, {"flows/case.dpl": VERSIONED.format(**RIGHT | {part: wrong})})
    assert check_project(tmp_path, capabilities=CAPABILITIES)[1] == ()
    (error,) = check_project(tmp_path, capabilities=CAPABILITIES, known=known)[1]
    assert (error.code, error.what) == ("E203", f"unknown column {wrong}")
    if fix is not None:
        assert error.fix == f"did you mean {fix}?"


def test_a_column_that_the_rows_do_not_have_yet_is_named_in_the_list(tmp_path: Path) -> None:
    text = VERSIONED.format(**RIGHT | {"at": "changed_at"}).replace("(id KEY, *)", "(id KEY, changed_at TIMESTAMP, *)")
    write(tmp_path, {"waterclock.toml": SETTINGS, "flows/known.dpl": KNOWN, "flows/case.dpl": text})
    known = RecordedColumns({"dim.a": SEEN}, {"dim.a": ROWS})
    assert check_project(tmp_path, capabilities=CAPABILITIES, known=known)[1] == ()


def test_versions_are_known_where_their_rows_are_not(tmp_path: Path) -> None:
    text = VERSIONED.format(**RIGHT | {"at": "sene", "read": "citi"})
    write(tmp_path, {"waterclock.toml": SETTINGS, "flows/known.dpl": KNOWN, "flows/case.dpl": text})
    errors = check_project(tmp_path, capabilities=CAPABILITIES, known=RecordedColumns({"dim.a": SEEN}))[1]
    assert [error.what for error in errors] == ["unknown column citi"]


def fingerprint(root: Path, case: str, settings: str = SETTINGS) -> str:
    return load(root, case, settings).flow.tables["marts.a"].fingerprint


BASE = "TRANSFORM marts.a (id KEY, *) EXPECT id > 0 AS SELECT id, amount FROM stg.open WHERE amount > :late_minutes;"


@pytest.mark.parametrize(
    "same",
    [
        BASE.replace("SELECT", "select -- why\n   ").replace("WHERE", "/* this */ where"),
        BASE.replace("EXPECT", "COMMENT 'x' OWNER 'me' TAGS (a) EXPECT").replace("KEY", "KEY COMMENT 'the id'"),
        BASE.replace("marts.a (", "\n\nmarts.a\n("),
    ],
)
def test_comments_spacing_and_documentation_do_not_change_the_fingerprint(same: str, tmp_path: Path) -> None:
    assert fingerprint(tmp_path, same) == fingerprint(tmp_path, BASE)


@pytest.mark.parametrize(
    "other",
    [
        BASE.replace("amount FROM", "amount AS a FROM"),
        BASE.replace("stg.open", "LATEST(stg.open)").replace("EXPECT", "EVERY DAY EXPECT"),
        BASE.replace("id > 0", "id > 1"),
        BASE.replace("KEY, *", "KEY, amount"),
        BASE.replace("EXPECT", "MERGE EXPECT"),
        BASE.replace("EXPECT", "TEMPORAL EXPECT"),
    ],
)
def test_code_that_gives_other_rows_has_another_fingerprint(other: str, tmp_path: Path) -> None:
    assert fingerprint(tmp_path, other) != fingerprint(tmp_path, BASE)


def test_a_view_a_function_and_a_value_count_where_they_are_used(tmp_path: Path) -> None:
    function = "CREATE FUNCTION dollars(c INT) RETURNS INT RETURN c / 100;\n"
    with_function = function + BASE.replace("id, amount", "id, dollars(amount) AS amount")
    base = fingerprint(tmp_path, BASE)
    assert fingerprint(tmp_path, function + BASE) == base
    assert fingerprint(tmp_path, BASE, SETTINGS.replace("15", "16")) != base
    assert fingerprint(tmp_path, BASE, SETTINGS.replace("DE", "FR")) == base
    assert fingerprint(tmp_path, with_function) != fingerprint(tmp_path, with_function.replace("c / 100", "c / 10"))
    view = "CREATE VIEW stg.x AS SELECT * FROM raw.orders WHERE amount > 1;\n"
    read = BASE.replace("stg.open", "stg.x")
    assert fingerprint(tmp_path, view + read) != fingerprint(tmp_path, view.replace("1", "2") + read)


def test_a_function_that_is_called_in_backticks_counts(tmp_path: Path) -> None:
    function = "CREATE FUNCTION dollars(c INT) RETURNS INT RETURN c / 100;\n"
    called = function + BASE.replace("id, amount", "id, `dollars`(amount) AS amount")
    assert fingerprint(tmp_path, called) != fingerprint(tmp_path, called.replace("c / 100", "c / 10"))


@pytest.mark.parametrize("query", ["SELECT * FROM stg.x", None])
def test_the_columns_that_a_view_lists_count(query: str | None, tmp_path: Path) -> None:
    view = "CREATE VIEW stg.x (id) AS SELECT * FROM raw.orders;\n"
    case = f"TRANSFORM marts.a AS {query};" if query else ""
    if query is None:
        text = "import waterclock as wc\n@wc.transform('marts.a')\ndef a(x=wc.table('stg.x')): return x\n"
        write(tmp_path, {"flows/a.py": text})
    base = fingerprint(tmp_path, view + case)
    assert fingerprint(tmp_path, view.replace("(id)", "(id, amount)") + case) != base
    assert fingerprint(tmp_path, view.replace("(id)", "( id COMMENT 'the id' )") + case) == base


@pytest.mark.parametrize("written", ["'{}'", '"{}"', "r'{}'", "concat('it\\'s', '{}')"])
def test_spaces_in_a_text_count_in_a_rule_and_in_a_function(written: str, tmp_path: Path) -> None:
    function = "CREATE FUNCTION plain(t STRING) RETURNS STRING RETURN replace(t,  TEXT , '');\n"
    call = BASE.replace("id, amount", "id, plain(customer) AS customer, amount")
    for case in (BASE.replace("id > 0", "id <>  TEXT "), function + call):
        texts = [written.format(spaces) for spaces in (" ", "  ", "\t")]
        assert len({fingerprint(tmp_path, case.replace("TEXT", text)) for text in texts}) == 3
        spaced = case.replace("  TEXT ", " TEXT\n  ")
        assert fingerprint(tmp_path, spaced.replace("TEXT", texts[1])) == fingerprint(
            tmp_path, case.replace("TEXT", texts[1])
        )


def test_each_part_of_temporal_counts(tmp_path: Path) -> None:
    parts = ("", "AT amount", "ORDER BY amount", "DELETE WHEN amount < 1", "TRACK (amount)", "NULLS VALUE",
             "NULLS VALUE (amount)", "FILL FORWARD", "ON (amount)")  # fmt: skip
    found = {fingerprint(tmp_path, BASE.replace("EXPECT", f"TEMPORAL {part} EXPECT")) for part in parts}
    assert len(found) == len(parts)


def test_a_table_of_snapshots_is_another_than_one_of_changes(tmp_path: Path) -> None:
    """Its keys begin at another time.

    The ledger stores this text, and E405 refuses a table that was made with another.
    """
    case = "".join(
        f"COLLECT dim.{name} (id KEY, *) FROM landing.a EVERY DAY {by} TEMPORAL NULLS VALUE;"
        for name, by in (("changes", "BY ARRIVAL TIME"), ("snapshots", ""))
    )
    tables = load(tmp_path, case).flow.tables
    told = [str(tables[name].temporal) for name in ("dim.changes", "dim.snapshots")]
    assert told == ["ON (id) NULLS VALUE", "ON (id) NULLS VALUE, new keys since the snapshot before"]


MODEL = """
TRANSFORM dim.city (code BIGINT KEY, since TIMESTAMP, city STRING) TEMPORAL AT since
AS SELECT id AS code, at AS since, 'x' AS city FROM raw.orders;
TRANSFORM dim.client (id BIGINT KEY, since TIMESTAMP, home BIGINT REFERENCES dim.city ROLE home) TEMPORAL AT since
AS SELECT id, at AS since, id AS home FROM raw.orders;
TRANSFORM fact.sale PARTITIONED (id BIGINT, at TIMESTAMP, client BIGINT REFERENCES dim.client AT at)
AS SELECT id, at, id AS client FROM raw.orders;
"""


@pytest.mark.parametrize("query", ["SELECT * FROM FLAT(fact.sale)", "SELECT * FROM stg.flat", None])
def test_the_references_that_flat_follows_count_and_others_do_not(query: str | None, tmp_path: Path) -> None:
    view = "CREATE VIEW stg.flat AS SELECT * FROM FLAT(fact.sale);\n"
    case = f"TRANSFORM marts.a AS {query};" if query else ""
    if query is None:
        (tmp_path / "flows").mkdir()
        (tmp_path / "flows" / "a.py").write_text(
            "import waterclock as wc\n@wc.transform('marts.a')\ndef a(f=wc.flat('fact.sale')): return f\n"
        )
    base = fingerprint(tmp_path, MODEL + view + case)
    assert fingerprint(tmp_path, MODEL.replace("ROLE home", "ROLE work") + view + case) != base
    assert fingerprint(tmp_path, MODEL.replace("ROLE home", "COMMENT 'home'") + view + case) != base
    plain = "TRANSFORM marts.a AS SELECT id, client FROM fact.sale;"
    (tmp_path / "flows" / "a.py").unlink(missing_ok=True)
    base = fingerprint(tmp_path, MODEL + plain)
    assert fingerprint(tmp_path, MODEL.replace("ROLE home", "ROLE work") + plain) == base


def test_a_fold_knows_the_code_by_which_it_deletes_rows(tmp_path: Path) -> None:
    def calls(condition: str, body: str) -> str:
        functions = "CREATE FUNCTION gone(c INT) RETURNS BOOLEAN RETURN zero(c);\n"
        functions += f"CREATE FUNCTION zero(c INT) RETURNS BOOLEAN RETURN {body};\n"
        case = BASE.replace("EXPECT", f"MERGE DELETE WHEN {condition} EXPECT")
        fold = load(tmp_path, functions + case).flow.tables["marts.a"].fold
        assert fold is not None
        return fold.calls

    assert calls("gone(amount)", "c = 0") not in {"", calls("gone(amount)", "c = 1")}
    assert calls("amount = 0", "c = 0") == ""


def test_a_function_counts_where_only_a_clause_calls_it(tmp_path: Path) -> None:
    function = "CREATE FUNCTION dollars(c INT) RETURNS INT RETURN cents(c) / 100;\n"
    inner = "CREATE FUNCTION cents(c INT) RETURNS INT RETURN c;\n"
    both = function + inner
    for case in (
        BASE.replace("id > 0", "Dollars (id) > 0"),
        BASE.replace("KEY,", "KEY EXPECT (dollars(id) > 0),"),
        BASE.replace("EXPECT", "MERGE DELETE WHEN dollars(amount) = 0 EXPECT"),
        "TRANSFORM marts.a PARTITIONED CLOSE WHEN max(dollars(id)) > 9 AS SELECT id FROM UNTIL(raw.orders, '1 day');",
    ):
        base = fingerprint(tmp_path, both + case)
        assert fingerprint(tmp_path, both.replace("100", "10") + case) != base
        assert fingerprint(tmp_path, both.replace("RETURN c;", "RETURN c + 1;") + case) != base
    assert fingerprint(tmp_path, both + BASE) == fingerprint(tmp_path, both.replace("100", "10") + BASE)


def test_a_function_is_registered_that_only_a_retiring_column_calls(tmp_path: Path) -> None:
    """A batch registers the functions in `expressions`."""
    function = "CREATE FUNCTION cents(c DOUBLE) RETURNS INT RETURN c * 100;\n"
    case = (
        "TRANSFORM marts.a (id, was INT AS (cents(amount)) RETIRE '2027-01-01', *) AS SELECT id, amount FROM stg.open;"
    )
    assert "cents(amount)" in load(tmp_path, function + case).flow.tables["marts.a"].expressions


def test_a_project_file_that_is_not_utf8_is_placed_too(tmp_path: Path) -> None:
    (tmp_path / "waterclock.toml").write_bytes(b'[project]\nname = "caf\xe9"\n')
    _, (error,) = check_project(tmp_path, capabilities=CAPABILITIES)
    assert (error.code, error.where) == ("E201", "waterclock.toml:2:12")


def test_every_error_survives_a_process_boundary(tmp_path: Path) -> None:
    with pytest.raises(ProjectErrors) as raised:
        load(tmp_path, "COLLECT raw.x FROM ops.x;")
    copied = pickle.loads(pickle.dumps(raised.value))
    assert copied.render() == raised.value.render()


@pytest.mark.parametrize("name", ["it's [my] {flow}? 100%", "Zoë 日本 #1", "a, b; c=d & $HOME `id`", 'double " quote'])
def test_a_project_may_lie_anywhere(tmp_path: Path, name: str) -> None:
    assert load(tmp_path / name).storage == str(tmp_path / name / ".waterclock")


@pytest.mark.parametrize(("name", "sign"), [("back\\slash", "\\\\"), ("my%20flow", "%20"), ("two\nlines", "\\n")])
def test_a_path_that_delta_would_misinterpret_is_refused_before_a_run(tmp_path: Path, name: str, sign: str) -> None:
    with pytest.raises(ProjectErrors) as caught:
        load(tmp_path / name)
    [error] = caught.value.errors
    assert error.code == "E242"
    assert sign in (error.why or "")
    settings = SETTINGS.replace("[env.dev]", f'[env.dev]\nstorage = "{tmp_path}/elsewhere"', 1)
    assert load(tmp_path / name, settings=settings).storage == f"{tmp_path}/elsewhere"


def test_vault_settings_are_read_and_all_invalid_ones_reported_together(tmp_path: Path) -> None:
    said = '[env.prod.vault]\nurl = "https://vault/"\npath = "shop"\nauth = "approle"\nrole = "r"\nca = "ca.crt"\n'
    project = load(tmp_path, settings=f"{TWO}\n{said}", env="prod")
    place = project.secrets.vault
    assert place is not None
    assert (place.url, place.mount, place.path, place.version) == ("https://vault", "secret", "shop", 2)
    assert place.ca == tmp_path / "ca.crt"
    wrong = '[env.prod.vault]\nurl = "vault"\nauth = "certificate"\nsecret_id = { secret = "x" }\n'
    with pytest.raises(ProjectErrors) as raised:
        load(tmp_path, settings=f"{TWO}\n{wrong}", env="prod")
    assert [error.what for error in raised.value.errors] == [
        "vault is not the address of a Vault server",
        "auth certificate needs certificate",
        "auth certificate needs key",
        "secret_id belongs to auth approle",
    ]
    with pytest.raises(ProjectErrors, match="'token', 'approle', 'kubernetes' or 'certificate'"):
        load(tmp_path, settings=f'{TWO}\n[env.prod.vault]\nurl = "https://vault"\nauth = "ldap"\n', env="prod")
