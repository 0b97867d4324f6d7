/* Engines: programs of the model for certain batch sizes, compiled on demand. */
#include "train/trainer.h"

#include "base/array.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_DIMS = 64 };

static const char rate_name[] = "learning_rate", apply_name[] = "apply", norm_name[] = "gradient_norm",
                  loss_name[] = "loss", optimizer_prefix[] = "optimizer@", average_suffix[] = ".average";

bool xct_is_optimizers(const char *name) { return strncmp(name, optimizer_prefix, sizeof optimizer_prefix - 1) == 0; }

size_t xct_averaged(const char *state, const char **parameter)
{
    const size_t length = strlen(state), prefix = sizeof optimizer_prefix - 1, suffix = sizeof average_suffix - 1;
    *parameter = state + prefix;
    const bool found =
        xct_is_optimizers(state) && length > prefix + suffix && strcmp(state + length - suffix, average_suffix) == 0;
    return found ? length - prefix - suffix : 0;
}

/* ---- Inputs and outputs ---- */

static size_t find_input(const xcvm_program *program, const char *name)
{
    for (size_t i = 0; i < xcvm_program_input_count(program); i++)
        if (strcmp(xcvm_program_input_at(program, i)->name, name) == 0)
            return i;
    return SIZE_MAX;
}

static size_t find_output(const xcvm_program *program, const char *name, size_t length)
{
    for (size_t i = 0; i < xcvm_program_output_count(program); i++) {
        const char *own = xcvm_program_output_at(program, i)->name;
        if (strlen(own) == length && memcmp(own, name, length) == 0)
            return i;
    }
    return SIZE_MAX;
}

static bool is_number(const xcvm_type *type)
{
    for (int i = 0; i < type->rank; i++)
        if (type->dims[i] != 1)
            return false;
    return type->rank >= 0;
}

static const char *output_name(const xcvm_program *p, size_t output)
{
    return output != SIZE_MAX ? xcvm_program_output_at(p, output)->name : NULL;
}

/* Finds the first float output except the loss that is one number, or is not; SIZE_MAX if there is none. */
static size_t find_float(const xcvm_program *p, size_t loss, bool number)
{
    for (size_t i = 0; i < xcvm_program_output_count(p); i++) {
        const xcvm_value_info *output = xcvm_program_output_at(p, i);
        if (i != loss && strcmp(output->name, norm_name) != 0 && output->type.kind == XCVM_KIND_TENSOR &&
            xcvm_dtype_is_float(output->type.dtype) && is_number(&output->type) == number)
            return i;
    }
    return SIZE_MAX;
}

/* Finds the loss, by name or as the only output of one number, and the predictions that it is computed from. The
 * program for any sizes decides, since a program for one example may have predictions of one number. */
static xcvm_status find_roles(xct_trainer *t, const xcvm_program *p, xcvm_error *error)
{
    const char *text = t->compile.loss, *parenthesis = text != NULL ? strchr(text, '(') : NULL;
    size_t loss = text != NULL ? find_output(p, text, strlen(text)) : SIZE_MAX, predictions = SIZE_MAX;
    const bool added = text != NULL && loss == SIZE_MAX;
    if (added)
        loss = find_output(p, loss_name, sizeof loss_name - 1);
    if (loss == SIZE_MAX)
        loss = find_float(p, SIZE_MAX, true);
    XCVM_CHECK(error, loss != SIZE_MAX, INVALID_MODEL, "the model has no output that is a loss, one number");
    if (added && parenthesis != NULL)
        predictions = find_output(p, parenthesis + 1, strcspn(parenthesis + 1, ",)"));
    if (predictions == SIZE_MAX)
        predictions = find_float(p, loss, false);
    if (predictions == SIZE_MAX)
        predictions = find_float(p, loss, true);
    const char *names[] = {output_name(p, loss), output_name(p, predictions)};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] != NULL && (names[i] = xcvm_arena_string(&t->arena, names[i], strlen(names[i]))) == NULL)
            return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for a trainer");
    t->loss_output = names[0];
    t->predictions_output = names[1];
    return XCVM_OK;
}

