/* Tests of schedules exported as C. */
#include "tests/tape/static_layers.h"
#include "xcvm/compiler.h"
#include "xcvm/export_c.h"

#include <unistd.h>

typedef struct network {
    xcvm_layer *all;
    xcvm_optimizer *o; /* NULL: it does not train */
} network;

/* With a state, running statistics, and possibly an optimizer step. */
static xcvm_status run_network(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    const network *n = user;
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    const xcvm_var y = xcvm_layer_call(n->all, in[0]);
    xcvm_layer_unchain(n->all);
    out[0] = xcvm_ReduceSum(t, xcvm_Mul(t, y, y), .keepdims = 0);
    if (n->o == NULL)
        return XCVM_OK;
    xcvm_optimizer_clear_gradients(n->o);
    XCVM_TRY(xcvm_tape_backward(t, out[0], NULL, &error));
    return xcvm_optimizer_step(n->o, &error);
}

static void write_file(const char *folder, const char *name, const void *bytes, size_t count)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, count, file), count);
    ck_assert_int_eq(fclose(file), 0);
}

/* The first output of the exported program for x. */
static float run_exported(const test_bytes *program, const xcvm_value *x, double rate)
{
    char folder[] = "/tmp/xcvm-static-XXXXXX", command[640];
    test_bytes source = {NULL, 0, 0}, header = {NULL, 0, 0};
    xcvm_error error = {0};
    const xcc_export_c_options options = {.size = sizeof options,
                                          .with_main = true,
                                          .source = {test_bytes_sink, &source},
                                          .header = {test_bytes_sink, &header}};
    must(xcc_export_c(program->at, program->length, &options, &error), &error);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    write_file(folder, "net.c", source.at, source.length);
    write_file(folder, "net.h", header.at, header.length);
    write_file(folder, "in0", xcvm_value_data(x), xcvm_value_count(x) * sizeof(float));
    const float number = (float)rate;
    write_file(folder, "rate", &number, sizeof number);
    snprintf(
        command, sizeof command,
        "cd %s && cc -std=c99 -Wall -Wextra -Wpedantic -Wconversion -Werror net.c -o net -lm && ./net in0 %s > out",
        folder, rate != 0.0 ? "rate" : "");
    ck_assert_int_eq(system(command), 0);
    char path[128];
    snprintf(path, sizeof path, "%s/out", folder);
    test_bytes out = test_file_read(path);
    float first = 0;
    ck_assert_uint_ge(out.length, sizeof first);
    memcpy(&first, out.at, sizeof first);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
    test_bytes_free(&out);
    test_bytes_free(&source);
    test_bytes_free(&header);
    return first;
}

/* A saved schedule becomes C99 without warnings, with its current states and the step of the optimizer. */
START_TEST(d5_schedules_as_c)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    network n = {.all = xcvm_layer_create_chain(t)};
    xcvm_layer_add(n.all, "first", xcvm_layer_create_lstm(t, 3, 4, &with_seed));
    xcvm_layer_add(n.all, "norm", xcvm_layer_create_batch_normalization(t, 4, NULL));
    xcvm_layer_add(n.all, "last", xcvm_layer_create_linear(t, 4, 2, &with_seed));
    if (_i == 1) {
        must(xcvm_optimizer_create(t, "adam:lr=0.05", NULL, &n.o, &error), &error);
        must(xcvm_optimizer_add_layer(n.o, n.all, &error), &error);
    }
    xcvm_static *s = make_static(t, (xcvm_static_function){run_network, &n}, NULL);
    /* Without a state its weight has no gradient: all train from the second call on. */
    xcvm_layer_call(n.all, rows_of(t, 1));
    xcvm_layer_unchain(n.all);
    for (int i = 0; i < 3; i++)
        call1(s, rows_of(t, (float)i / 4));
    ck_assert_uint_eq(figures(s).replayed, 2);
    test_bytes program = {NULL, 0, 0};
    const xcvm_static_save_options options = {.size = sizeof options, .continue_states = true};
    must(xcvm_static_save(s, &options, (xcvm_sink){test_bytes_sink, &program}, &error), &error);
    const xcvm_var x = rows_of(t, 0.5f);
    const double got = (double)run_exported(&program, value_of(t, x), n.o != NULL ? xcvm_optimizer_get_rate(n.o) : 0);
    ck_assert_double_eq_tol(got, xcvm_var_get_number(t, call1(s, x)), 1e-4);
    test_bytes_free(&program);
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(n.o);
    xcvm_layer_destroy(n.all);
    close_tape(t);
}
END_TEST

