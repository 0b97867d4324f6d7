/* The name index: heapsort and binary search. */
#include "proto/name_index.h"
#include "base/array.h"

#include <string.h>

bool xcvm_name_index_add(xcvm_name_index *names, xcvm_arena *arena, const char *text, size_t length, size_t number)
{
    xcvm_indexed_name *at = xcvm_arena_grow(arena, names->at, names->count, &names->capacity, sizeof *at);
    if (at == NULL)
        return false;
    names->at = at;
    at[names->count++] = (xcvm_indexed_name){text, length, number};
    return true;
}

static int compare_text(const xcvm_indexed_name *a, const char *text, size_t length)
{
    size_t shorter = a->length < length ? a->length : length;
    int order = shorter > 0 ? memcmp(a->text, text, shorter) : 0;
    return order != 0 ? order : (a->length > length) - (a->length < length);
}

static bool is_before(const xcvm_indexed_name *a, const xcvm_indexed_name *b)
{
    int order = compare_text(a, b->text, b->length);
    return order < 0 || (order == 0 && a->number < b->number);
}

static void sift_down(xcvm_indexed_name *heap, size_t root, size_t count)
{
    for (;;) {
        size_t child = root * 2 + 1;
        if (child >= count)
            return;
        if (child + 1 < count && is_before(&heap[child], &heap[child + 1]))
            child++;
        if (!is_before(&heap[root], &heap[child]))
            return;
        xcvm_indexed_name moved = heap[root];
        heap[root] = heap[child];
        heap[child] = moved;
        root = child;
    }
}

/* Heapsort, because qsort may call malloc. */
void xcvm_name_index_sort(xcvm_name_index *names)
{
    for (size_t i = names->count / 2; i-- > 0;)
        sift_down(names->at, i, names->count);
    for (size_t last = names->count; last-- > 1;) {
        xcvm_indexed_name greatest = names->at[0];
        names->at[0] = names->at[last];
        names->at[last] = greatest;
        sift_down(names->at, 0, last);
    }
}

size_t xcvm_name_index_find(const xcvm_name_index *names, const char *text, size_t length,
                            const xcvm_indexed_name **first)
{
    size_t low = 0, high = names->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_text(&names->at[middle], text, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (end < names->count && end < low + 2 && compare_text(&names->at[end], text, length) == 0)
        end++;
    *first = low < end ? &names->at[low] : NULL;
    return end - low;
}
