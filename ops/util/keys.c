/* Keys of lookups: comparison, binary search, and a hash table. */
#include "ops/util/keys.h"

#include <math.h>

int xcvm_keys_compare(const xcvm_value *x, size_t i, const xcvm_value *keys, size_t j)
{
    if (x->dtype == XCVM_STRING) {
        size_t n, m;
        const char *p = xcvm_string_at(x, i, &n), *q = xcvm_string_at(keys, j, &m);
        const size_t shorter = n < m ? n : m;
        const int order = shorter > 0 ? memcmp(p, q, shorter) : 0;
        return order != 0 ? order : (n > m) - (n < m);
    }
    if (xcvm_dtype_is_float((xcvm_dtype)x->dtype)) {
        const double p = xcvm_element_as_double(x, i), q = xcvm_element_as_double(keys, j);
        if (isnan(p) || isnan(q))
            return (isnan(p) != 0) - (isnan(q) != 0);
        return (p > q) - (p < q);
    }
    const int64_t p = xcvm_element_as_int(x, i), q = xcvm_element_as_int(keys, j);
    return (p > q) - (p < q);
}

size_t xcvm_keys_steps(const xcvm_value *x, size_t i)
{
    size_t length = 0;
    if (x->dtype == XCVM_STRING)
        xcvm_string_at(x, i, &length);
    return 1 + length / XCVM_STEP_BYTES;
}

int64_t xcvm_keys_find(const xcvm_value *x, size_t i, const xcvm_value *keys, const int64_t *order, size_t count)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int64_t at = order != NULL ? order[middle] : (int64_t)middle;
        const int sign = xcvm_keys_compare(x, i, keys, (size_t)at);
        if (sign == 0)
            return at;
        if (sign < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

/* ---- Tables ---- */

/* Knuth's multiplier, 2^64 divided by the golden ratio: the upper bits of a product depend on all bits. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * SPREAD;
    return hash ^ hash >> 32;
}

/* Reads eight bytes at a time. The last reads overlap, so that none is past the end. */
static uint64_t hash_string(const char *text, size_t length)
{
    uint64_t hash = length, word;
    uint32_t first, last;
    for (; length > sizeof word; text += sizeof word, length -= sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = mix(hash, word);
    }
    if (length >= sizeof first) {
        memcpy(&first, text, sizeof first);
        memcpy(&last, text + length - sizeof last, sizeof last);
        return mix(hash, (uint64_t)first << 32 | last);
    }
    if (length == 0)
        return hash;
    const unsigned char *bytes = (const unsigned char *)text;
    return mix(hash, (uint64_t)bytes[0] << 16 | (uint64_t)bytes[length / 2] << 8 | bytes[length - 1]);
}

/* Equal elements have equal words; different numbers have different ones. */
static uint64_t word_of(const xcvm_value *x, size_t i)
{
    if (x->dtype == XCVM_I64)
        return (uint64_t)XCVM_CDATA(int64_t, x)[i];
    if (x->dtype == XCVM_STRING) {
        size_t length;
        const char *text = xcvm_string_at(x, i, &length);
        return hash_string(text, length);
    }
    if (!xcvm_dtype_is_float((xcvm_dtype)x->dtype))
        return (uint64_t)xcvm_element_as_int(x, i);
    const double value = xcvm_element_as_double(x, i) + 0.0; /* one zero and one NaN */
    uint64_t word = UINT64_MAX;
    if (!isnan(value))
        memcpy(&word, &value, sizeof word);
    return word;
}

/* Returns true if a slot is free or its key has these bytes. */
static __attribute__((noinline)) bool has_bytes(const xcvm_key_table *t, const xcvm_key_slot *slot, const char *text,
                                                size_t length)
{
    size_t others;
    return slot->at < 0 || memcmp(text, xcvm_string_at(t->keys, (size_t)slot->at, &others), length) == 0;
}

/* Returns true if a slot is free or has the string, whose word equals the slot's. Strings of equal length no longer
 * than a word are equal if their words are. */
static bool is_place_of(const xcvm_key_table *t, const xcvm_key_slot *slot, const char *text, size_t length)
{
    const uint64_t taken = ~(uint64_t)(slot->at >> 63);
    const uint64_t others = ((const xcvm_string *)t->keys->data)[(uint64_t)slot->at & taken].length;
    return ((others ^ length) & taken) == 0 && (length <= sizeof slot->word || has_bytes(t, slot, text, length));
}

/* Finds the slot of a string with this word: the one that has it, or a free one. Hits and misses use the same code,
 * because a branch would be unpredictable. */
static xcvm_key_slot *slot_of_string(const xcvm_key_table *t, const char *text, size_t length, uint64_t word,
                                     size_t *probes)
{
    const size_t mask = (size_t)(UINT64_MAX >> t->shift);
    for (size_t at = (size_t)(word * SPREAD >> t->shift);; at = (at + 1) & mask, ++*probes) {
        xcvm_key_slot *slot = &t->slots[at];
        const uint64_t taken = ~(uint64_t)(slot->at >> 63);
        if (((slot->word ^ word) & taken) == 0 && is_place_of(t, slot, text, length))
            return slot;
    }
}

/* Finds the slot of element i of x, whose word is given: the one that has it, or a free one. */
static xcvm_key_slot *slot_of(const xcvm_key_table *t, const xcvm_value *x, size_t i, uint64_t word, size_t *probes)
{
    if (t->span != 0)
        return &t->slots[word - t->least];
    if (x->dtype == XCVM_STRING) {
        size_t length;
        const char *text = xcvm_string_at(x, i, &length);
        return slot_of_string(t, text, length, word, probes);
    }
    const size_t mask = (size_t)(UINT64_MAX >> t->shift);
    for (size_t at = (size_t)(word * SPREAD >> t->shift);; at = (at + 1) & mask, ++*probes) {
        xcvm_key_slot *slot = &t->slots[at];
        if ((slot->at < 0) | (slot->word == word))
            return slot;
    }
}

/* Computes the number of integers from the smallest to the largest key; 0 if it exceeds the slots. */
static xcvm_status find_span(xcvm_poller *poller, xcvm_key_table *t, size_t count, size_t slots)
{
    if (t->keys->dtype == XCVM_STRING || xcvm_dtype_is_float((xcvm_dtype)t->keys->dtype) || count == 0)
        return XCVM_OK;
    int64_t least = INT64_MAX, greatest = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(poller, 1));
        const int64_t key = (int64_t)word_of(t->keys, i);
        least = key < least ? key : least;
        greatest = key > greatest ? key : greatest;
    }
    const uint64_t distance = (uint64_t)greatest - (uint64_t)least;
    t->least = (uint64_t)least;
    t->span = distance < slots ? distance + 1 : 0;
    return XCVM_OK;
}

