"""The pairs of datasets and reducers of a study, narrowed by a command line."""

import pytest

from kmdr.base.errors import UserError
from kmdr.config.compose import compose_configs
from kmdr.config.protocols import pairs
from kmdr.config.studies import studies


@pytest.mark.parametrize("study", [s["name"] for s in studies() if s.get("most_repeats")])
def test_a_study_runs_with_any_of_its_reducers_alone(study):
    whole = {(c["reducer"]["name"], str(c["reducer"])): c["repeats"] for c in compose_configs(f"study={study}")}
    for name in {name for name, _ in whole}:
        configs = compose_configs(f"study={study}", f"study.reducers=[{name}]")
        assert {c["reducer"]["name"] for c in configs} == {name}
        assert {c["repeats"] for c in configs} <= {repeats for (other, _), repeats in whole.items() if other == name}


def test_a_reducer_of_a_study_may_be_an_import_path_with_the_arguments_of_its_class():
    path = "sklearn.decomposition.TruncatedSVD"
    study = {"name": "s", "datasets": ["digits"], "reducers": ["svd", {path: {"algorithm": "arpack"}}]}
    svd, outside = pairs({"study": study | {"most_repeats": {path: 2}}, "repeats": 5})
    assert outside["reducer"] == {"name": "outside", "path": path, "args": {"algorithm": "arpack"}}
    assert (svd["repeats"], outside["repeats"]) == (5, 2)
    assert outside["study"]["reducers"] == ["svd", path]
    asked = f"study.reducers=[{{{path}: {{algorithm: arpack}}}}]"
    (composed,) = compose_configs("study=bzd10_fig1", asked)
    assert dict(composed["reducer"]) == outside["reducer"]


def test_a_mistyped_reducer_with_fewer_repetitions_is_refused():
    study = {"name": "s", "datasets": ["digits"], "reducers": ["svd"], "most_repeats": {"nome": 3}}
    with pytest.raises(UserError, match=r"no reducer under study\.most_repeats is named 'nome'"):
        pairs({"study": study, "repeats": 5})


@pytest.mark.parametrize("override", ["study.name=bmd09_table1", "++study.name=atlas"])
def test_the_rows_of_a_study_cannot_be_given_to_another(override):
    with pytest.raises(UserError, match="to another study; remove it"):
        compose_configs("study=bzd10_fig1", override)
