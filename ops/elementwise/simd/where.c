/* Where, for elements of any type. */
#include "ops/util/broadcast.h"
#include "ops/util/convert.h"
#include "ops/util/move.h"

#include "ops/simd/math.h"

typedef struct where_loop {
    xcvm_broadcast plan; /* of condition, x and z */
    const uint8_t *condition;
    const void *from[2];
    bool single[2]; /* the operand has one element */
    void *to;
    size_t size;
} where_loop;

/* An element of 16 bytes. */
typedef struct pair {
    uint64_t halves[2];
} pair;

/* The callers repeat broadcast elements. */
#define CHOOSE(type)                                                                                                   \
    do {                                                                                                               \
        const type *from_x = x, *from_z = z;                                                                           \
        type *y = (type *)t->to + at;                                                                                  \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const type u = from_x[i], v = from_z[i];                                                                   \
            y[i] = condition[i] != 0 ? u : v;                                                                          \
        }                                                                                                              \
    } while (0)

static void choose(const where_loop *t, const uint8_t *condition, const void *x, const void *z, size_t at, size_t count)
{
    switch (t->size) {
    case 1:
        CHOOSE(uint8_t);
        break;
    case 2:
        CHOOSE(uint16_t);
        break;
    case 4:
        CHOOSE(uint32_t);
        break;
    case 8:
        CHOOSE(uint64_t);
        break;
    default:
        for (size_t i = 0; i < count; i++)
            memcpy((pair *)t->to + at + i, (const pair *)(condition[i] != 0 ? x : z) + i, sizeof(pair));
        break;
    }
}

static void choose_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const where_loop *t = context;
    uint8_t conditions[XCVM_BLOCK];
    pair spread[2][XCVM_BLOCK];
    for (size_t at = begin; at < end; at += XCVM_BLOCK) {
        size_t n = end - at < XCVM_BLOCK ? end - at : XCVM_BLOCK;
        const void *from[2];
        for (int o = 0; o < 2; o++) {
            bool whole = t->plan.whole[o + 1];
            from[o] = whole ? (const char *)t->from[o] + at * t->size : (const char *)spread[o];
            /* A single element is expanded only once. */
            if (!whole && (!t->single[o] || at == begin))
                xcvm_broadcast_spread(&t->plan, o + 1, t->from[o], t->size, at, n, spread[o]);
        }
        if (!t->plan.whole[0])
            xcvm_broadcast_spread(&t->plan, 0, t->condition, 1, at, n, conditions);
        choose(t, t->plan.whole[0] ? t->condition + at : conditions, from[0], from[1], at, n);
    }
}

static xcvm_status where_elements(const xcvm_moving *m, const void *context)
{
    const xcvm_Where_args *a = context;
    where_loop t = {.condition = a->condition->data,
                    .from = {m->from[0], m->from[1]},
                    .single = {xcvm_element_count(a->x) == 1, xcvm_element_count(a->z) == 1},
                    .to = m->to[0],
                    .size = m->size};
    xcvm_broadcast_plan(&t.plan, a->y, (const xcvm_value *const[]){a->condition, a->x, a->z}, 3);
    if (t.plan.count == 0)
        return XCVM_OK;
    return xcvm_kernel_parallel(m->k, t.plan.count, 32768, choose_range, &t);
}

XCVM_KERNEL(Where) { return xcvm_move(k, 2, (const xcvm_value *const[]){a->x, a->z}, 1, &a->y, where_elements, a); }
