/* One step of each optimizer on `n` elements: p the parameters, g the gradients, m the moments, in the order of the
 * row; a moment that is not kept is NULL. Included once for each REAL that is computed in, with STEP(name) giving the
 * functions' names, STEP_FIELD that of the step's member, and ROOT the square root. Formulas are those of torch.optim,
 * in the order of its operations. */

static void STEP(sgd)(REAL *p, const REAL *g, REAL *const m[], size_t n, const numbers *t)
{
    const REAL rate = (REAL)t->rate, momentum = (REAL)t->momentum;
    const REAL taken = (REAL)t->taken, nesterov = (REAL)t->nesterov;
    REAL *buffer = m[0];
    if (buffer == NULL) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++)
            p[i] -= rate * g[i];
        return;
    }
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const REAL b = momentum * buffer[i] + taken * g[i];
        buffer[i] = b;
        p[i] -= rate * (nesterov != 0 ? g[i] + momentum * b : b);
    }
}

static void STEP(rmsprop)(REAL *p, const REAL *g, REAL *const m[], size_t n, const numbers *t)
{
    const REAL rate = (REAL)t->rate, momentum = (REAL)t->momentum, epsilon = (REAL)t->epsilon;
    const REAL kept = (REAL)t->kept[0], taken = (REAL)(1.0 - t->kept[0]);
    REAL *square = m[0], *mean = m[1], *buffer = m[2];
    REAL quotient[BLOCK];
    if (mean != NULL) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++) {
            const REAL d = g[i];
            square[i] = kept * square[i] + taken * d * d;
            mean[i] = kept * mean[i] + taken * d;
            quotient[i] = d / (ROOT(square[i] - mean[i] * mean[i]) + epsilon);
        }
    } else {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++) {
            const REAL d = g[i];
            square[i] = kept * square[i] + taken * d * d;
            quotient[i] = d / (ROOT(square[i]) + epsilon);
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

/* The rate has decayed already. */
static void STEP(adagrad)(REAL *p, const REAL *g, REAL *const m[], size_t n, const numbers *t)
{
    const REAL rate = (REAL)t->rate, epsilon = (REAL)t->epsilon;
    REAL *sum = m[0];
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const REAL d = g[i];
        sum[i] += d * d;
        p[i] -= rate * d / (ROOT(sum[i]) + epsilon);
    }
}

static void STEP(adadelta)(REAL *p, const REAL *g, REAL *const m[], size_t n, const numbers *t)
{
    const REAL rate = (REAL)t->rate, epsilon = (REAL)t->epsilon;
    const REAL kept = (REAL)t->kept[0], taken = (REAL)(1.0 - t->kept[0]);
    REAL *square = m[0], *moved = m[1];
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const REAL d = g[i];
        square[i] = kept * square[i] + taken * d * d;
        const REAL delta = ROOT(moved[i] + epsilon) / ROOT(square[i] + epsilon) * d;
        moved[i] = kept * moved[i] + taken * delta * delta;
        p[i] -= rate * delta;
    }
}

/* The rate has the first moment's correction in it, `root` is that of the second moment's. */
static void STEP(adam)(REAL *p, const REAL *g, REAL *const m[], size_t n, const numbers *t)
{
    const REAL rate = (REAL)t->rate, shrink = (REAL)t->shrink, epsilon = (REAL)t->epsilon;
    const REAL root = (REAL)t->root;
    const REAL kept = (REAL)t->kept[0], taken = (REAL)(1.0 - t->kept[0]);
    const REAL kept_square = (REAL)t->kept[1], taken_square = (REAL)(1.0 - t->kept[1]);
    REAL *mean = m[0], *square = m[1], *greatest = m[2];
    if (greatest != NULL) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < n; i++) {
            const REAL d = g[i], v = kept_square * square[i] + taken_square * d * d;
            const REAL most = greatest[i] > v || greatest[i] != greatest[i] ? greatest[i] : v;
            mean[i] = kept * mean[i] + taken * d;
            square[i] = v;
            greatest[i] = most;
            p[i] = shrink * p[i] - rate * (mean[i] / (ROOT(most) / root + epsilon));
        }
        return;
    }
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const REAL d = g[i];
        mean[i] = kept * mean[i] + taken * d;
        square[i] = kept_square * square[i] + taken_square * d * d;
        p[i] = shrink * p[i] - rate * (mean[i] / (ROOT(square[i]) / root + epsilon));
    }
}

static void STEP(lion)(REAL *p, const REAL *g, REAL *const m[], size_t n, const numbers *t)
{
    const REAL rate = (REAL)t->rate, shrink = (REAL)t->shrink;
    const REAL kept = (REAL)t->kept[0], taken = (REAL)(1.0 - t->kept[0]);
    const REAL kept_mean = (REAL)t->kept[1], taken_mean = (REAL)(1.0 - t->kept[1]);
    REAL *mean = m[0];
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const REAL d = g[i], u = kept * mean[i] + taken * d;
        mean[i] = kept_mean * mean[i] + taken_mean * d;
        p[i] = shrink * p[i] - rate * (u > 0 ? (REAL)1 : u < 0 ? (REAL)-1 : u);
    }
}

/* ---- Around a step ---- */

static void STEP(add)(REAL *to, const REAL *g, const REAL *sums, size_t n)
{
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        to[i] = sums[i] + g[i];
}

static void STEP(average)(REAL *average, const REAL *p, size_t n, const numbers *t)
{
    const REAL kept = (REAL)t->average_decay, taken = (REAL)(1.0 - t->average_decay);
    XCVM_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        average[i] = kept * average[i] + taken * p[i];
}

/* What a step takes for the gradients, in memory of its own: g * scale, brought to at most `limit`, with the decay of
 * the parameters, times `ratio`. */
static void STEP(prepare)(REAL *to, const REAL *g, const REAL *p, size_t n, double ratio, const numbers *t)
{
    const REAL scale = (REAL)t->scale, limit = (REAL)t->limit, decay = (REAL)t->decay, factor = (REAL)ratio;
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

/* A block of a parameter of REAL, all that is kept of it likewise. */
static void STEP(block)(const step *s, const block *b)
{
    REAL *p = (REAL *)b->parameters, *const m[] = {b->moments[0], b->moments[1], b->moments[2]}, own[BLOCK];
    REAL *sums = (REAL *)b->sums, *average = (REAL *)b->average;
    const REAL *g = (const REAL *)b->gradients;
    const numbers *t = &s->numbers;
    if (sums != NULL) {
        STEP(add)(own, g, sums, b->count);
        g = own;
    }
    if (b->ratio != 1.0 || t->scale != 1.0 || t->limit != 0.0 || t->decay != 0.0) {
        STEP(prepare)(own, g, p, b->count, b->ratio, t);
        g = own;
    }
    s->STEP_FIELD(p, g, m, b->count, t);
    if (sums != NULL)
        memset(sums, 0, b->count * sizeof *sums);
    if (average != NULL)
        STEP(average)(average, p, b->count, t);
}
