"""The events of a round that the handler never accepts: makes them, and feeds them by wsonce replay. It gives up on an
event after two attempts, which the listeners must not do: faults would make dead letters."""
from replay import Replay

TYPE = "order.refused"
COUNT = 20


class Marked(Replay):
    def __init__(self, book):
        rig = book.rig
        for n in range(COUNT):
            text = f'{{"event_id":"{book.feed_prefix}-r{n}","event_type":"{TYPE}","payload":{{}}}}'
            book.marked.add(text.encode())
        super().__init__(rig, f"{book.feed_prefix}-marked", book.marked, "--max-attempts", "2", *rig.consumer_words(),
                         "--handler", rig.effects.handler, "--config", rig.listeners[0].config)

    async def finish(self, seconds):
        summary = await super().finish(seconds)
        if summary and summary["rejected"] != COUNT:
            self.rig.verdict.find("unexpected", f"{self.base}: {summary['rejected']} of {COUNT} events were rejected")
