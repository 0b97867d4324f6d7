/* Tests of optimizers over many steps and parameters. Expected parameters are those of ten steps of torch.optim 1.13 on
 * the same gradients. LARS and Lion, which it lacks, follow their papers' formulas in PyTorch. */
#include "tests/vm/support.h"

#include <math.h>
#include <stdio.h>

enum { ELEMENTS = 6, STEPS = 10 };

typedef struct run_of {
    const char *row;
    const char *moments; /* of the row; "-" for one that is not kept */
    const char *attributes;
    float rate;
    bool norms;
    float expected[ELEMENTS];
} run_of;

static const run_of runs[] = {
    {"SGD",
     "momentum_buffer",
     ", momentum=0.9, weight_decay=0.01, nesterov=1",
     0.05f,
     0,
     {0.572836339f, -1.73094058f, 0.671478987f, 2.96051002f, 0.0538358018f, -0.314588785f}},
    {"SGD",
     "momentum_buffer",
     ", momentum=0.9, dampening=0.5",
     0.05f,
     0,
     {0.727008998f, -1.71173215f, 0.526348114f, 3.2289362f, -0.11062517f, -0.367291778f}},
    {"LARS",
     "momentum_buffer",
     ", momentum=0.9, weight_decay=0.01, trust_coefficient=0.02",
     0.5f,
     1,
     {0.866331339f, -1.92877781f, 0.569629073f, 2.97152281f, -0.106859714f, -0.120209634f}},
    {"RMSProp",
     "square_avg grad_avg momentum_buffer",
     ", alpha=0.9, momentum=0.5, weight_decay=0.01, eps=0.001",
     0.05f,
     0,
     {0.586735427f, -1.72914648f, 0.494962573f, 3.05489826f, 0.194644496f, -0.230341941f}},
    {"RMSProp",
     "square_avg - -",
     "",
     0.05f,
     0,
     {0.42333886f, -1.7227037f, 0.537117779f, 3.11242914f, 0.222305387f, -0.341494948f}},
    {"Adagrad",
     "sum",
     ", lr_decay=0.1, weight_decay=0.01",
     0.05f,
     0,
     {0.94386971f, -1.96164453f, 0.488339216f, 3.0149281f, -0.158535108f, -0.0417218506f}},
    {"Adadelta",
     "square_avg acc_delta",
     ", rho=0.8, weight_decay=0.01",
     1.0f,
     0,
     {0.996406972f, -1.99995649f, 0.502824366f, 2.99840641f, -0.245498508f, -0.0008270049f}},
    {"Adam",
     "exp_avg exp_avg_sq -",
     ", weight_decay=0.01",
     0.05f,
     0,
     {0.833975673f, -1.87168467f, 0.487738669f, 3.05231762f, -0.0924906433f, -0.153503984f}},
    {"Adam",
     "exp_avg exp_avg_sq -",
     ", weight_decay=0.1, decoupled=1",
     0.05f,
     0,
     {0.795056224f, -1.7879343f, 0.467800319f, 2.91764903f, -0.134144887f, -0.148407668f}},
    {"Adam",
     "exp_avg exp_avg_sq max_exp_avg_sq",
     ", beta1=0.8, beta2=0.9",
     0.05f,
     0,
     {0.855209649f, -1.90231955f, 0.501053691f, 3.04988647f, -0.156060115f, -0.123198099f}},
    {"Lion",
     "exp_avg",
     ", weight_decay=0.1",
     0.05f,
     0,
     {0.854808152f, -1.90442598f, 0.477760553f, 2.75408792f, -0.189742848f, -0.0958291888f}},
};

