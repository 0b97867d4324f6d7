/* Graphs that are differentiated, for the suites of the differentiation. */
#ifndef XCVM_TESTS_COMPILER_GRADIENTS_DIFFERENTIATION_H
#define XCVM_TESTS_COMPILER_GRADIENTS_DIFFERENTIATION_H

#include "compiler/gradients/gradients.h"
#include "compiler/ir/compose.h"
#include "tests/compiler/support.h"

static UNUSED void begin_backprop(compilation *c)
{
    begin(c, 2);
    c->options.backprop = true;
}

static UNUSED xcc_value *parameter(xcc_builder *b, const char *name, int rank, const int64_t *dims, const float *data)
{
    return must(b, xcc_parameter(b->graph, name, XCVM_F32, rank, dims, data, false));
}

static UNUSED xcc_value *sum(xcc_builder *b, xcc_value *x)
{
    return must(b, xcc_build_reduce(b, XCVM_OP_ReduceSum, x, NULL, false));
}

static UNUSED xcvm_status differentiate(compilation *c)
{
    ok(&c->m, xcc_pass_canonicalize(&c->m));
    ok(&c->m, xcc_pass_infer(&c->m));
    return xcc_pass_differentiate(&c->m);
}

/* Passes after differentiation. */
static UNUSED void compile_rest(compilation *c, compiled_program *k)
{
    c->options.backprop = false;
    passes(c);
    compiled_open(k, c);
}

static UNUSED void check_refused(compilation *c, xcvm_status status, const char *part)
{
    ck_assert_int_eq(differentiate(c), status);
    ck_assert_msg(strstr(c->error.message, part) != NULL, "%s", c->error.message);
    finish(c);
}

static UNUSED void check_outputs(const compilation *c, size_t count, const char *const *names)
{
    const xcc_graph *g = c->m.graph;
    ck_assert_uint_eq(g->output_count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_str_eq(g->output_names[i], names[i]);
}

#endif
