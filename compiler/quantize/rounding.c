/* Rounds weights by the data. The float model runs on the data again, the inputs of sums of products are gathered as
 * rows, and weights are rounded to minimize the error of the sums. Moments need more memory than weights. So a few
 * nodes, as many as fit, are processed at a time, and the data is read again for the next ones. */
#include "compiler/quantize/compiled_model.h"

#include "base/value.h"
#include "compiler/onnx_model/onnx_model.h"
#include "ops/conv/window.h"

#include <string.h>

enum {
    MOST_OUTPUT_BYTES = 256 << 20, /* of moments at once */
    ROWS = 64,                     /* gathered at once */
    /* Number of rows for moments: a multiple of the inputs in a block, with a minimum. More rows than inputs are needed
     * to estimate correlations; many more change little. */
    ROWS_FOR_INPUT = 4,
    LEAST_ROWS = 2048,
};

/* A node whose weights are rounded. */
typedef struct job {
    const xcc_quant_node *node;
    const xcc_quant_tensor *x;
    xcc_tensor weights;
    xcc_moments moments;
    size_t rows;   /* of each batch, if there are as many */
    size_t places; /* of a convolution's window */
} job;

/* ---- Weights as rows ---- */

void xcc_weight_layout_of(const xcc_quant_node *n, const xcc_tensor *w, xcc_weight_layout *layout, size_t *groups)
{
    if (xcc_quant_is(n, "Conv")) {
        *groups = (size_t)xcc_quant_int(n, "group", 1);
        *layout =
            (xcc_weight_layout){.outputs = (size_t)w->dims[0], .output = w->count / (size_t)w->dims[0], .input = 1};
        return;
    }
    const size_t rows = (size_t)w->dims[0], columns = (size_t)w->dims[1];
    *groups = 1;
    *layout = xcc_quant_is(n, "Gemm") && xcc_quant_int(n, "transB", 0) != 0
                  ? (xcc_weight_layout){.outputs = rows, .output = columns, .input = 1}
                  : (xcc_weight_layout){.outputs = columns, .output = 1, .input = columns};
}

/* Returns true if rows of inputs exist for its weights, and nothing else reads the weights. */
static xcvm_status take_job(quantizer *q, const xcc_quant_node *n, job *j, bool *taken)
{
    const xcc_quant_tensor *t = xcc_quant_input(q, n, 1);
    const bool conv = n->rule != NULL && xcc_quant_is(n, "Conv");
    *taken = false;
    if (!n->quantized || n->gone || n->rule->kind != XCC_QUANT_WEIGHTED || xcc_quant_is(n, "ConvTranspose") ||
        !xcc_quant_is_weight(t) || t->consumer_count != 1 || t->captured)
        return XCVM_OK;
    *j = (job){.node = n, .x = xcc_quant_input(q, n, 0)};
    XCVM_TRY(xcc_quant_read(q, t, &j->weights));
    const int64_t group = conv ? xcc_quant_int(n, "group", 1) : 1;
    *taken = j->weights.count > 0 && (conv ? j->weights.rank > 2 : j->weights.rank == 2) && group > 0 &&
             j->weights.dims[0] % group == 0 && (j->x->is_input || j->x->probe >= 0);
    return XCVM_OK;
}

/* ---- Rows of inputs ---- */

/* Rows of a matrix, or windows of images. */
typedef struct rows {
    size_t count, width;
    const float *from;
    bool windows;
    size_t channels; /* of an image */
    xcvm_window window;
} rows;

static xcvm_ints ints_of(const xcc_quant_node *n, const char *name, const int64_t *otherwise, size_t count)
{
    const Onnx__AttributeProto *a = xcc_quant_attribute(n, name);
    return a != NULL && a->n_ints == count ? (xcvm_ints){a->ints, count} : (xcvm_ints){otherwise, count};
}

static int auto_pad_of(const xcc_quant_node *n)
{
    const Onnx__AttributeProto *a = xcc_quant_attribute(n, "auto_pad");
    static const struct {
        const char *name;
        int pad;
    } ways[] = {{"SAME_UPPER", XCVM_AUTO_PAD_SAME_UPPER},
                {"SAME_LOWER", XCVM_AUTO_PAD_SAME_LOWER},
                {"VALID", XCVM_AUTO_PAD_VALID}};
    for (size_t i = 0; a != NULL && i < sizeof ways / sizeof *ways; i++)
        if (a->s.len == strlen(ways[i].name) && memcmp(a->s.data, ways[i].name, a->s.len) == 0)
            return ways[i].pad;
    return XCVM_AUTO_PAD_NOTSET;
}

