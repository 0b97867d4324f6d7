/* The warm-up makes the first run as fast as later ones. It maps constants into memory and reads them into the cache.
 * Warm-up runs load code, train branch prediction, infer types and allocate memory. */
#include "base/clock.h"
#include "vm/options.h"
#include "vm/session.h"

#include <sys/mman.h>

enum {
    BLOCK = 1 << 18,         /* bytes of constants that a thread reads at once */
    LINE = 64,               /* bytes of a cache line */
    WINDOW = 1 << 16,        /* bytes around a fault that Linux maps with it ("fault_around_bytes") */
    CACHE = 32 << 20,        /* assumed size limit of the last-level cache; sizes reported by systems are often wrong */
    WARM_UP_NS = 200 * 1000, /* time after which a warm-up run stops and no other starts */
    MOST_RUNS = 32,          /* maximum number; branch prediction learns short programs by repetition */
    MOST_INPUTS = 4 << 20,   /* maximum bytes of inputs: reading more takes longer than the time limit */
    WARM_UP_BYTES = 64 << 20 /* memory limit of warm-up runs, unless the session's is smaller */
};

/* ---- Constants ---- */

typedef struct constants {
    const xcvm_kernel *kernel;
    const char *bytes;
    size_t count, step;
} constants;

static void read_blocks(void *context, size_t begin, size_t end, int worker)
{
    const constants *c = context;
    (void)worker;
    for (size_t block = begin; block < end && xcvm_kernel_poll(c->kernel) == XCVM_OK; block++) {
        const size_t last = xcvm_min(c->count, (block + 1) * BLOCK);
        for (size_t at = block * BLOCK; at < last; at += c->step)
            (void)*(const volatile char *)(c->bytes + at);
    }
}

static void read_constants(const xcvm_session *s, size_t step)
{
    const xcvm_program *program = s->program;
    constants c = {&s->kernel, program->mapping, program->mapping_bytes, step};
    if (program->mapped)
        xcvm_parallel(s->kernel.threads, xcvm_ceil_div(c.count, BLOCK), 1, read_blocks, &c);
}

/* Reading maps a page and the cached pages in its window. One read per window takes a third of the time of requesting
 * all pages at once. */
void xcvm_session_map_constants(const xcvm_session *s) { read_constants(s, WINDOW); }

/* ---- Warm-up runs ---- */

/* Returns the bytes of all inputs, each on separate cache lines; 0 if sizes are unknown or too large. */
static size_t input_bytes(const xcvm_image *image)
{
    size_t bytes = LINE, count, own;
    for (size_t i = 0; i < image->input_count; i++) {
        const xcvm_type *type = &image->inputs[i].type;
        if (!xcvm_type_is_fixed(type) || !xcvm_tensor_size(type->dtype, type->rank, type->dims, &count, &own) ||
            !xcvm_size_add(bytes, own / LINE * LINE + LINE, &bytes))
            return 0;
    }
    return bytes <= MOST_INPUTS ? bytes : 0;
}

/* Returns true if a program only computes: no jumps, which could take long, and no states that it could change. */
static bool is_harmless(const xcvm_program *program)
{
    const xcvm_image *image = &program->image;
    bool harmless = !program->has_jumps && image->state_count == 0;
    for (size_t pc = 0; harmless && pc < image->instruction_count; pc++) {
        const xcvm_effect effect = image->instructions[pc].schema->effect;
        harmless = effect == XCVM_PURE || effect == XCVM_CONTROL;
    }
    return harmless;
}

/* Runs once on zeros. A failure does not matter for later runs, unless the run was cancelled. */
static xcvm_status run_once(xcvm_session *s, char *zeros, uint64_t timeout_ns, uint64_t fuel)
{
    const xcvm_image *image = &s->program->image;
    const xcvm_run_options options = {.size = sizeof options, .timeout_ns = timeout_ns, .fuel = fuel};
    xcvm_error error;
    for (size_t i = 0; i < image->input_count; i++) {
        const xcvm_type *type = &image->inputs[i].type;
        xcvm_value *input = &s->inputs[i];
        xcvm_value_set_tensor(input, type->dtype, type->rank, type->dims);
        input->data = zeros;
        zeros += input->bytes / LINE * LINE + LINE;
    }
    return xcvm_session_run(s, &options, &error);
}

