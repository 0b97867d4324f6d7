/* The time loop of recurrent networks: each step computes the product with the state, then the gates. Sums of a unit
 * are produced and consumed by one thread, so hidden units can be split over threads. */
#include "ops/util/floats.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/matmul/simd/panels.h"
#include "ops/recurrent/simd/recurrent.h"

enum {
    UNITS = XCVM_PACKED_COLUMNS,
    /* Minimum multiply-adds of a step per thread. */
    THREAD_WORK = 64 * 1024
};

/* Arrays have one row of units, or of gates, per batch entry and direction. */
typedef struct recurrent_steps_loop {
    xcvm_kernel *k;
    const xcvm_recurrent *n;
    size_t blocks, width, units; /* of one direction: blocks of units; gates and units in floats */
    float *h, *next_h, *c, *gates, *update, *reset;
    float *p, *reset_bias;   /* rows of units; NULL: none */
    char *rows;              /* quantized weights: the states of a step as rows of row_bytes */
    size_t row_bytes, terms; /* rows per state */
    float *rest;             /* residual of a state, for two terms */
    size_t step;
    bool first_phase; /* for GRU with reset before the product */
    uint32_t status;  /* atomic; the first failure */
} recurrent_steps_loop;

static bool is_quantized(const xcvm_recurrent *n) { return n->weights != XCVM_RECURRENT_PANELS; }
static size_t terms_of(const xcvm_recurrent *n) { return n->weights == XCVM_RECURRENT_BYTES && n->two_terms ? 2 : 1; }
static bool has_phases(const xcvm_recurrent *n) { return n->op == XCVM_OP_GRU && !n->linear_before_reset; }

/* Row index in x, y or a state for step `t`, direction `d` and batch entry `b`. */
static size_t x_row(const xcvm_recurrent *n, size_t t, size_t b)
{
    return n->batch_first ? b * n->steps + t : t * n->batch + b;
}
static size_t y_row(const xcvm_recurrent *n, size_t t, size_t d, size_t b)
{
    return n->batch_first ? (b * n->steps + t) * n->directions + d : (t * n->directions + d) * n->batch + b;
}
static size_t state_row(const xcvm_recurrent *n, size_t d, size_t b)
{
    return n->batch_first ? b * n->directions + d : d * n->batch + b;
}

static size_t length_of(const xcvm_recurrent *n, size_t b)
{
    return n->lengths != NULL ? (size_t)XCVM_CDATA(int32_t, n->lengths)[b] : n->steps;
}

/* Time index of the current step for a direction and batch entry; beyond its length, the step itself. */
static size_t time_of(const recurrent_steps_loop *r, size_t d, size_t b)
{
    const size_t length = length_of(r->n, b);
    const bool backward = r->n->direction == XCVM_DIRECTION_reverse || d == 1;
    return backward && r->step < length ? length - 1 - r->step : r->step;
}

static const float *projected_row(const recurrent_steps_loop *r, size_t d, size_t b)
{
    return r->n->projected + (x_row(r->n, time_of(r, d, b), b) * r->n->directions + d) * r->width;
}

static void write_floats(const float *from, size_t count, xcvm_value *to, size_t at)
{
    if (to->dtype == XCVM_F32)
        memcpy(XCVM_DATA(float, to) + at, from, count * sizeof *from);
    else
        xcvm_write_floats(from, count, to, at);
}

/* Panel `index` over all directions. */
static const void *panel_at(const xcvm_recurrent *n, size_t index)
{
    return (const char *)n->panels + index * n->hidden * UNITS * xcvm_packed_element(n->panel_dtype);
}

/* ---- A block of units ---- */

static const xcvm_recurrent_function *functions_of(const xcvm_recurrent *n, size_t d)
{
    return n->f + d * xcvm_recurrent_functions_of(n->op);
}

/* Initial sums of the gates of one block, from the projected row. In a GRU with reset after the product, the
 * candidate's projection is added later. */
static void set_start(const recurrent_steps_loop *r, size_t d, size_t block, const float *projected, float *start)
{
    const size_t gates = r->n->gates;
    memcpy(start, projected + block * gates * UNITS, gates * UNITS * sizeof *start);
    if (r->n->op == XCVM_OP_GRU && r->n->linear_before_reset) {
        if (r->reset_bias != NULL)
            memcpy(start + 2 * UNITS, r->reset_bias + d * r->units + block * UNITS, UNITS * sizeof *start);
        else
            memset(start + 2 * UNITS, 0, UNITS * sizeof *start);
    }
}

