/* Tests of inference with partial knowledge; the case files test full knowledge. */
#include "ops/util/shape.h"
#include "ops/table/table.h"

#include <check.h>

enum { N = -2, M = -3 }; /* two symbols */

static xcvm_value unknown(void) { return (xcvm_value){.kind = XCVM_KIND_NULL, .rank = -1}; }

static xcvm_value shaped(xcvm_dtype dtype, int rank, const int64_t *dims)
{
    xcvm_value v = {.refs = 0};
    xcvm_value_set_tensor(&v, dtype, rank, dims);
    return v;
}
#define SHAPED(dtype, ...)                                                                                             \
    shaped(XCVM_##dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* A constant list; its elements are lent. */
static xcvm_value list_of(size_t count, const int64_t *ints)
{
    xcvm_value v = shaped(XCVM_I64, 1, &(int64_t){(int64_t)count});
    v.data = (void *)ints;
    return v;
}
#define LIST(...) list_of(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

static xcvm_error error;

static xcvm_status infer(xcvm_opcode opcode, const void *args)
{
    const xcvm_schema *schema = xcvm_schema_of(opcode);
    const xcvm_value *in[16];
    xcvm_value *out[16];
    xcvm_inference t = {.schema = schema, .args = args, .in = in, .out = out, .error = &error};
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        for (size_t j = 0; xcvm_field_is_operand(f) && j < xcvm_field_count(f, args); j++) {
            const xcvm_value *v = xcvm_field_value(f, args, j);
            if (f->role == XCVM_ROLE_OUT)
                out[t.out_count++] = (xcvm_value *)v;
            else
                in[t.in_count++] = v;
        }
    }
    error.message[0] = '\0';
    return xcvm_infer(&t);
}
#define INFER(Name, ...) infer(XCVM_OP_##Name, &(const xcvm_##Name##_args){__VA_ARGS__})

