"""Operators on strings."""
import numpy as np

from table import operator

WORDS = ["monday", "Tuesday", "wednesday", "THURSDAY", "friday", "a", "A", "", "the", "x1", "été", "ÉTÉ", "123"]


def words(case, shape):
    return np.array(WORDS, object)[case.numpy.integers(0, len(WORDS), shape)]


@operator("StringNormalizer", 10)
def string_normalizer(case):
    shape = case.choice([[case.integer(1, 9)], [1, case.integer(1, 9)]])
    case.known("sizes")  # the peer takes a size that is not declared for none
    x = words(case, shape)
    change = case.choice([None, "NONE", "LOWER", "UPPER"])
    if change in ("LOWER", "UPPER"):  # the peer's letters beyond ASCII depend on its locale
        x = np.vectorize(lambda word: word if word.isascii() else "b", otypes=[object])(x)
    y = case.node("StringNormalizer", [case.feed(x, "str")], case_change_action=change, locale="C",
                  is_case_sensitive=case.choice([None, 0, 1]), stopwords=case.choice([None, ["monday"], ["a", "the", "Tuesday"]]))
    case.output(y, "str")


@operator("TfIdfVectorizer", 9, weight=2)
def tf_idf_vectorizer(case):
    kind = case.choice(["i32", "i64", "str"])
    grams = [case.integer(1, 3) for _ in range(case.integer(1, 6))]
    grams.sort()
    pool, starts, seen = [], [0], set()
    kept = 0
    for size in (1, 2, 3):
        if size > 1:
            starts.append(len(pool))
        for _ in range(grams.count(size)):
            gram = tuple(case.integer(0, 5) for _ in range(size))
            if gram in seen:
                continue
            seen.add(gram)
            pool += gram
            kept += 1
    while len(starts) > 1 and starts[-1] == len(pool):
        starts.pop()
    if kept == 0:
        pool, starts, kept = [1], [0], 1
    shape = case.choice([[case.integer(1, 20)], [case.integer(1, 4), case.integer(1, 12)]])
    longest = len(starts)
    low = case.integer(1, longest)
    attributes = {"max_gram_length": case.integer(low, longest), "min_gram_length": low, "max_skip_count": case.integer(0, 3),
                  "mode": case.choice(["TF", "IDF", "TFIDF"]), "ngram_counts": starts,
                  "ngram_indexes": case.random.sample(range(kept), kept)}
    if case.chance(0.6):
        attributes["weights"] = [case.real(0.1, 2) for _ in range(kept)]
    x = case.ints(shape, "i32", 0, 5)
    if kind == "str":
        attributes["pool_strings"] = [WORDS[item] for item in pool]
        x = np.array(WORDS, object)[x]
    else:
        attributes["pool_int64s"] = pool
    case.output(case.node("TfIdfVectorizer", [case.feed(x if kind != "i64" else x.astype(np.int64), kind)], **attributes), "f32")


@operator("StringConcat", 20)
def string_concat(case):
    shape = case.shape(limit=100)
    x, y = words(case, case.broadcastable(shape)), words(case, case.broadcastable(shape))
    x, y = np.asarray(x, object), np.asarray(y, object)
    case.output(case.node("StringConcat", [case.feed(x, "str"), case.feed(y, "str")]), "str", np.asarray(np.add(x, y), object))


@operator("StringSplit", 20)
def string_split(case):
    parts = np.array(["a,b", "a b c", "", " x  y ", ",,", "a,,b", "one"], object)
    x = parts[case.numpy.integers(0, len(parts), case.shape(low=1, high=2, limit=20))]
    delimiter = case.choice([None, "", ",", " "])
    if delimiter:  # the peer counts no part in an empty string, as it is without a delimiter
        x = np.where(x == "", "one", x).astype(object)
    most = case.choice([None, 1, 2])
    if not delimiter and most:  # the peer takes off the space behind what is not split any more
        x = np.where(x == " x  y ", "x y", x).astype(object)
    y, count = case.node("StringSplit", [case.feed(x, "str")], 2, delimiter=delimiter, maxsplit=most)
    case.output(y, "str")
    case.output(count, "i64")


@operator("RegexFullMatch", 20)
def regex_full_match(case):
    texts = np.array(["abc", "a1", "www.google.com", "", "aaa", "b22"], object)
    x = texts[case.numpy.integers(0, len(texts), case.shape(limit=20))]
    x = np.asarray(x, object)
    case.output(case.node("RegexFullMatch", [case.feed(x, "str")],
                          pattern=case.choice(["a+", "[a-z][0-9]+", "www\\.[\\w.-]+\\.com", ".*", "(abc|a1)", ""])), "bool")
