/* The import: names, order, types, functions, and models that are wrong. */
#include "compiler/import_onnx/import_onnx.h"
#include "compiler/driver/pass_table.h"
#include "compiler/emit/emit.h"
#include "compiler/ir/builder.h"
#include "proto/wire.h"
#include "tests/compiler/import_onnx/onnx_text.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(order_of_nodes)
{
    onnx_expect("opset 13\ninput x f32[1]\noutput y\ny = Neg(b)\nb = Abs(a)\na = Exp(x)\n", "x f32[1] 0\n",
                "y f32[1] -1\n");
    /* A body reads a value that is defined after the node. */
    onnx_expect("opset 13\ninput c bool[]\ninput x f32[1]\noutput y\ngraph yes {\noutput r\nr = Neg(a)\n}\n"
                "graph no {\noutput a\na = Exp(x)\n}\ny = If(c) then_branch=@yes else_branch=@no\na = Abs(x)\n",
                "c bool[] 1\nx f32[1] -3\n", "y f32[1] -3\n");
}
END_TEST

START_TEST(names_that_do_not_fit)
{
    onnx_refuse("opset 13\ninput x f32[1]\noutput y\na = Neg(c)\nb = Abs(a)\nc = Exp(b)\ny = Add(x, c)\n",
                XCVM_INVALID_MODEL, "'a' 'c' 'b'");
    onnx_refuse("opset 13\ninput x f32[1]\noutput y\ny = Neg(y)\n", XCVM_INVALID_MODEL, "cycle");
    onnx_refuse("opset 13\ninput x f32[1]\noutput y\ny = Add(x, w)\n", XCVM_INVALID_MODEL,
                "node 'y' (Add) reads 'w', which no node, input or initializer defines");
    onnx_refuse("opset 13\ninput x f32[1]\noutput y\ny = Neg(x)\ny = Abs(x)\n", XCVM_INVALID_MODEL,
                "nodes 'y' and 'y' both define a value named 'y'");
    onnx_refuse("opset 13\ninput x f32[1]\noutput x\nx = Neg(x)\n", XCVM_INVALID_MODEL,
                "which is also an input or initializer");
    onnx_refuse("opset 13\ninput x f32[1]\ninput x f32[1]\noutput y\ny = Neg(x)\n", XCVM_INVALID_MODEL, "input 'x'");
    onnx_refuse("opset 13\ninput x f32[1]\noutput y\noutput y\ny = Neg(x)\n", XCVM_INVALID_MODEL, "two outputs");
    onnx_refuse("opset 13\ninput x f32[1]\noutput z\ny = Neg(x)\n", XCVM_INVALID_MODEL,
                "no node defines the output 'z'");
    onnx_refuse("opset 13\ninput x f32[1]\ny = Neg(x)\n", XCVM_INVALID_MODEL, "no outputs");
}
END_TEST

START_TEST(outputs_that_are_no_results)
{
    onnx_expect("opset 13\ninput x f32[1]\ninit k f32[1] 5\noutput x\noutput k\noutput a\noutput b\na = Neg(x)\nb = "
                "Identity(a)\n",
                "x f32[1] 2\n", "x f32[1] 2\nk f32[1] 5\na f32[1] -2\nb f32[1] -2\n");
}
END_TEST

START_TEST(initializers_are_constants)
{
    onnx_expect("opset 13\ninput x f32[1]\ninput w f32[1]\ninit w f32[1] 5\noutput y\ny = Add(x, w)\n", "x f32[1] 2\n",
                "y f32[1] 7\n");
}
END_TEST

