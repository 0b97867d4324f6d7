/* LSTMCell and its gradient: some units of a row at a time, gate by gate. The inputs of a block are read before it is
 * written, so that the gradient of x may share the memory of x. */
#include "ops/recurrent/lstm_cell.h"
#include "ops/simd/halves.h"
#include "ops/simd/math.h"
#include "ops/simd/math_f64.h"

enum { UNITS = 256 };

typedef union block {
    float f32[UNITS];
    double f64[UNITS];
} block;

/* ---- Loops ---- */

/* A call reads each array once. Outputs may equal inputs element by element, but must not overlap them otherwise. */
#define DEFINE_LOOPS(T, type)                                                                                          \
    static void enter_##T(const type *in, const type *g, size_t n, type *c)                                            \
    {                                                                                                                  \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < n; i++)                                                                                 \
            c[i] = xcvm_sigmoid_##T(in[i]) * xcvm_tanh_##T(g[i]);                                                      \
    }                                                                                                                  \
    static void keep_##T(const type *forget, const type *before, size_t n, type *c)                                    \
    {                                                                                                                  \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < n; i++)                                                                                 \
            c[i] += xcvm_sigmoid_##T(forget[i]) * before[i];                                                           \
    }                                                                                                                  \
    static void leave_##T(const type *out, const type *c, size_t n, type *h)                                           \
    {                                                                                                                  \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < n; i++)                                                                                 \
            h[i] = xcvm_sigmoid_##T(out[i]) * xcvm_tanh_##T(c[i]);                                                     \
    }                                                                                                                  \
    /* `dc` is the gradient of the result on entry, and that of the sum's terms on return. */                          \
    static void unleave_##T(const type *out, const type *c, const type *dh, size_t n, type *dc, type *dout)            \
    {                                                                                                                  \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const type s = xcvm_sigmoid_##T(out[i]), t = xcvm_tanh_##T(c[i]), d = dh[i];                               \
            dc[i] += d * s * (1 - t * t);                                                                              \
            dout[i] = d * t * s * (1 - s);                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void unkeep_##T(const type *forget, const type *before, const type *dc, size_t n, type *dforget,            \
                           type *dbefore)                                                                              \
    {                                                                                                                  \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const type s = xcvm_sigmoid_##T(forget[i]), d = dc[i];                                                     \
            dforget[i] = d * before[i] * s * (1 - s);                                                                  \
            dbefore[i] = d * s;                                                                                        \
        }                                                                                                              \
    }                                                                                                                  \
    static void unenter_##T(const type *in, const type *g, const type *dc, size_t n, type *din, type *dg)              \
    {                                                                                                                  \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const type s = xcvm_sigmoid_##T(in[i]), t = xcvm_tanh_##T(g[i]), d = dc[i];                                \
            din[i] = d * t * s * (1 - s);                                                                              \
            dg[i] = d * s * (1 - t * t);                                                                               \
        }                                                                                                              \
    }
DEFINE_LOOPS(f32, float)
DEFINE_LOOPS(f64, double)

/* ---- Blocks ---- */

typedef struct cell {
    xcvm_dtype dtype;
    size_t units, children, before, blocks; /* before: children with a c_prev; blocks: of a row */
    int by_unit;
    const xcvm_value *x, *c, *dh, *dc;
    xcvm_value *to_h, *to_c, *dx;
    xcvm_inputs c_prev;
    xcvm_outputs dc_prev;
} cell;

/* Elements of a tensor for the units of a block: from `at`, with distance `between`. */
typedef struct part {
    size_t at, between, count;
} part;

typedef struct unit_range {
    size_t row, first, count;
} unit_range;

static unit_range range_of(const cell *q, size_t index)
{
    const size_t first = index % q->blocks * UNITS, left = q->units - first;
    return (unit_range){index / q->blocks, first, left < UNITS ? left : UNITS};
}

static part part_of_state(const cell *q, const unit_range *p)
{
    return (part){p->row * q->units + p->first, 1, p->count};
}

