"""Classes of collections, written as users would write them. The interpreter compiles their source, and takes instances for those of
the classes that they stand for."""

from __future__ import annotations

import collections

from . import stands_for


@stands_for(collections.deque)
class deque:
    def __init__(self, iterable=(), maxlen=None):
        self.maxlen = maxlen
        self._items = []
        self.extend(iterable)

    def append(self, x):
        self._items.append(x)
        if self.maxlen is not None and len(self._items) > self.maxlen:
            self._items.pop(0)

    def appendleft(self, x):
        self._items.insert(0, x)
        if self.maxlen is not None and len(self._items) > self.maxlen:
            self._items.pop()

    def extend(self, iterable):
        for x in iterable:
            self.append(x)

    def extendleft(self, iterable):
        for x in iterable:
            self.appendleft(x)

    def pop(self):
        return self._items.pop()

    def popleft(self):
        return self._items.pop(0)

    def clear(self):
        self._items.clear()

    def copy(self):
        return deque(self._items, self.maxlen)

    def count(self, x):
        return self._items.count(x)

    def index(self, x):
        return self._items.index(x)

    def insert(self, i, x):
        if self.maxlen is not None and len(self._items) >= self.maxlen:
            raise IndexError("deque already at its maximum size")
        self._items.insert(i, x)

    def remove(self, value):
        self._items.remove(value)

    def reverse(self):
        self._items.reverse()

    def rotate(self, n=1):
        if len(self._items) > 0:
            at = -n % len(self._items)
            self._items = self._items[at:] + self._items[:at]

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        return iter(self._items)

    def __reversed__(self):
        return reversed(self._items)

    def __contains__(self, x):
        return x in self._items

    def __getitem__(self, i):
        return self._items[i]

    def __setitem__(self, i, x):
        self._items[i] = x


class _Keyed:
    """What defaultdict and Counter have of a dict."""

    def __setitem__(self, key, value):
        self._dict[key] = value

    def __delitem__(self, key):
        del self._dict[key]

    def __contains__(self, key):
        return key in self._dict

    def __len__(self):
        return len(self._dict)

    def __iter__(self):
        return iter(self._dict)

    def keys(self):
        return self._dict.keys()

    def values(self):
        return self._dict.values()

    def items(self):
        return self._dict.items()

    def get(self, key, default=None):
        return self._dict.get(key, default)

    def pop(self, key, *default):
        return self._dict.pop(key, *default)

    def setdefault(self, key, default=None):
        return self._dict.setdefault(key, default)

    def clear(self):
        self._dict.clear()


@stands_for(collections.defaultdict)
class defaultdict(_Keyed):
    def __init__(self, default_factory=None, *items, **named):
        self.default_factory = default_factory
        self._dict = dict(*items, **named)

    def __getitem__(self, key):
        if key not in self._dict:
            if self.default_factory is None:
                raise KeyError(key)
            self._dict[key] = self.default_factory()
        return self._dict[key]

    def update(self, *items, **named):
        self._dict.update(*items, **named)


@stands_for(collections.Counter)
class Counter(_Keyed):
    def __init__(self, iterable=None, **counts):
        self._dict = {}
        self.update(iterable, **counts)

    def __getitem__(self, key):
        return self._dict.get(key, 0)

    def update(self, iterable=None, **counts):
        if iterable is not None:
            if isinstance(iterable, (dict, collections.Counter)):
                for key, count in iterable.items():
                    self._dict[key] = self[key] + count
            else:
                for key in iterable:
                    self._dict[key] = self[key] + 1
        for key, count in counts.items():
            self._dict[key] = self[key] + count

    def most_common(self, n=None):
        found = sorted(self._dict.items(), key=lambda item: item[1], reverse=True)
        return found if n is None else found[:n]

    def total(self):
        return sum(self._dict.values())
