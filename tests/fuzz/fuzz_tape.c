/* Fuzz target of the tape: random sequences of calls of tapes, layers, optimizers and static functions, while
 * allocations fail. Each call succeeds or fails cleanly, and all memory is freed at the end. */
#include "tests/fuzz/tape_fuzz.h"

#include "tape/mode.h"

#include <stdio.h>

const char *const fuzz_mode_names[FUZZ_MODES] = {"eager", "lazy", "batched", "building", "static"};

/* ---- Memory ---- */

/* A refused request: the chosen one, or all from there on. */
static bool is_refused(fuzz_memory *m)
{
    if (m->left == 0 || --m->left > 0)
        return false;
    m->left = m->once ? 0 : 1;
    return true;
}

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    fuzz_memory *m = user;
    void *memory = NULL;
    if (is_refused(m) || bytes > (size_t)1 << 28 ||
        posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes > 0 ? bytes : 1) != 0)
        return NULL;
    m->blocks++;
    m->bytes += bytes;
    return memory;
}

static void release(void *user, void *memory, size_t bytes)
{
    fuzz_memory *m = user;
    m->blocks--;
    m->bytes -= bytes;
    free(memory);
}

/* ---- Decisions ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15); /* SplitMix64 (Steele, Lea and Flood, 2014) */
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint32_t fuzz_pick(tape_fuzz *f, uint32_t below)
{
    if (f->count > 0) {
        f->count--;
        return *f->bytes++ % below;
    }
    return (uint32_t)(next_random(&f->random) >> 32) % below;
}

/* ---- Variables ---- */

/* The variable of a valid handle; NULL: invalid. */
static const tape_variable *named(const tape_fuzz *f, xcvm_var v)
{
    return v.at != NULL && v.at->tape == f->tape && v.at->serial == v.serial ? v.at : NULL;
}

xcvm_var fuzz_variable(tape_fuzz *f)
{
    for (int tries = 0; tries < 4; tries++) {
        const xcvm_var v = f->variables[fuzz_pick(f, FUZZ_VARIABLES)];
        if (named(f, v) != NULL || fuzz_chance(f, 8))
            return v;
    }
    return fuzz_chance(f, 20) ? XCVM_ABSENT : fuzz_make(f);
}

xcvm_var fuzz_variable_of(tape_fuzz *f, xcvm_dtype dtype, xcvm_var like)
{
    const tape_variable *other = named(f, like);
    xcvm_var found = XCVM_ABSENT;
    for (int tries = 0; tries < 12; tries++) {
        const xcvm_var v = f->variables[fuzz_pick(f, FUZZ_VARIABLES)];
        const tape_variable *variable = named(f, v);
        if (variable == NULL || variable->value.type.dtype != dtype)
            continue;
        found = v;
        if (other == NULL || xcvm_same_shape(&other->value.type, &variable->value.type))
            break;
    }
    return found.at != NULL ? found : fuzz_variable(f);
}

xcvm_var fuzz_float(tape_fuzz *f)
{
    return fuzz_chance(f, 4) ? fuzz_variable(f) : fuzz_variable_of(f, XCVM_F32, XCVM_ABSENT);
}

xcvm_var fuzz_root(tape_fuzz *f)
{
    for (int tries = 0; tries < 12; tries++) {
        const xcvm_var v = f->variables[fuzz_pick(f, FUZZ_VARIABLES)];
        if (named(f, v) != NULL && v.at->requires && v.at->creator != NULL)
            return v;
    }
    return fuzz_float(f);
}

void fuzz_keep(tape_fuzz *f, xcvm_var v)
{
    if (v.at != NULL || fuzz_chance(f, 10))
        f->variables[fuzz_pick(f, FUZZ_VARIABLES)] = v;
}

int fuzz_shape(tape_fuzz *f, int64_t dims[3])
{
    int rank = f->rank;
    memcpy(dims, f->dims, sizeof f->dims);
    if (fuzz_chance(f, 65))
        return rank;
    rank = (int)fuzz_pick(f, 4);
    for (int i = 0; i < rank; i++)
        dims[i] = fuzz_chance(f, 5) ? 0 : 1 + (int64_t)fuzz_pick(f, 4);
    return rank;
}

