/* Shapes of matrix products, and the partition of products of element types other than f32. */
#include "ops/matmul/product_shape.h"

/* ---- Shape rules ---- */

static xcvm_status same_dim(const xcvm_inference *t, int64_t a, int64_t b, const char *what)
{
    XCVM_CHECK(t->error, a < 0 || b < 0 || a == b, SHAPE_MISMATCH, "%s: %lld and %lld are not equal", what,
               (long long)a, (long long)b);
    return XCVM_OK;
}

/* Shape of the product of a and b. As in NumPy, 1-D operands are a row and a column. */
static xcvm_status matmul_shape(const xcvm_inference *t, const xcvm_value *a, const xcvm_value *b, xcvm_value *y)
{
    XCVM_CHECK(t->error, a->rank != 0 && b->rank != 0, SHAPE_MISMATCH, "a matrix product takes no scalars");
    if (a->rank < 0 || b->rank < 0) {
        xcvm_value_set_tensor(y, y->dtype, -1, NULL);
        return XCVM_OK;
    }
    XCVM_TRY(same_dim(t, a->dims[a->rank - 1], b->dims[b->rank > 1 ? b->rank - 2 : 0], "columns of a and rows of b"));
    xcvm_value lead_a = {.rank = 0}, lead_b = {.rank = 0};
    xcvm_value_set_tensor(&lead_a, XCVM_U8, a->rank > 2 ? a->rank - 2 : 0, a->dims);
    xcvm_value_set_tensor(&lead_b, XCVM_U8, b->rank > 2 ? b->rank - 2 : 0, b->dims);
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    XCVM_TRY(xcvm_broadcast_shapes(t->error, &lead_a, &lead_b, &rank, dims));
    if (a->rank > 1)
        dims[rank++] = a->dims[a->rank - 2];
    if (b->rank > 1)
        dims[rank++] = b->dims[b->rank - 1];
    xcvm_value_set_tensor(y, y->dtype, rank, dims);
    return XCVM_OK;
}

/* Checks a scale or zero point: one number, or one per row (axis rank - 2 of the matrix) or column, as a vector or with
 * the matrix's rank and all other dimensions 1 or equal. */
static xcvm_status check_quantization(const xcvm_inference *t, const xcvm_value *q, const xcvm_value *matrix, bool rows,
                                      const char *what)
{
    if (q == NULL || q->rank < 0 || matrix->rank < 0)
        return XCVM_OK;
    if (!xcvm_dims_known(q) || !xcvm_dims_known(matrix) || xcvm_element_count(q) == 1)
        return XCVM_OK;
    const int along = rows ? matrix->rank - 2 : matrix->rank - 1;
    bool fits = along >= 0;
    if (fits && q->rank == 1)
        fits = q->dims[0] == matrix->dims[along];
    else if (fits)
        fits = q->rank == matrix->rank;
    for (int i = 0; fits && q->rank > 1 && i < q->rank; i++) {
        const bool across = i == (rows ? matrix->rank - 1 : matrix->rank - 2);
        fits = across ? q->dims[i] == 1 : q->dims[i] == matrix->dims[i];
    }
    char text[96], of[96];
    XCVM_CHECK(t->error, fits, SHAPE_MISMATCH, "%s has shape %s, which is neither one number nor one for each %s of %s",
               what, xcvm_dims_describe(q->rank, q->dims, text, sizeof text), rows ? "row" : "column",
               xcvm_dims_describe(matrix->rank, matrix->dims, of, sizeof of));
    return XCVM_OK;
}

XCVM_SHAPE_RULE(MatMul)
{
    if (t->schema->opcode == XCVM_OP_MatMulInteger) {
        const xcvm_MatMulInteger_args *a = t->args;
        XCVM_TRY(check_quantization(t, a->a_zero_point, a->a, true, "a_zero_point"));
        XCVM_TRY(check_quantization(t, a->b_zero_point, a->b, false, "b_zero_point"));
    }
    return matmul_shape(t, t->in[0], t->in[1], t->out[0]);
}

