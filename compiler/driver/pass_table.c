/* The table of passes, and running them. */
#include "compiler/driver/pass_table.h"
#include "compiler/kernel_library/kernel_library.h"
#include "compiler/gradients/gradients.h"
#include "compiler/layout/layout.h"
#include "compiler/recompute/recompute.h"
#include "compiler/training/training.h"

#include <string.h>

typedef struct pass {
    xcc_pass_info info;
    xcvm_status (*run)(xcc_module *m);
} pass;

static const pass passes[] = {
#define XCC_PASS(name, level, rounds, summary) {{#name, summary, level, rounds}, xcc_pass_##name},
    XCC_PASSES(XCC_PASS)
#undef XCC_PASS
};
enum { PASS_COUNT = sizeof passes / sizeof *passes };

size_t xcc_pass_count(void) { return PASS_COUNT; }

const xcc_pass_info *xcc_pass_at(size_t index) { return index < PASS_COUNT ? &passes[index].info : NULL; }

void xcc_module_progress(const xcc_module *m, const char *what, size_t step)
{
    if (m->options->progress.call != NULL)
        m->options->progress.call(m->options->progress.user, what, (double)step / (PASS_COUNT + 3));
}

static xcvm_status dump(const xcc_module *m, const char *name)
{
    static const char head[] = "# after ";
    const xcvm_sink sink = m->options->debug.dump;
    if (!sink.call(sink.user, head, sizeof head - 1) || !sink.call(sink.user, name, strlen(name)) ||
        !sink.call(sink.user, "\n", 1))
        return xcvm_error_set(m->error, XCVM_IO, "the dump cannot be written");
    return xcc_graph_dump(m->graph, sink);
}

static xcvm_status run_pass(xcc_module *m, size_t index, int round)
{
    const pass *p = &passes[index];
    const int asked = m->options->optimization, level = asked == 0 ? 2 : asked < 0 ? 0 : asked;
    if (level < p->info.level || round >= p->info.rounds)
        return XCVM_OK;
    if (round == 0)
        xcc_module_progress(m, p->info.name, index + 1);
    XCVM_TRY(p->run(m));
    if (p->run != xcc_pass_canonicalize)
        XCVM_TRY(xcc_pass_canonicalize(m));
#ifndef NDEBUG
    xcvm_status status = xcc_graph_verify(m->graph);
    if (status != XCVM_OK) {
        xcvm_error_prefix(m->error, "after %s", p->info.name);
        return status;
    }
#endif
    const char *wanted = m->options->debug.dump_after;
    const bool is_wanted = wanted != NULL && (strcmp(wanted, "all") == 0 || strcmp(wanted, p->info.name) == 0);
    return is_wanted && m->options->debug.dump.call != NULL ? dump(m, p->info.name) : XCVM_OK;
}

static xcvm_status run_passes(xcc_module *m, size_t begin, size_t end, int round)
{
    for (size_t index = begin; index < end; index++)
        XCVM_TRY(run_pass(m, index, round));
    return XCVM_OK;
}

xcvm_status xcc_passes_run(xcc_module *m)
{
    size_t begin = 0, end = PASS_COUNT;
    while (begin < PASS_COUNT && passes[begin].info.rounds == 1)
        begin++;
    while (end > begin && passes[end - 1].info.rounds == 1)
        end--;
    XCVM_TRY(run_passes(m, 0, begin, 0));
    uint64_t before;
    int round = 0;
    do {
        before = m->changes;
        XCVM_TRY(run_passes(m, begin, end, round));
    } while (m->changes != before && ++round < XCC_ROUNDS);
    return run_passes(m, end, PASS_COUNT, 0);
}
