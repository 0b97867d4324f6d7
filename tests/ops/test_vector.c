/* Tests of kernels in simd directories: the same bits for any number of threads, for any position of an element, and in
 * place; and nearly the same for every instruction set. */
#include "ops/util/kernel.h"
#include "ops/table/table.h"
#include "tests/ops/run_kernel.h"
#include "tests/support.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

/* Instructions with one result y, an operand, and no attributes that defaults do not suit. */
static const xcvm_opcode lines[] = {XCVM_OP_Softmax,         XCVM_OP_LogSoftmax, XCVM_OP_Hardmax,
                                    XCVM_OP_LpNormalization, XCVM_OP_LRN,        XCVM_OP_LayerNormalization};

/* Instructions of a class from f32 to f32, in the order of their numbers. */
typedef struct opcodes {
    xcvm_opcode at[XCVM_OPCODE_LIMIT];
    int count;
} opcodes;
static opcodes unary, binary, reductions;

static bool takes_f32(const xcvm_schema *schema, const xcvm_field *f)
{
    return xcvm_dtype_in(XCVM_F32, xcvm_field_types(schema, f));
}

static opcodes opcodes_of(xcvm_class kind)
{
    opcodes all = {.count = 0};
    for (int64_t number = 0; number < XCVM_OPCODE_LIMIT; number++) {
        const xcvm_schema *schema = xcvm_schema_of(number);
        if (schema == NULL || !xcvm_schema_has_class(schema, kind) || !takes_f32(schema, &schema->fields[0]) ||
            !takes_f32(schema, &schema->fields[1]))
            continue;
        all.at[all.count++] = schema->opcode;
    }
    return all;
}

enum { OPERANDS = 3, LIMIT = 1 << 17 };

/* A call of a kernel over memory of the test's. */
typedef struct call {
    const xcvm_schema *schema;
    void *args;
    xcvm_value in[OPERANDS], y;
    int in_count;
} call;

static uint32_t random_state = 1;

static float random_float(void)
{
    const uint32_t drawn = test_random(&random_state);
    return (float)(int32_t)(drawn ^ drawn >> 15) * 0x1p-29f;
}

static void fill(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = random_float();
}

static void call_start(call *c, xcvm_opcode opcode)
{
    *c = (call){.schema = xcvm_schema_of(opcode)};
    c->args = calloc(1, c->schema->args_size);
    ck_assert_ptr_nonnull(c->args);
    for (size_t i = 0; i < c->schema->field_count; i++) {
        const xcvm_field *f = &c->schema->fields[i];
        char *at = (char *)c->args + f->offset;
        if (f->kind == XCVM_FIELD_INT && f->role == XCVM_ROLE_ATTRIBUTE)
            *(int64_t *)(void *)at = f->int_default;
        else if (f->kind == XCVM_FIELD_FLOAT)
            *(double *)(void *)at = f->float_default;
        else if (f->kind == XCVM_FIELD_DTYPE)
            *(xcvm_dtype *)(void *)at = (xcvm_dtype)f->int_default;
        else if (f->kind == XCVM_FIELD_CHOICE)
            *(int *)(void *)at = (int)f->int_default;
    }
}

/* The next operand in row order. */
static void call_in(call *c, xcvm_dtype dtype, int rank, const int64_t *dims, void *data)
{
    int nth = 0;
    for (size_t i = 0; i < c->schema->field_count; i++) {
        const xcvm_field *f = &c->schema->fields[i];
        if (!xcvm_field_is_input(f) || nth++ != c->in_count)
            continue;
        xcvm_value *v = &c->in[c->in_count];
        xcvm_value_set_tensor(v, dtype, rank, dims);
        v->data = data;
        *(const xcvm_value **)(void *)((char *)c->args + f->offset) = v;
    }
    c->in_count++;
}

static void call_out(call *c, xcvm_dtype dtype, int rank, const int64_t *dims, void *data)
{
    xcvm_value_set_tensor(&c->y, dtype, rank, dims);
    c->y.data = data;
    *(xcvm_value **)(void *)((char *)c->args + c->schema->fields[0].offset) = &c->y;
}

static void call_run(call *c, xcvm_kernel_run run, int thread_count)
{
    run_kernel(run, c->args, thread_count, c->schema->name);
}