START_TEST(types_of_inputs)
{
    /* Some exporters write -1, or another negative number, for an open dimension. */
    onnx_expect("opset 13\ninput x f32[-1x2]\noutput y\ny = Neg(x)\n", "x f32[1x2] 1 2\n", "y f32[1x2] -1 -2\n");
    onnx_expect("opset 13\ninput x f32[-2x-1]\noutput y\ny = Neg(x)\n", "x f32[2x1] 1 2\n", "y f32[2x1] -1 -2\n");
    onnx_refuse("opset 13\ninput x f32[9223372036854775807]\noutput y\ny = Neg(x)\n", XCVM_INVALID_MODEL,
                "more than any tensor has");
    onnx_refuse("opset 13\ninput x f32[1000000000x1000000000x1000000000]\noutput y\ny = Neg(x)\n", XCVM_INVALID_MODEL,
                "more than memory can hold");
    onnx_refuse("opset 13\ninput x f32[1x1x1x1x1x1x1x1x1]\noutput y\ny = Neg(x)\n", XCVM_UNSUPPORTED, "9 dimensions");
    onnx_refuse("opset 13\ninput x\noutput y\ny = Neg(x)\n", XCVM_INVALID_MODEL, "input 'x': it has no type");
    onnx_expect("opset 13\ninput x f32[0x2]\noutput y\ny = Neg(x)\n", "x f32[0x2]\n", "y f32[0x2]\n");
    onnx_expect("opset 13\ninput x f32\noutput y\ny = Neg(x)\n", "x f32[1x2] 1 2\n", "y f32[1x2] -1 -2\n");
}
END_TEST

START_TEST(named_dimensions)
{
    test_bytes model = onnx_from_text("opset 13\ninput a f32[NxM]\ninput b f32[N]\noutput y\ny = Neg(a)\nz = Neg(b)\n");
    const xcc_dim dim = {"M", 4};
    const xcc_options options = {.size = sizeof options, .dims = &dim, .dim_count = 1};
    xcvm_error error;
    xcc_module m;
    ck_assert_int_eq(xcc_module_init(&m, &options, &error), XCVM_OK);
    ck_assert_int_eq(xcc_import(&m, model.at, model.length, NULL, (xcvm_sink){0}), XCVM_OK);
    const xcvm_value *a = &m.graph->inputs[0]->type, *b = &m.graph->inputs[1]->type, *y = &m.graph->outputs[0]->type;
    ck_assert_int_lt(a->dims[0], XCVM_ANY_DIM);
    ck_assert_int_eq(a->dims[0], b->dims[0]);
    ck_assert_str_eq(xcc_symbol_name(&m, a->dims[0]), "N");
    ck_assert_int_eq(a->dims[1], 4);
    ck_assert_int_eq(y->dims[0], a->dims[0]);
    xcc_module_release(&m);
    test_bytes_free(&model);
}
END_TEST

static xcc_value_kind kind_of(const xcc_module *m, const char *name)
{
    for (const xcc_node *n = m->graph->first; n != NULL; n = n->next)
        for (size_t i = 0; i < xcc_node_input_count(n); i++)
            if (xcc_node_input(n, i) != NULL && strcmp(xcc_node_input(n, i)->name, name) == 0)
                return xcc_node_input(n, i)->kind;
    ck_abort_msg("no node reads %s", name);
}

/* w, b and the branch's v are trainable; shapes, indices, empty tensors and Constant nodes are not. */
static const char learning[] =
    "opset 13\ninput x f32[2x2]\ninput c bool[]\noutput y\noutput z\noutput u\n"
    "init w f32[2x2] 1 2 3 4\ninit b f32[2] 1 2\ninit shape i64[2] 1 4\ninit empty f32[0]\ninit scales f32[2] 2 2\n"
    "graph yes {\noutput p\ninit v f32[2] 5 6\np = Add(x, v)\n}\ngraph no {\noutput q\nq = Identity(x)\n}\n"
    "k = Constant() value_floats=[1.0 2.0]\n"
    "h = MatMul(x, w)\nh2 = Add(h, b)\nh3 = Mul(h2, k)\ny = Reshape(h3, shape)\nz = Resize(x, empty, scales)\n"
    "u = If(c) then_branch=@yes else_branch=@no\n";

