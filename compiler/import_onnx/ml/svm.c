/* Lowering of the support vector machines of ai.onnx.ml. */
#include "compiler/import_onnx/ml/ml.h"

typedef struct machine {
    xcvm_text kernel;
    double gamma, coef0, degree;
    xcvm_floats vectors, coefficients, rho;
} machine;

static xcvm_status read_machine(xcc_lowering *n, machine *m)
{
    xcvm_floats parameters;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_text(n, "kernel_type", "LINEAR", &m->kernel));
    XCVM_TRY(xcc_attribute_floats(n, "kernel_params", &parameters));
    XCVM_TRY(xcc_attribute_floats(n, "support_vectors", &m->vectors));
    XCVM_TRY(xcc_attribute_floats(n, "coefficients", &m->coefficients));
    XCVM_TRY(xcc_attribute_floats(n, "rho", &m->rho));
    XCVM_CHECK(n->m->error, parameters.count == 0 || parameters.count == 3, INVALID_MODEL,
               "attribute 'kernel_params' has %zu entries, gamma, coef0 and degree are needed", parameters.count);
    m->gamma = parameters.count > 0 ? parameters.at[0] : 0;
    m->coef0 = parameters.count > 0 ? parameters.at[1] : 0;
    m->degree = parameters.count > 0 ? parameters.at[2] : 0;
    XCVM_CHECK(n->m->error,
               xcc_text_is(m->kernel, "LINEAR") || xcc_text_is(m->kernel, "POLY") || xcc_text_is(m->kernel, "RBF") ||
                   xcc_text_is(m->kernel, "SIGMOID"),
               INVALID_MODEL, "attribute 'kernel_type' is '%.40s'; LINEAR, POLY, RBF or SIGMOID is expected",
               m->kernel.at);
    XCVM_CHECK(n->m->error, m->coefficients.count > 0 && m->rho.count > 0, INVALID_MODEL,
               "attribute 'coefficients' or 'rho' is missing");
    return XCVM_OK;
}

/* x * transposed matrix of numbers, of `rows` rows. */
static xcc_value *product(xcc_lowering *n, xcc_value *x, size_t rows, xcvm_floats numbers, double rho)
{
    const xcvm_dtype dtype = (xcvm_dtype)x->type.dtype;
    xcc_value *w = xcc_ml_numbers(n, dtype, rows, numbers.count / rows, numbers.at);
    xcc_value *c = rho != 0 ? xcc_build_number(&n->b, x, rho) : NULL;
    if (w == NULL || (rho != 0 && c == NULL))
        return NULL;
    return xcc_apply(&n->b, Gemm, y, .a = XCC_IN(x), .b = XCC_IN(w), .c = XCC_IN(c), .alpha = 1, .beta = 1,
                     .transB = 1);
}

/* exp(-gamma |x - v|^2) as exp(-gamma (|x|^2 + |v|^2 - 2 x v)), in f64 as its terms may cancel out. */
static xcc_value *radial(xcc_lowering *n, const machine *m, xcc_value *x, size_t count)
{
    const size_t width = m->vectors.count / count;
    double *squares = xcc_alloc(n->m, count * sizeof *squares);
    x = xcc_build_cast(&n->b, x, XCVM_F64);
    if (squares == NULL || x == NULL)
        return NULL;
    for (size_t i = 0; i < m->vectors.count; i++)
        squares[i / width] += m->vectors.at[i] * m->vectors.at[i];
    xcc_value *own = xcc_build_reduce(&n->b, XCVM_OP_ReduceSumSquare, x, XCC_BUILD_INTS(&n->b, 1), true);
    xcc_value *sum = xcc_build_add(&n->b, own, xcc_ml_numbers(n, XCVM_F64, 0, count, squares));
    xcc_value *twice = xcc_build_mul(&n->b, product(n, x, count, m->vectors, 0), xcc_build_number(&n->b, x, 2));
    xcc_value *distance =
        xcc_build_binary(&n->b, XCVM_OP_Max, xcc_build_sub(&n->b, sum, twice), xcc_build_number(&n->b, x, 0));
    xcc_value *exponent =
        xcc_build_cast(&n->b, xcc_build_mul(&n->b, distance, xcc_build_number(&n->b, x, -m->gamma)), XCVM_F32);
    return xcc_build_unary(&n->b, XCVM_OP_Exp, exponent);
}