static void finish_block(const recurrent_steps_loop *r, size_t d, size_t b, size_t block, float *sums)
{
    const xcvm_recurrent *n = r->n;
    const size_t row = (d * n->batch + b) * r->units + block * UNITS;
    const bool over = r->step >= length_of(n, b);
    xcvm_recurrent_cell cell = {.sums = sums, .h = r->h + row, .next_h = r->next_h + row, .c = r->c + row};
    if (has_phases(n)) {
        cell.update = r->update + row;
        cell.reset = r->reset + row;
    } else if (n->op == XCVM_OP_GRU) {
        cell.x = projected_row(r, d, b) + (block * n->gates + n->gates - 1) * UNITS;
    }
    if (r->first_phase) {
        xcvm_recurrent_reset_run(n, functions_of(n, d), &cell);
        return;
    }
    if (r->p != NULL) {
        cell.p = r->p + d * 3 * r->units + block * UNITS;
        cell.p_stride = r->units;
    }
    if (over)
        memcpy(cell.next_h, cell.h, UNITS * sizeof(float));
    else
        xcvm_recurrent_cell_run(n, functions_of(n, d), &cell);
    if (n->y != NULL) {
        static const float zero[UNITS];
        const size_t left = n->hidden - block * UNITS;
        write_floats(over ? zero : cell.next_h, left < UNITS ? left : UNITS, n->y,
                     y_row(n, time_of(r, d, b), d, b) * n->hidden + block * UNITS);
    }
}

/* ---- Products with quantized weights ---- */

/* Row of a batch entry. */
static char *row_at(const recurrent_steps_loop *r, size_t d, size_t b)
{
    return r->rows + (d * r->n->batch + b) * r->terms * r->row_bytes;
}

static void make_bytes(const recurrent_steps_loop *r, const float *state, char *rows)
{
    xcvm_dynamic_row *row = (xcvm_dynamic_row *)(void *)rows;
    xcvm_dynamic_row_make(state, r->n->hidden, row);
    if (r->terms == 1 || !xcvm_dynamic_row_is_finite(row))
        return;
    xcvm_dynamic_row_rest(state, r->n->hidden, row, r->rest);
    xcvm_dynamic_row_make(r->rest, r->n->hidden, (xcvm_dynamic_row *)(void *)(rows + r->row_bytes));
}

/* Converts the states that a step multiplies, of directions [begin, end), to rows. */
static xcvm_status make_rows(const recurrent_steps_loop *r, size_t begin, size_t end)
{
    const xcvm_recurrent *n = r->n;
    const float *states = has_phases(n) && !r->first_phase ? r->reset : r->h;
    for (size_t d = begin; d < end; d++)
        for (size_t b = 0; b < n->batch; b++) {
            xcvm_qblocks_row row;
            const float *state = states + (d * n->batch + b) * r->units;
            XCVM_TRY(xcvm_kernel_poll(r->k));
            if (n->weights == XCVM_RECURRENT_BYTES)
                make_bytes(r, state, row_at(r, d, b));
            else
                xcvm_qblocks_row_make(&n->blocks.layout, state, row_at(r, d, b), &row);
        }
    return XCVM_OK;
}

/* Multiplies `count` rows of bytes from batch entry b. Two terms represent a state; a non-finite state is multiplied in
 * f32, so that gates saturate as with f32 weights. */
static void multiply_bytes(const recurrent_steps_loop *r, size_t d, size_t b, size_t count, size_t first, size_t last,
                           float *to)
{
    const xcvm_recurrent *n = r->n;
    bool finite = true;
    for (size_t i = 0; i < count && r->terms == 2; i++)
        finite = finite && xcvm_dynamic_row_is_finite((const xcvm_dynamic_row *)(void *)row_at(r, d, b + i));
    if (finite) {
        xcvm_dynamic_product(&n->bytes, first, last, row_at(r, d, b), r->row_bytes, count * r->terms, r->terms, to,
                             r->width);
        return;
    }
    for (size_t i = 0; i < count; i++, to += r->width) {
        char *row = row_at(r, d, b + i);
        if (xcvm_dynamic_row_is_finite((const xcvm_dynamic_row *)(void *)row))
            xcvm_dynamic_product(&n->bytes, first, last, row, r->row_bytes, r->terms, r->terms, to, r->width);
        else
            xcvm_dynamic_product_f32(&n->bytes, first, last, r->h + (d * n->batch + b + i) * r->units, n->hidden, to);
    }
}

