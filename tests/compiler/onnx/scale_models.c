/* Models of every kind for tests of scaling, written field by field. */
#include "tests/compiler/onnx/scale_states.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const scale_kind_info scale_kinds[SCALE_KIND_COUNT] = {
#define SCALE_KIND(name, what) {#name, what},
    SCALE_KINDS(SCALE_KIND)
#undef SCALE_KIND
};

/* ---- Kinds ---- */

static void make_chain(model_writer *m, const char *op, const char *other, size_t size)
{
    input(m, "t0", DTYPE_FLOAT, 1, four);
    for (size_t i = 0; i < size; i++)
        chain(m, op, other);
    output_of(m, "t", m->next);
}

static void make_nodes(model_writer *m, size_t size) { make_chain(m, "Sigmoid", NULL, size); }

static void make_initializers(model_writer *m, size_t size)
{
    char text[32];
    input(m, "t0", DTYPE_FLOAT, 1, four);
    for (size_t i = 0; i < size; i++) {
        constant_of(m, "c", i, 1, four);
        chain(m, i % 2 == 0 ? "Sub" : "Max", name_of(text, "c", i));
    }
    output_of(m, "t", m->next);
}

static void make_unused_initializers(model_writer *m, size_t size)
{
    make_chain(m, "Sigmoid", NULL, 1);
    for (size_t i = 0; i < size; i++)
        constant_of(m, "c", i, 1, four);
}

static void make_inputs(model_writer *m, size_t size)
{
    char text[32];
    make_chain(m, "Sigmoid", NULL, size);
    for (size_t i = 0; i < size; i++)
        input(m, name_of(text, "x", i), DTYPE_FLOAT, 1, four);
}

static void make_outputs(model_writer *m, size_t size)
{
    input(m, "x", DTYPE_FLOAT, 1, four);
    for (size_t i = 0; i < size; i++) {
        constant_of(m, "c", i, 1, four);
        begin_node(m, "Mul");
        operand(m, "x");
        operand_of(m, "c", i);
        result_of(m, "y", i);
        end_node(m);
        output_of(m, "y", i);
    }
}

static void make_operands(model_writer *m, size_t size)
{
    input(m, "x", DTYPE_FLOAT, 1, four);
    begin_node(m, "Concat");
    attribute_int(m, "axis", 0);
    for (size_t i = 0; i < size; i++)
        operand(m, "x");
    result_of(m, "t", 0);
    end_node(m);
    output_of(m, "t", 0);
}

static void make_results(model_writer *m, size_t size)
{
    const int64_t dims[] = {(int64_t)size};
    input(m, "x", DTYPE_FLOAT, 1, dims);
    begin_node(m, "Split");
    operand(m, "x");
    for (size_t i = 0; i < size; i++)
        result_of(m, "y", i);
    end_node(m);
    for (size_t i = 0; i < size; i++)
        output_of(m, "y", i);
}

/* A function of the domain "d", a node `op` of an operand and a result; finish_function ends it. */
static void begin_function(model_writer *m, const char *name)
{
    put_text(&m->inner, FUNCTION_NAME, name);
    put_text(&m->inner, FUNCTION_DOMAIN, "d");
    opset(&m->inner, FUNCTION_OPSET, "", OPSET);
}
static void finish_function(model_writer *m) { put_message(&m->functions, MODEL_FUNCTION, &m->inner); }

static void simple_function(model_writer *m, const char *name)
{
    begin_function(m, name);
    put_text(&m->inner, FUNCTION_INPUT, "a");
    put_text(&m->inner, FUNCTION_OUTPUT, "b");
    begin_node(m, "Sigmoid");
    operand(m, "a");
    put_text(&m->node, NODE_OUTPUT, "b");
    put_message(&m->inner, FUNCTION_NODE, &m->node);
    finish_function(m);
}

