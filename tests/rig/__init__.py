"""The base of all rigs in tests/ and loadtest/. Before a program imports from here, one line adds tests/ to sys.path, after
the program's own folder."""
