/* Kernel libraries: what is fused gives what the plain instructions give, and is left out where it does not fit. */
#include "compiler/fuse.h"
#include "tests/compiler/support.h"

#include <stdio.h>
#include <unistd.h>

#define APPLY(b, Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

static char folder[] = "/tmp/xcvm-fuse-XXXXXX";
static char library[64], source[64];

static void make_folder(void)
{
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(library, sizeof library, "%s/p.so", folder);
    snprintf(source, sizeof source, "%s/p.c", folder);
}

static void remove_folder(void)
{
    unlink(library);
    unlink(source);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void begin_fused(compilation *c)
{
    begin(c, 2);
    c->options.fuse = library;
}

/* Optimises, and compiles the library. */
static void fuse(compilation *c)
{
    passes(c);
    ok(&c->m, xcc_fuse_build(&c->m));
}

static void open_program(machine *k, compilation *c, bool no_libraries)
{
    xcvm_error error = {0};
    xcvm_load_options options = {.size = sizeof options, .library_dir = folder, .no_libraries = no_libraries};
    xcvm_session_options session = {.size = sizeof session, .threads = 2, .strict_types = true};
    k->bytes = emit(c);
    xcvm_status status = xcvm_program_load(k->bytes.at, k->bytes.length, &options, &k->program, &error);
    ck_assert_msg(status == XCVM_OK, "pc %d (%s): %s", error.pc, error.instruction, error.message);
    ck_assert_int_eq(xcvm_session_create(k->program, &session, &k->session, &error), XCVM_OK);
}

static const char *notice(const machine *k)
{
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_describe(k->program, &info);
    return info.notice;
}

static void compare(machine *a, machine *b)
{
    for (unsigned round = 0; round < 3; round++) {
        for (size_t i = 0; i < xcvm_program_input_count(a->program); i++) {
            machine_fill(a, i, round * 100 + (unsigned)i);
            machine_fill(b, i, round * 100 + (unsigned)i);
        }
        machine_run(a);
        machine_run(b);
        for (size_t i = 0; i < xcvm_program_output_count(a->program); i++)
            expect_equal(xcvm_session_output(b->session, i), xcvm_session_output(a->session, i));
    }
}

/* Compiles what `make` makes plain and fused, into `groups` functions, and compares the results: with the library and
 * without it. */
static void check_fused(graph_maker make, size_t groups)
{
    compilation plain, fused;
    machine expected, with, without;
    make_folder();
    begin(&plain, -1);
    make(&plain.b);
    passes(&plain);
    open_program(&expected, &plain, false);
    begin_fused(&fused);
    make(&fused.b);
    fuse(&fused);
    if (groups != 0)
        ck_assert_uint_eq(fused.m.fusion_count, groups);
    open_program(&with, &fused, false);
    open_program(&without, &fused, true);
    ck_assert_msg(notice(&with) == NULL, "%s", notice(&with));
    compare(&expected, &with);
    compare(&expected, &without);
    machine_close(&expected);
    machine_close(&with);
    machine_close(&without);
    finish(&plain);
    finish(&fused);
    remove_folder();
}

/* ---- Shapes ---- */

static void make_broadcast(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(2, 3, 5, 7)), *rows = input(b, "rows", XCVM_F32, 2, DIMS(5, 1));
    xcc_value *planes = input(b, "planes", XCVM_F32, 4, DIMS(2, 3, 1, 1)),
              *line = input(b, "line", XCVM_F32, 1, DIMS(7));
    xcc_value *y = APPLY(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(rows));
    y = APPLY(b, Mul, y, .a = XCC_IN(y), .b = XCC_IN(planes));
    xcc_value *middle = APPLY(b, Tanh, y, .x = XCC_IN(y));
    y = APPLY(b, Sub, y, .a = XCC_IN(line), .b = XCC_IN(middle));
    y = APPLY(b, Max, y, .a = XCC_IN(y), .b = XCC_IN(number(b, 0.25)));
    output(b, middle);
    output(b, APPLY(b, Softmax, y, .x = XCC_IN(y), .axis = 3));
    output(b, APPLY(b, LeakyRelu, y, .x = XCC_IN(y), .alpha = 0.5));
}

START_TEST(broadcasting_and_several_results) { check_fused(make_broadcast, 1); }
END_TEST

static void make_outer(xcc_builder *b)
{
    xcc_value *column = input(b, "column", XCVM_F32, 2, DIMS(33, 1)), *row = input(b, "row", XCVM_F32, 2, DIMS(1, 65));
    xcc_value *y = APPLY(b, Mul, y, .a = XCC_IN(column), .b = XCC_IN(row));
    y = APPLY(b, Sigmoid, y, .x = XCC_IN(y));
    output(b, APPLY(b, Clip, y, .x = XCC_IN(y), .min = XCC_IN(number(b, 0.25)), .max = XCC_IN(number(b, 0.75))));
}