static void make_attributes(model_writer *m, size_t size)
{
    char text[32];
    simple_function(m, "f");
    opset(&m->opsets, MODEL_OPSET, "d", 1);
    input(m, "t0", DTYPE_FLOAT, 1, four);
    begin_node(m, "f");
    put_text(&m->node, NODE_DOMAIN, "d");
    operand(m, "t0");
    result_of(m, "t", 1);
    for (size_t i = 0; i < size; i++)
        attribute_int(m, name_of(text, "a", i), (int64_t)i);
    end_node(m);
    output_of(m, "t", 1);
}

static void make_functions(model_writer *m, size_t size)
{
    char text[32];
    opset(&m->opsets, MODEL_OPSET, "d", 1);
    input(m, "t0", DTYPE_FLOAT, 1, four);
    for (size_t i = 0; i < size; i++) {
        simple_function(m, name_of(text, "f", i));
        begin_node(m, text);
        put_text(&m->node, NODE_DOMAIN, "d");
        operand_of(m, "t", i);
        result_of(m, "t", i + 1);
        end_node(m);
    }
    output_of(m, "t", size);
}

static void make_function_results(model_writer *m, size_t size)
{
    char text[32];
    opset(&m->opsets, MODEL_OPSET, "d", 1);
    input(m, "x", DTYPE_FLOAT, 1, four);
    begin_function(m, "f");
    put_text(&m->inner, FUNCTION_INPUT, "a");
    begin_node(m, "f");
    put_text(&m->node, NODE_DOMAIN, "d");
    operand(m, "x");
    for (size_t i = 0; i < size; i++) {
        put_text(&m->inner, FUNCTION_OUTPUT, name_of(text, "b", i));
        result_of(m, "y", i);
    }
    end_node(m);
    for (size_t i = 0; i < size; i++) {
        begin_node(m, "Sigmoid");
        operand(m, "a");
        result_of(m, "b", i);
        put_message(&m->inner, FUNCTION_NODE, &m->node);
        output_of(m, "y", i);
    }
    finish_function(m);
}

static void make_opsets(model_writer *m, size_t size)
{
    char text[32];
    for (size_t i = 0; i < size; i++)
        opset(&m->opsets, MODEL_OPSET, name_of(text, "d", i), 1);
    make_chain(m, "Sigmoid", NULL, size);
}

static void make_dimensions(model_writer *m, size_t size)
{
    char text[32], dimension[32];
    const int64_t open[] = {-1};
    input(m, "t0", DTYPE_FLOAT, 1, open);
    for (size_t i = 0; i < size; i++) {
        name_of(text, "x", i);
        value_in(m, &m->graph, GRAPH_INPUT, text, DTYPE_FLOAT, 1, open, name_of(dimension, "d", i));
        chain(m, "Sub", text);
    }
    output_of(m, "t", m->next);
}

static void make_concats(model_writer *m, size_t size)
{
    input(m, "x", DTYPE_FLOAT, 1, four);
    make_chain(m, "Concat", "x", size);
}

static void make_readers(model_writer *m, size_t size)
{
    input(m, "x", DTYPE_FLOAT, 1, four);
    make_chain(m, "Sub", "x", size);
}

static void make_live(model_writer *m, size_t size)
{
    char text[32];
    input(m, "t0", DTYPE_FLOAT, 1, four);
    for (size_t i = 0; i < size / 2; i++)
        chain(m, "Sigmoid", NULL);
    for (size_t i = size / 2; i > 0; i--)
        chain(m, "Sub", name_of(text, "t", i));
    output_of(m, "t", m->next);
}

static void make_equal(model_writer *m, size_t size)
{
    input(m, "x", DTYPE_FLOAT, 1, four);
    for (size_t i = 0; i < size; i++) {
        begin_node(m, "Sigmoid");
        operand(m, "x");
        result_of(m, "s", i);
        end_node(m);
    }
    begin_node(m, "Concat");
    attribute_int(m, "axis", 0);
    for (size_t i = 0; i < size; i++)
        operand_of(m, "s", i);
    result_of(m, "t", 0);
    end_node(m);
    output_of(m, "t", 0);
}

static void make_foldable(model_writer *m, size_t size)
{
    const int64_t dims[] = {1000};
    constant(m, "t0", DTYPE_FLOAT, 1, dims, 1);
    for (size_t i = 0; i < size; i++)
        chain(m, "Sigmoid", NULL);
    output_of(m, "t", m->next);
}

