/* Helpers for tests of the compiler: small graphs, and runs of them before and after the passes. */
#ifndef XCVM_TESTS_COMPILER_SUPPORT_H
#define XCVM_TESTS_COMPILER_SUPPORT_H

#include "compiler/driver/pass_table.h"
#include "compiler/emit/emit.h"
#include "compiler/ir/builder.h"
#include "tests/support.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define FLOATS(...) ((const float[]){__VA_ARGS__})

/* Fills in the top-level graph of a module: inputs, nodes, outputs. */
typedef void (*graph_function)(xcc_builder *b);

typedef struct compilation {
    xcc_module m;
    xcc_options options;
    xcvm_error error;
    xcc_builder b;
} compilation;

static UNUSED void begin(compilation *c, int optimization)
{
    *c = (compilation){.options = {.size = sizeof c->options, .optimization = optimization}};
    ck_assert_int_eq(xcc_module_init(&c->m, &c->options, &c->error), XCVM_OK);
    c->b = (xcc_builder){.graph = c->m.graph, .name = "node", .origin = "Test"};
}

static UNUSED void finish(compilation *c) { xcc_module_release(&c->m); }

static UNUSED void ok(const xcc_module *m, xcvm_status status)
{
    ck_assert_msg(status == XCVM_OK, "%s: %s", xcvm_status_name(status), m->error->message);
}

static UNUSED xcc_value *must(xcc_builder *b, xcc_value *v)
{
    ck_assert_msg(v != NULL, "%s: %s", b->graph->module->error->instruction, b->graph->module->error->message);
    return v;
}

/* A further input of a graph. Dimensions below 0 are symbols by the same name. */
static UNUSED xcc_value *input(xcc_builder *b, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims)
{
    xcc_graph *g = b->graph;
    xcc_value *v = must(b, xcc_value_create(g, name));
    int64_t copy[XCVM_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        char symbol[2] = {(char)('A' - dims[i] - 1), '\0'};
        copy[i] = dims[i] < 0 ? xcc_symbol(g->module, symbol) : dims[i];
    }
    xcvm_value_set_tensor(&v->type, dtype, rank, copy);
    xcc_value *all[16];
    ck_assert_uint_lt(g->input_count, 16);
    if (g->input_count > 0)
        memcpy(all, g->inputs, g->input_count * sizeof *all);
    all[g->input_count] = v;
    ok(g->module, xcc_graph_set_inputs(g, g->input_count + 1, all));
    return v;
}

/* Outputs of the top-level graph need names of their own, so a second one of a value is a copy. */
static UNUSED void output(xcc_builder *b, xcc_value *v)
{
    xcc_graph *g = b->graph;
    xcc_value *all[16];
    bool again = false;
    for (size_t i = 0; i < g->output_count; i++)
        again = again || (g->owner == NULL && g->outputs[i] == v);
    if (again)
        v = xcc_apply(b, Identity, y, .x = XCC_IN(v));
    ck_assert_uint_lt(g->output_count, 16);
    if (g->output_count > 0)
        memcpy(all, g->outputs, g->output_count * sizeof *all);
    all[g->output_count] = must(b, v);
    ok(g->module, xcc_graph_set_outputs(g, g->output_count + 1, all));
}

static UNUSED xcc_value *floats(xcc_builder *b, int rank, const int64_t *dims, const float *data)
{
    return must(b, xcc_constant(b->graph, NULL, XCVM_F32, rank, dims, data, false));
}

static UNUSED xcc_value *number(xcc_builder *b, double value) { return must(b, xcc_scalar(b->graph, XCVM_F32, value)); }

static UNUSED xcc_value *ints(xcc_builder *b, size_t count, const int64_t *values)
{
    return must(b, xcc_constant_i64(b->graph, count, values));
}

/* A constant with elements that differ, between -1 and 1. */
static UNUSED xcc_value *weights(xcc_builder *b, int rank, const int64_t *dims)
{
    size_t count, bytes;
    ck_assert(xcvm_tensor_size(XCVM_F32, rank, dims, &count, &bytes));
    float *data = malloc(bytes + 1);
    for (size_t i = 0; i < count; i++)
        data[i] = sinf((float)(i * 7 + 3));
    xcc_value *v = floats(b, rank, dims, data);
    free(data);
    return v;
}

