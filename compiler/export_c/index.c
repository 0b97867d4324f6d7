/* Instructions with indices, and sorting instructions, as C. */
#include "compiler/export_c/export_c.h"
#include "ops/data/gather.h"

static size_t size_of(const xcvm_value *v) { return xcvm_dtype_size((xcvm_dtype)v->dtype); }

/* Writes a call that returns 1 if an index is out of range. */
static void begin_call(xcc_c_export *x, const char *function)
{
    x->fails = true;
    xcc_c_line(x, "        if (%s(", function);
}
static void end_call(xcc_c_export *x) { xcc_c_line(x, "))\n            return %zu;\n", x->pc + 1); }

static bool write_gather(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Gather_args *a = step->args;
    const int axis = xcc_c_axis(a->axis, a->x->rank);
    begin_call(x, xcc_c_format(x, "xc_gather_%s", xcc_c_suffix((xcvm_dtype)a->indices->dtype)));
    xcc_c_line(x, "%s, %s, %s, %lld, %lld, %zu, %lld", xcc_c_read(x, a->x), xcc_c_read(x, a->indices),
               xcc_c_write(x, a->y), (long long)xcc_c_product(a->x->dims, 0, axis), (long long)a->x->dims[axis],
               xcvm_element_count(a->indices),
               (long long)xcc_c_product(a->x->dims, axis + 1, a->x->rank) * (long long)size_of(a->x));
    end_call(x);
    return true;
}

/* Steps of x in elements. */
static const char *steps_of(xcc_c_export *x, const xcvm_value *v)
{
    int64_t steps[XCVM_MAX_RANK];
    xcc_c_strides(v, steps);
    for (int i = 0; i < v->rank; i++)
        steps[i] /= (int64_t)size_of(v);
    return xcc_c_table(x, "int64_t", steps, (size_t)v->rank);
}

static bool write_gather_elements(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_GatherElements_args *a = step->args;
    const int axis = xcc_c_axis(a->axis, a->x->rank);
    begin_call(x, xcc_c_format(x, "xc_gather_elements_%s", xcc_c_suffix((xcvm_dtype)a->indices->dtype)));
    xcc_c_line(x, "%s, %s, %s, %zu, %d, %s, %s, %d, %lld", xcc_c_read(x, a->x), xcc_c_read(x, a->indices),
               xcc_c_write(x, a->y), size_of(a->x), a->x->rank,
               xcc_c_table(x, "int64_t", a->indices->dims, (size_t)a->x->rank), steps_of(x, a->x), axis,
               (long long)a->x->dims[axis]);
    end_call(x);
    return true;
}

/* The target of updates is first copied from x, unless both share memory. */
static void write_beginning(xcc_c_export *x, const xcvm_value *v, const xcvm_value *y)
{
    if (y->bytes > 0)
        xcc_c_line(x, "        memmove(%s, %s, %zu);\n", xcc_c_write(x, y), xcc_c_read(x, v), y->bytes);
}

/* The function that combines updates with existing elements; NULL: updates replace them. For bools, the sum is "or" and
 * the product "and". */
static const char *combine_of(xcc_c_export *x, const xcvm_value *v, int reduction)
{
    const bool boolean = xcc_c_is(v, XCVM_BOOL);
    const char *const name = reduction == XCVM_REDUCTION_add   ? boolean ? "max" : "add"
                             : reduction == XCVM_REDUCTION_mul ? boolean ? "min" : "mul"
                             : reduction == XCVM_REDUCTION_max ? "max"
                                                               : "min";
    return reduction == XCVM_REDUCTION_none
               ? "NULL"
               : xcc_c_format(x, "xc_combine_%s_%s", name, xcc_c_suffix((xcvm_dtype)v->dtype));
}

static bool write_scatter_elements(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_ScatterElements_args *a = step->args;
    const int axis = xcc_c_axis(a->axis, a->x->rank);
    if (a->x->rank == 0 || a->indices->rank != a->x->rank || !xcvm_same_shape(a->indices, a->updates))
        return xcc_c_refuse(x, "its indices and updates are not of one shape with the rank of x");
    write_beginning(x, a->x, a->y);
    if (a->x->rank == 1 && a->reduction == XCVM_REDUCTION_add && xcc_c_is(a->indices, XCVM_I64) &&
        !xcc_c_is(a->x, XCVM_BOOL)) {
        begin_call(x, xcc_c_format(x, "xc_scatter_add_%s", xcc_c_suffix((xcvm_dtype)a->x->dtype)));
        xcc_c_line(x, "%s, %s, %s, %zu, %lld", xcc_c_read(x, a->indices), xcc_c_read(x, a->updates),
                   xcc_c_write(x, a->y), xcvm_element_count(a->indices), (long long)a->x->dims[0]);
        end_call(x);
        return true;
    }
    begin_call(x, xcc_c_format(x, "xc_scatter_elements_%s", xcc_c_suffix((xcvm_dtype)a->indices->dtype)));
    xcc_c_line(x, "%s, %s, %s, %zu, %d, %s, %s, %d, %lld, %s", xcc_c_read(x, a->indices), xcc_c_read(x, a->updates),
               xcc_c_write(x, a->y), size_of(a->x), a->x->rank,
               xcc_c_table(x, "int64_t", a->indices->dims, (size_t)a->x->rank), steps_of(x, a->x), axis,
               (long long)a->x->dims[axis], combine_of(x, a->x, (int)a->reduction));
    end_call(x);
    return true;
}