static void make_shapes(model_writer *m, size_t size)
{
    const int64_t open[] = {-1, 4}, one[] = {1};
    input(m, "t0", DTYPE_FLOAT, 2, open);
    constant(m, "one", DTYPE_INT64, 1, one, 1);
    for (size_t i = 0; i < size; i += 4) {
        size_t x = m->next;
        chain(m, "Shape", NULL);
        chain(m, "Add", "one");
        chain(m, "Sub", "one");
        begin_node(m, "Reshape");
        operand_of(m, "t", x);
        operand_of(m, "t", m->next);
        result_of(m, "t", ++m->next);
        end_node(m);
    }
    output_of(m, "t", m->next);
}

static void make_transposes(model_writer *m, size_t size)
{
    const int64_t dims[] = {3, 4}, perm[] = {1, 0};
    input(m, "t0", DTYPE_FLOAT, 2, dims);
    for (size_t i = 0; i < size; i++) {
        begin_node(m, "Transpose");
        operand_of(m, "t", i);
        result_of(m, "t", i + 1);
        attribute_ints(m, "perm", 2, perm);
        end_node(m);
    }
    output_of(m, "t", size);
}

static void make_products(model_writer *m, size_t size)
{
    const int64_t x[] = {2, 9}, w[] = {9, 9};
    char text[32];
    input(m, "t0", DTYPE_FLOAT, 2, x);
    for (size_t i = 0; i < size; i++) {
        constant_of(m, "w", i, 2, w);
        chain(m, "MatMul", name_of(text, "w", i));
    }
    output_of(m, "t", m->next);
}

static void make_convolutions(model_writer *m, size_t size)
{
    const int64_t x[] = {1, 16, 8, 8}, w[] = {16, 16, 1, 1};
    input(m, "x", DTYPE_FLOAT, 4, x);
    for (size_t i = 0; i < size; i++) {
        constant_of(m, "w", i, 4, w);
        begin_node(m, "Conv");
        operand(m, "x");
        operand_of(m, "w", i);
        result_of(m, "c", i);
        end_node(m);
    }
    begin_node(m, "Concat");
    attribute_int(m, "axis", 1);
    for (size_t i = 0; i < size; i++)
        operand_of(m, "c", i);
    result_of(m, "t", 0);
    end_node(m);
    output_of(m, "t", 0);
}

static void make_affine(model_writer *m, size_t size)
{
    const int64_t x[] = {1, 4, 8, 8}, c[] = {1, 4, 1, 1};
    input(m, "t0", DTYPE_FLOAT, 4, x);
    constant(m, "c", DTYPE_FLOAT, 4, c, 2);
    for (size_t i = 0; i < size; i++)
        chain(m, i % 2 == 0 ? "Add" : "Mul", "c");
    output_of(m, "t", m->next);
}

static void make_sequence(model_writer *m, size_t size)
{
    input(m, "x", DTYPE_FLOAT, 1, four);
    begin_node(m, "SequenceEmpty");
    result_of(m, "t", 0);
    end_node(m);
    for (size_t i = 0; i < size; i++)
        chain(m, "SequenceInsert", "x");
    begin_node(m, "SequenceLength");
    operand_of(m, "t", m->next);
    result_of(m, "y", 0);
    end_node(m);
    output(m, "y0", DTYPE_INT64);
}

