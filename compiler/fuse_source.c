/* The C of a kernel library. Each group becomes one function: loops over its shape, merged where all operands allow,
 * with one statement for each node in the innermost. */
#include "compiler/fuse.h"

#include <math.h>

extern const char xcc_fused_functions[];

/* Elements of a long row that make one part of the range. */
enum { CHUNK = 1024 };
/* Flops worth a thread. */
static const double grain_flops = 200000;

#define TEXT_(...) #__VA_ARGS__
#define TEXT(...) TEXT_(__VA_ARGS__)

typedef struct loops {
    const xcc_fusion *f;
    int rank; /* of the merged shape; at least 1 */
    int64_t dims[XCVM_MAX_RANK];
    int64_t strides[XCVM_FUSED_OPERANDS][XCVM_MAX_RANK]; /* of xs */
} loops;

/* Stride of axis `axis` of a shape of `rank` axes that `v` is broadcast to. */
static int64_t stride_of(const xcvm_value *v, int rank, int axis)
{
    int own = axis - (rank - v->rank);
    if (own < 0 || v->dims[own] == 1)
        return 0;
    int64_t stride = 1;
    for (int i = own + 1; i < v->rank; i++)
        stride *= v->dims[i];
    return stride;
}

static bool merges(const loops *l, int64_t size, const int64_t *strides)
{
    for (size_t x = 0; x < l->f->x_count; x++)
        if (l->strides[x][l->rank - 1] != strides[x] * size)
            return false;
    return true;
}

static void plan(loops *l, const xcc_fusion *f)
{
    const xcvm_value *shape = &xcc_node_output(f->nodes[0], 0)->type;
    l->f = f;
    l->rank = 0;
    for (int axis = 0; axis < shape->rank; axis++) {
        int64_t strides[XCVM_FUSED_OPERANDS], size = shape->dims[axis];
        if (size == 1)
            continue;
        for (size_t x = 0; x < f->x_count; x++)
            strides[x] = stride_of(&f->xs[x]->type, shape->rank, axis);
        bool merged = l->rank > 0 && merges(l, size, strides);
        int at = merged ? l->rank - 1 : l->rank++;
        l->dims[at] = merged ? l->dims[at] * size : size;
        for (size_t x = 0; x < f->x_count; x++)
            l->strides[x][at] = strides[x];
    }
    if (l->rank == 0) {
        l->rank = 1;
        l->dims[0] = 1;
        for (size_t x = 0; x < f->x_count; x++)
            l->strides[x][0] = 0;
    }
}

static int64_t inner(const loops *l) { return l->dims[l->rank - 1]; }

static int64_t rows(const loops *l)
{
    int64_t count = 1;
    for (int i = 0; i + 1 < l->rank; i++)
        count *= l->dims[i];
    return count;
}

/* Parts that the range is split into. */
static int64_t extent(const loops *l) { return l->rank > 1 ? rows(l) : (inner(l) + CHUNK - 1) / CHUNK; }

/* Names come from the model, and are not to end a comment. */
static void write_comment(FILE *file, const char *text)
{
    for (; *text != '\0'; text++)
        fputc((unsigned char)*text < ' ' || *text == '*' || *text == '\\' || *text == '?' ? '_' : *text, file);
}

static void write_number(FILE *file, double value)
{
    if (isnan(value))
        fputs("NAN", file);
    else if (isinf(value))
        fputs(value < 0 ? "-INFINITY" : "INFINITY", file);
    else
        fprintf(file, "(float)%.9g", (double)(float)value);
}

static void write_operand(FILE *file, const loops *l, const xcc_value *v)
{
    const xcc_fusion *f = l->f;
    if (xcc_is_literal(v)) {
        write_number(file, xcvm_element_as_double(&v->type, 0));
        return;
    }
    for (size_t x = 0; x < f->x_count; x++)
        if (f->xs[x] == v) {
            fprintf(file, l->strides[x][l->rank - 1] != 0 ? "x%zu[i]" : "x%zu", x);
            return;
        }
    for (size_t i = 0; i < f->node_count; i++)
        if (v->producer == f->nodes[i])
            fprintf(file, "v%zu", i);
}

static void write_node(FILE *file, const loops *l, size_t i)
{
    const xcc_node *n = l->f->nodes[i];
    xcc_map map;
    xcc_map_of(n, &map);
    fprintf(file, "            const float v%zu = xcvm_map_%s(", i, map.function);
    write_operand(file, l, map.operands[0]);
    fputs(", ", file);
    if (map.operands[1] != NULL) {
        write_operand(file, l, map.operands[1]);
    } else {
        write_number(file, map.alpha);
        fputs(", ", file);
        write_number(file, map.beta);
    }
    fputs("); /* ", file);
    write_comment(file, n->name);
    fputs(" */\n", file);
}