START_TEST(parameters)
{
    test_bytes model = onnx_from_text(learning);
    for (int frozen = 0; frozen < 2; frozen++) {
        const xcc_value_kind learned = frozen ? XCC_CONSTANT : XCC_PARAMETER;
        xcvm_error error;
        xcc_module m;
        ck_assert_int_eq(xcc_module_init(&m, NULL, &error), XCVM_OK);
        if (frozen)
            xcc_parameters_freeze(&m);
        ck_assert_msg(xcc_import(&m, model.at, model.length, NULL, (xcvm_sink){0}) == XCVM_OK, "%s", error.message);
        ck_assert_int_eq(xcc_graph_verify(m.graph), XCVM_OK);
        ck_assert_int_eq(kind_of(&m, "w"), learned);
        ck_assert_int_eq(kind_of(&m, "b"), learned);
        ck_assert_int_eq(kind_of(&m, "shape"), XCC_CONSTANT);
        ck_assert_int_eq(kind_of(&m, "scales"), XCC_CONSTANT);
        ck_assert_int_eq(kind_of(&m, "x"), XCC_INPUT);
        ck_assert_int_eq(kind_of(&m, "h"), XCC_RESULT);
        const xcc_graph *branch = m.graph->last->bodies[0];
        ck_assert_int_eq(xcc_node_input(branch->first, 1)->kind, learned);
        for (const xcc_node *n = m.graph->first; n != NULL; n = n->next) {
            if (xcc_is(n, XCVM_OP_Mul))
                ck_assert_int_eq(xcc_node_input(n, 1)->kind, XCC_CONSTANT);
            if (xcc_is(n, XCVM_OP_Resize)) {
                /* Left out, and of known size: the scales are fixed. */
                ck_assert_ptr_null(XCC_ARGS(Resize, n)->roi);
                ck_assert_int_eq(XCC_ARGS(Resize, n)->y->dims[0], 4);
            }
        }
        ck_assert_int_eq(xcc_passes_run(&m), XCVM_OK);
        /* Values that depend on a parameter are not folded. */
        size_t learned_count = 0;
        for (const xcc_value *v = m.variables; v != NULL; v = v->next_owned)
            learned_count += xcc_is_variable(v) && v->uses > 0;
        ck_assert_uint_eq(learned_count, frozen ? 0 : 3);
        xcc_module_release(&m);
    }
    test_bytes_free(&model);
}
END_TEST

START_TEST(opsets)
{
    onnx_refuse("input x f32[1]\noutput y\ny = Neg(x)\nir 8\n", XCVM_INVALID_MODEL, "does not say which opset");
    onnx_expect("ir 2\ninput x f32[1]\noutput y\ny = Neg(x) consumed_inputs=[0]\n", "x f32[1] 1\n", "y f32[1] -1\n");
    onnx_refuse("opset 99\ninput x f32[1]\noutput y\ny = Neg(x)\n", XCVM_UNSUPPORTED, "opset 99");
    onnx_refuse("opset 10\ninput x f32[1]\noutput y\ny = Celu(x)\n", XCVM_UNSUPPORTED, "it came with 12");
}
END_TEST

static bool count_line(void *user, const void *bytes, size_t count)
{
    size_t *lines = user;
    ck_assert_int_eq(((const char *)bytes)[count - 1], '\n');
    ++*lines;
    return true;
}

START_TEST(all_unknown_operators_at_once)
{
    const char *text = "opset 13\nopset com.example 1\ninput x f32[1]\ninput c bool[]\noutput y\n"
                       "graph yes {\noutput p\np = Hidden(x)\n}\ngraph no {\noutput p\np = Neg(x)\n}\n"
                       "a = Unheard(x)\nb = com.example::Foo(a)\nd = If(c) then_branch=@yes else_branch=@no\n"
                       "e = Concat(x, x)\ny = Sum(a, b, d, e)\n";
    onnx_refuse(text, XCVM_INVALID_MODEL, "node 'a' (Unheard, opset 13): there is no such operator");
    onnx_refuse(text, XCVM_INVALID_MODEL,
                "node 'b' (com.example.Foo, opset 1): there is no such operator in com.example");
    onnx_refuse(text, XCVM_INVALID_MODEL, "node 'p' (Hidden");
    onnx_refuse(text, XCVM_INVALID_MODEL, "node 'e' (Concat, opset 13): attribute 'axis' is missing");
    test_bytes model = onnx_from_text(text);
    xcvm_error error;
    xcc_module m;
    size_t lines = 0;
    ck_assert_int_eq(xcc_module_init(&m, NULL, &error), XCVM_OK);
    ck_assert_int_eq(xcc_import(&m, model.at, model.length, NULL, (xcvm_sink){count_line, &lines}), XCVM_INVALID_MODEL);
    ck_assert_uint_eq(lines, 4);
    ck_assert_str_eq(error.node, "a");
    xcc_module_release(&m);
    test_bytes_free(&model);
}
END_TEST

