/* Writing ONNX models field by field: messages of any number of nodes and values in time in proportion to them. Ends
 * the process where there is no memory. */
#ifndef XCVM_TESTS_COMPILER_IMPORT_ONNX_MODEL_WRITER_H
#define XCVM_TESTS_COMPILER_IMPORT_ONNX_MODEL_WRITER_H

#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Protobuf ---- */

static UNUSED void put(test_bytes *to, const void *bytes, size_t count)
{
    if (!test_bytes_sink(to, bytes, count))
        abort();
}

static UNUSED void put_varint(test_bytes *to, uint64_t number)
{
    uint8_t bytes[10];
    size_t count = 0;
    for (; number >= 128; number >>= 7)
        bytes[count++] = (uint8_t)(number | 128);
    bytes[count++] = (uint8_t)number;
    put(to, bytes, count);
}

static UNUSED void put_int(test_bytes *to, unsigned field, uint64_t number)
{
    put_varint(to, (uint64_t)field << 3);
    put_varint(to, number);
}

static UNUSED void put_field(test_bytes *to, unsigned field, const void *bytes, size_t count)
{
    put_varint(to, (uint64_t)field << 3 | 2);
    put_varint(to, count);
    put(to, bytes, count);
}

static UNUSED void put_text(test_bytes *to, unsigned field, const char *text)
{
    put_field(to, field, text, strlen(text));
}

/* Appends a message that was written by itself, which is empty afterwards and keeps its memory. */
static UNUSED void put_message(test_bytes *to, unsigned field, test_bytes *message)
{
    put_field(to, field, message->at, message->length);
    message->length = 0;
}

/* ---- ONNX ---- */

/* Numbers of the messages' fields. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_FUNCTION = 25,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_INT = 3,
    ATTRIBUTE_GRAPH = 6,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20,
    FUNCTION_NAME = 1,
    FUNCTION_INPUT = 4,
    FUNCTION_OUTPUT = 5,
    FUNCTION_NODE = 7,
    FUNCTION_OPSET = 9,
    FUNCTION_DOMAIN = 10,
    TYPE_INT = 2,
    TYPE_GRAPH = 5,
    TYPE_INTS = 7,
    DTYPE_FLOAT = 1,
    DTYPE_INT64 = 7,
    DTYPE_BOOL = 9,
    OPSET = 17
};

typedef struct model_writer {
    test_bytes graph, functions, opsets, node, scratch, inner;
    size_t next;     /* number of the next value's name */
    uint64_t newest; /* the opset, where it is not OPSET; 0: it is */
} model_writer;

/* Begins a node; operands, results and attributes follow, then end_node. */
static UNUSED void begin_node(model_writer *m, const char *op) { put_text(&m->node, NODE_OP, op); }

static UNUSED const char *name_of(char text[32], const char *prefix, size_t number)
{
    snprintf(text, 32, "%s%zu", prefix, number);
    return text;
}

static UNUSED void operand(model_writer *m, const char *name) { put_text(&m->node, NODE_INPUT, name); }
static UNUSED void operand_of(model_writer *m, const char *prefix, size_t number)
{
    char text[32];
    operand(m, name_of(text, prefix, number));
}
static UNUSED void result_of(model_writer *m, const char *prefix, size_t number)
{
    char text[32];
    put_text(&m->node, NODE_OUTPUT, name_of(text, prefix, number));
}

static UNUSED void attribute_int(model_writer *m, const char *name, int64_t value)
{
    put_text(&m->scratch, ATTRIBUTE_NAME, name);
    put_int(&m->scratch, ATTRIBUTE_INT, (uint64_t)value);
    put_int(&m->scratch, ATTRIBUTE_TYPE, TYPE_INT);
    put_message(&m->node, NODE_ATTRIBUTE, &m->scratch);
}

static UNUSED void attribute_ints(model_writer *m, const char *name, size_t count, const int64_t *values)
{
    put_text(&m->scratch, ATTRIBUTE_NAME, name);
    for (size_t i = 0; i < count; i++)
        put_int(&m->scratch, ATTRIBUTE_INTS, (uint64_t)values[i]);
    put_int(&m->scratch, ATTRIBUTE_TYPE, TYPE_INTS);
    put_message(&m->node, NODE_ATTRIBUTE, &m->scratch);
}

/* `node` becomes a node with the graph as an attribute, which is empty afterwards. */
static UNUSED void attribute_graph(model_writer *m, test_bytes *node, const char *name, test_bytes *graph)
{
    put_text(&m->scratch, ATTRIBUTE_NAME, name);
    put_message(&m->scratch, ATTRIBUTE_GRAPH, graph);
    put_int(&m->scratch, ATTRIBUTE_TYPE, TYPE_GRAPH);
    put_message(node, NODE_ATTRIBUTE, &m->scratch);
}

