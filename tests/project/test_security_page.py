"""Each sentence of SECURITY.md about what kmdr does has a test that shows it, or is advice, of which this says so."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Advice to the reader, or what another program does: nothing that a test of kmdr could show.
ADVICE = ()
# The opening words of a sentence, and the tests that show it: ``file::function`` without ``test_``.
SHOWN_BY: dict[str, tuple[str, ...]] = {
    "packages are pinned by their hashes": ("layout::every_package_that_make_installs_is_pinned_by_its_hash",),
    "`make audit` compares": ("layout::every_package_that_make_installs_is_pinned_by_its_hash",),
    "it runs with your rights": ADVICE,
    "read it before you run it": ADVICE,
    "`kmdr` and its workers import nothing from there": (
        "current_folder::no_file_of_the_current_folder_is_executed_by_a_run",
        "current_folder::no_file_of_the_current_folder_is_executed_by_a_report",
    ),
    "name the folder of a module of your own": (
        "current_folder::ones_own_module_is_found_in_pythonpath_which_the_error_names",
    ),
    "they are read, never run": (
        "formats::pickles_are_refused",
        "acquire::file_with_wrong_hash_is_refused_and_named",
        "hostile_data::a_bomb_is_refused_with_numbers_and_the_remedy_before_it_takes_memory",
    ),
    "no command reads, writes or removes": (
        "links::no_command_touches_what_links_lead_to",
        "links::no_command_follows_a_multiverse_that_becomes_a_link",
        "links::what_was_left_behind_is_removed_but_not_through_links",
    ),
    "only regular files are read": ("hostile_results::nothing_is_written_through_a_link_or_over_another_kind_of_file",),
    "`kmdr report DIR` and `kmdr figures DIR` write nothing outside": ("links::no_command_touches_what_links_lead_to",),
    "keys must be hashes": (
        "hostile_results::a_key_that_is_no_hash_is_refused",
        "hostile_results::nan_counts_as_a_wrong_number",
    ),
    "sizes are bounded": ("folder_memory::a_larger_table_is_refused_with_size_and_limit",),
    "no command writes a control character": (
        "terminal::no_control_character_of_a_row_is_written",
        "terminal::no_control_character_of_a_file_name_is_written",
        "terminal::no_control_character_of_an_argument_is_written",
        "terminal::a_terminal_gets_bold_text_and_nothing_else_that_steers_it",
    ),
    "in tables, figures and reports such a character": ("terminal::no_control_character_of_a_row_is_in_a_report",),
    "no command imports them": ("untrusted_code::no_command_imports_what_a_folder_names",),
    "`kmdr verify DIR` reruns": ("untrusted_code::verify_reruns_third_party_code_only_if_the_command_names_it",),
    "other rows are counted as": ("untrusted_code::rows_that_are_all_third_party_code_are_no_success",),
    "`kmdr submit` and `kmdr accept` read it": ("submissions::a_hostile_submission_is_refused_in_one_sentence",),
    "only name, method, author and licence": (
        "submissions::a_hostile_submission_is_refused_in_one_sentence",
        "submissions::a_text_that_is_not_one_printable_line_is_refused",
    ),
    "all other entries of the card": ("submissions::a_hostile_submission_is_refused_in_one_sentence",),
    "no third-party code runs unless": (
        "submissions::third_party_code_is_as_reported_unless_the_command_names_it",
        "untrusted_code::no_command_imports_what_a_folder_names",
    ),
    "a row whose rerun takes more": (
        "trial_limits::a_row_whose_rerun_never_ends_or_takes_all_memory_is_stopped_and_is_not_verified",
    ),
    "preparing a dataset and scoring labels": (
        "trial_limits::data_whose_preparation_exceeds_a_limit_make_their_rows_not_verified",
        "trial_limits::a_submission_whose_labels_are_scored_for_too_long_is_refused",
    ),
    "the page has a content security policy": (
        "html::the_page_loads_nothing_and_links_only_the_papers_and_its_own_files",
        "browser::no_request_leaves_the_page",
        "browser::the_policy_refuses_what_would_leave_the_page",
    ),
    "names are escaped in HTML": (
        "hostile_results::hostile_names_are_shown_and_never_obeyed",
        "hostile_results::hostile_names_are_drawn_as_they_are_written",
        "hostile_results::tables_of_hostile_texts",
    ),
    "rows, notes, reports and crates state the names": ("private_paths::what_is_handed_on_names_no_folder",),
    "`OUT/.local.json` has the whole paths": ("private_paths::what_is_handed_on_names_no_folder",),
    "arguments of reducers and engines": ("private_paths::names_within_a_file_stay_and_a_title_too",),
    "files are checked against damage": ("prepared::no_flipped_bit_anywhere_in_the_cache_changes_a_number",),
    "The cache (": ("paths::whatever_lies_in_the_cache_is_readable_by_its_owner_alone",),
    "An existing folder named by `KMDR_CACHE`": (
        "paths::a_cache_that_an_earlier_version_left_open_is_closed_to_others_unless_the_user_named_it",
    ),
    "Compiled code is loaded from": (
        "paths::without_a_home_libraries_keep_what_they_make_in_the_cache_for_its_owner_alone",
        "paths::no_code_is_loaded_from_a_folder_that_others_may_have_filled_and_nothing_is_left",
        "paths::a_configuration_of_numba_in_the_current_folder_does_not_choose_where_code_is_loaded_from",
    ),
    "kmdr has no fixed folder below": (
        "paths::no_code_is_loaded_from_a_folder_that_others_may_have_filled_and_nothing_is_left",
    ),
    "The traceback of a crash": ("process::an_error_log_is_for_its_owner_alone_and_not_written_through_a_link",),
    "`runner=dask` without an address": (
        "dask_security::a_cluster_of_this_machine_admits_nobody_without_its_temporary_certificate",
    ),
    "`runner=slurm` and `runner.cluster=…` do the same": (
        "batch::jobs_of_every_batch_system_run_one_task_at_a_time_over_tls",
    ),
    "The certificate and its key lie in": (
        "batch::a_run_in_jobs_has_the_rows_of_a_run_here_and_leaves_nothing",
        "batch::jobs_of_every_batch_system_run_one_task_at_a_time_over_tls",
    ),
    "Choose a folder on a file system": ADVICE,
    "Whoever can connect to a scheduler": ADVICE,
    "A cluster of your own needs TLS": ADVICE,
    "kmdr warns if a Dask scheduler": ("dask_security::a_scheduler_outside_this_machine_without_tls_is_warned_of",),
    "`runner=ray` without an address": ADVICE,
    "set `RAY_AUTH_MODE=token`": ADVICE,
    "In `tables/*.csv`, `figures/*.csv`": ("hostile_results::a_cell_that_a_spreadsheet_would_compute_is_text",),
    "`rows.csv` and `facts/*.csv` are data": ("hostile_results::rows_are_read_as_they_were_written",),
    "16 MiB": ("folder_memory::a_larger_json_file_is_refused_with_size_and_limit",),
    "128 MiB": (
        "folder_memory::a_table_of_too_many_short_rows_is_refused_with_the_limit",
        "folder_memory::a_larger_table_is_refused_with_size_and_limit",
    ),
    "64 MiB": (
        "folder_memory::labels_that_claim_more_than_they_are_take_no_memory",
        "hostile_results::a_table_that_unpacks_to_far_more_than_it_is_is_refused_before_it_is_unpacked",
    ),
    "the variable `KMDR_MOST_TABLE`": ("hostile_results::a_larger_table_is_read_when_the_user_allows_it",),
    "1 MiB": ("hostile_results::a_long_line_or_ten_million_columns_are_refused",),
    "8 MiB": ("folder_memory::a_larger_table_is_refused_with_size_and_limit",),
    "A file beyond its limit": ("folder_memory::a_larger_table_is_refused_with_size_and_limit",),
    "Measured with two folders": ("folder_memory::no_folder_takes_more_than_half_a_gibibyte",),
    "`scripts/fuzz_folder.py` runs": ("fuzz::hosted_checks_are_those_of_the_project",),
}


def sentences():
    """Return the sentences of the page from the heading on what is trusted, and the clauses of its tables."""
    text = (ROOT / "SECURITY.md").read_text().partition("## What is trusted")[2].partition("\n")[2]
    found = []
    for block in re.split(r"\n\n|\n(?=[|*])", text):
        line = " ".join(block.split()).lstrip("* ")
        if line.startswith("|"):
            line = line.strip("| ").split(" | ")[-1]
        if re.search(r"\w", line) and not line.startswith("#") and line not in ("what that means", "limit"):
            # Not within parentheses, and not after "e.g.".
            found += re.split(r"(?<=[.;])(?<!e\.g\.)\s+(?![^(]*\))", line)
    return found


@cache
def functions_of(file):
    (path,) = (ROOT / "tests").rglob(f"test_{file}.py")
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("sentence", sentences())
def test_a_sentence_has_a_test(sentence):
    openings = [opening for opening in SHOWN_BY if sentence.startswith(opening)]
    assert openings, f"no test is named for {sentence!r}"
    for name in SHOWN_BY[max(openings, key=len)]:
        file, _, function = name.partition("::")
        assert f"test_{function}" in functions_of(file), name


@pytest.mark.parametrize("opening", SHOWN_BY)
def test_no_sentence_is_named_that_is_no_longer_there(opening):
    assert any(sentence.startswith(opening) for sentence in sentences())
