"""The command ``kmdr``: its subcommands, arguments, help and screen."""
