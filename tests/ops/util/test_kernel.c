/* Tests of what kernels call: memory, polling, single instructions. */
#include "ops/util/kernel.h"
#include "base/clock.h"
#include "ops/table/table.h"
#include "tests/support.h"

#include <check.h>

/* A kernel by itself, over an allocator that counts. */
typedef struct bench {
    test_allocator allocator;
    xcvm_kernel k;
    xcvm_error error;
} bench;

static bool start(bench *b, size_t fail_at)
{
    test_allocator_start(&b->allocator, fail_at);
    b->error = (xcvm_error){.status = XCVM_OK};
    b->k = (xcvm_kernel){.error = &b->error, .allocator = &b->allocator.allocator};
    return xcvm_heap_create(&b->allocator.allocator, 0, &b->k.heap, &b->error) == XCVM_OK;
}

static void finish(bench *b)
{
    xcvm_storage_release(b->k.scratch_storage);
    ck_assert_uint_eq(xcvm_heap_live(b->k.heap), 0);
    xcvm_heap_destroy(b->k.heap);
    ck_assert_uint_eq(b->allocator.live, 0);
}

/* A set whose sources were not compiled would pass for the one below it: its references are weak. */
START_TEST(every_isa_is_built)
{
    for (size_t i = 1; xcvm_isa_at(i) != NULL; i++)
        ck_assert_msg(xcvm_kernel_for(XCVM_OP_Add, xcvm_isa_at(i)) != xcvm_kernel_for(XCVM_OP_Add, xcvm_isa_at(i - 1)),
                      "%s has no kernels of its own", xcvm_isa_at(i));
#if defined(__x86_64__) && !defined(XCVM_BASELINE_ONLY)
    ck_assert(!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || xcvm_isa_at(1) != NULL);
#endif
}
END_TEST

START_TEST(scratch)
{
    bench b;
    ck_assert(start(&b, 0));
    char *memory = xcvm_kernel_scratch(&b.k, 1000);
    ck_assert_uint_eq((uintptr_t)memory % XCVM_ALIGNMENT, 0);
    memset(memory, 1, 1000);
    size_t requests = b.allocator.requests;
    ck_assert_ptr_eq(xcvm_kernel_scratch(&b.k, 500), memory);
    ck_assert_uint_eq(b.allocator.requests, requests);
    ck_assert_ptr_nonnull(xcvm_kernel_scratch(&b.k, 100000));
    ck_assert_ptr_null(xcvm_kernel_scratch(&b.k, SIZE_MAX));
    ck_assert_int_eq(b.error.status, XCVM_OUT_OF_MEMORY);
    finish(&b);
}
END_TEST

START_TEST(results)
{
    bench b;
    xcvm_value y = {.refs = 0}, z = {.refs = 0};
    ck_assert(start(&b, 0));
    ck_assert_int_eq(xcvm_kernel_allocate(&b.k, &y, XCVM_F32, 2, (int64_t[]){2, 3}), XCVM_OK);
    ck_assert_uint_eq(y.bytes, 24);
    /* Its own dimensions may be requested again. */
    ck_assert_int_eq(xcvm_kernel_allocate(&b.k, &y, XCVM_F64, y.rank, y.dims), XCVM_OK);
    ck_assert_uint_eq(y.bytes, 48);
    ck_assert_int_eq(xcvm_kernel_allocate(&b.k, &z, XCVM_F32, 2, (int64_t[]){INT64_MAX, 3}), XCVM_OUT_OF_RANGE);
    ck_assert_int_eq(xcvm_kernel_keep(&b.k, &z, &y), XCVM_OK);
    ck_assert_ptr_eq(z.data, y.data);
    xcvm_value_clear(&y);
    memset(z.data, 1, z.bytes);
    /* Lent values are copied. */
    xcvm_value lent = z, copy = {.refs = 0};
    lent.storage = NULL;
    lent.memory_kind = XCVM_MEMORY_ARENA;
    ck_assert_int_eq(xcvm_kernel_keep(&b.k, &copy, &lent), XCVM_OK);
    ck_assert_ptr_ne(copy.data, z.data);
    ck_assert_mem_eq(copy.data, z.data, z.bytes);
    xcvm_value_clear(&copy);
    xcvm_value_clear(&z);
    finish(&b);
}
END_TEST

START_TEST(strings)
{
    bench b;
    const char *const texts[] = {"one", "", "three"};
    const int64_t indices[] = {2, -1, 0, 2};
    xcvm_value *from, out = {.refs = 0};
    size_t length;
    ck_assert(start(&b, 0));
    ck_assert_int_eq(xcvm_string_tensor_create(NULL, 1, (int64_t[]){3}, texts, NULL, &from, NULL), XCVM_OK);
    xcvm_value_set_tensor(&out, XCVM_STRING, 2, (int64_t[]){2, 2});
    ck_assert_int_eq(xcvm_kernel_gather_strings(&b.k, &out, from, indices), XCVM_OK);
    ck_assert(xcvm_strings_valid(out.data, out.bytes, 4));
    ck_assert_int_eq(out.rank, 2);
    ck_assert_mem_eq(xcvm_string_at(&out, 3, &length), "three", 5);
    xcvm_string_at(&out, 1, &length);
    ck_assert_uint_eq(length, 0);
    xcvm_value_clear(&out);
    xcvm_value_release(from);
    finish(&b);
}
END_TEST

