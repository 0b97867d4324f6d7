/* Calls of the functions of tape.h in the fuzz target of the tape. */
#include "tests/fuzz/tape_fuzz.h"

#include "xcvm/compiler.h"

/* ---- Reading ---- */

bool fuzz_discard(void *user, const void *bytes, size_t count)
{
    (void)bytes;
    tape_fuzz *f = user;
    return count > 0 && !fuzz_chance(f, 1);
}

/* Reads all elements, so that sanitizers find missing ones. */
static void read_elements(const xcvm_value *value)
{
    if (xcvm_value_kind(value) != XCVM_KIND_TENSOR || xcvm_value_dtype(value) == XCVM_STRING)
        return;
    const uint8_t *bytes = xcvm_value_data((xcvm_value *)(uintptr_t)value);
    volatile uint8_t last;
    for (size_t i = 0; i < xcvm_value_bytes(value); i++)
        last = bytes[i];
    (void)last;
}

/* ---- Tapes ---- */

void fuzz_xcvm_tape_create(tape_fuzz *f)
{
    const xcvm_tape_options options = {.size = fuzz_chance(f, 90) ? sizeof options : fuzz_pick(f, 2) * sizeof(size_t),
                                       .allocator = &f->memory.allocator,
                                       .threads = 1 - (int)fuzz_pick(f, 3) / 2 * 2,
                                       .mode = (xcvm_tape_mode)fuzz_pick(f, 4),
                                       .batching = (xcvm_batching)fuzz_pick(f, 5)};
    xcvm_tape *t = NULL;
    xcvm_error error;
    if (fuzz_note(f, xcvm_tape_create(&options, fuzz_chance(f, 97) ? &t : NULL, &error), &error) == XCVM_OK)
        xcvm_tape_destroy(t);
}

void fuzz_xcvm_tape_destroy(tape_fuzz *f)
{
    (void)f;
    xcvm_tape_destroy(NULL);
}

static xcvm_tape *any_tape(tape_fuzz *f) { return fuzz_chance(f, 98) ? f->tape : NULL; }

void fuzz_xcvm_tape_status(tape_fuzz *f)
{
    xcvm_error error;
    (void)xcvm_tape_status(any_tape(f), fuzz_chance(f, 50) ? &error : NULL);
}

void fuzz_xcvm_tape_reset(tape_fuzz *f)
{
    if (fuzz_chance(f, 50))
        xcvm_tape_reset(any_tape(f));
}

void fuzz_xcvm_tape_get_info(tape_fuzz *f)
{
    xcvm_tape_info stats = {.size = sizeof stats};
    xcvm_tape_get_info(any_tape(f), &stats);
}

void fuzz_xcvm_tape_get_memory_info(tape_fuzz *f)
{
    xcvm_tape_memory_info memory = {.size = sizeof memory};
    xcvm_error error;
    fuzz_note(f, xcvm_tape_get_memory_info(any_tape(f), fuzz_chance(f, 97) ? &memory : NULL, &error), &error);
}

void fuzz_xcvm_tape_set_recording(tape_fuzz *f) { xcvm_tape_set_recording(any_tape(f), fuzz_chance(f, 75)); }

static void observe(void *user, const xcvm_call_event *event)
{
    (void)user;
    volatile size_t length = strlen(event->name);
    (void)length;
}

void fuzz_xcvm_tape_set_observer(tape_fuzz *f)
{
    xcvm_tape_set_observer(any_tape(f), &(xcvm_tape_observer){fuzz_chance(f, 50) ? observe : NULL, f});
}

void fuzz_xcvm_tape_draw(tape_fuzz *f)
{
    xcvm_error error;
    fuzz_note(f, xcvm_tape_draw(any_tape(f), (xcvm_sink){fuzz_chance(f, 97) ? fuzz_discard : NULL, f}, &error), &error);
}

void fuzz_xcvm_tape_checkpoint(tape_fuzz *f) { (void)!xcvm_tape_checkpoint(any_tape(f), NULL); }

void fuzz_xcvm_tape_revert(tape_fuzz *f)
{
    xcvm_error error;
    fuzz_note(f, xcvm_tape_revert(any_tape(f), &error), &error);
}