START_TEST(many_problems_fit_the_message)
{
    test_bytes text = {0};
    const char *head = "opset 13\ninput x f32[1]\noutput y0\n";
    test_bytes_sink(&text, head, strlen(head));
    for (int i = 0; i < 40; i++) {
        char line[64];
        snprintf(line, sizeof line, "y%d = Unheard%d(x)\n", i, i);
        test_bytes_sink(&text, line, strlen(line));
    }
    test_bytes_sink(&text, "", 1);
    onnx_refuse(text.at, XCVM_UNSUPPORTED, "more nodes");
    test_bytes_free(&text);
}
END_TEST

START_TEST(attributes_that_do_not_fit)
{
    onnx_refuse("opset 13\ninput x f32[1]\noutput y\ny = Softmax(x) axis=1.5\n", XCVM_INVALID_MODEL,
                "attribute 'axis' is of type FLOAT, INT is needed");
    onnx_refuse("opset 13\ninput x f32[1]\noutput y\ny = Neg(x) surprise=1\n", XCVM_UNSUPPORTED,
                "attribute 'surprise'");
    onnx_refuse("opset 13\ninput x f32[1]\noutput y\ny = Softmax(x) axis=0 axis=0\n", XCVM_INVALID_MODEL,
                "more than once");
    onnx_refuse("opset 13\ninput x f32[1]\noutput y\ny = Softmax(x) axis=$other\n", XCVM_INVALID_MODEL,
                "refers to an attribute of a function");
    onnx_refuse("opset 13\ninput x f32[1]\noutput y\ny = Neg()\n", XCVM_INVALID_MODEL, "operand 0 (x) is missing");
    onnx_refuse("opset 13\ninput x f32[1]\noutput y\ny = Neg(x, x)\n", XCVM_INVALID_MODEL,
                "2 operands; Neg has at most 1");
    onnx_refuse("opset 13\ninput x f32[1]\noutput y\ny, z = Neg(x)\n", XCVM_INVALID_MODEL,
                "2 results; Neg has at most 1");
    onnx_refuse("opset 13\ninput x f32[2]\ninput z i32[2]\noutput y\ny = Add(x, z)\n", XCVM_TYPE_MISMATCH,
                "node 'y' (Add");
}
END_TEST

START_TEST(functions)
{
    const char *twice =
        "function my::Scale(a) -> (b) factor {\nopset 13\nf = Constant() value_float=$factor\nb = Mul(a, f)\n}\n"
        "function my::Twice(a, c) -> (b, d) {\nopset 13\nopset my 1\nt = my::Scale(a) factor=2.0\n"
        "b = my::Scale(t) factor=3.0\nd = Neg(a)\n}\n";
    char text[1024];
    snprintf(text, sizeof text,
             "opset 13\nopset my 1\ninput x f32[1]\noutput b\noutput z\n%sb, d = my::Twice(x)\n"
             "z = Neg(d)\n",
             twice);
    onnx_expect(text, "x f32[1] 2\n", "b f32[1] 12\nz f32[1] 2\n");
    onnx_refuse(
        "opset 13\nopset my 1\ninput x f32[1]\noutput y\nfunction my::F(a) -> (b) {\nopset my 1\nb = my::F(a)\n}\n"
        "y = my::F(x)\n",
        XCVM_INVALID_MODEL, "or recursive");
    onnx_refuse(
        "opset 13\nopset my 1\ninput x f32[1]\noutput y\nfunction my::F(a) -> (b) {\nopset 13\nb = Unheard(a)\n}\n"
        "y = my::F(x)\n",
        XCVM_UNSUPPORTED, "node 'b' (Unheard");
    onnx_refuse("opset 13\nopset my 1\ninput x f32[1]\noutput y\nfunction my::F(a) -> (b) {\nopset 13\nb = Neg(a)\n}\n"
                "y = my::F(x, x)\n",
                XCVM_INVALID_MODEL, "the function has 1 operands");
    /* Each function calls the one before twice. */
    test_bytes growing = {0};
    const char *head = "opset 13\nopset my 1\ninput x f32[1]\noutput y\n"
                       "function my::F0(a) -> (b) {\nopset 13\nb = Neg(a)\n}\n";
    test_bytes_sink(&growing, head, strlen(head));
    for (int i = 1; i < 30; i++) {
        char line[160];
        snprintf(line, sizeof line, "function my::F%d(a) -> (b) {\nopset my 1\nt = my::F%d(a)\nb = my::F%d(t)\n}\n", i,
                 i - 1, i - 1);
        test_bytes_sink(&growing, line, strlen(line));
    }
    const char *tail = "y = my::F29(x)\n";
    test_bytes_sink(&growing, tail, strlen(tail) + 1);
    onnx_refuse(growing.at, XCVM_UNSUPPORTED, "nodes");
    test_bytes_free(&growing);
}
END_TEST

