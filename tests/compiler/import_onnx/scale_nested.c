/* Kinds of models with many functions, or many graphs inside nodes. */
#include "tests/compiler/import_onnx/scale_kinds.h"

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

void scale_make_attributes(model_writer *m, size_t size)
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

void scale_make_functions(model_writer *m, size_t size)
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

void scale_make_function_results(model_writer *m, size_t size)
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

/* ---- If and Loop ---- */

void scale_make_branches(model_writer *m, size_t size)
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

void scale_make_loops(model_writer *m, size_t size)
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

void scale_make_states(model_writer *m, size_t size)
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

/* Level i has its share of the nodes in a chain, around the next level. Values are named by their level: s is its
 * state, v a node of its chain, o its result. */
typedef struct nest {
    model_writer *m;
    bool loops;                 /* of Loop; else of If */
    test_bytes inside, current; /* the next level's graph, and this one's */
    test_bytes node, other;
} nest;

/* The parameters of a Loop body. A body of If has none and reads s0 from outside. */
static void begin_level(nest *n, test_bytes *g, int depth)
{
    char on[32], go[32], iteration[32], state[32];
    put_text(g, GRAPH_NAME, "g");
    if (depth == 0) {
        input(n->m, "s0", DTYPE_FLOAT, 1, four);
        input(n->m, "cond", DTYPE_BOOL, 0, NULL);
        input(n->m, "count", DTYPE_INT64, 0, NULL);
    } else if (n->loops) {
        const size_t level = (size_t)depth;
        value_in(n->m, g, GRAPH_INPUT, name_of(iteration, "iteration", level), DTYPE_INT64, 0, NULL, "");
        value_in(n->m, g, GRAPH_INPUT, name_of(go, "go", level), DTYPE_BOOL, 0, NULL, "");
        value_in(n->m, g, GRAPH_INPUT, name_of(state, "s", level), DTYPE_FLOAT, 1, four, "");
        unary_in(n->m, g, "Identity", go, name_of(on, "on", level));
        value_in(n->m, g, GRAPH_OUTPUT, on, DTYPE_BOOL, 0, NULL, "");
    }
}

/* The node around the next level, from `from` to `to`. */
static void surround(nest *n, test_bytes *g, int depth, const char *from, const char *to)
{
    char otherwise[32];
    put_text(&n->node, NODE_OP, n->loops ? "Loop" : "If");
    put_text(&n->node, NODE_INPUT, n->loops ? "count" : "cond");
    if (n->loops) {
        put_text(&n->node, NODE_INPUT, "");
        put_text(&n->node, NODE_INPUT, from);
        attribute_graph(n->m, &n->node, "body", &n->inside);
    } else {
        put_text(&n->other, GRAPH_NAME, "other");
        unary_in(n->m, &n->other, "Tanh", from, name_of(otherwise, "e", (size_t)depth));
        value_in(n->m, &n->other, GRAPH_OUTPUT, otherwise, DTYPE_FLOAT, -1, NULL, "");
        attribute_graph(n->m, &n->node, "then_branch", &n->inside);
        attribute_graph(n->m, &n->node, "else_branch", &n->other);
    }
    put_text(&n->node, NODE_OUTPUT, to);
    put_message(g, GRAPH_NODE, &n->node);
}

static void make_depth(model_writer *m, size_t size, bool loops)
{
    nest n = {.m = m, .loops = loops};
    char from[32], to[32];
    const size_t each = size / (DEPTH + 1) + 1;
    for (int depth = DEPTH; depth >= 0; depth--) {
        test_bytes *g = depth > 0 ? &n.current : &m->graph;
        begin_level(&n, g, depth);
        name_of(from, "s", depth > 0 && !loops ? 0 : (size_t)depth);
        for (size_t i = 0; i < each; i++) {
            snprintf(to, sizeof to, "v%d_%zu", depth, i);
            unary_in(m, g, "Sigmoid", from, to);
            memcpy(from, to, sizeof from);
        }
        name_of(to, "o", (size_t)depth);
        if (depth == DEPTH)
            unary_in(m, g, "Tanh", from, to);
        else
            surround(&n, g, depth, from, to);
        value_in(m, g, GRAPH_OUTPUT, to, DTYPE_FLOAT, -1, NULL, "");
        const test_bytes done = n.current;
        n.current = n.inside;
        n.current.length = 0;
        n.inside = done;
    }
    test_bytes_free(&n.inside);
    test_bytes_free(&n.current);
    test_bytes_free(&n.node);
    test_bytes_free(&n.other);
}

void scale_make_depth(model_writer *m, size_t size) { make_depth(m, size, false); }

void scale_make_loop_depth(model_writer *m, size_t size) { make_depth(m, size, true); }