/* An assertion of Check's writes to a file, so it is made for elements that differ only. */
static void check_bits(const char *name, const char *what, const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            ck_abort_msg("%s: element %zu is %.9g, %s %.9g", name, i, (double)a[i], what, (double)b[i]);
}

static void check_near(const char *name, const float *a, const float *b, size_t count, double scale)
{
    for (size_t i = 0; i < count; i++) {
        bool alike = (isnan(a[i]) && isnan(b[i])) || a[i] == b[i];
        if (!alike && !(fabs((double)a[i] - (double)b[i]) <= scale * (1e-6 + 4e-6 * fabs((double)a[i]))))
            ck_abort_msg("%s: element %zu is %.9g, by the generic kernel %.9g", name, i, (double)a[i], (double)b[i]);
    }
}

static float x[LIMIT], w[LIMIT], y[LIMIT], z[LIMIT];

/* Runs c with the kernel for this CPU, one thread and many, and with the generic one. */
static void check_call(call *c, size_t results, double scale)
{
    xcvm_kernel_run run = xcvm_kernel_of(c->schema->opcode);
    c->y.data = y;
    call_run(c, run, 1);
    c->y.data = z;
    call_run(c, run, 2);
    check_bits(c->schema->name, "with two threads", y, z, results);
    call_run(c, kernel_variant(c->schema->opcode, 0), 1);
    check_near(c->schema->name, y, z, results, scale);
    free(c->args);
}

START_TEST(unary_elements)
{
    const xcvm_opcode opcode = unary.at[_i];
    call c;
    const int64_t dims[] = {LIMIT - 7};
    fill(x, LIMIT);
    call_start(&c, opcode);
    call_in(&c, XCVM_F32, 1, dims, x);
    call_out(&c, XCVM_F32, 1, dims, y);
    check_call(&c, LIMIT - 7, 1.0);
    /* Short tensors from anywhere within the long one. */
    for (size_t first = 0; first < 40; first++)
        for (int64_t count = 1; count < 40; count += 3) {
            call_start(&c, opcode);
            call_in(&c, XCVM_F32, 1, &count, x + first);
            call_out(&c, XCVM_F32, 1, &count, z);
            call_run(&c, xcvm_kernel_of(opcode), 1);
            check_bits(c.schema->name, "as one of few", y + first, z, (size_t)count);
            free(c.args);
        }
    call_start(&c, opcode);
    call_in(&c, XCVM_F32, 1, dims, x);
    call_out(&c, XCVM_F32, 1, dims, x);
    call_run(&c, xcvm_kernel_of(opcode), 1);
    check_bits(c.schema->name, "in place", y, x, LIMIT - 7);
    free(c.args);
}
END_TEST

/* Exp has separate vector code for some instruction sets: floats of all magnitudes, subnormal results among them. */
START_TEST(exponentials)
{
    const int64_t dims[] = {LIMIT};
    for (uint64_t first = 0; first <= UINT32_MAX; first += UINT64_C(6007) * LIMIT) {
        for (uint64_t i = 0; i < LIMIT; i++) {
            const uint32_t bits = (uint32_t)(first + 6007 * i);
            memcpy(&x[i], &bits, sizeof bits);
        }
        call c;
        call_start(&c, XCVM_OP_Exp);
        call_in(&c, XCVM_F32, 1, dims, x);
        call_out(&c, XCVM_F32, 1, dims, y);
        call_run(&c, xcvm_kernel_of(XCVM_OP_Exp), 1);
        free(c.args);
        for (size_t i = 0; i < LIMIT; i++) {
            const double exact = exp((double)x[i]), unit = fmax(fabs(exact), 0x1p-126) * 0x1p-23;
            const bool alike = y[i] == (float)exact || (isnan(exact) && isnan(y[i]));
            if (!alike && !(fabs((double)y[i] - exact) <= 1.2 * unit))
                ck_abort_msg("Exp(%.9g) is %.9g instead of %.9g", (double)x[i], (double)y[i], exact);
        }
    }
}
END_TEST