/* ---- Broken bytes ---- */

static xcvm_status import_bytes(const void *bytes, size_t count, const xcvm_allocator *allocator, xcvm_error *error)
{
    const xcc_options options = {.size = sizeof options, .allocator = allocator};
    xcc_module m;
    *error = (xcvm_error){.pc = -1};
    xcvm_status status = xcc_module_init(&m, &options, error);
    if (status == XCVM_OK)
        status = xcc_import(&m, bytes, count, NULL, (xcvm_sink){0});
    if (status == XCVM_OK)
        status = xcc_graph_verify(m.graph);
    xcc_module_release(&m);
    return status;
}

static const char *const small =
    "ir 8\nopset 11\ninput m i64[]\ninput x f32[1x2]\ninit w f32[2] 1 2\noutput s\noutput y\n"
    "graph body {\ninput i i64[]\ninput c bool[]\ninput v\noutput c\noutput v2\n"
    "t = Softmax(v) axis=1\nv2 = Unsqueeze(t) axes=[0]\n}\n"
    "s = Loop(m, _, x) body=@body\ny = Add(x, w)\n";

START_TEST(every_prefix)
{
    test_bytes model = onnx_from_text(small);
    xcvm_error error;
    for (size_t n = 0; n < model.length; n++) {
        /* A copy of its own, so that reads past the end are detected. */
        char *bytes = malloc(n > 0 ? n : 1);
        memcpy(bytes, model.at, n);
        if (import_bytes(bytes, n, NULL, &error) != XCVM_OK)
            ck_assert_uint_gt(strlen(error.message), 0);
        free(bytes);
    }
    test_bytes_free(&model);
}
END_TEST

START_TEST(every_byte_changed)
{
    test_bytes model = onnx_from_text(small);
    xcvm_error error;
    const int flips[] = {0x01, 0x80, 0xff};
    for (size_t i = 0; i < model.length; i++)
        for (size_t k = 0; k < sizeof flips / sizeof *flips; k++) {
            model.at[i] = (char)(model.at[i] ^ flips[k]);
            if (import_bytes(model.at, model.length, NULL, &error) != XCVM_OK)
                ck_assert_uint_gt(strlen(error.message), 0);
            model.at[i] = (char)(model.at[i] ^ flips[k]);
        }
    test_bytes_free(&model);
}
END_TEST

START_TEST(no_model_at_all)
{
    xcvm_error error;
    ck_assert_int_eq(import_bytes("", 0, NULL, &error), XCVM_INVALID_MODEL);
    ck_assert_str_eq(error.message, "this is empty; write or download the file again");
    ck_assert_int_eq(import_bytes("<html>", 6, NULL, &error), XCVM_INVALID_MODEL);
    ck_assert_ptr_nonnull(strstr(error.message, "this is an HTML page"));
    ck_assert_int_eq(import_bytes("\x08\x08", 2, NULL, &error), XCVM_INVALID_MODEL);
    ck_assert_ptr_nonnull(strstr(error.message, "no graph"));
}
END_TEST

/* Encodes a message as a field of another one. */
static void wrap(test_bytes *message, unsigned field)
{
    test_bytes outer = {0};
    uint8_t key[2 * XCVM_VARINT_SIZE];
    size_t n = xcvm_varint_put(key, field << 3 | XCVM_WIRE_BYTES);
    n += xcvm_varint_put(key + n, message->length);
    test_bytes_sink(&outer, key, n);
    test_bytes_sink(&outer, message->at, message->length);
    test_bytes_free(message);
    *message = outer;
}

START_TEST(deeply_nested_bodies)
{
    test_bytes text = {0};
    const char *head = "opset 13\ninput c bool[]\ninput x f32[1]\noutput y\ngraph g0 {\noutput r\nr = Neg(x)\n}\n";
    test_bytes_sink(&text, head, strlen(head));
    char line[160];
    int last = 14;
    for (int i = 1; i <= last; i++) {
        snprintf(line, sizeof line, "graph g%d {\noutput r\nr = If(c) then_branch=@g%d else_branch=@g0\n}\n", i, i - 1);
        test_bytes_sink(&text, line, strlen(line));
    }
    snprintf(line, sizeof line, "y = If(c) then_branch=@g%d else_branch=@g0\n", last);
    test_bytes_sink(&text, line, strlen(line) + 1);
    onnx_expect(text.at, "c bool[] 1\nx f32[1] 3\n", "y f32[1] -3\n");
    test_bytes_free(&text);
}
END_TEST

