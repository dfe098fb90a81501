"""The way of a report: measured, written, read, compared, taken over. Over the host backend, which is always here."""

from __future__ import annotations

import copy
import getpass
import json
import platform
import shutil
from pathlib import Path

import pytest

from aneforge import targets
from aneforge.backends import ANE, HOST, native
from aneforge.cli import main
from aneforge.errors import BackendUnavailableError, ReportError
from aneforge.ops.base import DECLARATIONS
from aneforge.selfcheck import apply, backends_here, differences, examine, read
from aneforge.selfcheck.probes import probes
from aneforge.selfcheck.programs import vocabulary
from aneforge.selfcheck.report import checked
from aneforge.targets import quirk_table, resolve

try:
    native.load()
except (BackendUnavailableError, ImportError, OSError):  # pragma: no cover - a checkout without the native library
    pytest.skip("the native library is not built", allow_module_level=True)

FILES = Path(targets.__path__[0])
REFUSED_AT_CALL = {"einsum"}
# every lowering brings them into other forms, so the host backend has no kernel for them
NO_KERNEL = {"batch_to_space", "crop", "flatten2d", "space_to_batch"}


@pytest.fixture(scope="module")
def reports():
    return {mac: examine(mac) for mac in ("m1", "m4")}


@pytest.fixture
def report(reports):
    return copy.deepcopy(reports["m1"])


@pytest.fixture
def folder(tmp_path):
    for file in ("vocabulary.json", "quirks.json"):
        shutil.copy(FILES / file, tmp_path / file)
    return tmp_path


def as_engine(report, **machine):
    """The report as an engine would have given it that does what the data claim."""
    target = resolve(report["machine"]["target"])
    made = copy.deepcopy(report)
    made["machine"].update(has_engine=True, chip=f"Apple {target.chips.split(',')[0]}", os="26.5", **machine)
    part = made["backends"].pop("host")
    made["backends"] = {"e5rt": part}
    part["word"] = ANE
    part["vocabulary"] = {kind: {**row, "result": "pass"} for kind, row in part["vocabulary"].items()}
    part["quirks"] = {row: {"seen": row in target.quirks, "values": []} for row in part["quirks"]}
    part["limits"] = {"max_width": {str(target.limits.max_width): "pass", "70000": "refused"}}
    return made


def test_every_operation_that_an_engine_takes_is_asked():
    newest = resolve("m5")
    wanted = {kind for kind in DECLARATIONS if newest.supports(kind) is None} - REFUSED_AT_CALL
    assert set(vocabulary()) >= wanted
    for kind, program in vocabulary().items():
        assert kind in {op.kind for op in program.ops}, kind


@pytest.mark.parametrize("mac", ["m1", "m4"])
def test_nothing_differs_here(reports, mac):
    report = checked(reports[mac])
    assert [str(d) for d in differences(report)] == []
    part = report["backends"]["host"]
    assert part["word"] == HOST
    assert {row["result"] for row in part["vocabulary"].values()} == {"pass", "refused"}
    assert {kind for kind, row in part["vocabulary"].items() if row["result"] == "refused"} == NO_KERNEL
    seen = {row for row, found in part["quirks"].items() if found["seen"]}
    assert seen == {p.row for p in probes()} & set(resolve(mac).simulated_quirks)
    assert all(row["ms"] > 0 and row["estimate_ms"] > 0 for row in part["models"].values())
    assert {name for name, why in backends_here().items() if not why} == set(report["backends"])


def test_a_report_names_nobody(report):
    text = json.dumps(report)
    for private in (str(Path.home()), getpass.getuser() + "/", platform.node(), str(FILES), str(Path.cwd())):
        assert private not in text, private


def test_what_nobody_can_judge_says_nothing(report, folder):
    before = (FILES / "vocabulary.json").read_text()
    made = as_engine(report)
    made["backends"]["e5rt"]["vocabulary"]["relu"] = {"result": "unjudged", "detail": ""}
    assert differences(checked(made)) == []
    apply(made, folder)
    assert (folder / "vocabulary.json").read_text() == before


