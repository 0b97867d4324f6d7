/* Pages of profiles: text, tables and data around the parts that are files. */
#include "profile/profile_page.h"
#include "profile/page.h"
#include "profile/page_files.h"

#include <inttypes.h>
#include <string.h>

/* What the data of a page begin and end with. The number changes with their form. */
#define DATA_BEGIN "<script type=\"application/json\" id=\"xcvm-profile-1\">"
#define DATA_END "</script>"

/* ---- Data ---- */

static uint64_t since(uint64_t origin, uint64_t ns) { return ns > origin ? ns - origin : 0; }

static void put_rows(struct page_writer *w, const struct profile_page *page)
{
    bool any = false;
    buffer_text(&w->text, ",\n\"rows\":[");
    for (size_t i = 0; i < page->profile->count; i++) {
        const struct profile_row *row = &page->profile->rows[i];
        if (row->calls == 0)
            continue;
        buffer_format(&w->text, "%s\n[%d,", any ? "," : "", row->pc);
        any = true;
        page_string(&w->text, row->instruction);
        buffer_text(&w->text, ",");
        page_string(&w->text, row->node);
        buffer_text(&w->text, ",");
        page_string(&w->text, row->shape);
        buffer_format(&w->text, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%d]", row->calls, row->ns, row->flops,
                      row->bytes, page->optimizer != NULL ? (int)profile_phase_of(row, page->optimizer) : 0);
        page_flush_when_large(w);
    }
    buffer_text(&w->text, "]");
}

static void put_recording(struct page_writer *w, const struct recording *r)
{
    buffer_format(&w->text, ",\n\"run\":{\"ns\":%" PRIu64 ",\"cut\":%s,\n\"steps\":[", since(r->start_ns, r->end_ns),
                  r->cut ? "true" : "false");
    for (size_t i = 0; i < r->step_count; i++) {
        const struct recorded_step *step = &r->steps[i];
        buffer_format(&w->text, "%s[%d,%" PRIu64 ",%" PRIu64 ",%zu]", i != 0 ? "," : "", step->pc,
                      since(r->start_ns, step->start_ns), since(step->start_ns, step->end_ns), step->live_bytes);
        page_flush_when_large(w);
    }
    buffer_text(&w->text, "],\n\"spans\":[");
    for (size_t i = 0; i < r->span_count; i++) {
        const struct recorded_span *span = &r->spans[i];
        buffer_format(&w->text, "%s[%zu,%d,%" PRIu64 ",%" PRIu64 "]", i != 0 ? "," : "", span->step, span->span.worker,
                      since(r->start_ns, span->span.start_ns), since(span->span.start_ns, span->span.end_ns));
        page_flush_when_large(w);
    }
    buffer_text(&w->text, "],\n\"edges\":[");
    for (size_t i = 0; i < r->edge_count; i++)
        buffer_format(&w->text, "%s[%d,%d]", i != 0 ? "," : "", r->edges[i].from, r->edges[i].to);
    buffer_text(&w->text, "]}");
}

static void put_data(struct page_writer *w, const struct profile_page *page)
{
    const struct peaks *peaks = page->peaks;
    buffer_text(&w->text, DATA_BEGIN "{\"program\":");
    page_string(&w->text, page->program);
    buffer_text(&w->text, ",\"version\":");
    page_string(&w->text, xcvm_version());
    buffer_text(&w->text, ",\"processor\":");
    page_string(&w->text, peaks->processor);
    buffer_format(&w->text,
                  ",\"threads\":%d,\"runs\":%zu,\"ns\":%" PRIu64 ",\"training\":%s,\"gflops\":%.6g,\"gigabytes\":%.6g,"
                  "\"arena\":%zu,\"constants\":%zu,\"peak\":%zu",
                  page->threads, page->profile->runs, page->profile->run_ns, page->optimizer != NULL ? "true" : "false",
                  peaks->gflops, peaks->gigabytes, page->arena_bytes, page->constant_bytes, page->peak_bytes);
    put_rows(w, page);
    put_recording(w, page->recording);
    buffer_text(&w->text, "}" DATA_END "\n");
}

