/* Resampling of images, and sampling at points and in regions, as C. The source positions of each element of a Resize
 * are constants in tables. */
#include "compiler/export_c/export_c.h"

#include "ops/image/resize_plan.h"
#include "ops/image/sampling.h"

#include <math.h>
#include <string.h>

/* Numbers of all tables, which are part of the source. */
enum { MOST_TAPS = 1 << 20 };

static bool is_known(const xcvm_value *v) { return v == NULL || v->data != NULL || v->bytes == 0; }

static const char *weights_of(xcc_c_export *x, const xcvm_resize_axis *axis)
{
    const size_t index = x->table_count++;
    xcc_c_put(&x->tables, "\nstatic const float xc_table_%zu[] = {", index);
    for (int64_t i = 0; i < axis->out * axis->taps; i++) {
        xcc_c_put(&x->tables, i % 8 == 0 ? "\n    " : " ");
        xcc_c_put_number(&x->tables, XCVM_F32, (double)axis->weight[i]);
        xcc_c_put(&x->tables, ",");
    }
    xcc_c_put(&x->tables, "};\n");
    return xcc_c_format(x, "xc_table_%zu", index);
}

static const char *indices_of(xcc_c_export *x, const xcvm_resize_axis *axis)
{
    return xcc_c_table(x, "int64_t", axis->index, (size_t)(axis->out * axis->taps));
}

/* Loops over the first `axes` axes of y, whose positions are i0, i1, ...; for one statement. */
static void begin_loops(xcc_c_export *x, const xcvm_resize *r, int axes)
{
    for (int d = 0; d < axes; d++)
        xcc_c_line(x, "        for (size_t i%d = 0; i%d < %lld; i%d++)\n", d, d, (long long)r->axes[d].out, d);
}

/* Elements whose position is outside along any axis are `value`. */
static void write_outside(xcc_c_export *x, const xcvm_resize *r, const char *y, const char *value)
{
    const int rank = r->a->x->rank;
    const char *outside = "", *at = "0";
    for (int d = 0; d < rank; d++) {
        const xcvm_resize_axis *axis = &r->axes[d];
        int64_t *flags = xcvm_arena_allocate(&x->arena, (size_t)axis->out * sizeof *flags);
        at = xcc_c_format(x, "(%s) * %lld + i%d", at, (long long)axis->out, d);
        if (flags == NULL) {
            x->body.failed = true;
            return;
        }
        for (int64_t i = 0; i < axis->out; i++)
            flags[i] = axis->outside[i];
        outside = xcc_c_format(x, "%s%s%s[i%d] != 0", outside, d > 0 ? " || " : "",
                               xcc_c_table(x, "uint8_t", flags, (size_t)axis->out), d);
    }
    begin_loops(x, r, rank);
    xcc_c_line(x, "            if (%s)\n                (%s)[%s] = %s;\n", outside, y, at, value);
}

/* Runs of elements after the last axis that changes are copied. */
static void write_nearest(xcc_c_export *x, const xcvm_resize *r)
{
    const xcvm_Resize_args *a = r->a;
    const size_t size = xcvm_dtype_size((xcvm_dtype)a->x->dtype);
    const char *from = "0", *to = "0";
    int axes = a->x->rank;
    int64_t run = 1;
    for (bool stays = true; axes > 0 && stays; axes -= stays) {
        const xcvm_resize_axis *axis = &r->axes[axes - 1];
        stays = axis->in == axis->out;
        for (int64_t i = 0; stays && i < axis->out; i++)
            stays = axis->index[i] == i;
        run *= stays ? axis->out : 1;
    }
    for (int d = 0; d < axes; d++) {
        from = xcc_c_format(x, "(%s) * %lld + (size_t)%s[i%d]", from, (long long)r->axes[d].in,
                            indices_of(x, &r->axes[d]), d);
        to = xcc_c_format(x, "(%s) * %lld + i%d", to, (long long)r->axes[d].out, d);
    }
    begin_loops(x, r, axes);
    if (run == 1)
        xcc_c_line(x, "            (%s)[%s] = (%s)[%s];\n", xcc_c_write(x, a->y), to, xcc_c_read(x, a->x), from);
    else
        xcc_c_line(x, "            memcpy(%s + (%s) * %lld, %s + (%s) * %lld, %lld);\n", xcc_c_write(x, a->y), to,
                   (long long)run, xcc_c_read(x, a->x), from, (long long)run, (long long)run * (long long)size);
}

