/* Moving of elements of any type, including strings: multithreaded strided copies and fills. */
#include "ops/util/move.h"

/* Bytes that are written at once, and between polls. */
enum { LINE = 64, PORTION = 1 << 16 };

xcvm_status xcvm_move_fill(const xcvm_kernel *k, void *to, const void *element, size_t size, size_t count)
{
    if (count == 0)
        return XCVM_OK;
    const unsigned char *bytes = element;
    xcvm_poller poller = xcvm_poller_of(k);
    bool same = true;
    for (size_t i = 1; i < size; i++)
        same = same && bytes[i] == bytes[0];
    if (same)
        return xcvm_kernel_fill(k, to, bytes[0], size * count);
    unsigned char pattern[LINE];
    for (size_t i = 0; i < LINE; i += size)
        xcvm_move_element(pattern + i, element, size);
    char *at = to;
    for (size_t left = size * count; left != 0;) {
        const size_t next = left < PORTION ? left : PORTION, lines = next / LINE;
        for (size_t i = 0; i < lines; i++)
            memcpy(at + i * LINE, pattern, LINE);
        memcpy(at + lines * LINE, pattern, next % LINE);
        at += next;
        left -= next;
        XCVM_TRY(xcvm_poll_after(&poller, next / XCVM_STEP_BYTES));
    }
    return XCVM_OK;
}

/* Calls unpack or pack in portions of whole bytes with polls in between. */
static xcvm_status unpack_all(const xcvm_kernel *k, const xcvm_value *packed, size_t bits, uint8_t *bytes)
{
    const size_t count = xcvm_element_count(packed);
    for (size_t at = 0; at < count; at += XCVM_POLL_STEPS) {
        xcvm_unpack(XCVM_CDATA(uint8_t, packed) + at * bits / 8, bits, xcvm_min(count - at, XCVM_POLL_STEPS),
                    bytes + at);
        XCVM_TRY(xcvm_kernel_poll(k));
    }
    return XCVM_OK;
}

static xcvm_status pack_all(const xcvm_kernel *k, const uint8_t *bytes, size_t bits, xcvm_value *packed)
{
    const size_t count = xcvm_element_count(packed);
    for (size_t at = 0; at < count; at += XCVM_POLL_STEPS) {
        xcvm_pack(bytes + at, bits, xcvm_min(count - at, XCVM_POLL_STEPS), XCVM_DATA(uint8_t, packed) + at * bits / 8);
        XCVM_TRY(xcvm_kernel_poll(k));
    }
    return XCVM_OK;
}

typedef struct wide {
    uint64_t low, high;
} wide;

/* Runs MOVE with an element type of each size. */
#define FOR_SIZE(MOVE)                                                                                                 \
    switch (size) {                                                                                                    \
    case 1:                                                                                                            \
        MOVE(uint8_t);                                                                                                 \
        break;                                                                                                         \
    case 2:                                                                                                            \
        MOVE(uint16_t);                                                                                                \
        break;                                                                                                         \
    case 4:                                                                                                            \
        MOVE(uint32_t);                                                                                                \
        break;                                                                                                         \
    case 8:                                                                                                            \
        MOVE(uint64_t);                                                                                                \
        break;                                                                                                         \
    default:                                                                                                           \
        MOVE(wide);                                                                                                    \
        break;                                                                                                         \
    }

void xcvm_move_gather(void *to, const void *from, size_t size, size_t count, const ptrdiff_t *offsets)
{
    xcvm_move_gather_rows(to, from, size, 1, 0, count, offsets);
}

void xcvm_move_gather_rows(void *to, const void *from, size_t size, size_t rows, size_t stride, size_t count,
                           const ptrdiff_t *offsets)
{
#define GATHER(type)                                                                                                   \
    for (size_t r = 0; r < rows; r++)                                                                                  \
        for (size_t i = 0; i < count; i++)                                                                             \
    ((type *)to)[r * count + i] = ((const type *)from + r * stride)[offsets[i]]
    FOR_SIZE(GATHER)
}