static void find_outputs(const xct_trainer *t, xct_engine *e)
{
    const xcvm_program *p = e->program;
    e->norm = find_output(p, norm_name, sizeof norm_name - 1);
    e->loss = find_output(p, t->loss_output, strlen(t->loss_output));
    e->predictions =
        t->predictions_output != NULL ? find_output(p, t->predictions_output, strlen(t->predictions_output)) : SIZE_MAX;
    e->loss_pc = -1;
    for (size_t pc = 0; pc < p->image.instruction_count && e->loss != SIZE_MAX; pc++)
        if (p->steps[pc].action == XCVM_ACTION_OUT && p->steps[pc].target == (int32_t)e->loss)
            e->loss_pc = (int32_t)pc;
}

static xcvm_status find_edges(xct_trainer *t, xct_engine *e, xcvm_error *error)
{
    if (t->loss_output == NULL)
        XCVM_TRY(find_roles(t, e->program, error));
    e->rate = find_input(e->program, rate_name);
    e->apply = find_input(e->program, apply_name);
    find_outputs(t, e);
    XCVM_CHECK(error, e->loss != SIZE_MAX, INVALID_MODEL, "the model has no output that is a loss, one number");
    if (t->feed.inputs == NULL)
        return XCVM_OK;
    e->inputs = xcvm_allocate(t->allocator, t->feed.count * sizeof *e->inputs);
    XCVM_CHECK(error, e->inputs != NULL, OUT_OF_MEMORY, "no memory for a program");
    for (size_t i = 0; i < t->feed.count; i++) {
        e->inputs[i] = find_input(e->program, t->feed.inputs[i].name);
        XCVM_CHECK(error, e->inputs[i] != SIZE_MAX, INTERNAL, "the program has no input \"%s\"",
                   t->feed.inputs[i].name);
    }
    return XCVM_OK;
}

/* ---- Compiling ---- */

static xcvm_status compile(xct_trainer *t, xct_engine *e, const xcc_options *options, xcc_report *report,
                           xcvm_error *error)
{
    e->bytes.allocator = t->allocator;
    const xcvm_status status =
        t->path != NULL
            ? xcc_compile_file(t->path, options, (xcvm_sink){xcvm_bytes_sink, &e->bytes}, report, error)
            : xcc_compile(t->model, t->model_count, options, (xcvm_sink){xcvm_bytes_sink, &e->bytes}, report, error);
    XCVM_CHECK(error, !e->bytes.failed, OUT_OF_MEMORY, "no memory for the program");
    return status;
}

/* The purpose of a program. */
typedef enum purpose {
    LEARN_ANY, /* training on batches of any size, for which recomputation cannot be planned */
    LEARN,
    JUDGE
} purpose;

static xcvm_status make_program(xct_trainer *t, xct_engine *e, purpose what, const xcc_dim *dims, size_t dim_count,
                                xcvm_error *error)
{
    xcc_options options = t->compile;
    options.dims = dims;
    options.dim_count = dim_count;
    options.training.evaluate = what == JUDGE;
    /* Measurements of validation are summed after the last batch. */
    options.training.all_reduce = what != JUDGE && t->options.ranks > 1;
    /* Notes are the same for all programs, so only the first one reports them. */
    if (what != LEARN_ANY)
        options.diagnostics.call = NULL;
    if (what != LEARN) {
        options.recompute.method = NULL;
        options.recompute.memory_budget = 0;
    }
    xcc_report report = {.size = sizeof report};
    XCVM_TRY(compile(t, e, &options, &report, error));
    if (options.recompute.method != NULL && t->options.planned.call != NULL)
        t->options.planned.call(t->options.planned.user, &report);
    const xcvm_load_options load = {.size = sizeof load, .allocator = t->allocator};
    return xcvm_program_load(e->bytes.at, e->bytes.count, &load, &e->program, error);
}

