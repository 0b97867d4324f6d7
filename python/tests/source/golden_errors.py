"""Write erroneous.txt: everything that is reported for each erroneous source. python3 golden_errors.py"""

import re
from pathlib import Path

import erroneous
import erroneous_torch
import numpy as np

import xcvm

FOLDER = Path(__file__).parent


def reported(made, arguments):
    """Return the text of the errors, with files by name. Lines in the source of torch depend on its version."""
    subject = made() if isinstance(made, type) else made
    try:
        xcvm.compile(subject, *arguments)
    except xcvm.SourceErrors as errors:
        text = str(errors).replace(str(FOLDER) + "/", "")
        return re.sub(r"/\S*/torch/(\S*?):[\d:-]*", r"torch/\1", text)
    return "no error"


def sources():
    """Yield each erroneous source with its example arguments."""
    for function in erroneous.FUNCTIONS:
        yield function, (np.ones(3, np.float32), 2)[: function.__code__.co_argcount]
    yield from erroneous_torch.ERRONEOUS


def text():
    return "\n".join(f"## {made.__name__}\n\n{reported(made, arguments)}\n" for made, arguments in sources())


if __name__ == "__main__":
    (FOLDER / "erroneous.txt").write_text(text())
