/* Creation and destruction of sessions: one block of memory, the arena, the heap and the thread pool. */
#include "vm/session.h"
#include "vm/options.h"

/* ---- Layout ---- */

/* Reserves `count` elements of `size` bytes in a block that has `*total` bytes so far. */
static bool reserve(size_t *total, size_t count, size_t size, size_t *offset)
{
    size_t bytes;
    *offset = *total;
    return xcvm_size_mul(count, size, &bytes) && xcvm_size_add(bytes, XCVM_ALIGNMENT - 1, &bytes) &&
           xcvm_size_add(*total, bytes / XCVM_ALIGNMENT * XCVM_ALIGNMENT, total);
}

static xcvm_session *allocate(const xcvm_program *program, const xcvm_allocator *allocator)
{
    const xcvm_image *image = &program->image;
    const size_t results = xcvm_program_result_count(program);
    size_t total = 0, self, registers, inputs, outputs, bound_outputs, in, out, args, shapes_valid, known, live_in,
           entered, cached_types, pairs, staged, direct, moved, states;
    bool fits = reserve(&total, 1, sizeof(xcvm_session), &self) &&
                reserve(&total, program->register_count, sizeof(xcvm_value), &registers) &&
                reserve(&total, image->input_count, sizeof(xcvm_value), &inputs) &&
                reserve(&total, results, sizeof(xcvm_value), &outputs) &&
                reserve(&total, results, sizeof(xcvm_value), &bound_outputs) &&
                reserve(&total, program->in_count, sizeof(xcvm_value *), &in) &&
                reserve(&total, program->out_count, sizeof(xcvm_value *), &out) &&
                reserve(&total, program->args_bytes, 1, &args) &&
                reserve(&total, image->instruction_count, sizeof(uint8_t), &shapes_valid) &&
                reserve(&total, program->register_count, sizeof(uint8_t), &known) &&
                reserve(&total, program->live_in_count, sizeof(xcvm_cached_type), &live_in) &&
                reserve(&total, program->basic_block_count, sizeof(bool), &entered) &&
                reserve(&total, program->cached_type_count, sizeof(xcvm_cached_type), &cached_types) &&
                reserve(&total, results, sizeof(uint32_t), &pairs) && reserve(&total, results, sizeof(bool), &staged) &&
                reserve(&total, image->instruction_count, sizeof(bool), &direct) &&
                reserve(&total, program->register_count, sizeof(bool), &moved) &&
                reserve(&total, image->state_count, sizeof(xcvm_state *), &states);
    char *block = fits ? xcvm_allocate_zeroed(allocator, total) : NULL;
    if (block == NULL)
        return NULL;
    xcvm_session *s = (void *)(block + self);
    s->block_bytes = total;
    s->registers = (void *)(block + registers);
    s->inputs = (void *)(block + inputs);
    s->outputs = (void *)(block + outputs);
    s->bound_outputs = (void *)(block + bound_outputs);
    s->in = (void *)(block + in);
    s->out = (void *)(block + out);
    s->args = block + args;
    s->shapes_valid = (void *)(block + shapes_valid);
    s->known = (void *)(block + known);
    s->live_in = (void *)(block + live_in);
    s->entered = (void *)(block + entered);
    s->cached_types = (void *)(block + cached_types);
    s->pairs = (void *)(block + pairs);
    s->staged = (void *)(block + staged);
    s->direct = (void *)(block + direct);
    s->moved = (void *)(block + moved);
    s->states = (void *)(block + states);
    return s;
}

/* ---- Binding operands ---- */

static void bind_instruction(xcvm_session *s, size_t pc)
{
    const xcvm_image *image = &s->program->image;
    const xcvm_instruction *instruction = &image->instructions[pc];
    const xcvm_step *step = &s->program->steps[pc];
    const xcvm_value **in = s->in + step->in_at;
    xcvm_value **out = s->out + step->out_at;
    for (uint32_t i = 0; i < instruction->in_count; i++) {
        int32_t id = instruction->in[i];
        in[i] = id > 0 ? &s->registers[id] : id < 0 ? &image->constants[-1 - id].value : NULL;
    }
    for (uint32_t i = 0; i < instruction->out_count; i++)
        out[i] = instruction->out[i] != 0 ? &s->registers[instruction->out[i]] : NULL;
    if (step->action != XCVM_ACTION_KERNEL)
        return;
    char *args = s->args + step->args_offset;
    memcpy(args, instruction->args, instruction->schema->args_size);
    xcvm_bind_operands(instruction->schema, args, in, out);
}

