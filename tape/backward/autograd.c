/* Derivatives of functions: vector products, Jacobians, Hessian-vector products. */
#include "ops/util/convert.h"
#include "tape/backward/backward.h"

#include <string.h>

/* A function that is being differentiated: aliases of its arguments, and its value. */
typedef struct traced_function {
    xcvm_tape *tape;
    xcvm_scope scope;
    bool recording;
    bool connected; /* its derivatives can be differentiated with respect to what the arguments depend on */
    size_t count, bytes;
    xcvm_var *xs, *gradients; /* with room for one more */
    xcvm_var value;
} traced_function;

static xcvm_status begin_function(traced_function *f, xcvm_tape *t, xcvm_tape_function function, size_t count,
                                  const xcvm_var *xs, xcvm_error *error)
{
    XCVM_CHECK(error, function.call != NULL && count > 0 && xs != NULL, INVALID_ARGUMENT,
               "there is no function, or it has no arguments");
    *f = (traced_function){.tape = t, .scope = xcvm_tape_scope_begin(t), .recording = t->recording, .count = count};
    XCVM_CHECK(error, count < SIZE_MAX / 64, INVALID_ARGUMENT, "there are too many arguments");
    f->bytes = (2 * count + 1) * sizeof *xs;
    if ((f->xs = tape_allocate(t, f->bytes)) == NULL)
        return tape_report(t, error);
    f->gradients = f->xs + count;
    for (size_t i = 0; i < count && !t->failed; i++) {
        tape_variable *x = tape_resolve(t, xs[i], "an argument of the function");
        char text[192];
        if (x != NULL && (x->value.type.kind != XCVM_KIND_TENSOR || !tape_variable_can_have_gradient(x)))
            tape_fail(t, XCVM_TYPE_MISMATCH,
                      "argument %zu of the function is %s; only tensors of float types have gradients", i,
                      xcvm_value_describe(&x->value.type, text, sizeof text));
        const tape_variable *own = t->failed ? NULL : tape_variable_alias(t, x);
        if (own == NULL)
            break;
        f->connected = f->connected || (f->recording && (x->requires || t->function_depth > 0));
        f->xs[i] = tape_handle(own);
    }
    t->recording = true;
    t->function_depth++;
    f->value = t->failed ? TAPE_FAILED : function.call(function.user, t, count, f->xs);
    t->function_depth--;
    if (!t->failed)
        tape_resolve(t, f->value, "the value of the function");
    return XCVM_OK;
}

/* Ends the scope of the function, except `results`. */
static xcvm_status end_function(traced_function *f, size_t count, const xcvm_var *results, xcvm_error *error)
{
    f->tape->recording = f->recording;
    xcvm_tape_scope_end(f->tape, f->scope, f->tape->failed ? 0 : count, results);
    tape_free(f->tape, f->xs, f->bytes);
    if (f->tape->function_depth == 0 || !f->tape->failed)
        return tape_report(f->tape, error);
    /* The enclosing function keeps the failure. */
    if (error != NULL)
        *error = f->tape->error;
    return f->tape->error.status;
}

/* Gradients with respect to the function's arguments. */
static xcvm_status take_gradients(const traced_function *f, size_t root_count, const xcvm_var *roots,
                                  const xcvm_var *seeds, size_t count, const xcvm_var *wrt, bool retain, bool create,
                                  xcvm_var *gradients)
{
    const xcvm_backward_options how = {.size = sizeof how, .retain_graph = retain, .create_graph = create};
    if (f->tape->failed)
        return f->tape->error.status;
    xcvm_error error;
    const xcvm_status status =
        xcvm_tape_gradients(f->tape, root_count, roots, seeds, count, wrt, &how, gradients, &error);
    if (status != XCVM_OK) {
        f->tape->error = error;
        tape_latch_failure(f->tape, status);
    }
    return status;
}

/* The value for the caller; a constant if no gradient can flow through it. */
static xcvm_var release_value(const traced_function *f)
{
    return f->connected || f->tape->failed ? f->value : xcvm_var_detach(f->tape, f->value);
}

