/* Scopes, resets, and statistics of a tape. */
#include "tape/mode.h"
#include "tape/side_table.h"

#include <string.h>

void xcvm_tape_get_info(const xcvm_tape *tape, xcvm_tape_info *stats)
{
    if (!TAPE_ENTER((xcvm_tape *)(uintptr_t)tape, xcvm_tape_get_info))
        return;
    const xcvm_tape_info all = {.size = stats->size,
                                .calls = tape->calls,
                                .recorded = tape->recorded,
                                .variables = tape->variables,
                                .live_bytes = xcvm_heap_live(tape->kernel.heap),
                                .peak_bytes = xcvm_heap_peak(tape->kernel.heap),
                                .total_bytes = tape->budget.held};
    memcpy(stats, &all, stats->size < sizeof all ? stats->size : sizeof all);
}

bool xcvm_tape_set_recording(xcvm_tape *tape, bool recording)
{
    if (!TAPE_ENTER(tape, xcvm_tape_set_recording))
        return false;
    const bool before = tape->recording;
    tape->recording = recording;
    return before;
}

/* ---- Scopes ---- */

xcvm_scope xcvm_tape_scope_begin(xcvm_tape *tape)
{
    return (xcvm_scope){TAPE_ENTER(tape, xcvm_tape_scope_begin) ? tape->serials : 0};
}

void xcvm_tape_scope_end(xcvm_tape *tape, xcvm_scope scope, size_t count, const xcvm_var *results)
{
    if (!TAPE_ENTER(tape, xcvm_tape_scope_end))
        return;
    for (size_t i = 0; i < count; i++) {
        tape_variable *v = tape_resolve_optional(tape, results[i], "a result of the scope");
        if (v != NULL && v->named && !v->kept && v->serial > scope.serial)
            v->outlives_scope = true;
    }
    tape_names_end_scope(tape, scope.serial);
}

void xcvm_tape_reset(xcvm_tape *tape)
{
    if (!TAPE_ENTER(tape, xcvm_tape_reset))
        return;
    if (!tape_evaluate_kept(tape, 0))
        return;
    tape_checkpoints_release(tape);
    while (tape->waiting.last != NULL)
        tape_op_record_remove(tape->waiting.last);
    while (tape->ops.last != NULL)
        tape_op_record_remove(tape->ops.last);
    tape_names_end_scope(tape, 0);
    (void)tape_panels_release_all(tape);
    for (tape_variable *v = tape->kept; v != NULL; v = v->next_kept) {
        if (v->consumed)
            tape_variable_require(v, false);
        v->consumed = false;
    }
    if (tape->mode->reset != NULL)
        tape->mode->reset(tape);
    tape_blocks_restart(tape);
    tape_slots_restart(tape);
}
