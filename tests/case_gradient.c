/* The gradient mode of text cases: programs differentiated, compiled in several ways, and compared with finite
 * differences. */
#include "tests/case_gradient.h"

#include "base/status.h"
#include "compiler/ir/compose.h"
#include "compiler/passes/passes.h"
#include "ops/convert.h"
#include "proto/image.h"
#include "tape/tape.h"
#include "tests/case_host.h"
#include "tests/case_tolerance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LITERALS = 32, MOST_REGISTERS = 64 };

/* How the program is compiled and run. */
typedef struct form {
    const char *name;
    xcvm_dtype dtype; /* of what is f64 in the case */
    bool open;        /* sizes are symbols */
    int optimization;
    double rtol, atol; /* against f64; the latter times the greatest gradient of the literal */
} form;

static const form forms[] = {
    {"f64", XCVM_F64, false, 2, 1e-9, 1e-9},       {"not optimized", XCVM_F64, false, -1, 1e-9, 1e-9},
    {"open sizes", XCVM_F64, true, 2, 1e-9, 1e-9}, {"f32", XCVM_F32, false, 2, 1e-4, 1e-4},
    {"f16", XCVM_F16, false, 2, 0.02, 0.02},       {"bf16", XCVM_BF16, false, 2, 0.1, 0.1},
};
enum { FORMS = sizeof forms / sizeof *forms };

typedef struct checking {
    const case_gradient *gradient;
    xcvm_arena arena;
    xcvm_image image;
    size_t literals[MOST_LITERALS]; /* what is differentiated by: indices of constants */
    char names[MOST_LITERALS][16];
    const char *wrt[MOST_LITERALS];
    size_t count;
    xcvm_error error;
    char *why;
    size_t size;
} checking;