void fuzz_xcvm_tape_forward(tape_fuzz *f)
{
    xcvm_error error;
    fuzz_note(f, xcvm_tape_forward(any_tape(f), fuzz_chance(f, 60) ? fuzz_variable(f) : XCVM_ABSENT, &error), &error);
}

void fuzz_xcvm_tape_invalidate(tape_fuzz *f) { xcvm_tape_invalidate(any_tape(f)); }

void fuzz_xcvm_tape_scope_begin(tape_fuzz *f)
{
    const xcvm_scope scope = xcvm_tape_scope_begin(any_tape(f));
    if (f->scope_count < FUZZ_SCOPES)
        f->scopes[f->scope_count++] = scope;
}

/* Usually the innermost one, but any open scope. */
void fuzz_xcvm_tape_scope_end(tape_fuzz *f)
{
    if (f->scope_count == 0)
        return;
    const size_t at = fuzz_chance(f, 80) ? f->scope_count - 1 : fuzz_pick(f, (uint32_t)f->scope_count);
    const xcvm_var results[] = {fuzz_variable(f), fuzz_variable(f)};
    const size_t count = fuzz_pick(f, 3);
    xcvm_tape_scope_end(any_tape(f), f->scopes[at], count, count > 0 ? results : NULL);
    f->scope_count = at;
}

/* ---- Variables ---- */

/* Arguments that no tensor can have. */
static void make_wrongly(tape_fuzz *f, bool parameter)
{
    const int64_t dims[] = {(int64_t)fuzz_pick(f, 4) - 2, fuzz_chance(f, 50) ? INT64_MAX / 2 : 3};
    const xcvm_dtype dtype = (xcvm_dtype)fuzz_pick(f, 120);
    const int rank = (int)fuzz_pick(f, 3) - (int)fuzz_pick(f, 2);
    (parameter ? xcvm_tape_parameter : xcvm_tape_constant)(any_tape(f), dtype, rank, dims, NULL);
}

void fuzz_xcvm_tape_constant(tape_fuzz *f)
{
    if (fuzz_chance(f, 80))
        (void)fuzz_make(f);
    else
        make_wrongly(f, false);
}

void fuzz_xcvm_tape_parameter(tape_fuzz *f)
{
    if (fuzz_chance(f, 80))
        (void)fuzz_make(f);
    else
        make_wrongly(f, true);
}

void fuzz_xcvm_tape_scalar(tape_fuzz *f)
{
    fuzz_keep(f, xcvm_tape_scalar(any_tape(f), (xcvm_dtype)fuzz_pick(f, 20), fuzz_pick(f, 5) - 2.0));
}

void fuzz_xcvm_tape_value(tape_fuzz *f)
{
    const xcvm_value *value = NULL;
    xcvm_error error;
    if (fuzz_chance(f, 50))
        value = f->value;
    else if (fuzz_note(f, xcvm_var_get_value(f->tape, fuzz_variable(f), &value, &error), &error) != XCVM_OK)
        value = NULL;
    fuzz_keep(f, xcvm_tape_value(any_tape(f), value));
}

void fuzz_xcvm_var_get_value(tape_fuzz *f)
{
    const xcvm_value *value;
    xcvm_error error;
    if (fuzz_note(f, xcvm_var_get_value(any_tape(f), fuzz_variable(f), &value, &error), &error) == XCVM_OK)
        read_elements(value);
}

void fuzz_xcvm_var_get_number(tape_fuzz *f) { (void)xcvm_var_get_number(any_tape(f), fuzz_float(f)); }

void fuzz_xcvm_var_set_data(tape_fuzz *f)
{
    float data[64];
    const xcvm_var v = fuzz_variable(f);
    int64_t dims[3];
    size_t count = 1;
    for (int i = 0, rank = fuzz_shape(f, dims); i < rank; i++)
        count *= (size_t)dims[i];
    for (size_t i = 0; i < 64; i++)
        data[i] = (float)fuzz_pick(f, 5) / 2;
    xcvm_error error;
    fuzz_note(f, xcvm_var_set_data(any_tape(f), v, fuzz_chance(f, 97) ? data : NULL, count * sizeof *data, &error),
              &error);
}