static void make_branches(model_writer *m, size_t size)
{
    const size_t count = size / 3 + 1; /* the If, and a node in each branch */
    test_bytes body = {0}, node = {0};
    char from[32], to[32];
    input(m, "t0", DTYPE_FLOAT, 1, four);
    input(m, "cond", DTYPE_BOOL, 0, NULL);
    for (size_t i = 0; i < count; i++) {
        name_of(from, "t", i);
        put_text(&node, NODE_OP, "If");
        put_text(&node, NODE_INPUT, "cond");
        put_text(&node, NODE_OUTPUT, name_of(to, "t", i + 1));
        for (int branch = 0; branch < 2; branch++) {
            name_of(to, branch == 0 ? "p" : "q", i);
            unary_in(m, &body, branch == 0 ? "Sigmoid" : "Tanh", from, to);
            put_text(&body, GRAPH_NAME, "branch");
            value_in(m, &body, GRAPH_OUTPUT, to, DTYPE_FLOAT, -1, NULL, "");
            attribute_graph(m, &node, branch == 0 ? "then_branch" : "else_branch", &body);
        }
        put_message(&m->graph, GRAPH_NODE, &node);
    }
    output_of(m, "t", count);
    test_bytes_free(&body);
    test_bytes_free(&node);
}

/* The parameters and the condition of a Loop's body; states follow. */
static void begin_body(model_writer *m, test_bytes *body)
{
    put_text(body, GRAPH_NAME, "body");
    value_in(m, body, GRAPH_INPUT, "iteration", DTYPE_INT64, 0, NULL, "");
    value_in(m, body, GRAPH_INPUT, "go", DTYPE_BOOL, 0, NULL, "");
    unary_in(m, body, "Identity", "go", "on");
    value_in(m, body, GRAPH_OUTPUT, "on", DTYPE_BOOL, 0, NULL, "");
}

static void make_loops(model_writer *m, size_t size)
{
    const size_t count = size / 3 + 1; /* the Loop, and two nodes in its body */
    test_bytes body = {0}, node = {0};
    char text[32];
    input(m, "t0", DTYPE_FLOAT, 1, four);
    input(m, "count", DTYPE_INT64, 0, NULL);
    for (size_t i = 0; i < count; i++) {
        begin_body(m, &body);
        value_in(m, &body, GRAPH_INPUT, "s", DTYPE_FLOAT, 1, four, "");
        unary_in(m, &body, "Sigmoid", "s", "r");
        value_in(m, &body, GRAPH_OUTPUT, "r", DTYPE_FLOAT, 1, four, "");
        put_text(&node, NODE_OP, "Loop");
        put_text(&node, NODE_INPUT, "count");
        put_text(&node, NODE_INPUT, "");
        put_text(&node, NODE_INPUT, name_of(text, "t", i));
        put_text(&node, NODE_OUTPUT, name_of(text, "t", i + 1));
        attribute_graph(m, &node, "body", &body);
        put_message(&m->graph, GRAPH_NODE, &node);
    }
    output_of(m, "t", count);
    test_bytes_free(&body);
    test_bytes_free(&node);
}

static void make_states(model_writer *m, size_t size)
{
    test_bytes body = {0}, node = {0};
    char from[32], to[32];
    input(m, "x", DTYPE_FLOAT, 1, four);
    input(m, "count", DTYPE_INT64, 0, NULL);
    begin_body(m, &body);
    put_text(&node, NODE_OP, "Loop");
    put_text(&node, NODE_INPUT, "count");
    put_text(&node, NODE_INPUT, "");
    for (size_t i = 0; i < size; i++) {
        put_text(&node, NODE_INPUT, "x");
        put_text(&node, NODE_OUTPUT, name_of(to, "y", i));
        output(m, to, DTYPE_FLOAT);
        value_in(m, &body, GRAPH_INPUT, name_of(from, "s", i), DTYPE_FLOAT, 1, four, "");
        unary_in(m, &body, "Sigmoid", from, name_of(to, "r", i));
        value_in(m, &body, GRAPH_OUTPUT, to, DTYPE_FLOAT, 1, four, "");
    }
    attribute_graph(m, &node, "body", &body);
    put_message(&m->graph, GRAPH_NODE, &node);
    test_bytes_free(&body);
    test_bytes_free(&node);
}

enum { DEPTH = 30 };