static bool fail(const checking *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(const checking *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->why, c->size, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- What is differentiated by ---- */

static bool decides_shape(const xcvm_image *image, size_t constant)
{
    for (size_t pc = 0; pc < image->instruction_count; pc++) {
        const xcvm_instruction *instruction = &image->instructions[pc];
        uint32_t next = 0;
        for (size_t f = 0; f < instruction->schema->field_count; f++) {
            const xcvm_field *field = &instruction->schema->fields[f];
            const size_t values = xcvm_field_is_input(field) ? xcvm_field_count(field, instruction->args) : 0;
            for (size_t k = 0; k < values; k++, next++)
                if (field->role == XCVM_ROLE_IN_SHAPE && instruction->in[next] == -1 - (int32_t)constant)
                    return true;
        }
    }
    return false;
}

static bool list_literals(checking *c)
{
    for (size_t i = 0; i < c->image.constant_count; i++) {
        if (c->image.constants[i].value.dtype != XCVM_F64 || decides_shape(&c->image, i))
            continue;
        if (c->count == MOST_LITERALS)
            return fail(c, "gradient: there are more than %d literals of f64", MOST_LITERALS);
        snprintf(c->names[c->count], sizeof c->names[0], "x%zu", c->count);
        c->wrt[c->count] = c->names[c->count];
        c->literals[c->count++] = i;
    }
    return c->count > 0 || fail(c, "gradient: no literal is f64");
}

/* ---- The program as a graph ---- */

static xcc_value *make_literal(const checking *c, xcc_graph *g, const form *f, size_t constant)
{
    const xcvm_value *literal = &c->image.constants[constant].value;
    size_t i = 0;
    while (i < c->count && c->literals[i] != constant)
        i++;
    if (i == c->count)
        return xcc_constant(g, NULL, (xcvm_dtype)literal->dtype, literal->rank, literal->dims, literal->data, false);
    xcc_value *v = xcc_value_create(g, c->names[i]);
    int64_t dims[XCVM_MAX_RANK];
    for (int k = 0; k < literal->rank; k++)
        dims[k] = f->open ? xcc_symbol(g->module, NULL) : literal->dims[k];
    if (v != NULL)
        xcvm_value_set_tensor(&v->type, (uint8_t)f->dtype, literal->rank, dims);
    return v;
}

/* The arguments of an instruction with its operands and results. */
static const void *bind(xcc_graph *g, const xcvm_instruction *instruction, xcc_value *const *constants,
                        xcc_value **registers)
{
    const xcvm_schema *schema = instruction->schema;
    char *args = xcc_alloc(g->module, schema->args_size);
    uint32_t in = 0, out = 0;
    if (args == NULL)
        return NULL;
    memcpy(args, instruction->args, schema->args_size);
    for (size_t f = 0; f < schema->field_count; f++) {
        const xcvm_field *field = &schema->fields[f];
        if (!xcvm_field_is_operand(field))
            continue;
        const size_t count = xcvm_field_count(field, instruction->args);
        xcvm_value **list = xcc_alloc(g->module, count * sizeof *list);
        for (size_t k = 0; list != NULL && k < count; k++) {
            const bool result = field->role == XCVM_ROLE_OUT;
            const int32_t at = result ? instruction->out[out++] : instruction->in[in++];
            if (at >= MOST_REGISTERS)
                return NULL;
            if (result && at > 0)
                registers[at] = xcc_value_create(g, NULL);
            list[k] = at > 0 ? XCC_OUT(registers[at]) : at < 0 ? XCC_OUT(constants[-1 - at]) : NULL;
        }
        if (list == NULL)
            return NULL;
        /* Lists of operands and of results are laid out alike. */
        if (xcvm_field_is_list(field))
            ((xcvm_outputs *)(void *)(args + field->offset))->at = list;
        else
            *(xcvm_value **)(void *)(args + field->offset) = list[0];
    }
    return args;
}

static xcc_value *loss_of(const checking *c, xcc_builder *b, xcc_value *const *registers)
{
    xcc_value *loss = NULL;
    for (size_t i = 0; i < c->gradient->register_count; i++) {
        xcc_value *y = registers[c->gradient->registers[i]];
        if (y != NULL && c->gradient->value_count == 0)
            y = xcc_build_add(b, y, xcc_build_mul(b, xcc_build_mul(b, y, y), xcc_build_number(b, y, 0.25)));
        xcc_value *sum = xcc_build_reduce(b, XCVM_OP_ReduceSum, y, NULL, false);
        loss = loss == NULL ? sum : xcc_build_add(b, loss, sum);
    }
    return loss;
}

static bool append_program(const checking *c, xcc_builder *b, xcc_value *const *constants, xcc_value **registers)
{
    for (size_t pc = 0; pc < c->image.instruction_count; pc++) {
        const xcvm_instruction *instruction = &c->image.instructions[pc];
        if (instruction->schema->effect == XCVM_CONTROL)
            continue;
        const void *args = bind(b->graph, instruction, constants, registers);
        if (args == NULL || xcc_append(b, instruction->schema->opcode, args) == NULL)
            return false;
    }
    return true;
}

/* Whether the instructions take the types of this form; the graph then is the case's program with its loss. */
static bool make_graph(const checking *c, xcc_module *m, const form *f)
{
    xcc_graph *g = m->graph;
    xcc_builder b = {.graph = g, .name = "case", .origin = "case"};
    xcc_value **constants = xcc_alloc(m, (c->image.constant_count + 1) * sizeof *constants),
              *registers[MOST_REGISTERS] = {NULL};
    xcc_value *inputs[MOST_LITERALS];
    for (size_t i = 0; i < c->image.constant_count; i++)
        if ((constants[i] = make_literal(c, g, f, i)) == NULL)
            return false;
    for (size_t i = 0; i < c->count; i++)
        inputs[i] = constants[c->literals[i]];
    if (xcc_graph_set_inputs(g, c->count, inputs) != XCVM_OK)
        return false;
    if (!append_program(c, &b, constants, registers))
        return false;
    xcc_value *loss = loss_of(c, &b, registers), *named = xcc_value_create(g, "loss");
    return loss != NULL && named != NULL && xcc_emit(&b, Identity, .y = XCC_OUT(named), .x = XCC_IN(loss)) != NULL &&
           xcc_graph_set_outputs(g, 1, &named) == XCVM_OK;
}

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
static bool compile(checking *c, const form *f, int order, xcc_phase phase, compiled *k, bool *made)
{
    static const xcvm_allocator nan_allocator = {allocate_nan, release_nan, NULL};
    static const xcc_vjp_function vjps[] = {{"products", "products.vjp"}, {"products.vjp", "products.vjp.vjp"}};
    xcc_module m;
    xcc_plan plan;
    const xcc_options options = {.size = sizeof options,
                                 .optimization = f->optimization,
                                 .backprop = true,
                                 .straight_through = c->gradient->straight,
                                 .order = order,
                                 .phase = phase,
                                 .vjps = vjps,
                                 .vjp_count = 2,
                                 .loss = "loss",
                                 .wrt = c->wrt,
                                 .wrt_count = c->count};
    *k = (compiled){.program = NULL};
    xcvm_status status = xcc_module_init(&m, &options, &c->error);
    *made = status == XCVM_OK && make_graph(c, &m, f);
    if (*made)
        status = xcc_passes_run(&m);
    if (*made && status == XCVM_OK)
        status = xcc_graph_verify(m.graph);
    if (*made && status == XCVM_OK)
        status = xcc_plan_make(&m, &plan);
    if (*made && status == XCVM_OK)
        status = xcc_emit_program(&m, &plan, test_bytes_sink, &k->bytes);
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
    return status == XCVM_OK || fail(c, "gradient, %s%s: %s", f->name,
                                     order == 2                 ? ", second order"
                                     : phase != XCC_PHASE_WHOLE ? ", forward and backward apart"
                                                                : "",
                                     c->error.message);
}

/* Runs with literal `changed` having `x` for element `at`, unless it is SIZE_MAX. */
static bool run(checking *c, const form *f, compiled *k, size_t changed, size_t at, double x)
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
    return status == XCVM_OK || fail(c, "gradient, %s: %s: %s", f->name, c->error.instruction, c->error.message);
}

/* The gradient of literal i; output 0 is the loss. NULL, and told, if it has not the literal's type. */
static const xcvm_value *gradient_of(const checking *c, const form *f, const compiled *k, size_t i)
{
    const xcvm_value *v = xcvm_session_output(k->session, i + 1), *literal = &c->image.constants[c->literals[i]].value;
    char got[100], expected[100];
    if (v->dtype == f->dtype && xcvm_same_shape(v, literal))
        return v;
    fail(c, "gradient, %s: that of literal %zu is %s, the literal %s", f->name, i,
         xcvm_value_describe(v, got, sizeof got), xcvm_value_describe(literal, expected, sizeof expected));
    return NULL;
}

static double loss(const compiled *k) { return xcvm_element_as_double(xcvm_session_output(k->session, 0), 0); }

/* ---- Comparing ---- */

static double greatest(const xcvm_value *v)
{
    double most = 0;
    for (size_t i = 0; i < xcvm_element_count(v); i++)
        most = fmax(most, fabs(xcvm_element_as_double(v, i)));
    return most;
}

static bool compare(const checking *c, const form *f, size_t literal, const xcvm_value *got, const xcvm_value *expected,
                    case_tolerance tolerance)
{
    for (size_t i = 0; i < xcvm_element_count(expected); i++) {
        const double a = xcvm_element_as_double(got, i), b = xcvm_element_as_double(expected, i);
        /* A zero of a gradient may have either sign. */
        if (!case_is_close(a, b, tolerance) && !(a == 0 && b == 0))
            return fail(c, "gradient, %s: that of literal %zu, element %zu, is %.17g, not %.17g", f->name, literal, i,
                        a, b);
    }
    return true;
}

/* Central differences: of steps h their error is about h * h / 6 times the third derivative. */
static bool compare_differences(checking *c, compiled *k, size_t literal, const double *got)
{
    const xcvm_value *x = &c->image.constants[c->literals[literal]].value;
    const case_tolerance tolerance = {c->gradient->rtol, c->gradient->atol};
    for (size_t i = 0; i < xcvm_element_count(x); i++) {
        const double at = xcvm_element_as_double(x, i), h = c->gradient->step * fmax(1, fabs(at));
        if (!isfinite(at)) /* nothing is near it */
            continue;
        if (!run(c, &forms[0], k, literal, i, at + h))
            return false;
        const double above = loss(k);
        if (!run(c, &forms[0], k, literal, i, at - h))
            return false;
        const double difference = (above - loss(k)) / (2 * h);
        if (!case_is_close(got[i], difference, tolerance) && !(got[i] == 0 && difference == 0))
            return fail(c, "gradient: that of literal %zu, element %zu, is %.17g, the difference quotient %.17g",
                        literal, i, got[i], difference);
    }
    return true;
}

/* The form that all others are compared with; *expected are its gradients, copies. */
static bool check_first(checking *c, xcvm_value **expected)
{
    compiled k;
    bool made;
    if (!compile(c, &forms[0], 1, XCC_PHASE_WHOLE, &k, &made))
        return false;
    bool good = made ? run(c, &forms[0], &k, SIZE_MAX, 0, 0)
                     : fail(c, "gradient: %s: %s", c->error.instruction, c->error.message);
    for (size_t i = 0; good && i < c->count; i++) {
        const xcvm_value *v = gradient_of(c, &forms[0], &k, i);
        good = v != NULL && xcvm_value_copy(NULL, v, &expected[i], &c->error) == XCVM_OK;
        if (good && c->gradient->value_count > 0)
            good = i < c->gradient->value_count
                       ? compare(c, &forms[0], i, v, &c->gradient->values[i], (case_tolerance){1e-9, 1e-12})
                       : fail(c, "gradient: %zu values are stated, there are %zu literals of f64",
                              c->gradient->value_count, c->count);
    }
    for (size_t i = 0; good && i < c->count && c->gradient->value_count == 0; i++)
        good = compare_differences(c, &k, i, XCVM_CDATA(double, expected[i]));
    compiled_close(&k);
    return good;
}

static bool check_form(checking *c, const form *f, xcvm_value *const *expected)
{
    compiled k;
    bool made;
    if ((f->dtype != XCVM_F64 && c->gradient->only_f64) || (f->open && c->gradient->only_sized))
        return true;
    if (!compile(c, f, 1, XCC_PHASE_WHOLE, &k, &made))
        return false;
    bool good = made ? run(c, f, &k, SIZE_MAX, 0, 0)
                     : f->dtype != XCVM_F64 || fail(c, "gradient, %s: %s", f->name, c->error.message);
    for (size_t i = 0; good && made && i < c->count; i++) {
        const xcvm_value *v = gradient_of(c, f, &k, i);
        const case_tolerance tolerance = {f->rtol, f->atol * fmax(1, greatest(expected[i]))};
        good = v != NULL && compare(c, f, i, v, expected[i], tolerance);
    }
    compiled_close(&k);
    return good;
}

/* ---- The second order ---- */

/* Some number for each element of each literal. */
static double direction(size_t literal, size_t i) { return (double)((7 * i + 5 * literal + 3) % 11) / 8 - 0.625; }

/* Runs where the literals are `step` along the directions, which are the vectors. */
static bool run_along(checking *c, compiled *k, double step)
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
    return status == XCVM_OK || fail(c, "gradient, second order: %s: %s", c->error.instruction, c->error.message);
}

