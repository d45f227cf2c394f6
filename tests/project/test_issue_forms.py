"""The issue forms are what GitHub's syntax for them asks for."""

import re
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[2] / ".github" / "ISSUE_TEMPLATE"
FORMS = sorted(path for path in FOLDER.glob("*.yml") if path.name != "config.yml")
KEYS = {"name", "description", "labels", "body", "title", "assignees", "projects", "type"}
# The attributes of each type of element: required and optional ones.
ATTRIBUTES = {
    "markdown": ({"value"}, set()),
    "input": ({"label"}, {"description", "placeholder", "value"}),
    "textarea": ({"label"}, {"description", "placeholder", "value", "render"}),
    "dropdown": ({"label", "options"}, {"description", "multiple", "default"}),
    "checkboxes": ({"label", "options"}, {"description"}),
}


def faults(form):
    """Return what is wrong with a form."""
    if not isinstance(form, dict) or not {"name", "description", "body"} <= form.keys() <= KEYS:
        return ["keys of the form"]
    wrong = [key for key in ("name", "description") if not isinstance(form[key], str) or not form[key].strip()]
    body = form["body"]
    if not any(element.get("type") != "markdown" for element in body):
        wrong.append("nothing to fill in")
    names = [element["id"] for element in body if "id" in element]
    labels = [element["attributes"].get("label") for element in body if element.get("type") != "markdown"]
    wrong += [f"id {name}" for name in names if not re.fullmatch(r"[A-Za-z0-9_-]+", str(name))]
    wrong += ["repeated id"] * (len(names) != len(set(names))) + ["repeated label"] * (len(labels) != len(set(labels)))
    for element in body:
        required, optional = ATTRIBUTES.get(element.get("type"), (set(), set()))
        attributes = element["attributes"]
        if not required or not required <= attributes.keys() <= required | optional:
            wrong.append(f"attributes {sorted(attributes)} of {element.get('type')}")
        if not element.keys() <= {"type", "id", "attributes", "validations"}:
            wrong.append(f"keys {sorted(element)}")
        if not all(isinstance(value, bool) for value in element.get("validations", {}).values()):
            wrong.append("validations")
        options = attributes.get("options", [])
        if "options" in required and (not options or len(options) != len(set(map(str, options)))):
            wrong.append("options")
    return wrong


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_valid(path):
    assert faults(yaml.safe_load(path.read_text("utf-8"))) == []


def test_names_and_labels_of_forms_differ():
    forms = [yaml.safe_load(path.read_text("utf-8")) for path in FORMS]
    assert len({form["name"] for form in forms}) == len(forms) == len({tuple(form["labels"]) for form in forms})
    assert {"failure", "wrong-number", "proposal"} == {path.stem for path in FORMS}


def test_the_configuration_has_known_keys_only():
    config = yaml.safe_load((FOLDER / "config.yml").read_text("utf-8"))
    assert config.keys() <= {"blank_issues_enabled", "contact_links"}
    assert isinstance(config["blank_issues_enabled"], bool)


@pytest.mark.parametrize(
    "change",
    [
        lambda form: form.pop("description"),
        lambda form: form.update(extra=1),
        lambda form: form["body"].append(form["body"][0]),
        lambda form: form["body"][0].update(type="text"),
        lambda form: form["body"][0]["attributes"].pop("label"),
        lambda form: form["body"][0].update(id="a b"),
        lambda form: form["body"][0].update(validations={"required": "yes"}),
        lambda form: form.update(body=[{"type": "markdown", "attributes": {"value": "text"}}]),
    ],
)
@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_damaged_form_is_refused(path, change):
    form = yaml.safe_load(path.read_text("utf-8"))
    change(form)
    assert faults(form)
