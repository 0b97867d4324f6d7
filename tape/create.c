/* Creates and destroys tapes, and selects the table of functions of the mode. */
#include "tape/backward/backward.h"
#include "tape/batch/batch.h"
#include "tape/building/building.h"
#include "tape/lazy/lazy.h"
#include "vm/options.h"

static const tape_mode *mode_of(const xcvm_tape_options *o)
{
    return o->mode == XCVM_TAPE_BUILDING       ? &tape_building_mode
           : o->mode == XCVM_TAPE_EAGER        ? &tape_eager_mode
           : o->batching == XCVM_BATCHING_NONE ? &tape_lazy_mode
                                               : &tape_batched_mode;
}

static xcvm_status init_tape(xcvm_tape *t, const xcvm_tape_options *o, xcvm_error *error)
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
    t->kernel.cancelled = o->cancelled;
    t->check_nan = o->check_nan;
    t->kernel.print = o->print.call;
    t->kernel.print_user = o->print.user;
    t->kernel.functions = o->functions;
    t->kernel.function_count = o->functions != NULL ? o->function_count : 0;
    t->scratch.allocator = t->allocator;
    t->recording = true;
    t->module.error = &t->error;
    t->may_build = t->mode->builds;
    t->batching.strategy = o->batching;
    t->building.builder = (xcc_builder){.graph = t->module.graph, .name = "", .origin = ""};
    if (!t->mode->builds)
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
               "only a lazy tape can batch calls");
    xcvm_tape *t = xcvm_allocate_zeroed(o.allocator, sizeof *t);
    XCVM_CHECK(error, t != NULL, OUT_OF_MEMORY, "no memory for a tape");
    xcvm_budget_begin(&t->budget, o.allocator, 0);
    t->allocator = &t->budget.allocator;
    t->mode = mode_of(&o);
    const xcvm_status status = init_tape(t, &o, error);
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
    while (t->kept != NULL)
        tape_variable_unname(t->kept);
    xcvm_tape_reset(t);
    tape_slots_release(t);
    tape_blocks_release(t);
    xcvm_storage_release(t->kernel.scratch_storage);
    xcvm_reducer_release(&t->kernel.reducer, t->kernel.heap, t->allocator);
    xcvm_threads_destroy(t->kernel.threads);
    if (t->kernel.heap != NULL)
        xcvm_heap_destroy(t->kernel.heap);
    xcvm_arena_release(&t->scratch);
    if (t->mode->destroy != NULL)
        t->mode->destroy(t);
    tape_side_pool_release(t);
    xcvm_deallocate(t->allocator, t->names.at, t->names.capacity * sizeof *t->names.at);
    xcc_module_release(&t->module);
    xcvm_deallocate(t->budget.from, t, sizeof *t);
}
