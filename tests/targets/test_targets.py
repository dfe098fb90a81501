"""The data about engines, and its reader."""

import dataclasses
import itertools
import json
from importlib import resources

import pytest

from aneforge.errors import OptionError
from aneforge.options import Options
from aneforge.targets import Limits, quirk_table, resolve, words

STRINGS = (
    *("h11", "h12", "m9", "t0", "h13", "h13g", "t1", "h14", "h14g", "h14c", "h15", "h15g", "h15c", "h16"),
    *("h16g", "h16s", "h16c", "h17", "h17a", "h17g", "h17s", "h17c", "h17d", "h18", "m11", "u1", "u2", "u3"),
)
FAMILIES = ("a13", "a14", "a15", "a16")
# what the host backend is told to imitate; it knows exactly these
SIMULATED = {"Q04", "Q06", "Q08", "Q10", "Q11", "Q12", "Q13", "Q14", "Q15", "Q16", "Q17", "Q21", "Q26", "Q41"}


def data(name):
    return json.loads(resources.files("aneforge.targets").joinpath(f"{name}.json").read_text())


def test_the_28_strings():
    assert len(STRINGS) == 28
    assert set(data("targets")["targets"]) == set(STRINGS)
    for name in STRINGS:
        if name in ("h11", "h12", "m9", "t0", "u1", "u2", "u3"):
            with pytest.raises(OptionError, match="cannot be compiled for"):
                resolve(name)
        else:
            assert resolve(name).name == name
            assert resolve(name.upper()).family in ("A13", "A14", "A15", "A16")


def test_words():
    assert resolve("auto") == resolve("m1") == resolve("2") == resolve("h13")
    families = {"m1": "A13", "m2": "A14", "m3": "A15", "m4": "A16", "m5": "A16", "5": "A16"}
    assert {w: resolve(w).family for w in families} == families
    for word in words():
        assert resolve(word).limits.max_rank == 5
    with pytest.raises(OptionError, match="did you mean m5 or m4 or m3"):
        resolve("m6")
    with pytest.raises(OptionError, match="there are: auto"):
        resolve("pentium")
    assert Options.parse({"target": "M4"}).target == "m4"


def test_later_families_take_what_earlier_ones_take():
    targets = [resolve(w) for w in FAMILIES]
    for older, newer in itertools.pairwise(targets):
        for field in dataclasses.fields(Limits):
            a, b = getattr(older.limits, field.name), getattr(newer.limits, field.name)
            assert a <= b, field.name
        for kind in older.vocabulary:
            assert older.supports(kind) is not None or newer.supports(kind) is None, kind


def test_vocabulary():
    m1, m4 = resolve("m1"), resolve("m4")
    for kind in ("conv", "relu", "softmax", "matmul", "select", "slice_by_size", "const", "input", "cast"):
        assert m1.supports(kind) is None
    assert m1.supports("topk") == "the engine of M1 (family A13) has no MIL op 'topk'"
    assert m4.supports("topk") is None
    assert m1.supports("resize_bilinear") == "MIL op 'resize_bilinear' is not known to compile on M1 (family A13)"
    assert m1.supports("slice_by_index") is not None
    for kind in ("gather", "logical_and", "reduce_prod", "identity", "lstm", "cumsum"):
        assert m4.supports(kind) is not None
    assert "nothing is known" in str(m4.supports("no_such_op"))
    assert "rank 4 only" in m1.vocabulary["conv"].restrictions[0]


def test_every_row_has_its_source():
    for kind, row in data("vocabulary")["ops"].items():
        assert set(row["source"]) <= {"sweep", "catalog", "emit"}, kind
        assert row["source"], kind
    for quirk in quirk_table().values():
        assert quirk.source, quirk.id
        assert quirk.families, quirk.id
        assert set(quirk.families) <= {f.upper() for f in FAMILIES}, quirk.id
        assert quirk.kind in ("numeric", "compile", "process")
        assert quirk.workaround, quirk.id
    for name in ("families", "targets", "limits", "cost"):
        assert data(name)["meta"], name


def test_quirks():
    assert {q.id for q in quirk_table().values() if q.simulated} == SIMULATED
    assert resolve("m1").has_quirk("Q08")
    assert resolve("m3").has_quirk("Q08")  # never measured there: taken as affected
    assert not resolve("m4").has_quirk("Q08")
    assert resolve("m4").has_quirk("Q16")
    assert not resolve("m1").has_quirk("Q16")
    with pytest.raises(KeyError):
        resolve("m1").has_quirk("Q99")
    assert resolve("m1").poisoned_quirks == ("Q09", "Q31", "Q40")
    assert resolve("m4").poisoned_quirks == ("Q31", "Q40")
    for word in FAMILIES:
        target = resolve(word)
        assert set(target.simulated_quirks) == SIMULATED & set(target.quirks)
        assert list(target.simulated_quirks) == sorted(target.simulated_quirks)


def test_limits():
    m1, m4, m5 = (resolve(w).limits for w in ("m1", "m4", "m5"))
    assert m1.extents(4) == (65536, 65536, 16384, 16384)
    assert m1.extents(2) == (16384, 16384)
    assert m5.extents(1) == (65536,)
    assert m4.extents(1) == (16384,)  # sources conflict on H16: the smaller
    assert m5.extents(0) == ()
    assert len(m5.extents(5)) == 5
    with pytest.raises(ValueError, match="rank 6"):
        m1.extents(6)
    assert (m1.kernel_width, m4.kernel_width) == (13, 15)
    assert m1.topk_refused_k == (3, 4)


def test_costs():
    for word in words():
        cost = resolve(word).cost
        assert min(cost.floor_us, cost.bytes_per_us, cost.flops_per_us, cost.cut_us) > 0
    assert resolve("m5").cost.flops_per_us > resolve("m4").cost.flops_per_us > resolve("m1").cost.flops_per_us


def test_nothing_is_read_twice():
    assert resolve("m1") is resolve("m1")
    assert resolve("m1").quirks is resolve("m1").quirks
    assert resolve("m1").vocabulary is resolve("m1").vocabulary
