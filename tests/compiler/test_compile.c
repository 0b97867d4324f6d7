/* From ONNX bytes to a program: options, report, progress, failures. */
#include "tests/compiler/import_onnx/onnx_text.h"
#include "tests/compiler/support.h"

#include <unistd.h>

static test_bytes small_model(void)
{
    return onnx_from_text("ir 7\nopset 13\ninput x f32[Nx3]\noutput y\ninit one f32[] 1\nsum = Add(x, one)\n"
                          "y = Relu(sum)\n");
}

static xcvm_status compile(const xcc_options *options, test_bytes *program, xcc_report *report, xcvm_error *error)
{
    test_bytes model = small_model();
    xcvm_status status =
        xcc_compile(model.at, model.length, options, (xcvm_sink){test_bytes_sink, program}, report, error);
    test_bytes_free(&model);
    return status;
}

/* Convolutions of every blocked algorithm, an LSTM, a Gemm and an attention. */
static const char layers[] = XCVM_TEST_DATA "/fuzz/corpus/model/layers.onnx";

START_TEST(open_dimension)
{
    test_bytes program = {0};
    xcvm_error error = {0};
    xcc_report report = {.size = sizeof report};
    ck_assert_msg(compile(NULL, &program, &report, &error) == XCVM_OK, "%s", error.message);
    ck_assert(!report.exact);
    ck_assert_uint_eq(report.nodes_after, 2);
    ck_assert_uint_eq(report.parameter_bytes, 4);
    ck_assert_uint_eq(report.flops_after, 6);
    ck_assert_uint_eq(report.arena_bytes, 0);
    xcvm_program *p = NULL;
    ck_assert_int_eq(xcvm_program_load(program.at, program.length, NULL, &p, &error), XCVM_OK);
    ck_assert_str_eq(xcvm_program_input_at(p, 0)->type.dim_names[0], "N");
    ck_assert_str_eq(xcvm_program_output_at(p, 0)->type.dim_names[0], "N");
    ck_assert_str_eq(xcvm_program_output_at(p, 0)->name, "y");
    xcvm_program_destroy(p);
    test_bytes_free(&program);
}
END_TEST

/* Structs of an older header are smaller: memory after them is neither read nor written. */
START_TEST(structs_of_another_header)
{
    test_bytes program = {0};
    xcvm_error error = {0};
    struct {
        xcc_report report;
        uint64_t behind;
    } r;
    memset(&r, 0xa5, sizeof r);
    r.report.size = offsetof(xcc_report, peak_bytes_before);
    xcc_options options;
    memset(&options, 0xa5, sizeof options);
    options.size = offsetof(xcc_options, optimization);
    options.allocator = NULL;
    options.dims = &(const xcc_dim){"N", 4};
    options.dim_count = 1;
    ck_assert_msg(compile(&options, &program, &r.report, &error) == XCVM_OK, "%s", error.message);
    ck_assert(r.report.exact);
    ck_assert_uint_eq(r.report.size, offsetof(xcc_report, peak_bytes_before));
    ck_assert_uint_eq(r.report.peak_bytes_before, UINT64_C(0xa5a5a5a5a5a5a5a5));
    ck_assert_uint_eq(r.behind, UINT64_C(0xa5a5a5a5a5a5a5a5));
    /* A newer header's is larger. */
    struct {
        xcc_options options;
        uint64_t unknown[4];
    } newer = {.options = {.size = sizeof newer, .dims = options.dims, .dim_count = 1}};
    r.report.size = sizeof r;
    ck_assert_msg(compile(&newer.options, &program, &r.report, &error) == XCVM_OK, "%s", error.message);
    ck_assert_uint_eq(r.behind, UINT64_C(0xa5a5a5a5a5a5a5a5));
    test_bytes_free(&program);
}
END_TEST

START_TEST(calls_that_make_no_sense)
{
    test_bytes model = small_model(), program = {0};
    xcvm_error error = {0};
    xcc_report report = {.size = 0};
    xcc_options options = {.size = 0};
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "size is 0"));
    ck_assert_int_eq(compile(NULL, &program, &report, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "size is 0"));
    ck_assert_int_eq(xcc_compile(model.at, model.length, NULL, (xcvm_sink){0}, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcc_compile(NULL, 1, NULL, (xcvm_sink){test_bytes_sink, &program}, NULL, &error),
                     XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcc_compile_file(NULL, NULL, (xcvm_sink){test_bytes_sink, &program}, NULL, &error),
                     XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcc_check_file("/", &options, (xcvm_sink){test_bytes_sink, &program}, &error),
                     XCVM_INVALID_ARGUMENT);
    ck_assert_uint_eq(program.length, 0);
    test_bytes_free(&model);
}
END_TEST