/* Computes gates [first, last) of a block of units for all batch entries: products with initial sums, stored in
 * `gates`. */
static xcvm_status multiply_rows(const recurrent_steps_loop *r, xcvm_poller *poller, size_t d, size_t block,
                                 size_t first, size_t last)
{
    const xcvm_recurrent *n = r->n;
    const size_t panel = (d * r->blocks + block) * n->gates;
    for (size_t b = 0, count; b < n->batch; b += count) {
        count = xcvm_min(n->batch - b, XCVM_QBLOCKS_TALL);
        if (n->weights == XCVM_RECURRENT_BYTES) {
            XCVM_TRY(xcvm_poll_after(poller, count * r->terms * n->hidden * (last - first)));
            multiply_bytes(r, d, b, count, panel + first, panel + last,
                           r->gates + (d * n->batch + b) * r->width + (block * n->gates + first) * UNITS);
            continue;
        }
        xcvm_qblocks_row rows[XCVM_QBLOCKS_TALL];
        float sums[XCVM_QBLOCKS_TALL][UNITS] __attribute__((aligned(64)));
        for (size_t i = 0; i < count; i++)
            rows[i] = xcvm_qblocks_row_at(&n->blocks.layout, row_at(r, d, b + i));
        for (size_t gate = first; gate < last; gate++) {
            XCVM_TRY(xcvm_poll_after(poller, count * n->hidden));
            xcvm_qblocks_panel_f32(&n->blocks, panel + gate, rows, count, sums);
            for (size_t i = 0; i < count; i++) {
                float *to = r->gates + (d * n->batch + b + i) * r->width + (block * n->gates + gate) * UNITS;
                for (size_t j = 0; j < UNITS; j++)
                    to[j] += sums[i][j];
            }
        }
    }
    return XCVM_OK;
}

/* ---- Products with panels ---- */

/* Sums of one block of a single batch entry, with streamed panels. */
static void multiply_block(const recurrent_steps_loop *r, size_t d, size_t block, const float *projected, float *sums)
{
    const xcvm_recurrent *n = r->n;
    const bool second = has_phases(n) && !r->first_phase;
    const size_t first = second ? 2 : 0, last = r->first_phase ? 2 : n->gates;
    float start[XCVM_RECURRENT_GATES * UNITS];
    set_start(r, d, block, projected, start);
    xcvm_panels_product(n->panel_dtype, (second ? r->reset : r->h) + d * r->units, n->hidden,
                        panel_at(n, (d * r->blocks + block) * n->gates + first), start + first * UNITS,
                        sums + first * UNITS, last - first);
}

/* Computes blocks [begin, end) of a single batch entry. All sums come first, so that streaming does not pause. */
static void run_row(const recurrent_steps_loop *r, size_t d, size_t begin, size_t end)
{
    const float *projected = projected_row(r, d, 0);
    float *gates = r->gates + d * r->width;
    const size_t each = r->n->gates * UNITS;
    /* Alternating directions reuse weights that are still in the cache. */
    if (r->step % 2 == 0)
        for (size_t i = begin; i < end; i++)
            multiply_block(r, d, i, projected, gates + i * each);
    else
        for (size_t i = end; i-- > begin;)
            multiply_block(r, d, i, projected, gates + i * each);
    for (size_t i = begin; i < end; i++)
        finish_block(r, d, 0, i, gates + i * each);
}

/* Returns true if the projected rows of a batch have the layout of its gates and are the complete initial sums. */
static bool starts_in_place(const recurrent_steps_loop *r)
{
    const xcvm_recurrent *n = r->n;
    const bool together = n->lengths == NULL || n->direction == XCVM_DIRECTION_forward;
    return n->op != XCVM_OP_GRU && n->directions == 1 && !n->batch_first && together;
}