void xcvm_move_scatter(void *to, const void *from, size_t size, size_t count, const ptrdiff_t *offsets)
{
#define SCATTER(type)                                                                                                  \
    for (size_t i = 0; i < count; i++)                                                                                 \
    ((type *)to)[offsets[i]] = ((const type *)from)[i]
    FOR_SIZE(SCATTER)
}

void xcvm_unpack(const void *packed, size_t bits, size_t count, uint8_t *bytes)
{
    const uint8_t *from = packed;
    unsigned mask = (1U << bits) - 1;
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)((unsigned)from[i * bits / 8] >> i * bits % 8 & mask);
}

void xcvm_pack(const uint8_t *bytes, size_t bits, size_t count, void *packed)
{
    uint8_t *to = packed;
    unsigned mask = (1U << bits) - 1;
    memset(to, 0, (count * bits + 7) / 8);
    for (size_t i = 0; i < count; i++)
        to[i * bits / 8] = (uint8_t)(to[i * bits / 8] | (bytes[i] & mask) << i * bits % 8);
}

/* A move: its values, and the pointers for the body. */
typedef struct job {
    xcvm_kernel *k;
    size_t from_count, to_count;
    const xcvm_value *const *from;
    xcvm_value *const *to;
    xcvm_move_body body;
    const void *context;
    const void **from_data;
    void **to_data;
} job;

static const uint64_t zeros[2] = {0, 0};

static xcvm_status move_fixed(const job *j, size_t size)
{
    for (size_t i = 0; i < j->from_count; i++)
        j->from_data[i] = j->from[i]->data;
    for (size_t i = 0; i < j->to_count; i++)
        j->to_data[i] = j->to[i] != NULL ? j->to[i]->data : NULL;
    xcvm_moving m = {j->k, size, j->from_data, j->to_data, zeros};
    return j->body(&m, j->context);
}

/* Elements of all operands and results; false on overflow. */
static bool count_all(const job *j, size_t *in, size_t *out)
{
    *in = *out = 0;
    for (size_t i = 0; i < j->from_count; i++)
        if (!xcvm_size_add(*in, xcvm_element_count(j->from[i]), in))
            return false;
    for (size_t i = 0; i < j->to_count; i++)
        if (j->to[i] != NULL && !xcvm_size_add(*out, xcvm_element_count(j->to[i]), out))
            return false;
    return true;
}

static xcvm_status move_packed(const job *j, size_t bits, uint8_t *at)
{
    for (size_t i = 0; i < j->from_count; i++) {
        size_t count = xcvm_element_count(j->from[i]);
        XCVM_TRY(unpack_all(j->k, j->from[i], bits, at));
        j->from_data[i] = at;
        at += count;
    }
    for (size_t i = 0; i < j->to_count; i++) {
        j->to_data[i] = j->to[i] != NULL ? at : NULL;
        if (j->to[i] != NULL)
            at += xcvm_element_count(j->to[i]);
    }
    xcvm_moving m = {j->k, 1, j->from_data, j->to_data, zeros};
    XCVM_TRY(j->body(&m, j->context));
    for (size_t i = 0; i < j->to_count; i++)
        if (j->to[i] != NULL)
            XCVM_TRY(pack_all(j->k, j->to_data[i], bits, j->to[i]));
    return XCVM_OK;
}

/* Strings are moved as numbers, which count the strings of all operands. */
static const char *string_of(const job *j, int64_t number, size_t *length)
{
    *length = 0;
    if (number < 0)
        return NULL;
    size_t index = (size_t)number;
    for (size_t i = 0; i < j->from_count; i++) {
        size_t count = xcvm_element_count(j->from[i]);
        if (index < count)
            return xcvm_string_at(j->from[i], index, length);
        index -= count;
    }
    return NULL;
}