void fuzz_xcvm_var_keep(tape_fuzz *f) { fuzz_keep(f, xcvm_var_keep(any_tape(f), fuzz_variable(f))); }
void fuzz_xcvm_var_release(tape_fuzz *f) { xcvm_var_release(any_tape(f), fuzz_variable(f)); }
void fuzz_xcvm_var_detach(tape_fuzz *f) { fuzz_keep(f, xcvm_var_detach(any_tape(f), fuzz_variable(f))); }
void fuzz_xcvm_var_unchain(tape_fuzz *f) { xcvm_var_unchain(any_tape(f), fuzz_variable(f)); }

void fuzz_xcvm_var_set_name(tape_fuzz *f)
{
    static const char *const names[] = {"w", "b", "", NULL};
    xcvm_error error;
    fuzz_note(f, xcvm_var_set_name(any_tape(f), fuzz_float(f), names[fuzz_pick(f, 4)], &error), &error);
}

void fuzz_xcvm_var_set_requires_gradient(tape_fuzz *f)
{
    xcvm_error error;
    (void)xcvm_var_set_requires_gradient(any_tape(f), fuzz_float(f), fuzz_chance(f, 75), &error);
}

void fuzz_xcvm_var_requires_gradient(tape_fuzz *f) { (void)xcvm_var_requires_gradient(any_tape(f), fuzz_variable(f)); }

void fuzz_xcvm_var_get_type(tape_fuzz *f)
{
    xcvm_type type;
    xcvm_error error;
    if (xcvm_var_get_type(any_tape(f), fuzz_variable(f), fuzz_chance(f, 97) ? &type : NULL, &error) != XCVM_OK)
        return;
    for (int i = 0; i < type.rank; i++)
        if (type.dim_names[i] != NULL) {
            volatile size_t length = strlen(type.dim_names[i]);
            (void)length;
        }
}

void fuzz_xcvm_var_get_creator(tape_fuzz *f)
{
    xcvm_creator_info creator = {.size = sizeof creator};
    if (xcvm_var_get_creator(any_tape(f), fuzz_variable(f), &creator)) {
        volatile size_t length = strlen(creator.name);
        (void)length;
    }
}

/* ---- Gradients ---- */

void fuzz_xcvm_var_get_gradient(tape_fuzz *f)
{
    const xcvm_var v = xcvm_var_get_gradient(any_tape(f), fuzz_float(f));
    const xcvm_value *value;
    xcvm_error error;
    fuzz_keep(f, v);
    if (fuzz_chance(f, 30) && xcvm_var_get_value(f->tape, v, &value, &error) == XCVM_OK)
        read_elements(value);
}

void fuzz_xcvm_var_clear_gradient(tape_fuzz *f) { xcvm_var_clear_gradient(any_tape(f), fuzz_float(f)); }
void fuzz_xcvm_var_retain_gradient(tape_fuzz *f) { xcvm_var_retain_gradient(any_tape(f), fuzz_float(f)); }

static xcvm_var hook(void *user, xcvm_tape *t, xcvm_var gradient)
{
    tape_fuzz *f = user;
    fuzz_act_within(f);
    switch (fuzz_pick(f, 6)) {
    case 0:
        return gradient;
    case 1:
        return fuzz_variable_of(f, XCVM_F32, gradient);
    case 2:
        fuzz_keep(f, gradient);
        return xcvm_Neg(t, gradient);
    case 3:
        return fuzz_chance(f, 20) ? fuzz_variable(f) : XCVM_ABSENT;
    default:
        return XCVM_ABSENT;
    }
}

void fuzz_xcvm_var_add_hook(tape_fuzz *f)
{
    xcvm_error error;
    fuzz_note(f,
              xcvm_var_add_hook(any_tape(f), fuzz_float(f), (xcvm_gradient_hook){fuzz_chance(f, 97) ? hook : NULL, f},
                                &error),
              &error);
}

