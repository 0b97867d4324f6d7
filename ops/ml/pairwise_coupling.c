/* PairwiseCoupling: class probabilities from pairwise probabilities.
 *
 * T.-F. Wu, C.-J. Lin, R. C. Weng, Probability Estimates for Multi-class Classification by Pairwise Coupling, JMLR 5
 * (2004), algorithm 2, with LIBSVM's iteration limits, so that results agree with it. */
#include "ops/util/kernel.h"

#include <math.h>

enum { STEPS = 100 };

static int64_t pair_count(int64_t classes) { return classes * (classes - 1) / 2; }

XCVM_SHAPE_RULE_OF(PairwiseCoupling)
{
    XCVM_CHECK(t->error, a->x->rank < 0 || a->x->rank == 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected 2)",
               a->x->rank);
    if (a->x->rank == 2)
        XCVM_CHECK(t->error, !xcvm_dims_differ(a->x->dims[1], pair_count(a->classes)), SHAPE_MISMATCH,
                   "x has %lld columns, %lld classes make %lld pairs", (long long)a->x->dims[1], (long long)a->classes,
                   (long long)pair_count(a->classes));
    xcvm_value_set_tensor(a->y, XCVM_F32, 2,
                          (const int64_t[]){a->x->rank == 2 ? a->x->dims[0] : XCVM_ANY_DIM, a->classes});
    return XCVM_OK;
}

/* Fills the symmetric matrix q. For the solution p, all elements of q p are equal. */
static xcvm_status make_matrix(size_t n, const float *pairs, double *q, xcvm_poller *poller)
{
    for (size_t i = 0; i < n; i++)
        q[i * n + i] = 0;
    for (size_t i = 0; i < n; i++) {
        XCVM_TRY(xcvm_poll_after(poller, n - i));
        for (size_t j = i + 1; j < n; j++, pairs++) {
            const double r = (double)*pairs, s = 1 - r;
            q[i * n + i] += s * s;
            q[j * n + j] += r * r;
            q[i * n + j] = q[j * n + i] = -r * s;
        }
    }
    return XCVM_OK;
}

/* Computes `product` = q p and returns p q p. */
static double multiply(size_t n, const double *q, const double *p, double *product, xcvm_poller *poller)
{
    double mean = 0;
    for (size_t i = 0; i < n && xcvm_poll_after(poller, n) == XCVM_OK; i++) {
        product[i] = 0;
        for (size_t j = 0; j < n; j++)
            product[i] += q[i * n + j] * p[j];
        mean += p[i] * product[i];
    }
    return mean;
}

static xcvm_status couple(size_t n, const double *q, double *p, double *product, xcvm_poller *poller)
{
    const double bound = 0.005 / (double)n;
    for (size_t i = 0; i < n; i++)
        p[i] = 1 / (double)n;
    for (size_t step = 0; step < (n > STEPS ? n : STEPS); step++) {
        double mean = multiply(n, q, p, product, poller), worst = 0;
        for (size_t i = 0; i < n; i++)
            worst = fmax(worst, fabs(product[i] - mean));
        if (!(worst >= bound))
            return XCVM_OK;
        for (size_t i = 0; i < n; i++) {
            XCVM_TRY(xcvm_poll_after(poller, n));
            const double change = (mean - product[i]) / q[i * n + i], scale = 1 / (1 + change);
            p[i] += change;
            mean = (mean + change * (change * q[i * n + i] + 2 * product[i])) * scale * scale;
            for (size_t j = 0; j < n; j++) {
                product[j] = (product[j] + change * q[i * n + j]) * scale;
                p[j] *= scale;
            }
        }
    }
    return XCVM_OK;
}

XCVM_KERNEL(PairwiseCoupling)
{
    const size_t n = (size_t)a->classes, rows = (size_t)a->x->dims[0], pairs = (size_t)a->x->dims[1];
    size_t numbers, bytes;
    XCVM_CHECK(k->error, xcvm_size_mul(n, n + 2, &numbers) && xcvm_size_mul(numbers, sizeof(double), &bytes),
               OUT_OF_RANGE, "%zu classes are too many", n);
    double *q = xcvm_kernel_scratch(k, bytes);
    if (q == NULL)
        return XCVM_OUT_OF_MEMORY;
    double *p = q + n * n, *product = p + n;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t row = 0; row < rows; row++) {
        XCVM_TRY(make_matrix(n, XCVM_CDATA(float, a->x) + row * pairs, q, &poller));
        XCVM_TRY(couple(n, q, p, product, &poller));
        for (size_t i = 0; i < n; i++)
            XCVM_DATA(float, a->y)[row * n + i] = (float)p[i];
    }
    return xcvm_kernel_poll(k);
}