static part part_of_gate(const cell *q, const unit_range *p, size_t gate)
{
    const xcvm_lstm_gate g = xcvm_lstm_gate_of(q->by_unit, q->children, q->units, gate);
    return (part){p->row * q->units * xcvm_lstm_gates(q->children) + g.first + p->first * g.between, g.between,
                  p->count};
}

static bool lies_there(const cell *q, part p) { return p.between == 1 && xcvm_dtype_size(q->dtype) >= sizeof(float); }

/* Returns the elements in the computation type, in place or copied to `room`. */
static const void *load_part(const cell *q, const void *data, part p, block *room)
{
    uint16_t halves[UNITS];
    if (lies_there(q, p))
        return (const char *)data + p.at * xcvm_dtype_size(q->dtype);
    if (q->dtype == XCVM_F64) {
        for (size_t i = 0; i < p.count; i++)
            room->f64[i] = ((const double *)data)[p.at + i * p.between];
    } else if (q->dtype == XCVM_F32) {
        for (size_t i = 0; i < p.count; i++)
            room->f32[i] = ((const float *)data)[p.at + i * p.between];
    } else {
        for (size_t i = 0; i < p.count; i++)
            halves[i] = ((const uint16_t *)data)[p.at + i * p.between];
        xcvm_halves_load(q->dtype, halves, 0, p.count, room->f32);
    }
    return room;
}

/* Returns where to write them in the computation type. */
static void *room_for(const cell *q, void *data, part p, block *room)
{
    return lies_there(q, p) ? (char *)data + p.at * xcvm_dtype_size(q->dtype) : (void *)room;
}

/* Stores what was written there. */
static void store_part(const cell *q, void *data, part p, const block *room)
{
    uint16_t halves[UNITS];
    if (lies_there(q, p))
        return;
    if (q->dtype == XCVM_F64) {
        for (size_t i = 0; i < p.count; i++)
            ((double *)data)[p.at + i * p.between] = room->f64[i];
    } else if (q->dtype == XCVM_F32) {
        for (size_t i = 0; i < p.count; i++)
            ((float *)data)[p.at + i * p.between] = room->f32[i];
    } else {
        xcvm_halves_store(q->dtype, halves, 0, p.count, room->f32);
        for (size_t i = 0; i < p.count; i++)
            ((uint16_t *)data)[p.at + i * p.between] = halves[i];
    }
}

#define CALL(q, loop, ...) ((q)->dtype == XCVM_F64 ? loop##_f64(__VA_ARGS__) : loop##_f32(__VA_ARGS__))

static const void *take_gate(const cell *q, const unit_range *p, size_t gate, block *room)
{
    return load_part(q, q->x->data, part_of_gate(q, p, gate), room);
}

static void run_block(const cell *q, const unit_range *p)
{
    block rooms[4];
    const part state = part_of_state(q, p);
    void *c = room_for(q, q->to_c->data, state, &rooms[2]), *h = room_for(q, q->to_h->data, state, &rooms[3]);
    CALL(q, enter, take_gate(q, p, XCVM_LSTM_IN, &rooms[0]),
         take_gate(q, p, xcvm_lstm_candidate(q->children), &rooms[1]), p->count, c);
    for (size_t i = 0; i < q->before; i++)
        CALL(q, keep, take_gate(q, p, XCVM_LSTM_FORGET + i, &rooms[0]),
             load_part(q, q->c_prev.at[i]->data, state, &rooms[1]), p->count, c);
    CALL(q, leave, take_gate(q, p, XCVM_LSTM_OUT, &rooms[0]), c, p->count, h);
    store_part(q, q->to_c->data, state, &rooms[2]);
    store_part(q, q->to_h->data, state, &rooms[3]);
}

/* The gradient of dc in the computation type, and of the output gate. */
static void unleave(const cell *q, const unit_range *p, block *dc)
{
    const size_t bytes = p->count * (q->dtype == XCVM_F64 ? sizeof(double) : sizeof(float));
    const part state = part_of_state(q, p), out = part_of_gate(q, p, XCVM_LSTM_OUT);
    block rooms[3], room;
    void *dout = room_for(q, q->dx->data, out, &room);
    if (q->dc != NULL)
        memcpy(dc, load_part(q, q->dc->data, state, &rooms[0]), bytes);
    else
        memset(dc, 0, bytes);
    if (q->dh != NULL)
        CALL(q, unleave, load_part(q, q->x->data, out, &rooms[0]), load_part(q, q->c->data, state, &rooms[1]),
             load_part(q, q->dh->data, state, &rooms[2]), p->count, (void *)dc, dout);
    else
        memset(dout, 0, bytes);
    store_part(q, q->dx->data, out, &room);
}