static void load_saved(const test_bytes *bytes, xcvm_program **program, xcvm_session **session)
{
    xcvm_error error = {0};
    must(xcvm_program_load(bytes->at, bytes->length, NULL, program, &error), &error);
    must(xcvm_session_create(*program, NULL, session, &error), &error);
}

static const float *elements_of(const xcvm_session *s, size_t state)
{
    return xcvm_value_data(xcvm_session_get_state(s, state));
}

/* Names are the caller's. States that op calls replace start as zeros, not with the last values. */
START_TEST(names_and_initial_values)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    network n = {.all = xcvm_layer_create_chain(t)};
    xcvm_layer_add(n.all, "first", xcvm_layer_create_lstm(t, 3, 4, &with_seed));
    xcvm_layer_add(n.all, "last", xcvm_layer_create_linear(t, 4, 2, &with_seed));
    xcvm_static *s = make_static(t, (xcvm_static_function){run_network, &n}, NULL);
    float first = 0;
    for (int i = 0; i < 4; i++) {
        const float y = (float)xcvm_var_get_number(t, call1(s, rows_of(t, 0.5F)));
        first = i == 0 ? y : first;
    }
    const char *const in[] = {"x"}, *const out[] = {"loss"}, *const same[] = {"x"};
    xcvm_static_save_options options = {
        .size = sizeof options, .in_names = in, .in_count = 1, .out_names = out, .out_count = 1};
    for (int continues = 0; continues < 2; continues++) {
        test_bytes bytes = {NULL, 0, 0};
        xcvm_program *program;
        xcvm_session *session;
        options.continue_states = continues == 1;
        must(xcvm_static_save(s, &options, (xcvm_sink){test_bytes_sink, &bytes}, &error), &error);
        load_saved(&bytes, &program, &session);
        ck_assert_str_eq(xcvm_program_input_at(program, 0)->name, "x");
        ck_assert_str_eq(xcvm_program_output_at(program, 0)->name, "loss");
        ck_assert_uint_eq(xcvm_program_state_count(program), 2);
        const float *h = elements_of(session, 0);
        bool zeros = true;
        for (size_t i = 0; i < xcvm_value_count(xcvm_session_get_state(session, 0)); i++)
            zeros = zeros && h[i] == 0.0F;
        ck_assert_int_eq(zeros, continues == 0);
        must(xcvm_session_set_input(session, 0, value_of(t, rows_of(t, 0.5F)), &error), &error);
        must(xcvm_session_run(session, NULL, &error), &error);
        const float got = *(const float *)xcvm_value_data(xcvm_session_get_output(session, 0));
        const bool is_first = fabsf(got - first) <= 1e-5F * fabsf(first);
        ck_assert_msg(is_first == (continues == 0), "%g, first %g", (double)got, (double)first);
        xcvm_session_destroy(session);
        xcvm_program_destroy(program);
        test_bytes_free(&bytes);
    }
    /* Names differ. */
    test_bytes none = {NULL, 0, 0};
    options.out_names = same;
    ck_assert_int_eq(xcvm_static_save(s, &options, (xcvm_sink){test_bytes_sink, &none}, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "have the name \"x\"") != NULL, "%s", error.message);
    test_bytes_free(&none);
    xcvm_static_destroy(s);
    xcvm_layer_destroy(n.all);
    close_tape(t);
}
END_TEST

Suite *suite_tape_static_export(void);
Suite *suite_tape_static_export(void)
{
    Suite *suite = suite_create("tape_static_export");
    TCase *tcase = tcase_create("each");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, d5_schedules_as_c, 0, 2);
    tcase_add_test(tcase, names_and_initial_values);
    suite_add_tcase(suite, tcase);
    return suite;
}
