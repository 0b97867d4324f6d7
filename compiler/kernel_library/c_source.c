/* The C source of a kernel library: one function for each group, with a statement for each step. */
#include "base/decimal.h"
#include "compiler/kernel_library/kernel_library.h"

#include <math.h>

extern const char xcc_fused_functions[];

/* Elements of a long row per part of the range, without reductions, and with sums in f32. */
enum { CHUNK = 1024, STRETCH = 4096 };
/* Flops worth a thread. */
static const double grain_flops = 200000;

#define TEXT_(...) #__VA_ARGS__
#define TEXT(...) TEXT_(__VA_ARGS__)

static const char helpers[] =
    "\nstatic inline float xcvm_map_ExpNegative(float v, float alpha, float beta)\n"
    "{\n"
    "    return xcvm_exp_negative_f32(v);\n"
    "}\n"
    "/* A NaN stays. */\n"
    "#define XCVM_GREATER(r, v) ((((v) > (r)) | ((v) != (v))) ? (v) : (r))\n"
    "#define XCVM_LESSER(r, v) ((((v) < (r)) | ((v) != (v))) ? (v) : (r))\n"
    "#pragma omp declare reduction(greatest : float : omp_out = XCVM_GREATER(omp_out, omp_in)) "
    "initializer(omp_priv = -INFINITY)\n"
    "#pragma omp declare reduction(least : float : omp_out = XCVM_LESSER(omp_out, omp_in)) "
    "initializer(omp_priv = INFINITY)\n";

typedef struct writer {
    const xcc_loops *l;
    FILE *file;
    const char *indent; /* of the loop at hand */
} writer;

static int64_t rows(const xcc_loops *l)
{
    int64_t count = 1;
    for (int i = 0; i + 1 < l->rank; i++)
        count *= l->dims[i];
    return count;
}

/* Rows that nothing is reduced in, and that are all one, are cut into chunks. */
static bool is_chunked(const xcc_loops *l) { return l->rank == 1 && l->f->split < 0 && xcc_loops_row(l) > CHUNK; }

/* Parts that the range is split into. */
static int64_t extent(const xcc_loops *l) { return is_chunked(l) ? (xcc_loops_row(l) + CHUNK - 1) / CHUNK : rows(l); }

static bool is_full_result(const xcc_loops *l, size_t r)
{
    return xcvm_same_shape(&xcc_node_output(l->f->group.nodes[l->f->results[r]], 0)->type, l->f->shape);
}

/* ---- Expressions ---- */

/* Names come from the model, and are not to end a comment. */
static void write_comment(FILE *file, const char *text)
{
    for (; *text != '\0'; text++)
        fputc((unsigned char)*text < ' ' || *text == '*' || *text == '\\' || *text == '?' ? '_' : *text, file);
}

static void write_number(FILE *file, double value)
{
    char text[XCVM_DECIMAL_TEXT];
    if (isnan(value))
        fputs("NAN", file);
    else if (isinf(value))
        fputs(value < 0 ? "-INFINITY" : "INFINITY", file);
    else
        fprintf(file, "(float)%s", xcvm_decimal_text((double)(float)value, 9, text));
}

static void write_reading(const writer *w, const xcc_reading *r)
{
    if (r->source == XCC_SOURCE_NUMBER)
        write_number(w->file, r->number);
    else if (r->source == XCC_SOURCE_STEP)
        fprintf(w->file, "v%u", (unsigned)r->index);
    else
        fprintf(w->file, "x%u%s", (unsigned)r->index, xcc_reads_row(w->l, r->index) ? "" : "[i]");
}

static void write_step(const writer *w, size_t i)
{
    const xcc_step *step = &w->l->steps[i];
    fprintf(w->file, "const float v%zu = xcvm_map_%s(", i, step->function);
    for (size_t j = 0; j < step->operand_count; j++) {
        if (j > 0)
            fputs(", ", w->file);
        write_reading(w, &step->operands[j]);
    }
    fputs("); /* ", w->file);
    write_comment(w->file, step->node->name);
    fputs(" */\n", w->file);
}

/* ---- Loops ---- */

