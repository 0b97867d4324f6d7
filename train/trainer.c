/* Trainers: creation, steps, properties and export. */
#include "train/trainer.h"

#include "compiler/onnx_model/onnx_model.h"
#include "compiler/training/losses.h"
#include "proto/recognize.h"
#include "train/data/convert_rows.h"
#include "train/data/permutation.h"
#include "vm/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Making ---- */

/* Completes a loss without parentheses with the name of the labels. */
static xcvm_status complete_loss(xct_trainer *t, xcvm_error *error)
{
    const char *loss = t->compile.loss, *label = t->options.label;
    if (loss == NULL || label == NULL || strchr(loss, '(') != NULL)
        return XCVM_OK;
    bool known = false;
    for (size_t i = 0; xcc_loss_at(i) != NULL && !known; i++)
        known = strcmp(xcc_loss_at(i)->name, loss) == 0;
    if (!known)
        return XCVM_OK;
    const size_t size = strlen(loss) + strlen(label) + 4;
    char *text = xcvm_arena_allocate(&t->arena, size);
    XCVM_CHECK(error, text != NULL, OUT_OF_MEMORY, "no memory for a trainer");
    (void)snprintf(text, size, "%s(,%s)", loss, label);
    t->compile.loss = text;
    return XCVM_OK;
}

static xcvm_status find_label(xct_trainer *t, xcvm_error *error)
{
    const char *name = t->options.label;
    t->label = t->feed.count > 1 ? t->feed.count - 1 : SIZE_MAX;
    for (size_t i = 0; i < t->feed.count; i++)
        if (name != NULL && strcmp(t->feed.inputs[i].name, name) == 0) {
            t->label = i;
            return XCVM_OK;
        }
    XCVM_CHECK(error, name == NULL, INVALID_ARGUMENT,
               "there is no input \"%.100s\" for labels; a loss that the model does not have must be named", name);
    return XCVM_OK;
}

/* Determines the valid labels of a loss of classes, added or the model's own. */
static xcvm_status find_label_rule(xct_trainer *t, xcvm_error *error)
{
    const xct_engine *e = &t->root;
    xcc_label_loss own;
    if (t->label == SIZE_MAX || e->predictions == SIZE_MAX)
        return XCVM_OK;
    const xcvm_type *scores = &xcvm_program_output_at(e->program, e->predictions)->type;
    const xcvm_value_info *labels = &t->feed.inputs[t->label];
    const bool added = t->compile.loss != NULL && strcmp(t->compile.loss, t->loss_output) != 0;
    int axis = added ? xcc_loss_class_axis(t->compile.loss, scores->rank) : -1;
    XCVM_TRY(xcc_label_loss_find(t->model, t->model_count, labels->name, &own, error));
    if (!added && own.found && xct_task_of(scores, &labels->type, &axis) != XCT_CLASSES)
        axis = -1;
    const int shown = axis >= 0 ? axis : 1;
    t->feed.labels =
        (xct_label_rule){.checked = axis >= 0 && scores->rank > axis,
                         .input = t->label,
                         .classes = scores->rank > shown && scores->dims[shown] >= 0 ? scores->dims[shown] : -1,
                         .ignores = added || own.ignores,
                         .ignored = added ? xcc_loss_ignores(&t->compile) : own.ignored,
                         .axis = axis,
                         .output_rank = added ? scores->rank : 0};
    memcpy(t->feed.labels.output_dims, scores->dims, sizeof t->feed.labels.output_dims);
    return XCVM_OK;
}

/* Chooses the metric of "auto" for the task. */
static void choose_metric(xct_trainer *t)
{
    t->metric_count = t->measure.task != XCT_NO_TASK;
    t->metrics[0] = t->measure.task == XCT_NUMBERS ? XCT_MAE : XCT_ACCURACY;
}

