/* Profiles: events summed up by instruction and by kind, as tables. */
#include "profile/profile.h"
#include "cli/memory.h"
#include "cli/table.h"
#include "values/value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct profile_row *row_of(struct profile *profile, int32_t pc)
{
    size_t index = (size_t)(pc > 0 ? pc : 0);
    while (profile->count <= index) {
        profile->rows = memory_append(profile->rows, profile->count, sizeof *profile->rows);
        profile->rows[profile->count] = (struct profile_row){.pc = (int32_t)profile->count};
        profile->count++;
    }
    return &profile->rows[index];
}

/* Instructions that hand a value on without touching its elements. */
static bool only_binds(const char *instruction)
{
    return strcmp(instruction, "In") == 0 || strcmp(instruction, "Out") == 0 || strcmp(instruction, "Free") == 0;
}

void profile_add(struct profile *profile, const xcvm_event *event)
{
    struct profile_row *row = row_of(profile, event->pc);
    if (row->instruction == NULL) {
        struct buffer shape = {0};
        if (event->output_count != 0 && event->outputs[0] != NULL)
            value_type_print(&shape, event->outputs[0]);
        row->instruction = memory_text(event->instruction);
        row->node = memory_text(event->node != NULL ? event->node : "");
        row->shape = memory_text(buffer_string(&shape));
        buffer_release(&shape);
    }
    row->calls++;
    row->ns += event->end_ns - event->start_ns;
    row->flops += event->flops;
    if (!only_binds(event->instruction))
        row->bytes += event->bytes_read + event->bytes_written;
}

static int slower_first(const void *a, const void *b)
{
    const struct profile_row *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? 1 : -1;
    return (x->pc > y->pc) - (x->pc < y->pc);
}

size_t profile_kinds(const struct profile *profile, struct profile_row **kinds)
{
    size_t count = 0;
    *kinds = NULL;
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_row *row = &profile->rows[i];
        size_t k = 0;
        if (row->calls == 0)
            continue;
        while (k < count && strcmp((*kinds)[k].instruction, row->instruction) != 0)
            k++;
        if (k == count) {
            *kinds = memory_append(*kinds, count, sizeof **kinds);
            (*kinds)[count++] = (struct profile_row){.instruction = row->instruction, .pc = (int32_t)i};
        }
        (*kinds)[k].calls += row->calls;
        (*kinds)[k].ns += row->ns;
        (*kinds)[k].flops += row->flops;
        (*kinds)[k].bytes += row->bytes;
    }
    if (count != 0)
        qsort(*kinds, count, sizeof **kinds, slower_first);
    return count;
}

void profile_kinds_release(struct profile_row *kinds) { free(kinds); }

static void print_figures(struct table *table, const struct profile_row *row, uint64_t total)
{
    double seconds = (double)row->ns * 1e-9;
    table_cell(table, ">%" PRIu64, row->calls);
    table_cell(table, ">%.3f", seconds * 1e3);
    table_cell(table, ">%.3f", row->calls != 0 ? seconds * 1e6 / (double)row->calls : 0);
    table_cell(table, ">%.1f", total != 0 ? 100.0 * (double)row->ns / (double)total : 0);
    /* There is no rate without flops, or below the resolution of the clock. */
    if (row->flops != 0 && row->ns != 0)
        table_cell(table, ">%.2f", (double)row->flops / (double)row->ns);
    else
        table_cell(table, ">-");
    if (row->bytes != 0 && row->ns != 0)
        table_cell(table, ">%.2f", (double)row->bytes / (double)row->ns);
    else
        table_cell(table, ">-");
}

static void print_titles(struct table *table)
{
    static const char *const titles[] = {"calls", "total ms", "mean us", "share %", "GFLOP/s", "GB/s"};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        table_cell(table, ">%s", titles[i]);
}

static void print_kinds(const struct profile *profile, uint64_t total, FILE *stream)
{
    struct table table = {0};
    struct profile_row *kinds;
    size_t count = profile_kinds(profile, &kinds);
    table_cell(&table, "instruction");
    print_titles(&table);
    table_end_row(&table);
    for (size_t i = 0; i < count; i++) {
        table_cell(&table, "%s", kinds[i].instruction);
        print_figures(&table, &kinds[i], total);
        table_end_row(&table);
    }
    table_print(&table, stream);
    profile_kinds_release(kinds);
}

