/* The gradient mode of text cases: programs differentiated, compiled in several ways, and compared with finite
 * differences. */
#include "tests/case_gradient_parts.h"

#include "tests/case_host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const case_form forms[] = {
    {"f64", XCVM_F64, false, 2, 1e-9, 1e-9},       {"not optimized", XCVM_F64, false, -1, 1e-9, 1e-9},
    {"open sizes", XCVM_F64, true, 2, 1e-9, 1e-9}, {"f32", XCVM_F32, false, 2, 1e-4, 1e-4},
    {"f16", XCVM_F16, false, 2, 0.02, 0.02},       {"bf16", XCVM_BF16, false, 2, 0.1, 0.1},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* ---- Compiling and running ---- */

static void *allocate_nan(void *user, size_t bytes, size_t alignment)
{
    void *memory = NULL;
    (void)user;
    if (posix_memalign(&memory, alignment < sizeof memory ? sizeof memory : alignment, bytes) != 0)
        return NULL;
    memset(memory, 0xff, bytes);
    return memory;
}

static void release_nan(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

typedef struct compiled {
    test_bytes bytes;
    xcvm_program *program;
    xcvm_session *session;
} compiled;

static void compiled_close(compiled *k)
{
    xcvm_session_destroy(k->session);
    xcvm_program_destroy(k->program);
    test_bytes_free(&k->bytes);
}

/* *made is false if the instructions do not take the types. */
static bool compile(case_checking *c, const case_form *f, int order, xcc_phase phase, compiled *k, bool *made)
{
    static const xcvm_allocator nan_allocator = {allocate_nan, release_nan, NULL};
    static const xcc_vjp_function vjps[] = {{"products", "products.vjp"}, {"products.vjp", "products.vjp.vjp"}};
    xcc_module m;
    xcc_plan plan;
    const xcc_options options = {.size = sizeof options,
                                 .optimization = f->optimization,
                                 .backprop = true,
                                 .gradients.straight_through = c->gradient->straight,
                                 .gradients.order = order,
                                 .gradients.phase = phase,
                                 .gradients.vjps = vjps,
                                 .gradients.vjp_count = 2,
                                 .loss = "loss",
                                 .gradients.wrt = c->wrt,
                                 .gradients.wrt_count = c->count};
    *k = (compiled){.program = NULL};
    xcvm_status status = xcc_module_init(&m, &options, &c->error);
    *made = status == XCVM_OK && case_gradient_graph(c, &m, f);
    if (*made)
        status = xcc_passes_run(&m);
    if (*made && status == XCVM_OK)
        status = xcc_graph_verify(m.graph);
    if (*made && status == XCVM_OK)
        status = xcc_plan_make(&m, &plan);
    if (*made && status == XCVM_OK)
        status = xcc_emit_program(&m, &plan, (xcvm_sink){test_bytes_sink, &k->bytes});
    xcc_module_release(&m);
    if (!*made)
        return true;
    const xcvm_load_options load = {.size = sizeof load};
    const xcvm_session_options session = {.size = sizeof session,
                                          .threads = 1,
                                          .allocator = &nan_allocator,
                                          .functions = case_host_functions,
                                          .function_count = case_host_function_count};
    if (status == XCVM_OK)
        status = xcvm_program_load(k->bytes.at, k->bytes.length, &load, &k->program, &c->error);
    if (status == XCVM_OK)
        status = xcvm_session_create(k->program, &session, &k->session, &c->error);
    return status == XCVM_OK || case_fail(c->why, "gradient, %s%s: %s", f->name,
                                          order == 2                 ? ", second order"
                                          : phase != XCC_PHASE_WHOLE ? ", forward and backward apart"
                                                                     : "",
                                          c->error.message);
}

/* Runs with literal `changed` having `x` for element `at`, unless it is SIZE_MAX. */
static bool run_changed(case_checking *c, const case_form *f, compiled *k, size_t changed, size_t at, double x)
{
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < c->count && status == XCVM_OK; i++) {
        const xcvm_value *literal = &c->image.constants[c->literals[i]].value;
        xcvm_value *v;
        status = xcvm_tensor_create(NULL, f->dtype, literal->rank, literal->dims, &v, &c->error);
        if (status != XCVM_OK)
            break;
        xcvm_store_f64(f->dtype, xcvm_value_data(v), 0, xcvm_element_count(literal), literal->data, false);
        if (i == changed)
            xcvm_store_f64(f->dtype, xcvm_value_data(v), at, 1, &x, false);
        status = xcvm_session_set_input(k->session, i, v, &c->error);
        xcvm_value_release(v);
    }
    if (status == XCVM_OK)
        status = xcvm_session_run(k->session, NULL, &c->error);
    return status == XCVM_OK ||
           case_fail(c->why, "gradient, %s: %s: %s", f->name, c->error.instruction, c->error.message);
}