static xcvm_backward_options backward_options(tape_fuzz *f, xcvm_var root)
{
    return (xcvm_backward_options){.size = sizeof(xcvm_backward_options),
                                   .seed = fuzz_chance(f, 60) ? fuzz_variable_of(f, XCVM_F32, root) : XCVM_ABSENT,
                                   .retain_graph = fuzz_chance(f, 40),
                                   .create_graph = fuzz_chance(f, 25)};
}

void fuzz_xcvm_tape_backward(tape_fuzz *f)
{
    xcvm_error error;
    xcvm_var root = fuzz_chance(f, 90) ? fuzz_root(f) : fuzz_float(f);
    xcvm_backward_options options = backward_options(f, root);
    if (fuzz_chance(f, 60)) {
        options.seed = XCVM_ABSENT;
        fuzz_keep(f, root = xcvm_ReduceSum(f->tape, root, .keepdims = 0));
    }
    fuzz_note(f, xcvm_tape_backward(any_tape(f), root, fuzz_chance(f, 85) ? &options : NULL, &error), &error);
}

void fuzz_xcvm_tape_gradients(tape_fuzz *f)
{
    const size_t roots = 1 + fuzz_pick(f, 2), count = 1 + fuzz_pick(f, 2);
    const xcvm_var root[] = {fuzz_root(f), fuzz_root(f)}, wrt[] = {fuzz_float(f), fuzz_float(f)},
                   seeds[] = {fuzz_variable_of(f, XCVM_F32, root[0]), fuzz_variable_of(f, XCVM_F32, root[1])};
    xcvm_var gradients[2] = {{0}};
    xcvm_backward_options options = backward_options(f, root[0]);
    xcvm_error error;
    options.seed = XCVM_ABSENT;
    if (fuzz_note(f,
                  xcvm_tape_gradients(any_tape(f), roots, root, fuzz_chance(f, 80) ? seeds : NULL, count, wrt, &options,
                                      gradients, &error),
                  &error) == XCVM_OK)
        for (size_t i = 0; i < count; i++)
            fuzz_keep(f, gradients[i]);
}

/* ---- Functions ---- */

static xcvm_var function(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    tape_fuzz *f = user;
    const xcvm_var y = fuzz_expression(f, t, count, xs);
    fuzz_act_within(f);
    return fuzz_chance(f, 75) ? xcvm_ReduceSum(t, y, .keepdims = 0) : fuzz_chance(f, 95) ? y : fuzz_variable(f);
}

void fuzz_xcvm_tape_vector_jacobian_product(tape_fuzz *f)
{
    const xcvm_var xs[] = {fuzz_float(f), fuzz_float(f)};
    xcvm_var value = XCVM_ABSENT, gradients[2] = {{0}};
    xcvm_error error;
    const size_t count = 1 + fuzz_pick(f, 2);
    if (fuzz_note(f,
                  xcvm_tape_vector_jacobian_product(any_tape(f), (xcvm_tape_function){function, f}, count, xs,
                                                    fuzz_chance(f, 30) ? fuzz_float(f) : XCVM_ABSENT, &value, gradients,
                                                    &error),
                  &error) != XCVM_OK)
        return;
    fuzz_keep(f, value);
    for (size_t i = 0; i < count; i++)
        fuzz_keep(f, gradients[i]);
}

void fuzz_xcvm_tape_jacobian_vector_product(tape_fuzz *f)
{
    const xcvm_var xs[] = {fuzz_float(f), fuzz_float(f)},
                   directions[] = {fuzz_variable_of(f, XCVM_F32, xs[0]), XCVM_ABSENT};
    xcvm_var value = XCVM_ABSENT, change = XCVM_ABSENT;
    xcvm_error error;
    if (fuzz_note(f,
                  xcvm_tape_jacobian_vector_product(any_tape(f), (xcvm_tape_function){function, f}, 1 + fuzz_pick(f, 2),
                                                    xs, directions, &value, &change, &error),
                  &error) != XCVM_OK)
        return;
    fuzz_keep(f, value);
    fuzz_keep(f, change);
}

void fuzz_xcvm_tape_jacobian(tape_fuzz *f)
{
    xcvm_var result = XCVM_ABSENT;
    xcvm_error error;
    if (fuzz_note(f, xcvm_tape_jacobian(any_tape(f), (xcvm_tape_function){function, f}, fuzz_float(f), &result, &error),
                  &error) == XCVM_OK)
        fuzz_keep(f, result);
}

