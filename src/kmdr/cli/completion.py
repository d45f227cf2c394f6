"""``kmdr completion``: a script that lets a shell complete commands, settings and their values.

The script holds all words, so that completing starts no process; it is printed again after a plugin was added.
"""

from collections.abc import Iterator
from string import Template

from kmdr.base.plugins import paper_folders
from kmdr.cli.arguments import COMMANDS, DATA_ACTIONS, LISTED, SKELETONS
from kmdr.cli.help import choices_of_groups
from kmdr.config.suggestions import setting_names

_OPTIONS = "-m -q -v --refresh --help --version --cfg --config-dir"
_ZSH = "autoload -U +X compinit bashcompinit && compinit -u && bashcompinit\n"
_SCRIPT = Template("""\
_kmdr() {
    local line="$${COMP_LINE:0:$$COMP_POINT}" IFS=$$' \\t\\n'
    local word="$${line##*[[:space:]]}" command="$${line#*[[:space:]]}" words=""
    COMPREPLY=()
    if [[ "$$word" == *=* ]]; then
        local value="$${word#*=}" head=""
        [[ "$${COMP_WORDBREAKS:-}" == *=* ]] || head="$${word%%=*}="  # replaced too, e.g. in zsh
        case "$${word%%=*}" in
$values
            *) COMPREPLY=( $$(compgen -P "$$head" -f -- "$$value") ); return;;
        esac
        [[ "$$value" == *,* ]] && head="$$head$${value%,*},"
        COMPREPLY=( $$(compgen -P "$$head" -W "$$words" -- "$${value##*,}") )
        return
    fi
    if [[ "$$command" == "$$word" ]]; then
        words="$commands $settings $options"
    else
        case "$${command%%[[:space:]]*}" in
$arguments
            *) words="$settings $options";;
        esac
    fi
    COMPREPLY=( $$(compgen -W "$$words" -- "$$word") $$(compgen -f -- "$$word") )
    [[ "$${COMPREPLY[*]}" == *= ]] && compopt -o nospace 2>/dev/null
}
complete -F _kmdr kmdr
""")


def run(shell: str) -> None:
    """Print the completion script of a shell."""
    values = [f'            {name}) words="{" ".join(names)}";;' for name, names in choices_of_groups().items()]
    arguments = [f'            {name}) words="{" ".join(words)}";;' for name, words in _arguments()]
    script = _SCRIPT.substitute(
        values="\n".join(values),
        arguments="\n".join(arguments),
        commands=" ".join(COMMANDS),
        settings=" ".join(f"{name}=" for name in setting_names()),
        options=_OPTIONS,
    )
    print((_ZSH if shell == "zsh" else "") + script, end="")


def _arguments() -> Iterator[tuple[str, list[str]]]:
    """Yield each command with the words that it takes, unless it takes settings."""
    papers = [paper.name for paper in paper_folders()]
    words = {"kinds": LISTED, "kind": SKELETONS, "command": list(COMMANDS), "papers": papers, "action": DATA_ACTIONS}
    for command in COMMANDS.values():
        if command.arguments is not None:
            names = [name for names, _ in command.arguments for name in names]
            yield command.name, [word for name in names for word in ([name] if name[0] == "-" else words.get(name, ()))]