static void find_windows(const job *j, const xcvm_value *x, rows *r)
{
    static const int64_t ones[XCVM_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1}, zeros[2 * XCVM_MAX_RANK] = {0};
    const size_t axes = (size_t)x->rank - 2;
    int64_t room[2 * XCVM_MAX_RANK];
    xcvm_window_attributes a = {.kernel = {j->weights.dims + 2, axes},
                                .strides = ints_of(j->node, "strides", ones, axes),
                                .pads = ints_of(j->node, "pads", zeros, 2 * axes),
                                .dilations = ints_of(j->node, "dilations", ones, axes)};
    a.pads = xcvm_window_pads(auto_pad_of(j->node), x, &a, room);
    xcvm_value y = {.rank = x->rank};
    for (size_t i = 0; i < axes; i++)
        y.dims[2 + i] =
            (x->dims[2 + i] + a.pads.at[i] + a.pads.at[axes + i] - ((a.kernel.at[i] - 1) * a.dilations.at[i] + 1)) /
                a.strides.at[i] +
            1;
    r->windows = true;
    r->channels = (size_t)x->dims[1];
    r->window = xcvm_window_of(x, &y, &a);
    r->width = r->channels * r->window.kernel_size;
    r->count = (size_t)x->dims[0] * r->window.out_size;
}

/* The model has run, so shapes fit each other. */
static void find_rows(const job *j, const xcvm_value *x, rows *r)
{
    *r = (rows){.from = x->data, .width = j->moments.groups * j->moments.inputs};
    if (xcc_quant_is(j->node, "Conv"))
        find_windows(j, x, r);
    else
        r->count = r->width > 0 ? xcvm_element_count(x) / r->width : 0;
}

/* A place of a window that is not in the image. */
#define OUTSIDE ((ptrdiff_t)-1)

/* Gathered rows, at most ROWS, and the positions of as many windows. */
typedef struct panel {
    float *rows;
    ptrdiff_t *places;
} panel;

/* Position of the window's first element along one axis. */
static ptrdiff_t begin_of(const xcvm_window *w, int axis, size_t out)
{
    return (ptrdiff_t)(out * w->stride[axis]) - w->pad[axis];
}

/* Offsets of window `number` in the image of a channel; OUTSIDE for padding. */
static void find_places(const rows *r, size_t number, ptrdiff_t *to)
{
    const xcvm_window *w = &r->window;
    const size_t place = number % w->out_size;
    const ptrdiff_t begin[] = {begin_of(w, 0, place / (w->out[1] * w->out[2])),
                               begin_of(w, 1, place / w->out[2] % w->out[1]), begin_of(w, 2, place % w->out[2])};
    for (size_t k = 0; k < w->kernel_size; k++) {
        const ptrdiff_t z = begin[0] + (ptrdiff_t)(k / (w->kernel[1] * w->kernel[2]) * w->dilation[0]),
                        y = begin[1] + (ptrdiff_t)(k / w->kernel[2] % w->kernel[1] * w->dilation[1]),
                        x = begin[2] + (ptrdiff_t)(k % w->kernel[2] * w->dilation[2]);
        const bool inside =
            z >= 0 && y >= 0 && x >= 0 && z < (ptrdiff_t)w->in[0] && y < (ptrdiff_t)w->in[1] && x < (ptrdiff_t)w->in[2];
        to[k] = inside ? (z * (ptrdiff_t)w->in[1] + y) * (ptrdiff_t)w->in[2] + x : OUTSIDE;
    }
}

/* Copies windows, at most ROWS of them, as rows, channel by channel. So the image of a channel stays in the cache, and
 * the offsets are computed once for all channels. */
static void copy_windows(const rows *r, const size_t *numbers, size_t count, const panel *to)
{
    const size_t size = r->window.kernel_size;
    for (size_t i = 0; i < count; i++)
        find_places(r, numbers[i], to->places + i * size);
    for (size_t c = 0; c < r->channels; c++)
        for (size_t i = 0; i < count; i++) {
            const float *image = r->from + (numbers[i] / r->window.out_size * r->channels + c) * r->window.in_size;
            const ptrdiff_t *at = to->places + i * size;
            float *row = to->rows + i * r->width + c * size;
            for (size_t k = 0; k < size; k++)
                row[k] = at[k] != OUTSIDE ? image[at[k]] : 0.0f;
        }
}

/* Adds rows of a batch to the moments, evenly spread over all that there are. */
static xcvm_status gather(quantizer *q, job *j, const xcvm_value *x, size_t batch, const panel *to)
{
    rows r;
    find_rows(j, x, &r);
    XCVM_CHECK(q->m.error, r.width == j->moments.groups * j->moments.inputs, INTERNAL,
               "node '%.200s' multiplies %zu inputs, not %zu", xcc_node_label(j->node->proto),
               j->moments.groups * j->moments.inputs, r.width);
    const size_t count = xcvm_min(r.count, j->rows);
    for (size_t done = 0; done < count;) {
        size_t numbers[ROWS];
        const size_t part = xcvm_min(ROWS, count - done);
        /* Every batch begins elsewhere, so that borders of images are seen as often as they are there. */
        for (size_t i = 0; i < part; i++)
            numbers[i] = ((done + i) * r.count + batch * 40503 % r.count) / count;
        if (r.windows)
            copy_windows(&r, numbers, part, to);
        for (size_t i = 0; i < part && !r.windows; i++)
            memcpy(to->rows + i * r.width, r.from + numbers[i] * r.width, r.width * sizeof *to->rows);
        XCVM_TRY(xcc_moments_add(&q->m, &j->moments, to->rows, part));
        done += part;
    }
    return XCVM_OK;
}

