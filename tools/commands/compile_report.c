/* The report of `xcvm compile`, and lines of the compiler. */
#include "commands/compile_report.h"
#include "cli/report.h"
#include "cli/table.h"
#include "io/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_changed(const char *choice, const char *initial) { return strcmp(choice, initial) != 0; }

/* The lines contain names from the model, which may contain control characters of terminals. */
static void print_states(struct buffer *states)
{
    if (states->length != 0)
        make_printable(states->data);
    output_print(buffer_string(states));
}

void compile_report_print(const struct model_flags *model, const xcc_report *report, struct state_lines *lines)
{
    static const struct model_flags usual = MODEL_DEFAULTS;
    struct table table = {0};
    table_cell(&table, " ");
    table_cell(&table, ">before");
    table_cell(&table, ">after");
    table_end_row(&table);
    table_cell(&table, "nodes, instructions");
    table_cell(&table, ">%zu", report->nodes_before);
    table_cell(&table, ">%zu", report->nodes_after);
    table_end_row(&table);
    table_cell(&table, "flops");
    table_cell(&table, ">%" PRIu64, report->flops_before);
    table_cell(&table, ">%" PRIu64, report->flops_after);
    table_end_row(&table);
    table_cell(&table, "peak bytes");
    table_cell(&table, ">%" PRIu64, report->peak_bytes_before);
    table_cell(&table, ">%" PRIu64, report->peak_bytes_after);
    table_end_row(&table);
    table_cell(&table, "weight bytes");
    table_cell(&table, ">%" PRIu64, report->weight_bytes_before);
    table_cell(&table, ">%" PRIu64, report->weight_bytes_after);
    table_end_row(&table);
    table_print(&table, stdout);
    if (report->uncompressed != 0)
        printf("%zu %s f32, with numbers that are out of range\n", report->uncompressed,
               report->uncompressed == 1 ? "constant stays" : "constants stay");
    /* An option that was given is reported, even if it had no effect. */
    if (report->bf16_products != 0 || report->exact_products != 0 || is_changed(model->compute, usual.compute))
        printf("products, convolutions, attentions and recurrences: %zu in bf16, %zu in f32\n", report->bf16_products,
               report->exact_products);
    if (is_changed(model->activations, usual.activations))
        printf("products with matrices in blocks: %zu\n", report->block_products);
    if (model->tune)
        printf("forms of convolutions that were measured: %zu\n", report->tuned);
    if (report->integer_products != 0 || report->float_products != 0 || strcmp(model->integer, "always") == 0) {
        printf("convolutions and products with quantized weights: %zu in integers, %zu in floats",
               report->integer_products, report->float_products);
        if (report->faster_as_floats != 0)
            printf(" (%zu because that is faster here)", report->faster_as_floats);
        putchar('\n');
    }
    print_states(&lines->states);
    printf("parameters %" PRIu64 " bytes, arena %" PRIu64 " bytes", report->parameter_bytes, report->arena_bytes);
    if (report->arena_lower_bound != 0)
        printf(" (lower bound %" PRIu64 ", %.1f%% above it)", report->arena_lower_bound,
               100.0 * ((double)report->arena_bytes / (double)report->arena_lower_bound - 1));
    puts("");
    if (!report->exact)
        puts("open dimensions are counted as 1");
}