static UNUSED void end_node_in(model_writer *m, test_bytes *graph) { put_message(graph, GRAPH_NODE, &m->node); }
static UNUSED void end_node(model_writer *m) { end_node_in(m, &m->graph); }

/* One operand and one result, in a graph. */
static UNUSED void unary_in(model_writer *m, test_bytes *graph, const char *op, const char *from, const char *to)
{
    begin_node(m, op);
    operand(m, from);
    put_text(&m->node, NODE_OUTPUT, to);
    end_node_in(m, graph);
}

/* The operator applied to t(next) and `other` (NULL: nothing), giving t(next + 1). */
static UNUSED void chain(model_writer *m, const char *op, const char *other)
{
    begin_node(m, op);
    operand_of(m, "t", m->next);
    if (other != NULL)
        operand(m, other);
    result_of(m, "t", ++m->next);
    if (strcmp(op, "Concat") == 0)
        attribute_int(m, "axis", 0);
    end_node(m);
}

/* A declared value. A dimension below 0 is open, and called by its `dimension`. No shape: rank -1. */
static UNUSED void value_in(model_writer *m, test_bytes *graph, unsigned field, const char *name, int dtype, int rank,
                            const int64_t *dims, const char *dimension)
{
    test_bytes shape = {0}, dim = {0}, tensor = {0}, type = {0};
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0)
            put_text(&dim, 2, dimension);
        else
            put_int(&dim, 1, (uint64_t)dims[i]);
        put_message(&shape, 1, &dim);
    }
    put_int(&tensor, 1, (uint64_t)dtype);
    if (rank >= 0)
        put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&m->scratch, 1, name);
    put_message(&m->scratch, 2, &type);
    put_message(graph, field, &m->scratch);
    test_bytes_free(&shape);
    test_bytes_free(&dim);
    test_bytes_free(&tensor);
    test_bytes_free(&type);
}

static UNUSED void input(model_writer *m, const char *name, int dtype, int rank, const int64_t *dims)
{
    value_in(m, &m->graph, GRAPH_INPUT, name, dtype, rank, dims, "N");
}
static UNUSED void output(model_writer *m, const char *name, int dtype)
{
    value_in(m, &m->graph, GRAPH_OUTPUT, name, dtype, -1, NULL, "");
}
static UNUSED void output_of(model_writer *m, const char *prefix, size_t number)
{
    char text[32];
    output(m, name_of(text, prefix, number), DTYPE_FLOAT);
}

static const int64_t four[] = {4};

/* A constant whose first element is `first`, all others 1. */
static UNUSED void constant(model_writer *m, const char *name, int dtype, int rank, const int64_t *dims, double first)
{
    size_t count = 1, size = dtype == DTYPE_INT64 ? 8 : 4;
    test_bytes data = {0};
    for (int i = 0; i < rank; i++) {
        put_int(&m->scratch, 1, (uint64_t)dims[i]);
        count *= (size_t)dims[i];
    }
    for (size_t i = 0; i < count; i++) {
        const float number = i == 0 ? (float)first : 1.0f;
        const int64_t integer = (int64_t)number;
        put(&data, dtype == DTYPE_INT64 ? (const void *)&integer : (const void *)&number, size);
    }
    put_int(&m->scratch, 2, (uint64_t)dtype);
    put_text(&m->scratch, 8, name);
    put_message(&m->scratch, 9, &data);
    put_message(&m->graph, GRAPH_INITIALIZER, &m->scratch);
    test_bytes_free(&data);
}
static UNUSED void constant_of(model_writer *m, const char *prefix, size_t number, int rank, const int64_t *dims)
{
    char text[32];
    constant(m, name_of(text, prefix, number), DTYPE_FLOAT, rank, dims, (double)number + 2);
}

static UNUSED void opset(test_bytes *to, unsigned field, const char *domain, uint64_t version)
{
    test_bytes bytes = {0};
    put_text(&bytes, 1, domain);
    put_int(&bytes, 2, version);
    put_message(to, field, &bytes);
    test_bytes_free(&bytes);
}

/* Begins a function of the domain "d". Until finish_function, everything added to m->inner belongs to it. */
static UNUSED void begin_function(model_writer *m, const char *name)
{
    put_text(&m->inner, FUNCTION_NAME, name);
    put_text(&m->inner, FUNCTION_DOMAIN, "d");
    opset(&m->inner, FUNCTION_OPSET, "", OPSET);
}
static UNUSED void finish_function(model_writer *m) { put_message(&m->functions, MODEL_FUNCTION, &m->inner); }

#endif
