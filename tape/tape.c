/* Tapes: their options, memory, failures and scopes. */
#include "tape/tape.h"
#include "vm/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Failures ---- */

/* A graph, or a trace, that a request for memory has failed in the middle of is incomplete, though the host may go on
 * when it has been told. */
static void end_if_incomplete(xcvm_tape *t, xcvm_status status)
{
    if (status != XCVM_OUT_OF_MEMORY)
        return;
    t->shortages++;
    tape_refuse(t, "memory ran out while it was recorded");
    if (t->building && t->ended == NULL)
        t->ended = "memory ran out while the graph was built, which is incomplete; the tape can only be destroyed";
}

xcvm_status tape_stick(xcvm_tape *t, xcvm_status status)
{
    t->failed = t->failed || status != XCVM_OK;
    end_if_incomplete(t, status);
    return status;
}

xcvm_status tape_fail(xcvm_tape *t, xcvm_status status, const char *format, ...)
{
    if (t->failed)
        return t->error.status;
    va_list arguments;
    char message[sizeof t->error.message];
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    xcvm_error_set(&t->error, status, "%s", message);
    return tape_stick(t, status);
}

bool tape_enter(xcvm_tape *t, int rules, const char *function)
{
    xcvm_status status = XCVM_OK;
    if (t == NULL || (t->failed && (rules & TAPE_FAILED_TOO) == 0))
        return false;
    if ((rules & TAPE_EXECUTES) != 0 && !t->building && t->walk == NULL)
        return true;
    if (t->ended != NULL && (rules & TAPE_ENDED) == 0)
        status = tape_fail(t, XCVM_INVALID_ARGUMENT, "%s", t->ended);
    else if (t->building && (rules & TAPE_BUILDS) == 0)
        status = tape_fail(t, XCVM_UNSUPPORTED, "a tape that builds has no elements, which %s needs", function);
    else if (!t->building && (rules & TAPE_EXECUTES) == 0)
        status = tape_fail(t, XCVM_INVALID_ARGUMENT, "%s needs a tape that builds (xcvm_tape_options.mode)", function);
    else if (t->walk != NULL && (rules & TAPE_WALKS) == 0)
        status = tape_fail(t, XCVM_INVALID_ARGUMENT, "%s is called while a backward goes on", function);
    return status == XCVM_OK;
}

xcvm_status tape_begin(xcvm_tape *t, int rules, const char *function, xcvm_error *error)
{
    XCVM_TRY(tape_report(t, error));
    return tape_enter(t, rules, function) ? XCVM_OK : tape_report(t, error);
}

xcvm_status tape_report(xcvm_tape *t, xcvm_error *error)
{
    XCVM_CHECK(error, t != NULL, INVALID_ARGUMENT, "tape is NULL");
    if (!t->failed)
        return XCVM_OK;
    const xcvm_status status = t->error.status;
    if (error != NULL)
        *error = t->error;
    xcvm_error_set(&t->error, XCVM_OK, "%s", "");
    t->failed = false;
    return status;
}

xcvm_status xcvm_tape_status(xcvm_tape *tape, xcvm_error *error)
{
    return TAPE_ENTER(tape, xcvm_tape_status) ? tape_report(tape, error) : tape_report(NULL, error);
}

/* ---- Memory ---- */

/* A free piece holds a pointer, so none is empty. */
static size_t class_of(size_t bytes) { return (bytes + (bytes == 0) + TAPE_CLASS_BYTES - 1) / TAPE_CLASS_BYTES; }

/* Up to a huge page, as that of what lies there is to be found in no time. */
enum { FIRST_SLAB = 8 * 1024, LARGEST_SLAB = XCVM_HUGE_PAGE };

/* Pieces begin where lines of the cache do. */
static size_t first_piece(const tape_slab *slab)
{
    return xcvm_round_up((uintptr_t)slab + sizeof *slab, TAPE_CLASS_BYTES) - (uintptr_t)slab;
}

