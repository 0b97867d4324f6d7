/* Calls of the functions of layers.h and tape_static.h in the fuzz target of the tape. */
#include "tests/fuzz/tape_fuzz.h"

static xcvm_tape *any_tape(tape_fuzz *f) { return fuzz_chance(f, 98) ? f->tape : NULL; }
/* Usually an existing one. */
#define ANY_OF(type, name, slots, count)                                                                               \
    static type *name(tape_fuzz *f)                                                                                    \
    {                                                                                                                  \
        type *found = NULL;                                                                                            \
        for (int tries = 0; tries < 4 && found == NULL; tries++)                                                       \
            found = f->slots[fuzz_pick(f, count)];                                                                     \
        return found;                                                                                                  \
    }
ANY_OF(xcvm_layer, any_layer, layers, FUZZ_LAYERS)
ANY_OF(xcvm_optimizer, any_optimizer, optimizers, FUZZ_OPTIMIZERS)
ANY_OF(xcvm_static, any_static, statics, FUZZ_STATICS)

/* A sink that keeps the data for loading, and sometimes fails. */
static bool save(void *user, const void *bytes, size_t count)
{
    tape_fuzz *f = user;
    return !fuzz_chance(f, 1) && fuzz_collect(&f->saved, bytes, count);
}

/* Sometimes truncates or changes the data to load. */
static size_t spoil(tape_fuzz *f)
{
    const size_t count = f->saved.count;
    if (count == 0 || fuzz_chance(f, 80))
        return count;
    if (fuzz_chance(f, 50))
        return fuzz_pick(f, (uint32_t)count);
    f->saved.at[fuzz_pick(f, (uint32_t)count)] ^= 1;
    return count;
}

/* ---- Row-sparse gradients ---- */

void fuzz_xcvm_var_set_sparse_gradient(tape_fuzz *f)
{
    xcvm_error error;
    fuzz_note(f, xcvm_var_set_sparse_gradient(any_tape(f), fuzz_float(f), fuzz_chance(f, 75), &error), &error);
}

void fuzz_xcvm_var_get_gradient_rows(tape_fuzz *f)
{
    xcvm_var rows = XCVM_ABSENT, gradients = XCVM_ABSENT;
    xcvm_error error;
    if (fuzz_note(f, xcvm_var_get_gradient_rows(any_tape(f), fuzz_float(f), &rows, &gradients, &error), &error) !=
        XCVM_OK)
        return;
    fuzz_keep(f, rows);
    fuzz_keep(f, gradients);
}

/* ---- Optimizers ---- */

void fuzz_xcvm_optimizer_create(tape_fuzz *f)
{
    static const char *const texts[] = {
        "sgd:lr=0.1", "adam:lr=0.01", "sgd:lr=0.1,momentum=0.9", "adamw", "lamb", "rmsprop", "adagrad", "none"};
    const uint32_t slot = fuzz_pick(f, FUZZ_OPTIMIZERS);
    const xcvm_optimizer_options options = {.size = sizeof options,
                                            .clip_norm = fuzz_chance(f, 40) ? 1 : 0,
                                            .clip_value = fuzz_chance(f, 20) ? 0.5 : 0,
                                            .average = fuzz_chance(f, 40) ? 0.9 : 0};
    xcvm_error error;
    if (f->optimizers[slot] != NULL)
        return; /* few of each, so that each is used often */
    if (fuzz_note(f,
                  xcvm_optimizer_create(any_tape(f), texts[fuzz_pick(f, 8)], fuzz_chance(f, 80) ? &options : NULL,
                                        &f->optimizers[slot], &error),
                  &error) != XCVM_OK)
        return;
    for (uint32_t i = fuzz_pick(f, 3); i > 0; i--)
        fuzz_xcvm_optimizer_add(f);
}

void fuzz_xcvm_optimizer_destroy(tape_fuzz *f)
{
    xcvm_optimizer **o = &f->optimizers[fuzz_pick(f, FUZZ_OPTIMIZERS)];
    if (!fuzz_chance(f, 30))
        return;
    xcvm_optimizer *gone = *o;
    *o = NULL;
    xcvm_optimizer_destroy(gone);
}

