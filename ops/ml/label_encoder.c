/* LabelEncoder: looking elements up in a list of keys. */
#include "ops/keys.h"

XCVM_SHAPE_RULE_OF(LabelEncoder)
{
    XCVM_REQUIRE(t, a->keys->rank < 0 || a->keys->rank == 1, SHAPE_MISMATCH, "keys has rank %d, 1 is needed",
                 a->keys->rank);
    XCVM_REQUIRE(t, a->values->rank < 0 || a->values->rank == 1, SHAPE_MISMATCH, "values has rank %d, 1 is needed",
                 a->values->rank);
    if (a->keys->rank == 1 && a->values->rank == 1)
        XCVM_REQUIRE(t, !xcvm_dims_differ(a->keys->dims[0], a->values->dims[0]), SHAPE_MISMATCH,
                     "there are %lld keys and %lld values", (long long)a->keys->dims[0], (long long)a->values->dims[0]);
    XCVM_REQUIRE(t, !xcvm_dims_known(a->otherwise) || xcvm_element_count(a->otherwise) == 1, SHAPE_MISMATCH,
                 "otherwise must have one element");
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->y->dtype, a->x->rank, a->x->dims);
    return XCVM_OK;
}

typedef struct lookup {
    const xcvm_kernel *k;
    const xcvm_LabelEncoder_args *args;
    int64_t *positions; /* NULL: elements are written at once */
    size_t size;        /* of an element of y */
} lookup;

static void look_up(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const lookup *l = context;
    const xcvm_LabelEncoder_args *a = l->args;
    xcvm_poller poller = xcvm_poller_of(l->k);
    for (size_t i = begin; i < end; i++) {
        if (xcvm_poll_after(&poller, XCVM_KEYS_HALVINGS * xcvm_keys_steps(a->x, i)) != XCVM_OK)
            return;
        const int64_t at = xcvm_keys_find(a->x, i, a->keys, NULL, (size_t)a->keys->dims[0]);
        if (l->positions != NULL)
            l->positions[i] = at;
        else
            memcpy((char *)a->y->data + i * l->size,
                   at >= 0 ? (const char *)a->values->data + (size_t)at * l->size : (const char *)a->otherwise->data,
                   l->size);
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
        const char *string = positions[i] >= 0 ? xcvm_string_at(a->values, (size_t)positions[i], &length)
                                               : xcvm_string_at(a->otherwise, 0, &length);
        spans[i] = (xcvm_string){.offset = offset, .length = length};
        XCVM_TRY(xcvm_poll_after(&poller, 1 + length / XCVM_STEP_BYTES));
        XCVM_TRY(xcvm_kernel_copy(k, text, string, length));
        text += length;
        offset += length;
    }
    return XCVM_OK;
}

XCVM_KERNEL(LabelEncoder)
{
    const size_t count = xcvm_element_count(a->x);
    lookup l = {.k = k, .args = a, .size = xcvm_dtype_size((xcvm_dtype)a->y->dtype)};
    if (a->y->dtype != XCVM_STRING)
        return xcvm_kernel_parallel(k, count, 4096, look_up, &l);
    size_t bytes;
    XCVM_CHECK(k->error, xcvm_size_mul(count, sizeof *l.positions, &bytes), OUT_OF_RANGE, "x is too large");
    l.positions = xcvm_kernel_scratch(k, bytes);
    if (l.positions == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcvm_kernel_parallel(k, count, 4096, look_up, &l));
    return write_strings(k, a, l.positions);
}