/* Computes blocks [begin, end) of all batch entries: a small product, then the gates. */
static xcvm_status run_blocks(const recurrent_steps_loop *r, size_t d, size_t begin, size_t end)
{
    const xcvm_recurrent *n = r->n;
    const bool phases = has_phases(n), second = phases && !r->first_phase;
    const bool in_place = starts_in_place(r);
    xcvm_poller poller = xcvm_poller_of(r->k);
    float *gates = r->gates + d * n->batch * r->width;
    if (!second && (is_quantized(n) || !in_place))
        for (size_t b = 0; b < n->batch; b++) {
            const float *projected = projected_row(r, d, b);
            for (size_t i = begin; i < end; i++)
                set_start(r, d, i, projected, gates + b * r->width + i * n->gates * UNITS);
        }
    xcvm_gemm g = {.m = n->batch,
                   .n = r->width,
                   .k = n->hidden,
                   .a = (second ? r->reset : r->h) + d * n->batch * r->units,
                   .a_row = r->units,
                   .a_column = 1,
                   .b = is_quantized(n) ? NULL : panel_at(n, d * r->blocks * n->gates),
                   .b_ahead = true,
                   .b_dtype = n->panel_dtype,
                   .c = gates,
                   .c_row = r->width,
                   .c_column = 1,
                   .start = in_place ? projected_row(r, d, 0) : gates,
                   .alpha = 1.0f};
    if (!phases && !is_quantized(n))
        XCVM_TRY(xcvm_gemm_part(r->k, &g, 0, n->batch, begin * n->gates * UNITS, end * n->gates * UNITS, NULL));
    for (size_t i = begin; i < end; i++) {
        const size_t at = i * n->gates * UNITS;
        if (is_quantized(n))
            XCVM_TRY(multiply_rows(r, &poller, d, i, second ? 2 : 0, r->first_phase ? 2 : n->gates));
        else if (phases)
            XCVM_TRY(xcvm_gemm_part(r->k, &g, 0, n->batch, second ? at + 2 * UNITS : at,
                                    second ? at + 3 * UNITS : at + 2 * UNITS, NULL));
        for (size_t b = 0; b < n->batch; b++) {
            XCVM_TRY(xcvm_poll_after(&poller, UNITS));
            finish_block(r, d, b, i, gates + b * r->width + at);
        }
    }
    return XCVM_OK;
}

/* Blocks [begin, end) over all directions. */
static void run_range(void *context, size_t begin, size_t end, int worker)
{
    recurrent_steps_loop *r = context;
    (void)worker;
    for (size_t at = begin, last; at < end; at = last) {
        const size_t d = at / r->blocks, first = at % r->blocks;
        last = (d + 1) * r->blocks < end ? (d + 1) * r->blocks : end;
        if (r->n->batch > 1 || is_quantized(r->n)) {
            const xcvm_status status = run_blocks(r, d, first, first + (last - at));
            if (status != XCVM_OK)
                __atomic_store_n(&r->status, (uint32_t)status, __ATOMIC_RELAXED);
            continue;
        }
        run_row(r, d, first, first + (last - at));
    }
}

/* ---- All steps ---- */

/* Runs all steps of directions [begin, end). */
static xcvm_status run_steps(recurrent_steps_loop *r, size_t begin, size_t end, size_t grain)
{
    const size_t blocks = (end - begin) * r->blocks;
    float *const h = r->h, *const next_h = r->next_h;
    for (r->step = 0; r->step < r->n->steps; r->step++) {
        XCVM_TRY(xcvm_kernel_poll(r->k));
        r->h = r->step % 2 == 0 ? h : next_h;
        r->next_h = r->step % 2 == 0 ? next_h : h;
        for (int phase = has_phases(r->n) ? 0 : 1; phase < 2; phase++) {
            r->first_phase = phase == 0;
            if (is_quantized(r->n))
                XCVM_TRY(make_rows(r, begin, end));
            if (grain < blocks)
                xcvm_parallel(r->k->threads, blocks, grain, run_range, r);
            else
                run_range(r, begin * r->blocks, end * r->blocks, 0);
            XCVM_TRY((xcvm_status)r->status);
        }
    }
    const float *last = r->n->steps % 2 == 0 ? h : next_h;
    for (size_t d = begin; d < end; d++)
        for (size_t b = 0; b < r->n->batch; b++) {
            const size_t row = (d * r->n->batch + b) * r->units, at = state_row(r->n, d, b) * r->n->hidden;
            if (r->n->y_h != NULL)
                write_floats(last + row, r->n->hidden, r->n->y_h, at);
            if (r->n->y_c != NULL)
                write_floats(r->c + row, r->n->hidden, r->n->y_c, at);
        }
    r->h = h;
    r->next_h = next_h;
    return XCVM_OK;
}

