/* Gradients of RNN, GRU and LSTM by formulas: backpropagation through time of all steps in sequence. */
#include "compiler/gradients/rule.h"
#include "ops/recurrent/recurrent_functions.h"
#include "ops/recurrent/recurrent_weights.h"

#include <math.h>

enum { MOST_STEPS = 1024 };

/* Common description of the three. Operands: x, w, r, b, sequence_lens, initial_h, initial_c, p. */
typedef struct network {
    xcc_vjp *d;
    xcc_value *x, *w, *r, *b, *lengths, *h, *c, *p; /* NULL: absent */
    int64_t steps, hidden, directions;
    xcvm_recurrent_form form;
    int direction;
    bool batch_first, linear_before_reset, input_forget;
    double clip;
    xcvm_texts names;
    xcvm_floats alphas, betas;
} network;

/* One direction: its weights and functions, and its current state. */
typedef struct track {
    xcc_value *r, *reset_bias, *p; /* [gates * hidden, hidden], [hidden], [3 * hidden] */
    xcc_value *h, *c;              /* [batch, hidden] */
    const xcvm_recurrent_function *f;
} track;

/* ---- Functions ---- */

static xcc_value *apply(const network *n, const xcvm_recurrent_function *f, xcc_value *x)
{
    xcc_vjp *d = n->d;
    if (n->clip > 0)
        x = xcc_build_call(d->b, XCVM_OP_Clip, 3, (xcc_value *[]){x, xcc_num(d, x, -n->clip), xcc_num(d, x, n->clip)});
    if (x == NULL)
        return NULL;
    switch (f->kind) {
    case XCVM_RECURRENT_AFFINE:
        return xcc_plus(d, xcc_scale(d, x, f->alpha), f->beta);
    case XCVM_RECURRENT_ELU:
        return xcc_apply(d->b, Elu, y, .x = XCC_IN(x), .alpha = f->alpha);
    case XCVM_RECURRENT_HARD_SIGMOID:
        return xcc_apply(d->b, HardSigmoid, y, .x = XCC_IN(x), .alpha = f->alpha, .beta = f->beta);
    case XCVM_RECURRENT_LEAKY_RELU:
        return xcc_apply(d->b, LeakyRelu, y, .x = XCC_IN(x), .alpha = f->alpha);
    case XCVM_RECURRENT_RELU:
        return xcc_op1(d, XCVM_OP_Relu, x);
    case XCVM_RECURRENT_SCALED_TANH:
        return xcc_scale(d, xcc_op1(d, XCVM_OP_Tanh, xcc_scale(d, x, f->beta)), f->alpha);
    case XCVM_RECURRENT_SIGMOID:
        return xcc_op1(d, XCVM_OP_Sigmoid, x);
    case XCVM_RECURRENT_SOFTPLUS:
        return xcc_op1(d, XCVM_OP_Softplus, x);
    case XCVM_RECURRENT_SOFTSIGN:
        return xcc_op1(d, XCVM_OP_Softsign, x);
    case XCVM_RECURRENT_TANH:
        return xcc_op1(d, XCVM_OP_Tanh, x);
    default:
        return xcc_apply(d->b, ThresholdedRelu, y, .x = XCC_IN(x), .alpha = f->alpha);
    }
}

/* ---- A step ---- */

/* Columns [first, last) of gates, in units of the hidden size. */
static xcc_value *columns(const network *n, xcc_value *x, int first, int last)
{
    return xcc_build_slice(n->d->b, x, 1, first * n->hidden, last * n->hidden, 1);
}

/* Splits an axis into equal pieces, so that the gradient is assembled once instead of from padded pieces. */
static bool cut(const network *n, xcc_value *x, int64_t axis, size_t count, xcc_value **pieces)
{
    xcc_builder *b = n->d->b;
    xcvm_value **outs = xcc_alloc(b->graph->module, count * sizeof *outs);
    for (size_t i = 0; i < count && outs != NULL; i++)
        if ((outs[i] = XCC_OUT(pieces[i] = xcc_value_create(b->graph, NULL))) == NULL)
            return false;
    return x != NULL && outs != NULL && xcc_emit(b, Split, .ys = {outs, count}, .x = XCC_IN(x), .axis = axis) != NULL;
}

