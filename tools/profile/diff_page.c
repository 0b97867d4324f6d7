/* Pages of differences: text, tables and data around the parts that are files. */
#include "profile/diff_page.h"
#include "cli/memory.h"
#include "profile/page.h"
#include "profile/page_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Comparisons of an instruction ---- */

void diff_rows_add(struct diff_rows *rows, int32_t pc, const char *value, const struct comparison *comparison)
{
    const size_t index = (size_t)(pc > 0 ? pc : 0);
    while (rows->count <= index) {
        rows->rows = memory_append(rows->rows, rows->count, sizeof *rows->rows);
        rows->rows[rows->count++] = (struct diff_row){0};
    }
    struct diff_row *row = &rows->rows[index];
    const double largest = compare_larger(row->absolute, comparison->worst_absolute);
    const bool worse = row->compared == 0 || (!isnan(row->absolute) && largest != row->absolute);
    if (worse || (!comparison->agrees && row->worst == NULL)) {
        free(row->value);
        row->value = memory_text(value);
        if (!comparison->agrees) {
            free(row->worst);
            row->worst = memory_text(comparison->worst_text);
        }
    }
    row->compared++;
    row->different += !comparison->agrees;
    row->elements += comparison->count;
    row->different_elements += comparison->different;
    row->absolute = largest;
    row->relative = compare_larger(row->relative, comparison->worst_relative);
}

void diff_rows_release(struct diff_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->rows[i].value);
        free(rows->rows[i].worst);
    }
    free(rows->rows);
    *rows = (struct diff_rows){0};
}

/* The comparisons of an instruction, which may be none. */
static struct diff_row row_at(const struct diff_page *page, size_t pc)
{
    return pc < page->rows->count ? page->rows->rows[pc] : (struct diff_row){0};
}

/* ---- Tables ---- */

#define ERROR_TITLES                                                                                                   \
    "<th>values compared</th><th>values that differ</th><th>elements that differ</th><th>largest absolute "            \
    "error</th><th>largest relative error</th>"

static void put_errors(struct buffer *text, const struct diff_row *row)
{
    const bool known = row->compared != 0;
    page_number(text, "%.0f", (double)row->compared, true);
    page_number(text, row->different != 0 ? "<b class=\"worse\">%.0f</b>" : "%.0f", (double)row->different, known);
    page_number(text, "%.0f", (double)row->different_elements, known);
    page_number(text, "%.3g", row->absolute, known);
    page_number(text, "%.3g", row->relative, known);
}

static void put_cell(struct buffer *text, const char *string)
{
    buffer_text(text, "<td class=\"text\">");
    page_text(text, string);
    buffer_text(text, "</td>");
}

static void put_outputs(struct page_writer *w, const struct diff_page *page)
{
    buffer_text(&w->text,
                "<section><h2>Outputs</h2><div class=\"scroll\">\n<table class=\"sortable\" id=\"outputs\"><thead><tr>"
                "<th class=\"text\">output</th><th class=\"text\">result</th><th>elements</th><th>elements that "
                "differ</th><th>largest absolute error</th><th>largest relative error</th><th class=\"text\">"
                "worst element</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < page->output_count; i++) {
        const struct comparison *c = &page->outputs[i].comparison;
        buffer_text(&w->text, "<tr>");
        put_cell(&w->text, page->outputs[i].name);
        buffer_text(&w->text,
                    c->agrees ? "<td class=\"text better\">agrees</td>" : "<td class=\"text worse\">differs</td>");
        page_number(&w->text, "%.0f", (double)c->count, true);
        page_number(&w->text, "%.0f", (double)c->different, true);
        page_number(&w->text, "%.3g", c->worst_absolute, c->count != 0);
        page_number(&w->text, "%.3g", c->worst_relative, c->count != 0);
        put_cell(&w->text, c->worst_text);
        buffer_text(&w->text, "</tr>\n");
    }
    buffer_text(&w->text, "</tbody></table>\n</div></section>\n");
}

static double calls_of(const struct profile_row *kinds, size_t count, const char *instruction)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(kinds[i].instruction, instruction) == 0)
            return (double)kinds[i].calls;
    return 0;
}

/* The comparisons of all instructions of a kind. */
static struct diff_row errors_of_kind(const struct diff_page *page, const char *instruction)
{
    struct diff_row sum = {0};
    const struct profile *second = &page->profiles[1];
    for (size_t i = 0; i < second->count; i++) {
        if (second->rows[i].calls == 0 || strcmp(second->rows[i].instruction, instruction) != 0)
            continue;
        const struct diff_row row = row_at(page, i);
        sum.compared += row.compared;
        sum.different += row.different;
        sum.different_elements += row.different_elements;
        sum.absolute = compare_larger(sum.absolute, row.absolute);
        sum.relative = compare_larger(sum.relative, row.relative);
    }
    return sum;
}

