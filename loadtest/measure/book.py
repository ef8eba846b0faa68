"""The results: owns the samples of every case, what could not be measured, and their form in build/bench.json. A case is
what is measured under one name, such as wsonce-3; a figure is one of its numbers; each round adds a sample."""
from rig.sample import summary


class Book:
    def __init__(self, place, settings):
        self.place = place              # machine, versions, commit
        self.settings = settings        # settings of the run
        self.cases = {}                 # name -> {"scenario", "words", ..., "figures": {name: [sample, ...]}}
        self.failures = []              # sentences
        self.targets = []               # the verdicts at the end

    def note(self, name, about, figures):
        """about: scenario, words and settings of the case, the same in each round."""
        case = self.cases.setdefault(name, about | {"figures": {}})
        for figure, value in figures.items():
            case["figures"].setdefault(figure, []).append(value)

    def fail(self, sentence):
        if sentence not in self.failures:
            self.failures.append(sentence)

    def summary(self, name, figure):
        """Returns the median, min and max, or None if the figure was not measured."""
        samples = self.cases.get(name, {"figures": {}})["figures"].get(figure)
        return summary(samples) if samples else None

    def median(self, name, figure):
        found = self.summary(name, figure)
        return found["median"] if found else None

    def of_scenario(self, *scenarios):
        return [name for name, case in self.cases.items() if case["scenario"] in scenarios]

    def as_json(self):
        cases = {name: case | {"figures": {figure: summary(samples) for figure, samples in case["figures"].items()}}
                 for name, case in self.cases.items()}
        return {"place": self.place, "settings": self.settings, "cases": cases, "targets": self.targets,
                "failures": self.failures}

    @classmethod
    def from_json(cls, told):
        book = cls(told["place"], told["settings"])
        book.failures = told["failures"]
        for name, case in told["cases"].items():
            book.cases[name] = case | {"figures": {figure: found["samples"] for figure, found in case["figures"].items()}}
        return book