static xcc_value *times_rows(const network *n, xcc_value *x, xcc_value *r)
{
    if (x == NULL || r == NULL)
        return NULL;
    return xcc_apply(n->d->b, Gemm, y, .a = XCC_IN(x), .b = XCC_IN(r), .alpha = 1, .beta = 1, .transB = 1);
}

/* Rows [first, last) of a direction's weights, in units of the hidden size. */
static xcc_value *rows(const network *n, xcc_value *r, int first, int last)
{
    return xcc_build_slice(n->d->b, r, 0, first * n->hidden, last * n->hidden, 1);
}

static xcc_value *peephole(const network *n, const track *t, int which)
{
    return xcc_build_slice(n->d->b, t->p, 0, which * n->hidden, (which + 1) * n->hidden, 1);
}

static xcc_value *lstm_step(const network *n, track *t, xcc_value *x)
{
    xcc_vjp *d = n->d;
    xcc_value *sums = xcc_add(d, x, times_rows(n, t->h, t->r));
    xcc_value *gates[4];
    if (!cut(n, sums, 1, 4, gates))
        return NULL;
    xcc_value *in = gates[0], *out = gates[1], *forget = gates[2];
    if (t->p != NULL) {
        in = xcc_add(d, in, xcc_mul(d, peephole(n, t, 0), t->c));
        forget = xcc_add(d, forget, xcc_mul(d, peephole(n, t, 2), t->c));
    }
    in = apply(n, &t->f[0], in);
    forget = n->input_forget ? xcc_sub(d, xcc_num(d, in, 1), in) : apply(n, &t->f[0], forget);
    xcc_value *cell = apply(n, &t->f[1], gates[3]);
    t->c = xcc_add(d, xcc_mul(d, forget, t->c), xcc_mul(d, in, cell));
    if (t->p != NULL)
        out = xcc_add(d, out, xcc_mul(d, peephole(n, t, 1), t->c));
    return xcc_mul(d, apply(n, &t->f[0], out), apply(n, &t->f[2], t->c));
}

static xcc_value *gru_step(const network *n, const track *t, xcc_value *x)
{
    xcc_vjp *d = n->d;
    xcc_value *first = xcc_add(d, columns(n, x, 0, 2), times_rows(n, t->h, rows(n, t->r, 0, 2)));
    xcc_value *update = apply(n, &t->f[0], columns(n, first, 0, 1)),
              *reset = apply(n, &t->f[0], columns(n, first, 1, 2));
    xcc_value *last = rows(n, t->r, 2, 3), *candidate;
    if (n->linear_before_reset) {
        xcc_value *product = times_rows(n, t->h, last);
        if (t->reset_bias != NULL)
            product = xcc_add(d, product, t->reset_bias);
        candidate = xcc_mul(d, reset, product);
    } else {
        candidate = times_rows(n, xcc_mul(d, reset, t->h), last);
    }
    candidate = apply(n, &t->f[1], xcc_add(d, columns(n, x, 2, 3), candidate));
    /* (1 - update) * candidate + update * h */
    return xcc_add(d, candidate, xcc_mul(d, update, xcc_sub(d, t->h, candidate)));
}

static xcc_value *step(const network *n, track *t, xcc_value *x)
{
    if (n->form.gates == 4)
        return lstm_step(n, t, x);
    return n->form.gates == 3 ? gru_step(n, t, x) : apply(n, &t->f[0], xcc_add(n->d, x, times_rows(n, t->h, t->r)));
}

/* ---- A direction ---- */

/* Element `index` of dimension `axis`, which is removed. */
static xcc_value *pick(const network *n, xcc_value *x, int64_t index, int64_t axis)
{
    return x != NULL ? xcc_build_gather(n->d->b, x, xcc_scalar_i64(n->d->b->graph, index), axis) : NULL;
}

/* The initial state of a direction. */
static xcc_value *first_state(const network *n, xcc_value *given, int64_t direction)
{
    if (given != NULL)
        return pick(n, given, direction, n->batch_first ? 1 : 0);
    xcc_value *batch = xcc_build_dim_of(n->d->b, n->x, 1), *hidden = XCC_BUILD_INTS(n->d->b, n->hidden);
    return xcc_build_expand(n->d->b, xcc_num(n->d, n->x, 0),
                            xcc_build_concat(n->d->b, 2, (xcc_value *[]){batch, hidden}, 0));
}

