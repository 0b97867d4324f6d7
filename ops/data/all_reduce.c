/* AllReduce: sums over the processes of data-parallel training. Several tensors are one message, because each message
 * has a fixed cost. AllReduceBegin and AllReduceEnd split the operation, so that the run continues meanwhile. */
#include "base/array.h"
#include "ops/util/kernel.h"
#include "ops/util/reducer_message.h"

XCVM_SHAPE_RULE_OF(AllReduce)
{
    XCVM_CHECK(t->error, a->xs.count == a->ys.count, INVALID_ARGUMENT, "there are %zu results for %zu tensors",
               a->ys.count + 1, a->xs.count + 1);
    xcvm_value_set_tensor(a->y, a->x->dtype, a->x->rank, a->x->dims);
    for (size_t i = 0; i < a->xs.count; i++)
        xcvm_value_set_tensor(a->ys.at[i], a->xs.at[i]->dtype, a->xs.at[i]->rank, a->xs.at[i]->dims);
    return XCVM_OK;
}

/* Tensor i of x and xs. */
static const xcvm_value *part_of(const xcvm_AllReduceBegin_args *a, size_t i)
{
    return i == 0 ? a->x : a->xs.at[i - 1];
}

XCVM_SHAPE_RULE_OF(AllReduceBegin)
{
    char text[2][200];
    bool known;
    XCVM_CHECK(t->error, a->summands.count == 0 || a->summands.count == a->xs.count + 1, INVALID_ARGUMENT,
               "there are %zu summands for %zu tensors", a->summands.count, a->xs.count + 1);
    for (size_t i = 0; i < a->summands.count; i++) {
        const xcvm_value *s = a->summands.at[i], *x = part_of(a, i);
        XCVM_CHECK(t->error, !xcvm_shapes_differ(s, x), SHAPE_MISMATCH, "summand %zu is %s, of a tensor that is %s", i,
                   xcvm_value_describe(s, text[0], sizeof text[0]), xcvm_value_describe(x, text[1], sizeof text[1]));
    }
    if (a->apply != NULL)
        XCVM_TRY(xcvm_scalar_check(t->error, a->apply, "apply", &known));
    xcvm_value_set_tensor(a->message, XCVM_I64, 0, NULL);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(AllReduceEnd)
{
    bool known;
    size_t at = 0;
    XCVM_TRY(xcvm_scalar_check(t->error, a->message, "message", &known));
    XCVM_CHECK(t->error, a->dtype == XCVM_F32 || a->dtype == XCVM_F64, TYPE_MISMATCH, "sums are of f32 or f64, not %s",
               xcvm_dtype_name(a->dtype));
    XCVM_CHECK(t->error, a->ranks.count == a->ys.count + 1, INVALID_ARGUMENT, "there are %zu ranks for %zu results",
               a->ranks.count, a->ys.count + 1);
    for (size_t i = 0; i <= a->ys.count; i++) {
        const size_t rank = (size_t)a->ranks.at[i];
        XCVM_CHECK(t->error, rank <= a->dims.count - at, INVALID_ARGUMENT, "dims are fewer than all ranks together");
        xcvm_value_set_tensor(i == 0 ? a->y : a->ys.at[i - 1], a->dtype, (int)rank, a->dims.at + at);
        at += rank;
    }
    XCVM_CHECK(t->error, at == a->dims.count, INVALID_ARGUMENT, "dims are %zu, but all ranks together %zu",
               a->dims.count, at);
    return XCVM_OK;
}

static xcvm_status copy(xcvm_kernel *k, void *to, const void *from, size_t bytes)
{
    return to != from && bytes > 0 ? xcvm_kernel_copy(k, to, from, bytes) : XCVM_OK;
}

/* Bytes of a tensor and the following ones. */
static xcvm_status add_bytes(xcvm_kernel *k, const xcvm_value *x, xcvm_inputs xs, size_t *bytes)
{
    *bytes = x->bytes;
    for (size_t i = 0; i < xs.count; i++)
        XCVM_CHECK(k->error, xcvm_size_add(*bytes, xs.at[i]->bytes, bytes), OUT_OF_RANGE, "too many elements");
    return XCVM_OK;
}

static xcvm_status gather(xcvm_kernel *k, const xcvm_value *x, xcvm_inputs xs, char *all)
{
    XCVM_TRY(copy(k, all, x->data, x->bytes));
    all += x->bytes;
    for (size_t i = 0; i < xs.count; i++) {
        XCVM_TRY(copy(k, all, xs.at[i]->data, xs.at[i]->bytes));
        all += xs.at[i]->bytes;
    }
    return XCVM_OK;
}

static xcvm_status scatter(xcvm_kernel *k, const char *all, const xcvm_value *y, xcvm_outputs ys)
{
    XCVM_TRY(copy(k, y->data, all, y->bytes));
    all += y->bytes;
    for (size_t i = 0; i < ys.count; i++) {
        XCVM_TRY(copy(k, ys.at[i]->data, all, ys.at[i]->bytes));
        all += ys.at[i]->bytes;
    }
    return XCVM_OK;
}

static size_t elements_in(xcvm_dtype dtype, size_t bytes) { return bytes / ((size_t)xcvm_dtype_bits(dtype) / 8); }

XCVM_KERNEL(AllReduce)
{
    const xcvm_dtype dtype = (xcvm_dtype)a->x->dtype;
    size_t bytes;
    if (a->xs.count == 0) {
        XCVM_TRY(copy(k, a->y->data, a->x->data, a->x->bytes));
        return xcvm_reducer_sum(&k->reducer, dtype, a->y->data, xcvm_element_count(a->y), k->error);
    }
    XCVM_TRY(add_bytes(k, a->x, a->xs, &bytes));
    char *all = xcvm_kernel_scratch(k, bytes);
    if (all == NULL)
        return XCVM_OUT_OF_MEMORY;
    /* Reads everything before it writes, because y may share the memory of x. */
    XCVM_TRY(gather(k, a->x, a->xs, all));
    XCVM_TRY(xcvm_reducer_sum(&k->reducer, dtype, all, elements_in(dtype, bytes), k->error));
    return scatter(k, all, a->y, a->ys);
}

/* ---- Begin and End ---- */

enum { MOST_MESSAGES = 4096 };

/* Finds the free message with the lowest number. It becomes taken when it gets elements. */
static xcvm_status find_free(xcvm_kernel *k, size_t *number)
{
    xcvm_reducer *r = &k->reducer;
    for (*number = 0; *number < r->message_count; ++*number)
        if (r->messages[*number].elements == NULL)
            return XCVM_OK;
    XCVM_CHECK(k->error, r->message_count < MOST_MESSAGES, OUT_OF_RANGE,
               "%d sums over all processes are under way, no more can be", MOST_MESSAGES);
    xcvm_message *messages =
        xcvm_array_grow(k->allocator, r->messages, r->message_count, &r->message_capacity, sizeof *messages);
    XCVM_CHECK(k->error, messages != NULL, OUT_OF_MEMORY, "no memory for the sums over all processes");
    r->messages = messages;
    messages[r->message_count++] = (xcvm_message){.elements = NULL};
    return XCVM_OK;
}

/* Allocates a message's elements. Memory that the host provides counts against the session's limit too. */
static xcvm_status allocate_message(xcvm_kernel *k, size_t bytes, xcvm_message *message)
{
    if (k->reducer.heap == NULL)
        return xcvm_heap_allocate(k->heap, bytes, &message->elements, k->error);
    XCVM_TRY(xcvm_heap_account(k->heap, (ptrdiff_t)bytes, k->error));
    const xcvm_status status = xcvm_heap_allocate(k->reducer.heap, bytes, &message->elements, k->error);
    if (status == XCVM_OK)
        message->counted = bytes;
    else
        (void)xcvm_heap_account(k->heap, -(ptrdiff_t)bytes, k->error);
    return status;
}

static void add_f32(float *restrict to, const float *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += x[i];
}

static void add_f64(double *restrict to, const double *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += x[i];
}

/* In portions, between which the run can be stopped. */
static xcvm_status add_summand(xcvm_kernel *k, xcvm_dtype dtype, void *to, const xcvm_value *summand)
{
    enum { PORTION = 1 << 18 };
    const size_t count = xcvm_element_count(summand);
    for (size_t from = 0; from < count; from += PORTION) {
        const size_t n = count - from < PORTION ? count - from : PORTION;
        XCVM_TRY(xcvm_kernel_poll(k));
        if (dtype == XCVM_F64)
            add_f64((double *)to + from, (const double *)summand->data + from, n);
        else
            add_f32((float *)to + from, (const float *)summand->data + from, n);
    }
    return XCVM_OK;
}

static xcvm_status add_summands(xcvm_kernel *k, const xcvm_AllReduceBegin_args *a, char *all)
{
    for (size_t i = 0; i < a->summands.count; i++) {
        XCVM_TRY(add_summand(k, (xcvm_dtype)a->x->dtype, all, a->summands.at[i]));
        all += a->summands.at[i]->bytes;
    }
    return XCVM_OK;
}

static xcvm_status begin(xcvm_kernel *k, xcvm_message *message)
{
    const xcvm_reducer *r = &k->reducer;
    if (r->begin == NULL || message->count == 0)
        return xcvm_reducer_sum(r, message->dtype, message->elements->data, message->count, k->error);
    XCVM_TRY(xcvm_reducer_explain(k->error, r->begin(r->user, message->dtype, message->elements->data, message->count,
                                                     &message->request, k->error)));
    message->asked = true;
    return XCVM_OK;
}

XCVM_KERNEL(AllReduceBegin)
{
    size_t bytes, number;
    XCVM_TRY(add_bytes(k, a->x, a->xs, &bytes));
    XCVM_TRY(find_free(k, &number));
    xcvm_message *message = &k->reducer.messages[number];
    XCVM_TRY(allocate_message(k, bytes, message));
    message->dtype = (xcvm_dtype)a->x->dtype;
    message->count = elements_in(message->dtype, bytes);
    const bool apply = a->apply == NULL || *(const bool *)a->apply->data;
    xcvm_status status = gather(k, a->x, a->xs, message->elements->data);
    if (status == XCVM_OK && apply)
        status = add_summands(k, a, message->elements->data);
    if (status == XCVM_OK && apply)
        status = begin(k, message);
    if (status != XCVM_OK)
        xcvm_reducer_drop(k->heap, message);
    *(int64_t *)a->message->data = (int64_t)number;
    return status;
}

XCVM_KERNEL(AllReduceEnd)
{
    xcvm_reducer *r = &k->reducer;
    int64_t number;
    size_t count = xcvm_element_count(a->y);
    XCVM_TRY(xcvm_read_int(k->error, a->message, "message", &number));
    xcvm_message *message = number >= 0 && (uint64_t)number < r->message_count ? &r->messages[(size_t)number] : NULL;
    XCVM_CHECK(k->error, message != NULL && message->elements != NULL, INVALID_ARGUMENT,
               "no sum of number %lld is under way", (long long)number);
    for (size_t i = 0; i < a->ys.count; i++)
        XCVM_CHECK(k->error, xcvm_size_add(count, xcvm_element_count(a->ys.at[i]), &count), OUT_OF_RANGE,
                   "too many elements");
    XCVM_CHECK(k->error, message->dtype == a->dtype && message->count == count, SHAPE_MISMATCH,
               "the message has %zu elements of %s, the results %zu of %s", message->count,
               xcvm_dtype_name(message->dtype), count, xcvm_dtype_name(a->dtype));
    while (message->asked) {
        bool done = false;
        const xcvm_status status = r->end(r->user, message->request, &done, k->error);
        message->asked = status == XCVM_OK && !done;
        XCVM_TRY(xcvm_reducer_explain(k->error, status));
        XCVM_TRY(xcvm_kernel_poll(k));
    }
    XCVM_TRY(scatter(k, message->elements->data, a->y, a->ys));
    xcvm_reducer_drop(k->heap, message);
    return XCVM_OK;
}