static xcvm_status make_session(const xct_trainer *t, xct_engine *e, xcvm_error *error)
{
    const xcvm_session_options session = {.size = sizeof session,
                                          .allocator = t->allocator,
                                          .threads = t->options.threads,
                                          .memory_limit = t->options.memory_limit,
                                          .seed = t->options.seed,
                                          .states_of = t->root.session,
                                          .all_reduce.sum = t->options.all_reduce.sum,
                                          .all_reduce.user = t->options.all_reduce.user,
                                          .all_reduce.begin = t->options.all_reduce.begin,
                                          .all_reduce.end = t->options.all_reduce.end,
                                          .all_reduce.abandon = t->options.all_reduce.abandon,
                                          .all_reduce.allocator = t->options.all_reduce.allocator};
    const xcvm_status status = xcvm_session_create(e->program, &session, &e->session, error);
    if (status == XCVM_OUT_OF_MEMORY)
        xcvm_error_prefix(error, "a step does not fit into memory; a smaller batch may");
    if (status == XCVM_OK)
        e->session->cancelled_by = t->compile.cancelled;
    return status;
}

void xct_engine_release(xct_trainer *t, xct_engine *e)
{
    xcvm_session_destroy(e->session);
    xcvm_program_destroy(e->program);
    xcvm_bytes_release(&e->bytes);
    xcvm_deallocate(t->allocator, e->inputs, t->feed.count * sizeof *e->inputs);
    xcvm_deallocate(t->allocator, e->sizes, t->feed.count * XCVM_MAX_RANK * sizeof *e->sizes);
    *e = (xct_engine){.program = NULL};
}

/* ---- The root ---- */

/* Lists the inputs of a batch: all except those that training adds. */
static xcvm_status take_feed(xct_trainer *t, xcvm_error *error)
{
    const xcvm_program *p = t->root.program;
    const size_t count = xcvm_program_input_count(p);
    xcvm_value_info *inputs = xcvm_arena_allocate(&t->arena, (count + 1) * sizeof *inputs);
    XCVM_CHECK(error, inputs != NULL, OUT_OF_MEMORY, "no memory for a trainer");
    t->fixed = true;
    for (size_t i = 0; i < count; i++) {
        if (i == t->root.rate || i == t->root.apply)
            continue;
        const xcvm_value_info *input = xcvm_program_input_at(p, i);
        inputs[t->feed.count++] = *input;
        for (int d = 0; d < input->type.rank; d++)
            t->fixed &= input->type.dims[d] >= 0;
        t->fixed &= input->type.rank >= 0;
    }
    t->feed.inputs = inputs;
    return XCVM_OK;
}

xcvm_status xct_engine_begin(xct_trainer *t, xcvm_error *error)
{
    XCVM_TRY(make_program(t, &t->root, LEARN_ANY, t->compile.dims, t->compile.dim_count, error));
    XCVM_TRY(find_edges(t, &t->root, error));
    XCVM_TRY(take_feed(t, error));
    if (t->fixed && t->compile.recompute.method != NULL) {
        t->feed = (xct_feed){.inputs = NULL};
        xct_engine_release(t, &t->root);
        XCVM_TRY(make_program(t, &t->root, LEARN, t->compile.dims, t->compile.dim_count, error));
        XCVM_TRY(find_edges(t, &t->root, error));
        XCVM_TRY(take_feed(t, error));
    }
    XCVM_TRY(find_edges(t, &t->root, error));
    return make_session(t, &t->root, error);
}

/* ---- By sizes ---- */

static bool same_sizes(const xct_trainer *t, const xct_engine *e, const xcvm_value *const *batch)
{
    if (e->program == NULL || e->sizes == NULL)
        return false;
    for (size_t i = 0; i < t->feed.count; i++)
        if (memcmp(e->sizes + i * XCVM_MAX_RANK, batch[i]->dims, (size_t)batch[i]->rank * sizeof(int64_t)) != 0)
            return false;
    return true;
}