static void put_kind(struct page_writer *w, const struct diff_page *page, const char *instruction, double first,
                     double second)
{
    const struct diff_row errors = errors_of_kind(page, instruction);
    buffer_text(&w->text, "<tr>");
    put_cell(&w->text, instruction);
    page_number(&w->text, "%.0f", first, true);
    page_number(&w->text, "%.0f", second, true);
    page_number(&w->text, second != first ? "<b>%+.0f</b>" : "%.0f", second - first, true);
    put_errors(&w->text, &errors);
    buffer_text(&w->text, "</tr>\n");
}

static void put_kinds(struct page_writer *w, const struct diff_page *page)
{
    struct profile_row *kinds[2];
    size_t counts[2];
    for (int i = 0; i < 2; i++)
        counts[i] = profile_kinds(&page->profiles[i], &kinds[i]);
    buffer_text(
        &w->text,
        "<section><h2>Differences by instruction</h2><div class=\"scroll\">\n<table class=\"sortable\" id=\"kinds\">"
        "<thead><tr><th class=\"text\">instruction</th><th>calls in the first program</th><th>in the "
        "second</th><th>change</th>" ERROR_TITLES "</tr></thead><tbody>\n");
    for (size_t i = 0; i < counts[1]; i++)
        put_kind(w, page, kinds[1][i].instruction, calls_of(kinds[0], counts[0], kinds[1][i].instruction),
                 (double)kinds[1][i].calls);
    for (size_t i = 0; i < counts[0]; i++)
        if (calls_of(kinds[1], counts[1], kinds[0][i].instruction) == 0)
            put_kind(w, page, kinds[0][i].instruction, (double)kinds[0][i].calls, 0);
    buffer_text(&w->text, "</tbody></table>\n</div></section>\n");
    for (int i = 0; i < 2; i++)
        profile_kinds_release(kinds[i]);
}