START_TEST(fixed_dimension)
{
    test_bytes program = {0};
    xcvm_error error = {0};
    xcc_report report = {.size = sizeof report};
    xcc_options options = {.size = sizeof options, .dims = &(const xcc_dim){"N", 4}, .dim_count = 1};
    ck_assert_msg(compile(&options, &program, &report, &error) == XCVM_OK, "%s", error.message);
    ck_assert(report.exact);
    ck_assert_uint_eq(report.peak_bytes_after, 48);
    ck_assert_uint_eq(report.arena_bytes, 64);
    test_bytes_free(&program);

    options.dims = &(const xcc_dim){"M", 4};
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "no dimension named M (open dimensions with a name: N)"));
    options.dims = NULL;
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "a dimension to fix has no name");
    options.dims = &(const xcc_dim){"N", -4};
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_uint_eq(program.length, 0);
}
END_TEST

START_TEST(types_of_weights)
{
    test_bytes program = {0};
    xcvm_error error = {0};
    xcc_options options = {.size = sizeof options, .weights.dtype = XCVM_F64};
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "weights cannot be stored as f64, f32, f24, f16 or bf16 is needed");
    options.weights.dtype = (xcvm_dtype)27;
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_uint_eq(program.length, 0);
    options.weights.dtype = XCVM_BF16;
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_OK);
    test_bytes_free(&program);
    options.weights.blocks = XCC_WEIGHTS_Q4;
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "weights cannot be stored both as bf16 and in blocks");
    options.weights.dtype = XCVM_F32;
    options.weights.blocks = (xcc_weight_blocks)4;
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "weights.blocks is 4; expected a value of xcc_weight_blocks");
    options.weights.blocks = XCC_WEIGHTS_Q4A;
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_OK);
    test_bytes_free(&program);
    options.weights.compute = XCVM_BF16;
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "products in bf16 need a program whose weights are f32 or bf16");
    options.weights.blocks = XCC_WEIGHTS_PLAIN;
    options.weights.dtype = XCVM_F16;
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    options.weights.compute = XCVM_F16;
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "products cannot be computed in f16, f32 or bf16 is needed");
    options.weights.compute = XCVM_NO_DTYPE;
    options.states.cache_dtype = XCVM_F24;
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "caches cannot be of f24, f32, f16 or bf16 is needed");
    options.states.cache_dtype = XCVM_NO_DTYPE;

    /* A program with an LSTM and a Gemm. */
    xcc_report wide = {.size = sizeof wide}, half = wide;
    test_bytes before = {0}, after = {0};
    options.weights.dtype = XCVM_F32;
    ck_assert_int_eq(xcc_compile_file(layers, &options, (xcvm_sink){test_bytes_sink, &before}, &wide, &error), XCVM_OK);
    options.weights.dtype = XCVM_F16;
    ck_assert_int_eq(xcc_compile_file(layers, &options, (xcvm_sink){test_bytes_sink, &after}, &half, &error), XCVM_OK);
    ck_assert_uint_gt(wide.weight_bytes_before, 0);
    ck_assert_uint_eq(wide.weight_bytes_after, wide.weight_bytes_before);
    ck_assert_uint_eq(half.weight_bytes_before, wide.weight_bytes_before);
    ck_assert_uint_eq(half.weight_bytes_after, half.weight_bytes_before / 2);
    ck_assert_uint_eq(wide.parameter_bytes - half.parameter_bytes, half.weight_bytes_after);
    ck_assert_uint_eq(half.uncompressed, 0);
    ck_assert_uint_lt(after.length, before.length);
    test_bytes_free(&before);
    test_bytes_free(&after);
}
END_TEST

START_TEST(stripped)
{
    test_bytes full = {0}, strip = {0};
    xcvm_error error = {0};
    xcc_options options = {.size = sizeof options, .strip = true};
    ck_assert_int_eq(compile(NULL, &full, NULL, &error), XCVM_OK);
    ck_assert_int_eq(compile(&options, &strip, NULL, &error), XCVM_OK);
    test_bytes expected = {0};
    ck_assert_int_eq(xcvm_strip(full.at, full.length, (xcvm_sink){test_bytes_sink, &expected}, &error), XCVM_OK);
    ck_assert(test_bytes_equal(&strip, &expected));
    test_bytes_free(&full);
    test_bytes_free(&strip);
    test_bytes_free(&expected);
}
END_TEST

typedef struct follower {
    test_bytes text;
    double fraction;
    int calls;
} follower;

static void follow(void *user, const char *pass, double fraction)
{
    follower *f = user;
    ck_assert_ptr_nonnull(pass);
    ck_assert_double_ge(fraction, f->fraction);
    f->fraction = fraction;
    f->calls++;
}