/* Returns the gradient of literal i; output 0 is the loss. NULL, with a description, if its type differs from the
 * literal's. */
static const xcvm_value *gradient_of(const case_checking *c, const case_form *f, const compiled *k, size_t i)
{
    const xcvm_value *v = xcvm_session_get_output(k->session, i + 1),
                     *literal = &c->image.constants[c->literals[i]].value;
    char got[100], expected[100];
    if (v->dtype == f->dtype && xcvm_same_shape(v, literal))
        return v;
    case_fail(c->why, "gradient, %s: that of literal %zu is %s, the literal %s", f->name, i,
              xcvm_value_describe(v, got, sizeof got), xcvm_value_describe(literal, expected, sizeof expected));
    return NULL;
}

static double loss(const compiled *k) { return xcvm_element_as_double(xcvm_session_get_output(k->session, 0), 0); }

/* ---- Comparing ---- */

double case_gradient_greatest(const xcvm_value *v)
{
    double most = 0;
    for (size_t i = 0; i < xcvm_element_count(v); i++)
        most = fmax(most, fabs(xcvm_element_as_double(v, i)));
    return most;
}

bool case_gradient_compare(const case_checking *c, const case_form *f, size_t literal, const xcvm_value *got,
                           const xcvm_value *expected, case_tolerance tolerance)
{
    for (size_t i = 0; i < xcvm_element_count(expected); i++) {
        const double a = xcvm_element_as_double(got, i), b = xcvm_element_as_double(expected, i);
        /* A zero of a gradient may have either sign. */
        if (!case_is_close(a, b, tolerance) && !(a == 0 && b == 0))
            return case_fail(c->why, "gradient, %s: that of literal %zu, element %zu, is %.17g, not %.17g", f->name,
                             literal, i, a, b);
    }
    return true;
}

/* Central differences: of steps h their error is about h * h / 6 times the third derivative. */
static bool compare_differences(case_checking *c, compiled *k, size_t literal, const double *got)
{
    const xcvm_value *x = &c->image.constants[c->literals[literal]].value;
    const case_tolerance tolerance = {c->gradient->rtol, c->gradient->atol};
    for (size_t i = 0; i < xcvm_element_count(x); i++) {
        const double at = xcvm_element_as_double(x, i), h = c->gradient->step * fmax(1, fabs(at));
        if (!isfinite(at)) /* nothing is near it */
            continue;
        if (!run_changed(c, &forms[0], k, literal, i, at + h))
            return false;
        const double above = loss(k);
        if (!run_changed(c, &forms[0], k, literal, i, at - h))
            return false;
        const double difference = (above - loss(k)) / (2 * h);
        if (!case_is_close(got[i], difference, tolerance) && !(got[i] == 0 && difference == 0))
            return case_fail(c->why,
                             "gradient: that of literal %zu, element %zu, is %.17g, the difference quotient %.17g",
                             literal, i, got[i], difference);
    }
    return true;
}

/* The form that all others are compared with; *expected are its gradients, copies. */
static bool check_first(case_checking *c, xcvm_value **expected)
{
    compiled k;
    bool made;
    if (!compile(c, &forms[0], 1, XCC_PHASE_WHOLE, &k, &made))
        return false;
    bool good = made ? run_changed(c, &forms[0], &k, SIZE_MAX, 0, 0)
                     : case_fail(c->why, "gradient: %s: %s", c->error.instruction, c->error.message);
    for (size_t i = 0; good && i < c->count; i++) {
        const xcvm_value *v = gradient_of(c, &forms[0], &k, i);
        good = v != NULL && xcvm_value_copy(NULL, v, &expected[i], &c->error) == XCVM_OK;
        if (good && c->gradient->value_count > 0)
            good =
                i < c->gradient->value_count
                    ? case_gradient_compare(c, &forms[0], i, v, &c->gradient->values[i], (case_tolerance){1e-9, 1e-12})
                    : case_fail(c->why, "gradient: %zu values are stated, there are %zu literals of f64",
                                c->gradient->value_count, c->count);
    }
    for (size_t i = 0; good && i < c->count && c->gradient->value_count == 0; i++)
        good = compare_differences(c, &k, i, XCVM_CDATA(double, expected[i]));
    compiled_close(&k);
    return good;
}