/* ---- Passes over the data ---- */

static xcvm_status look(quantizer *q, const xcc_calibration *data, size_t batches, job *jobs, size_t count,
                        const panel *to, xcvm_value **inputs)
{
    for (size_t batch = 0; batch < batches; batch++) {
        xcvm_status status = xcc_batch_read(q, data, batch, inputs);
        if (status == XCVM_OK)
            status = xcc_compiled_run(q, q->float_model, inputs);
        for (size_t i = 0; i < count && status == XCVM_OK; i++)
            status = gather(q, &jobs[i], xcc_compiled_tensor(q, jobs[i].x, inputs), batch, to);
        xcc_batch_release(q, inputs);
        XCVM_TRY(status);
    }
    return XCVM_OK;
}

static xcvm_status begin_moments(quantizer *q, job *jobs, size_t count, xcvm_arena *arena, panel *to)
{
    size_t width = 0, places = 0;
    for (size_t i = 0; i < count; i++) {
        xcc_moments *m = &jobs[i].moments;
        m->sums = xcvm_arena_allocate(arena, m->bytes + 1);
        if (m->sums == NULL)
            return xcc_out_of_memory(&q->m);
        width = m->groups * m->inputs > width ? m->groups * m->inputs : width;
        places = jobs[i].places > places ? jobs[i].places : places;
    }
    to->rows = xcvm_arena_allocate(arena, (ROWS * width + 1) * sizeof *to->rows);
    to->places = xcvm_arena_allocate(arena, (ROWS * places + 1) * sizeof *to->places);
    return to->rows != NULL && to->places != NULL ? XCVM_OK : xcc_out_of_memory(&q->m);
}

static xcvm_status round_some(quantizer *q, const xcc_calibration *data, size_t batches, job *jobs, size_t count,
                              xcvm_arena *arena, xcvm_value **inputs)
{
    panel gathered;
    XCVM_TRY(begin_moments(q, jobs, count, arena, &gathered));
    XCVM_TRY(look(q, data, batches, jobs, count, &gathered, inputs));
    for (size_t i = 0; i < count; i++)
        XCVM_TRY((xcvm_dtype_bits(q->o.weights) == 4 ? xcc_round_blocks : xcc_round_integers)(q, jobs[i].node,
                                                                                              &jobs[i].moments));
    return XCVM_OK;
}

xcvm_status xcc_quant_round(quantizer *q, const xcc_calibration *data, size_t batches)
{
    job *jobs = xcc_alloc(&q->m, (q->node_count + 1) * sizeof *jobs);
    xcvm_value **inputs = xcc_alloc(&q->m, (q->input_count + 1) * sizeof *inputs);
    const size_t limit = q->o.memory_limit,
                 most = limit > 0 ? xcvm_min(limit / 4, MOST_OUTPUT_BYTES) : MOST_OUTPUT_BYTES;
    size_t count = 0;
    if (jobs == NULL || inputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < q->node_count; i++) {
        job *j = &jobs[count];
        xcc_weight_layout layout;
        size_t groups;
        bool taken;
        XCVM_TRY(xcc_poll(&q->m));
        XCVM_TRY(take_job(q, &q->nodes[i], j, &taken));
        if (!taken)
            continue;
        xcc_weight_layout_of(j->node, &j->weights, &layout, &groups);
        xcc_moments_plan(&j->moments, groups, j->weights.count / layout.outputs, most);
        const size_t wanted = ROWS_FOR_INPUT * j->moments.block;
        j->rows = xcvm_ceil_div(wanted > LEAST_ROWS ? wanted : LEAST_ROWS, batches);
        j->places = 0;
        if (xcc_quant_is(j->node, "Conv"))
            j->places = j->weights.count / (size_t)(j->weights.dims[0] * j->weights.dims[1]);
        count++;
    }
    for (size_t first = 0, end; first < count; first = end) {
        size_t bytes = jobs[first].moments.bytes;
        for (end = first + 1; end < count && bytes + jobs[end].moments.bytes <= most; end++)
            bytes += jobs[end].moments.bytes;
        xcc_quant_progress(q, "round weights", (double)first / (double)count);
        xcvm_arena arena = {.allocator = q->m.allocator};
        const xcvm_status status = round_some(q, data, batches, jobs + first, end - first, &arena, inputs);
        xcvm_arena_release(&arena);
        XCVM_TRY(status);
    }
    return XCVM_OK;
}