/* The next slab becomes that which is cut: nothing of it is taken. A new one is twice as large as the last. */
static bool next_slab(xcvm_tape *t)
{
    tape_slab *last = t->slab;
    if (last != NULL && last->next != NULL) {
        t->slab = last->next;
        t->slab->used = first_piece(t->slab);
        return true;
    }
    const size_t size = last == NULL ? FIRST_SLAB : last->bytes < LARGEST_SLAB ? 2 * last->bytes : LARGEST_SLAB;
    tape_slab *made = xcvm_allocate(t->allocator, size);
    if (made == NULL)
        return false;
    *made = (tape_slab){.bytes = size, .used = first_piece(made)};
    *(last != NULL ? &last->next : &t->slabs) = made;
    t->slab = made;
    return true;
}

void *tape_take(xcvm_tape *t, size_t bytes)
{
    const size_t class = class_of(bytes);
    void *piece = class <= TAPE_CLASSES ? t->pieces[class] : NULL;
    if (piece != NULL) {
        t->pieces[class] = *(void **)piece;
        t->pieces_taken++;
        return piece;
    }
    if (class > TAPE_CLASSES) {
        piece = xcvm_allocate(t->allocator, bytes);
    } else {
        bytes = class * TAPE_CLASS_BYTES;
        if ((t->slab != NULL && t->slab->bytes - t->slab->used >= bytes) || next_slab(t)) {
            piece = (char *)t->slab + t->slab->used;
            t->slab->used += bytes;
            t->pieces_taken++;
        }
    }
    if (piece == NULL)
        tape_fail(t, XCVM_OUT_OF_MEMORY, "the allocator has no %zu bytes for the tape", bytes);
    return piece;
}

void tape_give_back(xcvm_tape *t, void *memory, size_t bytes)
{
    const size_t class = class_of(bytes);
    if (class > TAPE_CLASSES) {
        xcvm_deallocate(t->allocator, memory, bytes);
        return;
    }
    *(void **)memory = t->pieces[class];
    t->pieces[class] = memory;
    t->pieces_taken--;
}

/* When nothing of them is taken, slabs are cut anew, so that what is taken next lies side by side. */
static void restore_slabs(xcvm_tape *t)
{
    if (t->pieces_taken > 0 || t->slabs == NULL)
        return;
    memset(t->pieces, 0, sizeof t->pieces);
    t->slab = t->slabs;
    t->slab->used = first_piece(t->slab);
}

static void release_slabs(xcvm_tape *t)
{
    while (t->slabs != NULL) {
        tape_slab *next = t->slabs->next;
        xcvm_deallocate(t->allocator, t->slabs, t->slabs->bytes);
        t->slabs = next;
    }
}

/* ---- Creating and destroying ---- */

static xcvm_status begin(xcvm_tape *t, const xcvm_tape_options *o, xcvm_error *error)
{
    const int threads = o->threads != 0 ? o->threads : xcvm_available_thread_count();
    XCVM_TRY(xcc_module_init(&t->module, NULL, error));
    XCVM_TRY(xcvm_heap_create(t->allocator, o->memory_limit, &t->kernel.heap, error));
    xcvm_heap_set_reclaim(t->kernel.heap, tape_panels_reclaim, t);
    if (threads > 1)
        XCVM_TRY(xcvm_threads_create(t->allocator, threads, &t->kernel.threads, error));
    t->random = o->seed;
    t->kernel.error = &t->error;
    t->kernel.allocator = t->allocator;
    t->kernel.random = &t->random;
    t->check_nan = o->check_nan;
    t->kernel.print = o->print.call;
    t->kernel.print_user = o->print.user;
    t->kernel.functions = o->functions;
    t->kernel.function_count = o->functions != NULL ? o->function_count : 0;
    t->scratch.allocator = t->allocator;
    t->recording = true;
    t->module.error = &t->error;
    t->building = t->builds = o->mode == XCVM_TAPE_BUILDING;
    t->lazy = o->mode == XCVM_TAPE_LAZY;
    t->batching = o->batching;
    t->builder = (xcc_builder){.graph = t->module.graph, .name = "", .origin = ""};
    if (!t->building)
        tape_recorder_init(t);
    return XCVM_OK;
}

