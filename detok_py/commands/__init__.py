"""The subcommands of `detok` that need neither a server nor a browser."""