void fuzz_xcvm_tape_hessian_vector_product(tape_fuzz *f)
{
    const xcvm_var x = fuzz_float(f), vector = fuzz_variable_of(f, XCVM_F32, x);
    xcvm_var result = XCVM_ABSENT;
    xcvm_error error;
    if (fuzz_note(f,
                  xcvm_tape_hessian_vector_product(any_tape(f), (xcvm_tape_function){function, f}, x, vector, &result,
                                                   &error),
                  &error) == XCVM_OK)
        fuzz_keep(f, result);
}

void fuzz_xcvm_tape_check_gradients(tape_fuzz *f)
{
    const xcvm_var xs[] = {fuzz_float(f), fuzz_float(f)};
    const xcvm_gradient_check_options check = {.size = sizeof check, .order = (int)fuzz_pick(f, 4) - 1};
    xcvm_error error;
    fuzz_note(
        f,
        xcvm_tape_check_gradients(any_tape(f), (xcvm_tape_function){function, f}, fuzz_pick(f, 3), xs, &check, &error),
        &error);
}

static xcvm_status operation_forward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                     xcvm_var *out)
{
    tape_fuzz *f = user;
    fuzz_act_within(f);
    for (size_t i = 0; i < out_count; i++)
        out[i] = fuzz_expression(f, t, in_count, in);
    return fuzz_chance(f, 95) ? XCVM_OK : XCVM_INVALID_ARGUMENT;
}

static xcvm_status operation_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                      const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    tape_fuzz *f = user;
    fuzz_act_within(f);
    for (size_t i = 0; i < in_count; i++)
        in_gradients[i] = fuzz_chance(f, 20)                    ? XCVM_ABSENT
                          : fuzz_chance(f, 50) && out_count > 0 ? xcvm_Mul(t, in[i], out_gradients[0])
                          : fuzz_chance(f, 20) && out_count > 0 ? out[0]
                          : fuzz_chance(f, 20)                  ? fuzz_variable(f)
                                                                : in[i];
    return fuzz_chance(f, 95) ? XCVM_OK : XCVM_INVALID_ARGUMENT;
}

/* Borrowed while calls are recorded: static functions use the running fuzz target. */
static tape_fuzz *running;
static xcvm_status forward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                           xcvm_var *out)
{
    (void)user;
    return operation_forward(running, t, in_count, in, out_count, out);
}
static xcvm_status backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                            const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    (void)user;
    return operation_backward(running, t, in_count, in, out_count, out, out_gradients, in_gradients);
}

void fuzz_xcvm_tape_call_operation(tape_fuzz *f)
{
    static const xcvm_operation operations[] = {
        {.size = sizeof(xcvm_operation), .name = "operation", .forward = forward, .backward = backward},
        {.size = sizeof(xcvm_operation), .name = "constant", .forward = forward}};
    const xcvm_var in[] = {fuzz_float(f), fuzz_float(f)};
    xcvm_var out[2];
    running = f;
    const size_t count = fuzz_pick(f, 3);
    fuzz_keep(f,
              xcvm_tape_call_operation(any_tape(f), &operations[fuzz_pick(f, 5) / 4], fuzz_pick(f, 3), in, count, out));
    for (size_t i = 1; i < count; i++)
        fuzz_keep(f, out[i]);
}

/* ---- Programs ---- */

void fuzz_xcvm_tape_input(tape_fuzz *f)
{
    static const char *const names[] = {"x", "y", "z", "", "u", "v", "w"};
    int64_t dims[3];
    const int rank = fuzz_shape(f, dims);
    for (int i = 0; i < rank; i++)
        dims[i] = fuzz_chance(f, 20) ? -1 : dims[i];
    fuzz_keep(f, xcvm_tape_input(any_tape(f), names[fuzz_pick(f, 7)], fuzz_chance(f, 95) ? XCVM_F32 : XCVM_NO_DTYPE,
                                 rank, dims, fuzz_chance(f, 50) ? (const char *const[]){"n", NULL, "n"} : NULL));
}

