"""The results in the terminal."""
from measure.table import TABLES, rows, verdict


def describe(place):
    return (f"{place['cores']} cores of {place['cpu']}, {place['memory_gib']} GiB, Linux {place['kernel']}; wsonce "
            f"{place['wsonce']} ({place['commit']}), libwebsockets {place['libwebsockets']}, Redis {place['redis']}, Postgres "
            f"{place['postgres']}, Node {place['node']}, Python {place['python']}")


def show_rows(lines, indent="  "):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        rest = "  ".join(text.rjust(width) for text, width in zip(line[1:], widths[1:]))
        print(f"{indent}{line[0]:{widths[0]}}  {rest}".rstrip())


def show(book):
    settings = book.settings
    print(f"\n{describe(book.place)}\n{settings['rounds']} round{'s' if settings['rounds'] > 1 else ''}"
          f"{', quick' if settings['quick'] else ''}: medians, and the lowest and the highest")
    for table in TABLES:
        lines = rows(book, table)
        if lines:
            print(f"\n{table.title}")
            show_rows([[""] + [column.heading for column in table.columns]] + lines)
    if book.targets:
        print("\nTargets")
        show_rows([verdict(target) for target in book.targets])
    for sentence in book.failures:
        print(f"\nNOT MEASURED: {sentence}")