START_TEST(binary_elements)
{
    const xcvm_opcode opcode = binary.at[_i];
    /* Shapes of both operands and the result: equal, scalar, row, column, short rows, both broadcast. */
    static const struct {
        int64_t a[3], b[3], y[3];
    } shapes[] = {
        {{1, 1, 70001}, {1, 1, 70001}, {1, 1, 70001}}, {{1, 1, 70001}, {1, 1, 1}, {1, 1, 70001}},
        {{1, 1, 1}, {1, 1, 70001}, {1, 1, 70001}},     {{1, 300, 301}, {1, 1, 301}, {1, 300, 301}},
        {{1, 300, 301}, {1, 300, 1}, {1, 300, 301}},   {{20, 1000, 3}, {1, 1, 3}, {20, 1000, 3}},
        {{20, 1, 37}, {1, 50, 1}, {20, 50, 37}},       {{7, 1, 5}, {7, 900, 1}, {7, 900, 5}},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        call c;
        size_t count = (size_t)(shapes[s].y[0] * shapes[s].y[1] * shapes[s].y[2]);
        fill(x, LIMIT);
        fill(w, LIMIT);
        call_start(&c, opcode);
        call_in(&c, XCVM_F32, 3, shapes[s].a, x);
        call_in(&c, XCVM_F32, 3, shapes[s].b, w);
        call_out(&c, XCVM_F32, 3, shapes[s].y, y);
        check_call(&c, count, 1.0);
    }
}
END_TEST

START_TEST(line_elements)
{
    const xcvm_opcode opcode = lines[_i];
    static const int64_t shapes[][3] = {{5, 7, 1000}, {200, 3, 1}, {3, 70, 90}, {1, 1, 20000}, {100, 12, 12}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        call c;
        size_t count = (size_t)(shapes[s][0] * shapes[s][1] * shapes[s][2]);
        fill(x, count);
        call_start(&c, opcode);
        call_in(&c, XCVM_F32, 3, shapes[s], x);
        call_out(&c, XCVM_F32, 3, shapes[s], y);
        check_call(&c, count, 4.0);
    }
}
END_TEST

START_TEST(reduced_elements)
{
    const xcvm_opcode opcode = reductions.at[_i];
    static const struct {
        int64_t x[3], axes[3], axis_count, y[3];
    } shapes[] = {
        {{2, 3, 20000}, {2}, 1, {2, 3, 1}},        {{30000, 2, 2}, {0}, 1, {1, 2, 2}},
        {{1, 1, 131072}, {0, 1, 2}, 3, {1, 1, 1}}, {{200, 20, 30}, {0, 2}, 2, {1, 20, 1}},
        {{40, 50, 60}, {1}, 1, {40, 1, 60}},       {{2000, 49, 1}, {1, 2}, 2, {2000, 1, 1}},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        call c;
        size_t count = (size_t)(shapes[s].x[0] * shapes[s].x[1] * shapes[s].x[2]);
        size_t results = (size_t)(shapes[s].y[0] * shapes[s].y[1] * shapes[s].y[2]);
        fill(x, count);
        int64_t axes[3];
        memcpy(axes, shapes[s].axes, sizeof axes);
        call_start(&c, opcode);
        call_in(&c, XCVM_F32, 3, shapes[s].x, x);
        call_in(&c, XCVM_I64, 1, &shapes[s].axis_count, axes);
        call_out(&c, XCVM_F32, 3, shapes[s].y, y);
        /* Sums of numbers of both signs cancel, so the error is relative to the summands. */
        check_call(&c, results, sqrt((double)count));
    }
}
END_TEST

Suite *suite_ops_vector(void);
Suite *suite_ops_vector(void)
{
    Suite *suite = suite_create("ops_vector");
    TCase *cases = tcase_create("vector");
    tcase_set_timeout(cases, 300);
    unary = opcodes_of(XCVM_CLASS_unary);
    binary = opcodes_of(XCVM_CLASS_binary);
    reductions = opcodes_of(XCVM_CLASS_reduction);
    tcase_add_loop_test(cases, unary_elements, 0, unary.count);
    tcase_add_test(cases, exponentials);
    tcase_add_loop_test(cases, binary_elements, 0, binary.count);
    tcase_add_loop_test(cases, line_elements, 0, (int)(sizeof lines / sizeof *lines));
    tcase_add_loop_test(cases, reduced_elements, 0, reductions.count);
    suite_add_tcase(suite, cases);
    return suite;
}
