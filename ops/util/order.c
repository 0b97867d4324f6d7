/* Sorting: order-preserving integer keys of elements, and stable sorts. */
#include "ops/util/order.h"

/* Key of an IEEE number of `bits` bits: negative numbers are reversed and below the others. */
static inline uint64_t float_key(uint64_t word, int bits, uint64_t infinity)
{
    const uint64_t sign = UINT64_C(1) << (bits - 1), magnitude = word & (sign - 1);
    const uint64_t key = word & sign ? sign - magnitude : sign + magnitude;
    return magnitude > infinity ? UINT64_MAX : key;
}

#define KEYS(type, key)                                                                                                \
    do {                                                                                                               \
        const type *from = XCVM_CDATA(type, tensor) + begin;                                                           \
        for (size_t i = 0; i < count; i++) {                                                                           \
            type x = from[i * stride];                                                                                 \
            keys[i] = (key);                                                                                           \
        }                                                                                                              \
    } while (0)
#define SIGN (UINT64_C(1) << 63)

void xcvm_order_keys(const xcvm_value *tensor, size_t begin, size_t stride, size_t count, uint64_t *keys)
{
    switch ((xcvm_dtype)tensor->dtype) {
    case XCVM_F32:
        KEYS(uint32_t, float_key(x, 32, 0x7f800000));
        break;
    case XCVM_F64:
        KEYS(uint64_t, float_key(x, 64, UINT64_C(0x7ff0000000000000)));
        break;
    case XCVM_F16:
        KEYS(uint16_t, float_key(x, 16, 0x7c00));
        break;
    case XCVM_BF16:
        KEYS(uint16_t, float_key(x, 16, 0x7f80));
        break;
    case XCVM_I8:
        KEYS(int8_t, (uint64_t)x ^ SIGN);
        break;
    case XCVM_I16:
        KEYS(int16_t, (uint64_t)x ^ SIGN);
        break;
    case XCVM_I32:
        KEYS(int32_t, (uint64_t)x ^ SIGN);
        break;
    case XCVM_I64:
        KEYS(int64_t, (uint64_t)x ^ SIGN);
        break;
    case XCVM_U16:
        KEYS(uint16_t, x);
        break;
    case XCVM_U32:
        KEYS(uint32_t, x);
        break;
    case XCVM_U64:
        KEYS(uint64_t, x);
        break;
    default: /* u8 and bool */
        KEYS(uint8_t, x);
        break;
    }
}

xcvm_status xcvm_order_sort(const xcvm_kernel *k, int64_t *items, int64_t *spare, size_t count,
                            xcvm_order_compare compare, const void *context)
{
    enum { SHORT = 12, LONG = 1024 };
    if (count <= SHORT) {
        for (size_t i = 1; i < count; i++) {
            int64_t item = items[i];
            size_t j = i;
            for (; j > 0 && compare(context, items[j - 1], item) > 0; j--)
                items[j] = items[j - 1];
            items[j] = item;
        }
        return XCVM_OK;
    }
    if (count > LONG)
        XCVM_TRY(xcvm_kernel_poll(k));
    size_t half = count / 2, left = 0, right = half, to = 0;
    XCVM_TRY(xcvm_order_sort(k, items, spare, half, compare, context));
    XCVM_TRY(xcvm_order_sort(k, items + half, spare, count - half, compare, context));
    if (compare(context, items[half - 1], items[half]) <= 0)
        return XCVM_OK;
    memcpy(spare, items, half * sizeof *items);
    while (left < half && right < count)
        items[to++] = compare(context, spare[left], items[right]) <= 0 ? spare[left++] : items[right++];
    memcpy(items + to, spare + left, (half - left) * sizeof *items);
    return XCVM_OK;
}

/* Radix sort by byte from the lowest, skipping bytes that are equal in all keys. */
xcvm_status xcvm_order_sort_keys(const xcvm_kernel *k, uint64_t **keys, int64_t **items, uint64_t *spare_keys,
                                 int64_t *spare, size_t count)
{
    enum { DIGITS = 8, VALUES = 256 };
    size_t places[DIGITS][VALUES] = {0};
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, DIGITS));
        for (int d = 0; d < DIGITS; d++)
            places[d][(*keys)[i] >> (8 * d) & 0xff]++;
    }
    for (int d = 0; d < DIGITS && count > 0; d++) {
        size_t *place = places[d], sum = 0;
        uint64_t *from = *keys;
        int64_t *from_items = *items;
        if (place[from[0] >> (8 * d) & 0xff] == count)
            continue;
        for (int v = 0; v < VALUES; v++) {
            const size_t times = place[v];
            place[v] = sum;
            sum += times;
        }
        for (size_t i = 0; i < count; i++) {
            XCVM_TRY(xcvm_poll_after(&poller, 1));
            const size_t to = place[from[i] >> (8 * d) & 0xff]++;
            spare_keys[to] = from[i];
            spare[to] = from_items[i];
        }
        *keys = spare_keys;
        *items = spare;
        spare_keys = from;
        spare = from_items;
    }
    return XCVM_OK;
}
