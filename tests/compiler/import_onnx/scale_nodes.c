/* Kinds of models whose nodes and values are in one graph. */
#include "tests/compiler/import_onnx/scale_kinds.h"

static void make_chain(model_writer *m, const char *op, const char *other, size_t size)
{
    input(m, "t0", DTYPE_FLOAT, 1, four);
    for (size_t i = 0; i < size; i++)
        chain(m, op, other);
    output_of(m, "t", m->next);
}

void scale_make_nodes(model_writer *m, size_t size) { make_chain(m, "Sigmoid", NULL, size); }

void scale_make_initializers(model_writer *m, size_t size)
{
    char text[32];
    input(m, "t0", DTYPE_FLOAT, 1, four);
    for (size_t i = 0; i < size; i++) {
        constant_of(m, "c", i, 1, four);
        chain(m, i % 2 == 0 ? "Sub" : "Max", name_of(text, "c", i));
    }
    output_of(m, "t", m->next);
}

void scale_make_unused_initializers(model_writer *m, size_t size)
{
    make_chain(m, "Sigmoid", NULL, 1);
    for (size_t i = 0; i < size; i++)
        constant_of(m, "c", i, 1, four);
}

void scale_make_inputs(model_writer *m, size_t size)
{
    char text[32];
    make_chain(m, "Sigmoid", NULL, size);
    for (size_t i = 0; i < size; i++)
        input(m, name_of(text, "x", i), DTYPE_FLOAT, 1, four);
}

void scale_make_outputs(model_writer *m, size_t size)
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

void scale_make_operands(model_writer *m, size_t size)
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

void scale_make_results(model_writer *m, size_t size)
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

void scale_make_opsets(model_writer *m, size_t size)
{
    char text[32];
    for (size_t i = 0; i < size; i++)
        opset(&m->opsets, MODEL_OPSET, name_of(text, "d", i), 1);
    make_chain(m, "Sigmoid", NULL, size);
}

void scale_make_dimensions(model_writer *m, size_t size)
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

void scale_make_concats(model_writer *m, size_t size)
{
    input(m, "x", DTYPE_FLOAT, 1, four);
    make_chain(m, "Concat", "x", size);
}

void scale_make_readers(model_writer *m, size_t size)
{
    input(m, "x", DTYPE_FLOAT, 1, four);
    make_chain(m, "Sub", "x", size);
}

void scale_make_live(model_writer *m, size_t size)
{
    char text[32];
    input(m, "t0", DTYPE_FLOAT, 1, four);
    for (size_t i = 0; i < size / 2; i++)
        chain(m, "Sigmoid", NULL);
    for (size_t i = size / 2; i > 0; i--)
        chain(m, "Sub", name_of(text, "t", i));
    output_of(m, "t", m->next);
}

/* The output, which joins `size` values of a name. */
static void concat_all(model_writer *m, const char *name, size_t size, int64_t axis)
{
    begin_node(m, "Concat");
    attribute_int(m, "axis", axis);
    for (size_t i = 0; i < size; i++)
        operand_of(m, name, i);
    result_of(m, "t", 0);
    end_node(m);
    output_of(m, "t", 0);
}

void scale_make_equal(model_writer *m, size_t size)
{
    input(m, "x", DTYPE_FLOAT, 1, four);
    for (size_t i = 0; i < size; i++) {
        begin_node(m, "Sigmoid");
        operand(m, "x");
        result_of(m, "s", i);
        end_node(m);
    }
    concat_all(m, "s", size, 0);
}

void scale_make_foldable(model_writer *m, size_t size)
{
    const int64_t dims[] = {1000};
    constant(m, "t0", DTYPE_FLOAT, 1, dims, 1);
    for (size_t i = 0; i < size; i++)
        chain(m, "Sigmoid", NULL);
    output_of(m, "t", m->next);
}

void scale_make_shapes(model_writer *m, size_t size)
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

void scale_make_transposes(model_writer *m, size_t size)
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

void scale_make_products(model_writer *m, size_t size)
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

void scale_make_convolutions(model_writer *m, size_t size)
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
    concat_all(m, "c", size, 1);
}

void scale_make_affine(model_writer *m, size_t size)
{
    const int64_t x[] = {1, 4, 8, 8}, c[] = {1, 4, 1, 1};
    input(m, "t0", DTYPE_FLOAT, 4, x);
    constant(m, "c", DTYPE_FLOAT, 4, c, 2);
    for (size_t i = 0; i < size; i++)
        chain(m, i % 2 == 0 ? "Add" : "Mul", "c");
    output_of(m, "t", m->next);
}

void scale_make_sequence(model_writer *m, size_t size)
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

void scale_make_names(model_writer *m, size_t size)
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