/* One parameter p; its gradient and the number of the step are inputs. */
static xcvm_program *program_of(const run_of *r)
{
    char text[3000], moments[8][40] = {{0}}, list[200] = "", states[600] = "", loads[600] = "";
    const int count = sscanf(r->moments, "%39s %39s %39s", moments[0], moments[1], moments[2]);
    for (int i = 0; i < count; i++) {
        const bool kept = strcmp(moments[i], "-") != 0;
        if (kept) {
            snprintf(states + strlen(states), sizeof states - strlen(states), "state %s f32[6]\n", moments[i]);
            snprintf(loads + strlen(loads), sizeof loads - strlen(loads), "$%d = Load(name=\"%s\")\n", 20 + i,
                     moments[i]);
            snprintf(list + strlen(list), sizeof list - strlen(list), ", [$%d]", 20 + i);
        } else {
            strcat(list, ", []");
        }
    }
    snprintf(text, sizeof text,
             "input g f32[6]\ninput step i64[]\nstate p f32[6] = @p\n%sconstant p f32[6] = 1 -2 0.5 3 -0.25 0\n"
             "$1 = In(name=\"g\")\n$2 = In(name=\"step\")\n$3 = Load(name=\"p\")\n%s"
             "$4 = Load(name=\"p\")\n%s"
             "%s([$1], f32[] %.9g, $2, _, _, _, [$4], [], [], []%s%s%s)\n",
             states,
             r->norms ? "$5 = GlobalNorm([$3], [], each=1)\n$6 = GlobalNorm([$1], [], each=1)\nFree($3)\n"
                      : "Free($3)\n",
             loads, r->row, (double)r->rate, r->norms ? ", $5, $6" : "", list, r->attributes);
    return load(text);
}

/* The gradients that the expected values come from. */
static void fill_gradient(float *g, int step)
{
    for (int i = 0; i < ELEMENTS; i++)
        g[i] = (float)((step * 7 + i * 5) % 11 - 5) / 4;
}

static void set_step(xcvm_session *s, size_t index, int64_t *step)
{
    xcvm_value *value;
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_I64, 0, NULL, step, (xcvm_finalizer){0}, &value, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(s, index, value, &error), XCVM_OK);
    xcvm_value_release(value);
}

START_TEST(ten_steps)
{
    const run_of *r = &runs[_i];
    float g[ELEMENTS];
    int64_t step;
    xcvm_program *program = program_of(r);
    xcvm_session *s = open_default_session(program);
    set_f32(s, 0, 1, (const int64_t[]){ELEMENTS}, g);
    set_step(s, 1, &step);
    for (step = 1; step <= STEPS; step++) {
        fill_gradient(g, (int)step);
        run_session(s);
    }
    const float *p = xcvm_value_data(xcvm_session_get_state(s, 0));
    for (int i = 0; i < ELEMENTS; i++)
        ck_assert_msg(fabsf(p[i] - r->expected[i]) <= 2e-6f + 2e-6f * fabsf(r->expected[i]),
                      "%s%s: element %d is %.9g, not %.9g", r->row, r->attributes, i, (double)p[i],
                      (double)r->expected[i]);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

/* ---- Many parameters ---- */

/* Sizes around those of blocks and ranges, and none. */
static const int sizes[] = {1, 3, 0, 1023, 1024, 1025, 65536, 65537, 100003, 17, 0, 2048, 40000, 5};
enum { TENSORS = sizeof sizes / sizeof *sizes, ALL = 276222 };

/* Adam on all tensors at once, gradients being an input's stretches; with the norms of all, clipped and averaged. */
static xcvm_program *program_of_many(void)
{
    test_bytes text = {0};
    char line[480], starts[16], lists[6][400] = {{0}};
    int total = 0;
    for (int i = 0; i < TENSORS; i++)
        total += sizes[i];
    snprintf(line, sizeof line, "input g f32[%d]\noutput norm f32[]\n", total);
    test_bytes_sink(&text, line, strlen(line));
    static const char *const kept[] = {"p", "average", "m", "v"};
    for (int i = 0; i < TENSORS; i++)
        for (int k = 0; k < 4; k++) {
            snprintf(line, sizeof line, "state %s%d f32[%d]\n", kept[k], i, sizes[i]);
            test_bytes_sink(&text, line, strlen(line));
        }
    snprintf(line, sizeof line, "$1 = In(name=\"g\")\n");
    test_bytes_sink(&text, line, strlen(line));
    for (int i = 0, at = 0; i < TENSORS; at += sizes[i++]) {
        snprintf(line, sizeof line, "$%d = Slice($1, i64[1] %d, i64[1] %d)\n", 2 + i, at, at + sizes[i]);
        test_bytes_sink(&text, line, strlen(line));
    }
    for (int i = 0; i < TENSORS; i++) {
        snprintf(starts, sizeof starts, "%s$%d", i > 0 ? ", " : "", 2 + i);
        strcat(lists[4], starts);
    }
    snprintf(line, sizeof line, "$16 = GlobalNorm([%s], [])\nOut($16, name=\"norm\")\n", lists[4]);
    test_bytes_sink(&text, line, strlen(line));
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < TENSORS; i++) {
            snprintf(line, sizeof line, "$%d = Load(name=\"%s%d\")\n", 17 + TENSORS * k + i, kept[k], i);
            test_bytes_sink(&text, line, strlen(line));
            snprintf(starts, sizeof starts, "%s$%d", i > 0 ? ", " : "", 17 + TENSORS * k + i);
            strcat(lists[k], starts);
        }
    char call[2500];
    snprintf(call, sizeof call,
             "Adam([%s], f32[] 0.01, i64[] 3, $16, _, _, [%s], [], [], [%s], [%s], [%s], [], weight_decay=0.01, "
             "clip=0.5, average_decay=0.9)\n",
             lists[4], lists[0], lists[1], lists[2], lists[3]);
    test_bytes_sink(&text, call, strlen(call));
    test_bytes_sink(&text, "", 1);
    xcvm_program *program = load(text.at);
    test_bytes_free(&text);
    return program;
}