static xcvm_status find_metrics(xct_trainer *t, xcvm_error *error)
{
    const xct_trainer_options *o = &t->options;
    XCVM_CHECK(error, o->metric_count <= XCT_RESULT_METRICS && (o->metrics != NULL || o->metric_count == 0),
               INVALID_ARGUMENT, "at most %d metrics can be measured", XCT_RESULT_METRICS);
    t->measure = (xct_measure){.allocator = t->allocator, .axis = -1, .threshold = 0.5};
    const xct_engine *e = &t->root;
    if (t->feed.labels.checked) {
        t->measure.task = XCT_CLASSES;
        t->measure.axis = t->feed.labels.axis;
        t->measure.ignores = t->feed.labels.ignores;
        t->measure.ignored = t->feed.labels.ignored;
    } else if (e->predictions != SIZE_MAX && t->label != SIZE_MAX)
        t->measure.task = xct_task_of(&xcvm_program_output_at(e->program, e->predictions)->type,
                                      &t->feed.inputs[t->label].type, &t->measure.axis);
    /* The outputs for a binary cross-entropy are probabilities of class 1, or scores around 0. */
    if (t->compile.loss != NULL && strncmp(t->compile.loss, "bce", 3) == 0 && t->measure.task == XCT_NUMBERS) {
        t->measure.task = XCT_TWO_CLASSES;
        t->measure.threshold = strstr(t->compile.loss, "logits") != NULL ? 0 : 0.5;
    }
    if (o->metric_count == 1 && strcmp(o->metrics[0], "auto") == 0) {
        choose_metric(t);
        return XCVM_OK;
    }
    for (size_t i = 0; i < o->metric_count; i++) {
        XCVM_TRY(xct_metric_find(o->metrics[i], &t->metrics[i], error));
        XCVM_CHECK(error, xct_metric_suits(t->metrics[i], t->measure.task), INVALID_ARGUMENT,
                   "%s cannot be measured: the model has no output of predictions that fit its labels", o->metrics[i]);
    }
    t->metric_count = o->metric_count;
    return XCVM_OK;
}

static xcvm_status make_scalars(xct_trainer *t, xcvm_error *error)
{
    XCVM_TRY(xcvm_tensor_create(t->allocator, XCVM_F32, 0, NULL, &t->rate_value, error));
    XCVM_TRY(xcvm_tensor_create(t->allocator, XCVM_BOOL, 0, NULL, &t->apply_value, error));
    return XCVM_OK;
}

/* Converts BatchNormalization to training form only if the model has any. */
static xcvm_status check_normalization(xct_trainer *t, xcvm_error *error)
{
    xcvm_arena arena = {.allocator = t->allocator};
    const xcc_weight *weights;
    size_t count;
    bool any = false;
    if (!t->compile.training.train_batch_normalization)
        return XCVM_OK;
    const xcvm_status status = xcc_weights_list(t->model, t->model_count, &arena, &weights, &count, error);
    for (size_t i = 0; status == XCVM_OK && i < count; i++)
        any |= weights[i].role == XCC_WEIGHT_VARIANCE;
    t->compile.training.train_batch_normalization = any;
    xcvm_arena_release(&arena);
    return status;
}

void xct_position_begin(xct_position *p)
{
    *p = (xct_position){.best = INFINITY, .factor = 1, .patience_best = INFINITY, .best_loss = INFINITY};
}

static xcvm_status index_states(xct_trainer *t, xcvm_error *error)
{
    const size_t count = xcvm_program_state_count(t->root.program);
    t->parameters = xcvm_arena_allocate(&t->arena, (count + 1) * sizeof *t->parameters);
    bool good = t->parameters != NULL;
    for (size_t i = 0; good && i < count; i++) {
        const char *name = xcvm_program_state_at(t->root.program, i)->name, *parameter;
        const size_t averaged = xct_averaged(name, &parameter);
        if (averaged > 0)
            good = xcvm_name_index_add(&t->averages, &t->arena, parameter, averaged, i);
        if (xct_is_optimizers(name))
            continue;
        good = xcvm_name_index_add(&t->names, &t->arena, name, strlen(name), i);
        t->parameters[t->parameter_count++] = i;
    }
    XCVM_CHECK(error, good, OUT_OF_MEMORY, "no memory for the names of %zu parameters", count);
    xcvm_name_index_sort(&t->names);
    xcvm_name_index_sort(&t->averages);
    return XCVM_OK;
}

/* Computes the edits of the exported model before training, so that they cannot fail after it. */
static xcvm_status find_edits(xct_trainer *t, xcvm_error *error)
{
    const xcc_options limits = {.size = sizeof limits,
                                .allocator = t->compile.allocator,
                                .limits.memory_bytes = t->compile.limits.memory_bytes,
                                .limits.timeout_ns = t->compile.limits.timeout_ns};
    if (t->options.training_form)
        return XCVM_OK;
    return xcc_inference_form_edits(&limits, t->model, t->model_count, &t->arena, &t->edits, error);
}

