/* RNN, GRU and LSTM. The products with x are hoisted out of the loop over time; a step is then the product with the
 * state, split over threads by gate rows, and one pass of the gate arithmetic. All in float. */
#include "ops/floats.h"
#include "ops/kernel.h"
#include "ops/vector/math.h"

#include <strings.h>

typedef enum function {
    AFFINE,
    ELU,
    HARD_SIGMOID,
    LEAKY_RELU,
    RELU,
    SCALED_TANH,
    SIGMOID,
    SOFTPLUS,
    SOFTSIGN,
    TANH,
    THRESHOLDED_RELU
} function;

typedef struct activation {
    function f;
    float alpha, beta;
} activation;

static const struct {
    const char *name;
    function f;
    float alpha, beta;
    int parameters;
} functions[] = {{"Affine", AFFINE, 1, 0, 2},
                 {"Elu", ELU, 1, 0, 1},
                 {"HardSigmoid", HARD_SIGMOID, 0.2F, 0.5F, 2},
                 {"LeakyRelu", LEAKY_RELU, 0.01F, 0, 1},
                 {"Relu", RELU, 0, 0, 0},
                 {"ScaledTanh", SCALED_TANH, 1, 1, 2},
                 {"Sigmoid", SIGMOID, 0, 0, 0},
                 {"Softplus", SOFTPLUS, 0, 0, 0},
                 {"Softsign", SOFTSIGN, 0, 0, 0},
                 {"Tanh", TANH, 0, 0, 0},
                 {"ThresholdedRelu", THRESHOLDED_RELU, 1, 0, 1}};
enum { FUNCTIONS = sizeof functions / sizeof *functions, MAX_ACTIVATIONS = 6 };

/* The three instructions in one form. */
typedef struct network {
    xcvm_opcode op;
    const xcvm_value *x, *w, *r, *b, *lengths, *initial_h, *initial_c, *p;
    xcvm_value *y, *y_h, *y_c;
    xcvm_texts names;
    xcvm_floats alphas, betas;
    size_t steps, batch, inputs, hidden, gates, directions;
    int direction;
    bool batch_first, linear_before_reset, input_forget;
    float clip;
    activation f[MAX_ACTIVATIONS];
} network;

static xcvm_status read_activations(xcvm_kernel *k, network *n)
{
    const size_t each = n->op == XCVM_OP_LSTM ? 3 : n->op == XCVM_OP_GRU ? 2 : 1, count = each * n->directions;
    XCVM_CHECK(k->error, n->names.count == 0 || n->names.count == count, INVALID_ARGUMENT,
               "activations has %zu entries, %zu are needed", n->names.count, count);
    size_t alpha = 0, beta = 0;
    for (size_t i = 0; i < count; i++) {
        if (n->names.count == 0) {
            n->f[i].f = each > 1 && i % each == 0 ? SIGMOID : TANH;
            continue;
        }
        size_t j = 0;
        while (j < FUNCTIONS && strcasecmp(functions[j].name, n->names.at[i].at) != 0)
            j++;
        XCVM_CHECK(k->error, j < FUNCTIONS, UNSUPPORTED, "there is no activation \"%.40s\"", n->names.at[i].at);
        n->f[i] = (activation){functions[j].f, functions[j].alpha, functions[j].beta};
        if (functions[j].parameters > 0 && alpha < n->alphas.count)
            n->f[i].alpha = (float)n->alphas.at[alpha++];
        if (functions[j].parameters > 1 && beta < n->betas.count)
            n->f[i].beta = (float)n->betas.at[beta++];
    }
    return XCVM_OK;
}

#define EACH(expression)                                                                                               \
    XCVM_INDEPENDENT                                                                                                   \
    for (size_t i = 0; i < count; i++) {                                                                               \
        const float x = v[i];                                                                                          \
        v[i] = (expression);                                                                                           \
    }                                                                                                                  \
    break

