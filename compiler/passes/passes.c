/* The table of passes, and running them. */
#include "compiler/passes/passes.h"

#include <string.h>

enum {
    PASS_COUNT = 0
#define XCC_PASS(name, sentence) +1
    XCC_PASSES(XCC_PASS)
#undef XCC_PASS
};

static const xcc_pass_info infos[PASS_COUNT] = {
#define XCC_PASS(name, sentence) {#name, sentence},
    XCC_PASSES(XCC_PASS)
#undef XCC_PASS
};

static xcvm_status (*const functions[PASS_COUNT])(xcc_module *m) = {
#define XCC_PASS(name, sentence) xcc_pass_##name,
    XCC_PASSES(XCC_PASS)
#undef XCC_PASS
};

enum {
#define XCC_PASS(name, sentence) PASS_##name,
    XCC_PASSES(XCC_PASS)
#undef XCC_PASS
};

/* What folding finds out lets more be simplified and merged, and so on; this often at most. */
enum { ROUNDS = 4 };

size_t xcc_pass_count(void) { return PASS_COUNT; }

const xcc_pass_info *xcc_pass(size_t index) { return index < PASS_COUNT ? &infos[index] : NULL; }

void xcc_progress(const xcc_module *m, const char *what, size_t step)
{
    if (m->options->progress != NULL)
        m->options->progress(m->options->user, what, (double)step / (PASS_COUNT + 3));
}

static bool wanted(const xcc_module *m, int pass)
{
    int level = m->options->optimization == 0 ? 2 : m->options->optimization;
    if (pass == PASS_block && m->options->plain_layout)
        return false;
    if (pass == PASS_merge || pass == PASS_pack || pass == PASS_block)
        return level >= 2;
    return pass == PASS_simplify || pass == PASS_fold ? level >= 1 : true;
}

static xcvm_status run_pass(xcc_module *m, int pass, bool again)
{
    if (!wanted(m, pass))
        return XCVM_OK;
    if (!again)
        xcc_progress(m, infos[pass].name, (size_t)pass + 1);
    XCVM_TRY(functions[pass](m));
    if (pass != PASS_canonicalise)
        XCVM_TRY(xcc_pass_canonicalise(m));
#ifndef NDEBUG
    xcvm_status status = xcc_graph_check(m->graph);
    if (status != XCVM_OK) {
        xcvm_error_prefix(m->error, "after %s", infos[pass].name);
        return status;
    }
#endif
    const char *dump = m->options->dump_after;
    if (dump == NULL || m->options->dump == NULL || (strcmp(dump, "all") != 0 && strcmp(dump, infos[pass].name) != 0))
        return XCVM_OK;
    static const char head[] = "# after ";
    if (!m->options->dump(m->options->user, head, sizeof head - 1) ||
        !m->options->dump(m->options->user, infos[pass].name, strlen(infos[pass].name)) ||
        !m->options->dump(m->options->user, "\n", 1))
        return xcvm_error_set(m->error, XCVM_IO, "the dump cannot be written");
    return xcc_graph_dump(m->graph, m->options->dump, m->options->user);
}

xcvm_status xcc_passes_run(xcc_module *m)
{
    XCVM_TRY(run_pass(m, PASS_canonicalise, false));
    uint64_t before;
    int round = 0;
    do {
        before = m->changes;
        for (int pass = PASS_infer; pass <= PASS_fold; pass++)
            XCVM_TRY(run_pass(m, pass, round > 0));
    } while (m->changes != before && ++round < ROUNDS);
    for (int pass = PASS_fold + 1; pass < PASS_COUNT; pass++)
        XCVM_TRY(run_pass(m, pass, false));
    return XCVM_OK;
}