void fuzz_xcvm_optimizer_add(tape_fuzz *f)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", NULL};
    xcvm_error error;
    fuzz_note(f, xcvm_optimizer_add(any_optimizer(f), names[fuzz_pick(f, 6)], fuzz_float(f), &error), &error);
}

void fuzz_xcvm_optimizer_add_layer(tape_fuzz *f)
{
    xcvm_error error;
    fuzz_note(f, xcvm_optimizer_add_layer(any_optimizer(f), any_layer(f), &error), &error);
}

void fuzz_xcvm_optimizer_step(tape_fuzz *f)
{
    xcvm_error error;
    fuzz_note(f, xcvm_optimizer_step(any_optimizer(f), &error), &error);
}

void fuzz_xcvm_optimizer_clear_gradients(tape_fuzz *f) { xcvm_optimizer_clear_gradients(any_optimizer(f)); }
void fuzz_xcvm_optimizer_set_rate(tape_fuzz *f) { xcvm_optimizer_set_rate(any_optimizer(f), 0.01); }
void fuzz_xcvm_optimizer_get_rate(tape_fuzz *f) { (void)xcvm_optimizer_get_rate(any_optimizer(f)); }
void fuzz_xcvm_optimizer_set_gradient_scale(tape_fuzz *f) { xcvm_optimizer_set_gradient_scale(any_optimizer(f), 0.5); }
void fuzz_xcvm_optimizer_gradient_norm(tape_fuzz *f) { (void)xcvm_optimizer_gradient_norm(any_optimizer(f)); }

void fuzz_xcvm_optimizer_set_updated(tape_fuzz *f)
{
    xcvm_error error;
    fuzz_note(f, xcvm_optimizer_set_updated(any_optimizer(f), fuzz_float(f), fuzz_chance(f, 60), &error), &error);
}

void fuzz_xcvm_optimizer_get_average(tape_fuzz *f)
{
    fuzz_keep(f, xcvm_optimizer_get_average(any_optimizer(f), fuzz_float(f)));
}

void fuzz_xcvm_optimizer_swap_averages(tape_fuzz *f)
{
    xcvm_error error;
    fuzz_note(f, xcvm_optimizer_swap_averages(any_optimizer(f), &error), &error);
}

xcvm_var fuzz_update_hook(void *user, xcvm_tape *t, const xcvm_update *update)
{
    tape_fuzz *f = user;
    fuzz_act_within(f);
    switch (fuzz_pick(f, 4)) {
    case 0:
        return xcvm_Neg(t, update->gradient);
    case 1:
        return fuzz_chance(f, 50) ? update->gradient : update->parameter;
    case 2:
        return fuzz_chance(f, 30) ? fuzz_variable_of(f, XCVM_F32, update->gradient) : XCVM_ABSENT;
    default:
        return XCVM_ABSENT;
    }
}

static const double hook_number = 0.5;
/* A predefined hook, through its own fuzz function. */
static void add_hook(tape_fuzz *f, xcvm_var (*hook)(void *user, xcvm_tape *tape, const xcvm_update *update))
{
    xcvm_error error;
    fuzz_note(
        f, xcvm_optimizer_add_hook(any_optimizer(f), (xcvm_update_hook){hook, (void *)(uintptr_t)&hook_number}, &error),
        &error);
}
void fuzz_xcvm_hook_weight_decay(tape_fuzz *f) { add_hook(f, xcvm_hook_weight_decay); }
void fuzz_xcvm_hook_lasso(tape_fuzz *f) { add_hook(f, xcvm_hook_lasso); }
void fuzz_xcvm_hook_clip(tape_fuzz *f) { add_hook(f, xcvm_hook_clip); }
void fuzz_xcvm_hook_clip_norm(tape_fuzz *f) { add_hook(f, xcvm_hook_clip_norm); }
void fuzz_xcvm_hook_noise(tape_fuzz *f) { add_hook(f, xcvm_hook_noise); }