/* ---- Creation and destruction ---- */

static xcvm_status provide_arena(xcvm_session *s, xcvm_error *error)
{
    uint64_t bytes = s->program->image.arena_bytes;
    if (bytes == 0)
        return XCVM_OK;
    XCVM_CHECK(error, bytes <= PTRDIFF_MAX, OUT_OF_MEMORY, "the program's plan takes %llu bytes",
               (unsigned long long)bytes);
    XCVM_TRY(xcvm_heap_account(s->kernel.heap, (ptrdiff_t)bytes, error));
    s->arena = xcvm_allocate(&s->allocator, (size_t)bytes);
    if (s->arena == NULL) {
        xcvm_heap_account(s->kernel.heap, -(ptrdiff_t)bytes, NULL);
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for the program's plan of %llu bytes",
                              (unsigned long long)bytes);
    }
    s->arena_bytes = (size_t)bytes;
    xcvm_memory_populate(s->arena, s->arena_bytes);
    return XCVM_OK;
}

static xcvm_status fill(xcvm_session *s, const xcvm_session_options *o, xcvm_error *error)
{
    int threads = o->threads != 0 ? o->threads : xcvm_available_thread_count();
    XCVM_TRY(xcvm_heap_create(&s->allocator, o->memory_limit, &s->kernel.heap, error));
    XCVM_TRY(xcvm_heap_account(s->kernel.heap, (ptrdiff_t)s->block_bytes, error));
    if (threads > 1)
        XCVM_TRY(xcvm_threads_create(&s->allocator, threads, &s->kernel.threads, error));
    s->flush_subnormals = o->flush_subnormals;
    xcvm_threads_flush_denormals(s->kernel.threads, o->flush_subnormals);
    if (o->arena != NULL && s->program->image.arena_bytes > 0) {
        s->arena = o->arena;
        s->arena_bytes = o->arena_bytes;
        s->arena_is_callers = true;
    } else {
        XCVM_TRY(provide_arena(s, error));
    }
    s->random = o->seed;
    s->strict_types = s->observed = o->strict_types;
    s->bindings_dirty = true;
    s->kernel.allocator = &s->allocator;
    s->kernel.cancelled = &s->cancelled;
    s->kernel.random = &s->random;
    s->kernel.print = o->print.call;
    s->kernel.print_user = o->print.user;
    s->kernel.functions = o->functions;
    s->kernel.reducer = (xcvm_reducer){.sum = o->all_reduce.sum,
                                       .begin = o->all_reduce.begin,
                                       .end = o->all_reduce.end,
                                       .abandon = o->all_reduce.abandon,
                                       .user = o->all_reduce.user};
    if (o->all_reduce.allocator != NULL)
        XCVM_TRY(xcvm_heap_create(o->all_reduce.allocator, 0, &s->kernel.reducer.heap, error));
    s->kernel.function_count = o->functions != NULL ? o->function_count : 0;
    for (size_t pc = 0; pc < s->program->image.instruction_count; pc++)
        bind_instruction(s, pc);
    return xcvm_session_create_states(s, o->states_of, error);
}