static xcvm_status begin(xct_trainer *t, xcvm_error *error)
{
    XCVM_CHECK(error, t->compile.train != NULL, INVALID_ARGUMENT, "no optimizer is named");
    XCVM_TRY(xcc_optimizer_rate(t->compile.train, &t->rate, error));
    XCVM_TRY(complete_loss(t, error));
    XCVM_TRY(xct_external_open(t, error));
    XCVM_TRY(xct_separate_weights(t, error));
    XCVM_TRY(check_normalization(t, error));
    XCVM_TRY(xct_initialize(t, error));
    XCVM_TRY(xct_engine_begin(t, error));
    XCVM_TRY(find_edits(t, error));
    XCVM_TRY(index_states(t, error));
    XCVM_TRY(find_label(t, error));
    XCVM_TRY(find_label_rule(t, error));
    t->feed.diagnostics = t->compile.diagnostics;
    XCVM_TRY(xct_classes_read(t, error));
    XCVM_TRY(find_metrics(t, error));
    xct_position_begin(&t->position);
    t->epoch = xct_trainer_new_measure(t);
    return make_scalars(t, error);
}

static xcvm_status create(const char *path, const void *model, size_t count, const xct_trainer_options *given,
                          xct_trainer **made, xcvm_error *error)
{
    xct_trainer_options options;
    XCVM_CHECK(error, made != NULL, INVALID_ARGUMENT, "trainer is NULL");
    XCVM_TRY(xcvm_options_read(&options, sizeof options, given, error));
    XCVM_CHECK(error, options.compile != NULL, INVALID_ARGUMENT, "options: compile is NULL, so there is no optimizer");
    XCVM_CHECK(error, options.rank == 0 || (options.rank > 0 && options.rank < options.ranks), INVALID_ARGUMENT,
               "there is no process %d of %d", options.rank, options.ranks);
    XCVM_CHECK(error, options.ranks <= 1 || options.all_reduce.sum != NULL, INVALID_ARGUMENT,
               "%d processes have no all_reduce", options.ranks);
    xcvm_arena arena = {.allocator = xcvm_allocator_or_default(options.compile->allocator)};
    xct_trainer *t = xcvm_arena_allocate(&arena, sizeof *t);
    if (t == NULL) {
        xcvm_arena_release(&arena);
        XCVM_FAIL(error, OUT_OF_MEMORY, "no memory for a trainer");
    }
    t->arena = arena;
    t->allocator = arena.allocator;
    t->options = options;
    t->model = model;
    t->model_count = count;
    xcvm_status status = xcvm_options_read(&t->compile, sizeof t->compile, options.compile, error);
    t->compile.size = sizeof t->compile;
    xcvm_budget_begin(&t->initial, t->allocator, t->compile.limits.memory_bytes);
    t->changed.allocator = &t->initial.allocator;
    if (status == XCVM_OK && path != NULL) {
        t->path = xcvm_arena_string(&t->arena, path, strlen(path));
        status = t->path != NULL ? xct_mapping_open(&t->file, path, error)
                                 : xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for a trainer");
        t->model = t->file.bytes;
        t->model_count = t->file.count;
    }
    if (status == XCVM_OK)
        status = begin(t, error);
    if (status == XCVM_INVALID_MODEL)
        status = xcvm_recognize_failure(status, t->model, t->model_count, XCVM_FILE_MODEL, error);
    if (status == XCVM_OK)
        *made = t;
    else
        xct_trainer_destroy(t);
    return status;
}

xcvm_status xct_trainer_create_file(const char *model, const xct_trainer_options *options, xct_trainer **trainer,
                                    xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, model != NULL, INVALID_ARGUMENT, "model is NULL");
    return create(model, NULL, 0, options, trainer, error);
}

xcvm_status xct_trainer_create(const void *model, size_t count, const xct_trainer_options *options,
                               xct_trainer **trainer, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, model != NULL, INVALID_ARGUMENT, "model is NULL");
    return create(NULL, model, count, options, trainer, error);
}

void xct_trainer_destroy(xct_trainer *t)
{
    if (t == NULL)
        return;
    xct_best_release(t);
    for (size_t i = 0; i < XCT_ENGINES; i++) {
        xct_engine_release(t, &t->learn[i]);
        xct_engine_release(t, &t->judge[i]);
    }
    xct_engine_release(t, &t->root);
    xct_measure_release(&t->measure);
    xct_measure_release(&t->epoch);
    xcvm_value_release(t->rate_value);
    xcvm_value_release(t->apply_value);
    xcvm_bytes_release(&t->changed);
    xcc_external_weights_close(t->external);
    xct_mapping_close(&t->file);
    xcvm_arena arena = t->arena;
    xcvm_arena_release(&arena);
}