XCVM_SHAPE_RULE_OF(QLinearMatMul)
{
    XCVM_TRY(check_quantization(t, a->a_scale, a->a, true, "a_scale"));
    XCVM_TRY(check_quantization(t, a->a_zero_point, a->a, true, "a_zero_point"));
    XCVM_TRY(check_quantization(t, a->b_scale, a->b, false, "b_scale"));
    XCVM_TRY(check_quantization(t, a->b_zero_point, a->b, false, "b_zero_point"));
    bool known;
    XCVM_TRY(xcvm_scalar_check(t->error, a->y_scale, "y_scale", &known));
    XCVM_TRY(xcvm_scalar_check(t->error, a->y_zero_point, "y_zero_point", &known));
    return matmul_shape(t, a->a, a->b, a->y);
}

XCVM_SHAPE_RULE_OF(Gemm)
{
    XCVM_TRY(xcvm_activation_check(t->error, a->activation, a->activation_params));
    const int rank = a->a->rank;
    XCVM_CHECK(t->error, rank < 0 || rank == 2 || (rank > 2 && !a->transA), SHAPE_MISMATCH,
               "a has the wrong rank (%d; expected 2%s)", rank, a->transA ? "" : " or more");
    XCVM_CHECK(t->error, a->b->rank < 0 || a->b->rank == 2, SHAPE_MISMATCH, "b has the wrong rank (%d; expected 2)",
               a->b->rank);
    if (rank < 0 || a->b->rank < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, rank);
        return XCVM_OK;
    }
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, a->a->dims, sizeof dims);
    XCVM_TRY(
        same_dim(t, a->a->dims[a->transA ? 0 : rank - 1], a->b->dims[a->transB ? 1 : 0], "columns of a and rows of b"));
    if (a->transA)
        dims[0] = a->a->dims[1];
    dims[rank - 1] = a->b->dims[a->transB ? 0 : 1];
    const xcvm_value *c = a->c;
    XCVM_CHECK(t->error, c == NULL || c->rank <= rank, SHAPE_MISMATCH, "c has the wrong rank (%d; expected at most %d)",
               c != NULL ? c->rank : 0, rank);
    for (int i = 0; c != NULL && i < c->rank; i++) {
        const int64_t want = dims[rank - c->rank + i];
        XCVM_CHECK(t->error, c->dims[i] < 0 || c->dims[i] == 1 || want < 0 || c->dims[i] == want, SHAPE_MISMATCH,
                   "dimension %d of c has the wrong size (%lld; expected 1 or %lld)", i, (long long)c->dims[i],
                   (long long)want);
    }
    xcvm_value_set_tensor(a->y, a->y->dtype, rank, dims);
    return XCVM_OK;
}

/* ---- Pairing of matrices ---- */

static size_t dim_from_end(const xcvm_value *v, int i) { return i < v->rank ? (size_t)v->dims[v->rank - 1 - i] : 1; }

xcvm_product xcvm_product_of(const xcvm_value *a, const xcvm_value *b, bool as_one)
{
    xcvm_product p = {.count = 1};
    p.k = dim_from_end(a, 0);
    p.m = a->rank > 1 ? dim_from_end(a, 1) : 1;
    p.n = b->rank > 1 ? dim_from_end(b, 0) : 1;
    const int longer = a->rank > b->rank ? a->rank : b->rank;
    p.rank = longer > 2 ? longer - 2 : 0;
    size_t a_matrices = 1, b_matrices = 1;
    for (int i = 2; i < longer; i++) {
        const size_t da = dim_from_end(a, i), db = dim_from_end(b, i);
        const int at = longer - 1 - i;
        p.dims[at] = da != 1 ? da : db;
        p.a[at] = da != 1 ? a_matrices : 0;
        p.b[at] = db != 1 ? b_matrices : 0;
        a_matrices *= da;
        b_matrices *= db;
        p.count *= p.dims[at];
    }
    if (as_one && b_matrices == 1 && a_matrices == p.count) {
        p.m *= p.count;
        p.count = 1;
        p.rank = 0;
    }
    return p;
}

