"""The table of operators: each entry draws one case. Modules add theirs with the decorator."""
NEWEST = 25
OPERATORS = {}


def operator(name, since=7, until=NEWEST, weight=1):
    """Registers a function that draws a case of an operator, at an opset between the two."""

    def register(draw):
        key = name
        while key in OPERATORS:
            key += "_"
        OPERATORS[key] = (draw, since, until, weight)
        return draw

    return register