def test_every_wrong_row_is_red(report):
    """Each row of the report, turned around one at a time, is a difference; and no other row is."""
    made = as_engine(report)
    assert differences(made) == []
    part = made["backends"]["e5rt"]
    turned = 0
    for kind, row in part["vocabulary"].items():
        for outcome in ("wrong", "refused"):
            one = copy.deepcopy(made)
            one["backends"]["e5rt"]["vocabulary"][kind] = {**row, "result": outcome}
            (found,) = differences(one)
            assert (found.part, found.name) == ("vocabulary", kind)
        turned += 1
    for quirk, row in part["quirks"].items():
        one = copy.deepcopy(made)
        one["backends"]["e5rt"]["quirks"][quirk]["seen"] = not row["seen"]
        (found,) = differences(one)
        assert (found.part, found.name) == ("quirks", quirk)
        turned += 1
    one = copy.deepcopy(made)
    one["backends"]["e5rt"]["limits"]["max_width"]["16384"] = "refused"
    assert [d.part for d in differences(one)] == ["limits"]
    one = copy.deepcopy(made)
    one["backends"]["e5rt"]["models"]["attention"]["result"] = "wrong"
    assert [d.part for d in differences(one)] == ["models"]
    assert turned >= 70


def test_nothing_changes_where_nothing_differs(report, folder):
    before = (FILES / "vocabulary.json").read_text()
    changes = apply(as_engine(report), folder)
    assert changes
    assert (folder / "vocabulary.json").read_text() == before
    assert all("seen on A13" in line for line in changes)  # what was seen is noted
    assert apply(as_engine(report), folder) == []


def test_an_operation_that_fails_is_taken_from_its_family_and_older_ones(report, folder):
    made = as_engine({**report, "machine": {**report["machine"], "target": "h14", "family": "A14"}})
    made["backends"]["e5rt"]["vocabulary"]["relu"] = {"result": "refused", "detail": ""}
    made["backends"]["e5rt"]["vocabulary"]["sin"] = {"result": "pass"}
    made["backends"]["e5rt"]["vocabulary"]["cumsum"] = {"result": "wrong"}
    changes = apply(made, folder)
    assert "relu: does not compile on A14" in changes
    assert "sin: compiles on A14" in changes
    rows = json.loads((folder / "vocabulary.json").read_text())["ops"]
    assert rows["relu"]["compiles"] == ["A15", "A16"]
    assert rows["sin"]["compiles"] == ["A14", "A15", "A16"]
    assert rows["cumsum"]["compiles"] is False or rows["cumsum"]["compiles"] == []
    assert rows["relu"]["source"][-1] == "report: Apple M2, 26.5"
    assert rows["tanh"] == json.loads((FILES / "vocabulary.json").read_text())["ops"]["tanh"]


def test_a_quirk_is_gained_by_one_report_and_not_lost_by_one(report, folder):
    made = as_engine(report)
    made["backends"]["e5rt"]["quirks"]["Q16"] = {"seen": True, "values": [1025.0]}
    made["backends"]["e5rt"]["quirks"]["Q17"] = {"seen": False, "values": [0.0]}
    changes = apply(made, folder)
    assert "Q16: seen on A13, added to its families" in changes
    assert "Q17: not seen on A13" in changes
    rows = {row["id"]: row for row in json.loads((folder / "quirks.json").read_text())["quirks"]}
    assert rows["Q16"]["families"] == ["A13", "A16"]
    assert rows["Q17"]["families"] == list(quirk_table()["Q17"].families)
    assert rows["Q17"]["reports"]["A13"]["seen"] is False