/* Level i of so many has its share of the nodes in a chain, around the next level. */
static void make_depth(model_writer *m, size_t size, bool loops)
{
    test_bytes inside = {0}, level = {0}, node = {0}, other = {0};
    char from[32], to[32];
    const size_t each = size / (DEPTH + 1) + 1;
    for (int depth = DEPTH; depth >= 0; depth--) {
        test_bytes *g = depth > 0 ? &level : &m->graph;
        char state[32], last[32];
        name_of(state, "s", (size_t)depth);
        put_text(g, GRAPH_NAME, "g");
        if (depth == 0) {
            input(m, "s0", DTYPE_FLOAT, 1, four);
            input(m, "cond", DTYPE_BOOL, 0, NULL);
            input(m, "count", DTYPE_INT64, 0, NULL);
        } else if (loops) {
            snprintf(to, sizeof to, "on%d", depth);
            snprintf(from, sizeof from, "go%d", depth);
            snprintf(last, sizeof last, "iteration%d", depth);
            value_in(m, g, GRAPH_INPUT, last, DTYPE_INT64, 0, NULL, "");
            value_in(m, g, GRAPH_INPUT, from, DTYPE_BOOL, 0, NULL, "");
            value_in(m, g, GRAPH_INPUT, state, DTYPE_FLOAT, 1, four, "");
            unary_in(m, g, "Identity", from, to);
            value_in(m, g, GRAPH_OUTPUT, to, DTYPE_BOOL, 0, NULL, "");
        }
        snprintf(from, sizeof from, "%s", depth > 0 && !loops ? "s0" : state);
        for (size_t i = 0; i < each; i++) {
            snprintf(to, sizeof to, "v%d_%zu", depth, i);
            unary_in(m, g, "Sigmoid", from, to);
            memcpy(from, to, sizeof from);
        }
        snprintf(last, sizeof last, "o%d", depth);
        if (depth == DEPTH) {
            unary_in(m, g, "Tanh", from, last);
        } else {
            put_text(&node, NODE_OP, loops ? "Loop" : "If");
            put_text(&node, NODE_INPUT, loops ? "count" : "cond");
            if (loops) {
                put_text(&node, NODE_INPUT, "");
                put_text(&node, NODE_INPUT, from);
                attribute_graph(m, &node, "body", &inside);
            } else {
                put_text(&other, GRAPH_NAME, "other");
                snprintf(to, sizeof to, "e%d", depth);
                unary_in(m, &other, "Tanh", from, to);
                value_in(m, &other, GRAPH_OUTPUT, to, DTYPE_FLOAT, -1, NULL, "");
                attribute_graph(m, &node, "then_branch", &inside);
                attribute_graph(m, &node, "else_branch", &other);
            }
            put_text(&node, NODE_OUTPUT, last);
            put_message(g, GRAPH_NODE, &node);
        }
        value_in(m, g, GRAPH_OUTPUT, last, DTYPE_FLOAT, -1, NULL, "");
        const test_bytes done = level;
        level = inside;
        level.length = 0;
        inside = done;
    }
    test_bytes_free(&inside);
    test_bytes_free(&level);
    test_bytes_free(&node);
    test_bytes_free(&other);
}

static void make_names(model_writer *m, size_t size)
{
    enum { LENGTH = 1000 };
    char names[2][LENGTH + 32];
    for (int i = 0; i < 2; i++)
        memset(names[i], 'n', LENGTH);
    memcpy(names[0], "x", 2);
    input(m, "x", DTYPE_FLOAT, 1, four);
    const size_t count = size / LENGTH + 1;
    for (size_t i = 0; i < count; i++) {
        snprintf(names[(i + 1) % 2], sizeof names[0], "%0*zu", LENGTH, i);
        unary_in(m, &m->graph, "Sigmoid", names[i % 2], names[(i + 1) % 2]);
    }
    output(m, names[count % 2], DTYPE_FLOAT);
}

/* ---- Whole models ---- */

static test_bytes finish(model_writer *m)
{
    test_bytes model = {0};
    put_int(&model, MODEL_IR_VERSION, 8);
    opset(&model, MODEL_OPSET, "", m->newest != 0 ? m->newest : OPSET);
    put(&model, m->opsets.at, m->opsets.length);
    put_message(&model, MODEL_GRAPH, &m->graph);
    put(&model, m->functions.at, m->functions.length);
    test_bytes_free(&m->graph);
    test_bytes_free(&m->functions);
    test_bytes_free(&m->opsets);
    test_bytes_free(&m->node);
    test_bytes_free(&m->scratch);
    test_bytes_free(&m->inner);
    return model;
}