bool profile_page_data(const char *html, size_t length, struct buffer *data)
{
    const char *const end = html + length, *from = memmem(html, length, DATA_BEGIN, strlen(DATA_BEGIN));
    if (from == NULL)
        return false;
    from += strlen(DATA_BEGIN);
    const char *to = memchr(from, '<', (size_t)(end - from));
    if (to == NULL || (size_t)(end - to) < strlen(DATA_END) || memcmp(to, DATA_END, strlen(DATA_END)) != 0)
        return false;
    buffer_append(data, from, (size_t)(to - from));
    return true;
}

/* ---- Tables ---- */

static void put_figures(struct buffer *text, const struct profile_row *row, uint64_t total, size_t runs)
{
    const double us = (double)row->ns * 1e-3, share = total != 0 ? 100.0 * (double)row->ns / (double)total : 0;
    const bool timed = row->ns != 0;
    page_number(text, "%.3f", us / (double)(runs != 0 ? runs : 1), true);
    buffer_format(text, "<td data-v=\"%.9g\" class=\"share\"><meter max=\"100\" value=\"%.1f\"></meter> %.1f</td>",
                  share, share, share);
    page_number(text, "%.2f", timed ? (double)row->flops / (double)row->ns : 0, timed && row->flops != 0);
    page_number(text, "%.2f", timed ? (double)row->bytes / (double)row->ns : 0, timed && row->bytes != 0);
}

#define FIGURE_TITLES                                                                                                  \
    "<th>µs a run</th><th>share of time, %</th><th title=\"floating-point operations\">GFLOP/s</th>"                  \
    "<th title=\"bytes read and written\">GB/s</th>"

static void put_kinds(struct page_writer *w, const struct profile_page *page, uint64_t total)
{
    struct profile_row *kinds;
    const size_t count = profile_kinds(page->profile, &kinds);
    buffer_text(
        &w->text,
        "<table class=\"sortable\"><thead><tr><th class=\"text\">instruction</th><th>calls a run</th>" FIGURE_TITLES
        "</tr></thead><tbody>\n");
    for (size_t i = 0; i < count; i++) {
        buffer_text(&w->text, "<tr><td class=\"text\">");
        page_text(&w->text, kinds[i].instruction);
        buffer_text(&w->text, "</td>");
        page_number(&w->text, "%.4g",
                    (double)kinds[i].calls / (double)(page->profile->runs != 0 ? page->profile->runs : 1), true);
        put_figures(&w->text, &kinds[i], total, page->profile->runs);
        buffer_text(&w->text, "</tr>\n");
    }
    buffer_text(&w->text, "</tbody></table>\n");
    profile_kinds_release(kinds);
}

static void put_nodes(struct page_writer *w, const struct profile_page *page, uint64_t total)
{
    buffer_text(&w->text,
                "<table class=\"sortable\" id=\"nodes\"><thead><tr><th>pc</th><th class=\"text\">instruction</th>"
                "<th class=\"text\">node</th><th class=\"text\">result</th>" FIGURE_TITLES "</tr></thead><tbody>\n");
    for (size_t i = 0; i < page->profile->count; i++) {
        const struct profile_row *row = &page->profile->rows[i];
        if (row->calls == 0)
            continue;
        buffer_format(&w->text, "<tr data-pc=\"%d\"><td data-v=\"%d\">%d</td><td class=\"text\">", row->pc, row->pc,
                      row->pc);
        page_text(&w->text, row->instruction);
        buffer_text(&w->text, "</td><td class=\"text\">");
        page_text(&w->text, row->node);
        buffer_text(&w->text, "</td><td class=\"text\">");
        page_text(&w->text, row->shape);
        buffer_text(&w->text, "</td>");
        put_figures(&w->text, row, total, page->profile->runs);
        buffer_text(&w->text, "</tr>\n");
        page_flush_when_large(w);
    }
    buffer_text(&w->text, "</tbody></table>\n");
}