static void write_tuples(xcc_c_export *x, const xcvm_value *v, const xcvm_value *indices, const char *from,
                         const char *to, int batch_dims, bool scatter, const char *combine)
{
    const int64_t depth = indices->dims[indices->rank - 1];
    const int inner = batch_dims + (int)depth;
    const int64_t slice = xcc_c_product(v->dims, inner, v->rank) * (int64_t)size_of(v);
    begin_call(x, "xc_gather_tuples");
    xcc_c_line(x,
               "(const unsigned char *)(%s), %s, (unsigned char *)(%s), %lld, %lld, %lld, %s, %lld, %lld, %d, %s, %lld",
               from, xcc_c_read(x, indices), to, (long long)xcc_c_product(v->dims, 0, batch_dims),
               (long long)xcc_c_product(indices->dims, batch_dims, indices->rank - 1), (long long)depth,
               xcc_c_table(x, "int64_t", v->dims + batch_dims, (size_t)depth),
               (long long)(xcc_c_product(v->dims, batch_dims, inner) * slice), (long long)slice, scatter, combine,
               (long long)xcc_c_product(v->dims, inner, v->rank));
    end_call(x);
}

static bool write_gather_nd(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_GatherND_args *a = step->args;
    write_tuples(x, a->x, a->indices, xcc_c_read(x, a->x), xcc_c_write(x, a->y), (int)a->batch_dims, false, "NULL");
    return true;
}

static bool write_scatter_nd(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_ScatterND_args *a = step->args;
    xcvm_error error;
    if (xcvm_check_scattered_slices(&error, a) != XCVM_OK)
        return xcc_c_refuse(x, "%s", error.message);
    write_beginning(x, a->x, a->y);
    write_tuples(x, a->x, a->indices, xcc_c_read(x, a->updates), xcc_c_write(x, a->y), 0, true,
                 combine_of(x, a->x, (int)a->reduction));
    return true;
}

static bool write_one_hot(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_OneHot_args *a = step->args;
    const int axis = xcc_c_axis(a->axis, a->y->rank);
    const xcvm_dtype dtype = (xcvm_dtype)a->indices->dtype;
    if (!xcvm_dtype_in(dtype, XCVM_TYPES_INT))
        return xcc_c_refuse(x, "C export does not support indices of %s", xcvm_dtype_name(dtype));
    xcc_c_line(x, "        xc_one_hot_%s(%s, %s, %lld, %lld, %lld, %zu, %s);\n", xcc_c_suffix(dtype),
               xcc_c_read(x, a->indices), xcc_c_write(x, a->y), (long long)xcc_c_product(a->y->dims, 0, axis),
               (long long)a->y->dims[axis], (long long)xcc_c_product(a->y->dims, axis + 1, a->y->rank), size_of(a->y),
               xcc_c_read(x, a->values));
    return true;
}

static bool write_reverse_sequence(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_ReverseSequence_args *a = step->args;
    const xcvm_value *lens = a->sequence_lens;
    if (a->x->rank < 2 || lens->rank != 1 || lens->dims[0] != a->x->dims[a->batch_axis])
        return xcc_c_refuse(x, "its sequence_lens are not one for each batch entry");
    begin_call(x, "xc_reverse_sequences");
    xcc_c_line(x, "(const unsigned char *)(%s), %s, (unsigned char *)(%s), %lld, %lld, %d, %lld", xcc_c_read(x, a->x),
               xcc_c_read(x, a->sequence_lens), xcc_c_write(x, a->y), (long long)a->x->dims[a->batch_axis],
               (long long)a->x->dims[a->time_axis], a->time_axis == 0,
               (long long)xcc_c_product(a->x->dims, 2, a->x->rank) * (long long)size_of(a->x));
    end_call(x);
    return a->batch_axis != a->time_axis ? true : xcc_c_refuse(x, "its axes are one");
}

static const xcc_c_row rows[] = {{XCVM_OP_Gather, write_gather},
                                 {XCVM_OP_GatherElements, write_gather_elements},
                                 {XCVM_OP_GatherND, write_gather_nd},
                                 {XCVM_OP_ScatterElements, write_scatter_elements},
                                 {XCVM_OP_ScatterND, write_scatter_nd},
                                 {XCVM_OP_OneHot, write_one_hot},
                                 {XCVM_OP_ReverseSequence, write_reverse_sequence}};
const xcc_c_rows xcc_c_index_rows = {rows, sizeof rows / sizeof *rows};
