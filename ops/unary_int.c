/* Element-wise instructions on whole numbers. */
#include "ops/convert.h"
#include "ops/unary.h"

typedef struct int_map {
    xcvm_opcode opcode;
    xcvm_value *y;
    const xcvm_value *x;
} int_map;

/* In 64 bits, of which the element types keep the low ones: so the lowest number is its own absolute value and
 * negative. Those of u64 read as negative numbers only where the sign is looked at, which unsigned types never do. */
static void map_block(xcvm_opcode opcode, bool is_signed, int64_t *v, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool negative = is_signed && v[i] < 0;
        int64_t opposite = (int64_t)(0 - (uint64_t)v[i]);
        switch (opcode) {
        case XCVM_OP_Abs:
            v[i] = negative ? opposite : v[i];
            break;
        case XCVM_OP_Neg:
            v[i] = opposite;
            break;
        case XCVM_OP_Sign:
            v[i] = negative ? -1 : v[i] != 0;
            break;
        default:
            v[i] = negative ? 0 : v[i];
            break;
        }
    }
}

static void map_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const int_map *m = context;
    xcvm_dtype dtype = m->x->dtype;
    int64_t block[XCVM_BLOCK];
    for (size_t at = begin; at < end; at += XCVM_BLOCK) {
        size_t n = end - at < XCVM_BLOCK ? end - at : XCVM_BLOCK;
        xcvm_load_i64(dtype, m->x->data, at, n, block);
        map_block(m->opcode, xcvm_dtype_in(dtype, XCVM_TYPES_SIGNED), block, n);
        xcvm_store_i64(dtype, m->y->data, at, n, block);
    }
}

xcvm_status xcvm_unary_int(xcvm_kernel *k, xcvm_opcode opcode, xcvm_value *y, const xcvm_value *x)
{
    int_map map = {opcode, y, x};
    return xcvm_kernel_parallel(k, xcvm_element_count(x), 16384, map_range, &map);
}

xcvm_status xcvm_clip_int(const xcvm_kernel *k, xcvm_value *y, const xcvm_value *x, const xcvm_value *min,
                          const xcvm_value *max)
{
    /* Flipping the highest bit of u64 puts its numbers into the order of i64. */
    xcvm_dtype dtype = x->dtype;
    uint64_t flip = dtype == XCVM_U64 ? UINT64_C(1) << 63 : 0;
    int64_t low = INT64_MIN, high = INT64_MAX, block[XCVM_BLOCK];
    if (min != NULL) {
        xcvm_load_i64(dtype, min->data, 0, 1, &low);
        low = (int64_t)((uint64_t)low ^ flip);
    }
    if (max != NULL) {
        xcvm_load_i64(dtype, max->data, 0, 1, &high);
        high = (int64_t)((uint64_t)high ^ flip);
    }
    size_t count = xcvm_element_count(x);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t at = 0; at < count; at += XCVM_BLOCK) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_BLOCK));
        size_t n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        xcvm_load_i64(dtype, x->data, at, n, block);
        for (size_t i = 0; i < n; i++) {
            int64_t v = (int64_t)((uint64_t)block[i] ^ flip);
            v = v < low ? low : v;
            v = v > high ? high : v;
            block[i] = (int64_t)((uint64_t)v ^ flip);
        }
        xcvm_store_i64(dtype, y->data, at, n, block);
    }
    return XCVM_OK;
}