void fuzz_xcvm_optimizer_add_hook(tape_fuzz *f)
{
    xcvm_error error;
    fuzz_note(f,
              xcvm_optimizer_add_hook(any_optimizer(f),
                                      (xcvm_update_hook){fuzz_chance(f, 97) ? fuzz_update_hook : NULL, f}, &error),
              &error);
}

void fuzz_xcvm_optimizer_save(tape_fuzz *f)
{
    xcvm_error error;
    f->saved.count = 0;
    fuzz_note(f,
              xcvm_optimizer_save(any_optimizer(f), (xcvm_tensor_format)fuzz_pick(f, 3), (xcvm_sink){save, f}, &error),
              &error);
}

void fuzz_xcvm_optimizer_load(tape_fuzz *f)
{
    xcvm_error error;
    const size_t count = spoil(f);
    fuzz_note(f, xcvm_optimizer_load(any_optimizer(f), f->saved.at, count, &error), &error);
}

/* ---- Layers ---- */

static void put_layer(tape_fuzz *f, xcvm_layer *l)
{
    xcvm_layer **slot = &f->layers[fuzz_pick(f, FUZZ_LAYERS)];
    if (l == NULL)
        return;
    if (*slot != NULL && (f->visiting || f->depth > 0)) {
        xcvm_layer_destroy(l);
        return;
    }
    xcvm_layer_destroy(*slot);
    *slot = l;
}

static const xcvm_layer_options *layer_options(tape_fuzz *f, xcvm_layer_options *o)
{
    *o = (xcvm_layer_options){.size = sizeof *o,
                              .dtype = fuzz_chance(f, 90) ? XCVM_F32 : (xcvm_dtype)fuzz_pick(f, 20),
                              .no_bias = fuzz_chance(f, 30),
                              .weight = {.kind = (xcvm_initializer_kind)fuzz_pick(f, 14), .seed = fuzz_pick(f, 3)},
                              .dense = fuzz_chance(f, 40),
                              .dropout = fuzz_chance(f, 30) ? 0.5 : 0};
    return fuzz_chance(f, 60) ? o : NULL;
}

static int64_t size(tape_fuzz *f) { return fuzz_chance(f, 95) ? 1 + (int64_t)fuzz_pick(f, 4) : -1; }

void fuzz_xcvm_layer_create_chain(tape_fuzz *f) { put_layer(f, xcvm_layer_create_chain(any_tape(f))); }

void fuzz_xcvm_layer_create_linear(tape_fuzz *f)
{
    xcvm_layer_options o;
    put_layer(f, xcvm_layer_create_linear(any_tape(f), size(f), size(f), layer_options(f, &o)));
}

void fuzz_xcvm_layer_create_mlp(tape_fuzz *f)
{
    xcvm_layer_options o;
    const int64_t sizes[] = {size(f), size(f), size(f)};
    put_layer(f, xcvm_layer_create_mlp(any_tape(f), fuzz_pick(f, 4), sizes, layer_options(f, &o)));
}

void fuzz_xcvm_layer_create_convolution(tape_fuzz *f)
{
    xcvm_layer_options o;
    const xcvm_int_list kernel = {(const int64_t[]){1, 2, 1}, fuzz_pick(f, 4)};
    put_layer(f, xcvm_layer_create_convolution(any_tape(f), size(f), size(f), kernel, layer_options(f, &o)));
}

void fuzz_xcvm_layer_create_deconvolution(tape_fuzz *f)
{
    xcvm_layer_options o;
    const xcvm_int_list kernel = {(const int64_t[]){2, 1, 1}, fuzz_pick(f, 4)};
    put_layer(f, xcvm_layer_create_deconvolution(any_tape(f), size(f), size(f), kernel, layer_options(f, &o)));
}

void fuzz_xcvm_layer_create_batch_normalization(tape_fuzz *f)
{
    xcvm_layer_options o;
    put_layer(f, xcvm_layer_create_batch_normalization(any_tape(f), size(f), layer_options(f, &o)));
}