/* Runs until a failure, WARM_UP_NS in total, or `deadline_ns` (0: none). */
static xcvm_status run_repeatedly(xcvm_session *s, char *zeros, uint64_t deadline_ns, uint64_t fuel)
{
    uint64_t now = xcvm_clock_ns();
    const uint64_t end = now + WARM_UP_NS;
    xcvm_status status = XCVM_OK;
    for (int runs = 0; runs < MOST_RUNS && status == XCVM_OK && now < end; runs++) {
        if (deadline_ns != 0 && now >= deadline_ns)
            return XCVM_OK;
        const bool near = deadline_ns != 0 && deadline_ns - now < WARM_UP_NS;
        status = run_once(s, zeros, near ? deadline_ns - now : WARM_UP_NS, fuel);
        now = xcvm_clock_ns();
    }
    return status;
}

/* Warm-up runs bind only zeros, which share the system's zero pages, and have no observer. */
static xcvm_status run_warm_up(xcvm_session *s, uint64_t deadline_ns, uint64_t fuel, xcvm_error *error)
{
    const xcvm_image *image = &s->program->image;
    const size_t bytes = is_harmless(s->program) ? input_bytes(image) : 0;
    if (bytes == 0)
        return XCVM_OK;
    const size_t room = (image->input_count + xcvm_program_result_count(s->program)) * sizeof(xcvm_value);
    xcvm_value *unbound = xcvm_allocate_zeroed(&s->allocator, room);
    XCVM_CHECK(error, unbound != NULL, OUT_OF_MEMORY, "no memory for a warm-up run");
    void *zeros = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (zeros == MAP_FAILED) {
        xcvm_deallocate(&s->allocator, unbound, room);
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for inputs of %zu bytes of a warm-up run", bytes);
    }
    xcvm_value *inputs = s->inputs, *bound_outputs = s->bound_outputs;
    const xcvm_observer observer = s->observer;
    const bool observed = s->observed;
    xcvm_heap *heap = s->kernel.heap;
    const size_t most = xcvm_heap_reserved(heap) + WARM_UP_BYTES, limit = xcvm_heap_set_limit(heap, most);
    if (limit != 0 && limit < most)
        (void)xcvm_heap_set_limit(heap, limit);
    s->inputs = unbound;
    s->bound_outputs = unbound + image->input_count;
    s->observer = (xcvm_observer){0};
    s->observed = s->strict_types;
    s->bindings_dirty = s->bound_outputs_dirty = true;
    xcvm_status status = run_repeatedly(s, zeros, deadline_ns, fuel);
    s->inputs = inputs;
    s->bound_outputs = bound_outputs;
    s->observer = observer;
    s->observed = observed;
    s->bindings_dirty = s->bound_outputs_dirty = true;
    (void)xcvm_heap_set_limit(heap, limit);
    munmap(zeros, bytes);
    xcvm_deallocate(&s->allocator, unbound, room);
    XCVM_CHECK(error, status != XCVM_CANCELLED, CANCELLED, "the warm-up was cancelled");
    return XCVM_OK;
}

xcvm_status xcvm_session_warm_up(xcvm_session *session, const xcvm_run_options *options, xcvm_error *error)
{
    xcvm_run_options o;
    XCVM_CHECK(error, session != NULL, INVALID_ARGUMENT, "session is NULL");
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    xcvm_session_begin(session, o.timeout_ns, error);
    const uint64_t deadline_ns = session->kernel.deadline_ns;
    if (session->program->mapping_bytes <= CACHE)
        read_constants(session, LINE);
    xcvm_status status = xcvm_kernel_poll(&session->kernel);
    xcvm_session_end(session, status);
    if (status == XCVM_OK)
        status = run_warm_up(session, deadline_ns, o.fuel, error);
    xcvm_session_forget_results(session);
    XCVM_CHECK(error, status != XCVM_OK || deadline_ns == 0 || xcvm_clock_ns() < deadline_ns, OUT_OF_TIME,
               "the deadline has passed");
    return status;
}
