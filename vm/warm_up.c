/* What makes the first run as fast as any later one: constants are mapped and lie in the cache, and a rehearsal has
 * brought in code, predicted its branches and settled types, places and scratch memory. */
#include "vm/session.h"
#include "base/clock.h"

#include <sys/mman.h>

enum {
    BLOCK = 1 << 18,           /* bytes of constants that are shared out among threads */
    LINE = 64,                 /* bytes of a cache line */
    WINDOW = 1 << 16,          /* bytes around a fault that Linux maps with it ("fault_around_bytes") */
    CACHE = 32 << 20,          /* bytes that a last cache may hold; what systems tell of theirs is often wrong */
    REHEARSAL_NS = 200 * 1000, /* after which a run of a rehearsal stops, and no other begins */
    MOST_RUNS = 32,            /* of a rehearsal: the processor learns the branches of short programs by repetition */
    MOST_INPUTS = 4 << 20,     /* bytes of inputs: reading more of them takes longer than that */
    REHEARSAL_BYTES = 64 << 20 /* that a rehearsal may take, or what the session may if that is less */
};

/* ---- Constants ---- */

typedef struct constants {
    const char *bytes;
    size_t count;
    bool fit; /* into the cache */
} constants;

/* A page that is read is mapped by that, and so are those of its window that are in the system's cache: a read in each
 * window takes a third of the time of asking for all pages at once. */
static void warm_blocks(void *context, size_t begin, size_t end, int worker)
{
    const constants *c = context;
    const size_t step = c->fit ? LINE : WINDOW;
    const size_t last = xcvm_least(c->count, end * BLOCK);
    (void)worker;
    for (size_t at = begin * BLOCK; at < last; at += step)
        (void)*(const volatile char *)(c->bytes + at);
}

static void warm_constants(const xcvm_session *s, bool cached)
{
    const xcvm_program *program = s->program;
    constants c = {program->mapping, program->mapping_bytes, cached && program->mapping_bytes <= CACHE};
    if (program->mapped)
        xcvm_parallel(s->kernel.threads, xcvm_ceil_div(c.count, BLOCK), 1, warm_blocks, &c);
}

/* ---- The rehearsal ---- */

/* The bytes of all inputs, each on a cache line of its own; 0 if their sizes are not known, or large. */
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

/* Whether a program does nothing but compute, without jumps that could take long. */
static bool is_harmless(const xcvm_program *program)
{
    const xcvm_image *image = &program->image;
    bool harmless = !program->has_jumps;
    for (size_t pc = 0; harmless && pc < image->instruction_count; pc++) {
        const xcvm_effect effect = image->instructions[pc].row->effect;
        harmless = effect == XCVM_PURE || effect == XCVM_CONTROL;
    }
    return harmless;
}

/* A run of which nothing is left but what it warmed. That it fails, by which it returns false, says nothing of runs to
 * come. */
static bool run_once(xcvm_session *s, char *zeros)
{
    const xcvm_image *image = &s->program->image;
    const xcvm_run_options options = {.size = sizeof options, .timeout_ns = REHEARSAL_NS};
    xcvm_error error;
    for (size_t i = 0; i < image->input_count; i++) {
        const xcvm_type *type = &image->inputs[i].type;
        xcvm_value *input = &s->inputs[i];
        xcvm_value_set_tensor(input, type->dtype, type->rank, type->dims);
        input->data = zeros;
        zeros += input->bytes / LINE * LINE + LINE;
    }
    const bool done = xcvm_session_run(s, &options, &error) == XCVM_OK;
    s->has_results = false;
    for (size_t i = 0; i < image->input_count; i++)
        s->inputs[i] = (xcvm_value){0};
    for (size_t i = 0; i < image->output_count; i++)
        xcvm_value_clear(&s->outputs[i]);
    s->bound_anew = true;
    return done;
}

static void run_repeatedly(xcvm_session *s, char *zeros)
{
    const uint64_t end = xcvm_clock_ns() + REHEARSAL_NS;
    for (int runs = 0; runs < MOST_RUNS && run_once(s, zeros) && xcvm_clock_ns() < end; runs++)
        ;
}

/* The zeros are pages that the system has for everybody, and take no memory. */
static void rehearse(xcvm_session *s)
{
    const size_t bytes = is_harmless(s->program) ? input_bytes(&s->program->image) : 0;
    if (bytes == 0)
        return;
    void *zeros = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (zeros == MAP_FAILED)
        return;
    xcvm_heap *heap = s->kernel.heap;
    const size_t most = xcvm_heap_reserved(heap) + REHEARSAL_BYTES, limit = xcvm_heap_set_limit(heap, most);
    if (limit != 0 && limit < most)
        (void)xcvm_heap_set_limit(heap, limit);
    run_repeatedly(s, zeros);
    (void)xcvm_heap_set_limit(heap, limit);
    munmap(zeros, bytes);
}

void xcvm_session_warm_up(xcvm_session *s, bool cold)
{
    warm_constants(s, !cold);
    if (!cold)
        rehearse(s);
}