void fuzz_xcvm_layer_create_layer_normalization(tape_fuzz *f)
{
    xcvm_layer_options o;
    put_layer(f, xcvm_layer_create_layer_normalization(any_tape(f), size(f), layer_options(f, &o)));
}

void fuzz_xcvm_layer_create_embedding(tape_fuzz *f)
{
    xcvm_layer_options o;
    put_layer(f, xcvm_layer_create_embedding(any_tape(f), size(f), size(f), layer_options(f, &o)));
}

void fuzz_xcvm_layer_create_lstm(tape_fuzz *f)
{
    xcvm_layer_options o;
    put_layer(f, xcvm_layer_create_lstm(any_tape(f), size(f), size(f), layer_options(f, &o)));
}

void fuzz_xcvm_layer_create_gru(tape_fuzz *f)
{
    xcvm_layer_options o;
    put_layer(f, xcvm_layer_create_gru(any_tape(f), size(f), size(f), layer_options(f, &o)));
}

void fuzz_xcvm_layer_create_dropout(tape_fuzz *f)
{
    put_layer(f, xcvm_layer_create_dropout(any_tape(f), fuzz_pick(f, 4) / 2.0 - 0.5));
}
void fuzz_xcvm_layer_retain(tape_fuzz *f) { put_layer(f, xcvm_layer_retain(any_layer(f))); }

void fuzz_xcvm_layer_destroy(tape_fuzz *f)
{
    xcvm_layer **slot = &f->layers[fuzz_pick(f, FUZZ_LAYERS)];
    if (f->visiting || !fuzz_chance(f, 30))
        return;
    xcvm_layer *gone = *slot;
    *slot = NULL;
    xcvm_layer_destroy(gone);
}

/* The parent takes the reference, so the slot needs its own. */
void fuzz_xcvm_layer_add(tape_fuzz *f)
{
    static const char *const names[] = {"l1", "l2", "l3", "a/b", ""};
    if (!f->visiting)
        (void)xcvm_layer_add(any_layer(f), names[fuzz_pick(f, 5)], xcvm_layer_retain(any_layer(f)));
}

void fuzz_xcvm_layer_add_parameter(tape_fuzz *f)
{
    static const char *const names[] = {"W", "V", "b", NULL};
    if (!f->visiting)
        (void)xcvm_layer_add_parameter(any_layer(f), names[fuzz_pick(f, 4)], fuzz_float(f));
}

static const char *path(tape_fuzz *f)
{
    static const char *const paths[] = {"W", "l1", "l1/W", "upward/b", "", "l1/l2/W", "gamma"};
    return paths[fuzz_pick(f, 7)];
}

void fuzz_xcvm_layer_get_child(tape_fuzz *f)
{
    put_layer(f, xcvm_layer_retain(xcvm_layer_get_child(any_layer(f), path(f))));
}
void fuzz_xcvm_layer_get_parameter(tape_fuzz *f) { fuzz_keep(f, xcvm_layer_get_parameter(any_layer(f), path(f))); }
void fuzz_xcvm_layer_call(tape_fuzz *f) { fuzz_keep(f, xcvm_layer_call(any_layer(f), fuzz_float(f))); }
void fuzz_xcvm_layer_set_training(tape_fuzz *f) { xcvm_layer_set_training(any_layer(f), fuzz_chance(f, 60)); }

void fuzz_xcvm_layer_set_frozen(tape_fuzz *f)
{
    xcvm_error error;
    fuzz_note(f, xcvm_layer_set_frozen(any_layer(f), fuzz_chance(f, 40), &error), &error);
}

void fuzz_xcvm_layer_reset(tape_fuzz *f) { xcvm_layer_reset(any_layer(f)); }
void fuzz_xcvm_layer_unchain(tape_fuzz *f) { xcvm_layer_unchain(any_layer(f)); }
void fuzz_xcvm_layer_clear_gradients(tape_fuzz *f) { xcvm_layer_clear_gradients(any_layer(f)); }