START_TEST(outer_product) { check_fused(make_outer, 1); }
END_TEST

static void make_large(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(301, 1007));
    xcc_value *y = APPLY(b, Neg, y, .x = XCC_IN(APPLY(b, Abs, y, .x = XCC_IN(x))));
    y = APPLY(b, Gelu, y, .x = XCC_IN(y), .approximate = XCVM_GELU_tanh);
    output(b, APPLY(b, Div, y, .a = XCC_IN(y), .b = XCC_IN(number(b, 3))));
}

START_TEST(split_over_threads) { check_fused(make_large, 1); }
END_TEST

/* The sum in between reads one result and makes an operand of another: they cannot be one group. */
static void make_interrupted(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(4, 8));
    xcc_value *y = APPLY(b, Exp, y, .x = XCC_IN(APPLY(b, Neg, y, .x = XCC_IN(x))));
    xcc_value *sum = APPLY(b, CumSum, y, .x = XCC_IN(y), .axis = XCC_IN(must(b, xcc_scalar_i64(b->graph, 1))));
    xcc_value *z = APPLY(b, Mul, y, .a = XCC_IN(sum), .b = XCC_IN(y));
    output(b, APPLY(b, Sqrt, y, .x = XCC_IN(z)));
}

START_TEST(no_cycles) { check_fused(make_interrupted, 2); }
END_TEST

static void make_loop_body(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(19)), *out = must(b, xcc_value_create(b->graph, NULL));
    xcc_value *in[] = {must(b, xcc_scalar_i64(b->graph, 5)), NULL, x};
    xcc_node *n = xcc_append_control(b, XCC_LOOP, 3, in, 1, &out, 1);
    ck_assert_ptr_nonnull(n);
    xcc_builder body = {.graph = n->bodies[0]};
    input(&body, "i", XCVM_I64, 0, NULL);
    xcc_value *go = input(&body, "go", XCVM_BOOL, 0, NULL), *s = input(&body, "s", XCVM_F32, 1, DIMS(19));
    output(&body, go);
    xcc_value *y = APPLY(&body, Add, y, .a = XCC_IN(s), .b = XCC_IN(x));
    output(&body, APPLY(&body, Tanh, y, .x = XCC_IN(y)));
    ok(b->graph->module, xcc_node_infer(n));
    output(b, out);
}

START_TEST(in_a_loop) { check_fused(make_loop_body, 1); }
END_TEST

/* ---- Random graphs ---- */

static unsigned graph_seed;

static unsigned draw(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* Values stay in a range where rounding does not grow. */
static xcc_value *random_node(xcc_builder *b, unsigned *state, xcc_value *x, xcc_value *z)
{
    switch (draw(state, 12)) {
    case 0:
        return APPLY(b, Tanh, y, .x = XCC_IN(APPLY(b, Mul, y, .a = XCC_IN(x), .b = XCC_IN(z))));
    case 1:
        return APPLY(b, Sigmoid, y, .x = XCC_IN(APPLY(b, Sub, y, .a = XCC_IN(z), .b = XCC_IN(x))));
    case 2:
        return APPLY(b, Max, y, .a = XCC_IN(x), .b = XCC_IN(z));
    case 3:
        return APPLY(b, Min, y, .a = XCC_IN(x), .b = XCC_IN(z));
    case 4:
        return APPLY(b, Erf, y, .x = XCC_IN(APPLY(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(z))));
    case 5:
        return APPLY(b, Softsign, y, .x = XCC_IN(APPLY(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 0.5)))));
    case 6:
        return APPLY(b, HardSigmoid, y, .x = XCC_IN(x), .alpha = 0.3, .beta = 0.4);
    case 7:
        return APPLY(b, Abs, y, .x = XCC_IN(APPLY(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(x))));
    case 8:
        return APPLY(b, Clip, y, .x = XCC_IN(APPLY(b, Sub, y, .a = XCC_IN(x), .b = XCC_IN(z))),
                     .min = XCC_IN(number(b, -0.75)), .max = XCC_IN(number(b, 0.75)));
    case 9:
        return APPLY(b, Neg, y, .x = XCC_IN(APPLY(b, Relu, y, .x = XCC_IN(x))));
    case 10:
        return APPLY(b, Div, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 2)));
    default:
        /* Not element-wise. */
        return APPLY(b, LogSoftmax, y, .x = XCC_IN(x), .axis = 2);
    }
}