test_bytes scale_model(scale_kind kind, size_t size)
{
    static void (*const functions[SCALE_KIND_COUNT])(model_writer *, size_t) = {
        [SCALE_nodes] = make_nodes,
        [SCALE_initializers] = make_initializers,
        [SCALE_unused_initializers] = make_unused_initializers,
        [SCALE_inputs] = make_inputs,
        [SCALE_outputs] = make_outputs,
        [SCALE_operands] = make_operands,
        [SCALE_results] = make_results,
        [SCALE_attributes] = make_attributes,
        [SCALE_functions] = make_functions,
        [SCALE_function_results] = make_function_results,
        [SCALE_opsets] = make_opsets,
        [SCALE_dimensions] = make_dimensions,
        [SCALE_concats] = make_concats,
        [SCALE_readers] = make_readers,
        [SCALE_live] = make_live,
        [SCALE_equal] = make_equal,
        [SCALE_foldable] = make_foldable,
        [SCALE_shapes] = make_shapes,
        [SCALE_transposes] = make_transposes,
        [SCALE_products] = make_products,
        [SCALE_convolutions] = make_convolutions,
        [SCALE_affine] = make_affine,
        [SCALE_sequence] = make_sequence,
        [SCALE_branches] = make_branches,
        [SCALE_loops] = make_loops,
        [SCALE_states] = make_states,
        [SCALE_kept] = scale_make_kept,
        [SCALE_caches] = scale_make_caches,
        [SCALE_names] = make_names,
    };
    model_writer m = {.next = 0};
    if (kind == SCALE_depth || kind == SCALE_loop_depth)
        make_depth(&m, size, kind == SCALE_loop_depth);
    else
        functions[kind](&m, size);
    return finish(&m);
}

test_bytes scale_fold_bomb(size_t count, size_t bytes)
{
    model_writer m = {.next = 0};
    const int64_t one[] = {1}, all[] = {(int64_t)(bytes / sizeof(float))};
    constant(&m, "shape", DTYPE_INT64, 1, one, (double)all[0]);
    for (size_t i = 0; i < count; i++) {
        constant_of(&m, "c", i, 1, one);
        begin_node(&m, "Expand");
        operand_of(&m, "c", i);
        operand(&m, "shape");
        result_of(&m, "y", i);
        end_node(&m);
        output_of(&m, "y", i);
    }
    return finish(&m);
}

test_bytes scale_call_bomb(size_t calls, size_t nodes)
{
    model_writer m = {.next = 0};
    opset(&m.opsets, MODEL_OPSET, "d", 1);
    input(&m, "t0", DTYPE_FLOAT, 1, four);
    begin_function(&m, "f");
    put_text(&m.inner, FUNCTION_INPUT, "a");
    put_text(&m.inner, FUNCTION_OUTPUT, "b0");
    for (size_t i = 0; i < nodes; i++) {
        begin_node(&m, "Sigmoid");
        operand(&m, "a");
        result_of(&m, "b", i);
        put_message(&m.inner, FUNCTION_NODE, &m.node);
    }
    finish_function(&m);
    for (size_t i = 0; i < calls; i++) {
        begin_node(&m, "f");
        put_text(&m.node, NODE_DOMAIN, "d");
        operand_of(&m, "t", i);
        result_of(&m, "t", i + 1);
        end_node(&m);
    }
    output_of(&m, "t", calls);
    return finish(&m);
}

test_bytes scale_named(char *const *names, size_t count)
{
    model_writer m = {.next = 0};
    input(&m, "x", DTYPE_FLOAT, 1, four);
    for (size_t i = 0; i < count; i++)
        unary_in(&m, &m.graph, "Sigmoid", i == 0 ? "x" : names[i - 1], names[i]);
    output(&m, names[count - 1], DTYPE_FLOAT);
    return finish(&m);
}