START_TEST(any_number_of_threads)
{
    static float g[ALL];
    int total = 0;
    for (int i = 0; i < TENSORS; i++)
        total += sizes[i];
    ck_assert_int_le(total, ALL);
    for (int i = 0; i < total; i++)
        g[i] = sinf((float)i) * 1e-3f;
    xcvm_program *program = program_of_many();
    xcvm_session *all[4];
    for (int threads = 1; threads <= 4; threads++) {
        xcvm_session_options options = {.size = sizeof options, .threads = threads};
        xcvm_session *s = all[threads - 1] = open_session(program, &options);
        set_f32(s, 0, 1, (const int64_t[]){total}, g);
        run_session(s);
        run_session(s);
        ck_assert(memcmp(xcvm_value_data(xcvm_session_get_output(s, 0)),
                         xcvm_value_data(xcvm_session_get_output(all[0], 0)), sizeof(float)) == 0);
        for (size_t i = 0; i < xcvm_program_state_count(program); i++) {
            const xcvm_value *state = xcvm_session_get_state(s, i), *first = xcvm_session_get_state(all[0], i);
            ck_assert_uint_eq(xcvm_value_bytes(state), xcvm_value_bytes(first));
            ck_assert(xcvm_value_bytes(state) == 0 ||
                      memcmp(xcvm_value_data(state), xcvm_value_data(first), xcvm_value_bytes(state)) == 0);
        }
    }
    /* The last element of the last tensor has moved too. */
    const xcvm_value *last = xcvm_session_get_state(all[0], 4 * (TENSORS - 1));
    ck_assert_uint_eq(xcvm_value_count(last), 5);
    for (size_t i = 0; i < 5; i++)
        ck_assert_float_ne(((const float *)xcvm_value_data(last))[i], 0.0f);
    for (int i = 0; i < 4; i++)
        xcvm_session_destroy(all[i]);
    xcvm_program_destroy(program);
}
END_TEST

/* ---- Factors ---- */

/* Gradients as products of two terms, of matrices whose blocks of 1024 elements begin in the middle of a row, and end
 * rows later or in the same one. Expected are the formulas of torch.optim, computed here in f64. */
enum { MATRICES = 2, TERMS = 2, MOST_COLUMNS = 1500, MOST_ELEMENTS = 3000, FACTOR_STEPS = 3 };
static const int rows_of[MATRICES] = {3, 2}, columns_of[MATRICES] = {700, MOST_COLUMNS};

typedef struct factored {
    bool adam;
    xcvm_dtype dtype;
    double tolerance;
} factored;

static const factored factored_runs[] = {
    {false, XCVM_F32, 2e-6}, {true, XCVM_F32, 2e-6}, {false, XCVM_F64, 1e-14}, {true, XCVM_F64, 1e-14}};