static bool check_form(case_checking *c, const case_form *f, xcvm_value *const *expected)
{
    compiled k;
    bool made;
    if ((f->dtype != XCVM_F64 && c->gradient->only_f64) || (f->open && c->gradient->only_sized))
        return true;
    if (!compile(c, f, 1, XCC_PHASE_WHOLE, &k, &made))
        return false;
    bool good = made ? run_changed(c, f, &k, SIZE_MAX, 0, 0)
                     : f->dtype != XCVM_F64 || case_fail(c->why, "gradient, %s: %s", f->name, c->error.message);
    for (size_t i = 0; good && made && i < c->count; i++) {
        const xcvm_value *v = gradient_of(c, f, &k, i);
        const case_tolerance tolerance = {f->rtol, f->atol * fmax(1, case_gradient_greatest(expected[i]))};
        good = v != NULL && case_gradient_compare(c, f, i, v, expected[i], tolerance);
    }
    compiled_close(&k);
    return good;
}

/* ---- The second order ---- */

/* Some number for each element of each literal. */
static double direction(size_t literal, size_t i) { return (double)((7 * i + 5 * literal + 3) % 11) / 8 - 0.625; }

/* Runs where the literals are `step` along the directions, which are the vectors. */
static bool run_along(case_checking *c, compiled *k, double step)
{
    xcvm_status status = XCVM_OK;
    for (size_t input = 0; input < 2 * c->count && status == XCVM_OK; input++) {
        const size_t i = input % c->count;
        const xcvm_value *literal = &c->image.constants[c->literals[i]].value;
        xcvm_value *v;
        status = xcvm_tensor_create(NULL, XCVM_F64, literal->rank, literal->dims, &v, &c->error);
        if (status != XCVM_OK)
            break;
        for (size_t e = 0; e < xcvm_element_count(literal); e++) {
            const double x = xcvm_element_as_double(literal, e), along = direction(i, e);
            XCVM_DATA(double, v)[e] = input >= c->count ? along : isfinite(x) ? x + step * along : x;
        }
        status = xcvm_session_set_input(k->session, input, v, &c->error);
        xcvm_value_release(v);
    }
    if (status == XCVM_OK)
        status = xcvm_session_run(k->session, NULL, &c->error);
    return status == XCVM_OK ||
           case_fail(c->why, "gradient, second order: %s: %s", c->error.instruction, c->error.message);
}

/* A derivative of every literal, a copy: the first is output `first`. */
static bool copy_outputs(case_checking *c, const compiled *k, size_t first, xcvm_value **copies)
{
    for (size_t i = 0; i < c->count; i++)
        if (xcvm_value_copy(NULL, xcvm_session_get_output(k->session, first + i), &copies[i], &c->error) != XCVM_OK)
            return case_fail(c->why, "gradient, second order: %s", c->error.message);
    return true;
}

/* The Hessian times the directions, compared with differences of the gradient along them. If the case states gradients,
 * only runs it. */
static bool compare_second(case_checking *c, compiled *k)
{
    const double h = c->gradient->step;
    const case_tolerance tolerance = {fmax(1e-5, 4 * c->gradient->rtol), 0};
    xcvm_value *got[CASE_LITERALS] = {NULL}, *above[CASE_LITERALS] = {NULL}, *below[CASE_LITERALS] = {NULL};
    bool good = run_along(c, k, 0) && copy_outputs(c, k, 1 + c->count, got);
    if (good && c->gradient->value_count == 0)
        good =
            run_along(c, k, h) && copy_outputs(c, k, 1, above) && run_along(c, k, -h) && copy_outputs(c, k, 1, below);
    for (size_t i = 0; good && i < c->count && c->gradient->value_count == 0; i++) {
        case_tolerance t = tolerance;
        t.atol = fmax(1e-5, 40 * c->gradient->atol) * fmax(1, case_gradient_greatest(above[i]));
        for (size_t e = 0; good && e < xcvm_element_count(got[i]); e++) {
            const double a = XCVM_CDATA(double, above[i])[e], b = XCVM_CDATA(double, below[i])[e];
            const double difference = (a - b) / (2 * h), value = XCVM_CDATA(double, got[i])[e];
            good =
                !isfinite(difference) || case_is_close(value, difference, t) ||
                case_fail(c->why,
                          "gradient, second order: that of literal %zu, element %zu, is %.17g, the difference quotient "
                          "%.17g",
                          i, e, value, difference);
        }
    }
    for (size_t i = 0; i < c->count; i++) {
        xcvm_value_release(got[i]);
        xcvm_value_release(above[i]);
        xcvm_value_release(below[i]);
    }
    return good;
}