START_TEST(nesting_has_a_limit)
{
    xcvm_error error;
    test_bytes model = {0};
    test_bytes_sink(&model, "", 0);
    for (int i = 0; i < 40; i++) {
        wrap(&model, 6); /* AttributeProto.g */
        wrap(&model, 5); /* NodeProto.attribute */
        wrap(&model, 1); /* GraphProto.node */
    }
    wrap(&model, 7); /* ModelProto.graph */
    ck_assert_int_eq(import_bytes(model.at, model.length, NULL, &error), XCVM_INVALID_MODEL);
    ck_assert_msg(strstr(error.message, "nested deeper") != NULL, "%s", error.message);
    test_bytes_free(&model);
    test_bytes_sink(&model, "", 0);
    for (int i = 0; i < 5000; i++) {
        wrap(&model, 1); /* TypeProto.Sequence.elem_type */
        wrap(&model, 4); /* TypeProto.sequence_type */
    }
    wrap(&model, 2);  /* ValueInfoProto.type */
    wrap(&model, 11); /* GraphProto.input */
    wrap(&model, 7);
    ck_assert_int_eq(import_bytes(model.at, model.length, NULL, &error), XCVM_INVALID_MODEL);
    ck_assert_msg(strstr(error.message, "nested deeper") != NULL, "%s", error.message);
    test_bytes_free(&model);
}
END_TEST

START_TEST(a_graph_given_twice)
{
    xcvm_error error;
    const char bytes[] = {7 << 3 | 2, 0, 7 << 3 | 2, 0};
    ck_assert_int_eq(import_bytes(bytes, sizeof bytes, NULL, &error), XCVM_INVALID_MODEL);
    ck_assert_ptr_nonnull(strstr(error.message, "more than once"));
}
END_TEST

START_TEST(allocations_that_fail)
{
    test_bytes model = onnx_from_text(small);
    xcvm_error error;
    test_allocator a;
    for (size_t fail_at = 1;; fail_at++) {
        test_allocator_start(&a, fail_at);
        xcvm_status status = import_bytes(model.at, model.length, &a.allocator, &error);
        ck_assert_uint_eq(a.live, 0);
        if (status == XCVM_OK && a.requests < fail_at)
            break;
        ck_assert_msg(status == XCVM_OUT_OF_MEMORY || status == XCVM_OK, "%s", error.message);
    }
    test_bytes_free(&model);
}
END_TEST

Suite *suite_compiler_import(void);
Suite *suite_compiler_import(void)
{
    Suite *suite = suite_create("compiler/import");
    TCase *names = tcase_create("names and types");
    tcase_add_test(names, order_of_nodes);
    tcase_add_test(names, names_that_do_not_fit);
    tcase_add_test(names, outputs_that_are_no_results);
    tcase_add_test(names, initializers_are_constants);
    tcase_add_test(names, types_of_inputs);
    tcase_add_test(names, named_dimensions);
    tcase_add_test(names, parameters);
    tcase_add_test(names, opsets);
    suite_add_tcase(suite, names);
    TCase *nodes = tcase_create("nodes");
    tcase_set_timeout(nodes, 60);
    tcase_add_test(nodes, all_unknown_operators_at_once);
    tcase_add_test(nodes, many_problems_fit_the_message);
    tcase_add_test(nodes, attributes_that_do_not_fit);
    tcase_add_test(nodes, functions);
    suite_add_tcase(suite, nodes);
    TCase *broken = tcase_create("broken bytes");
    tcase_set_timeout(broken, 120);
    tcase_add_test(broken, every_prefix);
    tcase_add_test(broken, every_byte_changed);
    tcase_add_test(broken, no_model_at_all);
    tcase_add_test(broken, deeply_nested_bodies);
    tcase_add_test(broken, nesting_has_a_limit);
    tcase_add_test(broken, a_graph_given_twice);
    tcase_add_test(broken, allocations_that_fail);
    suite_add_tcase(suite, broken);
    return suite;
}
