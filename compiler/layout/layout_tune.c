/* Auto-tuning: finds the fastest algorithm of a convolution on this CPU by measurement. */
#include "base/clock.h"
#include "compiler/ir/compilation.h"
#include "compiler/layout/layout.h"
#include "ops/conv/blocked.h"
#include "ops/table/table.h"
#include "ops/util/kernel.h"

#include <time.h>

/* Minimum runs of each algorithm, and nanoseconds for further runs. */
enum { LEAST_RUNS = 3, WAY_NS = 15 * 1000 * 1000 };

/* Limits of the time and of tensors for which measurements are made. */
#define LONGEST_NS 1000000000u
enum { LARGEST_BYTES = 1 << 28, LARGEST_ATTRIBUTE = 1 << 20 };

/* Floats that are accessed between two runs, up to 64 MB, to evict filters from the caches, as the rest of a program
 * does that does not fit in them. */
enum { MOST_SPOILED = 16 * 1024 * 1024, LINE = 16 };

struct xcc_layout_tuning {
    xcc_layout_shape shape;
    const xcc_layout_algorithm *algorithm;
    xcc_layout_tuning *next;
};

typedef struct trial {
    xcc_module *m;
    xcvm_kernel kernel;
    xcvm_error error;
    xcvm_value x, filter, w, b, y;
    float *spoiled;
    size_t spoiled_floats;
} trial;

/* CPU time of this thread in nanoseconds, which other processes affect less. */
static uint64_t thread_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0)
        return xcvm_clock_ns();
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool make_tensor(const trial *t, xcvm_value *v, int rank, const int64_t *dims)
{
    size_t count, bytes;
    if (!xcvm_tensor_size(XCVM_F32, rank, dims, &count, &bytes) || bytes > LARGEST_BYTES)
        return false;
    xcvm_value_set_tensor(v, XCVM_F32, rank, dims);
    v->data = xcvm_allocate(t->m->allocator, v->bytes);
    for (size_t i = 0; v->data != NULL && i < count; i++)
        XCVM_DATA(float, v)[i] = (float)(i % 7) / 8.0f - 0.375f;
    return v->data != NULL;
}

static void free_tensor(const trial *t, xcvm_value *v)
{
    xcvm_deallocate(t->m->allocator, v->data, v->bytes);
    *v = (xcvm_value){.rank = -1};
}

/* Computes the size of the result, assumed if that of x is. Returns false if it is empty. */
static bool set_out(xcc_layout_shape *c)
{
    for (int i = 0; i < c->axes; i++) {
        const int64_t before = c->pads[i], behind = c->pads[c->axes + i];
        if (before > LARGEST_ATTRIBUTE || behind > LARGEST_ATTRIBUTE || before < 0 || behind < 0 ||
            c->dilations[i] > LARGEST_ATTRIBUTE || c->kernel[i] > LARGEST_ATTRIBUTE)
            return false;
        const int64_t reach = (c->kernel[i] - 1) * c->dilations[i] + 1;
        const int64_t room = c->in[i] + before + behind - reach;
        if (room < 0)
            return false;
        c->out[i] = room / c->strides[i] + 1;
    }
    return true;
}

static bool make_tensors(trial *t, const xcc_layout_shape *c)
{
    const int64_t blocks = xcvm_blocks_of(c->outputs), biases = blocks * XCVM_CHANNEL_BLOCK;
    const int64_t channels = c->group * c->channels; /* the model contains such a filter, so there is no overflow */
    const int rank = 2 + c->axes;
    int64_t x[XCVM_MAX_RANK] = {c->batch, c->plain_input ? channels : xcvm_blocks_of(channels)};
    int64_t y[XCVM_MAX_RANK] = {c->batch, blocks}, filter[XCVM_MAX_RANK] = {c->outputs, c->channels};
    for (int i = 0; i < c->axes; i++) {
        x[2 + i] = c->in[i];
        y[2 + i] = c->out[i];
        filter[2 + i] = c->kernel[i];
    }
    x[rank] = y[rank] = XCVM_CHANNEL_BLOCK;
    return make_tensor(t, &t->x, c->plain_input ? rank : rank + 1, x) && make_tensor(t, &t->filter, rank, filter) &&
           make_tensor(t, &t->b, 1, &biases) && make_tensor(t, &t->y, rank + 1, y);
}

static void free_tensors(trial *t)
{
    free_tensor(t, &t->x);
    free_tensor(t, &t->filter);
    free_tensor(t, &t->b);
    free_tensor(t, &t->y);
}

static void spoil_caches(trial *t)
{
    for (size_t i = 0; i < t->spoiled_floats; i += LINE)
        t->spoiled[i] += 1.0f;
}

/* Converts the packed filters to bf16 pairs. Their number of input channels is even. */
static bool round_filters(trial *t)
{
    xcvm_value f32 = t->w;
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, f32.dims, sizeof dims);
    dims[1] /= 2;
    dims[f32.rank] = 2;
    xcvm_value_set_tensor(&t->w, XCVM_BF16, f32.rank + 1, dims);
    t->w.data = xcvm_allocate(t->m->allocator, t->w.bytes);
    if (t->w.data != NULL)
        xcvm_blocked_pack_pairs(f32.data, f32.rank, f32.dims, t->w.data);
    free_tensor(t, &f32);
    return t->w.data != NULL;
}

