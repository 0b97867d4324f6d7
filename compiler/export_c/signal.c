/* Fourier transforms as C. */
#include "compiler/export_c/export_c.h"
#include "compiler/export_c/c_runtime/workspace.h"

#include <math.h>

enum { MOST_POINTS = 1 << 16 };

/* Parameters of a transform, with its roots of unity, by the name of the table. */
typedef struct transform {
    int64_t length, count, parts, step, bins, out_parts, out_step;
    bool inverse, from_half;
} transform;

static const char *write_table(xcc_c_export *x, const transform *t)
{
    const size_t roots = x->table_count++, index = x->table_count++;
    const double turn = (t->inverse ? 2 : -2) * 3.14159265358979323846 / (double)t->length;
    xcc_c_text *const to = &x->tables;
    xcc_c_put(to, "\nstatic const double xc_table_%zu[] = {", roots);
    for (int64_t i = 0; i < t->length; i++) {
        xcc_c_put(to, i % 2 == 0 ? "\n    " : " ");
        xcc_c_put_number(to, XCVM_F64, cos(turn * (double)i));
        xcc_c_put(to, ", ");
        xcc_c_put_number(to, XCVM_F64, sin(turn * (double)i));
        xcc_c_put(to, ",");
    }
    xcc_c_put(to,
              "};\nstatic const xc_transform xc_table_%zu = {.length = %lld, .count = %lld, .parts = %lld, .step = "
              "%lld, .bins = %lld, .out_parts = %lld, .out_step = %lld, .from_half = %d, .factor = ",
              index, (long long)t->length, (long long)t->count, (long long)t->parts, (long long)t->step,
              (long long)t->bins, (long long)t->out_parts, (long long)t->out_step, t->from_half);
    xcc_c_put_number(to, XCVM_F64, t->inverse ? 1 / (double)t->length : 1);
    xcc_c_put(to, ", .roots = xc_table_%zu};\n", roots);
    return xcc_c_format(x, "xc_table_%zu", index);
}

static bool is_bounded(xcc_c_export *x, int64_t length)
{
    return (length > 0 && length <= MOST_POINTS) ||
           xcc_c_refuse(x, "C export does not support transforms of %lld points", (long long)length);
}

static const char *room_of(xcc_c_export *x, int64_t length)
{
    return xcc_c_format(x, "(double *)(void *)(%s)",
                        xcc_c_scratch(x, xc_transform_workspace_of((size_t)length).all * sizeof(double)));
}

static bool write_dft(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_DFT_args *a = step->args;
    int64_t length = 0, axis = -2;
    size_t count;
    if (!xcc_c_ints(x, a->dft_length, "dft_length", &length, 1, &count) ||
        !xcc_c_ints(x, a->axis, "axis", &axis, 1, &count))
        return false;
    const int at = xcc_c_axis(axis, a->x->rank), last = a->x->rank - 1;
    const int64_t in = a->x->dims[at], out = a->y->dims[at];
    const bool from_half = a->inverse && a->onesided;
    length = a->dft_length != NULL ? length : from_half ? out : in;
    if (!is_bounded(x, length))
        return false;
    const int64_t inner = xcc_c_product(a->x->dims, at + 1, last);
    const transform t = {.length = length,
                         .count = in < length ? in : length,
                         .parts = a->x->dims[last],
                         .step = inner * a->x->dims[last],
                         .bins = out,
                         .out_parts = a->y->dims[last],
                         .out_step = inner * a->y->dims[last],
                         .inverse = a->inverse != 0,
                         .from_half = from_half};
    xcc_c_line(x,
               "        for (size_t i = 0; i < %lld; i++)\n"
               "            xc_transform_%s(&%s, %s + (i / %lld * %lld + i %% %lld) * %lld, NULL, %s + (i / %lld * "
               "%lld + i %% %lld) * %lld, %s);\n",
               (long long)(xcc_c_product(a->x->dims, 0, at) * inner), xcc_c_suffix((xcvm_dtype)a->x->dtype),
               write_table(x, &t), xcc_c_read(x, a->x), (long long)inner, (long long)(in * inner), (long long)inner,
               (long long)t.parts, xcc_c_write(x, a->y), (long long)inner, (long long)(out * inner), (long long)inner,
               (long long)t.out_parts, room_of(x, length));
    return true;
}

static bool write_stft(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_STFT_args *a = step->args;
    int64_t length = a->window != NULL ? a->window->dims[0] : 0, frame_step;
    size_t count;
    if (!xcc_c_ints(x, a->frame_length, "frame_length", &length, 1, &count) ||
        !xcc_c_ints(x, a->frame_step, "frame_step", &frame_step, 1, &count) || !is_bounded(x, length))
        return false;
    const int64_t samples = a->signal->dims[1], parts = a->signal->dims[2], frames = a->y->dims[1];
    const transform t = {.length = length,
                         .count = length,
                         .parts = parts,
                         .step = parts,
                         .bins = a->y->dims[2],
                         .out_parts = 2,
                         .out_step = 2};
    xcc_c_line(x,
               "        for (size_t i = 0; i < %lld; i++)\n"
               "            xc_transform_%s(&%s, %s + (i / %lld * %lld + i %% %lld * %lld) * %lld, %s, %s + i * %lld, "
               "%s);\n",
               (long long)(a->y->dims[0] * frames), xcc_c_suffix((xcvm_dtype)a->signal->dtype), write_table(x, &t),
               xcc_c_read(x, a->signal), (long long)frames, (long long)samples, (long long)frames,
               (long long)frame_step, (long long)parts, xcc_c_read(x, a->window), xcc_c_write(x, a->y),
               (long long)(2 * t.bins), room_of(x, length));
    return true;
}

static const xcc_c_row rows[] = {{XCVM_OP_DFT, write_dft}, {XCVM_OP_STFT, write_stft}};
const xcc_c_rows xcc_c_signal_rows = {rows, sizeof rows / sizeof *rows};