xcvm_status xcvm_tape_vector_jacobian_product(xcvm_tape *tape, xcvm_tape_function f, size_t count, const xcvm_var *xs,
                                              xcvm_var seed, xcvm_var *value, xcvm_var *gradients, xcvm_error *error)
{
    traced_function g;
    TAPE_BEGIN(tape, xcvm_tape_vector_jacobian_product, error);
    XCVM_CHECK(error, value != NULL && gradients != NULL, INVALID_ARGUMENT, "value or gradients is NULL");
    XCVM_TRY(begin_function(&g, tape, f, count, xs, error));
    take_gradients(&g, 1, &g.value, &seed, count, g.xs, g.connected, g.connected, g.gradients);
    g.gradients[count] = release_value(&g);
    if (!tape->failed) {
        memcpy(gradients, g.gradients, count * sizeof *gradients);
        *value = g.gradients[count];
    }
    return end_function(&g, count + 1, g.gradients, error);
}

static tape_variable *zeros_like(xcvm_tape *t, const xcvm_value *type)
{
    tape_variable *v = tape_tensor(t, (xcvm_dtype)type->dtype, type->rank, type->dims, NULL);
    if (v != NULL)
        memset(v->value.type.data, 0, v->value.type.bytes);
    return v;
}

static xcvm_var zero_gradient(xcvm_tape *t, const xcvm_value *type)
{
    const tape_variable *v = zeros_like(t, type);
    return v != NULL ? tape_handle(v) : TAPE_FAILED;
}

static const xcvm_value *type_of(xcvm_var v) { return &v.at->value.type; }

static bool is_differentiable(const traced_function *f)
{
    char text[192];
    if (f->tape->failed)
        return false;
    const bool good = type_of(f->value)->kind == XCVM_KIND_TENSOR && tape_variable_can_have_gradient(f->value.at);
    if (!good)
        tape_fail(f->tape, XCVM_TYPE_MISMATCH,
                  "the value of the function is %s; only tensors of float types have gradients",
                  xcvm_value_describe(type_of(f->value), text, sizeof text));
    return good;
}

/* Forward-mode derivative by two reverse passes: the gradient is linear in its seed, so its gradient with respect to
 * the seed, seeded with the directions, is the directional derivative. */
static xcvm_var change_of(const traced_function *f, const xcvm_var *directions)
{
    xcvm_tape *t = f->tape;
    if (!is_differentiable(f))
        return TAPE_FAILED;
    tape_variable *seed = zeros_like(t, type_of(f->value));
    if (seed == NULL)
        return TAPE_FAILED;
    tape_variable_require(seed, true);
    const xcvm_var by = tape_handle(seed);
    take_gradients(f, 1, &f->value, &by, f->count, f->xs, true, true, f->gradients);
    xcvm_var change = XCVM_ABSENT, sum = XCVM_ABSENT;
    for (size_t i = 0; i < f->count && !t->failed; i++) {
        if (f->gradients[i].at == NULL || tape_resolve_optional(t, directions[i], "a direction") == NULL)
            continue;
        take_gradients(f, 1, &f->gradients[i], &directions[i], 1, &by, true, f->connected, &change);
        if (change.at != NULL)
            sum = sum.at != NULL ? xcvm_Add(t, sum, change) : change;
    }
    return sum;
}

xcvm_status xcvm_tape_jacobian_vector_product(xcvm_tape *tape, xcvm_tape_function f, size_t count, const xcvm_var *xs,
                                              const xcvm_var *directions, xcvm_var *value, xcvm_var *change,
                                              xcvm_error *error)
{
    traced_function g;
    TAPE_BEGIN(tape, xcvm_tape_jacobian_vector_product, error);
    XCVM_CHECK(error, value != NULL && change != NULL && directions != NULL, INVALID_ARGUMENT,
               "directions, value or change is NULL");
    XCVM_TRY(begin_function(&g, tape, f, count, xs, error));
    const xcvm_var results[] = {release_value(&g), change_of(&g, directions)};
    if (!tape->failed) {
        *value = results[0];
        *change = results[1];
    }
    return end_function(&g, 2, results, error);
}

/* ---- Matrices ---- */

static xcvm_var basis_vector(xcvm_tape *t, const xcvm_value *type, size_t at)
{
    const double one = 1;
    tape_variable *v = zeros_like(t, type);
    if (v == NULL)
        return TAPE_FAILED;
    xcvm_store_f64((xcvm_dtype)type->dtype, v->value.type.data, at, 1, &one, false);
    return tape_handle(v);
}