/* The range of integers of 8 and 16 bits, which are computed in floats; false: other types. */
static bool bounds_of(xcvm_dtype dtype, double *low, double *high)
{
    *low = dtype == XCVM_I8 ? INT8_MIN : dtype == XCVM_I16 ? INT16_MIN : 0;
    *high = dtype == XCVM_I8 ? INT8_MAX : dtype == XCVM_U8 ? UINT8_MAX : dtype == XCVM_I16 ? INT16_MAX : UINT16_MAX;
    return dtype == XCVM_I8 || dtype == XCVM_U8 || dtype == XCVM_I16 || dtype == XCVM_U16;
}

static bool write_weighted(xcc_c_export *x, const xcvm_resize *r)
{
    const xcvm_Resize_args *a = r->a;
    const xcvm_dtype dtype = (xcvm_dtype)a->x->dtype;
    const char *const suffix = xcc_c_suffix(dtype);
    const size_t buffer = xcvm_round_up(r->largest, XCVM_ALIGNMENT);
    double low, high;
    const bool bounded = bounds_of(dtype, &low, &high);
    if (!bounded && dtype != XCVM_F32 && dtype != XCVM_F64)
        return xcc_c_refuse(x, "C export supports %s for mode nearest only", xcvm_dtype_name(dtype));
    const char *const room = xcc_c_scratch(x, 2 * buffer * sizeof(float));
    const char *const buffers[2] = {room, xcc_c_format(x, "%s + %zu", room, buffer)};
    const char *from = r->direct ? xcc_c_read(x, a->x) : buffers[0];
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, a->x->dims, sizeof dims);
    if (!r->direct)
        xcc_c_line(x, "        xc_to_floats_%s(%s, %s, %zu);\n", suffix, xcc_c_read(x, a->x), from,
                   xcvm_element_count(a->x));
    for (int i = 0; i < r->passes; i++) {
        const int d = r->order[i];
        const xcvm_resize_axis *axis = &r->axes[d];
        const char *const to =
            r->direct && i == r->passes - 1 ? xcc_c_write(x, a->y) : buffers[from == buffers[0] ? 1 : 0];
        xcc_c_line(x, "        xc_resample(%s, %s, %lld, %lld, %lld, %lld, %lld, %s, %s);\n", from, to,
                   (long long)xcc_c_product(dims, 0, d), (long long)axis->in, (long long)axis->out,
                   (long long)xcc_c_product(dims, d + 1, a->x->rank), (long long)axis->taps, indices_of(x, axis),
                   weights_of(x, axis));
        dims[d] = axis->out;
        from = to;
    }
    if (r->any_outside)
        write_outside(x, r, from, xcc_c_number(x, XCVM_F32, (double)(float)a->extrapolation_value));
    if (bounded)
        xcc_c_line(x, "        xc_cut_floats_%s(%s, %s, %zu, %s, %s);\n", suffix, from, xcc_c_write(x, a->y),
                   xcvm_element_count(a->y), xcc_c_number(x, XCVM_F32, low), xcc_c_number(x, XCVM_F32, high));
    else if (!r->direct)
        xcc_c_line(x, "        xc_from_floats_%s(%s, %s, %zu);\n", suffix, from, xcc_c_write(x, a->y),
                   xcvm_element_count(a->y));
    return true;
}

static bool write_resize(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Resize_args *a = step->args;
    const xcvm_dtype dtype = (xcvm_dtype)a->x->dtype;
    xcvm_poller poller = {NULL, SIZE_MAX}; /* The tables are bounded. */
    xcvm_resize r;
    xcvm_error error;
    if (!is_known(a->scales) || !is_known(a->sizes) || !is_known(a->roi))
        return xcc_c_refuse(x, "its scales, sizes or region are not constant");
    if (a->x->rank == 0 || xcvm_element_count(a->x) == 0)
        return xcc_c_refuse(x, "C export does not support operands without axes or elements");
    if (xcvm_resize_plan(&error, a, &r) != XCVM_OK)
        return xcc_c_refuse(x, "%s", error.message);
    if (r.taps > MOST_TAPS || r.positions > MOST_TAPS)
        return xcc_c_refuse(x, "its tables would have %zu numbers", r.taps + r.positions);
    char *const tables = xcvm_arena_allocate(&x->arena, r.table_bytes);
    if (tables == NULL || xcvm_resize_fill(&r, tables, &poller) != XCVM_OK) {
        x->body.failed = true;
        return false;
    }
    if (!r.by_index)
        return write_weighted(x, &r);
    double low, high, beyond = (double)(float)a->extrapolation_value;
    if (bounds_of(dtype, &low, &high))
        beyond = fmin(fmax(trunc(beyond), low), high);
    else if (r.any_outside && dtype != XCVM_F32 && dtype != XCVM_F64)
        return xcc_c_refuse(x, "C export does not support %s with positions outside of the image",
                            xcvm_dtype_name(dtype));
    write_nearest(x, &r);
    if (r.any_outside)
        write_outside(x, &r, xcc_c_write(x, a->y),
                      xcc_c_format(x, "(%s)%s", xcc_c_type(dtype),
                                   xcc_c_number(x, dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32, beyond)));
    return true;
}

