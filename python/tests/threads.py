"""threads.py SECONDS: eight threads on one InferenceSession, and on one program, compare their results with those of one thread.

scripts/python_threads.sh runs it with libraries and extension modules that the thread sanitizer watches.
"""

import sys
import threading
import time

import numpy as np
from support import ADD, COUNTER, DIGITS, program

import xcvm.onnxruntime as ort

THREADS, FEEDS = 8, 4


def check_session(session, until, failures, seed, counts):
    rng = np.random.default_rng(seed)
    feeds = [{"image": rng.random((size, 1, 8, 8), np.float32)} for size in range(1, FEEDS + 1)]
    expected = [session.run(None, feed)[0] for feed in feeds]
    options = ort.RunOptions()
    while time.monotonic() < until:
        for i, feed in enumerate(feeds):
            result = session.run(None, feed, options if i % 2 else None)[0]
            if not np.array_equal(result, expected[i]):
                failures.append(f"thread {seed}, batch {i + 1}")
            counts[seed] += 1


def check_program(add, counter, until, failures, seed):
    x = np.arange(4, dtype=np.float32) + seed
    own = counter.session(threads=1)
    total = 0.0
    while time.monotonic() < until:
        if not np.array_equal(np.asarray(add(x)), x + np.array([1, 2, 3, 4], np.float32)):
            failures.append(f"thread {seed}: sum")
        total += seed
        if float(own(float(seed))) != total:
            failures.append(f"thread {seed}: state")
        if total > 1000:
            own.reset()
            total = 0.0


def main(seconds):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(str(DIGITS / "model.onnx"), options)
    add, counter = program(ADD), program(COUNTER)
    failures, counts = [], [0] * THREADS
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=check_session, args=(session, until, failures, seed, counts)) for seed in range(THREADS)]
    threads += [threading.Thread(target=check_program, args=(add, counter, until, failures, seed)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures[:10]:
        print(failure)
    if min(counts) == 0:
        print("a thread has not run")
    print(f"{sum(counts) - len(failures)} passed, {len(failures)} failed")
    sys.exit(bool(failures) or min(counts) == 0)


if __name__ == "__main__":
    main(float(sys.argv[1]))