/* Concatenates the rows of the Jacobian. The result has the dimensions of the value, then those of x. */
static xcvm_var join_rows(xcvm_tape *t, const xcvm_var *rows, size_t count, const xcvm_value *y, const xcvm_value *x)
{
    int64_t dims[2 * XCVM_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < y->rank; i++)
        dims[rank++] = y->dims[i];
    for (int i = 0; i < x->rank; i++)
        dims[rank++] = x->dims[i];
    if (rank > XCVM_MAX_RANK) {
        tape_fail(t, XCVM_UNSUPPORTED, "the Jacobian has rank %d, at most %d are possible", rank, XCVM_MAX_RANK);
        return TAPE_FAILED;
    }
    const int64_t sizes[1] = {rank};
    const xcvm_var shape = xcvm_tape_constant(t, XCVM_I64, 1, sizes, dims);
    if (count == 0) {
        const tape_variable *none = t->failed ? NULL : tape_tensor(t, (xcvm_dtype)x->dtype, rank, dims, NULL);
        return none != NULL ? tape_handle(none) : TAPE_FAILED;
    }
    return xcvm_Reshape(t, xcvm_Concat(t, {rows, count}, .axis = 0), shape, .allowzero = 1);
}

xcvm_status xcvm_tape_jacobian(xcvm_tape *tape, xcvm_tape_function f, xcvm_var x, xcvm_var *jacobian, xcvm_error *error)
{
    traced_function g;
    TAPE_BEGIN(tape, xcvm_tape_jacobian, error);
    XCVM_CHECK(error, jacobian != NULL, INVALID_ARGUMENT, "jacobian is NULL");
    XCVM_TRY(begin_function(&g, tape, f, 1, &x, error));
    xcvm_var result = TAPE_FAILED;
    if (is_differentiable(&g)) {
        const xcvm_value *y = type_of(g.value), *of = type_of(g.xs[0]);
        const size_t count = xcvm_element_count(y);
        size_t bytes = 0;
        xcvm_var *rows = NULL;
        const int64_t flat[1] = {-1}, one[1] = {1};
        const xcvm_var line = xcvm_tape_constant(tape, XCVM_I64, 1, one, flat);
        if (!xcvm_size_mul(count, sizeof *rows, &bytes) || (rows = tape_allocate(tape, bytes)) == NULL)
            tape_fail(tape, XCVM_OUT_OF_MEMORY, "a Jacobian of %zu rows is too large", count);
        for (size_t i = 0; i < count && !tape->failed; i++) {
            const xcvm_var seed = basis_vector(tape, y, i);
            take_gradients(&g, 1, &g.value, &seed, 1, g.xs, true, g.connected, &rows[i]);
            if (!tape->failed && rows[i].at == NULL)
                rows[i] = zero_gradient(tape, of);
            rows[i] = xcvm_Reshape(tape, rows[i], line);
        }
        if (!tape->failed)
            result = join_rows(tape, rows, count, y, of);
        if (rows != NULL)
            tape_free(tape, rows, bytes);
    }
    if (!tape->failed)
        *jacobian = result;
    return end_function(&g, 1, &result, error);
}

xcvm_status xcvm_tape_hessian_vector_product(xcvm_tape *tape, xcvm_tape_function f, xcvm_var x, xcvm_var vector,
                                             xcvm_var *product, xcvm_error *error)
{
    traced_function g;
    xcvm_var result = XCVM_ABSENT;
    const xcvm_var none = XCVM_ABSENT;
    TAPE_BEGIN(tape, xcvm_tape_hessian_vector_product, error);
    XCVM_CHECK(error, product != NULL, INVALID_ARGUMENT, "product is NULL");
    XCVM_TRY(begin_function(&g, tape, f, 1, &x, error));
    take_gradients(&g, 1, &g.value, &none, 1, g.xs, true, true, g.gradients);
    if (!tape->failed && tape_resolve(tape, vector, "the vector") != NULL && g.gradients[0].at != NULL)
        take_gradients(&g, 1, g.gradients, &vector, 1, g.xs, true, g.connected, &result);
    if (!tape->failed)
        *product = result;
    return end_function(&g, 1, &result, error);
}