/* Where operand `x` begins in row `row`, or its element there if it has one for the whole row. */
static void write_row_start(FILE *file, const loops *l, size_t x)
{
    const int64_t *strides = l->strides[x];
    bool vector = strides[l->rank - 1] != 0;
    fprintf(file, "        const float %sx%zu = xs[%zu]%s", vector ? "*const " : "", x, x, vector ? "" : "[0");
    int64_t below = 1;
    for (int axis = l->rank - 2; axis >= 0; axis--) {
        if (strides[axis] != 0)
            fprintf(file, " + row / %lld %% %lld * %lld", (long long)below, (long long)l->dims[axis],
                    (long long)strides[axis]);
        below *= l->dims[axis];
    }
    fputs(vector ? ";\n" : "];\n", file);
}

static void write_kernel(FILE *file, const loops *l)
{
    const xcc_fusion *f = l->f;
    fprintf(file,
            "\nstatic void kernel_%u(const float *const *xs, float *const *results, size_t begin, size_t end)\n{\n",
            (unsigned)f->kernel);
    bool whole = l->rank == 1 && extent(l) == 1;
    fprintf(file, "    for (size_t row = begin; row < end; row++) {\n");
    if (f->x_count == 0)
        fputs("        (void)xs;\n", file);
    for (size_t x = 0; x < f->x_count; x++)
        write_row_start(file, l, x);
    if (l->rank > 1)
        fprintf(file, "        const size_t at = row * %lld, from = 0, to = %lld;\n", (long long)inner(l),
                (long long)inner(l));
    else if (whole)
        fprintf(file, "        const size_t at = 0, from = 0, to = %lld;\n", (long long)inner(l));
    else
        fprintf(file, "        const size_t at = 0, from = row * %d, to = from + %d < %lld ? from + %d : %lld;\n",
                CHUNK, CHUNK, (long long)inner(l), CHUNK, (long long)inner(l));
    for (size_t r = 0; r < f->result_count; r++)
        fprintf(file, "        float *const y%zu = results[%zu] + at;\n", r, r);
    fputs("        XCVM_INDEPENDENT\n        for (size_t i = from; i < to; i++) {\n", file);
    for (size_t i = 0; i < f->node_count; i++)
        write_node(file, l, i);
    for (size_t r = 0; r < f->result_count; r++)
        fprintf(file, "            y%zu[i] = v%zu;\n", r, f->results[r]);
    fputs("        }\n    }\n}\n", file);
}

static long long grain_of(const loops *l)
{
    double flops = 0;
    for (size_t i = 0; i < l->f->node_count; i++) {
        xcc_map map;
        xcc_map_of(l->f->nodes[i], &map);
        flops += (double)(map.cost != 0 ? map.cost : 1);
    }
    double part = flops * (double)(l->rank > 1 ? inner(l) : inner(l) < CHUNK ? inner(l) : CHUNK);
    return 1 + (long long)(grain_flops / part);
}

bool xcc_fuse_write(const xcc_module *m, FILE *file)
{
    fputs("/* Kernels of one program, written by xcvm compile --fuse. */\n#include <stddef.h>\n", file);
    fputs(xcc_fused_functions, file);
    fputs("\n" TEXT(XCVM_LIBRARY_TYPES) "\n", file);
    loops l;
    for (const xcc_fusion *f = m->fusions; f != NULL; f = f->next) {
        plan(&l, f);
        write_kernel(file, &l);
    }
    fprintf(file, "\nstatic const xcvm_library_kernel kernels[%u] = {\n", (unsigned)m->fusion_count);
    for (const xcc_fusion *f = m->fusions; f != NULL; f = f->next) {
        plan(&l, f);
        fprintf(file, "    [%u] = {kernel_%u, %lld, %lld, %zu, %zu},\n", (unsigned)f->kernel, (unsigned)f->kernel,
                (long long)extent(&l), grain_of(&l), f->x_count, f->result_count);
    }
    fprintf(file,
            "};\n__attribute__((visibility(\"default\"))) const xcvm_library_table xcvm_library = {%d, %u, kernels};\n",
            XCVM_LIBRARY_ABI, (unsigned)m->fusion_count);
    return ferror(file) == 0;
}