void xcvm_product_at(const xcvm_product *p, size_t index, size_t *a, size_t *b)
{
    *a = *b = 0;
    for (int i = p->rank - 1; i >= 0; i--) {
        const size_t at = index % p->dims[i];
        index /= p->dims[i];
        *a += at * p->a[i];
        *b += at * p->b[i];
    }
}

/* ---- Other element types ---- */

/* Minimum multiply-adds per thread; multiply-adds of a piece of rows, each of which reads all of b; maximum rows of the
 * streaming algorithm. */
enum { THREAD_WORK = 100 * 1000, PIECE_WORK = 32 * 1000 * 1000, FEW_ROWS = 2 };

typedef struct product_shape_loop {
    const xcvm_kernel *k;
    const xcvm_product_task *task;
    size_t row_parts; /* pieces of the rows of each product */
    uint32_t status;  /* atomic */
} product_shape_loop;

static void run_pieces(void *context, size_t begin, size_t end, int worker)
{
    product_shape_loop *w = context;
    const xcvm_product_task *task = w->task;
    const xcvm_product *s = &task->shape;
    const size_t size = xcvm_dtype_size(task->dtype);
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t item = i / w->row_parts, part = i % w->row_parts;
        const size_t m0 = s->m * part / w->row_parts, m1 = s->m * (part + 1) / w->row_parts;
        size_t a, b;
        xcvm_product_at(s, item, &a, &b);
        const size_t ld_a = task->transpose_a ? s->m : s->k, ld_b = task->transpose_b ? s->k : s->n;
        xcvm_product_piece p = {.kernel = w->k, .m = m1 - m0, .n = s->n, .k = s->k, .add = task->add};
        p.few_rows = s->m <= FEW_ROWS;
        p.a_row = task->transpose_a ? 1 : ld_a;
        p.a_column = task->transpose_a ? ld_a : 1;
        p.b_row = task->transpose_b ? 1 : ld_b;
        p.b_column = task->transpose_b ? ld_b : 1;
        p.a = (const char *)task->a + (a * s->m * s->k + m0 * p.a_row) * size;
        p.b = (const char *)task->b + b * s->k * s->n * size;
        p.y = (char *)task->y + (item * s->m + m0) * s->n * size;
        const xcvm_status status = p.m > 0 ? task->multiply(task->dtype, &p) : XCVM_OK;
        if (status != XCVM_OK) {
            __atomic_store_n(&w->status, (uint32_t)status, __ATOMIC_RELAXED);
            return;
        }
    }
}

xcvm_status xcvm_product_run(const xcvm_kernel *k, const xcvm_product_task *task)
{
    const xcvm_product *s = &task->shape;
    if (s->count == 0 || s->m == 0 || s->n == 0)
        return XCVM_OK;
    product_shape_loop w = {.k = k, .task = task};
    /* Pieces of rows are large enough for a thread, and short enough for polls between them. */
    const double row = (double)s->n * (double)s->k + 1.0;
    const double rows = PIECE_WORK / row;
    const size_t piece_rows = rows < 1.0 ? 1 : rows > (double)s->m ? s->m : (size_t)rows;
    w.row_parts = (s->m + piece_rows - 1) / piece_rows;
    const double total = row * (double)s->m * (double)s->count;
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    if (total > THREAD_WORK && w.row_parts * s->count < threads)
        w.row_parts = s->m < threads ? s->m : threads;
    const size_t grain = total > THREAD_WORK ? 1 : w.row_parts * s->count;
    XCVM_TRY(xcvm_kernel_parallel(k, w.row_parts * s->count, grain, run_pieces, &w));
    return (xcvm_status)w.status;
}