static void activate(activation a, float clip, float *v, size_t count)
{
    if (clip > 0)
        for (size_t i = 0; i < count; i++)
            v[i] = v[i] < -clip ? -clip : v[i] > clip ? clip : v[i];
    switch (a.f) {
    case AFFINE:
        EACH(a.alpha * x + a.beta);
    case ELU:
        EACH(x >= 0 ? x : a.alpha * (xcvm_exp_f32(x) - 1));
    case HARD_SIGMOID:
        EACH(fminf(fmaxf(a.alpha * x + a.beta, 0), 1));
    case LEAKY_RELU:
        EACH(x >= 0 ? x : a.alpha * x);
    case RELU:
        EACH(x > 0 ? x : 0);
    case SCALED_TANH:
        EACH(a.alpha * xcvm_tanh_f32(a.beta * x));
    case SIGMOID:
        EACH(xcvm_sigmoid_f32(x));
    case SOFTPLUS:
        EACH(xcvm_softplus_f32(x));
    case SOFTSIGN:
        EACH(x / (1 + fabsf(x)));
    case TANH:
        EACH(xcvm_tanh_f32(x));
    case THRESHOLDED_RELU:
        EACH(x >= a.alpha ? x : 0);
    }
}

typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));
enum { LANES = sizeof(lanes) / sizeof(float) };

static float lane_sum(const lanes *v)
{
    float sum[LANES];
    memcpy(sum, v, sizeof sum);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            sum[i] += sum[i + width];
    return sum[0];
}

/* out[m][n] += a[m] . b[n], for m below `rows` and n in [begin, end); rows of a and b have `depth` elements. */
typedef struct product {
    const float *a, *b;
    float *out;
    size_t rows, depth, stride; /* stride: elements between rows of out */
} product;

static void multiply(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const product *p = context;
    const size_t depth = p->depth, whole = depth - depth % LANES;
    for (size_t n = begin; n < end;) {
        const size_t columns = end - n >= 4 ? 4 : 1;
        const float *b[4];
        for (size_t j = 0; j < 4; j++)
            b[j] = p->b + (n + (j < columns ? j : 0)) * depth;
        size_t m = 0;
        if (columns == 4)
            for (; m + 2 <= p->rows; m += 2) {
                const float *a0 = p->a + m * depth, *a1 = a0 + depth;
                lanes s[2][4] = {{{0}}};
                for (size_t i = 0; i < whole; i += LANES) {
                    const lanes x0 = *(const lanes *)(const void *)(a0 + i),
                                x1 = *(const lanes *)(const void *)(a1 + i);
                    for (size_t j = 0; j < 4; j++) {
                        const lanes y = *(const lanes *)(const void *)(b[j] + i);
                        s[0][j] += x0 * y;
                        s[1][j] += x1 * y;
                    }
                }
                for (size_t j = 0; j < 4; j++) {
                    float t0 = lane_sum(&s[0][j]), t1 = lane_sum(&s[1][j]);
                    for (size_t i = whole; i < depth; i++) {
                        t0 += a0[i] * b[j][i];
                        t1 += a1[i] * b[j][i];
                    }
                    p->out[m * p->stride + n + j] += t0;
                    p->out[(m + 1) * p->stride + n + j] += t1;
                }
            }
        for (; m < p->rows; m++) {
            const float *a = p->a + m * depth;
            lanes s[4] = {{0}}, u[4] = {{0}};
            size_t i = 0;
            for (; i + 2 * LANES <= whole; i += 2 * LANES) {
                const lanes x0 = *(const lanes *)(const void *)(a + i);
                const lanes x1 = *(const lanes *)(const void *)(a + i + LANES);
                for (size_t j = 0; j < 4; j++) {
                    s[j] += x0 * *(const lanes *)(const void *)(b[j] + i);
                    u[j] += x1 * *(const lanes *)(const void *)(b[j] + i + LANES);
                }
            }
            for (; i < whole; i += LANES)
                for (size_t j = 0; j < 4; j++)
                    s[j] += *(const lanes *)(const void *)(a + i) * *(const lanes *)(const void *)(b[j] + i);
            for (size_t j = 0; j < columns; j++) {
                s[j] += u[j];
                float t = lane_sum(&s[j]);
                for (size_t l = whole; l < depth; l++)
                    t += a[l] * b[j][l];
                p->out[m * p->stride + n + j] += t;
            }
        }
        n += columns;
    }
}

static void products(xcvm_kernel *k, const float *a, size_t rows, size_t depth, const float *b, size_t columns,
                     float *out, size_t stride)
{
    product p = {a, b, out, rows, depth, stride};
    xcvm_parallel(k->threads, columns, 16 + 65536 / (rows * depth + 1), multiply, &p);
}

