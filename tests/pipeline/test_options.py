"""The options that the jobs share: which store is meant, and which window."""

from pathlib import Path

import pytest

from tarry.pipeline.cli.options import check_rate, store_beside, store_of, window

FILE, NAMED, SET = "sqlite:///tarry.db", "sqlite:///named.db", "sqlite:///set.db"


@pytest.mark.parametrize(
    ("dsn", "environment", "lake", "needed", "beside"),
    [
        (None, None, None, FILE, FILE),
        (None, None, "lake", FILE, None),
        (None, "", "lake", FILE, None),
        (None, SET, None, SET, SET),
        (None, SET, "lake", SET, SET),
        (NAMED, SET, "lake", NAMED, NAMED),
    ],
)
def test_which_store_is_meant(
    monkeypatch: pytest.MonkeyPatch,
    dsn: str | None,
    environment: str | None,
    lake: str | None,
    needed: str,
    beside: str | None,
) -> None:
    monkeypatch.delenv("TARRY_DSN", raising=False)
    if environment is not None:
        monkeypatch.setenv("TARRY_DSN", environment)
    assert (store_of(dsn), store_beside(dsn, lake)) == (needed, beside)


def test_the_store_may_be_named_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dsn").write_text(f"{SET}\n")
    monkeypatch.delenv("TARRY_DSN", raising=False)
    monkeypatch.setenv("TARRY_DSN_FILE", str(tmp_path / "dsn"))
    assert (store_of(None), store_beside(None, "lake"), store_of(NAMED)) == (SET, SET, NAMED)
    monkeypatch.setenv("TARRY_DSN", SET)
    with pytest.raises(ValueError, match="TARRY_DSN_FILE and TARRY_DSN are both set"):
        store_of(None)
    monkeypatch.delenv("TARRY_DSN")
    monkeypatch.setenv("TARRY_DSN_FILE", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"TARRY_DSN_FILE: .*none"):
        store_beside(None, None)


def test_a_window_is_read_and_wants_its_order() -> None:
    assert window(None, None) == (None, None)
    assert window("1970-01-01T00:00:01Z", "1970-01-01T01:00:02+01:00") == (1000, 2000)
    with pytest.raises(ValueError, match=r"--from has to be before --to"):
        window("1970-01-01T00:00:01Z", "1970-01-01T00:00:01Z")
    with pytest.raises(ValueError, match=r"--to: \"soon\" is not a time"):
        window(None, "soon")


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_is_more_than_nothing_and_less_than_everything(rate: float) -> None:
    check_rate(None, "rows")
    check_rate(0.5, "rows")
    with pytest.raises(ValueError, match="--rate: more than 0 rows a second"):
        check_rate(rate, "rows")