static xcvm_status visitor(void *user, const char *name, xcvm_var v, bool learned)
{
    tape_fuzz *f = user;
    (void)learned;
    fuzz_act_within(f);
    if (fuzz_chance(f, 20))
        fuzz_keep(f, v);
    return strlen(name) > 0 && fuzz_chance(f, 95) ? XCVM_OK : XCVM_IO;
}

void fuzz_xcvm_layer_visit(tape_fuzz *f)
{
    const bool visiting = f->visiting;
    f->visiting = true;
    (void)xcvm_layer_visit(any_layer(f), (xcvm_layer_visitor){visitor, f});
    f->visiting = visiting;
}

void fuzz_xcvm_layer_element_count(tape_fuzz *f) { (void)xcvm_layer_element_count(any_layer(f)); }
void fuzz_xcvm_layer_copy(tape_fuzz *f) { put_layer(f, xcvm_layer_copy(any_layer(f), fuzz_chance(f, 50))); }

void fuzz_xcvm_layer_save(tape_fuzz *f)
{
    xcvm_error error;
    f->saved.count = 0;
    fuzz_note(f, xcvm_layer_save(any_layer(f), (xcvm_tensor_format)fuzz_pick(f, 3), (xcvm_sink){save, f}, &error),
              &error);
}

void fuzz_xcvm_layer_load(tape_fuzz *f)
{
    xcvm_error error;
    const size_t count = spoil(f);
    fuzz_note(f, xcvm_layer_load(any_layer(f), f->saved.at, count, &error), &error);
}

/* ---- Functions ---- */

void fuzz_xcvm_tape_pick_neg_log_softmax(tape_fuzz *f)
{
    fuzz_keep(f,
              xcvm_tape_pick_neg_log_softmax(any_tape(f), fuzz_float(f), fuzz_variable_of(f, XCVM_I64, XCVM_ABSENT)));
}

void fuzz_xcvm_tape_affine_transform(tape_fuzz *f)
{
    const xcvm_var terms[] = {fuzz_float(f), fuzz_float(f), fuzz_float(f)};
    fuzz_keep(f, xcvm_tape_affine_transform(any_tape(f), fuzz_pick(f, 4), terms));
}

void fuzz_xcvm_tape_hinge(tape_fuzz *f)
{
    fuzz_keep(f, xcvm_tape_hinge(any_tape(f), fuzz_float(f), fuzz_variable_of(f, XCVM_I64, XCVM_ABSENT), 0.5));
}

void fuzz_xcvm_tape_scale_gradient(tape_fuzz *f)
{
    fuzz_keep(f, xcvm_tape_scale_gradient(any_tape(f), fuzz_float(f), 0.5));
}

/* ---- Static functions ---- */

/* Usually repeats its calls. */
xcvm_status fuzz_static_function(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 xcvm_var *out)
{
    const fuzz_script *script = user;
    tape_fuzz *f = script->f;
    const uint64_t random = f->random;
    const size_t count = f->count;
    f->random = script->random + (fuzz_chance(f, 10) ? 1 : 0);
    f->count = 0;
    if (fuzz_chance(f, 40))
        fuzz_act_within(f);
    for (size_t i = 0; i < out_count; i++)
        out[i] = fuzz_expression(f, t, in_count, in);
    if (fuzz_chance(f, 20))
        f->held[fuzz_pick(f, FUZZ_HELD)] = fuzz_expression(f, t, in_count, in);
    if (fuzz_chance(f, 15) && out_count > 0) {
        const xcvm_var loss = xcvm_ReduceSum(t, out[0], .keepdims = 0);
        xcvm_error error;
        if (xcvm_tape_backward(t, loss, NULL, &error) == XCVM_OK && fuzz_chance(f, 60))
            fuzz_xcvm_optimizer_step(f);
    }
    if (fuzz_chance(f, 10))
        fuzz_xcvm_layer_call(f);
    f->random = random + 1;
    f->count = count;
    return XCVM_OK;
}

