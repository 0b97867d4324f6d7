/* Gemm, and Einsum as transpositions, diagonals, sums and matrix products. */
#include "compiler/import_onnx/lower/lower.h"

#include <string.h>

/* Before opset 7 the broadcasting of c is announced. */
xcvm_status xcc_lower_gemm(xcc_lowering *n)
{
    if (n->version < 7)
        xcc_attribute_ignore(n, "broadcast");
    return xcc_lower_one_to_one(n);
}

/* ---- Einsum ---- */

/* A dimension of a term: a letter, or one of the dimensions of an ellipsis, counted from the last: 'Z' + 1 + i. */
enum { ELLIPSIS = 128, LABELS = ELLIPSIS + XCVM_MAX_RANK };

typedef struct term {
    int rank;
    int labels[XCVM_MAX_RANK];
    xcc_value *value;
} term;

static bool has(const term *t, int label)
{
    for (int i = 0; i < t->rank; i++)
        if (t->labels[i] == label)
            return true;
    return false;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Reads one term up to ',' or '-' or the end. `rank` below 0: there are as many dimensions as labels, `ellipsis` of
 * them for "...". */
static xcvm_status parse_term(xcc_lowering *n, const char **text, int rank, int ellipsis, term *t)
{
    int letters = 0;
    bool dots = false;
    for (const char *c = *text; *c != '\0' && *c != ',' && *c != '-'; c++) {
        letters += is_letter(*c);
        dots = dots || *c == '.';
    }
    if (rank >= 0) {
        XCVM_CHECK(n->m->error, dots ? letters <= rank : letters == rank, SHAPE_MISMATCH,
                   "a term of the equation has %d labels, its operand %d dimensions", letters, rank);
        ellipsis = rank - letters;
    }
    t->rank = 0;
    bool seen = false;
    while (**text != '\0' && **text != ',' && **text != '-') {
        const char c = *(*text)++;
        if (c == ' ')
            continue;
        if (is_letter(c)) {
            XCVM_CHECK(n->m->error, t->rank < XCVM_MAX_RANK, UNSUPPORTED, "a term has more than %d labels",
                       XCVM_MAX_RANK);
            t->labels[t->rank++] = c;
            continue;
        }
        XCVM_CHECK(n->m->error, c == '.' && (*text)[0] == '.' && (*text)[1] == '.' && !seen, INVALID_MODEL,
                   "the equation contains '%c'; expected a letter or a single '...'", c);
        *text += 2;
        seen = true;
        XCVM_CHECK(n->m->error, t->rank + ellipsis <= XCVM_MAX_RANK, UNSUPPORTED, "a term has more than %d dimensions",
                   XCVM_MAX_RANK);
        for (int i = 0; i < ellipsis; i++)
            t->labels[t->rank++] = ELLIPSIS + ellipsis - 1 - i;
    }
    return XCVM_OK;
}

/* Without "->" the result has the dimensions of "..." and then, in order, the letters that occur once. */
static void implicit_output(const term *terms, size_t count, int ellipsis, term *out)
{
    out->rank = 0;
    for (int i = 0; i < ellipsis; i++)
        out->labels[out->rank++] = ELLIPSIS + ellipsis - 1 - i;
    for (int letter = 'A'; letter <= 'z' && out->rank < XCVM_MAX_RANK; letter++) {
        int times = 0;
        for (size_t k = 0; k < count; k++)
            for (int i = 0; i < terms[k].rank; i++)
                times += terms[k].labels[i] == letter;
        if (times == 1)
            out->labels[out->rank++] = letter;
    }
}

static xcc_value *permute(xcc_lowering *n, term *t, const int *labels, int rank)
{
    int64_t perm[XCVM_MAX_RANK];
    for (int i = 0; i < rank; i++)
        for (int k = 0; k < t->rank; k++)
            if (t->labels[k] == labels[i])
                perm[i] = k;
    for (int i = 0; i < rank; i++)
        t->labels[i] = labels[i];
    return t->value = xcc_build_transpose(&n->b, t->value, (size_t)rank, perm);
}

/* The product of some dimensions of a value, as a tensor of shape [1]. */
static xcc_value *product_of(xcc_lowering *n, xcc_value *x, int first, int count)
{
    xcc_value *product = NULL;
    for (int i = 0; i < count; i++) {
        xcc_value *dim = xcc_build_dim_of(&n->b, x, first + i);
        product = product == NULL ? dim : xcc_build_mul(&n->b, product, dim);
    }
    return product != NULL ? product : XCC_BUILD_INTS(&n->b, 1);
}

/* A label that occurs twice in a term selects the diagonal of two dimensions. They are moved to the end and merged, and
 * every (size + 1)-th element is kept. */
static xcc_value *take_diagonals(xcc_lowering *n, term *t)
{
    for (int i = 0; i < t->rank && t->value != NULL; i++)
        for (int k = i + 1; k < t->rank; k++) {
            if (t->labels[i] != t->labels[k])
                continue;
            const int label = t->labels[i];
            int64_t perm[XCVM_MAX_RANK];
            int kept[XCVM_MAX_RANK], rank = 0;
            for (int d = 0; d < t->rank; d++)
                if (d != i && d != k) {
                    kept[rank] = t->labels[d];
                    perm[rank++] = d;
                }
            perm[rank] = i;
            perm[rank + 1] = k;
            xcc_value *moved = xcc_build_transpose(&n->b, t->value, (size_t)rank + 2, perm);
            xcc_value *size = xcc_build_dim_of(&n->b, moved, rank),
                      *all = size != NULL ? xcc_build_mul(&n->b, size, size) : NULL;
            xcc_value *parts[XCVM_MAX_RANK];
            for (int d = 0; d < rank; d++)
                parts[d] = xcc_build_dim_of(&n->b, moved, d);
            parts[rank] = all;
            xcc_value *flat = xcc_build_reshape_to(&n->b, moved, xcc_build_concat(&n->b, (size_t)rank + 1, parts, 0));
            xcc_value *step = xcc_build_add(&n->b, size, XCC_BUILD_INTS(&n->b, 1));
            t->value =
                xcc_build_call(&n->b, XCVM_OP_Slice, 5,
                               (xcc_value *[]){flat, XCC_BUILD_INTS(&n->b, 0), all, XCC_BUILD_INTS(&n->b, rank), step});
            for (int d = 0; d < rank; d++)
                t->labels[d] = kept[d];
            t->labels[rank] = label;
            t->rank = rank + 1;
            i = -1; /* start again: there may be a third */
            break;
        }
    return t->value;
}

/* Sums over the dimensions that nothing later needs. */
static xcc_value *sum_out(xcc_lowering *n, term *t, const bool *needed)
{
    int64_t axes[XCVM_MAX_RANK];
    size_t count = 0;
    int rank = 0;
    for (int i = 0; i < t->rank; i++) {
        if (needed[t->labels[i]])
            t->labels[rank++] = t->labels[i];
        else
            axes[count++] = i;
    }
    t->rank = rank;
    if (count > 0)
        t->value = xcc_build_reduce(&n->b, XCVM_OP_ReduceSum, t->value, xcc_build_ints(&n->b, count, axes), false);
    return t->value;
}

/* Brings a term into [batch ..., rows, columns]; groups of none or of several dimensions become one. */
static xcc_value *as_matrices(xcc_lowering *n, term *t, const int *order, int batch, int rows, int columns)
{
    xcc_value *x = permute(n, t, order, batch + rows + columns), *parts[XCVM_MAX_RANK + 2];
    if (x == NULL || (rows == 1 && columns == 1))
        return x;
    int count = 0;
    for (; count < batch; count++)
        parts[count] = xcc_build_dim_of(&n->b, x, count);
    parts[count++] = product_of(n, x, batch, rows);
    parts[count++] = product_of(n, x, batch + rows, columns);
    return xcc_build_reshape_to(&n->b, x, xcc_build_concat(&n->b, (size_t)count, parts, 0));
}

/* A dimension of size 1 is broadcast to that of the same label in the other term. Products broadcast dimensions that
 * stay. A summed dimension is removed from its term, so that the other term is summed alone. */
static xcc_value *drop_ones(xcc_lowering *n, term *t, const term *other, const bool *needed)
{
    int64_t axes[XCVM_MAX_RANK];
    size_t count = 0;
    int rank = 0;
    for (int i = 0; i < t->rank; i++) {
        const int label = t->labels[i];
        if (t->value->type.rank == t->rank && t->value->type.dims[i] == 1 && !needed[label] && has(other, label))
            axes[count++] = i;
        else
            t->labels[rank++] = label;
    }
    t->rank = rank;
    if (count > 0)
        t->value = xcc_build_squeeze(&n->b, t->value, count, axes);
    return t->value;
}

/* The labels of two terms, grouped by their role in a matrix product. */
typedef struct division {
    int batch[XCVM_MAX_RANK], inner[XCVM_MAX_RANK], left[XCVM_MAX_RANK], right[XCVM_MAX_RANK];
    int batches, inners, lefts, rights;
} division;

/* Labels in both terms that are still needed are batch dimensions; the others are summed. */
static division divide(const term *a, const term *b, const bool *needed)
{
    division p = {.batches = 0};
    for (int i = 0; i < a->rank; i++) {
        const int label = a->labels[i];
        if (!has(b, label))
            p.left[p.lefts++] = label;
        else if (needed[label])
            p.batch[p.batches++] = label;
        else
            p.inner[p.inners++] = label;
    }
    for (int i = 0; i < b->rank; i++)
        if (!has(a, b->labels[i]))
            p.right[p.rights++] = b->labels[i];
    return p;
}

/* a x b as [batches.., lefts.., rights..]; NULL: failed. */
static xcc_value *matrix_product(xcc_lowering *n, term *a, term *b, const division *p)
{
    int order_a[XCVM_MAX_RANK * 3], order_b[XCVM_MAX_RANK * 3];
    for (int i = 0; i < p->batches; i++)
        order_a[i] = order_b[i] = p->batch[i];
    for (int i = 0; i < p->lefts; i++)
        order_a[p->batches + i] = p->left[i];
    for (int i = 0; i < p->inners; i++)
        order_a[p->batches + p->lefts + i] = order_b[p->batches + i] = p->inner[i];
    for (int i = 0; i < p->rights; i++)
        order_b[p->batches + p->inners + i] = p->right[i];
    xcc_value *x = as_matrices(n, a, order_a, p->batches, p->lefts, p->inners);
    xcc_value *y = as_matrices(n, b, order_b, p->batches, p->inners, p->rights);
    xcc_value *product = xcc_build_binary(&n->b, XCVM_OP_MatMul, x, y), *parts[XCVM_MAX_RANK];
    if (product == NULL || (p->lefts == 1 && p->rights == 1))
        return product;
    int count = 0;
    for (int i = 0; i < p->batches; i++)
        parts[count++] = xcc_build_dim_of(&n->b, product, i);
    for (int i = 0; i < p->lefts; i++)
        parts[count++] = xcc_build_dim_of(&n->b, a->value, p->batches + i);
    for (int i = 0; i < p->rights; i++)
        parts[count++] = xcc_build_dim_of(&n->b, b->value, p->batches + p->inners + i);
    return xcc_build_reshape_to(
        &n->b, product, count > 0 ? xcc_build_concat(&n->b, (size_t)count, parts, 0) : xcc_build_ints(&n->b, 0, NULL));
}

/* Multiplies two terms; `a` becomes the product. */
static xcvm_status multiply(xcc_lowering *n, term *a, term *b, const bool *needed)
{
    bool either[LABELS];
    if (drop_ones(n, a, b, needed) == NULL || drop_ones(n, b, a, needed) == NULL)
        return xcc_failure(n);
    for (int label = 0; label < LABELS; label++)
        either[label] = needed[label] || (has(a, label) && has(b, label));
    if (sum_out(n, a, either) == NULL || sum_out(n, b, either) == NULL)
        return xcc_failure(n);
    const division p = divide(a, b, needed);
    XCVM_CHECK(n->m->error, p.batches + 2 <= XCVM_MAX_RANK && p.batches + p.lefts + p.rights <= XCVM_MAX_RANK,
               UNSUPPORTED, "the product of two terms has more than %d dimensions", XCVM_MAX_RANK);
    if (p.lefts + p.rights + p.inners == 0) {
        a->value = xcc_build_mul(&n->b, a->value, permute(n, b, a->labels, a->rank));
        return a->value != NULL ? XCVM_OK : xcc_failure(n);
    }
    xcc_value *product = matrix_product(n, a, b, &p);
    if (product == NULL)
        return xcc_failure(n);
    a->value = product;
    a->rank = 0;
    for (int i = 0; i < p.batches; i++)
        a->labels[a->rank++] = p.batch[i];
    for (int i = 0; i < p.lefts; i++)
        a->labels[a->rank++] = p.left[i];
    for (int i = 0; i < p.rights; i++)
        a->labels[a->rank++] = p.right[i];
    return XCVM_OK;
}

/* ---- "..." of operands of unknown rank: its dimensions become one ---- */

/* Used if all dimensions of "..." are merged into one dimension of each term. */
typedef struct ellipses {
    bool joined;
    xcc_value *dims; /* as many as there are when the program runs, broadcast to each other */
} ellipses;

/* The product of a list of dimensions, as a tensor of shape [1]. */
static xcc_value *product_of_list(xcc_lowering *n, xcc_value *list)
{
    return xcc_build_reduce(&n->b, XCVM_OP_ReduceProd, list, NULL, true);
}

/* Merges the dimensions of "..." into the first one of the term. Its labels give the number of letters before and after
 * them. `*dims` are the merged dimensions; NULL without "...". */
static xcvm_status join_ellipsis(xcc_lowering *n, term *t, xcc_value **dims)
{
    int64_t indices[XCVM_MAX_RANK], perm[XCVM_MAX_RANK];
    int at = 0, letters = 0;
    *dims = NULL;
    while (at < t->rank && t->labels[at] != ELLIPSIS)
        at++;
    if (at == t->rank)
        return XCVM_OK;
    xcc_value *shape = xcc_build_shape_of(&n->b, t->value), *parts[3];
    for (int i = 0; i < at; i++)
        indices[i] = i;
    for (int i = at + 1; i < t->rank; i++)
        indices[i] = i - t->rank;
    const size_t behind = (size_t)(t->rank - at - 1);
    *dims = xcc_build_slice(&n->b, shape, 0, at, behind == 0 ? INT64_MAX : -(int64_t)behind, 1);
    parts[0] = xcc_build_gather(&n->b, shape, xcc_build_ints(&n->b, (size_t)at, indices), 0);
    parts[1] = product_of_list(n, *dims);
    parts[2] = xcc_build_gather(&n->b, shape, xcc_build_ints(&n->b, behind, indices + at + 1), 0);
    t->value = xcc_build_reshape_to(&n->b, t->value, xcc_build_concat(&n->b, 3, parts, 0));
    perm[letters++] = at;
    for (int i = 0; i < t->rank; i++)
        if (i != at)
            perm[letters++] = i;
    for (int i = at; i > 0; i--)
        t->labels[i] = t->labels[i - 1];
    t->labels[0] = ELLIPSIS;
    t->value = xcc_build_transpose(&n->b, t->value, (size_t)t->rank, perm);
    return t->value != NULL ? XCVM_OK : xcc_failure(n);
}

/* Broadcasts the first dimension of a term, which is `dims` joined, to all of `to`. */
static xcc_value *expand_ellipsis(xcc_lowering *n, term *t, xcc_value *dims, xcc_value *to)
{
    xcc_value *letters = xcc_build_slice(&n->b, xcc_build_shape_of(&n->b, t->value), 0, 1, INT64_MAX, 1);
    xcc_value *count = product_of_list(n, letters);
    xcc_value *apart =
        xcc_build_reshape_to(&n->b, t->value, xcc_build_concat(&n->b, 2, (xcc_value *[]){dims, count}, 0));
    xcc_value *wide = xcc_build_expand(&n->b, apart, xcc_build_concat(&n->b, 2, (xcc_value *[]){to, count}, 0));
    xcc_value *all = product_of_list(n, to);
    return t->value = xcc_build_reshape_to(&n->b, wide, xcc_build_concat(&n->b, 2, (xcc_value *[]){all, letters}, 0));
}

static xcvm_status join_ellipses(xcc_lowering *n, term *terms, ellipses *e)
{
    xcc_value **dims = xcc_alloc(n->m, n->input_count * sizeof *dims), *shape = NULL;
    size_t count = 0;
    if (dims == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < n->input_count; i++) {
        XCVM_TRY(join_ellipsis(n, &terms[i], &dims[i]));
        if (dims[i] == NULL)
            continue;
        /* Expand's shape may itself be broadcast, which yields the common dimensions. */
        shape = xcc_build_expand(&n->b, shape != NULL ? shape : xcc_scalar(n->b.graph, XCVM_BOOL, 0), dims[i]);
        e->dims = dims[i];
        count++;
    }
    if (count == 1)
        return XCVM_OK;
    e->dims = xcc_build_shape_of(&n->b, shape);
    for (size_t i = 0; i < n->input_count; i++)
        if (dims[i] != NULL && expand_ellipsis(n, &terms[i], dims[i], e->dims) == NULL)
            return xcc_failure(n);
    return e->dims != NULL ? XCVM_OK : xcc_failure(n);
}

/* Splits the merged dimensions of "..." in the result. */
static xcc_value *part_ellipsis(xcc_lowering *n, const term *out, xcc_value *y, const ellipses *e)
{
    xcc_value *parts[XCVM_MAX_RANK];
    if (!e->joined || !has(out, ELLIPSIS))
        return y;
    for (int i = 0; i < out->rank; i++)
        parts[i] = out->labels[i] == ELLIPSIS ? e->dims : xcc_build_dim_of(&n->b, y, i);
    return xcc_build_reshape_to(&n->b, y, xcc_build_concat(&n->b, (size_t)out->rank, parts, 0));
}

/* Returns true if a term has "..." and its operand an unknown rank. */
static bool has_open_ellipsis(const xcc_lowering *n, const char *text)
{
    for (size_t i = 0; i < n->input_count; i++) {
        const size_t length = strcspn(text, ",-");
        if (n->inputs[i]->type.rank < 0 && memchr(text, '.', length) != NULL)
            return true;
        text += length;
        text += *text == ',';
    }
    return false;
}

/* ---- The equation ---- */

static xcvm_status parse_equation(xcc_lowering *n, const char *text, term *terms, term *out, ellipses *e)
{
    int ellipsis = 0;
    e->joined = has_open_ellipsis(n, text);
    for (size_t i = 0; i < n->input_count; i++) {
        XCVM_CHECK(n->m->error, n->inputs[i]->type.kind == XCVM_KIND_TENSOR, TYPE_MISMATCH, "operand %zu is no tensor",
                   i);
        /* Without "..." the number of labels is the number of dimensions. */
        XCVM_TRY(parse_term(n, &text, e->joined ? -1 : n->inputs[i]->type.rank, 1, &terms[i]));
        terms[i].value = n->inputs[i];
        for (int k = 0; k < terms[i].rank; k++)
            if (terms[i].labels[k] >= ELLIPSIS && terms[i].labels[k] - ELLIPSIS + 1 > ellipsis)
                ellipsis = terms[i].labels[k] - ELLIPSIS + 1;
        bool last = i + 1 == n->input_count;
        XCVM_CHECK(n->m->error, *text == (last ? '\0' : ',') || (last && text[0] == '-' && text[1] == '>'),
                   INVALID_MODEL, "the number of terms of the equation differs from the number of operands, %zu",
                   n->input_count);
        text += *text == ',';
    }
    if (*text == '\0') {
        implicit_output(terms, n->input_count, ellipsis, out);
        return e->joined ? join_ellipses(n, terms, e) : XCVM_OK;
    }
    text += 2;
    XCVM_TRY(parse_term(n, &text, -1, ellipsis, out));
    XCVM_CHECK(n->m->error, *text == '\0', INVALID_MODEL, "the equation continues after its result");
    for (int i = 0; i < out->rank; i++) {
        bool given = false;
        for (size_t k = 0; k < n->input_count; k++)
            given = given || has(&terms[k], out->labels[i]);
        XCVM_CHECK(n->m->error, given, INVALID_MODEL, "no term has the label %d of the result", i);
        for (int k = 0; k < i; k++)
            XCVM_CHECK(n->m->error, out->labels[k] != out->labels[i], INVALID_MODEL,
                       "label %d of the result occurs more than once", i);
    }
    return e->joined ? join_ellipses(n, terms, e) : XCVM_OK;
}

xcvm_status xcc_lower_einsum(xcc_lowering *n)
{
    xcvm_text equation;
    term out;
    ellipses e = {.joined = false};
    XCVM_TRY(xcc_need_inputs(n, n->input_count > 0 ? n->input_count : 1, SIZE_MAX));
    XCVM_TRY(xcc_attribute_text(n, "equation", "", &equation));
    term *terms = xcc_alloc(n->m, n->input_count * sizeof *terms);
    if (terms == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(parse_equation(n, equation.at, terms, &out, &e));
    for (size_t i = 0; i < n->input_count; i++) {
        if (take_diagonals(n, &terms[i]) == NULL)
            return xcc_failure(n);
        bool needed[LABELS] = {false};
        for (int k = 0; k < out.rank; k++)
            needed[out.labels[k]] = true;
        for (size_t later = i + 1; later < n->input_count; later++)
            for (int k = 0; k < terms[later].rank; k++)
                needed[terms[later].labels[k]] = true;
        if (i > 0)
            XCVM_TRY(multiply(n, &terms[0], &terms[i], needed));
        else if (n->input_count == 1 && sum_out(n, &terms[0], needed) == NULL)
            return xcc_failure(n);
    }
    return xcc_bind(n, 0, part_ellipsis(n, &out, permute(n, &terms[0], out.labels, out.rank), &e));
}