static bool folds_in(const xcc_step *step, uint32_t loop)
{
    return step->reduce != XCC_REDUCE_NONE && xcc_step_reads_in(step) == loop;
}

static bool is_written_in(const xcc_loops *l, size_t r, uint32_t loop)
{
    const xcc_reading *reading = &l->readings[l->f->results[r]];
    bool full_step = reading->source == XCC_SOURCE_STEP && !l->steps[reading->index].row;
    return is_full_result(l, r) && loop == (full_step ? l->steps[reading->index].loop : l->loop_count - 1);
}

static void write_pragma(const writer *w, uint32_t loop)
{
    static const struct {
        xcc_reduce_op reduce;
        const char *name;
    } reduces[] = {{XCC_REDUCE_SUM, "+"}, {XCC_REDUCE_MAX, "greatest"}, {XCC_REDUCE_MIN, "least"}};
    bool any = false;
    for (size_t i = 0; i < w->l->step_count && !any; i++)
        any = folds_in(&w->l->steps[i], loop);
    if (!any) {
        fprintf(w->file, "%sXCVM_INDEPENDENT\n", w->indent);
        return;
    }
    fprintf(w->file, "%s_Pragma(\"omp simd", w->indent);
    for (size_t k = 0; k < sizeof reduces / sizeof *reduces; k++) {
        any = false;
        for (size_t i = 0; i < w->l->step_count; i++)
            if (folds_in(&w->l->steps[i], loop) && w->l->steps[i].reduce == reduces[k].reduce) {
                if (any)
                    fprintf(w->file, ", f%zu", i);
                else
                    fprintf(w->file, " reduction(%s : f%zu", reduces[k].name, i);
                any = true;
            }
        if (any)
            fputs(")", w->file);
    }
    fputs("\")\n", w->file);
}

static void write_body(const writer *w, uint32_t loop)
{
    const xcc_loops *l = w->l;
    for (size_t i = 0; i < l->step_count; i++) {
        const xcc_step *step = &l->steps[i];
        if (folds_in(step, loop)) {
            fprintf(w->file, "%s    f%zu ", w->indent, i);
            if (step->reduce == XCC_REDUCE_SUM) {
                fputs("+= ", w->file);
                write_reading(w, &step->operands[0]);
            } else {
                fprintf(w->file, "= %s(f%zu, ", step->reduce == XCC_REDUCE_MAX ? "XCVM_GREATER" : "XCVM_LESSER", i);
                write_reading(w, &step->operands[0]);
                fputs(")", w->file);
            }
            fputs(";\n", w->file);
        }
        if (!step->wanted)
            continue;
        fprintf(w->file, "%s    ", w->indent);
        if (step->kept && step->loop < loop) {
            if (step->result != XCC_NO_RESULT)
                fprintf(w->file, "const float v%zu = y%d[i];\n", i, step->result);
            else
                fprintf(w->file, "const float v%zu = kept%zu[i];\n", i, i);
            continue;
        }
        write_step(w, i);
        if (step->kept && step->result == XCC_NO_RESULT)
            fprintf(w->file, "%s    kept%zu[i] = v%zu;\n", w->indent, i, i);
    }
    for (size_t r = 0; r < l->f->result_count; r++) {
        if (!is_written_in(l, r, loop))
            continue;
        fprintf(w->file, "%s    y%zu[i] = ", w->indent, r);
        write_reading(w, &l->readings[l->f->results[r]]);
        fputs(";\n", w->file);
    }
}

/* `totals`: sums are computed chunk by chunk. */
static void write_accumulators(const writer *w, uint32_t loop, bool sums, bool totals)
{
    for (size_t i = 0; i < w->l->step_count; i++) {
        const xcc_step *step = &w->l->steps[i];
        if (!folds_in(step, loop) || (step->reduce == XCC_REDUCE_SUM) != sums)
            continue;
        if (sums && totals)
            fprintf(w->file, "        double total%zu = 0;\n", i);
        else
            fprintf(w->file, "%sfloat f%zu = %s;\n", w->indent, i,
                    sums                             ? "0"
                    : step->reduce == XCC_REDUCE_MAX ? "-INFINITY"
                                                     : "INFINITY");
    }
}