/* A derivative of every literal, a copy: the first is output `first`. */
static bool copy_outputs(checking *c, const compiled *k, size_t first, xcvm_value **copies)
{
    for (size_t i = 0; i < c->count; i++)
        if (xcvm_value_copy(NULL, xcvm_session_output(k->session, first + i), &copies[i], &c->error) != XCVM_OK)
            return fail(c, "gradient, second order: %s", c->error.message);
    return true;
}

/* The Hessian times the directions, against differences of the gradient along them. Where values are stated there are
 * none, so that it is run and no more. */
static bool compare_second(checking *c, compiled *k)
{
    const double h = c->gradient->step;
    const case_tolerance tolerance = {fmax(1e-5, 4 * c->gradient->rtol), 0};
    xcvm_value *got[MOST_LITERALS] = {NULL}, *above[MOST_LITERALS] = {NULL}, *below[MOST_LITERALS] = {NULL};
    bool good = run_along(c, k, 0) && copy_outputs(c, k, 1 + c->count, got);
    if (good && c->gradient->value_count == 0)
        good =
            run_along(c, k, h) && copy_outputs(c, k, 1, above) && run_along(c, k, -h) && copy_outputs(c, k, 1, below);
    for (size_t i = 0; good && i < c->count && c->gradient->value_count == 0; i++) {
        case_tolerance t = tolerance;
        t.atol = fmax(1e-5, 40 * c->gradient->atol) * fmax(1, greatest(above[i]));
        for (size_t e = 0; good && e < xcvm_element_count(got[i]); e++) {
            const double a = XCVM_CDATA(double, above[i])[e], b = XCVM_CDATA(double, below[i])[e];
            const double difference = (a - b) / (2 * h), value = XCVM_CDATA(double, got[i])[e];
            good = !isfinite(difference) || case_is_close(value, difference, t) ||
                   fail(c,
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

/* What rules build has rules itself. */
static bool check_second(checking *c)
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

static size_t index_of(size_t count, const xcvm_parameter *(*get)(const xcvm_program *, size_t),
                       const xcvm_program *program, const char *name)
{
    size_t i = 0;
    while (i < count && strcmp(get(program, i)->name, name) != 0)
        i++;
    return i;
}

/* Gives the backward what the forward retained, and 1 for the gradient of the loss; and runs it. */
static bool run_backward(checking *c, const compiled *forward, compiled *backward)
{
    const size_t outputs = xcvm_program_output_count(forward->program);
    for (size_t i = 0; i < xcvm_program_input_count(backward->program); i++) {
        const char *name = xcvm_program_input(backward->program, i)->name;
        const size_t output = index_of(outputs, xcvm_program_output, forward->program, name);
        xcvm_value *v = NULL;
        xcvm_status status = XCVM_OK;
        if (output < outputs) {
            status =
                xcvm_session_set_input(backward->session, i, xcvm_session_output(forward->session, output), &c->error);
        } else if (strcmp(name, "grad_in@loss") != 0) {
            return fail(c, "gradient, forward and backward apart: nothing is %s", name);
        } else {
            const double one = 1;
            const xcvm_dtype dtype = xcvm_program_input(backward->program, i)->type.dtype;
            status = xcvm_tensor_create(NULL, dtype, 0, NULL, &v, &c->error);
            if (status == XCVM_OK) {
                xcvm_store_f64(dtype, xcvm_value_data(v), 0, 1, &one, false);
                status = xcvm_session_set_input(backward->session, i, v, &c->error);
            }
            xcvm_value_release(v);
        }
        if (status != XCVM_OK)
            return fail(c, "gradient, forward and backward apart: input %s: %s", name, c->error.message);
    }
    return xcvm_session_run(backward->session, NULL, &c->error) == XCVM_OK ||
           fail(c, "gradient, backward: %s: %s", c->error.instruction, c->error.message);
}

/* Forward and backward as programs of their own give the same gradients; the backward needs nothing else. */
static bool check_phases(checking *c, const form *f, xcvm_value *const *expected)
{
    compiled forward, backward = {.program = NULL};
    bool made;
    bool good = compile(c, f, 1, XCC_PHASE_FORWARD, &forward, &made) && made &&
                compile(c, f, 1, XCC_PHASE_BACKWARD, &backward, &made) && made && run(c, f, &forward, SIZE_MAX, 0, 0) &&
                run_backward(c, &forward, &backward);
    for (size_t i = 0; good && i < c->count; i++)
        good = compare(c, f, i, xcvm_session_output(backward.session, i), expected[i],
                       (case_tolerance){1e-9, 1e-9 * fmax(1, greatest(expected[i]))});
    compiled_close(&forward);
    compiled_close(&backward);
    return good;
}

/* ---- The tape ---- */

/* The same program, its instructions called one by one on a tape, whose gradients must be the compiler's; with the
 * backward itself recorded, too. */
static bool call_program(checking *c, const form *f, xcvm_tape *t, tape_variable **literals, tape_variable **loss)
{
    xcc_graph *g = t->module.graph;
    xcc_builder b = {.graph = g, .name = "case", .origin = "case"};
    xcc_value **constants = xcc_alloc(&t->module, (c->image.constant_count + 1) * sizeof *constants),
              *registers[MOST_REGISTERS] = {NULL};
    for (size_t i = 0, k = 0; i < c->image.constant_count; i++) {
        const xcvm_value *literal = &c->image.constants[i].value;
        const bool changes = k < c->count && c->literals[k] == i;
        const xcvm_dtype dtype = changes ? f->dtype : (xcvm_dtype)literal->dtype;
        constants[i] = !changes ? xcc_constant(g, NULL, dtype, literal->rank, literal->dims, literal->data, false)
                                : &tape_tensor(t, dtype, literal->rank, literal->dims, NULL)->value;
        if (constants[i] == NULL)
            return false;
        if (!changes)
            continue;
        literals[k] = tape_variable_of(constants[i]);
        tape_variable_require(literals[k++], true);
        xcvm_store_f64(dtype, constants[i]->type.data, 0, xcvm_element_count(literal), literal->data, false);
    }
    /* What the case names are results of calls that nobody names beyond: elements that no rule reads are gone. */
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    for (size_t i = 0, k = 0; i < c->image.constant_count && k < c->count; i++)
        if (c->literals[k] == i) {
            constants[i] = xcc_build_unary(&b, XCVM_OP_Identity, constants[i]);
            k++;
        }
    *loss = append_program(c, &b, constants, registers) ? tape_variable_of(loss_of(c, &b, registers)) : NULL;
    const xcvm_var result = *loss != NULL ? tape_handle(*loss) : XCVM_ABSENT;
    xcvm_tape_scope_end(t, scope, *loss != NULL, &result);
    return *loss != NULL;
}

static bool compare_called(const checking *c, const form *f, xcvm_tape *t, tape_variable *const *literals,
                           xcvm_value *const *expected)
{
    bool good = true;
    for (size_t i = 0; good && i < c->count; i++) {
        const case_tolerance tolerance = {f->rtol, f->atol * fmax(1, greatest(expected[i]))};
        const tape_variable *gradient = literals[i]->gradient;
        xcvm_value *zeros = NULL;
        xcvm_error error;
        if (gradient == NULL) { /* zero by structure */
            good = xcvm_tensor_create(NULL, f->dtype, expected[i]->rank, expected[i]->dims, &zeros, &error) == XCVM_OK;
            memset(xcvm_value_data(zeros), 0, xcvm_value_bytes(zeros));
        }
        const xcvm_value *got = gradient != NULL ? &gradient->value.type : zeros;
        good = good && ((got->dtype == f->dtype && xcvm_same_shape(got, expected[i])) ||
                        fail(c, "gradient, tape, %s: that of literal %zu has another type", f->name, i));
        good = good && compare(c, f, i, got, expected[i], tolerance);
        xcvm_value_release(zeros);
        xcvm_var_clear_grad(t, tape_handle(literals[i]));
    }
    return good;
}

static bool check_called(checking *c, const form *f, xcvm_value *const *expected)
{
    const xcvm_tape_options options = {.size = sizeof options,
                                       .threads = 1,
                                       .functions = case_host_functions,
                                       .function_count = case_host_function_count};
    xcvm_tape *t;
    tape_variable *literals[MOST_LITERALS], *loss;
    if ((f->dtype != XCVM_F64 && c->gradient->only_f64) || f->open || f->optimization < 0)
        return true;
    if (xcvm_tape_create(&options, &t, &c->error) != XCVM_OK)
        return fail(c, "gradient, tape: %s", c->error.message);
    bool good = true;
    const bool made = call_program(c, f, t, literals, &loss);
    if (!made && f->dtype == XCVM_F64) {
        xcvm_tape_status(t, &c->error);
        good = fail(c, "gradient, tape: %s: %s", c->error.instruction, c->error.message);
    }
    for (int create = 1; good && made && create >= 0; create--) {
        const xcvm_backward_options how = {.size = sizeof how, .create_graph = create == 1};
        const xcvm_status status = loss->requires ? xcvm_tape_backward(t, tape_handle(loss), &how, &c->error) : XCVM_OK;
        /* Refused are functions of the host, whose products are options of the compiler's, and what needs a loop. */
        if (status == XCVM_UNSUPPORTED)
            break;
        good =
            status == XCVM_OK || fail(c, "gradient, tape, %s: %s: %s", f->name, c->error.instruction, c->error.message);
        good = good && compare_called(c, f, t, literals, expected);
    }
    xcvm_tape_destroy(t);
    return good;
}

bool case_gradient_check(const test_bytes *file, const case_gradient *gradient, char *why, size_t size)
{
    checking c = {.gradient = gradient, .why = why, .size = size};
    xcvm_value *expected[MOST_LITERALS] = {NULL};
    bool good = xcvm_image_decode(file->at, file->length, NULL, &c.arena, &c.image, &c.error) == XCVM_OK ||
                fail(&c, "gradient: %s", c.error.message);
    good = good && list_literals(&c) && check_first(&c, expected);
    for (size_t i = 1; good && i < FORMS; i++)
        good = check_form(&c, &forms[i], expected);
    good = good && check_second(&c) && check_phases(&c, &forms[0], expected) &&
           (gradient->only_sized || check_phases(&c, &forms[2], expected));
    /* A tape does not go straight through what rounds. */
    for (size_t i = 0; good && !gradient->straight && i < FORMS; i++)
        good = check_called(&c, &forms[i], expected);
    for (size_t i = 0; i < c.count; i++)
        xcvm_value_release(expected[i]);
    xcvm_arena_release(&c.arena);
    return good;
}