/* x times the weights, plus all biases that can be added before the gates: [steps, batch, gates * hidden]. */
static xcc_value *project(const network *n, track *t, int64_t direction)
{
    xcc_vjp *d = n->d;
    xcc_value *sums = times_rows(n, n->x, pick(n, n->w, direction, 0));
    if (n->b == NULL)
        return sums;
    xcc_value *b = pick(n, n->b, direction, 0);
    const int64_t width = n->form.gates * n->hidden;
    xcc_value *of_x = xcc_build_slice(d->b, b, 0, 0, width, 1),
              *of_h = xcc_build_slice(d->b, b, 0, width, 2 * width, 1);
    if (n->form.gates == 3 && n->linear_before_reset) {
        t->reset_bias = xcc_build_slice(d->b, of_h, 0, 2 * n->hidden, width, 1);
        xcc_value *pads = XCC_BUILD_INTS(d->b, 0, n->hidden);
        xcc_value *others = xcc_build_slice(d->b, of_h, 0, 0, 2 * n->hidden, 1);
        of_h = xcc_build_call(d->b, XCVM_OP_Pad, 2, (xcc_value *[]){others, pads});
    }
    return xcc_add(d, sums, xcc_add(d, of_x, of_h));
}

/* Reverses each entry's steps, up to its length. */
static xcc_value *turn(const network *n, xcc_value *x)
{
    xcc_value *lengths = xcc_build_cast(n->d->b, n->lengths, XCVM_I64);
    if (x == NULL || lengths == NULL)
        return NULL;
    return xcc_apply(n->d->b, ReverseSequence, y, .x = XCC_IN(x), .sequence_lens = XCC_IN(lengths), .batch_axis = 1,
                     .time_axis = 0);
}

/* Runs all steps. Returns y of the direction, [steps, batch, hidden]; NULL without steps. */
static xcc_value *unroll_steps(const network *n, track *t, int64_t direction)
{
    xcc_vjp *d = n->d;
    const bool backward = direction == 1 || n->direction == XCVM_DIRECTION_reverse;
    xcc_value *projected = project(n, t, direction);
    xcc_value **ys = xcc_alloc(d->b->graph->module, (size_t)n->steps * sizeof *ys);
    if (n->lengths != NULL && backward)
        projected = turn(n, projected);
    xcc_value **xs = xcc_alloc(d->b->graph->module, (size_t)n->steps * sizeof *xs);
    if (n->steps == 0 || xs == NULL || ys == NULL || !cut(n, projected, 0, (size_t)n->steps, xs))
        return NULL;
    for (int64_t i = 0; i < n->steps; i++) {
        const int64_t at = backward && n->lengths == NULL ? n->steps - 1 - i : i;
        xcc_value *old_h = t->h, *old_c = t->c,
                  *y = step(n, t, xcc_build_squeeze(d->b, xs[at], 1, (const int64_t[]){0}));
        t->h = y;
        if (n->lengths != NULL) {
            xcc_value *now = xcc_build_cast(d->b, xcc_scalar_i64(d->b->graph, i), (xcvm_dtype)n->lengths->type.dtype);
            xcc_value *on =
                xcc_build_unsqueeze(d->b, xcc_op2(d, XCVM_OP_Greater, n->lengths, now), 1, (const int64_t[]){1});
            t->h = xcc_where(d, on, y, old_h);
            if (old_c != NULL)
                t->c = xcc_where(d, on, t->c, old_c);
            y = xcc_where(d, on, y, xcc_num(d, n->x, 0));
        }
        ys[at] = xcc_build_unsqueeze(d->b, y, 1, (const int64_t[]){0});
    }
    xcc_value *y = xcc_build_concat(d->b, (size_t)n->steps, ys, 0);
    return n->lengths != NULL && backward ? turn(n, y) : y;
}

/* ---- All directions ---- */

/* Concatenates directions on a new `axis`. */
static xcc_value *join(const network *n, xcc_value *const *each, int64_t axis)
{
    xcc_value *wide[2];
    for (int64_t i = 0; i < n->directions; i++)
        wide[i] = xcc_build_unsqueeze(n->d->b, each[i], 1, &axis);
    return xcc_build_concat(n->d->b, (size_t)n->directions, wide, axis);
}