static xcvm_status keep_sizes(const xct_trainer *t, xct_engine *e, const xcvm_value *const *batch, xcvm_error *error)
{
    e->sizes = xcvm_allocate_zeroed(t->allocator, t->feed.count * XCVM_MAX_RANK * sizeof *e->sizes);
    XCVM_CHECK(error, e->sizes != NULL, OUT_OF_MEMORY, "no memory for a program");
    for (size_t i = 0; i < t->feed.count; i++)
        memcpy(e->sizes + i * XCVM_MAX_RANK, batch[i]->dims, (size_t)batch[i]->rank * sizeof(int64_t));
    return XCVM_OK;
}

static xcvm_status check_ranks(const xct_trainer *t, const xcvm_value *const *batch, xcvm_error *error)
{
    for (size_t i = 0; i < t->feed.count; i++) {
        const xcvm_value_info *input = &t->feed.inputs[i];
        XCVM_CHECK(error, batch[i] != NULL && batch[i]->kind == XCVM_KIND_TENSOR, INVALID_ARGUMENT,
                   "input \"%s\" of the batch is no tensor", input->name);
        XCVM_CHECK(error, input->type.rank < 0 || batch[i]->rank == input->type.rank, SHAPE_MISMATCH,
                   "input \"%s\" of the batch has %d axes, not %d", input->name, batch[i]->rank, input->type.rank);
    }
    return XCVM_OK;
}

/* Lists the given dimensions, then the named dimensions with their sizes in a batch. */
static size_t name_sizes(const xct_trainer *t, const xcvm_value *const *batch, xcc_dim *dims)
{
    size_t count = 0;
    for (; count < t->compile.dim_count && count < MAX_DIMS; count++)
        dims[count] = t->compile.dims[count];
    for (size_t i = 0; i < t->feed.count; i++)
        for (int d = 0; d < t->feed.inputs[i].type.rank; d++) {
            const char *name = t->feed.inputs[i].type.dim_names[d];
            bool known = name == NULL || t->feed.inputs[i].type.dims[d] >= 0 || count == MAX_DIMS;
            for (size_t k = 0; k < count && !known; k++)
                known = strcmp(dims[k].name, name) == 0;
            if (!known)
                dims[count++] = (xcc_dim){name, batch[i]->dims[d]};
        }
    return count;
}

xcvm_status xct_engine_find(xct_trainer *t, bool judge, const xcvm_value *const *batch, xct_engine **engine,
                            xcvm_error *error)
{
    xct_engine *engines = judge ? t->judge : t->learn, *oldest = &engines[0];
    XCVM_TRY(check_ranks(t, batch, error));
    *engine = &t->root;
    if (t->fixed && !judge)
        return XCVM_OK;
    for (size_t i = 0; i < XCT_ENGINES; i++) {
        if (same_sizes(t, &engines[i], batch)) {
            engines[i].used = ++t->clock;
            *engine = &engines[i];
            return XCVM_OK;
        }
        if (oldest->program != NULL && (engines[i].program == NULL || engines[i].used < oldest->used))
            oldest = &engines[i];
    }
    xct_engine_release(t, oldest);
    xcc_dim dims[MAX_DIMS];
    const size_t count = name_sizes(t, batch, dims);
    xcvm_status status = make_program(t, oldest, judge ? JUDGE : LEARN, dims, count, error);
    if (status == XCVM_OK)
        status = find_edges(t, oldest, error);
    if (status == XCVM_OK)
        status = make_session(t, oldest, error);
    if (status == XCVM_OK)
        status = keep_sizes(t, oldest, batch, error);
    if (status != XCVM_OK) {
        xct_engine_release(t, oldest);
        return status;
    }
    oldest->used = ++t->clock;
    *engine = oldest;
    return XCVM_OK;
}