typedef struct matrix {
    double a[TERMS * 3], b[TERMS * MOST_COLUMNS]; /* factors, numbers that f32 has */
    double p[MOST_ELEMENTS], mean[MOST_ELEMENTS], square[MOST_ELEMENTS];
} matrix;

/* Inputs: the number of the step, and the factors; states: parameters and moments of zero. */
static xcvm_program *program_by_factors(const factored *x)
{
    static const char kinds[] = "pmv";
    char text[1500], loads[400], *end = text, *load_end = loads;
    const char *type = xcvm_dtype_name(x->dtype);
    end += sprintf(end, "input step i64[]\n$1 = In(name=\"step\")\n");
    for (int i = 0; i < MATRICES; i++) {
        const int rows = rows_of[i], columns = columns_of[i];
        end += sprintf(end, "input a%d %s[2x%d]\ninput b%d %s[2x%d]\n", i, type, rows, i, type, columns);
        end += sprintf(end, "$%d = In(name=\"a%d\")\n$%d = In(name=\"b%d\")\n", 2 + 2 * i, i, 3 + 2 * i, i);
        for (int k = 0; k < (x->adam ? 3 : 2); k++) {
            end += sprintf(end, "state %c%d %s[%dx%d]\n", kinds[k], i, type, rows, columns);
            load_end += sprintf(load_end, "$%d = Load(name=\"%c%d\")\n", 6 + 2 * k + i, kinds[k], i);
        }
    }
    snprintf(end, sizeof text - (size_t)(end - text),
             "%s%s([$2, $3, $4, $5], f32[] 0.25, $1, _, _, _, [$6, $7], [], [], [], [$8, $9]%s)\n", loads,
             x->adam ? "Adam" : "SGD", x->adam ? ", [$10, $11], [], beta1=0.5, beta2=0.75, eps=0.5" : ", momentum=0.5");
    return load(text);
}

static void set_factor(xcvm_session *s, size_t index, xcvm_dtype dtype, int columns, const double *data)
{
    xcvm_value *v;
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_tensor_create(NULL, dtype, 2, DIMS(TERMS, columns), &v, &error), XCVM_OK);
    for (int i = 0; i < TERMS * columns; i++)
        if (dtype == XCVM_F64)
            XCVM_DATA(double, v)[i] = data[i];
        else
            XCVM_DATA(float, v)[i] = (float)data[i];
    ck_assert_int_eq(xcvm_session_set_input(s, index, v, &error), XCVM_OK);
    xcvm_value_release(v);
}

static void set_factors(xcvm_session *s, const factored *x, int i, int step, matrix *to)
{
    for (int j = 0; j < TERMS * rows_of[i]; j++)
        to->a[j] = (double)sinf((float)(3 * j + 5 * step + i + 1));
    for (int j = 0; j < TERMS * columns_of[i]; j++)
        to->b[j] = (double)cosf((float)(7 * j + 2 * step + i));
    set_factor(s, (size_t)(1 + 2 * i), x->dtype, rows_of[i], to->a);
    set_factor(s, (size_t)(2 + 2 * i), x->dtype, columns_of[i], to->b);
}

static void step_in_f64(const factored *x, int i, int step, matrix *to)
{
    const int rows = rows_of[i], columns = columns_of[i];
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++) {
            const int at = row * columns + column;
            double g = 0, *p = &to->p[at], *mean = &to->mean[at], *square = &to->square[at];
            for (int q = 0; q < TERMS; q++)
                g += to->a[q * rows + row] * to->b[q * columns + column];
            if (x->adam) {
                *mean = 0.5 * *mean + 0.5 * g;
                *square = 0.75 * *square + 0.25 * g * g;
                *p -= 0.25 * (*mean / (1 - pow(0.5, step))) / (sqrt(*square / (1 - pow(0.75, step))) + 0.5);
            } else {
                *mean = 0.5 * *mean + g;
                *p -= 0.25 * *mean;
            }
        }
}

static void check_state(const xcvm_session *s, size_t index, size_t count, const double *expected, double tolerance)
{
    const xcvm_value *state = xcvm_session_get_state(s, index);
    ck_assert_uint_eq(xcvm_value_count(state), count);
    for (size_t i = 0; i < count; i++) {
        const double y = xcvm_element_as_double(state, i);
        ck_assert_msg(fabs(y - expected[i]) <= tolerance * (1 + fabs(expected[i])),
                      "state %zu: element %zu is %.17g, not %.17g", index, i, y, expected[i]);
    }
}