START_TEST(poll)
{
    bench b;
    uint32_t cancelled = 0;
    ck_assert(start(&b, 0));
    ck_assert_int_eq(xcvm_kernel_poll(&b.k), XCVM_OK);
    b.k.cancelled = &cancelled;
    b.k.deadline_ns = xcvm_clock_ns() + UINT64_C(1000000000000);
    ck_assert_int_eq(xcvm_kernel_poll(&b.k), XCVM_OK);
    b.k.deadline_ns = 1;
    ck_assert_int_eq(xcvm_kernel_poll(&b.k), XCVM_OUT_OF_TIME);
    ck_assert_str_eq(b.error.message, "the deadline has passed");
    cancelled = 1;
    ck_assert_int_eq(xcvm_kernel_poll(&b.k), XCVM_CANCELLED);
    ck_assert_str_eq(b.error.message, "the run was cancelled");
    b.k.error = NULL;
    ck_assert_int_eq(xcvm_kernel_poll(&b.k), XCVM_CANCELLED);
    finish(&b);
}
END_TEST

static xcvm_status execute(bench *b, xcvm_opcode opcode, const void *args)
{
    return xcvm_kernel_execute(&b->k, xcvm_schema_of(opcode), args);
}
#define EXECUTE(b, Name, ...) execute(b, XCVM_OP_##Name, &(const xcvm_##Name##_args){__VA_ARGS__})

static xcvm_status leave_open(const xcvm_inference *t)
{
    xcvm_value_set_tensor(t->out[0], XCVM_F32, 1, (const int64_t[]){XCVM_ANY_DIM});
    return XCVM_OK;
}

/* A rule that does not say how large a result is: its kernel does not run. */
START_TEST(unknown_dimensions)
{
    bench b;
    float one[] = {1};
    xcvm_value x = {.refs = 0}, y = {.refs = 0};
    ck_assert(start(&b, 0));
    xcvm_value_set_tensor(&x, XCVM_F32, 1, (const int64_t[]){1});
    x.data = one;
    const xcvm_Neg_args args = {.y = &y, .x = &x};
    xcvm_schema schema = *xcvm_schema_of(XCVM_OP_Neg);
    ck_assert_int_eq(xcvm_kernel_execute(&b.k, &schema, &args), XCVM_OK);
    xcvm_value_clear(&y);
    schema.shape = leave_open;
    ck_assert_int_eq(xcvm_kernel_execute(&b.k, &schema, &args), XCVM_INTERNAL);
    ck_assert_str_eq(b.error.message, "the dimensions of y, f32[?], do not follow from the operands");
    /* If the definition says that the kernel allocates the result, the kernel does. */
    xcvm_field fields[8];
    ck_assert_uint_le(schema.field_count, 8);
    memcpy(fields, schema.fields, schema.field_count * sizeof *fields);
    fields[0].dynamic = true;
    schema.fields = fields;
    const xcvm_inference t = {.schema = &schema,
                              .args = &args,
                              .in = &args.x,
                              .in_count = 1,
                              .out = &args.y,
                              .out_count = 1,
                              .error = &b.error};
    ck_assert_int_eq(xcvm_infer_run(&t), XCVM_OK);
    finish(&b);
}
END_TEST

/* A few instructions that allocate in every way there is; the results are cleared. */
static xcvm_status execute_some(bench *b, const xcvm_value *x, const xcvm_value *text)
{
    xcvm_value y = {.refs = 0}, sequence = {.refs = 0}, longer = {.refs = 0}, all = {.refs = 0};
    xcvm_status status = EXECUTE(b, Transpose, .y = &y, .x = x);
    xcvm_value_clear(&y);
    if (status == XCVM_OK)
        status = EXECUTE(b, Transpose, .y = &y, .x = text);
    xcvm_value_clear(&y);
    if (status == XCVM_OK)
        status = EXECUTE(b, Unique, .y = &y, .x = x, .axis = INT64_MIN);
    xcvm_value_clear(&y);
    if (status == XCVM_OK)
        status = EXECUTE(b, SplitToSequence, .y = &sequence, .x = x);
    if (status == XCVM_OK)
        status = EXECUTE(b, SequenceInsert, .y = &longer, .s = &sequence, .x = xcvm_items(&sequence));
    if (status == XCVM_OK)
        status = EXECUTE(b, ConcatFromSequence, .y = &all, .s = &longer);
    if (status == XCVM_OK)
        ck_assert_int_eq(all.dims[0], 6);
    xcvm_value_clear(&all);
    xcvm_value_clear(&sequence);
    xcvm_value_clear(&longer);
    return status;
}