/* Instructions that rules build have rules themselves. */
static bool check_second(case_checking *c)
{
    compiled k;
    bool made;
    if (c->gradient->straight || c->gradient->once)
        return true;
    if (!compile(c, &forms[0], 2, XCC_PHASE_WHOLE, &k, &made))
        return false;
    const bool good = made && compare_second(c, &k);
    compiled_close(&k);
    return good;
}

/* ---- Two programs ---- */

static size_t index_of(size_t count, const xcvm_value_info *(*get)(const xcvm_program *, size_t),
                       const xcvm_program *program, const char *name)
{
    size_t i = 0;
    while (i < count && strcmp(get(program, i)->name, name) != 0)
        i++;
    return i;
}

/* Runs the backward program with the values that the forward program retained, and with 1 as the gradient of the
 * loss. */
static bool run_backward(case_checking *c, const compiled *forward, compiled *backward)
{
    const size_t outputs = xcvm_program_output_count(forward->program);
    for (size_t i = 0; i < xcvm_program_input_count(backward->program); i++) {
        const char *name = xcvm_program_input_at(backward->program, i)->name;
        const size_t output = index_of(outputs, xcvm_program_output_at, forward->program, name);
        xcvm_value *v = NULL;
        xcvm_status status = XCVM_OK;
        if (output < outputs) {
            status = xcvm_session_set_input(backward->session, i, xcvm_session_get_output(forward->session, output),
                                            &c->error);
        } else if (strcmp(name, "grad_in@loss") != 0) {
            return case_fail(c->why, "gradient, forward and backward apart: nothing is %s", name);
        } else {
            const double one = 1;
            const xcvm_dtype dtype = xcvm_program_input_at(backward->program, i)->type.dtype;
            status = xcvm_tensor_create(NULL, dtype, 0, NULL, &v, &c->error);
            if (status == XCVM_OK) {
                xcvm_store_f64(dtype, xcvm_value_data(v), 0, 1, &one, false);
                status = xcvm_session_set_input(backward->session, i, v, &c->error);
            }
            xcvm_value_release(v);
        }
        if (status != XCVM_OK)
            return case_fail(c->why, "gradient, forward and backward apart: input %s: %s", name, c->error.message);
    }
    return xcvm_session_run(backward->session, NULL, &c->error) == XCVM_OK ||
           case_fail(c->why, "gradient, backward: %s: %s", c->error.instruction, c->error.message);
}

/* Forward and backward as programs of their own give the same gradients; the backward needs nothing else. */
static bool check_phases(case_checking *c, const case_form *f, xcvm_value *const *expected)
{
    compiled forward, backward = {.program = NULL};
    bool made;
    bool good = compile(c, f, 1, XCC_PHASE_FORWARD, &forward, &made) && made &&
                compile(c, f, 1, XCC_PHASE_BACKWARD, &backward, &made) && made &&
                run_changed(c, f, &forward, SIZE_MAX, 0, 0) && run_backward(c, &forward, &backward);
    for (size_t i = 0; good && i < c->count; i++)
        good = case_gradient_compare(c, f, i, xcvm_session_get_output(backward.session, i), expected[i],
                                     (case_tolerance){1e-9, 1e-9 * fmax(1, case_gradient_greatest(expected[i]))});
    compiled_close(&forward);
    compiled_close(&backward);
    return good;
}

bool case_gradient_check(const test_bytes *file, const case_gradient *gradient, case_reason *why)
{
    case_checking c = {.gradient = gradient, .why = why};
    xcvm_value *expected[CASE_LITERALS] = {NULL};
    bool good = xcvm_image_decode(file->at, file->length, NULL, &c.arena, &c.image, &c.error) == XCVM_OK ||
                case_fail(c.why, "gradient: %s", c.error.message);
    good = good && case_gradient_literals(&c) && check_first(&c, expected);
    for (size_t i = 1; good && i < FORMS; i++)
        good = check_form(&c, &forms[i], expected);
    good = good && check_second(&c) && check_phases(&c, &forms[0], expected) &&
           (gradient->only_sized || check_phases(&c, &forms[2], expected));
    /* A tape does not go straight through what rounds. */
    for (size_t i = 0; good && !gradient->straight && i < FORMS; i++)
        good = case_gradient_called(&c, &forms[i], expected);
    for (size_t i = 0; i < c.count; i++)
        xcvm_value_release(expected[i]);
    xcvm_arena_release(&c.arena);
    return good;
}
