/* Tests of layer trees: paths, copies, files, programs. */
#include "tests/tape/learning.h"

typedef struct listing {
    char text[400];
} listing;

static xcvm_status list(void *user, const char *path, xcvm_var v, bool learned)
{
    listing *l = user;
    (void)v;
    strcat(strcat(l->text, path), learned ? " " : "! ");
    return XCVM_OK;
}

static xcvm_layer *make_net(xcvm_tape *t)
{
    xcvm_layer *root = xcvm_layer_create_chain(t),
               *body = xcvm_layer_add(root, "predictor", xcvm_layer_create_chain(t));
    xcvm_layer_add(body, "l1", xcvm_layer_create_linear(t, 3, 2, NULL));
    xcvm_layer_add(body, "bn", xcvm_layer_create_batch_normalization(t, 2, NULL));
    return root;
}

START_TEST(c4_2_trees)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    listing all = {""};
    xcvm_layer *net = make_net(t), *l1 = xcvm_layer_get_child(net, "predictor/l1");
    xcvm_layer_add(net, "tied", xcvm_layer_retain(l1));
    const xcvm_var extra = xcvm_layer_add_parameter(net, "scale", parameter(t, 2));
    ck_assert_int_eq(xcvm_layer_visit(net, (xcvm_layer_visitor){list, &all}), XCVM_OK);
    ck_assert_str_eq(all.text, "scale predictor/l1/W predictor/l1/b predictor/bn/gamma predictor/bn/beta "
                               "predictor/bn/avg_mean! predictor/bn/avg_var! predictor/bn/N! tied/W tied/b ");
    ck_assert_uint_eq(xcvm_layer_element_count(net), 1 + 8 + 4);
    ck_assert_ptr_null(xcvm_layer_get_child(net, "predictor/l2"));
    ck_assert_ptr_null(xcvm_layer_get_child(net, "nothing/l1"));
    ck_assert_ptr_null(xcvm_layer_get_parameter(net, "predictor/l1/V").at);
    /* Frozen: no gradient. */
    must(xcvm_layer_set_frozen(l1, true, &error), &error);
    ck_assert(!xcvm_var_requires_gradient(t, xcvm_layer_get_parameter(net, "tied/W")));
    ck_assert(xcvm_var_requires_gradient(t, extra));
    must(xcvm_layer_set_frozen(net, false, &error), &error);
    ck_assert(xcvm_var_requires_gradient(t, xcvm_layer_get_parameter(net, "tied/W")));
    ck_assert(!xcvm_var_requires_gradient(t, xcvm_layer_get_parameter(net, "predictor/bn/avg_var")));
    /* Copies are independent, and shared tensors outlive their creator. */
    xcvm_layer *copy = xcvm_layer_copy(net, false), *shared = xcvm_layer_copy(net, true);
    const xcvm_var w = xcvm_layer_get_parameter(net, "predictor/l1/W"),
                   w_copy = xcvm_layer_get_parameter(copy, "predictor/l1/W");
    ck_assert(w.at != w_copy.at && w.at == xcvm_layer_get_parameter(shared, "predictor/l1/W").at);
    ck_assert_mem_eq(value_of(t, w)->data, value_of(t, w_copy)->data, 24);
    set_wave(t, w, 9);
    ck_assert_mem_ne(value_of(t, w)->data, value_of(t, w_copy)->data, 24);
    xcvm_layer_destroy(net);
    xcvm_layer_destroy(copy);
    ck_assert_ptr_nonnull(value_of(t, w)->data);
    close_with(t, shared);
}
END_TEST