/* The gradients of a child's gate and state; without a state, 0. */
static void unkeep(const cell *q, const unit_range *p, size_t child, const block *dc)
{
    const part state = part_of_state(q, p), forget = part_of_gate(q, p, XCVM_LSTM_FORGET + child);
    block rooms[2], of_forget, of_before;
    void *dforget = room_for(q, q->dx->data, forget, &of_forget);
    if (child < q->before) {
        void *to = q->dc_prev.at[child]->data;
        CALL(q, unkeep, load_part(q, q->x->data, forget, &rooms[0]),
             load_part(q, q->c_prev.at[child]->data, state, &rooms[1]), (const void *)dc, p->count, dforget,
             room_for(q, to, state, &of_before));
        store_part(q, to, state, &of_before);
    } else {
        memset(dforget, 0, p->count * (q->dtype == XCVM_F64 ? sizeof(double) : sizeof(float)));
    }
    store_part(q, q->dx->data, forget, &of_forget);
}

static void differentiate_block(const cell *q, const unit_range *p)
{
    const part in = part_of_gate(q, p, XCVM_LSTM_IN), g = part_of_gate(q, p, xcvm_lstm_candidate(q->children));
    block dc, rooms[2], of_in, of_g;
    unleave(q, p, &dc);
    for (size_t i = 0; i < q->children; i++)
        unkeep(q, p, i, &dc);
    CALL(q, unenter, load_part(q, q->x->data, in, &rooms[0]), load_part(q, q->x->data, g, &rooms[1]), (const void *)&dc,
         p->count, room_for(q, q->dx->data, in, &of_in), room_for(q, q->dx->data, g, &of_g));
    store_part(q, q->dx->data, in, &of_in);
    store_part(q, q->dx->data, g, &of_g);
}

/* ---- All blocks ---- */

static void work(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const cell *q = context;
    for (size_t i = begin; i < end; i++) {
        const unit_range p = range_of(q, i);
        if (q->dx != NULL)
            differentiate_block(q, &p);
        else
            run_block(q, &p);
    }
}

static xcvm_status run_cells(const xcvm_kernel *k, cell *q)
{
    const size_t count = xcvm_element_count(q->x), gates = xcvm_lstm_gates(q->children);
    if (count == 0)
        return XCVM_OK;
    q->units = (size_t)q->x->dims[q->x->rank - 1] / gates;
    q->blocks = q->units / UNITS + (q->units % UNITS != 0);
    const size_t width = (q->units < UNITS ? q->units : UNITS) * gates;
    return xcvm_kernel_parallel(k, count / (q->units * gates) * q->blocks, 16384 / width + 1, work, q);
}

XCVM_KERNEL(LSTMCell)
{
    cell q = {.dtype = (xcvm_dtype)a->x->dtype,
              .children = (size_t)a->children,
              .before = a->c_prev.count,
              .by_unit = a->layout == XCVM_LSTM_LAYOUT_chainer,
              .x = a->x,
              .to_h = a->h,
              .to_c = a->c,
              .c_prev = a->c_prev};
    return run_cells(k, &q);
}

XCVM_KERNEL(LSTMCellGradient)
{
    cell q = {.dtype = (xcvm_dtype)a->x->dtype,
              .children = (size_t)a->children,
              .before = a->c_prev.count,
              .by_unit = a->layout == XCVM_LSTM_LAYOUT_chainer,
              .x = a->x,
              .c = a->c,
              .dh = a->dh,
              .dc = a->dc,
              .dx = a->dx,
              .c_prev = a->c_prev,
              .dc_prev = a->dc_prev};
    return run_cells(k, &q);
}