/* ---- Running ---- */

/* Stops a run before it changes states, if the loss is not finite. */
typedef struct loss_check {
    int32_t pc;
    bool found;
} loss_check;

static double number_of(const xcvm_value *value)
{
    double number = (double)NAN;
    if (value != NULL && value->kind == XCVM_KIND_TENSOR && xcvm_value_count(value) == 1)
        xct_convert((xcvm_dtype)value->dtype, value->data, XCVM_F64, &number, 1);
    return number;
}

static xcvm_status check_loss(void *user, const xcvm_event *event, xcvm_error *error)
{
    loss_check *w = user;
    if (event->pc != w->pc || isfinite(number_of(event->inputs[0])))
        return XCVM_OK;
    w->found = true;
    return xcvm_error_set(error, XCVM_INVALID_ARGUMENT, "the loss is not finite");
}

static xcvm_status bind(xct_trainer *t, xct_engine *e, const xcvm_value *const *batch, double rate, bool gather,
                        xcvm_error *error)
{
    for (size_t i = 0; i < t->feed.count; i++)
        XCVM_TRY(xcvm_session_set_input(e->session, e->inputs[i], batch[i], error));
    if (e->rate != SIZE_MAX) {
        *(float *)t->rate_value->data = (float)rate;
        XCVM_TRY(xcvm_session_set_input(e->session, e->rate, t->rate_value, error));
    }
    if (e->apply != SIZE_MAX) {
        *(bool *)t->apply_value->data = !gather;
        XCVM_TRY(xcvm_session_set_input(e->session, e->apply, t->apply_value, error));
    }
    /* The random numbers of a run depend only on the seed, the process and the position in the data. */
    const uint64_t seed = t->options.seed + ((uint64_t)t->options.rank << 48);
    e->session->random = xct_permutation_key(seed, t->position.step, t->position.place);
    return XCVM_OK;
}

xcvm_status xct_trainer_run(xct_trainer *t, xct_engine *e, const xcvm_value *const *batch, double rate, bool gather,
                            xcvm_error *error)
{
    XCVM_TRY(bind(t, e, batch, rate, gather, error));
    loss_check w = {.pc = e->loss_pc};
    const xcvm_observer observer = {.size = sizeof observer, .after = check_loss, .user = &w};
    xcvm_session_set_observer(e->session, &observer);
    const uint64_t random = e->session->random;
    const xcvm_status status = xcvm_session_run(e->session, NULL, error);
    xcvm_session_set_observer(e->session, NULL);
    if (!w.found)
        return status;
    e->session->random = random;
    return xct_find_not_finite(t, e, error);
}

xcvm_status xct_trainer_measure(const xct_trainer *t, const xct_engine *e, const xcvm_value *const *batch,
                                size_t examples, xct_measure *measure, xcvm_error *error)
{
    const double loss = number_of(xcvm_session_get_output(e->session, e->loss));
    double weight = (double)examples;
    /* Losses of several processes are weighted by examples, as in the program. */
    if (measure->ignores && (t->options.ranks <= 1 || e->rate == SIZE_MAX))
        weight *= xct_measure_counted(measure, batch[t->label]);
    const bool predicted = measure->task != XCT_NO_TASK && t->metric_count > 0 && e->predictions != SIZE_MAX;
    return xct_measure_add(measure, loss, examples, weight,
                           predicted ? xcvm_session_get_output(e->session, e->predictions) : NULL,
                           predicted ? batch[t->label] : NULL, error);
}

xct_measure xct_trainer_new_measure(const xct_trainer *t)
{
    return (xct_measure){.allocator = t->allocator,
                         .task = t->measure.task,
                         .axis = t->measure.axis,
                         .threshold = t->measure.threshold,
                         .ignores = t->measure.ignores,
                         .ignored = t->measure.ignored};
}

void xct_trainer_report(const xct_trainer *t, const xct_measure *measure, xct_result *to)
{
    const xct_figure loss = xct_measure_loss(measure);
    xct_result result = {.examples = (uint64_t)measure->examples,
                         .loss = loss.value,
                         .loss_error = loss.error,
                         .gradient_norm = (double)NAN,
                         .metric_count = t->metric_count};
    for (size_t i = 0; i < t->metric_count; i++) {
        const xct_figure figure = xct_measure_metric(measure, t->metrics[i]);
        result.metrics[i].name = xct_metric_name(t->metrics[i]);
        result.metrics[i].value = figure.value;
        result.metrics[i].error = figure.error;
    }
    result.size = to->size;
    memcpy(to, &result, to->size < sizeof result ? to->size : sizeof result);
}