static bool follow_dump(void *user, const void *bytes, size_t count)
{
    return test_bytes_sink(&((follower *)user)->text, bytes, count);
}

static size_t pass_index(const char *name, size_t length)
{
    size_t i = 0;
    while (i < xcc_pass_count() &&
           (strlen(xcc_pass_at(i)->name) != length || strncmp(xcc_pass_at(i)->name, name, length) != 0))
        i++;
    ck_assert_uint_lt(i, xcc_pass_count());
    return i;
}

/* Progress is in the order of the table. After the last pass of several rounds it may begin again with the first of
 * them, without passes that have had all of their rounds. */
static void check_order(const char *dumps)
{
    static const char head[] = "# after ";
    int runs[32] = {0};
    size_t first = 0, next = 0, last = xcc_pass_count() - 1;
    ck_assert_uint_lt(xcc_pass_count(), sizeof runs / sizeof *runs);
    while (xcc_pass_at(first)->rounds == 1)
        first++;
    while (xcc_pass_at(last)->rounds == 1)
        last--;
    for (const char *at = strstr(dumps, head); at != NULL; at = strstr(at, head)) {
        at += sizeof head - 1;
        const size_t i = pass_index(at, strcspn(at, "\n"));
        const bool again = i == first && next == last + 1;
        while (next < i && runs[next] == xcc_pass_at(next)->rounds)
            next++;
        ck_assert_msg(i == next || again, "%s after %s", xcc_pass_at(i)->name,
                      next > 0 ? xcc_pass_at(next - 1)->name : "-");
        ck_assert_int_le(++runs[i], xcc_pass_at(i)->rounds);
        next = i + 1;
    }
    ck_assert_uint_eq(next, xcc_pass_count());
    ck_assert_int_gt(runs[first], 1);
}

START_TEST(passes_can_be_followed)
{
    follower f = {.calls = 0};
    test_bytes program = {0};
    xcvm_error error = {0};
    xcc_options options = {
        .size = sizeof options, .progress = {follow, &f}, .debug = {.dump = {follow_dump, &f}, .dump_after = "all"}};
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_OK);
    ck_assert_int_gt(f.calls, (int)xcc_pass_count());
    ck_assert_double_eq(f.fraction, 1);
    ck_assert(test_bytes_sink(&f.text, "", 1));
    for (size_t i = 0; i < xcc_pass_count(); i++)
        ck_assert_ptr_nonnull(strstr(f.text.at, xcc_pass_at(i)->name));
    ck_assert_ptr_null(xcc_pass_at(xcc_pass_count()));
    test_bytes_free(&f.text);
    test_bytes_free(&program);
    options.debug.dump_after = "nonsense";
    ck_assert_int_eq(compile(&options, &program, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_uint_eq(program.length, 0);
}
END_TEST

START_TEST(passes_in_order)
{
    follower f = {.calls = 0};
    test_bytes program = {0};
    xcvm_error error = {0};
    xcc_options options = {.size = sizeof options, .debug = {.dump = {follow_dump, &f}, .dump_after = "all"}};
    ck_assert_msg(xcc_compile_file(layers, &options, (xcvm_sink){test_bytes_sink, &program}, NULL, &error) == XCVM_OK,
                  "%s", error.message);
    ck_assert(test_bytes_sink(&f.text, "", 1));
    check_order(f.text.at);
    test_bytes_free(&f.text);
    test_bytes_free(&program);
}
END_TEST

START_TEST(full_disk)
{
    test_bytes model = small_model();
    xcvm_error error = {0};
    ck_assert_int_eq(xcc_compile(model.at, model.length, NULL, (xcvm_sink){test_full_sink, NULL}, NULL, &error),
                     XCVM_IO);
    ck_assert_int_eq(xcc_compile(model.at, model.length, NULL, (xcvm_sink){test_full_sink, NULL}, NULL, NULL), XCVM_IO);
    test_bytes_free(&model);
}
END_TEST

START_TEST(files)
{
    char path[] = "/tmp/xcvm-test-XXXXXX";
    int fd = mkstemp(path);
    test_bytes model = small_model(), program = {0}, direct = {0};
    xcvm_error error = {0};
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, model.at, model.length), (ssize_t)model.length);
    close(fd);
    ck_assert_int_eq(xcc_compile_file(path, NULL, (xcvm_sink){test_bytes_sink, &program}, NULL, &error), XCVM_OK);
    ck_assert_int_eq(compile(NULL, &direct, NULL, &error), XCVM_OK);
    ck_assert(test_bytes_equal(&program, &direct));
    unlink(path);
    ck_assert_int_eq(xcc_compile_file(path, NULL, (xcvm_sink){test_bytes_sink, &program}, NULL, &error), XCVM_IO);
    ck_assert_ptr_nonnull(strstr(error.message, path));
    ck_assert_int_eq(xcc_compile_file("/tmp", NULL, (xcvm_sink){test_bytes_sink, &program}, NULL, &error), XCVM_IO);
    test_bytes_free(&model);
    test_bytes_free(&program);
    test_bytes_free(&direct);
}
END_TEST