xcvm_status xcvm_tape_create(const xcvm_tape_options *options, xcvm_tape **tape, xcvm_error *error)
{
    xcvm_tape_options o;
    XCVM_CHECK(error, tape != NULL, INVALID_ARGUMENT, "tape is NULL");
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    XCVM_CHECK(error, o.threads >= 0, INVALID_ARGUMENT, "threads is %d", o.threads);
    XCVM_CHECK(error, o.mode == XCVM_TAPE_EAGER || o.mode == XCVM_TAPE_BUILDING || o.mode == XCVM_TAPE_LAZY,
               INVALID_ARGUMENT, "mode is %d", (int)o.mode);
    XCVM_CHECK(error, o.batching >= XCVM_BATCHING_NONE && o.batching <= XCVM_BATCHING_TIMED, INVALID_ARGUMENT,
               "batching is %d", (int)o.batching);
    XCVM_CHECK(error, o.batching == XCVM_BATCHING_NONE || o.mode == XCVM_TAPE_LAZY, INVALID_ARGUMENT,
               "calls that do not wait cannot be batched; the tape has to be lazy");
    xcvm_tape *t = xcvm_allocate_zeroed(o.allocator, sizeof *t);
    XCVM_CHECK(error, t != NULL, OUT_OF_MEMORY, "no memory for a tape");
    xcvm_budget_begin(&t->budget, o.allocator, 0);
    t->allocator = &t->budget.allocator;
    const xcvm_status status = begin(t, &o, error);
    if (status != XCVM_OK)
        xcvm_tape_destroy(t);
    else
        *tape = t;
    return status;
}

void xcvm_tape_destroy(xcvm_tape *t)
{
    if (!TAPE_ENTER(t, xcvm_tape_destroy))
        return;
    while (t->kept_first != NULL)
        tape_variable_unname(t->kept_first);
    xcvm_tape_reset(t);
    tape_chunks_release(t);
    release_slabs(t);
    xcvm_storage_release(t->kernel.scratch_storage);
    xcvm_reducer_release(&t->kernel.reducer, t->kernel.heap, t->allocator);
    xcvm_threads_destroy(t->kernel.threads);
    if (t->kernel.heap != NULL)
        xcvm_heap_destroy(t->kernel.heap);
    xcvm_arena_release(&t->scratch);
    tape_agenda_release(t);
    tape_signatures_release(t);
    tape_pending_release(t);
    xcvm_deallocate(t->allocator, t->names, t->name_capacity * sizeof *t->names);
    xcc_module_release(&t->module);
    xcvm_deallocate(t->budget.from, t, sizeof *t);
}

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
        tape_variable *v = tape_operand(tape, results[i], "a result of the scope");
        if (v != NULL && v->named && !v->kept && v->serial > scope.serial)
            v->stays = true;
    }
    tape_names_end(tape, scope.serial);
}

void xcvm_tape_reset(xcvm_tape *tape)
{
    if (!TAPE_ENTER(tape, xcvm_tape_reset))
        return;
    if (!tape_evaluate_kept(tape, 0))
        return;
    tape_checkpoints_release(tape);
    while (tape->last_waiting != NULL)
        tape_record_remove(tape->last_waiting);
    while (tape->last != NULL)
        tape_record_remove(tape->last);
    tape_names_end(tape, 0);
    (void)tape_panels_release_all(tape);
    for (tape_variable *v = tape->kept_first; v != NULL; v = v->next) {
        if (v->spent)
            tape_variable_require(v, false);
        v->spent = false;
    }
    tape->singles = false;
    tape_signatures_clear(tape);
    restore_slabs(tape);
    tape_chunks_order(tape);
}