static xcvm_status measure_once(xct_trainer *t, const xct_engine *e, const xcvm_value *const *batch, bool norm,
                                xct_result *result, xcvm_error *error)
{
    const size_t examples = t->feed.count > 0 && batch[0]->rank > 0 ? (size_t)batch[0]->dims[0] : 1;
    xct_measure_clear(&t->measure);
    XCVM_TRY(xct_trainer_measure(t, e, batch, examples, &t->measure, error));
    if (result == NULL)
        return XCVM_OK;
    xct_trainer_report(t, &t->measure, result);
    if (norm && e->norm != SIZE_MAX && result->size >= sizeof *result)
        result->gradient_norm = number_of(xcvm_session_get_output(e->session, e->norm));
    return XCVM_OK;
}

static xcvm_status check_call(const xct_trainer *t, const xcvm_value *const *batch, const xct_result *result,
                              xcvm_error *error)
{
    XCVM_CHECK(error, t != NULL && batch != NULL, INVALID_ARGUMENT, "trainer or batch is NULL");
    XCVM_CHECK(error, result == NULL || result->size >= sizeof result->size, INVALID_ARGUMENT,
               "result: size is %zu; initialize the struct with { .size = sizeof(the struct) }", result->size);
    return XCVM_OK;
}

xcvm_status xct_trainer_step(xct_trainer *t, const xcvm_value *const *batch, const xct_step_options *given,
                             xct_result *result, xcvm_error *error)
{
    xct_step_options options;
    xct_engine *e;
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_TRY(check_call(t, batch, result, error));
    XCVM_TRY(xcvm_options_read(&options, sizeof options, given, error));
    XCVM_TRY(xct_engine_find(t, false, batch, &e, error));
    XCVM_CHECK(error, !options.gather || e->apply != SIZE_MAX, INVALID_ARGUMENT,
               "gradients are gathered by trainers whose compile options have accumulate alone");
    const double factor = options.rate_factor != 0 ? options.rate_factor : 1;
    XCVM_TRY(xct_trainer_run(t, e, batch, t->rate * factor, options.gather, error));
    t->position.step += !options.gather;
    return measure_once(t, e, batch, true, result, error);
}

xcvm_status xct_trainer_evaluate(xct_trainer *t, const xcvm_value *const *batch, xct_result *result, xcvm_error *error)
{
    xct_engine *e;
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_TRY(check_call(t, batch, result, error));
    XCVM_TRY(xct_engine_find(t, true, batch, &e, error));
    XCVM_TRY(bind(t, e, batch, 0, false, error));
    XCVM_TRY(xcvm_session_run(e->session, NULL, error));
    return measure_once(t, e, batch, false, result, error);
}

/* ---- What it knows ---- */

size_t xct_trainer_input_count(const xct_trainer *t) { return t != NULL ? t->feed.count : 0; }

const xcvm_value_info *xct_trainer_input_at(const xct_trainer *t, size_t index)
{
    return t != NULL && index < t->feed.count ? &t->feed.inputs[index] : NULL;
}

uint64_t xct_trainer_step_count(const xct_trainer *t) { return t != NULL ? t->position.step : 0; }

size_t xct_trainer_parameter_count(const xct_trainer *t) { return t != NULL ? t->parameter_count : 0; }

const xcvm_value *xct_trainer_parameter_at(const xct_trainer *t, size_t index, const char **name)
{
    if (index >= xct_trainer_parameter_count(t))
        return NULL;
    const size_t state = t->parameters[index];
    if (name != NULL)
        *name = xcvm_program_state_at(t->root.program, state)->name;
    return xcvm_session_get_state(t->root.session, state);
}

static size_t find_state(const xcvm_name_index *names, const char *name, size_t length)
{
    const xcvm_indexed_name *found;
    return xcvm_name_index_find(names, name, length, &found) > 0 ? found->number : SIZE_MAX;
}

xcvm_status xct_trainer_set_parameter(xct_trainer *t, const char *name, const xcvm_value *value, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, t != NULL && name != NULL && value != NULL, INVALID_ARGUMENT, "trainer, name or value is NULL");
    const size_t state = find_state(&t->names, name, strlen(name));
    XCVM_CHECK(error, state != SIZE_MAX, INVALID_ARGUMENT, "there is no parameter \"%.100s\" that learns", name);
    return xcvm_session_set_state(t->root.session, state, value, error);
}