static void print_rows(const struct profile *profile, uint64_t total, bool by_time, size_t top, FILE *stream)
{
    struct table table = {0};
    struct profile_row *rows = memory_grow(NULL, profile->count, sizeof *rows);
    size_t count = 0;
    for (size_t i = 0; i < profile->count; i++)
        if (profile->rows[i].calls != 0)
            rows[count++] = profile->rows[i];
    if (by_time && count != 0)
        qsort(rows, count, sizeof *rows, slower_first);
    table_cell(&table, ">pc");
    table_cell(&table, "instruction");
    print_titles(&table);
    table_cell(&table, "result");
    table_cell(&table, "node");
    table_end_row(&table);
    for (size_t i = 0; i < count && (top == 0 || i < top); i++) {
        table_cell(&table, ">%d", rows[i].pc);
        table_cell(&table, "%s", rows[i].instruction);
        print_figures(&table, &rows[i], total);
        table_cell(&table, "%s", rows[i].shape);
        table_cell(&table, "%s", rows[i].node);
        table_end_row(&table);
    }
    table_print(&table, stream);
    if (top != 0 && top < count)
        fprintf(stream, "and %zu more\n", count - top);
    free(rows);
}

void profile_print(const struct profile *profile, bool by_time, size_t top, FILE *stream)
{
    uint64_t total = 0;
    for (size_t i = 0; i < profile->count; i++)
        total += profile->rows[i].ns;
    print_kinds(profile, total, stream);
    fputc('\n', stream);
    print_rows(profile, total, by_time, top, stream);
    double runs = (double)(profile->runs != 0 ? profile->runs : 1);
    fprintf(stream, "\n%zu run%s of %.4f ms, %.4f ms of it in instructions\n", profile->runs,
            profile->runs != 1 ? "s" : "", (double)profile->run_ns * 1e-6 / runs, (double)total * 1e-6 / runs);
}

const char *profile_phase_name(enum phase phase)
{
    static const char *const names[PHASES] = {"forward", "backward", "optimizer"};
    return names[phase];
}

/* The phase of a row, by the names that the compiler gives to nodes: those of gradients start with "grad"; updates
 * of parameters are named after the optimizer, or "train". */
enum phase profile_phase_of(const struct profile_row *row, const char *optimizer)
{
    size_t length = strcspn(optimizer, ":");
    if (strncmp(row->node, "grad@", 5) == 0 || strcmp(row->node, "grad_out") == 0)
        return PHASE_BACKWARD;
    if (strcmp(row->node, "train") == 0 || (strlen(row->node) == length && strncmp(row->node, optimizer, length) == 0))
        return PHASE_OPTIMIZER;
    return PHASE_FORWARD;
}

void profile_phases(const struct profile *profile, const char *optimizer, struct profile_row phases[PHASES])
{
    memset(phases, 0, PHASES * sizeof *phases);
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_row *row = &profile->rows[i];
        if (row->calls == 0)
            continue;
        struct profile_row *phase = &phases[profile_phase_of(row, optimizer)];
        phase->calls += row->calls;
        phase->ns += row->ns;
        phase->flops += row->flops;
        phase->bytes += row->bytes;
    }
}

void profile_print_phases(const struct profile *profile, const char *optimizer, FILE *stream)
{
    struct table table = {0};
    struct profile_row phases[PHASES];
    uint64_t total = 0;
    profile_phases(profile, optimizer, phases);
    for (size_t i = 0; i < PHASES; i++)
        total += phases[i].ns;
    table_cell(&table, "phase");
    print_titles(&table);
    table_end_row(&table);
    for (size_t i = 0; i < PHASES; i++) {
        table_cell(&table, "%s", profile_phase_name((enum phase)i));
        print_figures(&table, &phases[i], total);
        table_end_row(&table);
    }
    table_print(&table, stream);
    fputc('\n', stream);
}

void profile_release(struct profile *profile)
{
    for (size_t i = 0; i < profile->count; i++) {
        free(profile->rows[i].instruction);
        free(profile->rows[i].node);
        free(profile->rows[i].shape);
    }
    free(profile->rows);
    *profile = (struct profile){0};
}
