/* LabelEncoder: lookup of elements in a list of keys. */
#include "ops/util/convert.h"
#include "ops/util/keys.h"
#include "ops/util/move.h"

XCVM_SHAPE_RULE_OF(LabelEncoder)
{
    XCVM_CHECK(t->error, a->keys->rank < 0 || a->keys->rank == 1, SHAPE_MISMATCH,
               "keys has the wrong rank (%d; expected 1)", a->keys->rank);
    XCVM_CHECK(t->error, a->values->rank < 0 || a->values->rank == 1, SHAPE_MISMATCH,
               "values has the wrong rank (%d; expected 1)", a->values->rank);
    if (a->keys->rank == 1 && a->values->rank == 1)
        XCVM_CHECK(t->error, !xcvm_dims_differ(a->keys->dims[0], a->values->dims[0]), SHAPE_MISMATCH,
                   "there are %lld keys and %lld values", (long long)a->keys->dims[0], (long long)a->values->dims[0]);
    XCVM_CHECK(t->error, !xcvm_dims_known(a->otherwise) || xcvm_element_count(a->otherwise) == 1, SHAPE_MISMATCH,
               "otherwise must have one element");
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->y->dtype, a->x->rank, a->x->dims);
    return XCVM_OK;
}

typedef struct lookup {
    const xcvm_kernel *k;
    const xcvm_LabelEncoder_args *args;
    const xcvm_key_table *table; /* NULL: binary search */
    int64_t *positions;          /* NULL: elements are written directly */
    size_t size;                 /* of an element of y */
} lookup;

/* positions[i] = index of the key that equals element begin + i of x. */
static xcvm_status find(const lookup *l, xcvm_poller *poller, size_t begin, size_t count, int64_t *positions)
{
    const xcvm_LabelEncoder_args *a = l->args;
    if (l->table != NULL)
        return xcvm_key_table_find(l->table, poller, a->x, begin, count, positions);
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(poller, XCVM_KEYS_HALVINGS * xcvm_keys_steps(a->x, begin + i)));
        positions[i] = xcvm_keys_find(a->x, begin + i, a->keys, NULL, (size_t)a->keys->dims[0]);
    }
    return XCVM_OK;
}

static void look_up(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const lookup *l = context;
    const xcvm_LabelEncoder_args *a = l->args;
    const char *const from[2] = {a->otherwise->data, a->values->data};
    char *y = a->y->data;
    int64_t block[XCVM_BLOCK];
    xcvm_poller poller = xcvm_poller_of(l->k);
    for (size_t at = begin, n; at < end; at += n) {
        n = xcvm_min(end - at, XCVM_BLOCK);
        if (find(l, &poller, at, n, l->positions != NULL ? l->positions + at : block) != XCVM_OK)
            return;
        /* Selects without a branch, which would be unpredictable. */
        for (size_t i = 0; i < n && l->positions == NULL; i++) {
            const bool found = block[i] >= 0;
            xcvm_move_element(y + (at + i) * l->size, from[found] + (found ? (size_t)block[i] : 0) * l->size, l->size);
        }
    }
}

/* y = the strings at the positions found. */
static xcvm_status write_strings(xcvm_kernel *k, const xcvm_LabelEncoder_args *a, const int64_t *positions)
{
    const size_t count = xcvm_element_count(a->x);
    size_t characters = 0, length, spare;
    xcvm_poller poller = xcvm_poller_of(k);
    xcvm_string_at(a->otherwise, 0, &spare);
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        length = spare;
        if (positions[i] >= 0)
            xcvm_string_at(a->values, (size_t)positions[i], &length);
        XCVM_CHECK(k->error, xcvm_size_add(characters, length, &characters), OUT_OF_RANGE,
                   "a result of strings is too large");
    }
    xcvm_string *spans;
    char *text;
    XCVM_TRY(xcvm_kernel_allocate_strings(k, a->y, a->y->rank, a->y->dims, characters, &spans, &text));
    size_t offset = count * sizeof *spans;
    for (size_t i = 0; i < count; i++) {
        const xcvm_value *from = positions[i] >= 0 ? a->values : a->otherwise;
        const char *string = xcvm_string_at(from, positions[i] >= 0 ? (size_t)positions[i] : 0, &length);
        spans[i] = (xcvm_string){.offset = offset, .length = length};
        XCVM_TRY(xcvm_poll_after(&poller, 1 + length / XCVM_STEP_BYTES));
        XCVM_TRY(xcvm_kernel_copy_string(k, text, xcvm_strings_end(a->y), string, xcvm_strings_end(from), length));
        text += length;
        offset += length;
    }
    return XCVM_OK;
}

XCVM_KERNEL(LabelEncoder)
{
    /* A table pays off if there are at least keys / LOOKUPS lookups. */
    enum { LOOKUPS = 4, FEW_KEYS = 4 };
    const size_t count = xcvm_element_count(a->x), keys = (size_t)a->keys->dims[0];
    const bool strings = a->y->dtype == XCVM_STRING;
    lookup l = {.k = k, .args = a, .size = xcvm_dtype_size((xcvm_dtype)a->y->dtype)};
    size_t positions = 0, slots = 0, bytes;
    bool made = keys > FEW_KEYS && keys / LOOKUPS <= count;
    XCVM_CHECK(k->error, !strings || xcvm_size_mul(count, sizeof *l.positions, &positions), OUT_OF_RANGE,
               "x is too large");
    XCVM_CHECK(k->error,
               (!made || xcvm_key_table_bytes(keys, &slots)) &&
                   xcvm_size_add(xcvm_round_up(positions, XCVM_ALIGNMENT), slots, &bytes),
               OUT_OF_RANGE, "x or keys are too large");
    char *scratch = NULL;
    if (bytes != 0) {
        scratch = xcvm_kernel_scratch(k, bytes);
        if (scratch == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    xcvm_key_table table;
    if (made)
        XCVM_TRY(xcvm_key_table_make(
            k, a->keys, (xcvm_key_slot *)(void *)(scratch + xcvm_round_up(positions, XCVM_ALIGNMENT)), &table, &made));
    l.table = made ? &table : NULL;
    l.positions = strings ? (int64_t *)(void *)scratch : NULL;
    XCVM_TRY(xcvm_kernel_parallel(k, count, 4096, look_up, &l));
    return strings ? write_strings(k, a, l.positions) : XCVM_OK;
}