static bool is_float(const xcvm_value *v) { return xcc_c_is(v, XCVM_F32) || xcc_c_is(v, XCVM_F64); }

static bool write_grid_sample(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_GridSample_args *a = step->args;
    const xcvm_dtype dtype = (xcvm_dtype)a->x->dtype;
    const int axes = a->x->rank - 2;
    const size_t index = x->table_count++;
    if (!is_float(a->x) || !is_float(a->grid))
        return xcc_c_refuse(x, "C export does not support it on %s with a grid of %s", xcvm_dtype_name(dtype),
                            xcvm_dtype_name((xcvm_dtype)a->grid->dtype));
    if (xcvm_element_count(a->x) == 0)
        return xcc_c_refuse(x, "C export does not support operands without elements");
    xcc_c_put(
        &x->tables,
        "\nstatic const xc_grid xc_table_%zu = {.batch = %lld, .channels = %lld, .points = %lld, .axes = %d, .taps "
        "= %d, .padding = %d, .corners = %d, .wide = %d, .dims = {",
        index, (long long)a->x->dims[0], (long long)a->x->dims[1], (long long)xcc_c_product(a->y->dims, 2, a->y->rank),
        axes,
        a->mode == XCVM_GRID_MODE_nearest  ? 1
        : a->mode == XCVM_GRID_MODE_linear ? 2
                                           : 4,
        a->padding_mode == XCVM_GRID_PADDING_zeros    ? 0
        : a->padding_mode == XCVM_GRID_PADDING_border ? 1
                                                      : 2,
        a->align_corners != 0, xcc_c_is(a->grid, XCVM_F64));
    for (int d = 0; d < axes; d++)
        xcc_c_put(&x->tables, "%s%lld", d > 0 ? ", " : "", (long long)a->x->dims[2 + d]);
    xcc_c_put(&x->tables, "}};\n");
    xcc_c_line(x, "        xc_grid_sample_%s(&xc_table_%zu, %s, %s, %s);\n", xcc_c_suffix(dtype), index,
               xcc_c_read(x, a->x), xcc_c_read(x, a->grid), xcc_c_write(x, a->y));
    return true;
}

static bool write_roi_align(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_RoiAlign_args *a = step->args;
    const size_t index = x->table_count++;
    if (!is_float(a->x))
        return xcc_c_refuse(x, "C export does not support it on %s", xcvm_dtype_name((xcvm_dtype)a->x->dtype));
    /* Conditions that the VM checks in each run. */
    if (xcvm_element_count(a->x) == 0 || a->batch_indices->rank != 1 || a->batch_indices->dims[0] != a->rois->dims[0])
        return xcc_c_refuse(x, "C export needs operands with elements, and as many batch_indices as rois");
    if (a->sampling_ratio > XCVM_MOST_SAMPLES)
        return xcc_c_refuse(x, "C export does not support more than %d samples along an axis of a cell",
                            XCVM_MOST_SAMPLES);
    xcc_c_put(&x->tables,
              "\nstatic const xc_regions xc_table_%zu = {.count = %lld, .batch = %lld, .channels = %lld, .in = {%lld, "
              "%lld}, .cells = {%lld, %lld}, .samples = %lld, .legacy = %d, .greatest = %d, .scale = ",
              index, (long long)a->rois->dims[0], (long long)a->x->dims[0], (long long)a->x->dims[1],
              (long long)a->x->dims[2], (long long)a->x->dims[3], (long long)a->output_height,
              (long long)a->output_width, (long long)a->sampling_ratio,
              a->coordinate_transformation_mode == XCVM_ROI_COORDINATE_output_half_pixel, a->mode == XCVM_ROI_MODE_max);
    xcc_c_put_number(&x->tables, XCVM_F64, (double)a->spatial_scale);
    xcc_c_put(&x->tables, "};\n");
    x->fails = true;
    xcc_c_line(x, "        if (xc_roi_align_%s(&xc_table_%zu, %s, %s, %s, %s))\n            return %zu;\n",
               xcc_c_suffix((xcvm_dtype)a->x->dtype), index, xcc_c_read(x, a->x), xcc_c_read(x, a->rois),
               xcc_c_read(x, a->batch_indices), xcc_c_write(x, a->y), x->pc + 1);
    return true;
}

static const xcc_c_row rows[] = {
    {XCVM_OP_Resize, write_resize}, {XCVM_OP_GridSample, write_grid_sample}, {XCVM_OP_RoiAlign, write_roi_align}};
const xcc_c_rows xcc_c_image_rows = {rows, sizeof rows / sizeof *rows};
