/* One session at several sizes in turn: the results are those of the size at hand, and once each size has been seen the
 * allocator is left alone. */
#include "tests/vm/support.h"

enum { LONGEST = 40, COLUMNS = 3 };

static const int sizes[] = {2, 7, 40, 1, 7, 0, 2, 40, 3};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Results in memory that the planner took over, in views, in place, and of a size that only the elements decide. */
static const char program_text[] =
    "input x f32[Nx3]\n"
    "output product f32[2xN]\n"
    "output twice f32[?x3]\n"
    "output convolved f32[1x1x?x3]\n"
    "output where i64[2x?]\n"
    "$1 = In(name=\"x\")\n"
    "$2 = MatMul($1, f32[3x2] 1 2 3 4 5 6)\n"
    "$3 = Add($2, f32[2] 0.5 -1)\n"
    "Free($2)\n"
    "$4 = Transpose($3, perm=[1 0])\n"
    "Free($3)\n"
    "Out($4, name=\"product\")\n"
    "Free($4)\n"
    "$5 = Neg($1)\n"
    "$6 = Concat([$1, $5], axis=0)\n"
    "Free($5)\n"
    "Out($6, name=\"twice\")\n"
    "Free($6)\n"
    "$7 = Unsqueeze($1, i64[2] 0 1)\n"
    "$8 = Conv($7, f32[1x1x3x1] 1 2 4, _, strides=[1 1], dilations=[1 1], pads=[2 0 2 0])\n"
    "Free($7)\n"
    "Out($8, name=\"convolved\")\n"
    "Free($8)\n"
    "$9 = NonZero($1)\n"
    "Out($9, name=\"where\")\n"
    "Free($9)\n";

static float element(const float *x, int n, int row, int column)
{
    return row < 0 || row >= n ? 0 : x[row * COLUMNS + column];
}

static const xcvm_value *output_of(const xcvm_session *session, size_t index, int rank, const int64_t *dims)
{
    const xcvm_value *y = xcvm_session_get_output(session, index);
    ck_assert_ptr_nonnull(y);
    ck_assert_int_eq(xcvm_value_rank(y), rank);
    for (int i = 0; i < rank; i++)
        ck_assert_int_eq(xcvm_value_dims(y)[i], dims[i]);
    return y;
}

static void run_at(xcvm_session *session, int n, int round)
{
    static float x[LONGEST * COLUMNS];
    int64_t nonzero = 0;
    for (int i = 0; i < n * COLUMNS; i++) {
        x[i] = (float)((i * 5 + round * 3) % 7 - 3);
        nonzero += x[i] < 0 || x[i] > 0;
    }
    set_f32(session, 0, 2, DIMS(n, COLUMNS), x);
    run_session(session);

    const float *product = XCVM_CDATA(float, output_of(session, 0, 2, DIMS(2, n)));
    const float *twice = XCVM_CDATA(float, output_of(session, 1, 2, DIMS(2 * n, COLUMNS)));
    const float *convolved = XCVM_CDATA(float, output_of(session, 2, 4, DIMS(1, 1, n + 2, COLUMNS)));
    const int64_t *where = XCVM_CDATA(int64_t, output_of(session, 3, 2, DIMS(2, nonzero)));
    for (int i = 0; i < n + 2; i++)
        for (int j = 0; j < COLUMNS; j++)
            ck_assert_float_eq(convolved[i * COLUMNS + j],
                               element(x, n, i - 2, j) + 2 * element(x, n, i - 1, j) + 4 * element(x, n, i, j));
    int64_t seen = 0;
    for (int i = 0; i < n; i++) {
        const float *row = x + i * COLUMNS;
        ck_assert_float_eq(product[i], row[0] + 3 * row[1] + 5 * row[2] + 0.5f);
        ck_assert_float_eq(product[n + i], 2 * row[0] + 4 * row[1] + 6 * row[2] - 1);
        for (int j = 0; j < COLUMNS; j++) {
            ck_assert_float_eq(twice[i * COLUMNS + j], row[j]);
            ck_assert_float_eq(twice[(n + i) * COLUMNS + j], -row[j]);
            if (row[j] < 0 || row[j] > 0) {
                ck_assert_int_eq(where[seen], i);
                ck_assert_int_eq(where[nonzero + seen], j);
                seen++;
            }
        }
    }
}

START_TEST(sizes_in_turn)
{
    counter c = {0};
    xcvm_allocator allocator = counting(&c);
    xcvm_program *program = NULL;
    xcvm_error error;
    ck_assert_msg(try_load(program_text, &allocator, &program, &error) == XCVM_OK, "%s", error.message);
    xcvm_session *session = open_default_session(program);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < SIZES; i++)
            run_at(session, sizes[i], round);
    size_t before = c.allocations;
    for (int round = 2; round < 6; round++)
        for (int i = 0; i < SIZES; i++)
            run_at(session, sizes[i], round);
    ck_assert_uint_eq(c.allocations, before);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    ck_assert_uint_eq(c.live_bytes, 0);
}
END_TEST

/* A refused input between two runs does not change the binding. */
START_TEST(refused_between_runs)
{
    xcvm_program *program = load(program_text);
    xcvm_session *session = open_default_session(program);
    static float x[16];
    static const struct {
        int rank;
        int64_t dims[3];
    } bad[] = {{1, {3}}, {2, {2, 4}}, {3, {1, 2, 3}}, {0, {0}}};
    run_at(session, 2, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        xcvm_value *tensor = NULL;
        xcvm_error error = {0};
        ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, bad[i].rank, bad[i].dims, x, (xcvm_finalizer){0}, &tensor, NULL),
                         XCVM_OK);
        ck_assert_int_ne(xcvm_session_set_input(session, 0, tensor, &error), XCVM_OK);
        ck_assert_msg(strstr(error.message, "\"x\"") != NULL && strstr(error.message, "f32[Nx3]") != NULL, "%s",
                      error.message);
        xcvm_value_release(tensor);
        run_session(session);
        run_at(session, (int)i + 1, 1);
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

Suite *suite_vm_sizes(void);
Suite *suite_vm_sizes(void) { return SUITE_OF("vm_sizes", sizes_in_turn, refused_between_runs); }
