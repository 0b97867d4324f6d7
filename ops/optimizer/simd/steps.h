/* One step of each optimizer on `n` elements: p parameters, g gradients, m moments in the order of the op definition,
 * NULL if absent. This is a template: the including file defines the type value_t and names for functions ending in
 * _value, once per type. Exported C also includes it. Formulas are those of torch.optim, in the same order of
 * operations. */

static void xcvm_sgd_value(value_t *p, const value_t *g, value_t *const m[], size_t n, const xcvm_step_numbers *t)
{
    const value_t rate = (value_t)t->rate, momentum = (value_t)t->momentum;
    const value_t taken = (value_t)t->taken, nesterov = (value_t)t->nesterov;
    value_t *buffer = m[0];
    if (buffer == NULL) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++)
            p[i] -= rate * g[i];
        return;
    }
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const value_t b = momentum * buffer[i] + taken * g[i];
        buffer[i] = b;
        p[i] -= rate * (nesterov != 0 ? g[i] + momentum * b : b);
    }
}

static void xcvm_rmsprop_value(value_t *p, const value_t *g, value_t *const m[], size_t n, const xcvm_step_numbers *t)
{
    const value_t rate = (value_t)t->rate, momentum = (value_t)t->momentum, epsilon = (value_t)t->epsilon;
    const value_t kept = (value_t)t->kept[0], taken = (value_t)(1.0 - t->kept[0]);
    value_t *square = m[0], *mean = m[1], *buffer = m[2];
    value_t quotient[XCVM_STEP_BLOCK];
    if (mean != NULL) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++) {
            const value_t d = g[i];
            square[i] = kept * square[i] + taken * d * d;
            mean[i] = kept * mean[i] + taken * d;
            quotient[i] = d / (xcvm_root_value(square[i] - mean[i] * mean[i]) + epsilon);
        }
    } else {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++) {
            const value_t d = g[i];
            square[i] = kept * square[i] + taken * d * d;
            quotient[i] = d / (xcvm_root_value(square[i]) + epsilon);
        }
    }
    if (buffer != NULL) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++)
            quotient[i] = buffer[i] = momentum * buffer[i] + quotient[i];
    }
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        p[i] -= rate * quotient[i];
}

/* The rate is already decayed. */
static void xcvm_adagrad_value(value_t *p, const value_t *g, value_t *const m[], size_t n, const xcvm_step_numbers *t)
{
    const value_t rate = (value_t)t->rate, epsilon = (value_t)t->epsilon;
    value_t *sum = m[0];
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const value_t d = g[i];
        sum[i] += d * d;
        p[i] -= rate * d / (xcvm_root_value(sum[i]) + epsilon);
    }
}

static void xcvm_adadelta_value(value_t *p, const value_t *g, value_t *const m[], size_t n, const xcvm_step_numbers *t)
{
    const value_t rate = (value_t)t->rate, epsilon = (value_t)t->epsilon;
    const value_t kept = (value_t)t->kept[0], taken = (value_t)(1.0 - t->kept[0]);
    value_t *square = m[0], *moved = m[1];
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const value_t d = g[i];
        square[i] = kept * square[i] + taken * d * d;
        const value_t delta = xcvm_root_value(moved[i] + epsilon) / xcvm_root_value(square[i] + epsilon) * d;
        moved[i] = kept * moved[i] + taken * delta * delta;
        p[i] -= rate * delta;
    }
}

/* The rate includes the first moment's bias correction; `root` is that of the second. */
static void xcvm_adam_value(value_t *p, const value_t *g, value_t *const m[], size_t n, const xcvm_step_numbers *t)
{
    const value_t rate = (value_t)t->rate, shrink = (value_t)t->shrink, epsilon = (value_t)t->epsilon;
    const value_t root = (value_t)t->root;
    const value_t kept = (value_t)t->kept[0], taken = (value_t)(1.0 - t->kept[0]);
    const value_t kept_square = (value_t)t->kept[1], taken_square = (value_t)(1.0 - t->kept[1]);
    value_t *mean = m[0], *square = m[1], *greatest = m[2];
    if (greatest != NULL) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++) {
            const value_t d = g[i], v = kept_square * square[i] + taken_square * d * d;
            const value_t most = greatest[i] > v || greatest[i] != greatest[i] ? greatest[i] : v;
            mean[i] = kept * mean[i] + taken * d;
            square[i] = v;
            greatest[i] = most;
            p[i] = shrink * p[i] - rate * (mean[i] / (xcvm_root_value(most) / root + epsilon));
        }
        return;
    }
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const value_t d = g[i];
        mean[i] = kept * mean[i] + taken * d;
        square[i] = kept_square * square[i] + taken_square * d * d;
        p[i] = shrink * p[i] - rate * (mean[i] / (xcvm_root_value(square[i]) / root + epsilon));
    }
}