static void put_phases(struct page_writer *w, const struct profile_page *page, uint64_t total)
{
    struct profile_row phases[PHASES];
    profile_phases(page->profile, page->optimizer, phases);
    buffer_text(
        &w->text,
        "<section><h2>Phases of the training step</h2><table><thead><tr><th class=\"text\">phase</th>" FIGURE_TITLES
        "</tr></thead><tbody>\n");
    for (size_t i = 0; i < PHASES; i++) {
        buffer_format(&w->text, "<tr><td class=\"text\">%s</td>", profile_phase_name((enum phase)i));
        put_figures(&w->text, &phases[i], total, page->profile->runs);
        buffer_text(&w->text, "</tr>\n");
    }
    buffer_text(&w->text, "</tbody></table></section>\n");
}

/* ---- The page ---- */

static void put_summary(struct page_writer *w, const struct profile_page *page, uint64_t total)
{
    const struct profile *p = page->profile;
    const double runs = (double)(p->runs != 0 ? p->runs : 1);
    uint64_t flops = 0;
    for (size_t i = 0; i < p->count; i++)
        flops += p->rows[i].flops;
    buffer_text(&w->text, "<dl class=\"cards\">\n");
    page_card(&w->text, page->optimizer != NULL ? "time of a step" : "time of a run", "%.4f",
              (double)p->run_ns * 1e-6 / runs, "ms");
    page_card(&w->text, "in instructions", "%.1f", p->run_ns != 0 ? 100.0 * (double)total / (double)p->run_ns : 0, "%");
    page_card(&w->text, "rate", "%.1f", p->run_ns != 0 ? (double)flops / (double)p->run_ns : 0, "GFLOP/s");
    page_card(&w->text, "peak memory", "%.2f", (double)page->peak_bytes * 1e-6, "MB");
    page_card(&w->text, "constants", "%.2f", (double)page->constant_bytes * 1e-6, "MB");
    buffer_text(&w->text, "</dl>\n");
}

static void put_header(struct page_writer *w, const struct profile_page *page)
{
    page_begin(w, page->program, "profile");
    page_text(&w->text, page->program);
    buffer_format(&w->text, ". %s, %zu run%s by %d thread%s", page->optimizer != NULL ? "Training step" : "Inference",
                  page->profile->runs, page->profile->runs != 1 ? "s" : "", page->threads,
                  page->threads != 1 ? "s" : "");
    if (page->peaks->processor[0] != '\0') {
        buffer_text(&w->text, " on ");
        page_text(&w->text, page->peaks->processor);
    }
    page_begin_main(w, "The tables below are complete. The pictures, sorting and comparison need scripts.");
}

bool profile_page_write(const struct profile_page *page, xcvm_sink sink)
{
    struct page_writer w = {.sink = sink, .good = true};
    uint64_t total = 0;
    for (size_t i = 0; i < page->profile->count; i++)
        total += page->profile->rows[i].ns;
    put_header(&w, page);
    put_summary(&w, page, total);
    if (page->optimizer != NULL)
        put_phases(&w, page, total);
    /* The script fills the sections that have pictures, and shows them. */
    buffer_text(&w.text, report_profile_html);
    buffer_text(&w.text, "<section><h2>Time by instruction</h2><div class=\"scroll\">\n");
    put_kinds(&w, page, total);
    buffer_text(&w.text,
                "</div></section>\n<section><h2>Time by node</h2><div id=\"find\"></div><div class=\"scroll\">\n");
    put_nodes(&w, page, total);
    buffer_text(&w.text, "</div></section>\n</main>\n");
    put_data(&w, page);
    if (page->earlier != NULL) {
        buffer_text(&w.text, "<script type=\"application/json\" id=\"earlier\">");
        buffer_text(&w.text, page->earlier);
        buffer_text(&w.text, DATA_END "\n");
    }
    return page_end(&w, report_profile_js);
}