static UNUSED size_t count_in(const xcc_graph *g, xcvm_opcode opcode)
{
    size_t count = 0;
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        count += opcode == XCVM_OP_NONE || xcc_is(n, opcode);
        for (size_t i = 0; i < n->body_count; i++)
            count += count_in(n->bodies[i], opcode);
    }
    return count;
}

#define CHECK_COUNT(c, Name, expected) ck_assert_uint_eq(count_in((c)->m.graph, XCVM_OP_##Name), (expected))
#define CHECK_NODES(c, expected) ck_assert_uint_eq(count_in((c)->m.graph, XCVM_OP_NONE), (expected))

/* ---- Running ---- */

static UNUSED void passes(compilation *c)
{
    ok(&c->m, xcc_graph_verify(c->m.graph));
    ok(&c->m, xcc_passes_run(&c->m));
    ok(&c->m, xcc_graph_verify(c->m.graph));
}

static UNUSED test_bytes emit(compilation *c)
{
    test_bytes bytes = {0};
    xcc_plan plan;
    ok(&c->m, xcc_plan_make(&c->m, &plan));
    ok(&c->m, xcc_emit_program(&c->m, &plan, (xcvm_sink){test_bytes_sink, &bytes}));
    return bytes;
}

/* A program with a session, and values to give it. */
typedef struct compiled_program {
    test_bytes bytes;
    xcvm_program *program;
    xcvm_session *session;
} compiled_program;

static UNUSED void compiled_open(compiled_program *k, compilation *c)
{
    xcvm_error error = {0};
    xcvm_load_options options = {.size = sizeof options};
    xcvm_session_options session = {.size = sizeof session, .threads = 1, .strict_types = true};
    k->bytes = emit(c);
    xcvm_status status = xcvm_program_load(k->bytes.at, k->bytes.length, &options, &k->program, &error);
    ck_assert_msg(status == XCVM_OK, "pc %d (%s): %s", error.pc, error.instruction, error.message);
    ck_assert_int_eq(xcvm_session_create(k->program, &session, &k->session, &error), XCVM_OK);
}

static UNUSED void compiled_close(compiled_program *k)
{
    xcvm_session_destroy(k->session);
    xcvm_program_destroy(k->program);
    test_bytes_free(&k->bytes);
}

/* Binds a tensor of the declared type with numbers that depend on `seed`, and open dimensions on its hundreds: 3, 5 ...
 */
static UNUSED void compiled_fill_input(compiled_program *k, size_t index, unsigned seed)
{
    const xcvm_value_info *p = xcvm_program_input_at(k->program, index);
    int64_t dims[XCVM_MAX_RANK];
    xcvm_value *v = NULL;
    for (int i = 0; i < p->type.rank; i++)
        dims[i] = p->type.dims[i] < 0 ? 3 + 2 * (int64_t)(seed / 100) : p->type.dims[i];
    ck_assert_int_eq(xcvm_tensor_create(NULL, p->type.dtype, p->type.rank, dims, &v, NULL), XCVM_OK);
    size_t count = xcvm_element_count(v);
    for (size_t i = 0; i < count; i++) {
        test_random(&seed);
        if (p->type.dtype == XCVM_F32)
            XCVM_DATA(float, v)[i] = (float)(seed >> 8) / 2796202.0f - 3;
        else if (p->type.dtype == XCVM_I64)
            XCVM_DATA(int64_t, v)[i] = seed >> 30;
        else if (p->type.dtype == XCVM_BOOL)
            XCVM_DATA(bool, v)[i] = (seed >> 30 & 1) != 0;
    }
    ck_assert_int_eq(xcvm_session_set_input(k->session, index, v, NULL), XCVM_OK);
    xcvm_value_release(v);
}