static void write_loop(writer *w, uint32_t loop)
{
    const xcc_loops *l = w->l;
    long long length = (long long)xcc_loops_row(l);
    bool reduces = false, sums = false, writes = false;
    for (size_t i = 0; i < l->step_count; i++) {
        reduces = reduces || folds_in(&l->steps[i], loop);
        sums = sums || (folds_in(&l->steps[i], loop) && l->steps[i].reduce == XCC_REDUCE_SUM);
        writes = writes || l->steps[i].wanted;
    }
    for (size_t r = 0; r < l->f->result_count; r++)
        writes = writes || is_written_in(l, r, loop);
    if (!reduces && !writes)
        return;
    bool totals = sums && length > STRETCH;
    w->indent = "        ";
    write_accumulators(w, loop, false, false);
    write_accumulators(w, loop, true, totals);
    if (totals) {
        fprintf(w->file,
                "        for (size_t from = 0, to; from < %lld; from = to) {\n"
                "            to = from + %d < %lld ? from + %d : %lld;\n",
                length, STRETCH, length, STRETCH, length);
        w->indent = "            ";
        write_accumulators(w, loop, true, false);
    }
    write_pragma(w, loop);
    if (totals || is_chunked(l))
        fprintf(w->file, "%sfor (size_t i = from; i < to; i++) {\n", w->indent);
    else
        fprintf(w->file, "%sfor (size_t i = 0; i < %lld; i++) {\n", w->indent, length);
    write_body(w, loop);
    fprintf(w->file, "%s}\n", w->indent);
    for (size_t i = 0; i < l->step_count && totals; i++)
        if (folds_in(&l->steps[i], loop) && l->steps[i].reduce == XCC_REDUCE_SUM)
            fprintf(w->file, "            total%zu += f%zu;\n", i, i);
    if (totals)
        fputs("        }\n", w->file);
    for (size_t i = 0; i < l->step_count; i++)
        if (folds_in(&l->steps[i], loop))
            fprintf(w->file, "        const float v%zu = %s%zu;\n", i,
                    totals && l->steps[i].reduce == XCC_REDUCE_SUM ? "(float)total" : "f", i);
}

/* ---- Functions ---- */

/* Writes the address of the first element of operand `x` in row `row`, or of its only element for the row. */
static void write_row_start(const writer *w, size_t x)
{
    const xcc_loops *l = w->l;
    const int64_t *strides = l->strides[x];
    bool vector = !xcc_reads_row(l, x);
    fprintf(w->file, "        const float %sx%zu = xs[%zu]%s", vector ? "*const " : "", x, x, vector ? "" : "[0");
    int64_t below = 1;
    for (int axis = l->rank - 2; axis >= 0; axis--) {
        if (strides[axis] != 0)
            fprintf(w->file, " + row / %lld %% %lld * %lld", (long long)below, (long long)l->dims[axis],
                    (long long)strides[axis]);
        below *= l->dims[axis];
    }
    fputs(vector ? ";\n" : "];\n", w->file);
}

static void write_row_steps(const writer *w, uint32_t loop)
{
    for (size_t i = 0; i < w->l->step_count; i++)
        if (w->l->steps[i].row && w->l->steps[i].reduce == XCC_REDUCE_NONE && w->l->steps[i].loop == loop) {
            fputs("        ", w->file);
            write_step(w, i);
        }
}

#define PARAMETERS "(const float *const *xs, float *const *results, size_t begin, size_t end)"