/* At most half of the slots are used; in small tables an eighth, so that nearly all lookups need one probe. */
static int slot_bits(size_t count)
{
    enum { FEW = 2048 };
    const size_t slots = count <= FEW ? 8 * count : 2 * count;
    int bits = 4;
    while (bits < 62 && (size_t)1 << bits < slots)
        bits++;
    return bits;
}

bool xcvm_key_table_bytes(size_t count, size_t *bytes)
{
    return count < SIZE_MAX / 4 && xcvm_size_mul((size_t)1 << slot_bits(count), sizeof(xcvm_key_slot), bytes);
}

/* The longest run of used slots, which bounds the probes of a miss. A run across the end of the table counts as two. */
static xcvm_status find_longest_run(xcvm_poller *poller, const xcvm_key_slot *slots, size_t count, size_t *longest)
{
    *longest = 0;
    for (size_t i = 0, run = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(poller, 1));
        run = slots[i].at < 0 ? 0 : run + 1;
        *longest = run > *longest ? run : *longest;
    }
    return XCVM_OK;
}

xcvm_status xcvm_key_table_make(const xcvm_kernel *k, const xcvm_value *keys, xcvm_key_slot *slots,
                                xcvm_key_table *table, bool *made)
{
    /* Keys without an adversary stay far below both limits: with a billion keys, the longest run is about a hundred
     * slots. */
    enum { MOST_PROBES = 64, LONGEST_RUN = 512 };
    const size_t count = xcvm_element_count(keys);
    const int bits = slot_bits(count);
    *table = (xcvm_key_table){.keys = keys, .slots = slots, .shift = 64 - bits};
    *made = true;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < (size_t)1 << bits; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        slots[i] = (xcvm_key_slot){0, -1};
    }
    XCVM_TRY(find_span(&poller, table, count, (size_t)1 << bits));
    for (size_t i = 0; i < count && *made; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, xcvm_keys_steps(keys, i)));
        const uint64_t word = word_of(keys, i);
        size_t probes = 0;
        xcvm_key_slot *slot = slot_of(table, keys, i, word, &probes);
        if (slot->at < 0)
            *slot = (xcvm_key_slot){word, (int64_t)i};
        *made = probes <= MOST_PROBES;
    }
    if (*made && table->span == 0) {
        size_t longest;
        XCVM_TRY(find_longest_run(&poller, slots, (size_t)1 << bits, &longest));
        *made = longest <= LONGEST_RUN;
    }
    return XCVM_OK;
}

xcvm_status xcvm_key_table_find(const xcvm_key_table *table, xcvm_poller *poller, const xcvm_value *x, size_t begin,
                                size_t count, int64_t *positions)
{
    if (x->dtype != XCVM_STRING)
        XCVM_TRY(xcvm_poll_after(poller, count));
    if (table->span != 0) {
        /* Numbers out of range use the first slot until the end, because a branch would be unpredictable. */
        const int64_t *words = x->dtype == XCVM_I64 ? XCVM_CDATA(int64_t, x) + begin : NULL;
        for (size_t i = 0; i < count; i++) {
            const uint64_t word = words != NULL ? (uint64_t)words[i] : word_of(x, begin + i);
            const uint64_t distance = word - table->least;
            const int64_t at = table->slots[distance < table->span ? distance : 0].at;
            positions[i] = distance < table->span ? at : -1;
        }
        return XCVM_OK;
    }
    size_t probes = 0;
    for (size_t i = 0; i < count && x->dtype == XCVM_STRING; i++) {
        size_t length;
        const char *text = xcvm_string_at(x, begin + i, &length);
        XCVM_TRY(xcvm_poll_after(poller, 2 * xcvm_keys_steps(x, begin + i)));
        positions[i] = slot_of_string(table, text, length, hash_string(text, length), &probes)->at;
    }
    for (size_t i = 0; i < count && x->dtype != XCVM_STRING; i++)
        positions[i] = slot_of(table, x, begin + i, word_of(x, begin + i), &probes)->at;
    return xcvm_poll_after(poller, probes);
}