START_TEST(trees_refused)
{
    xcvm_tape *t = open_tape(), *other = open_tape();
    xcvm_layer *net = make_net(t);
    char long_name[202];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const char *const bad[] = {"", "a/b", "predictor", NULL, long_name};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        ck_assert_ptr_null(xcvm_layer_add(net, bad[i], xcvm_layer_create_chain(t)));
        check_failed(t, XCVM_INVALID_ARGUMENT, i == 2 ? "already" : "no name");
    }
    xcvm_layer *body = xcvm_layer_get_child(net, "predictor");
    ck_assert_ptr_null(xcvm_layer_add(body, "loop", xcvm_layer_retain(net)));
    check_failed(t, XCVM_INVALID_ARGUMENT, "never in themselves");
    xcvm_layer *deep = net;
    for (int i = 0; deep != NULL && i < 100; i++)
        deep = xcvm_layer_add(deep, "down", xcvm_layer_create_chain(t));
    ck_assert_ptr_null(deep);
    check_failed(t, XCVM_INVALID_ARGUMENT, "64 deep");
    ck_assert_ptr_null(xcvm_layer_add(net, "foreign", xcvm_layer_create_chain(other)));
    check_failed(t, XCVM_INVALID_ARGUMENT, "another tape");
    xcvm_layer_add_parameter(net, "c", constant(t, 1));
    check_failed(t, XCVM_INVALID_ARGUMENT, "no parameter");
    ck_assert_ptr_null(xcvm_layer_create_linear(t, 0, 2, NULL));
    check_failed(t, XCVM_INVALID_ARGUMENT, "in of a layer is 0");
    ck_assert_ptr_null(xcvm_layer_create_mlp(t, 1, DIMS(2), NULL));
    check_failed(t, XCVM_INVALID_ARGUMENT, "2 sizes");
    ck_assert_ptr_null(xcvm_layer_create_dropout(t, 1));
    check_failed(t, XCVM_INVALID_ARGUMENT, "ratio");
    ck_assert_ptr_null(xcvm_layer_create_convolution(
        t, 4, 6, XCVM_INTS(3, 3), &(xcvm_layer_options){.size = sizeof(xcvm_layer_options), .groups = 4}));
    check_failed(t, XCVM_INVALID_ARGUMENT, "4 groups");
    ck_assert_ptr_null(xcvm_layer_create_convolution(
        t, 4, 6, XCVM_INTS(3, 3), &(xcvm_layer_options){.size = sizeof(xcvm_layer_options), .pads = XCVM_INTS(-1)}));
    check_failed(t, XCVM_OUT_OF_RANGE, "pads");
    ck_assert_ptr_null(xcvm_layer_create_embedding(t, 2, INT64_MAX, NULL));
    check_failed(t, XCVM_OUT_OF_RANGE, "too large");
    /* A failed result makes later calls fail. */
    ck_assert_ptr_null(xcvm_layer_call(NULL, constant(t, 1)).at);
    xcvm_layer_call(net, xcvm_layer_call(NULL, constant(t, 1)));
    check_failed(t, XCVM_INVALID_ARGUMENT, "failed");
    close_with(t, net);
    close_tape(other);
}
END_TEST

START_TEST(c2_5_files)
{
    for (int format = XCVM_SAFETENSORS; format <= XCVM_NPZ; format++) {
        xcvm_tape *t = open_tape();
        xcvm_error error = {0};
        test_bytes file = {0};
        xcvm_layer *net = make_net(t), *copy = xcvm_layer_copy(net, false);
        xcvm_layer_call(xcvm_layer_get_child(net, "predictor"), wave_constant(t, 3, 2, DIMS(4, 3)));
        must(xcvm_layer_save(net, (xcvm_tensor_format)format, (xcvm_sink){test_bytes_sink, &file}, &error), &error);
        xcvm_layer_set_training(net, false);
        xcvm_layer_set_training(copy, false);
        set_wave(t, xcvm_layer_get_parameter(copy, "predictor/l1/W"), 2);
        must(xcvm_layer_load(copy, file.at, file.length, &error), &error);
        const xcvm_var x = wave_constant(t, 4, 2, DIMS(2, 3));
        ck_assert_mem_eq(value_of(t, xcvm_layer_call(net, x))->data, value_of(t, xcvm_layer_call(copy, x))->data, 16);
        /* All misfits are reported at once, and nothing has changed. */
        xcvm_layer *other = xcvm_layer_create_chain(t),
                   *body = xcvm_layer_add(other, "predictor", xcvm_layer_create_chain(t));
        xcvm_layer_add(body, "l1", xcvm_layer_create_linear(t, 3, 4, NULL));
        xcvm_layer_add(body, "l2", xcvm_layer_create_linear(t, 1, 1, NULL));
        const float before = ((const float *)value_of(t, xcvm_layer_get_parameter(body, "l1/W"))->data)[0];
        check_status(xcvm_layer_load(other, file.at, file.length, &error), XCVM_SHAPE_MISMATCH, &error,
                     "\"predictor/l1/W\" is f32[2x3], f32[4x3] is needed");
        ck_assert_ptr_nonnull(strstr(error.message, "\"predictor/bn/N\" is not looked for"));
        ck_assert_ptr_nonnull(strstr(error.message, "\"predictor/l2/W\" is missing"));
        ck_assert_float_eq(((const float *)value_of(t, xcvm_layer_get_parameter(body, "l1/W"))->data)[0], before);
        for (size_t cut = 0; cut < file.length; cut += 53)
            ck_assert_int_ne(xcvm_layer_load(copy, file.at, cut, &error), XCVM_OK);
        for (size_t i = 0; i < file.length; i += 7) { /* any broken byte: an error, or other elements */
            file.at[i] = (char)(file.at[i] ^ 0x55);
            (void)!xcvm_layer_load(copy, file.at, file.length, &error);
            file.at[i] = (char)(file.at[i] ^ 0x55);
        }
        test_bytes_free(&file);
        xcvm_layer_destroy(other);
        xcvm_layer_destroy(copy);
        close_with(t, net);
    }
}
END_TEST