def test_an_emulation_is_no_engine(report, folder):
    with pytest.raises(ReportError, match="no engine was measured"):
        apply(report, folder)
    made = as_engine(report)
    made["machine"]["has_engine"] = False
    with pytest.raises(ReportError, match="no engine was measured"):
        apply(made, folder)
    assert apply(report, folder, rehearse=True)


def test_core_ml_is_no_engine(report, folder):
    """It takes the CPU for what it likes: only a wrong value says something."""
    made = as_engine(report)
    made["backends"] = {"coreml": made["backends"]["e5rt"]}
    part = made["backends"]["coreml"]
    part["quirks"]["Q04"]["seen"] = False
    part["vocabulary"]["relu"]["result"] = "refused"
    assert differences(made) == []
    part["vocabulary"]["tanh"]["result"] = "wrong"
    assert [d.name for d in differences(made)] == ["tanh"]
    with pytest.raises(ReportError, match="no engine was measured"):
        apply(made, folder)


def spoil(path, value):
    def change(report):
        place = report
        for key in path[:-1]:
            place = place[key]
        if value is None:
            del place[path[-1]]
        else:
            place[path[-1]] = value

    return change


HOST_PART = ("backends", "host")
SPOILED = [
    (("schema_version",), 99),
    (("machine",), None),
    (("machine", "target"), "h99"),
    (("machine", "family"), "A16"),
    (("machine", "has_engine"), "yes"),
    (("backends",), []),
    ((*HOST_PART, "word"), None),
    ((*HOST_PART, "vocabulary"), None),
    ((*HOST_PART, "vocabulary", "relu"), "pass"),
    ((*HOST_PART, "vocabulary", "relu", "result"), "maybe"),
    ((*HOST_PART, "vocabulary", "rm -rf"), {"result": "pass"}),
    ((*HOST_PART, "quirks", "Q99"), {"seen": True}),
    ((*HOST_PART, "quirks", "Q04", "seen"), 1),
    ((*HOST_PART, "limits", "no_limit"), {"1": "pass"}),
    ((*HOST_PART, "limits", "max_width"), {"wide": "pass"}),
    ((*HOST_PART, "models", "attention", "result"), None),
]


@pytest.mark.parametrize(("path", "value"), SPOILED, ids=lambda v: "/".join(v) if isinstance(v, tuple) else None)
def test_malformed_reports_change_nothing(report, folder, path, value):
    spoil(path, value)(report)
    file = folder / "report.json"
    file.write_text(json.dumps(report))
    with pytest.raises(ReportError):
        read(file)
    assert main(["doctor", "--apply", str(file), "--data", str(folder), "--rehearse"]) == 2
    assert (folder / "quirks.json").read_bytes() == (FILES / "quirks.json").read_bytes()
    assert (folder / "vocabulary.json").read_bytes() == (FILES / "vocabulary.json").read_bytes()


def test_no_json_at_all(tmp_path):
    (tmp_path / "r.json").write_text("{")
    with pytest.raises(ReportError, match="not a report"):
        read(tmp_path / "r.json")
    with pytest.raises(ReportError, match="not a report"):
        read(tmp_path / "absent.json")


def test_the_way_through_the_command_line(folder, capsys):
    file = folder / "report.json"
    assert main(["doctor", "--json", str(file)]) == 0
    told = capsys.readouterr().out
    assert "0 not as the data claim" in told
    assert "chip: " in told
    assert "e5rt: not here" in told
    assert main(["doctor", "--apply", str(file), "--data", str(folder)]) == 2  # an emulation
    assert main(["doctor", "--apply", str(file), "--data", str(folder), "--rehearse"]) == 0
    capsys.readouterr()
    assert main(["doctor", "--apply", str(file), "--data", str(folder), "--rehearse"]) == 0
    assert capsys.readouterr().out == "0 changes\n"
    assert main(["doctor", "--apply", str(file), "--rehearse"]) == 2
    assert main(["doctor", "--rehearse"]) == 2
