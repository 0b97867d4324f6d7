/* The tables that `xcvm quantize` prints. */
#include "commands/quantize_report.h"
#include "cli/memory.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METHOD_NAME(method, name) [method] = name,
const char *const quantize_method_names[] = {[XCC_RANGE_DEFAULT] = QUANTIZE_METHOD_DEFAULT,
                                             QUANTIZE_METHODS(METHOD_NAME)};

/* Whether row `index` is printed. */
static bool in_rows(int64_t rows, size_t index) { return rows == 0 || index < (size_t)rows; }

static void print_left(size_t count, size_t shown, const char *what)
{
    if (count > shown)
        printf("and %zu more %s; --rows 0 prints all\n", count - shown, what);
}

static const char *printable(char *text, size_t size, const char *name)
{
    snprintf(text, size, "%s", name);
    make_printable(text);
    return text;
}

static void print_share(struct table *table, double share)
{
    if (isnan(share))
        table_cell(table, ">-");
    else
        table_cell(table, ">%.1f", share * 100);
}

static void print_outputs(const xcc_quantizer *quantizer)
{
    const xcc_quantizer_output_info *o;
    struct table table = {0};
    char name[128];
    if (xcc_quantizer_output_at(quantizer, 0) == NULL)
        return;
    static const char *const heads[] = {"output",        ">range",   ">max error %",     ">predicted %",
                                        ">mean error %", ">SQNR dB", ">same greatest %", ">predicted %"};
    for (size_t i = 0; i < COUNT_OF(heads); i++)
        table_cell(&table, heads[i][0] == '>' ? ">%s" : "%s", heads[i] + (heads[i][0] == '>'));
    table_end_row(&table);
    for (size_t i = 0; (o = xcc_quantizer_output_at(quantizer, i)) != NULL; i++) {
        table_cell(&table, "%s", printable(name, sizeof name, o->name));
        if (o->decisions) {
            for (size_t k = 0; k < 5; k++)
                table_cell(&table, ">-");
        } else {
            table_cell(&table, ">%.4g .. %.4g", o->least, o->greatest);
            table_cell(&table, ">%.3f", o->max_error * 100);
            table_cell(&table, ">%.3f", o->predicted_error * 100);
            table_cell(&table, ">%.3f", o->mean_error * 100);
            table_cell(&table, ">%.1f", o->sqnr);
        }
        print_share(&table, o->agree);
        print_share(&table, o->predicted_agree);
        table_end_row(&table);
    }
    table_print(&table, stdout);
    putchar('\n');
}

static void print_tensors(const xcc_quantizer *quantizer, int64_t rows)
{
    const xcc_quantizer_tensor_info *x;
    struct table table = {0};
    char name[128];
    size_t count = 0, shown = 0;
    if (xcc_quantizer_tensor_at(quantizer, 0) == NULL)
        return;
    static const char *const heads[] = {"tensor", "of", ">SQNR dB", ">max error", ">mean error", ">range", ">seen"};
    for (size_t i = 0; i < COUNT_OF(heads); i++)
        table_cell(&table, heads[i][0] == '>' ? ">%s" : "%s", heads[i] + (heads[i][0] == '>'));
    table_end_row(&table);
    for (; (x = xcc_quantizer_tensor_at(quantizer, count)) != NULL; count++) {
        if (!in_rows(rows, count))
            continue;
        shown++;
        table_cell(&table, "%s", printable(name, sizeof name, x->name));
        table_cell(&table, "%s", x->op[0] != '\0' ? x->op : "input");
        table_cell(&table, ">%.1f", x->sqnr);
        table_cell(&table, ">%.3g", x->max_error);
        table_cell(&table, ">%.3g", x->mean_error);
        table_cell(&table, ">%.4g .. %.4g", x->low, x->high);
        table_cell(&table, ">%.4g .. %.4g", x->least, x->greatest);
        table_end_row(&table);
    }
    table_print(&table, stdout);
    print_left(count, shown, "tensors");
    putchar('\n');
}

static int by_harm(const void *a, const void *b)
{
    const xcc_quantizer_node_info *x = *(const xcc_quantizer_node_info *const *)a,
                                  *y = *(const xcc_quantizer_node_info *const *)b;
    return (x->harm < y->harm) - (x->harm > y->harm);
}

static void print_percent(struct table *table, double share)
{
    if (isnan(share))
        table_cell(table, ">-");
    else
        table_cell(table, ">%.3g", share * 100);
}

static bool is_kept(const xcc_quantizer_node_info *n) { return n->kept || n->weights_alone; }

/* The judged nodes, the most harmful first, in the syntax of --exclude-nodes: all, or up to the last one that a bound
 * keeps from integers. */