/* This ends the tape and is slow, so it is rare. */
void fuzz_xcvm_tape_compile(tape_fuzz *f)
{
    if (f->depth > 0 || !fuzz_chance(f, 25))
        return;
    const xcvm_tape_output outputs[] = {{"a", fuzz_variable(f)}, {"b", fuzz_variable(f)}};
    const struct xcc_options options = {
        .size = sizeof options, .allocator = &f->memory.allocator, .optimization = (int)fuzz_pick(f, 3) - 1};
    xcvm_error error;
    fuzz_note(f,
              xcvm_tape_compile(any_tape(f), 1 + fuzz_pick(f, 2), outputs, fuzz_chance(f, 80) ? &options : NULL,
                                (xcvm_sink){fuzz_discard, f}, NULL, &error),
              &error);
}

/* ---- Control flow ---- */

static void branch(void *user, xcvm_tape *t, size_t count, xcvm_var *results)
{
    tape_fuzz *f = user;
    fuzz_act_within(f);
    const xcvm_var xs[] = {fuzz_float(f)};
    for (size_t i = 0; i < count && fuzz_chance(f, 95); i++)
        results[i] = fuzz_expression(f, t, 1, xs);
}

void fuzz_xcvm_tape_if(tape_fuzz *f)
{
    xcvm_var results[2] = {{0}};
    const size_t count = fuzz_pick(f, 3);
    xcvm_tape_if(any_tape(f), fuzz_variable_of(f, XCVM_BOOL, XCVM_ABSENT), (xcvm_tape_branch){branch, f},
                 (xcvm_tape_branch){fuzz_chance(f, 95) ? branch : NULL, f}, count, results);
    for (size_t i = 0; i < count; i++)
        fuzz_keep(f, results[i]);
}

static void loop_round(void *user, xcvm_tape *t, xcvm_var iteration, size_t state_count, xcvm_var *states,
                       size_t scan_count, xcvm_var *scans, xcvm_var *go_on)
{
    tape_fuzz *f = user;
    fuzz_act_within(f);
    for (size_t i = 0; i < state_count; i++)
        states[i] = fuzz_chance(f, 90) ? xcvm_Tanh(t, states[i]) : fuzz_expression(f, t, state_count, states);
    for (size_t i = 0; i < scan_count; i++)
        scans[i] = fuzz_expression(f, t, state_count, states);
    if (fuzz_chance(f, 30))
        *go_on = xcvm_Less(t, iteration, xcvm_tape_scalar(t, XCVM_I64, fuzz_pick(f, 3)));
}

void fuzz_xcvm_tape_loop(tape_fuzz *f)
{
    const xcvm_var trips = fuzz_chance(f, 95) ? xcvm_tape_scalar(f->tape, XCVM_I64, fuzz_pick(f, 4)) : fuzz_variable(f);
    xcvm_var states[2] = {fuzz_float(f), fuzz_float(f)}, scans[2] = {{0}};
    const size_t state_count = fuzz_pick(f, 3), scan_count = fuzz_pick(f, 3);
    if (trips.at == NULL) /* otherwise it would not terminate */
        return;
    xcvm_tape_loop(any_tape(f), trips, fuzz_chance(f, 20) ? fuzz_variable(f) : XCVM_ABSENT,
                   (xcvm_tape_loop_body){loop_round, f}, state_count, states, scan_count, scans);
    for (size_t i = 0; i < state_count; i++)
        fuzz_keep(f, states[i]);
    for (size_t i = 0; i < scan_count; i++)
        fuzz_keep(f, scans[i]);
}

/* ---- Op calls ---- */

/* An instruction number that may not exist, with only the tape as argument. */
void fuzz_xcvm_call(tape_fuzz *f)
{
    union {
        xcvm_tape *tape;
        uint64_t words[128];
    } call = {.words = {0}};
    if (fuzz_chance(f, 50)) {
        (void)fuzz_instruction(f);
        return;
    }
    call.tape = any_tape(f);
    (void)xcvm_call((int32_t)fuzz_pick(f, 600) - 20, &call);
}
