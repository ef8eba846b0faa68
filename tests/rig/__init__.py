"""What all rigs in tests/ and loadtest/ stand on. A program finds it by one line, before it imports from here: it puts
tests/ behind its own folder in sys.path."""