void fuzz_xcvm_static_create(tape_fuzz *f)
{
    const uint32_t slot = fuzz_pick(f, FUZZ_STATICS);
    const xcvm_static_options options = {.size = sizeof options,
                                         .held = f->places,
                                         .held_count = fuzz_pick(f, FUZZ_HELD + 1),
                                         .cache_limit = fuzz_pick(f, 3),
                                         .minimize_cache_size = fuzz_chance(f, 20),
                                         .force_test_define_by_run = fuzz_chance(f, 10),
                                         .double_backprop = fuzz_chance(f, 30),
                                         .optimization = (int)fuzz_pick(f, 3) - 1,
                                         .verbosity = 2};
    xcvm_error error;
    if (f->statics[slot] != NULL)
        return;
    f->scripts[slot] = (fuzz_script){f, ((uint64_t)fuzz_pick(f, 1 << 16) << 8) + slot};
    fuzz_note(f,
              xcvm_static_create(any_tape(f), (xcvm_static_function){fuzz_static_function, &f->scripts[slot]},
                                 fuzz_chance(f, 85) ? &options : NULL, &f->statics[slot], &error),
              &error);
}

/* A running static function or pass refuses it, which the tape reports. */
void fuzz_xcvm_static_destroy(tape_fuzz *f)
{
    const uint32_t slot = fuzz_pick(f, FUZZ_STATICS);
    if (!fuzz_chance(f, 30))
        return;
    xcvm_error error;
    (void)xcvm_tape_status(f->tape, &error);
    xcvm_static_destroy(f->statics[slot]);
    if (fuzz_note(f, xcvm_tape_status(f->tape, &error), &error) == XCVM_OK)
        f->statics[slot] = NULL;
}

void fuzz_xcvm_static_call(tape_fuzz *f)
{
    const xcvm_var in[] = {fuzz_float(f), fuzz_float(f)};
    xcvm_var out[2] = {{0}};
    const size_t in_count = fuzz_pick(f, 3), out_count = fuzz_pick(f, 3);
    xcvm_static *s = any_static(f);
    for (uint32_t left = 1 + fuzz_pick(f, 3); left > 0 && s != NULL; left--) {
        fuzz_keep(f, xcvm_static_call(s, in_count, in, out_count, out));
        for (size_t i = 0; i < out_count; i++)
            fuzz_keep(f, out[i]);
        if (f->depth > 0)
            break; /* it may be gone */
    }
}

void fuzz_xcvm_static_set_enabled(tape_fuzz *f) { xcvm_static_set_enabled(any_static(f), fuzz_chance(f, 80)); }
void fuzz_xcvm_static_set_training(tape_fuzz *f) { xcvm_static_set_training(any_static(f), fuzz_chance(f, 80)); }
void fuzz_xcvm_static_set_checking(tape_fuzz *f) { xcvm_static_set_checking(any_static(f), fuzz_chance(f, 40)); }
void fuzz_xcvm_static_end_forward(tape_fuzz *f) { xcvm_static_end_forward(any_static(f)); }

void fuzz_xcvm_static_reset(tape_fuzz *f) { xcvm_static_reset(any_static(f)); }

void fuzz_xcvm_static_get_info(tape_fuzz *f)
{
    xcvm_static_info stats = {.size = sizeof stats};
    xcvm_static_get_info(any_static(f), &stats);
}

void fuzz_xcvm_static_dump(tape_fuzz *f)
{
    xcvm_error error;
    fuzz_note(f, xcvm_static_dump(any_static(f), (xcvm_sink){fuzz_discard, f}, &error), &error);
}

void fuzz_xcvm_static_save(tape_fuzz *f)
{
    const xcvm_static_save_options options = {.size = sizeof options, .states = fuzz_chance(f, 40)};
    xcvm_error error;
    fuzz_note(
        f, xcvm_static_save(any_static(f), fuzz_chance(f, 80) ? &options : NULL, (xcvm_sink){fuzz_discard, f}, &error),
        &error);
}