static xcc_value *as(xcc_vjp *d, xcc_value *v, const xcc_value *like)
{
    return xcc_build_cast(d->b, v, (xcvm_dtype)like->type.dtype);
}

/* In f32, like the instructions, or f64. */
static xcc_value *wide(xcc_vjp *d, xcc_value *v)
{
    return v == NULL || v->type.dtype == XCVM_F64 ? v : xcc_build_cast(d->b, v, XCVM_F32);
}

static void differentiate(network *n)
{
    xcc_vjp *d = n->d;
    const xcvm_value *x = &xcc_in(d, 0)->type;
    n->directions = n->direction == XCVM_DIRECTION_bidirectional ? 2 : 1;
    n->steps = x->rank == 3 ? x->dims[n->batch_first ? 1 : 0] : XCVM_ANY_DIM;
    if (!xcc_vjp_need_count(d, n->steps, MOST_STEPS, "steps"))
        return;
    xcvm_recurrent_function functions[XCVM_RECURRENT_FUNCTIONS];
    xcvm_error error = {.pc = -1};
    if (xcvm_recurrent_functions_read(&error, n->form.cell, (size_t)n->directions, n->names, n->alphas, n->betas,
                                      functions) != XCVM_OK) {
        xcc_refuse(d, "has no gradient: %.160s", error.message);
        return;
    }
    xcc_formula f;
    if (!xcc_formula_begin(d, &f))
        return;
    xcc_value **own[] = {&n->x, &n->w, &n->r, &n->b, NULL, &n->h, &n->c, &n->p};
    for (size_t i = 0; i < f.count; i++)
        if (own[i] != NULL)
            *own[i] = wide(d, f.operands[i]);
    n->lengths = f.operands[4];
    if (n->batch_first)
        n->x = xcc_build_transpose(d->b, n->x, 3, (const int64_t[]){1, 0, 2});
    xcc_value *y[2], *h[2], *c[2];
    for (int64_t i = 0; i < n->directions; i++) {
        track t = {.r = pick(n, n->r, i, 0), .p = pick(n, n->p, i, 0), .h = first_state(n, n->h, i)};
        t.f = functions + (size_t)i * xcvm_recurrent_functions_of(n->form.cell);
        t.c = n->form.gates == 4 ? first_state(n, n->c, i) : NULL;
        y[i] = unroll_steps(n, &t, i);
        h[i] = t.h;
        c[i] = t.c;
    }
    xcc_value *results[3] = {NULL};
    const int64_t state_axis = n->batch_first ? 1 : 0;
    if (d->results[0] != NULL && n->steps > 0) {
        xcc_value *all = join(n, y, 1);
        results[0] = as(d, n->batch_first ? xcc_build_transpose(d->b, all, 4, (const int64_t[]){2, 0, 1, 3}) : all,
                        xcc_in(d, 0));
    } else if (d->results[0] != NULL) {
        results[0] = xcc_zeros_like(d->b, xcc_out(d, 0));
    }
    if (d->results[1] != NULL)
        results[1] = as(d, join(n, h, state_axis), xcc_in(d, 0));
    if (n->form.gates == 4 && d->results[2] != NULL)
        results[2] = as(d, join(n, c, state_axis), xcc_in(d, 0));
    xcc_formula_end(d, &f, results);
}

#define NETWORK(Name, ...)                                                                                             \
    const xcvm_##Name##_args *a = XCC_ARGS(Name, d->node);                                                             \
    network n = {.d = d,                                                                                               \
                 .hidden = a->hidden_size,                                                                             \
                 .form = xcvm_recurrent_form_of(XCVM_OP_##Name),                                                       \
                 .direction = a->direction,                                                                            \
                 .batch_first = a->layout != 0,                                                                        \
                 .clip = a->clip,                                                                                      \
                 .names = a->activations,                                                                              \
                 .alphas = a->activation_alpha,                                                                        \
                 .betas = a->activation_beta,                                                                          \
                 __VA_ARGS__};                                                                                         \
    differentiate(&n)

XCC_GRADIENT(RNN) { NETWORK(RNN, ); }
XCC_GRADIENT(GRU) { NETWORK(GRU, .linear_before_reset = a->linear_before_reset != 0); }
XCC_GRADIENT(LSTM) { NETWORK(LSTM, .input_forget = a->input_forget != 0); }