static void print_harmful_nodes(const xcc_quantizer *quantizer, size_t node_count, bool all)
{
    const xcc_quantizer_node_info *n;
    struct table table = {0};
    char name[128];
    size_t count = 0;
    const xcc_quantizer_node_info **listed = memory_take(node_count + 1, sizeof *listed);
    for (size_t i = 0; (n = xcc_quantizer_node_at(quantizer, i)) != NULL; i++)
        if (!isnan(n->harm))
            listed[count++] = n;
    qsort(listed, count, sizeof *listed, by_harm);
    while (!all && count > 0 && !is_kept(listed[count - 1]))
        count--;
    static const char *const heads[] = {"nodes by harm", "operator",         "in floats",
                                        ">harm %",       ">weights alone %", ">all so far in floats: max error %",
                                        ">mean error %", ">same greatest %"};
    for (size_t i = 0; i < COUNT_OF(heads); i++)
        table_cell(&table, heads[i][0] == '>' ? ">%s" : "%s", heads[i] + (heads[i][0] == '>'));
    table_end_row(&table);
    for (size_t i = 0; i < count; i++) {
        n = listed[i];
        table_cell(&table, "%s", printable(name, sizeof name, n->name));
        table_cell(&table, "%s", n->op);
        table_cell(&table, "%s", n->kept ? "all" : n->weights_alone ? "activations" : "");
        print_percent(&table, n->harm);
        print_percent(&table, n->weights_harm);
        print_percent(&table, n->max_error_after);
        print_percent(&table, n->mean_error_after);
        print_share(&table, n->agree_after);
        table_end_row(&table);
    }
    if (count > 0) {
        table_print(&table, stdout);
        putchar('\n');
    }
    free(listed);
}

static bool has_float_nodes(const xcc_quantizer *quantizer)
{
    const xcc_quantizer_node_info *n;
    for (size_t i = 0; (n = xcc_quantizer_node_at(quantizer, i)) != NULL; i++)
        if (!n->quantized && !n->kept)
            return true;
    return false;
}

static void print_float_nodes(const xcc_quantizer *quantizer, int64_t rows)
{
    const xcc_quantizer_node_info *n;
    struct table table = {0};
    char name[128];
    size_t count = 0, shown = 0;
    if (!has_float_nodes(quantizer))
        return;
    table_cell(&table, "in float");
    table_cell(&table, "operator");
    table_cell(&table, ">harm %%");
    table_cell(&table, "because");
    table_end_row(&table);
    for (size_t i = 0; (n = xcc_quantizer_node_at(quantizer, i)) != NULL; i++) {
        if (n->quantized || n->kept)
            continue;
        count++;
        if (!in_rows(rows, count - 1))
            continue;
        shown++;
        table_cell(&table, "%s", printable(name, sizeof name, n->name));
        table_cell(&table, "%s", n->op);
        if (isnan(n->harm))
            table_cell(&table, ">-");
        else
            table_cell(&table, ">%.3f", n->harm * 100);
        table_cell(&table, "%s", n->reason);
        table_end_row(&table);
    }
    table_print(&table, stdout);
    print_left(count, shown, "nodes in float");
    putchar('\n');
}

/* Prints how many batches were calibrated with and measured. */
static void print_batches(const xcc_quantizer_report *r)
{
    if (r->calibration_batches == 0) {
        printf("errors are not measured without --data\n");
        return;
    }
    const bool same = r->calibration_batches + r->measured_batches > r->data_batches;
    printf("calibrated with %zu batches, %s%s %zu%s; predicted: 90 %% limits for as many further batches\n",
           r->calibration_batches, r->tried_models > 1 ? "nodes chosen by and " : "", "measured on",
           r->measured_batches, same ? ", the same ones" : " others");
}

void quantize_report_print(const xcc_quantizer *quantizer, const xcc_quantizer_options *options, int64_t rows)
{
    xcc_quantizer_report report = {.size = sizeof report};
    xcc_quantizer_get_report(quantizer, &report);
    print_outputs(quantizer);
    print_tensors(quantizer, rows);
    if (options->sensitivity || report.kept_nodes + report.weights_alone_nodes > 0)
        print_harmful_nodes(quantizer, report.node_count, options->sensitivity);
    print_float_nodes(quantizer, rows);
    printf("nodes %zu of %zu quantized", report.quantized_nodes, report.node_count);
    if (options->max_error > 0 || options->max_mean_error > 0 || options->min_agreement > 0)
        printf(", %zu of these by their weights alone, %zu kept in float for the bounds", report.weights_alone_nodes,
               report.kept_nodes);
    if (report.inference_nodes > 0)
        printf(", %zu put into inference form", report.inference_nodes);
    if (report.folded_normalizations > 0)
        printf(", %zu normalizations folded", report.folded_normalizations);
    if (report.equalized_pairs > 0)
        printf(", %zu pairs of convolutions equalized", report.equalized_pairs);
    if (report.scaled_channels > 0)
        printf(", %zu channels scaled", report.scaled_channels);
    putchar('\n');
    if (report.tried_models > 1)
        printf("looked for these in %.1f s: %zu nodes judged by themselves, %zu models by all batches\n",
               (double)report.search_ns / 1e9, report.judged_nodes, report.tried_models);
    if (report.weights_alone_nodes > 0)
        printf("those by their weights alone compute in floats, with weights of 8 bits\n");
    if (report.measured_only)
        printf(
            "the bounds hold for the measured inputs, but not for the predicted limits of others; more held-out inputs "
            "show "
            "more\n");
    if (report.tried_models > 1 && options->method == XCC_RANGE_DEFAULT && report.method != XCC_RANGE_MSE)
        printf("ranges by --method %s, because a bound of the error did not hold with %s\n",
               quantize_method_names[report.method], quantize_method_names[XCC_RANGE_MSE]);
    print_batches(&report);
    printf("constants %.2f MB, were %.2f MB\n", (double)report.bytes_after / 1e6, (double)report.bytes_before / 1e6);
}