static void put_nodes(struct page_writer *w, const struct diff_page *page)
{
    const struct profile *second = &page->profiles[1];
    buffer_text(&w->text,
                "<section><h2>Differences by node</h2><p>In the order of the second program. A value without a "
                "partner of the same name, type and shape in the first program is not compared.</p><div "
                "id=\"find\"></div><div class=\"scroll\">\n<table class=\"sortable\" id=\"nodes\"><thead><tr>"
                "<th>pc</th><th class=\"text\">instruction</th><th class=\"text\">node</th><th class=\"text\">"
                "result</th>" ERROR_TITLES "<th class=\"text\">value</th><th class=\"text\">worst element</th>"
                "</tr></thead><tbody>\n");
    for (size_t i = 0; i < second->count; i++) {
        const struct profile_row *row = &second->rows[i];
        if (row->calls == 0)
            continue;
        const struct diff_row errors = row_at(page, i);
        buffer_format(&w->text, "<tr data-pc=\"%d\"><td data-v=\"%d\">%d</td>", row->pc, row->pc, row->pc);
        put_cell(&w->text, row->instruction);
        put_cell(&w->text, row->node);
        put_cell(&w->text, row->shape);
        put_errors(&w->text, &errors);
        put_cell(&w->text, errors.value != NULL ? errors.value : "");
        put_cell(&w->text, errors.worst != NULL ? errors.worst : "");
        buffer_text(&w->text, "</tr>\n");
        page_flush_when_large(w);
    }
    buffer_text(&w->text, "</tbody></table>\n</div></section>\n");
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Names of the nodes of a program, sorted. */
static const char **node_names(const struct profile *profile, size_t *count)
{
    const char **names = memory_take(profile->count + 1, sizeof *names);
    *count = 0;
    for (size_t i = 0; i < profile->count; i++)
        if (profile->rows[i].calls != 0 && *profile->rows[i].node != '\0')
            names[(*count)++] = profile->rows[i].node;
    qsort(names, *count, sizeof *names, by_name);
    return names;
}

static void put_lone(struct page_writer *w, const char *side, const char *node)
{
    buffer_text(&w->text, "<tr>");
    put_cell(&w->text, node);
    put_cell(&w->text, side);
    buffer_text(&w->text, "</tr>\n");
    page_flush_when_large(w);
}

/* The nodes that only one of the programs has, by merging both lists. */
static void put_lone_nodes(struct page_writer *w, const struct diff_page *page)
{
    size_t counts[2], at[2] = {0, 0};
    const char **names[2];
    for (int i = 0; i < 2; i++)
        names[i] = node_names(&page->profiles[i], &counts[i]);
    buffer_text(&w->text,
                "<section><h2>Nodes of one program only</h2><div class=\"scroll\">\n<table class=\"sortable\" "
                "id=\"lone\"><thead><tr><th class=\"text\">node</th><th class=\"text\">program</th></tr></thead>"
                "<tbody>\n");
    while (at[0] < counts[0] || at[1] < counts[1]) {
        const char *a = at[0] < counts[0] ? names[0][at[0]] : NULL, *b = at[1] < counts[1] ? names[1][at[1]] : NULL;
        const int order = a == NULL ? 1 : b == NULL ? -1 : strcmp(a, b);
        if (order < 0)
            put_lone(w, "first", a);
        else if (order > 0)
            put_lone(w, "second", b);
        /* A node may have several instructions. */
        while (order <= 0 && at[0] < counts[0] && strcmp(names[0][at[0]], a) == 0)
            at[0]++;
        while (order >= 0 && at[1] < counts[1] && strcmp(names[1][at[1]], b) == 0)
            at[1]++;
    }
    buffer_text(&w->text, "</tbody></table>\n</div></section>\n");
    for (int i = 0; i < 2; i++)
        free(names[i]);
}

/* ---- Data ---- */

/* JSON has neither infinity nor NaN. */
static void put_error(struct page_writer *w, double error)
{
    if (isnan(error))
        buffer_text(&w->text, "null");
    else
        buffer_format(&w->text, "%.6g", fmin(error, 1e300));
}

static void put_data(struct page_writer *w, const struct diff_page *page)
{
    const struct profile *second = &page->profiles[1];
    bool any = false;
    buffer_text(&w->text, "<script type=\"application/json\" id=\"xcvm-diff-1\">{\"rows\":[");
    for (size_t i = 0; i < second->count; i++) {
        const struct profile_row *row = &second->rows[i];
        if (row->calls == 0)
            continue;
        const struct diff_row errors = row_at(page, i);
        buffer_format(&w->text, "%s\n[%d,", any ? "," : "", row->pc);
        any = true;
        page_string(&w->text, row->instruction);
        buffer_text(&w->text, ",");
        page_string(&w->text, row->node);
        buffer_text(&w->text, ",");
        page_string(&w->text, row->shape);
        buffer_format(&w->text, ",%zu,%zu,", errors.compared, errors.different);
        put_error(w, errors.absolute);
        buffer_text(&w->text, ",");
        put_error(w, errors.relative);
        buffer_text(&w->text, "]");
        page_flush_when_large(w);
    }
    buffer_text(&w->text, "],\n\"edges\":[");
    for (size_t i = 0; i < page->recording->edge_count; i++)
        buffer_format(&w->text, "%s[%d,%d]", i != 0 ? "," : "", page->recording->edges[i].from,
                      page->recording->edges[i].to);
    buffer_text(&w->text, "]}</script>\n");
}

/* ---- The page ---- */

static void put_summary(struct page_writer *w, const struct diff_page *page)
{
    double absolute = 0, relative = 0;
    for (size_t i = 0; i < page->output_count; i++) {
        absolute = compare_larger(absolute, page->outputs[i].comparison.worst_absolute);
        relative = compare_larger(relative, page->outputs[i].comparison.worst_relative);
    }
    buffer_text(&w->text, "<dl class=\"cards\">\n");
    page_card(&w->text, "values compared", "%.0f", (double)page->compared, "");
    page_card(&w->text, "values that differ", "%.0f", (double)page->different, "");
    page_card(&w->text, "largest absolute error of outputs", "%.3g", absolute, "");
    page_card(&w->text, "largest relative error of outputs", "%.3g", relative, "");
    buffer_text(&w->text, "</dl>\n");
    if (page->not_kept != 0)
        buffer_format(&w->text,
                      "<p class=\"note\">%zu values were not compared, because the memory of --keep was used up."
                      "</p>\n",
                      page->not_kept);
}

bool diff_page_write(const struct diff_page *page, xcvm_sink sink)
{
    struct page_writer w = {.sink = sink, .good = true};
    page_begin(&w, page->programs[1], "differences");
    page_text(&w.text, page->programs[1]);
    buffer_text(&w.text, " beside ");
    page_text(&w.text, page->programs[0]);
    buffer_format(&w.text, ", relative tolerance %g, absolute tolerance %g", page->tolerance.relative,
                  page->tolerance.absolute);
    page_begin_main(&w, "The tables below are complete. The pictures and sorting need scripts.");
    put_summary(&w, page);
    put_outputs(&w, page);
    /* The script fills the sections that have pictures, and shows them. */
    buffer_text(&w.text, report_diff_html);
    put_kinds(&w, page);
    put_nodes(&w, page);
    put_lone_nodes(&w, page);
    buffer_text(&w.text, "</main>\n");
    put_data(&w, page);
    return page_end(&w, report_diff_js);
}