static bool lay_out(recurrent_steps_loop *r, const xcvm_recurrent *n, char *scratch, size_t *bytes)
{
    *r = (recurrent_steps_loop){.n = n};
    r->blocks = xcvm_packed_panels(n->hidden);
    r->width = xcvm_recurrent_width(n);
    r->units = xcvm_recurrent_units(n);
    r->terms = terms_of(n);
    const size_t rows = n->directions * n->batch;
    const struct {
        float **at;
        size_t rows, columns;
    } parts[] = {{&r->h, rows, r->units},
                 {&r->next_h, rows, r->units},
                 {&r->c, rows, r->units},
                 {&r->gates, rows, r->width},
                 {&r->update, has_phases(n) ? rows : 0, r->units},
                 {&r->reset, has_phases(n) ? rows : 0, r->units},
                 {&r->rest, r->terms - 1, r->units},
                 {&r->p, n->p != NULL ? 3 * n->directions : 0, r->units},
                 {&r->reset_bias, n->reset_bias != NULL ? n->directions : 0, r->units}};
    *bytes = 0;
    if (is_quantized(n)) {
        r->row_bytes = n->weights == XCVM_RECURRENT_BYTES ? xcvm_dynamic_row_bytes(n->hidden)
                                                          : xcvm_qblocks_row_bytes(&n->blocks.layout);
        if (!xcvm_size_mul(rows * r->terms, r->row_bytes, bytes) || *bytes > SIZE_MAX / 8)
            return false;
        r->rows = scratch;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t part;
        if (parts[i].rows == 0)
            continue;
        if (scratch != NULL)
            *parts[i].at = (float *)(void *)(scratch + *bytes);
        if (!xcvm_size_mul(parts[i].rows, parts[i].columns, &part) || part > SIZE_MAX / 8 ||
            !xcvm_size_add(*bytes, xcvm_round_up(part * sizeof(float), XCVM_ALIGNMENT), bytes))
            return false;
    }
    if (scratch != NULL)
        memset(scratch, 0, *bytes);
    return true;
}

bool xcvm_recurrent_scratch(const xcvm_recurrent *n, size_t *bytes)
{
    recurrent_steps_loop r;
    return lay_out(&r, n, NULL, bytes);
}

xcvm_status xcvm_recurrent_run(xcvm_kernel *k, const xcvm_recurrent *n, void *scratch)
{
    recurrent_steps_loop r;
    size_t bytes;
    if (n->batch == 0)
        return XCVM_OK;
    XCVM_CHECK(k->error, lay_out(&r, n, scratch, &bytes), OUT_OF_MEMORY, "the batch is too large");
    r.k = k;
    for (size_t d = 0; d < n->directions; d++) {
        for (size_t b = 0; b < n->batch; b++) {
            const size_t row = (d * n->batch + b) * r.units, at = state_row(n, d, b) * n->hidden;
            if (n->initial_h != NULL)
                xcvm_read_floats(n->initial_h, at, n->hidden, r.h + row);
            if (n->initial_c != NULL)
                xcvm_read_floats(n->initial_c, at, n->hidden, r.c + row);
        }
        for (size_t i = 0; n->p != NULL && i < 3; i++)
            xcvm_read_floats(n->p, (d * 3 + i) * n->hidden, n->hidden, r.p + (d * 3 + i) * r.units);
        if (n->reset_bias != NULL)
            memcpy(r.reset_bias + d * r.units, n->reset_bias + d * n->hidden, n->hidden * sizeof(float));
    }

    const double work = (double)n->directions * (double)n->batch * (double)n->hidden * (double)r.width;
    const size_t blocks = n->directions * r.blocks;
    const double share = (double)blocks * THREAD_WORK / work;
    const size_t grain = share < 1.0 ? 1 : share > (double)blocks ? blocks : (size_t)share;
    if (xcvm_threads_count(k->threads) > 1 && grain <= blocks / 2)
        return run_steps(&r, 0, n->directions, grain);
    /* One direction after another, because the weights of one may just fit in the cache. */
    for (size_t d = 0; d < n->directions; d++)
        XCVM_TRY(run_steps(&r, d, d + 1, blocks));
    return XCVM_OK;
}
