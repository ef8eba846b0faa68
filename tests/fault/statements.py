"""The listeners' statements to Postgres: recognizes them on their way, so that some of the paths of played.py can be
counted."""

# The rig's tables are in public. A COPY is cut at CopyDone, when all rows are there and the server is about to commit.
INSERT = b"INSERT INTO public.events"
COPY = b"COPY public.events"
COPY_DONE = b"c\0\0\0\4"
RELAY = b"UPDATE public.outbox"
FIND = b"AS w (id, place)"                                      # sql/queries/find_present.sql
ALONE = b"wsonce_epoch IN EXCLUSIVE MODE"               # listener/store/effects.c


class Ear:
    """Reads the statements on all links of a run."""

    def __init__(self, played):
        self.played = played

    def on_postgres(self, pair, data):
        if FIND in data:
            pair.said = FIND
        elif COPY in data:
            self.played.count("looks before COPY", pair.said == FIND)
            pair.said = COPY
        elif INSERT in data:
            pair.said = INSERT
        self.played.count("statements alone with effects", ALONE in data)