/* Index into x, y or a state of step `t`, direction `d` and batch entry `b`, in units of their last dimension. */
static size_t x_row(const network *n, size_t t, size_t b)
{
    return n->batch_first ? b * n->steps + t : t * n->batch + b;
}
static size_t y_row(const network *n, size_t t, size_t d, size_t b)
{
    return n->batch_first ? (b * n->steps + t) * n->directions + d : (t * n->directions + d) * n->batch + b;
}
static size_t state_row(const network *n, size_t d, size_t b)
{
    return n->batch_first ? b * n->directions + d : d * n->batch + b;
}

static size_t length_of(const network *n, size_t b)
{
    return n->lengths != NULL ? (size_t)XCVM_CDATA(int32_t, n->lengths)[b] : n->steps;
}

/* Buffers of one direction, carved out of the scratch block. */
typedef struct buffers {
    float *x, *w, *r, *projected, *gates, *h, *c, *bias, *recurrent_bias, *peepholes, *row;
} buffers;

/* The gate arithmetic of one batch entry: g holds the sums with the projected input, h and c are its state. `extra` has
 * room for `hidden` floats. */
static void lstm_cell(const network *n, const activation *f, const buffers *s, float *g, float *h, float *c)
{
    const size_t hidden = n->hidden;
    float *i = g, *o = g + hidden, *forget = g + 2 * hidden, *cell = g + 3 * hidden;
    const float *p = s->peepholes;
    if (p != NULL)
        for (size_t j = 0; j < hidden; j++) {
            i[j] += p[j] * c[j];
            forget[j] += p[2 * hidden + j] * c[j];
        }
    activate(f[0], n->clip, i, hidden);
    if (n->input_forget)
        for (size_t j = 0; j < hidden; j++)
            forget[j] = 1 - i[j];
    else
        activate(f[0], n->clip, forget, hidden);
    activate(f[1], n->clip, cell, hidden);
    for (size_t j = 0; j < hidden; j++)
        c[j] = forget[j] * c[j] + i[j] * cell[j];
    if (p != NULL)
        for (size_t j = 0; j < hidden; j++)
            o[j] += p[hidden + j] * c[j];
    activate(f[0], n->clip, o, hidden);
    memcpy(cell, c, hidden * sizeof *cell);
    activate(f[2], n->clip, cell, hidden);
    for (size_t j = 0; j < hidden; j++)
        h[j] = o[j] * cell[j];
}

/* What GRU needs between its two products: z and r activated, and r applied to what the hidden gate takes. */
static void gru_reset(const network *n, const activation *f, const buffers *s, float *g, const float *h, float *reset_h)
{
    const size_t hidden = n->hidden;
    float *r = g + hidden, *candidate = g + 2 * hidden;
    activate(f[0], n->clip, g, 2 * hidden);
    if (n->linear_before_reset) {
        /* reset_h holds h * Rh here. */
        for (size_t j = 0; j < hidden; j++)
            candidate[j] += r[j] * (reset_h[j] + s->recurrent_bias[j]);
    } else {
        for (size_t j = 0; j < hidden; j++)
            reset_h[j] = r[j] * h[j];
    }
}

static void gru_update(const network *n, const activation *f, float *g, float *h)
{
    const size_t hidden = n->hidden;
    float *z = g, *candidate = g + 2 * hidden;
    activate(f[1], n->clip, candidate, hidden);
    for (size_t j = 0; j < hidden; j++)
        h[j] = (1 - z[j]) * candidate[j] + z[j] * h[j];
}