/* Archives written by NumPy. */
START_TEST(c2_5_archives)
{
    static const struct {
        const unsigned char *bytes;
        size_t count;
    } archives[] = {{deflated, sizeof deflated}, {stored, sizeof stored}};
    for (size_t i = 0; i < COUNT_OF(archives); i++) {
        xcvm_tape *t = open_tape();
        xcvm_error error = {0};
        float expected[WAVE_ROOM];
        xcvm_layer *net = xcvm_layer_create_chain(t),
                   *body = xcvm_layer_add(net, "predictor", xcvm_layer_create_chain(t));
        xcvm_layer_add(body, "l1", xcvm_layer_create_linear(t, 3, 2, NULL));
        must(xcvm_layer_load(net, archives[i].bytes, archives[i].count, &error), &error);
        check_f32(t, xcvm_layer_get_parameter(net, "predictor/l1/W"), 6, wave(6, expected));
        check_f32(t, xcvm_layer_get_parameter(net, "predictor/l1/b"), 2, wave(7, expected));
        close_with(t, net);
    }
}
END_TEST

/* Layers on a building tape: a program of the network. */
START_TEST(layers_in_a_program)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = 1, .seed = 7, .mode = XCVM_TAPE_BUILDING};
    xcvm_tape *t;
    xcvm_error error = {0};
    test_bytes file = {0};
    must(xcvm_tape_create(&options, &t, &error), &error);
    xcvm_layer *net = xcvm_layer_create_mlp(t, 3, DIMS(6, 5, 4), NULL);
    ck_assert_uint_eq(xcvm_layer_element_count(net), 35 + 24);
    const xcvm_var x = xcvm_tape_input(t, "x", XCVM_F32, 3, DIMS(2, 3, 2), NULL);
    const xcvm_tape_output output = {"y", xcvm_layer_call(net, x)};
    ck_assert_int_eq(xcvm_layer_save(net, XCVM_NPZ, (xcvm_sink){test_bytes_sink, &file}, &error), XCVM_UNSUPPORTED);
    must(xcvm_tape_compile(t, 1, &output, NULL, (xcvm_sink){test_bytes_sink, &file}, NULL, &error), &error);
    ck_assert_uint_gt(file.length, 59 * sizeof(float));
    test_bytes_free(&file);
    xcvm_layer_destroy(net);
    xcvm_tape_destroy(t);
}
END_TEST

/* ---- Memory ---- */

static xcvm_status everything(xcvm_tape *t, xcvm_error *error)
{
    test_bytes file = {0};
    xcvm_layer *net = make_net(t), *copy = NULL;
    xcvm_layer_add(net, "lstm", xcvm_layer_create_lstm(t, 2, 2, NULL));
    const xcvm_var y = xcvm_layer_call(net, xcvm_tape_constant(t, XCVM_F32, 2, DIMS(2, 3), NULL));
    xcvm_status status = xcvm_tape_backward(t, xcvm_ReduceSum(t, y, .keepdims = 0), NULL, error);
    copy = status == XCVM_OK ? xcvm_layer_copy(net, false) : NULL;
    if (status == XCVM_OK)
        status = xcvm_tape_status(t, error);
    if (status == XCVM_OK)
        status = xcvm_layer_save(net, XCVM_NPZ, (xcvm_sink){test_bytes_sink, &file}, error);
    if (status == XCVM_OK)
        status = xcvm_layer_load(copy, file.at, file.length, error);
    test_bytes_free(&file);
    xcvm_layer_destroy(copy);
    xcvm_layer_destroy(net);
    xcvm_tape_reset(t);
    (void)xcvm_tape_status(t, NULL);
    return status;
}

START_TEST(out_of_memory_anywhere)
{
    /* A kernel that gets no scratch memory needs less. */
    starve(&(starvation){.work = everything, .may_succeed = true, .least = 100});
}
END_TEST

Suite *suite_tape_layer_trees(void);
Suite *suite_tape_layer_trees(void)
{
    return SUITE_OF("tape_layer_trees", c4_2_trees, trees_refused, c2_5_files, c2_5_archives, layers_in_a_program,
                    out_of_memory_anywhere);
}
