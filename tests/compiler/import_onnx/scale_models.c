/* Models for tests of scaling, and what only looks small: bombs. */
#include "tests/compiler/import_onnx/scale_kinds.h"

const scale_kind_info scale_kinds[SCALE_KIND_COUNT] = {
#define SCALE_KIND(name, what) {#name, what},
    SCALE_KINDS(SCALE_KIND)
#undef SCALE_KIND
};

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
#define SCALE_KIND(name, what) [SCALE_##name] = scale_make_##name,
        SCALE_KINDS(SCALE_KIND)
#undef SCALE_KIND
    };
    model_writer m = {.next = 0};
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