static xcvm_status run_direction(xcvm_kernel *k, const network *n, size_t d, const buffers *s)
{
    const size_t hidden = n->hidden, batch = n->batch, width = n->gates * hidden;
    const bool backward = n->direction == XCVM_DIRECTION_reverse || d == 1;
    const activation *f = n->f + d * (n->op == XCVM_OP_LSTM ? 3 : n->op == XCVM_OP_GRU ? 2 : 1);
    const bool f32 = n->x->dtype == XCVM_F32;
    const float *w = s->w, *r = s->r, *x = s->x;
    if (f32) {
        w = XCVM_CDATA(float, n->w) + d * width * n->inputs;
        r = XCVM_CDATA(float, n->r) + d * width * hidden;
        x = n->x->data;
    } else {
        xcvm_read_floats(n->w, d * width * n->inputs, width * n->inputs, s->w);
        xcvm_read_floats(n->r, d * width * hidden, width * hidden, s->r);
        if (d == 0)
            xcvm_read_floats(n->x, 0, n->steps * batch * n->inputs, s->x);
    }

    /* Both biases are added to the projected input, but GRU's of the hidden gate if it is inside the reset. */
    memset(s->bias, 0, width * sizeof *s->bias);
    memset(s->recurrent_bias, 0, hidden * sizeof *s->recurrent_bias);
    if (n->b != NULL) {
        float *both = s->gates;
        xcvm_read_floats(n->b, d * 2 * width, width, s->bias);
        xcvm_read_floats(n->b, d * 2 * width + width, width, both);
        const bool inside = n->op == XCVM_OP_GRU && n->linear_before_reset;
        if (inside)
            memcpy(s->recurrent_bias, both + 2 * hidden, hidden * sizeof(float));
        for (size_t j = 0; j < width; j++)
            s->bias[j] += inside && j >= 2 * hidden ? 0 : both[j];
    }
    if (n->p != NULL)
        xcvm_read_floats(n->p, d * 3 * hidden, 3 * hidden, s->peepholes);
    const size_t rows = n->steps * batch;
    for (size_t i = 0; i < rows; i++)
        memcpy(s->projected + i * width, s->bias, width * sizeof(float));
    if (rows != 0)
        products(k, x, rows, n->inputs, w, width, s->projected, width);

    for (size_t b = 0; b < batch; b++) {
        float *h = s->h + b * hidden, *c = s->c + b * hidden;
        memset(h, 0, hidden * sizeof *h);
        memset(c, 0, hidden * sizeof *c);
        if (n->initial_h != NULL)
            xcvm_read_floats(n->initial_h, state_row(n, d, b) * hidden, hidden, h);
        if (n->initial_c != NULL)
            xcvm_read_floats(n->initial_c, state_row(n, d, b) * hidden, hidden, c);
    }

    for (size_t step = 0; step < n->steps; step++) {
        XCVM_TRY(xcvm_kernel_poll(k));
        for (size_t b = 0; b < batch; b++) {
            const size_t length = length_of(n, b);
            const size_t t = step >= length ? step : backward ? length - 1 - step : step;
            memcpy(s->gates + b * width, s->projected + x_row(n, t, b) * width, width * sizeof(float));
        }
        const size_t direct = n->op == XCVM_OP_GRU ? 2 * hidden : width;
        products(k, s->h, batch, hidden, r, direct, s->gates, width);
        if (n->op == XCVM_OP_GRU) {
            const float *rh = r + 2 * hidden * hidden;
            memset(s->row, 0, batch * hidden * sizeof(float));
            if (n->linear_before_reset)
                products(k, s->h, batch, hidden, rh, hidden, s->row, hidden);
            for (size_t b = 0; b < batch; b++)
                gru_reset(n, f, s, s->gates + b * width, s->h + b * hidden, s->row + b * hidden);
            if (!n->linear_before_reset)
                products(k, s->row, batch, hidden, rh, hidden, s->gates + 2 * hidden, width);
        }
        for (size_t b = 0; b < batch; b++) {
            const size_t length = length_of(n, b);
            float *g = s->gates + b * width, *h = s->h + b * hidden;
            if (step >= length) {
                if (n->y != NULL) {
                    memset(g, 0, hidden * sizeof *g);
                    xcvm_write_floats(g, hidden, n->y, y_row(n, step, d, b) * hidden);
                }
                continue;
            }
            if (n->op == XCVM_OP_LSTM) {
                lstm_cell(n, f, s, g, h, s->c + b * hidden);
            } else if (n->op == XCVM_OP_GRU) {
                gru_update(n, f, g, h);
            } else {
                activate(f[0], n->clip, g, hidden);
                memcpy(h, g, hidden * sizeof *h);
            }
            if (n->y != NULL)
                xcvm_write_floats(h, hidden, n->y, y_row(n, backward ? length - 1 - step : step, d, b) * hidden);
        }
    }
    for (size_t b = 0; b < batch; b++) {
        if (n->y_h != NULL)
            xcvm_write_floats(s->h + b * hidden, hidden, n->y_h, state_row(n, d, b) * hidden);
        if (n->y_c != NULL)
            xcvm_write_floats(s->c + b * hidden, hidden, n->y_c, state_row(n, d, b) * hidden);
    }
    return XCVM_OK;
}