static void xcvm_lion_value(value_t *p, const value_t *g, value_t *const m[], size_t n, const xcvm_step_numbers *t)
{
    const value_t rate = (value_t)t->rate, shrink = (value_t)t->shrink;
    const value_t kept = (value_t)t->kept[0], taken = (value_t)(1.0 - t->kept[0]);
    const value_t kept_mean = (value_t)t->kept[1], taken_mean = (value_t)(1.0 - t->kept[1]);
    value_t *mean = m[0];
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const value_t d = g[i], u = kept * mean[i] + taken * d;
        mean[i] = kept_mean * mean[i] + taken_mean * d;
        p[i] = shrink * p[i] - rate * (u > 0 ? (value_t)1 : u < 0 ? (value_t)-1 : u);
    }
}

/* ---- Before and after a step ---- */

static void xcvm_add_value(value_t *to, const value_t *g, const value_t *sums, size_t n)
{
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        to[i] = sums[i] + g[i];
}

static void xcvm_average_value(value_t *average, const value_t *p, size_t n, const xcvm_step_numbers *t)
{
    const value_t kept = (value_t)t->average_decay, taken = (value_t)(1.0 - t->average_decay);
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        average[i] = kept * average[i] + taken * p[i];
}

/* Computes the gradients of a step into a buffer: g * scale, clamped to `limit`, plus the weight decay, times `ratio`.
 */
static void xcvm_prepare_value(value_t *to, const value_t *g, const value_t *p, size_t n, double ratio,
                               const xcvm_step_numbers *t)
{
    const value_t scale = (value_t)t->scale, limit = (value_t)t->limit, decay = (value_t)t->decay,
                  factor = (value_t)ratio;
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        to[i] = g[i] * scale;
    if (t->limit != 0.0) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++)
            to[i] = to[i] > limit ? limit : to[i] < -limit ? -limit : to[i];
    }
    if (t->decay != 0.0) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++)
            to[i] += decay * p[i];
    }
    if (ratio != 1.0) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++)
            to[i] *= factor;
    }
}

/* Returns the gradients of a block; products are computed in a buffer. */
static const value_t *xcvm_gradients_value(const xcvm_step_block *b, value_t *own)
{
    const value_t *left = (const value_t *)b->left;
    if (b->columns == 0)
        return (const value_t *)b->gradients;
    size_t row = b->first / b->columns, column = b->first % b->columns;
    for (size_t at = 0, n; at < b->count; at += n, row++, column = 0) {
        const value_t *right = (const value_t *)b->gradients + column;
        value_t *to = own + at;
        n = b->columns - column < b->count - at ? b->columns - column : b->count - at;
        for (size_t i = 0; i < n && b->depth == 0; i++)
            to[i] = 0;
        for (size_t q = 0; q < b->depth; q++, right += b->columns) {
            const value_t factor = left[q * b->rows + row];
            XCVM_INDEPENDENT
            for (size_t i = 0; i < n; i++)
                to[i] = (q > 0 ? to[i] : 0) + factor * right[i];
        }
    }
    return own;
}

/* Steps a block of a parameter of value_t, with all its state in value_t. */
static void xcvm_block_value(const xcvm_step_block *b, const xcvm_step_numbers *t,
                             void (*take)(value_t *p, const value_t *g, value_t *const m[], size_t n,
                                          const xcvm_step_numbers *t))
{
    value_t *p = (value_t *)b->parameters, *const m[] = {b->moments[0], b->moments[1], b->moments[2]};
    value_t own[XCVM_STEP_BLOCK], *sums = (value_t *)b->sums, *average = (value_t *)b->average;
    const value_t *g = xcvm_gradients_value(b, own);
    if (sums != NULL) {
        xcvm_add_value(own, g, sums, b->count);
        g = own;
    }
    if (b->ratio != 1.0 || t->scale != 1.0 || t->limit != 0.0 || t->decay != 0.0) {
        xcvm_prepare_value(own, g, p, b->count, b->ratio, t);
        g = own;
    }
    take(p, g, m, b->count, t);
    if (sums != NULL)
        memset(sums, 0, b->count * sizeof *sums);
    if (average != NULL)
        xcvm_average_value(average, p, b->count, t);
}