START_TEST(blocks_within_rows)
{
    static matrix all[MATRICES];
    const factored *x = &factored_runs[_i];
    const size_t kept = x->adam ? 3 : 2;
    int64_t step;
    xcvm_program *program = program_by_factors(x);
    xcvm_session *s = open_default_session(program);
    memset(all, 0, sizeof all);
    set_step(s, 0, &step);
    for (step = 1; step <= FACTOR_STEPS; step++) {
        for (int i = 0; i < MATRICES; i++) {
            set_factors(s, x, i, (int)step, &all[i]);
            step_in_f64(x, i, (int)step, &all[i]);
        }
        run_session(s);
    }
    for (size_t i = 0; i < MATRICES; i++) {
        const double *const expected[] = {all[i].p, all[i].mean, all[i].square};
        for (size_t k = 0; k < kept; k++)
            check_state(s, kept * i + k, (size_t)(rows_of[i] * columns_of[i]), expected[k], x->tolerance);
    }
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

/* ---- Failures ---- */

/* The run checks gradients before the tail, so neither the tail nor the Store has any effect. */
START_TEST(gradients_that_do_not_fit)
{
    float g[4] = {1, 2, 3, 4};
    xcvm_program *program = load("input g f32[N]\nstate p f32[3]\nstate m f32[3]\nstate step i64[]\n"
                                 "$1 = In(name=\"g\")\n$2 = Load(name=\"step\")\n$3 = Add($2, i64[] 1)\n"
                                 "Store($3, name=\"step\")\n$4 = Load(name=\"p\")\n$5 = Load(name=\"m\")\n"
                                 "SGD([$1], f32[] 1, $3, _, _, _, [$4], [], [], [], [$5], momentum=0.5)\n");
    xcvm_session *s = open_default_session(program);
    for (int64_t count = 2; count <= 4; count++) {
        const float expected = count > 2 ? -1.0f : 0.0f;
        set_f32(s, 0, 1, DIMS(count), g);
        if (count == 3)
            run_session(s);
        else
            check_run_fails(s, NULL, XCVM_SHAPE_MISMATCH, "of a parameter that is f32[3]");
        ck_assert_float_eq(*XCVM_CDATA(float, xcvm_session_get_state(s, 0)), expected);
        ck_assert_float_eq(*XCVM_CDATA(float, xcvm_session_get_state(s, 1)), -expected);
        ck_assert_int_eq(*XCVM_CDATA(int64_t, xcvm_session_get_state(s, 2)), count > 2);
    }
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

/* A step allocates nothing: the session may in the first run, and not afterwards. */
START_TEST(steps_take_no_memory)
{
    static float g[ALL];
    counter counts = {0};
    const xcvm_allocator allocator = counting(&counts);
    xcvm_program *program = program_of_many();
    xcvm_session_options options = {.size = sizeof options, .threads = 2, .allocator = &allocator};
    xcvm_session *s = open_session(program, &options);
    set_f32(s, 0, 1, DIMS(ALL), g);
    run_session(s);
    run_session(s);
    const size_t before = counts.allocations;
    for (int i = 0; i < 20; i++)
        run_session(s);
    ck_assert_uint_eq(counts.allocations, before);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
    ck_assert_uint_eq(counts.live_bytes, 0);
}
END_TEST

Suite *suite_ops_optimizers(void);
Suite *suite_ops_optimizers(void)
{
    Suite *suite = suite_create("ops_optimizers");
    TCase *c = tcase_create("steps");
    tcase_add_loop_test(c, ten_steps, 0, sizeof runs / sizeof *runs);
    tcase_add_test(c, any_number_of_threads);
    tcase_add_loop_test(c, blocks_within_rows, 0, (int)(sizeof factored_runs / sizeof *factored_runs));
    tcase_add_test(c, gradients_that_do_not_fit);
    tcase_add_test(c, steps_take_no_memory);
    suite_add_tcase(suite, c);
    return suite;
}