START_TEST(memory_runs_out)
{
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    for (size_t i = 1; status != XCVM_OK; i++) {
        test_allocator a;
        test_bytes program = {0};
        xcvm_error error = {0};
        test_allocator_start(&a, i);
        xcc_options options = {.size = sizeof options, .allocator = &a.allocator};
        xcc_report report = {.size = sizeof report};
        status = compile(&options, &program, &report, &error);
        ck_assert_uint_eq(a.live, 0);
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "request %zu: %s", i, error.message);
        test_bytes_free(&program);
    }
}
END_TEST

START_TEST(memory_runs_out_in_layers)
{
    test_bytes model = test_file_read(layers);
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    ck_assert_ptr_nonnull(model.at);
    for (size_t i = 1; status != XCVM_OK; i++) {
        test_allocator a;
        test_bytes program = {0};
        xcvm_error error = {0};
        test_allocator_start(&a, i);
        xcc_options options = {.size = sizeof options, .allocator = &a.allocator, .weights.dtype = XCVM_F16};
        status = xcc_compile(model.at, model.length, &options, (xcvm_sink){test_bytes_sink, &program}, NULL, &error);
        ck_assert_uint_eq(a.live, 0);
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "request %zu: %s", i, error.message);
        test_bytes_free(&program);
    }
    test_bytes_free(&model);
}
END_TEST

static xcvm_status run_once(const test_bytes *program, xcvm_value *x, const xcvm_allocator *allocator,
                            xcvm_error *error)
{
    const xcvm_load_options load = {.size = sizeof load, .allocator = allocator, .copy = true};
    const xcvm_session_options options = {.size = sizeof options, .threads = 1};
    xcvm_program *loaded = NULL;
    xcvm_session *session = NULL;
    xcvm_status status = xcvm_program_load(program->at, program->length, &load, &loaded, error);
    if (status == XCVM_OK)
        status = xcvm_session_create(loaded, &options, &session, error);
    if (status == XCVM_OK)
        status = xcvm_session_set_input(session, 0, x, error);
    if (status == XCVM_OK)
        status = xcvm_session_run(session, NULL, error);
    xcvm_session_destroy(session);
    xcvm_program_destroy(loaded);
    return status;
}

/* With channels in blocks, without, and with weights of half precision. */
START_TEST(memory_runs_out_in_a_run)
{
    static float ones[16 * 16 * 16];
    const xcc_options options = {
        .size = sizeof options, .debug.plain_layout = _i == 1, .weights.dtype = _i == 2 ? XCVM_BF16 : XCVM_F32};
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    test_bytes program = {0};
    xcvm_value *x = NULL;
    xcvm_error error = {0};
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++)
        ones[i] = 1;
    ck_assert_int_eq(xcc_compile_file(layers, &options, (xcvm_sink){test_bytes_sink, &program}, NULL, &error), XCVM_OK);
    ck_assert_int_eq(
        xcvm_tensor_wrap(XCVM_F32, 4, (const int64_t[]){1, 16, 16, 16}, ones, (xcvm_finalizer){0}, &x, &error),
        XCVM_OK);
    size_t i = 0;
    while (status != XCVM_OK) {
        test_allocator a;
        test_allocator_start(&a, ++i);
        status = run_once(&program, x, &a.allocator, &error);
        ck_assert_uint_eq(a.live, 0);
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "request %zu: %s", i, error.message);
    }
    ck_assert_uint_gt(i, 5);
    xcvm_value_release(x);
    test_bytes_free(&program);
}
END_TEST

Suite *suite_compiler_compile(void)
{
    Suite *suite = suite_create("compiler/compile");
    TCase *tests = tcase_create("compile");
    tcase_add_test(tests, open_dimension);
    tcase_add_test(tests, structs_of_another_header);
    tcase_add_test(tests, calls_that_make_no_sense);
    tcase_add_test(tests, fixed_dimension);
    tcase_add_test(tests, types_of_weights);
    tcase_add_test(tests, stripped);
    tcase_add_test(tests, passes_can_be_followed);
    tcase_add_test(tests, passes_in_order);
    tcase_add_test(tests, full_disk);
    tcase_add_test(tests, files);
    tcase_add_test(tests, memory_runs_out);
    tcase_add_test(tests, memory_runs_out_in_layers);
    tcase_add_loop_test(tests, memory_runs_out_in_a_run, 0, 3);
    suite_add_tcase(suite, tests);
    return suite;
}