static xcvm_var make_tensor(tape_fuzz *f, xcvm_dtype dtype, bool learned)
{
    union {
        float f32s[64];
        double f64s[64];
        int64_t i64s[64];
        uint8_t bytes[512];
    } data = {{0}};
    int64_t dims[3];
    const int rank = fuzz_shape(f, dims);
    for (size_t i = 0; i < 64; i++) {
        const int number = (int)fuzz_pick(f, dtype == XCVM_I64 ? 4 : 7);
        if (dtype == XCVM_F32)
            data.f32s[i] = (float)number / 4 - 0.5f;
        else if (dtype == XCVM_F64)
            data.f64s[i] = number / 4.0 - 0.5;
        else if (dtype == XCVM_I64)
            data.i64s[i] = number;
        else
            data.bytes[i] = number % 2 == 0;
    }
    const void *from = fuzz_chance(f, 90) ? &data : NULL;
    return learned ? xcvm_tape_parameter(f->tape, dtype, rank, dims, from)
                   : xcvm_tape_constant(f->tape, dtype, rank, dims, from);
}

xcvm_var fuzz_make(tape_fuzz *f)
{
    static const xcvm_dtype others[] = {XCVM_I64, XCVM_BOOL, XCVM_F64, XCVM_I64};
    const uint32_t kind = fuzz_pick(f, 10);
    xcvm_var v;
    if (kind < 4)
        v = make_tensor(f, XCVM_F32, true);
    else if (kind < 6)
        v = make_tensor(f, XCVM_F32, false);
    else if (kind < 8)
        v = make_tensor(f, others[fuzz_pick(f, 4)], false);
    else
        v = xcvm_tape_scalar(f->tape, kind == 8 ? XCVM_F32 : others[fuzz_pick(f, 4)], fuzz_pick(f, 3));
    fuzz_keep(f, v);
    return v;
}

/* ---- Actions ---- */

xcvm_status fuzz_note(const tape_fuzz *f, xcvm_status status, const xcvm_error *error)
{
    if (f->trace && status != XCVM_OK)
        fprintf(stderr, "    %d %s: %s\n", (int)status, error->instruction, error->message);
    return status;
}

typedef struct action {
    const char *name;
    void (*run)(tape_fuzz *f);
} action;