xcvm_status xcvm_session_create(const xcvm_program *program, const xcvm_session_options *options,
                                xcvm_session **session, xcvm_error *error)
{
    xcvm_session_options o;
    XCVM_CHECK(error, program != NULL && session != NULL, INVALID_ARGUMENT, "program or session is NULL");
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    XCVM_CHECK(error, o.threads >= 0, INVALID_ARGUMENT,
               "the number of threads is out of range (%d; expected 0 or more)", o.threads);
    XCVM_CHECK(error,
               (o.all_reduce.begin != NULL) == (o.all_reduce.end != NULL) &&
                   (o.all_reduce.begin != NULL) == (o.all_reduce.abandon != NULL),
               INVALID_ARGUMENT, "of all_reduce_begin, _end and _abandon some are there, and some are NULL");
    if (o.arena != NULL) {
        XCVM_CHECK(error, (uintptr_t)o.arena % XCVM_ALIGNMENT == 0, INVALID_ARGUMENT,
                   "the arena is not aligned to %d bytes", XCVM_ALIGNMENT);
        XCVM_CHECK(error, o.arena_bytes >= program->image.arena_bytes, INVALID_ARGUMENT,
                   "the arena has %zu bytes, but the program's plan takes %llu", o.arena_bytes,
                   (unsigned long long)program->image.arena_bytes);
    }
    const xcvm_allocator *allocator = o.allocator != NULL ? o.allocator : &program->allocator;
    xcvm_session *s = allocate(program, allocator);
    XCVM_CHECK(error, s != NULL, OUT_OF_MEMORY, "no memory for a session of %zu registers and %zu instructions",
               program->register_count, program->image.instruction_count);
    s->program = program;
    s->allocator = *allocator;
    xcvm_status status = fill(s, &o, error);
    if (status != XCVM_OK)
        xcvm_session_destroy(s);
    else {
        xcvm_session_map_constants(s);
        *session = s;
    }
    return status;
}

void xcvm_session_lend_kernel(xcvm_session *s, const xcvm_kernel *kernel)
{
    s->kernel.threads = kernel->threads;
    s->kernel.random = kernel->random;
    s->threads_are_lent = true;
}

static void clear_all(xcvm_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        xcvm_value_clear(&values[i]);
}

void xcvm_session_destroy(xcvm_session *session)
{
    if (session == NULL)
        return;
    const xcvm_image *image = &session->program->image;
    xcvm_allocator allocator = session->allocator;
    clear_all(session->registers, session->program->register_count);
    clear_all(session->inputs, image->input_count);
    clear_all(session->outputs, xcvm_program_result_count(session->program));
    clear_all(session->bound_outputs, xcvm_program_result_count(session->program));
    xcvm_session_release_states(session);
    xcvm_reducer_release(&session->kernel.reducer, session->kernel.heap, &allocator);
    xcvm_storage_release(session->kernel.scratch_storage);
    if (!session->threads_are_lent)
        xcvm_threads_destroy(session->kernel.threads);
    xcvm_heap_destroy(session->kernel.heap);
    if (session->arena != NULL && !session->arena_is_callers)
        xcvm_deallocate(&allocator, session->arena, session->arena_bytes);
    xcvm_deallocate(&allocator, session, session->block_bytes);
}

const xcvm_value *xcvm_session_get_output(const xcvm_session *session, size_t index)
{
    return session != NULL && session->has_results && index < session->program->image.output_count
               ? &session->outputs[index]
               : NULL;
}

void xcvm_session_cancel(xcvm_session *session)
{
    if (session != NULL)
        __atomic_store_n(&session->cancelled, 1, __ATOMIC_RELAXED);
}

int xcvm_session_thread_count(const xcvm_session *session)
{
    if (session == NULL)
        return 0;
    return session->kernel.threads != NULL ? xcvm_threads_count(session->kernel.threads) : 1;
}

void xcvm_session_get_memory_info(const xcvm_session *session, xcvm_memory_info *info)
{
    if (session == NULL || info == NULL || info->size < sizeof info->size)
        return;
    const xcvm_heap *heap = session->kernel.heap;
    size_t arena = session->arena_is_callers ? 0 : session->arena_bytes;
    size_t scratch = session->kernel.scratch_storage != NULL ? session->kernel.scratch_bytes : 0;
    size_t values = xcvm_heap_live(heap) - session->block_bytes - arena;
    xcvm_memory_info facts = {.size = info->size,
                              .live_bytes = values > scratch ? values - scratch : 0,
                              .peak_bytes = xcvm_heap_peak(heap) - session->block_bytes,
                              .reserved_bytes = xcvm_heap_reserved(heap)};
    for (size_t i = 0; session->has_results && i < session->program->image.output_count; i++)
        if (session->outputs[i].memory_kind == XCVM_MEMORY_ARENA)
            facts.live_bytes += session->outputs[i].bytes;
    memcpy(info, &facts, info->size < sizeof facts ? info->size : sizeof facts);
}