/* Minimum nanoseconds of several runs; negative if it cannot be computed. */
static double measure(trial *t, const xcc_layout_shape *c, const xcc_layout_algorithm *algorithm)
{
    int64_t dims[XCVM_MAX_RANK];
    double least = -1;
    const size_t axes = (size_t)c->axes;
    if (!make_tensor(t, &t->w, xcc_layout_filter_dims(algorithm, t->filter.rank, t->filter.dims, dims), dims))
        return -1;
    xcc_layout_filter_pack(algorithm, t->filter.data, t->filter.rank, t->filter.dims, t->w.data);
    const bool pairs = c->pairs && algorithm->choice == XCVM_BLOCKED_direct;
    if (pairs && !round_filters(t))
        return -1;
    const xcvm_BlockedConv_args a = {.y = &t->y,
                                     .x = &t->x,
                                     .w = &t->w,
                                     .b = &t->b,
                                     .strides = {c->strides, axes},
                                     .pads = {c->pads, 2 * axes},
                                     .dilations = {c->dilations, axes},
                                     .group = c->group,
                                     .activation = XCVM_ACTIVATION_Relu,
                                     .algorithm = pairs ? XCVM_BLOCKED_direct_pairs : algorithm->choice,
                                     .pool = 1};
    const xcvm_kernel_run run = xcvm_kernel_of(XCVM_OP_BlockedConv);
    const uint64_t start = xcvm_clock_ns();
    t->kernel.deadline_ns = xcc_deadline_within(t->m, LONGEST_NS);
    for (int i = 0; i < LEAST_RUNS || xcvm_clock_ns() - start < WAY_NS; i++) {
        spoil_caches(t);
        const uint64_t begin = thread_ns();
        if (run(&t->kernel, &a) != XCVM_OK) {
            least = -1;
            break;
        }
        const double took = (double)(thread_ns() - begin);
        least = least < 0 || took < least ? took : least;
    }
    free_tensor(t, &t->w);
    return least;
}

static bool is_same(const xcc_layout_shape *a, const xcc_layout_shape *b)
{
    bool same = a->axes == b->axes && a->batch == b->batch && a->group == b->group && a->channels == b->channels &&
                a->outputs == b->outputs && a->plain_input == b->plain_input;
    for (int i = 0; i < a->axes; i++)
        same = same && a->in[i] == b->in[i] && a->out[i] == b->out[i] && a->kernel[i] == b->kernel[i] &&
               a->strides[i] == b->strides[i] && a->dilations[i] == b->dilations[i] && a->pads[i] == b->pads[i] &&
               a->pads[a->axes + i] == b->pads[a->axes + i];
    return same;
}

static size_t filter_floats(const xcc_layout *s)
{
    size_t sum = 0;
    for (size_t i = 0; i < s->count && sum < MOST_SPOILED; i++)
        if (s->candidates[i].kind == XCC_LAYOUT_CONV)
            sum += XCC_ARGS(Conv, s->candidates[i].node)->w->bytes / sizeof(float);
    return sum < MOST_SPOILED ? sum : MOST_SPOILED;
}

/* Returns NULL if none can be measured. */
static const xcc_layout_algorithm *measure_all(xcc_layout *s, xcc_layout_shape c)
{
    const xcc_layout_algorithm *best = NULL;
    double least = 0;
    trial t = {.m = s->m, .spoiled_floats = filter_floats(s)};
    t.kernel = (xcvm_kernel){
        .error = &t.error, .heap = s->m->heap, .allocator = s->m->allocator, .cancelled = s->m->cancelled};
    t.spoiled = xcvm_allocate_zeroed(s->m->allocator, t.spoiled_floats * sizeof *t.spoiled);
    const bool ready = t.spoiled != NULL && set_out(&c) && make_tensors(&t, &c);
    for (size_t i = 0; ready && i < xcc_layout_algorithm_count; i++) {
        const bool late = xcc_stop_status(xcc_stop_of(t.m)) != XCVM_OK;
        const double took =
            !late && xcc_layout_fits(&xcc_layout_algorithms[i], &c) ? measure(&t, &c, &xcc_layout_algorithms[i]) : -1;
        if (took >= 0 && (best == NULL || took < least)) {
            least = took;
            best = &xcc_layout_algorithms[i];
        }
    }
    free_tensors(&t);
    xcvm_deallocate(s->m->allocator, t.spoiled, t.spoiled_floats * sizeof *t.spoiled);
    xcvm_storage_release(t.kernel.scratch_storage);
    return best;
}

const xcc_layout_algorithm *xcc_layout_fastest(xcc_layout *s, const xcc_layout_shape *c)
{
    size_t fitting = 0;
    for (size_t i = 0; i < xcc_layout_algorithm_count; i++)
        fitting += xcc_layout_fits(&xcc_layout_algorithms[i], c);
    if (fitting < 2)
        return NULL;
    for (const xcc_layout_tuning *known = s->tuned; known != NULL; known = known->next)
        if (is_same(&known->shape, c))
            return known->algorithm;
    const xcc_layout_algorithm *algorithm = measure_all(s, *c);
    xcc_layout_tuning *entry = xcc_alloc(s->m, sizeof *entry);
    if (entry != NULL) {
        *entry = (xcc_layout_tuning){*c, algorithm, s->tuned};
        s->tuned = entry;
        s->m->compilation->tuned++;
    }
    return algorithm;
}