static UNUSED void compiled_set_input(compiled_program *k, size_t index, xcvm_dtype dtype, int rank,
                                      const int64_t *dims, const void *data)
{
    xcvm_value *v = NULL;
    ck_assert_int_eq(xcvm_tensor_create(NULL, dtype, rank, dims, &v, NULL), XCVM_OK);
    memcpy(xcvm_value_data(v), data, xcvm_value_bytes(v));
    xcvm_error error = {0};
    ck_assert_msg(xcvm_session_set_input(k->session, index, v, &error) == XCVM_OK, "%s", error.message);
    xcvm_value_release(v);
}

static UNUSED void compiled_run(compiled_program *k)
{
    xcvm_error error = {0};
    xcvm_run_options options = {.size = sizeof options, .fuel = 100000};
    xcvm_status status = xcvm_session_run(k->session, &options, &error);
    ck_assert_msg(status == XCVM_OK, "pc %d (%s): %s", error.pc, error.instruction, error.message);
}

static UNUSED void expect_output(const compiled_program *k, size_t index, int rank, const int64_t *dims,
                                 const float *data)
{
    const xcvm_value *v = xcvm_session_get_output(k->session, index);
    ck_assert_ptr_nonnull(v);
    ck_assert_int_eq(xcvm_value_rank(v), rank);
    for (int i = 0; i < rank; i++)
        ck_assert_int_eq(v->dims[i], dims[i]);
    for (size_t i = 0; i < xcvm_element_count(v); i++)
        ck_assert_double_eq_tol(xcvm_element_as_double(v, i), (double)data[i], 1e-5);
}

static void expect_equal(const xcvm_value *a, const xcvm_value *b)
{
    ck_assert_int_eq(a->dtype, b->dtype);
    ck_assert(xcvm_same_shape(a, b));
    for (size_t i = 0; i < xcvm_element_count(a); i++) {
        double x = xcvm_element_as_double(a, i), y = xcvm_element_as_double(b, i);
        ck_assert_msg((isnan(x) && isnan(y)) || x == y || fabs(x - y) <= 1e-5 + 1e-4 * fabs(y), "element %zu: %g, %g",
                      i, x, y);
    }
}

/* Appends a diagnostic to a test_bytes, as a line; those of pairs of states begin with "note: ". */
static UNUSED void keep_diagnostic(void *user, xcc_diagnostic_kind kind, const char *text)
{
    const char *begin = kind == XCC_DIAGNOSTIC_STATE_PAIR ? "note: " : "";
    ck_assert(test_bytes_sink(user, begin, strlen(begin)) && test_bytes_sink(user, text, strlen(text)) &&
              test_bytes_sink(user, "\n", 1));
}

/* Compiles what `make` makes without optimization, and with the options of *c, which has begun; runs both on the same
 * inputs and compares the results. */
static UNUSED void check_results(graph_function make, compilation *c)
{
    compilation plain;
    compiled_program before, after;
    begin(&plain, -1);
    make(&plain.b);
    passes(&plain);
    compiled_open(&before, &plain);
    make(&c->b);
    passes(c);
    compiled_open(&after, c);
    for (unsigned round = 0; round < 3; round++) {
        for (size_t i = 0; i < xcvm_program_input_count(before.program); i++) {
            compiled_fill_input(&before, i, round * 100 + (unsigned)i);
            compiled_fill_input(&after, i, round * 100 + (unsigned)i);
        }
        compiled_run(&before);
        compiled_run(&after);
        ck_assert_uint_eq(xcvm_program_output_count(before.program), xcvm_program_output_count(after.program));
        for (size_t i = 0; i < xcvm_program_output_count(before.program); i++) {
            ck_assert_str_eq(xcvm_program_output_at(before.program, i)->name,
                             xcvm_program_output_at(after.program, i)->name);
            expect_equal(xcvm_session_get_output(before.session, i), xcvm_session_get_output(after.session, i));
        }
    }
    compiled_close(&before);
    compiled_close(&after);
    finish(&plain);
}

/* The same with full optimization; *c is to be released with finish(). */
static UNUSED void check_same_results(graph_function make, compilation *c)
{
    begin(c, 2);
    check_results(make, c);
}

#endif