static const action functions[] = {
#define FUZZ_FUNCTION(name) {#name, fuzz_##name},
#include "fuzz/tape_functions.h"
#undef FUZZ_FUNCTION
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* Actions that change most of the tape's state. */
static const action frequent[] = {
    {"xcvm_tape_backward", fuzz_xcvm_tape_backward},   {"xcvm_tape_gradients", fuzz_xcvm_tape_gradients},
    {"xcvm_tape_forward", fuzz_xcvm_tape_forward},     {"xcvm_tape_invalidate", fuzz_xcvm_tape_invalidate},
    {"xcvm_var_get_value", fuzz_xcvm_var_get_value},   {"xcvm_var_set_data", fuzz_xcvm_var_set_data},
    {"xcvm_var_release", fuzz_xcvm_var_release},       {"xcvm_layer_call", fuzz_xcvm_layer_call},
    {"xcvm_optimizer_step", fuzz_xcvm_optimizer_step}, {"xcvm_static_call", fuzz_xcvm_static_call}};
static const action of_static[] = {
    {"xcvm_static_call", fuzz_xcvm_static_call},     {"xcvm_static_call", fuzz_xcvm_static_call},
    {"xcvm_static_create", fuzz_xcvm_static_create}, {"xcvm_tape_backward", fuzz_xcvm_tape_backward},
    {"xcvm_static_save", fuzz_xcvm_static_save},     {"xcvm_var_release", fuzz_xcvm_var_release}};

static void run_instruction(tape_fuzz *f) { (void)fuzz_instruction(f); }
static void run_expression(tape_fuzz *f)
{
    const xcvm_var xs[2] = {fuzz_float(f), fuzz_float(f)};
    fuzz_keep(f, fuzz_expression(f, f->tape, 2, xs));
}
static void run_make(tape_fuzz *f) { (void)fuzz_make(f); }

static action choose(tape_fuzz *f)
{
    const uint32_t kind = fuzz_pick(f, 100);
    if (f->mode == FUZZ_STATIC && fuzz_chance(f, 30))
        return of_static[fuzz_pick(f, sizeof of_static / sizeof *of_static)];
    if (kind < 20)
        return (action){"instruction", run_instruction};
    if (kind < 42)
        return (action){"expression", run_expression};
    if (kind < 50)
        return (action){"make", run_make};
    if (kind < 68)
        return frequent[fuzz_pick(f, sizeof frequent / sizeof *frequent)];
    return functions[fuzz_pick(f, FUNCTIONS)];
}

void fuzz_act(tape_fuzz *f)
{
    const action a = choose(f);
    /* A refused request ends a building tape, and static functions do more per call. */
    const uint32_t refused = f->mode == FUZZ_BUILDING ? 3 : f->mode == FUZZ_STATIC ? 12 : 25;
    if (f->depth == 0 && fuzz_chance(f, refused)) {
        const uint32_t reach = UINT32_C(1) << fuzz_pick(f, 7);
        f->memory.left = 1 + fuzz_pick(f, reach);
        f->memory.once = fuzz_chance(f, 50);
    }
    if (f->trace)
        fprintf(stderr, "%*s%s%s\n", 2 * f->depth, "", a.name, f->memory.left > 0 ? " (memory fails)" : "");
    f->list = 0;
    a.run(f);
    if (f->depth > 0)
        return;
    f->memory.left = 0;
    if (fuzz_chance(f, 85)) {
        xcvm_error error = {0};
        (void)fuzz_note(f, xcvm_tape_status(f->tape, &error), &error);
    }
}

void fuzz_act_within(tape_fuzz *f)
{
    if (f->depth >= 3)
        return;
    f->depth++;
    while (f->nested > 0 && fuzz_chance(f, 40)) {
        f->nested--;
        const size_t list = f->list;
        int64_t ints[FUZZ_LISTS][FUZZ_LIST];
        double floats[FUZZ_LISTS][FUZZ_LIST];
        xcvm_var lists[FUZZ_LISTS][FUZZ_LIST];
        memcpy(ints, f->ints, sizeof ints);
        memcpy(floats, f->floats, sizeof floats);
        memcpy(lists, f->lists, sizeof lists);
        fuzz_act(f);
        memcpy(f->ints, ints, sizeof ints);
        memcpy(f->floats, floats, sizeof floats);
        memcpy(f->lists, lists, sizeof lists);
        f->list = list;
    }
    f->depth--;
}

/* ---- Sequences ---- */

static xcvm_status host_function(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                                 xcvm_value **outputs, xcvm_error *error)
{
    (void)user;
    for (size_t i = 0; i < output_count; i++)
        if (i >= input_count || xcvm_value_copy(NULL, inputs[i], &outputs[i], error) != XCVM_OK)
            return XCVM_INVALID_ARGUMENT;
    return XCVM_OK;
}

static bool begin(tape_fuzz *f)
{
    static const xcvm_host_function functions_of_host[] = {{"host", host_function, NULL}};
    const fuzz_mode mode = f->mode;
    const xcvm_tape_options options = {.size = sizeof options,
                                       .allocator = &f->memory.allocator,
                                       .threads = 1,
                                       .memory_limit = (size_t)1 << 22,
                                       .seed = 7,
                                       .functions = functions_of_host,
                                       .function_count = 1,
                                       .mode = mode == FUZZ_BUILDING                       ? XCVM_TAPE_BUILDING
                                               : mode == FUZZ_LAZY || mode == FUZZ_BATCHED ? XCVM_TAPE_LAZY
                                                                                           : XCVM_TAPE_EAGER,
                                       .check_nan = fuzz_chance(f, 5),
                                       .batching = mode != FUZZ_BATCHED ? XCVM_BATCHING_NONE
                                                                        : (xcvm_batching)(1 + fuzz_pick(f, 3))};
    const xcvm_tape_options plain = {.size = sizeof plain, .allocator = &f->memory.allocator, .threads = 1};
    xcvm_error error;
    if (xcvm_tape_create(&options, &f->tape, &error) != XCVM_OK)
        return false;
    f->memory.left = 0;
    if (xcvm_tape_create(&plain, &f->other, &error) != XCVM_OK)
        abort();
    f->variables[0] = xcvm_tape_parameter(f->other, XCVM_F32, f->rank, f->dims, NULL);
    if (xcvm_var_get_value(f->other, f->variables[0], &f->value, &error) != XCVM_OK)
        abort();
    for (int i = 0; i < 8; i++)
        (void)fuzz_make(f);
    if (fuzz_chance(f, 60)) {
        fuzz_xcvm_optimizer_create(f);
        fuzz_xcvm_optimizer_add(f);
        fuzz_xcvm_optimizer_add(f);
    }
    if (fuzz_chance(f, 40))
        fuzz_xcvm_layer_create_linear(f);
    if (fuzz_chance(f, mode == FUZZ_STATIC ? 95 : 30))
        fuzz_xcvm_static_create(f);
    (void)xcvm_tape_status(f->tape, &error);
    return true;
}

/* When all is released, the tape works like a new one, unless it has ended and reports that. */
static void check_works(tape_fuzz *f)
{
    xcvm_error error;
    (void)xcvm_tape_status(f->tape, &error);
    xcvm_tape_reset(f->tape);
    (void)xcvm_tape_status(f->tape, &error);
    xcvm_tape_set_recording(f->tape, true);
    xcvm_var p = xcvm_tape_parameter(f->tape, XCVM_F32, 0, NULL, &(float){3});
    xcvm_var y = xcvm_Mul(f->tape, p, p);
    if (f->mode == FUZZ_BUILDING) {
        (void)xcvm_tape_status(f->tape, &error);
        return;
    }
    if (xcvm_tape_backward(f->tape, y, NULL, &error) != XCVM_OK ||
        xcvm_var_get_number(f->tape, xcvm_var_get_gradient(f->tape, p)) != 6) {
        fprintf(stderr, "a tape that was reset does not work: %s\n", error.message);
        abort();
    }
}

static void end(tape_fuzz *f)
{
    xcvm_error error;
    for (size_t i = 0; i < FUZZ_STATICS; i++)
        xcvm_static_destroy(f->statics[i]);
    for (size_t i = 0; i < FUZZ_OPTIMIZERS; i++)
        xcvm_optimizer_destroy(f->optimizers[i]);
    for (size_t i = 0; i < FUZZ_LAYERS; i++)
        xcvm_layer_destroy(f->layers[i]);
    if (fuzz_chance(f, 50))
        check_works(f);
    (void)xcvm_tape_status(f->tape, &error);
    xcvm_tape_destroy(f->tape);
    xcvm_tape_destroy(f->other);
}

void fuzz_sequence(fuzz_mode mode, uint64_t seed, const uint8_t *bytes, size_t count, bool trace)
{
    tape_fuzz *f = calloc(1, sizeof *f);
    if (f == NULL)
        abort();
    f->mode = mode;
    f->bytes = bytes;
    f->count = count;
    f->random = seed;
    f->trace = trace;
    f->nested = 24;
    for (int i = 0; i < FUZZ_HELD; i++)
        f->places[i] = &f->held[i];
    f->memory.allocator = (xcvm_allocator){allocate, release, &f->memory};
    f->rank = fuzz_chance(f, 85) ? 1 + (int)fuzz_pick(f, 2) : (int)fuzz_pick(f, 4);
    for (int i = 0; i < 3; i++)
        f->dims[i] = 1 + (int64_t)fuzz_pick(f, 3);
    if (fuzz_chance(f, 3)) {
        f->memory.left = 1 + fuzz_pick(f, 8);
        f->memory.once = true;
    }
    if (begin(f)) {
        for (uint32_t left = 6 + fuzz_pick(f, 60); left > 0; left--)
            fuzz_act(f);
        end(f);
    }
    free(f->saved.at);
    if (f->memory.blocks > 0 || f->memory.bytes > 0) {
        fprintf(stderr, "%zu blocks, %zu bytes are left when everything was destroyed\n", f->memory.blocks,
                f->memory.bytes);
        abort();
    }
    free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    uint64_t seed = 0;
    if (count > sizeof seed) {
        memcpy(&seed, bytes, sizeof seed);
        fuzz_sequence((fuzz_mode)(bytes[sizeof seed] % FUZZ_MODES), seed, bytes + sizeof seed + 1,
                      count - sizeof seed - 1, false);
    }
    return 0;
}