static void check_is(const xcvm_value *y, xcvm_dtype dtype, int rank, const int64_t *dims)
{
    ck_assert_msg(error.message[0] == '\0', "%s", error.message);
    ck_assert_int_eq(y->kind, XCVM_KIND_TENSOR);
    ck_assert_int_eq(y->dtype, dtype);
    ck_assert_int_eq(y->rank, rank);
    for (int i = 0; i < rank; i++)
        ck_assert_int_eq(y->dims[i], dims[i]);
}
#define CHECK_IS(y, dtype, ...)                                                                                        \
    check_is(&(y), XCVM_##dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define CHECK_RANK_UNKNOWN(y, dtype) check_is(&(y), XCVM_##dtype, -1, NULL)

static void check_refused(xcvm_status got, xcvm_status expected, const char *part)
{
    ck_assert_int_eq(got, expected);
    ck_assert_msg(strstr(error.message, part) != NULL, "%s", error.message);
}

START_TEST(dimensions)
{
    int64_t dim;
    const struct {
        int64_t a, b, result;
    } cases[] = {{1, 5, 5},
                 {5, 1, 5},
                 {5, 5, 5},
                 {N, 1, N},
                 {1, N, N},
                 {N, 5, 5},
                 {0, N, 0},
                 {N, N, N},
                 {N, M, XCVM_ANY_DIM},
                 {XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM},
                 {0, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(xcvm_broadcast_dim(NULL, cases[i].a, cases[i].b, &dim), XCVM_OK);
        ck_assert_int_eq(dim, cases[i].result);
    }
    ck_assert_int_eq(xcvm_broadcast_dim(&error, 2, 3, &dim), XCVM_SHAPE_MISMATCH);
    ck_assert_int_eq(xcvm_broadcast_dim(&error, 0, 3, &dim), XCVM_SHAPE_MISMATCH);
    ck_assert_int_eq(xcvm_dims_product((int64_t[]){2, 3, 4}, 1, 3), 12);
    ck_assert_int_eq(xcvm_dims_product((int64_t[]){1, N, 1}, 0, 3), N);
    ck_assert_int_eq(xcvm_dims_product((int64_t[]){2, N}, 0, 2), XCVM_ANY_DIM);
    ck_assert_int_eq(xcvm_dims_product((int64_t[]){N, M}, 0, 2), XCVM_ANY_DIM);
    ck_assert_int_eq(xcvm_dims_product((int64_t[]){N, 0}, 0, 2), 0);
    ck_assert_int_eq(xcvm_dims_product((int64_t[]){INT64_MAX, 2}, 0, 2), XCVM_ANY_DIM);
    int axis;
    ck_assert_int_eq(xcvm_resolve_axis(&error, -1, 3, &axis), XCVM_OK);
    ck_assert_int_eq(axis, 2);
    ck_assert_int_eq(xcvm_resolve_axis(&error, 0, 0, &axis), XCVM_OUT_OF_RANGE);
    ck_assert_int_eq(xcvm_resolve_axis(&error, INT64_MIN, 8, &axis), XCVM_OUT_OF_RANGE);
}
END_TEST

START_TEST(elements)
{
    const uint64_t large[1] = {UINT64_MAX};
    const float floats[3] = {-2.75f, 1e30f, 0.0f / 1.0f};
    const uint16_t half[1] = {0x3e00};
    xcvm_value v = SHAPED(U64, 1);
    v.data = (void *)large;
    ck_assert_int_eq(xcvm_element_as_int(&v, 0), INT64_MAX);
    ck_assert_double_eq(xcvm_element_as_double(&v, 0), 0x1p64);
    v = SHAPED(F32, 3);
    v.data = (void *)floats;
    ck_assert_int_eq(xcvm_element_as_int(&v, 0), -2);
    ck_assert_int_eq(xcvm_element_as_int(&v, 1), INT64_MAX);
    v = SHAPED(F16, 1);
    v.data = (void *)half;
    ck_assert_double_eq(xcvm_element_as_double(&v, 0), 1.5);
    int64_t ints[4];
    size_t count = 77;
    bool known;
    v = SHAPED(I64, XCVM_ANY_DIM);
    ck_assert_int_eq(xcvm_read_ints(&error, &v, "v", ints, 4, &count, &known), XCVM_OK);
    ck_assert(!known && count == 77);
    v = LIST(4, 5);
    ck_assert_int_eq(xcvm_read_ints(&error, &v, "v", ints, 4, &count, &known), XCVM_OK);
    ck_assert(known && count == 2 && ints[1] == 5);
    v = LIST(1, 2, 3, 4, 5);
    check_refused(xcvm_read_ints(&error, &v, "v", ints, 4, &count, &known), XCVM_SHAPE_MISMATCH,
                  "v has too many elements (5");
    v = SHAPED(I64, 1, 1);
    check_refused(xcvm_read_ints(&error, &v, "v", ints, 4, &count, &known), XCVM_SHAPE_MISMATCH,
                  "v has the wrong rank (2");
}
END_TEST

START_TEST(types)
{
    xcvm_value f = SHAPED(F32, 2), i = SHAPED(I32, 2), s = SHAPED(STRING, 2), u = unknown(), null = {.rank = 0}, y;
    xcvm_value typeless = SHAPED(NO_DTYPE, 2);
    check_refused(INFER(Add, .y = &y, .a = &f, .b = &i), XCVM_TYPE_MISMATCH,
                  "a has element type f32 and b i32, but they must be the same");
    check_refused(INFER(Add, .y = &y, .a = &s, .b = &s), XCVM_TYPE_MISMATCH, "a has element type str, allowed are f32");
    check_refused(INFER(Add, .y = &y, .a = &f, .b = NULL), XCVM_INVALID_ARGUMENT, "b is absent");
    check_refused(INFER(Add, .y = &y, .a = &f, .b = &null), XCVM_TYPE_MISMATCH,
                  "b has the wrong type (null; expected a tensor)");
    xcvm_value sequence = unknown();
    sequence.kind = XCVM_KIND_SEQUENCE;
    check_refused(INFER(Add, .y = &y, .a = &f, .b = &sequence), XCVM_TYPE_MISMATCH,
                  "b has the wrong type (seq(?); expected a tensor)");
    check_refused(INFER(SequenceLength, .y = &y, .s = &f), XCVM_TYPE_MISMATCH,
                  "s has the wrong type (f32[2]; expected a sequence)");
    /* Unknown operands are accepted, and known facts of the others are used. */
    ck_assert_int_eq(INFER(Add, .y = &y, .a = &u, .b = &f), XCVM_OK);
    CHECK_RANK_UNKNOWN(y, F32);
    ck_assert_int_eq(INFER(Add, .y = &y, .a = &typeless, .b = &f), XCVM_OK);
    CHECK_IS(y, F32, 2);
    ck_assert_int_eq(INFER(Add, .y = &y, .a = &u, .b = &u), XCVM_OK);
    CHECK_RANK_UNKNOWN(y, NO_DTYPE);
    ck_assert_int_eq(INFER(Shape, .y = &y, .x = &u, .end = INT64_MAX), XCVM_OK);
    CHECK_IS(y, I64, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(Equal, .y = &y, .a = &u, .b = &s), XCVM_OK);
    CHECK_RANK_UNKNOWN(y, BOOL);
}
END_TEST

START_TEST(broadcasts)
{
    xcvm_value y, a = SHAPED(F32, N, 1, 3), b = SHAPED(F32, M, 1), c = SHAPED(BOOL, N, M, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(Add, .y = &y, .a = &a, .b = &b), XCVM_OK);
    CHECK_IS(y, F32, N, M, 3);
    ck_assert_int_eq(INFER(Less, .y = &y, .a = &a, .b = &b), XCVM_OK);
    CHECK_IS(y, BOOL, N, M, 3);
    ck_assert_int_eq(INFER(Where, .y = &y, .condition = &c, .x = &a, .z = &b), XCVM_OK);
    CHECK_IS(y, F32, N, M, 3);
    xcvm_value d = SHAPED(F32, 4);
    check_refused(INFER(Add, .y = &y, .a = &a, .b = &d), XCVM_SHAPE_MISMATCH,
                  "shapes [?x1x3] and [4] do not broadcast");
    ck_assert_int_eq(INFER(Cast, .y = &y, .x = &a, .to = XCVM_I8), XCVM_OK);
    CHECK_IS(y, I8, N, 1, 3);
    check_refused(INFER(Cast, .y = &y, .x = &a), XCVM_INVALID_ARGUMENT, "to");
}
END_TEST

START_TEST(reshapes)
{
    xcvm_value y, x = SHAPED(F32, N, 3, 4), open = SHAPED(F32, XCVM_ANY_DIM, 3, 4), u = unknown();
    xcvm_value flat = LIST(0, -1), rows = LIST(-1, 12), halves = LIST(2, -1, 6), fixed = LIST(2, 3, 4);
    xcvm_value open_list = SHAPED(I64, 3), open_length = SHAPED(I64, XCVM_ANY_DIM), long_list = SHAPED(I64, 9);
    ck_assert_int_eq(INFER(Reshape, .y = &y, .x = &x, .shape = &flat), XCVM_OK);
    CHECK_IS(y, F32, N, 12);
    ck_assert_int_eq(INFER(Reshape, .y = &y, .x = &x, .shape = &rows), XCVM_OK);
    CHECK_IS(y, F32, N, 12);
    ck_assert_int_eq(INFER(Reshape, .y = &y, .x = &x, .shape = &halves), XCVM_OK);
    CHECK_IS(y, F32, 2, N, 6);
    ck_assert_int_eq(INFER(Reshape, .y = &y, .x = &x, .shape = &fixed), XCVM_OK);
    CHECK_IS(y, F32, 2, 3, 4);
    ck_assert_int_eq(INFER(Reshape, .y = &y, .x = &open, .shape = &flat), XCVM_OK);
    CHECK_IS(y, F32, XCVM_ANY_DIM, 12);
    ck_assert_int_eq(INFER(Reshape, .y = &y, .x = &u, .shape = &flat), XCVM_OK);
    CHECK_IS(y, NO_DTYPE, XCVM_ANY_DIM, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(Reshape, .y = &y, .x = &x, .shape = &open_list), XCVM_OK);
    CHECK_IS(y, F32, XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(Reshape, .y = &y, .x = &x, .shape = &open_length), XCVM_OK);
    CHECK_RANK_UNKNOWN(y, F32);
    check_refused(INFER(Reshape, .y = &y, .x = &x, .shape = &long_list), XCVM_UNSUPPORTED,
                  "unsupported rank (9; expected at most 8)");
    ck_assert_int_eq(INFER(Flatten, .y = &y, .x = &x, .axis = 1), XCVM_OK);
    CHECK_IS(y, F32, N, 12);
    ck_assert_int_eq(INFER(Flatten, .y = &y, .x = &u, .axis = 1), XCVM_OK);
    CHECK_IS(y, NO_DTYPE, XCVM_ANY_DIM, XCVM_ANY_DIM);
    xcvm_value ones = SHAPED(F32, 1, N, 1), first = LIST(0), two_axes = SHAPED(I64, 2);
    ck_assert_int_eq(INFER(Squeeze, .y = &y, .x = &ones), XCVM_OK);
    CHECK_RANK_UNKNOWN(y, F32);
    ck_assert_int_eq(INFER(Squeeze, .y = &y, .x = &ones, .axes = &first), XCVM_OK);
    CHECK_IS(y, F32, N, 1);
    ck_assert_int_eq(INFER(Squeeze, .y = &y, .x = &ones, .axes = &two_axes), XCVM_OK);
    CHECK_IS(y, F32, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(Unsqueeze, .y = &y, .x = &ones, .axes = &first), XCVM_OK);
    CHECK_IS(y, F32, 1, 1, N, 1);
    ck_assert_int_eq(INFER(Unsqueeze, .y = &y, .x = &ones, .axes = &two_axes), XCVM_OK);
    CHECK_IS(y, F32, XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM);
}
END_TEST

START_TEST(joins)
{
    xcvm_value y, z, a = SHAPED(F32, N, 2), b = SHAPED(F32, XCVM_ANY_DIM, 3), c = SHAPED(F32, 5, XCVM_ANY_DIM),
                     u = unknown();
    ck_assert_int_eq(INFER(Concat, .y = &y, .xs = {(const xcvm_value *[]){&a, &b}, 2}, .axis = 1), XCVM_OK);
    CHECK_IS(y, F32, N, 5);
    ck_assert_int_eq(INFER(Concat, .y = &y, .xs = {(const xcvm_value *[]){&a, &c}, 2}, .axis = 1), XCVM_OK);
    CHECK_IS(y, F32, 5, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(Concat, .y = &y, .xs = {(const xcvm_value *[]){&a, &u}, 2}, .axis = 1), XCVM_OK);
    CHECK_IS(y, F32, N, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(Concat, .y = &y, .xs = {(const xcvm_value *[]){&u, &u}, 2}, .axis = 1), XCVM_OK);
    CHECK_RANK_UNKNOWN(y, NO_DTYPE);
    xcvm_value sizes = LIST(1, 2), some = SHAPED(I64, 2);
    xcvm_outputs both = {(xcvm_value *[]){&y, &z}, 2};
    ck_assert_int_eq(INFER(Split, .ys = both, .x = &a, .split = &sizes, .axis = 0), XCVM_OK);
    CHECK_IS(y, F32, 1, 2);
    CHECK_IS(z, F32, 2, 2);
    ck_assert_int_eq(INFER(Split, .ys = both, .x = &a, .split = &some, .axis = 1), XCVM_OK);
    CHECK_IS(z, F32, N, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(Split, .ys = both, .x = &a, .axis = 1), XCVM_OK);
    CHECK_IS(z, F32, N, 1);
    ck_assert_int_eq(INFER(Split, .ys = both, .x = &a, .axis = 0), XCVM_OK);
    CHECK_IS(z, F32, XCVM_ANY_DIM, 2);
}
END_TEST

START_TEST(slices)
{
    xcvm_value y, x = SHAPED(F32, N, 8), zero = LIST(0), one = LIST(1), most = LIST(INT64_MAX), four = LIST(4),
                  second = LIST(1), open = SHAPED(I64, 1), many = SHAPED(I64, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(Slice, .y = &y, .x = &x, .starts = &zero, .ends = &most), XCVM_OK);
    CHECK_IS(y, F32, N, 8);
    ck_assert_int_eq(INFER(Slice, .y = &y, .x = &x, .starts = &one, .ends = &most), XCVM_OK);
    CHECK_IS(y, F32, XCVM_ANY_DIM, 8);
    ck_assert_int_eq(INFER(Slice, .y = &y, .x = &x, .starts = &one, .ends = &four, .axes = &second), XCVM_OK);
    CHECK_IS(y, F32, N, 3);
    ck_assert_int_eq(INFER(Slice, .y = &y, .x = &x, .starts = &open, .ends = &four, .axes = &second), XCVM_OK);
    CHECK_IS(y, F32, N, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(Slice, .y = &y, .x = &x, .starts = &open, .ends = &open), XCVM_OK);
    CHECK_IS(y, F32, XCVM_ANY_DIM, 8);
    ck_assert_int_eq(INFER(Slice, .y = &y, .x = &x, .starts = &many, .ends = &many), XCVM_OK);
    CHECK_IS(y, F32, XCVM_ANY_DIM, XCVM_ANY_DIM);
    xcvm_value pads = LIST(0, 1, 0, 2), some_pads = SHAPED(I64, 2);
    ck_assert_int_eq(INFER(Pad, .y = &y, .x = &x, .pads = &pads), XCVM_OK);
    CHECK_IS(y, F32, N, 11);
    ck_assert_int_eq(INFER(Pad, .y = &y, .x = &x, .pads = &some_pads, .axes = &second), XCVM_OK);
    CHECK_IS(y, F32, N, XCVM_ANY_DIM);
    xcvm_value repeats = LIST(1, 2);
    ck_assert_int_eq(INFER(Tile, .y = &y, .x = &x, .repeats = &repeats), XCVM_OK);
    CHECK_IS(y, F32, N, 16);
    xcvm_value shape = LIST(3, 1, 1), open_shape = SHAPED(I64, 3);
    ck_assert_int_eq(INFER(Expand, .y = &y, .x = &x, .shape = &shape), XCVM_OK);
    CHECK_IS(y, F32, 3, N, 8);
    ck_assert_int_eq(INFER(Expand, .y = &y, .x = &x, .shape = &open_shape), XCVM_OK);
    CHECK_IS(y, F32, XCVM_ANY_DIM, XCVM_ANY_DIM, 8);
    ck_assert_int_eq(INFER(Transpose, .y = &y, .x = &x, .perm = {(const int64_t[]){1, 0}, 2}), XCVM_OK);
    CHECK_IS(y, F32, 8, N);
}
END_TEST

START_TEST(indices)
{
    xcvm_value y, z, x = SHAPED(F32, N, 8), i = SHAPED(I64, M, 3), tuples = SHAPED(I64, M, 2), u = unknown(),
                     open = SHAPED(I64, 1), depth = SHAPED(I64, 1), values = SHAPED(F32, 2), three = LIST(3);
    ck_assert_int_eq(INFER(Gather, .y = &y, .x = &x, .indices = &i, .axis = 1), XCVM_OK);
    CHECK_IS(y, F32, N, M, 3);
    ck_assert_int_eq(INFER(Gather, .y = &y, .x = &x, .indices = &u, .axis = 1), XCVM_OK);
    CHECK_RANK_UNKNOWN(y, F32);
    ck_assert_int_eq(INFER(GatherND, .y = &y, .x = &x, .indices = &tuples), XCVM_OK);
    CHECK_IS(y, F32, M);
    ck_assert_int_eq(INFER(GatherElements, .y = &y, .x = &x, .indices = &i, .axis = 1), XCVM_OK);
    CHECK_IS(y, F32, M, 3);
    ck_assert_int_eq(INFER(OneHot, .y = &y, .indices = &i, .depth = &depth, .values = &values, .axis = -1), XCVM_OK);
    CHECK_IS(y, F32, M, 3, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(TopK, .values = &y, .indices = &z, .x = &x, .k = &open, .axis = -1), XCVM_OK);
    CHECK_IS(y, F32, N, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(TopK, .values = &y, .indices = &z, .x = &x, .k = &three, .axis = 0), XCVM_OK);
    CHECK_IS(z, I64, 3, 8);
    ck_assert_int_eq(INFER(NonZero, .y = &y, .x = &x), XCVM_OK);
    CHECK_IS(y, I64, 2, XCVM_ANY_DIM);
    ck_assert_int_eq(INFER(NonZero, .y = &y, .x = &u), XCVM_OK);
    CHECK_IS(y, I64, XCVM_ANY_DIM, XCVM_ANY_DIM);
}
END_TEST

/* A grid must have axes, also where nothing is known of x. */
START_TEST(scalar_grid)
{
    const xcvm_value x = unknown(), grid = shaped(XCVM_F32, 0, NULL);
    xcvm_value y;
    ck_assert_int_eq(INFER(GridSample, .y = &y, .x = &x, .grid = &grid), XCVM_SHAPE_MISMATCH);
    ck_assert_str_eq(error.message, "grid has the wrong rank (0; expected at least 3)");
}
END_TEST

/* Every rule must accept operands without any known facts, if they are present. */
START_TEST(nothing_known)
{
    for (int64_t opcode = 1; opcode < XCVM_OPCODE_LIMIT; opcode++) {
        const xcvm_schema *schema = xcvm_schema_of(opcode);
        if (schema == NULL || schema->shape == NULL)
            continue;
        xcvm_value operand = unknown(), results[8];
        const xcvm_value *in[16];
        xcvm_value *out[8];
        /* Argument structs are smaller than this. */
        _Alignas(16) unsigned char args[1024] = {0};
        ck_assert_uint_le(schema->args_size, sizeof args);
        xcvm_inference t = {.schema = schema, .args = args, .in = in, .out = out, .error = &error};
        const xcvm_value *list[1] = {&operand};
        xcvm_value *result_list[1] = {&results[7]};
        for (size_t i = 0; i < schema->field_count; i++) {
            const xcvm_field *f = &schema->fields[i];
            void *at = args + f->offset;
            if (f->role == XCVM_ROLE_OUT && xcvm_field_is_list(f)) {
                *(xcvm_outputs *)at = (xcvm_outputs){result_list, 1};
                out[t.out_count++] = &results[7];
            } else if (f->role == XCVM_ROLE_OUT) {
                *(xcvm_value **)at = out[t.out_count] = &results[t.out_count];
                t.out_count++;
            } else if (xcvm_field_is_input(f) && xcvm_field_is_list(f)) {
                *(xcvm_inputs *)at = (xcvm_inputs){list, 1};
                in[t.in_count++] = &operand;
            } else if (xcvm_field_is_input(f)) {
                *(const xcvm_value **)at = in[t.in_count++] = &operand;
            } else if (f->kind == XCVM_FIELD_INT) {
                *(int64_t *)at = f->int_default;
            } else if (f->kind == XCVM_FIELD_DTYPE) {
                *(xcvm_dtype *)at = f->int_default != 0 ? (xcvm_dtype)f->int_default : XCVM_F32;
            }
        }
        xcvm_status status = xcvm_infer(&t);
        /* Attributes that list one entry for each axis may well be refused when empty; nothing may crash. */
        ck_assert_msg(status != XCVM_INTERNAL, "%s: %s", schema->name, error.message);
        if (status == XCVM_OK)
            (void)schema->cost(&t);
    }
}
END_TEST

Suite *suite_ops_shape(void);
Suite *suite_ops_shape(void)
{
    Suite *suite = suite_create("ops_shape");
    TCase *tests = tcase_create("shape");
    tcase_add_test(tests, dimensions);
    tcase_add_test(tests, elements);
    tcase_add_test(tests, types);
    tcase_add_test(tests, broadcasts);
    tcase_add_test(tests, reshapes);
    tcase_add_test(tests, joins);
    tcase_add_test(tests, slices);
    tcase_add_test(tests, indices);
    tcase_add_test(tests, scalar_grid);
    tcase_add_test(tests, nothing_known);
    suite_add_tcase(suite, tests);
    return suite;
}