static xcvm_status fetch_strings(const job *j, xcvm_value *out, const int64_t *numbers)
{
    if (j->from_count == 1)
        return xcvm_kernel_gather_strings(j->k, out, j->from[0], numbers);
    size_t count = xcvm_element_count(out), characters = 0, length;
    xcvm_poller poller = xcvm_poller_of(j->k);
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1 + j->from_count));
        string_of(j, numbers[i], &length);
        XCVM_CHECK(j->k->error, xcvm_size_add(characters, length, &characters), OUT_OF_RANGE,
                   "a result of strings is too large");
    }
    xcvm_string *spans;
    char *text;
    XCVM_TRY(xcvm_kernel_allocate_strings(j->k, out, out->rank, out->dims, characters, &spans, &text));
    for (size_t i = 0; i < count; i++) {
        const char *string = string_of(j, numbers[i], &length);
        spans[i] = (xcvm_string){(uint64_t)(text - (char *)spans), length};
        XCVM_TRY(xcvm_poll_after(&poller, 1 + j->from_count + length / XCVM_STEP_BYTES));
        XCVM_TRY(xcvm_kernel_copy(j->k, text, string, length));
        text += length;
    }
    return XCVM_OK;
}

static xcvm_status move_strings(const job *j, int64_t *at)
{
    static const int64_t none = -1;
    xcvm_poller poller = xcvm_poller_of(j->k);
    int64_t number = 0;
    for (size_t i = 0; i < j->from_count; i++) {
        size_t count = xcvm_element_count(j->from[i]);
        j->from_data[i] = at;
        while (count-- > 0) {
            XCVM_TRY(xcvm_poll_after(&poller, 1));
            *at++ = number++;
        }
    }
    for (size_t i = 0; i < j->to_count; i++) {
        j->to_data[i] = j->to[i] != NULL ? at : NULL;
        if (j->to[i] != NULL)
            at += xcvm_element_count(j->to[i]);
    }
    xcvm_moving m = {j->k, sizeof none, j->from_data, j->to_data, &none};
    XCVM_TRY(j->body(&m, j->context));
    for (size_t i = 0; i < j->to_count; i++)
        if (j->to[i] != NULL)
            XCVM_TRY(fetch_strings(j, j->to[i], j->to_data[i]));
    return XCVM_OK;
}

xcvm_status xcvm_move(xcvm_kernel *k, size_t from_count, const xcvm_value *const *from, size_t to_count,
                      xcvm_value *const *to, xcvm_move_body body, const void *context)
{
    enum { FEW = 8 };
    const void *few_from[FEW];
    void *few_to[FEW];
    job j = {k, from_count, to_count, from, to, body, context, few_from, few_to};
    xcvm_dtype dtype = from[0]->dtype;
    size_t size = xcvm_dtype_size(dtype);
    bool fixed_size = size != 0 && dtype != XCVM_STRING, few = from_count <= FEW && to_count <= FEW;
    if (fixed_size && few)
        return move_fixed(&j, size);
    size_t in = 0, out = 0, total;
    XCVM_CHECK(k->error, fixed_size || count_all(&j, &in, &out), OUT_OF_RANGE, "too many elements");
    bool fits = xcvm_size_add(in, out, &total) && xcvm_size_mul(total, dtype == XCVM_STRING ? 8 : 1, &total) &&
                xcvm_size_add(total, (from_count + to_count) * sizeof(void *), &total);
    XCVM_CHECK(k->error, fits, OUT_OF_RANGE, "too many elements");
    char *scratch = xcvm_kernel_scratch(k, total);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    j.from_data = (const void **)(void *)scratch;
    j.to_data = (void **)(void *)scratch + from_count;
    scratch += (from_count + to_count) * sizeof(void *);
    if (fixed_size)
        return move_fixed(&j, size);
    if (dtype == XCVM_STRING)
        return move_strings(&j, (int64_t *)(void *)scratch);
    return move_packed(&j, (size_t)xcvm_dtype_bits(dtype), (uint8_t *)scratch);
}

xcvm_status xcvm_move_all(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x)
{
    if (y->data == x->data && y->data != NULL) {
        y->bytes = x->bytes;
        return XCVM_OK;
    }
    if (y->data == NULL) {
        xcvm_value shape = *y;
        xcvm_value_clear(y);
        XCVM_TRY(xcvm_kernel_keep(k, y, x));
        y->rank = shape.rank;
        memcpy(y->dims, shape.dims, sizeof y->dims);
        return XCVM_OK;
    }
    return xcvm_kernel_copy(k, y->data, x->data, x->bytes);
}