static void make_random(xcc_builder *b)
{
    enum { NODES = 60, FIRST = 4 };
    unsigned state = graph_seed;
    const int64_t size = 1 + draw(&state, 40), count = 1 + draw(&state, 5), height = 1 + draw(&state, 4);
    xcc_value *values[FIRST + NODES] = {
        input(b, "x", XCVM_F32, 3, DIMS(count, height, size)), input(b, "column", XCVM_F32, 3, DIMS(count, 1, 1)),
        input(b, "row", XCVM_F32, 1, DIMS(size)), input(b, "plane", XCVM_F32, 2, DIMS(height, 1))};
    size_t full = 0; /* the last value of the whole shape */
    for (size_t i = FIRST; i < FIRST + NODES; i++) {
        size_t near =
            draw(&state, 4) != 0 && i > FIRST ? i - 1 - draw(&state, (unsigned)(i - FIRST < 6 ? i - FIRST : 6)) : full;
        values[i] = random_node(b, &state, values[near], values[draw(&state, (unsigned)i)]);
        full = i;
    }
    for (size_t i = 0; i < 3; i++)
        output(b, values[FIRST + NODES - 1 - i * 7]);
}

START_TEST(random_graphs)
{
    const char *wanted = getenv("XCVM_FUSE_GRAPHS");
    unsigned count = wanted != NULL ? (unsigned)atoi(wanted) : 8;
    for (unsigned i = 0; i < count; i++) {
        graph_seed = 1000 + i;
        check_fused(make_random, 0);
    }
}
END_TEST

/* ---- What does not fit ---- */

static void make_small(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(3));
    output(b, APPLY(b, Neg, y, .x = XCC_IN(APPLY(b, Tanh, y, .x = XCC_IN(x)))));
}

static void expect_notice(compilation *c, const char *part)
{
    machine k;
    open_program(&k, c, false);
    ck_assert_msg(notice(&k) != NULL && strstr(notice(&k), part) != NULL, "\"%s\" says nothing of \"%s\"",
                  notice(&k) != NULL ? notice(&k) : "", part);
    machine_give(&k, 0, XCVM_F32, 1, DIMS(3), FLOATS(0, 1, -1));
    machine_run(&k);
    expect_output(&k, 0, 1, DIMS(3), FLOATS(0, -0.761594f, 0.761594f));
    machine_close(&k);
}

static void write_library(const char *bytes)
{
    FILE *file = fopen(library, "w");
    ck_assert_ptr_nonnull(file);
    fputs(bytes, file);
    fclose(file);
}

START_TEST(libraries_that_do_not_fit)
{
    compilation c;
    make_folder();
    begin_fused(&c);
    make_small(&c.b);
    fuse(&c);
    unlink(library);
    expect_notice(&c, "is missing");
    write_library("no library");
    expect_notice(&c, "not the file that the program was compiled with");
    unlink(library);
    ck_assert_int_eq(symlink("/dev/null", library), 0);
    expect_notice(&c, "cannot be opened");
    unlink(library);
    /* A name never leads elsewhere: it is the last part of the path that is kept. */
    c.options.fuse = "..";
    expect_notice(&c, "no plain file name");
    finish(&c);
    remove_folder();
}
END_TEST

START_TEST(compilers_that_fail)
{
    static const char *const compilers[] = {"xcvm-no-such-compiler", "false"};
    make_folder();
    for (size_t i = 0; i < 2; i++) {
        compilation c;
        begin_fused(&c);
        c.options.cc = compilers[i];
        make_small(&c.b);
        passes(&c);
        ck_assert_int_eq(xcc_fuse_build(&c.m), XCVM_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(c.error.message, compilers[i]));
        ck_assert_int_ne(access(library, F_OK), 0);
        finish(&c);
    }
    remove_folder();
}
END_TEST

START_TEST(source_is_kept_and_cached)
{
    compilation c;
    char cached[128];
    make_folder();
    snprintf(cached, sizeof cached, "%s/cache", folder);
    for (int round = 0; round < 2; round++) {
        begin_fused(&c);
        c.options.keep_c = source;
        c.options.cache_dir = cached;
        /* The second time nothing needs to be compiled. */
        make_small(&c.b);
        fuse(&c);
        ck_assert_int_eq(access(source, R_OK), 0);
        ck_assert_int_eq(access(library, R_OK), 0);
        finish(&c);
    }
    char command[512];
    snprintf(command, sizeof command, "test $(ls %s | wc -l) = 1 && rm -r %s", cached, cached);
    ck_assert_int_eq(system(command), 0);
    remove_folder();
}
END_TEST

Suite *suite_compiler_fuse(void)
{
    Suite *s = suite_create("compiler_fuse");
    TCase *t = tcase_create("fuse");
    tcase_set_timeout(t, 600);
    tcase_add_test(t, broadcasting_and_several_results);
    tcase_add_test(t, outer_product);
    tcase_add_test(t, split_over_threads);
    tcase_add_test(t, no_cycles);
    tcase_add_test(t, in_a_loop);
    tcase_add_test(t, random_graphs);
    tcase_add_test(t, libraries_that_do_not_fit);
    tcase_add_test(t, compilers_that_fail);
    tcase_add_test(t, source_is_kept_and_cached);
    suite_add_tcase(s, t);
    return s;
}