void xct_trainer_stop(xct_trainer *t) { atomic_store(&t->stop, true); }

/* ---- Exporting ---- */

static const xcvm_value *learned(void *user, const char *name, size_t length)
{
    const xct_trainer *t = user;
    size_t state = find_state(&t->averages, name, length);
    if (state == SIZE_MAX)
        state = find_state(&t->names, name, length);
    return state != SIZE_MAX ? xcvm_session_get_state(t->root.session, state)
                             : xcc_external_weights_find(t->external, name, length);
}

/* Joins the class names, one per line, in memory that the caller frees. *text is NULL if the model's names stay. */
static xcvm_status join_classes(const xct_trainer *t, char **text, size_t *size, xcvm_error *error)
{
    *text = NULL;
    *size = 1;
    if (!t->new_classes)
        return XCVM_OK;
    for (size_t i = 0; i < t->class_count; i++)
        *size += strlen(t->classes[i]) + 1;
    char *to = *text = xcvm_allocate(t->allocator, *size);
    XCVM_CHECK(error, to != NULL, OUT_OF_MEMORY, "no memory for the names of classes");
    for (size_t i = 0; i < t->class_count; i++) {
        const size_t length = strlen(t->classes[i]);
        if (i > 0)
            *to++ = '\n';
        memcpy(to, t->classes[i], length);
        to += length;
    }
    *to = '\0';
    return XCVM_OK;
}

static xcvm_status export_model(const xct_trainer *t, xcc_replacement *how, xcvm_sink sink, xcvm_error *error)
{
    const char *nested = xcc_external_weights_nested(t->external);
    XCVM_CHECK(error, nested == NULL, UNSUPPORTED,
               "\"%.100s\", a tensor inside a node of the model, lies in another file, and so cannot be put into a new "
               "model. Save the model with all tensors inside first, as onnx.save_model(onnx.load(...), ...) does",
               nested);
    char *classes;
    size_t size;
    how->find = learned;
    how->find_user = (void *)(uintptr_t)t;
    XCVM_TRY(join_classes(t, &classes, &size, error));
    how->class_names = classes;
    how->class_output = t->predictions_output;
    how->edits = t->options.training_form ? NULL : &t->edits;
    const xcvm_status status = xcc_weights_replace(t->model, t->model_count, how, sink, error);
    if (classes != NULL)
        xcvm_deallocate(t->allocator, classes, size);
    if (status == XCVM_OK && how->edits != NULL)
        xcc_node_names_note(&how->edits->names, &t->compile, XCC_DIAGNOSTIC_INFERENCE_FORM, "in inference form now");
    return status;
}

xcvm_status xct_trainer_export_external(const xct_trainer *t, const char *location, xcvm_sink sink, xcvm_sink data,
                                        xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, t != NULL && location != NULL && sink.call != NULL && data.call != NULL, INVALID_ARGUMENT,
               "trainer, location or a sink is NULL");
    xcc_replacement how = {.location = location, .data = data};
    return export_model(t, &how, sink, error);
}

xcvm_status xct_trainer_export(const xct_trainer *t, xcvm_sink sink, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, t != NULL && sink.call != NULL, INVALID_ARGUMENT, "trainer or sink is NULL");
    xcc_replacement how = {.location = NULL};
    return export_model(t, &how, sink, error);
}

/* ---- Data ---- */

xcvm_status xct_dataset_create(const xct_trainer *t, const char *const *paths, size_t path_count,
                               const xct_column *columns, size_t column_count, xct_dataset **dataset, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, t != NULL && dataset != NULL && (paths != NULL || path_count == 0), INVALID_ARGUMENT,
               "trainer, paths or dataset is NULL");
    XCVM_CHECK(error, columns != NULL || column_count == 0, INVALID_ARGUMENT, "columns is NULL");
    const size_t limit = t->options.memory_limit;
    if (limit == 0)
        return xct_dataset_make(&t->feed, paths, path_count, columns, column_count, t->allocator, dataset, error);
    xct_memory *memory;
    XCVM_TRY(xct_memory_create(t->allocator, limit, &memory, error));
    const xcvm_status status =
        xct_dataset_make(&t->feed, paths, path_count, columns, column_count, &memory->allocator, dataset, error);
    if (status != XCVM_OK) {
        xct_memory_name(memory, status, error);
        xct_memory_destroy(memory);
        return status;
    }
    (*dataset)->memory = memory;
    (*dataset)->memory_limit = limit;
    return XCVM_OK;
}