static void write_kernel(FILE *file, const xcc_kernel_group *f)
{
    xcc_loops *l = f->loops;
    writer w = {.l = l, .file = file};
    long long length = (long long)xcc_loops_row(l);
    fprintf(file, "\nvoid xcvm_kernel_%u" PARAMETERS "\n{\n", (unsigned)f->group.number);
    for (size_t i = 0; i < l->step_count; i++)
        if (l->steps[i].kept && l->steps[i].result == XCC_NO_RESULT)
            fprintf(file, "    float kept%zu[%lld] __attribute__((aligned(64)));\n", i, length);
    fputs("    for (size_t row = begin; row < end; row++) {\n", file);
    for (size_t x = 0; x < f->group.x_count; x++)
        write_row_start(&w, x);
    if (is_chunked(l))
        fprintf(file, "        const size_t from = row * %d, to = from + %d < %lld ? from + %d : %lld;\n", CHUNK, CHUNK,
                length, CHUNK, length);
    for (size_t r = 0; r < f->result_count; r++)
        if (is_full_result(l, r) && l->rank > 1)
            fprintf(file, "        float *const y%zu = results[%zu] + row * %lld;\n", r, r, length);
        else if (is_full_result(l, r))
            fprintf(file, "        float *const y%zu = results[%zu];\n", r, r);
    for (uint32_t loop = 0; loop < l->loop_count; loop++) {
        write_row_steps(&w, loop);
        xcc_loops_want(l, loop);
        write_loop(&w, loop);
    }
    write_row_steps(&w, l->loop_count);
    for (size_t r = 0; r < f->result_count; r++) {
        if (is_full_result(l, r))
            continue;
        fprintf(file, "        results[%zu][row] = ", r);
        write_reading(&w, &l->readings[f->results[r]]);
        fputs(";\n", file);
    }
    fputs("    }\n}\n", file);
}

static long long grain_of(const xcc_loops *l)
{
    double flops = 1;
    for (size_t i = 0; i < l->step_count; i++)
        if (!l->steps[i].row || l->steps[i].reduce != XCC_REDUCE_NONE)
            flops += (double)l->steps[i].cost;
    double part = flops * (double)(is_chunked(l) ? CHUNK : xcc_loops_row(l));
    return 1 + (long long)(grain_flops / part);
}

static void write_elements(const xcc_kernel_group *f, FILE *file)
{
    fprintf(file, "\nstatic const long long elements_%u[] = {", (unsigned)f->group.number);
    for (size_t i = 0; i < f->group.x_count; i++)
        fprintf(file, "%zu, ", xcvm_element_count(&f->group.xs[i]->type));
    for (size_t i = 0; i < f->result_count; i++)
        fprintf(file, "%zu, ", xcvm_element_count(&xcc_node_output(f->group.nodes[f->results[i]], 0)->type));
    fputs("};", file);
}

static void write_table(const xcc_module *m, FILE *file)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        fprintf(file, "\nvoid xcvm_kernel_%u" PARAMETERS ";", (unsigned)i);
    for (xcc_group *group = m->groups; group != NULL; group = group->next)
        write_elements(xcc_fusion_of(group), file);
    fprintf(file, "\nstatic const xcvm_library_kernel kernels[%u] = {\n", (unsigned)m->group_count);
    for (xcc_group *group = m->groups; group != NULL; group = group->next) {
        const xcc_kernel_group *f = xcc_fusion_of(group);
        fprintf(file, "    [%u] = {xcvm_kernel_%u, %lld, %lld, 0x%llx, %zu, %zu, elements_%u},\n",
                (unsigned)f->group.number, (unsigned)f->group.number, (long long)extent(f->loops), grain_of(f->loops),
                (unsigned long long)f->loops->in_place, f->group.x_count, f->result_count, (unsigned)f->group.number);
    }
    fprintf(file,
            "};\n__attribute__((visibility(\"default\"))) const xcvm_library_table xcvm_library = {%d, %u, kernels};\n",
            XCVM_LIBRARY_ABI, (unsigned)m->group_count);
}

bool xcc_codegen_write(const xcc_module *m, xcc_source_part part, FILE *file)
{
    fputs("/* Kernels of one program, written by xcvm compile --kernel-library. */\n#include <stddef.h>\n", file);
    fputs(xcc_fused_functions, file);
    fputs(helpers, file);
    fputs("\n" TEXT(XCVM_LIBRARY_TYPES) "\n", file);
    for (xcc_group *group = m->groups; group != NULL; group = group->next)
        if (group->number % part.count == part.number)
            write_kernel(file, xcc_fusion_of(group));
    if (part.number + 1 == part.count)
        write_table(m, file);
    return ferror(file) == 0;
}