START_TEST(every_allocation_fails_in_turn)
{
    xcvm_value *x, *text;
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 2, (int64_t[]){2, 2}, &x, NULL), XCVM_OK);
    memcpy(x->data, (float[]){1, 2, 3, 2}, 16);
    ck_assert_int_eq(
        xcvm_string_tensor_create(NULL, 2, (int64_t[]){2, 1}, (const char *const[]){"a", "bc"}, NULL, &text, NULL),
        XCVM_OK);
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    for (size_t fail_at = 1; status != XCVM_OK; fail_at++) {
        bench b;
        ck_assert_uint_lt(fail_at, 200);
        if (!start(&b, fail_at))
            continue;
        status = execute_some(&b, x, text);
        ck_assert(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY);
        ck_assert(status == XCVM_OK || strlen(b.error.message) != 0);
        finish(&b);
    }
    xcvm_value_release(x);
    xcvm_value_release(text);
}
END_TEST

START_TEST(steady_state)
{
    bench b;
    xcvm_value *x, *text;
    ck_assert(start(&b, 0));
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 2, (int64_t[]){2, 2}, &x, NULL), XCVM_OK);
    memset(x->data, 0, 16);
    ck_assert_int_eq(
        xcvm_string_tensor_create(NULL, 2, (int64_t[]){1, 1}, (const char *const[]){"a"}, NULL, &text, NULL), XCVM_OK);
    ck_assert_int_eq(execute_some(&b, x, text), XCVM_OK);
    ck_assert_int_eq(execute_some(&b, x, text), XCVM_OK);
    size_t requests = b.allocator.requests;
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(execute_some(&b, x, text), XCVM_OK);
    ck_assert_uint_eq(b.allocator.requests, requests);
    xcvm_value_release(x);
    xcvm_value_release(text);
    finish(&b);
}
END_TEST

START_TEST(failures_leave_nothing)
{
    bench b;
    xcvm_value *x, y = {.refs = 0};
    int64_t bad[1] = {7};
    xcvm_value indices = {.memory_kind = XCVM_MEMORY_CONSTANT};
    ck_assert(start(&b, 0));
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 1, (int64_t[]){2}, &x, NULL), XCVM_OK);
    xcvm_value_set_tensor(&indices, XCVM_I64, 1, (int64_t[]){1});
    indices.data = bad;
    ck_assert_int_eq(EXECUTE(&b, Gather, .y = &y, .x = x, .indices = &indices), XCVM_OUT_OF_RANGE);
    ck_assert_int_eq(y.kind, XCVM_KIND_NULL);
    ck_assert_int_eq(execute(&b, XCVM_OP_Jmp, &(const xcvm_Jmp_args){.to = 0}), XCVM_UNSUPPORTED);
    xcvm_value_release(x);
    finish(&b);
}
END_TEST

/* If the register of a sequence is freed directly afterwards, its items are moved, not copied. */
START_TEST(insertion_is_linear)
{
    enum { COUNT = 2000 };
    bench b;
    xcvm_value *x, s = {.refs = 0};
    ck_assert(start(&b, 0));
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 0, NULL, &x, NULL), XCVM_OK);
    ck_assert_int_eq(EXECUTE(&b, SequenceConstruct, .y = &s, .dtype = XCVM_F32), XCVM_OK);
    b.k.last_use = 1;
    int moves = 0;
    for (int i = 0; i < COUNT; i++) {
        xcvm_value y = {.refs = 0};
        const void *before = s.data;
        ck_assert_int_eq(EXECUTE(&b, SequenceInsert, .y = &y, .s = &s, .x = x), XCVM_OK);
        moves += y.data != before;
        xcvm_value_clear(&s);
        s = y;
    }
    ck_assert_uint_eq(s.count, COUNT);
    ck_assert_int_lt(moves, 40);
    ck_assert_uint_eq(x->storage->refs, COUNT + 1);
    /* Another holder of the items forbids it. */
    xcvm_value other = {.refs = 0}, y = {.refs = 0};
    xcvm_value_share(&other, &s);
    ck_assert_int_eq(EXECUTE(&b, SequenceErase, .y = &y, .s = &s), XCVM_OK);
    ck_assert_ptr_ne(y.data, other.data);
    ck_assert_uint_eq(other.count, COUNT);
    ck_assert_int_eq(xcvm_items(&other)[COUNT - 1].kind, XCVM_KIND_TENSOR);
    xcvm_value_clear(&s);
    xcvm_value_clear(&y);
    xcvm_value_clear(&other);
    ck_assert_uint_eq(x->storage->refs, 1);
    xcvm_value_release(x);
    finish(&b);
}
END_TEST

Suite *suite_ops_kernel(void);
Suite *suite_ops_kernel(void)
{
    Suite *suite = suite_create("ops_kernel");
    TCase *tests = tcase_create("kernel");
    tcase_add_test(tests, every_isa_is_built);
    tcase_add_test(tests, scratch);
    tcase_add_test(tests, results);
    tcase_add_test(tests, strings);
    tcase_add_test(tests, poll);
    tcase_add_test(tests, unknown_dimensions);
    tcase_add_test(tests, every_allocation_fails_in_turn);
    tcase_add_test(tests, steady_state);
    tcase_add_test(tests, failures_leave_nothing);
    tcase_add_test(tests, insertion_is_linear);
    suite_add_tcase(suite, tests);
    return suite;
}