/* The kernel of each row of x with each of `count` support vectors. */
static xcvm_status kernel_matrix(xcc_lowering *n, const machine *m, xcc_value *x, size_t count, xcc_value **y)
{
    XCVM_CHECK(n->m->error, m->vectors.count > 0 && m->vectors.count % count == 0, INVALID_MODEL,
               "%zu numbers do not make %zu support vectors", m->vectors.count, count);
    if (xcc_text_is(m->kernel, "RBF")) {
        *y = radial(n, m, x, count);
        return *y != NULL ? XCVM_OK : xcc_failure(n);
    }
    xcc_value *p = product(n, x, count, m->vectors, 0);
    if (!xcc_text_is(m->kernel, "LINEAR"))
        p = xcc_build_add(&n->b, xcc_build_mul(&n->b, p, xcc_build_number(&n->b, x, m->gamma)),
                          xcc_build_number(&n->b, x, m->coef0));
    if (xcc_text_is(m->kernel, "POLY"))
        p = xcc_build_binary(&n->b, XCVM_OP_Pow, p, xcc_build_number(&n->b, x, m->degree));
    else if (xcc_text_is(m->kernel, "SIGMOID"))
        p = xcc_build_unary(&n->b, XCVM_OP_Tanh, p);
    *y = p;
    return p != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_lower_ml_svm_regressor(xcc_lowering *n)
{
    machine m;
    int64_t supports;
    bool one_class;
    xcc_ml_transform transform;
    xcc_value *x, *y;
    XCVM_TRY(read_machine(n, &m));
    XCVM_TRY(xcc_attribute_int(n, "n_supports", 0, &supports));
    XCVM_TRY(xcc_attribute_bool(n, "one_class", false, &one_class));
    XCVM_TRY(xcc_ml_read_transform(n, &transform));
    XCVM_TRY(xcc_ml_matrix(n, n->inputs[0], XCVM_F32, &x));
    if (supports > 0) {
        XCVM_CHECK(n->m->error, m.coefficients.count == (size_t)supports, INVALID_MODEL,
                   "the model has %zu coefficients for %lld support vectors", m.coefficients.count,
                   (long long)supports);
        XCVM_TRY(kernel_matrix(n, &m, x, (size_t)supports, &x));
    }
    y = product(n, x, 1, m.coefficients, m.rho.at[0]);
    if (one_class && y != NULL) {
        xcc_value *inside = xcc_build_binary(&n->b, XCVM_OP_Greater, y, xcc_build_number(&n->b, y, 0));
        y = xcc_build_call(&n->b, XCVM_OP_Where, 3,
                           (xcc_value *[]){inside, xcc_build_number(&n->b, y, 1), xcc_build_number(&n->b, y, -1)});
    }
    return xcc_bind(n, 0, xcc_ml_transformed(n, y, transform));
}

/* ---- Classifiers ---- */

/* Pairs of classes i < j in the order of their scores, and the parts they are computed from. */
typedef struct pairing {
    size_t classes, vectors, pairs;
    const int64_t *sizes; /* support vectors of each class */
} pairing;

/* Scores of all pairs: the coefficients of class i against j belong to the vectors of both. */
static xcvm_status pair_scores(xcc_lowering *n, const machine *m, const pairing *p, xcc_value *kernels, xcc_value **y)
{
    double *weights = xcc_alloc(n->m, p->vectors * p->pairs * sizeof *weights);
    if (weights == NULL)
        return XCVM_OUT_OF_MEMORY;
    size_t pair = 0, start_i = 0;
    for (size_t i = 0; i < p->classes; start_i += (size_t)p->sizes[i++]) {
        size_t start_j = start_i + (size_t)p->sizes[i];
        for (size_t j = i + 1; j < p->classes; start_j += (size_t)p->sizes[j++], pair++) {
            for (size_t v = start_i; v < start_i + (size_t)p->sizes[i]; v++)
                weights[v * p->pairs + pair] = m->coefficients.at[(j - 1) * p->vectors + v];
            for (size_t v = start_j; v < start_j + (size_t)p->sizes[j]; v++)
                weights[v * p->pairs + pair] = m->coefficients.at[i * p->vectors + v];
        }
    }
    xcc_value *w = xcc_ml_numbers(n, XCVM_F32, p->vectors, p->pairs, weights);
    xcc_value *c = xcc_ml_numbers(n, XCVM_F32, 0, p->pairs, m->rho.at);
    if (w == NULL || c == NULL)
        return xcc_failure(n);
    *y = xcc_apply(&n->b, Gemm, y, .a = XCC_IN(kernels), .b = XCC_IN(w), .c = XCC_IN(c), .alpha = 1, .beta = 1);
    return *y != NULL ? XCVM_OK : xcc_failure(n);
}

/* The class that wins most of its pairs, the first of equals. */
static xcc_value *most_votes(xcc_lowering *n, const pairing *p, xcc_value *scores)
{
    double *weights = xcc_alloc(n->m, p->pairs * p->classes * sizeof *weights);
    double *base = xcc_alloc(n->m, p->classes * sizeof *base);
    if (weights == NULL || base == NULL || scores == NULL)
        return NULL;
    size_t pair = 0;
    for (size_t i = 0; i < p->classes; i++)
        for (size_t j = i + 1; j < p->classes; j++, pair++) {
            weights[pair * p->classes + i] = 1;
            weights[pair * p->classes + j] = -1;
            base[j] += 1;
        }
    xcc_value *wins = xcc_build_binary(&n->b, XCVM_OP_Greater, scores, xcc_build_number(&n->b, scores, 0));
    wins = xcc_build_cast(&n->b, wins, XCVM_F32);
    xcc_value *w = xcc_ml_numbers(n, XCVM_F32, p->pairs, p->classes, weights);
    xcc_value *c = xcc_ml_numbers(n, XCVM_F32, 0, p->classes, base);
    if (wins == NULL || w == NULL || c == NULL)
        return NULL;
    return xcc_ml_best(
        n, xcc_apply(&n->b, Gemm, y, .a = XCC_IN(wins), .b = XCC_IN(w), .c = XCC_IN(c), .alpha = 1, .beta = 1));
}

/* Platt's probabilities of the pairs, 1 / (1 + exp(a score + b)), coupled to those of the classes. */
static xcc_value *probabilities(xcc_lowering *n, const pairing *p, xcc_value *scores, xcvm_floats a, xcvm_floats b)
{
    xcc_value *linear =
        xcc_build_add(&n->b, xcc_build_mul(&n->b, scores, xcc_ml_numbers(n, XCVM_F32, 0, p->pairs, a.at)),
                      xcc_ml_numbers(n, XCVM_F32, 0, p->pairs, b.at));
    xcc_value *pairs = xcc_build_unary(&n->b, XCVM_OP_Sigmoid, xcc_build_unary(&n->b, XCVM_OP_Neg, linear));
    if (pairs == NULL)
        return NULL;
    xcc_value *clipped = xcc_build_call(
        &n->b, XCVM_OP_Clip, 3,
        (xcc_value *[]){pairs, xcc_build_number(&n->b, pairs, 1e-7), xcc_build_number(&n->b, pairs, 1 - 1e-7)});
    if (clipped == NULL)
        return NULL;
    return xcc_apply(&n->b, PairwiseCoupling, y, .x = XCC_IN(clipped), .classes = (int64_t)p->classes);
}

static bool all_positive(xcvm_floats numbers)
{
    for (size_t i = 0; i < numbers.count; i++)
        if (numbers.at[i] < 0)
            return false;
    return true;
}

/* One linear score for each class. Of two classes, the second one is it as soon as any score is positive enough. */
static xcvm_status linear_classifier(xcc_lowering *n, const machine *m, xcc_value *x, xcc_value *labels, size_t count,
                                     xcc_ml_transform transform)
{
    XCVM_CHECK(n->m->error, m->coefficients.count % count == 0, INVALID_MODEL,
               "%zu coefficients do not fit %zu classes", m->coefficients.count, count);
    xcc_value *y = product(n, x, count, m->coefficients, m->rho.at[0]);
    xcc_value *best = y != NULL ? xcc_apply(&n->b, ArgMax, y, .x = XCC_IN(y), .axis = 1, .keepdims = 1) : NULL;
    if (count == 2 && y != NULL) {
        const bool positive = all_positive(m->coefficients);
        xcc_value *greatest = xcc_build_reduce(&n->b, XCVM_OP_ReduceMax, y, XCC_BUILD_INTS(&n->b, 1), true);
        xcc_value *second = xcc_build_binary(&n->b, positive ? XCVM_OP_GreaterOrEqual : XCVM_OP_Greater, greatest,
                                             xcc_build_number(&n->b, y, positive ? 0.5 : 0));
        best =
            xcc_build_binary(&n->b, XCVM_OP_Max, best, second != NULL ? xcc_build_cast(&n->b, second, XCVM_I64) : NULL);
    }
    XCVM_TRY(xcc_ml_bind_labels(n, labels, xcc_build_squeeze(&n->b, best, 1, &(int64_t){1})));
    return xcc_bind(n, 1, xcc_ml_transformed(n, y, transform));
}

xcvm_status xcc_lower_ml_svm_classifier(xcc_lowering *n)
{
    machine m;
    pairing p = {.vectors = 0};
    xcvm_ints sizes;
    xcvm_floats a, b;
    xcc_ml_transform transform;
    xcc_value *labels, *x, *kernels, *scores;
    XCVM_TRY(read_machine(n, &m));
    XCVM_TRY(xcc_attribute_ints(n, "vectors_per_class", &sizes));
    XCVM_TRY(xcc_attribute_floats(n, "prob_a", &a));
    XCVM_TRY(xcc_attribute_floats(n, "prob_b", &b));
    XCVM_TRY(xcc_ml_read_transform(n, &transform));
    XCVM_TRY(xcc_ml_labels(n, "classlabels_ints", "classlabels_strings", &labels, &p.classes));
    XCVM_TRY(xcc_ml_matrix(n, n->inputs[0], XCVM_F32, &x));
    for (size_t i = 0; i < sizes.count; i++) {
        XCVM_CHECK(n->m->error, sizes.at[i] >= 0 && (size_t)sizes.at[i] <= m.vectors.count, INVALID_MODEL,
                   "entry %zu of vectors_per_class is %lld", i, (long long)sizes.at[i]);
        p.vectors += (size_t)sizes.at[i];
    }
    if (p.vectors == 0)
        return linear_classifier(n, &m, x, labels, p.classes, transform);
    p.sizes = sizes.at;
    p.pairs = p.classes * (p.classes - 1) / 2;
    XCVM_CHECK(n->m->error, p.classes >= 2 && p.classes < 65536 && sizes.count == p.classes, INVALID_MODEL,
               "the model has %zu labels and %zu entries of vectors_per_class", p.classes, sizes.count);
    XCVM_CHECK(n->m->error, m.coefficients.count / p.vectors >= p.classes - 1 && m.rho.count >= p.pairs, INVALID_MODEL,
               "%zu coefficients and %zu rho are too few for %zu support vectors of %zu classes", m.coefficients.count,
               m.rho.count, p.vectors, p.classes);
    XCVM_CHECK(n->m->error, a.count == b.count && (a.count == 0 || a.count >= p.pairs), INVALID_MODEL,
               "prob_a has %zu entries and prob_b %zu; expected %zu", a.count, b.count, p.pairs);
    XCVM_TRY(kernel_matrix(n, &m, x, p.vectors, &kernels));
    XCVM_TRY(pair_scores(n, &m, &p, kernels, &scores));
    XCVM_TRY(xcc_ml_bind_labels(n, labels, most_votes(n, &p, scores)));
    if (a.count > 0)
        return xcc_bind(n, 1, xcc_ml_transformed(n, probabilities(n, &p, scores, a, b), transform));
    if (p.pairs > 1)
        return xcc_bind(n, 1, xcc_ml_transformed(n, scores, transform));
    return xcc_bind(n, 1, xcc_ml_two_scores(n, scores, transform == XCC_ML_NONE, transform));
}