static xcvm_status run_network(xcvm_kernel *k, network *n)
{
    const bool f32 = n->x->dtype == XCVM_F32;
    n->directions = n->direction == XCVM_DIRECTION_bidirectional ? 2 : 1;
    n->steps = (size_t)n->x->dims[n->batch_first ? 1 : 0];
    n->batch = (size_t)n->x->dims[n->batch_first ? 0 : 1];
    n->inputs = (size_t)n->x->dims[2];
    XCVM_TRY(read_activations(k, n));
    if (n->lengths != NULL)
        for (size_t b = 0; b < n->batch; b++) {
            const int32_t length = XCVM_CDATA(int32_t, n->lengths)[b];
            XCVM_CHECK(k->error, length >= 0 && (size_t)length <= n->steps, OUT_OF_RANGE,
                       "sequence_lens[%zu] is %d, x has %zu steps", b, length, n->steps);
        }

    const size_t width = n->gates * n->hidden, state = n->batch * n->hidden;
    buffers s = {0};
    const struct {
        float **at;
        size_t rows, columns;
    } parts[] = {{&s.x, f32 ? 0 : n->steps * n->batch, n->inputs},
                 {&s.w, f32 ? 0 : width, n->inputs},
                 {&s.r, f32 ? 0 : width, n->hidden},
                 {&s.projected, n->steps * n->batch, width},
                 {&s.gates, n->batch + 1, width},
                 {&s.h, state, 1},
                 {&s.c, state, 1},
                 {&s.bias, width, 1},
                 {&s.recurrent_bias, n->hidden, 1},
                 {&s.row, state, 1},
                 {&s.peepholes, n->p != NULL ? 3 * n->hidden : 0, 1}};
    enum { PARTS = sizeof parts / sizeof *parts };
    size_t bytes = 0;
    for (int i = 0; i < PARTS; i++) {
        size_t part;
        XCVM_CHECK(k->error,
                   xcvm_size_mul(parts[i].rows, parts[i].columns, &part) && part < SIZE_MAX / 8 &&
                       xcvm_size_add(bytes, xcvm_round_up(part * sizeof(float), XCVM_ALIGNMENT), &bytes),
                   OUT_OF_MEMORY, "the sequence is too large");
    }
    char *scratch = xcvm_kernel_scratch(k, bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (int i = 0; i < PARTS; i++) {
        const size_t part = parts[i].rows * parts[i].columns;
        *parts[i].at = part == 0 ? NULL : (float *)(void *)scratch;
        scratch += xcvm_round_up(part * sizeof(float), XCVM_ALIGNMENT);
    }
    if (n->batch == 0)
        return XCVM_OK;
    for (size_t d = 0; d < n->directions; d++)
        XCVM_TRY(run_direction(k, n, d, &s));
    return XCVM_OK;
}

/* The fields that the three argument structs have in common. */
#define NETWORK(opcode, gate_count)                                                                                    \
    .op = (opcode), .gates = (gate_count), .x = a->x, .w = a->w, .r = a->r, .b = a->b, .lengths = a->sequence_lens,    \
    .initial_h = a->initial_h, .y = a->y, .y_h = a->y_h, .names = a->activations, .alphas = a->activation_alpha,       \
    .betas = a->activation_beta, .hidden = (size_t)a->hidden_size, .direction = a->direction,                          \
    .batch_first = a->layout != 0, .clip = (float)a->clip

XCVM_KERNEL(RNN)
{
    network n = {NETWORK(XCVM_OP_RNN, 1)};
    return run_network(k, &n);
}

XCVM_KERNEL(GRU)
{
    network n = {NETWORK(XCVM_OP_GRU, 3), .linear_before_reset = a->linear_before_reset != 0};
    return run_network(k, &n);
}

XCVM_KERNEL(LSTM)
{
    network n = {NETWORK(XCVM_OP_LSTM, 4), .initial_c = a->initial_c, .p = a->p, .y_c = a->y_c,
                 .input_forget = a->input_forget != 0};
    return run_network(k, &n);
}
