/* Processes compare options and data as numbers: if all agree, the sum is the number times the count of processes. */
#include "train/agreement.h"

#include "base/hash.h"

#include <string.h>

/* The properties to compare. Errors name the first one that differs. */
#define COMPARED(X)                                                                                                    \
    X(EXAMPLES, "examples", FILES)                                                                                     \
    X(HELD_EXAMPLES, "examples for validation", FILES)                                                                 \
    X(STEP, "checkpoints to resume from", FILES)                                                                       \
    X(PLACE, "checkpoints to resume from", FILES)                                                                      \
    X(BATCH, "batches", OPTIONS)                                                                                       \
    X(STEPS, "numbers of steps", OPTIONS)                                                                              \
    X(OPTIMIZER, "optimizer", OPTIONS)                                                                                 \
    X(LOSS, "loss", OPTIONS)                                                                                           \
    X(ROUNDING, "rounding of weights and activations, or normalization of batches", OPTIONS)                           \
    X(TRAINABLE, "parameters that learn", OPTIONS)                                                                     \
    X(GRADIENTS, "clipping, accumulation, averages or loss scale", OPTIONS)                                            \
    X(SCHEDULE, "schedule", OPTIONS)                                                                                   \
    X(ORDER, "seed or order of examples", OPTIONS)                                                                     \
    X(METRICS, "metrics", OPTIONS)                                                                                     \
    X(WEIGHTS, "weights to begin with", FILES)
#define NUMBER(name, what, kind) name,
enum { COMPARED(NUMBER) COUNT };
#undef NUMBER

/* A hash without a random key, so that it is equal in all processes. */
typedef struct digest {
    uint64_t hash;
} digest;

static void add_bytes(digest *d, const void *bytes, size_t count)
{
    const xcvm_hash_key key = {{d->hash, count}};
    d->hash = xcvm_hash(&key, bytes, count);
}

static void add_text(digest *d, const char *text)
{
    add_bytes(d, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

static void add_number(digest *d, double number) { add_bytes(d, &number, sizeof number); }

/* Keeps as many bits as a sum over all processes represents exactly. */
static double number_of(const digest *d) { return (double)(d->hash & UINT32_MAX); }

static double hash_of_loss(const xct_trainer *t)
{
    digest d = {0};
    add_text(&d, t->compile.loss);
    add_text(&d, t->options.label);
    return number_of(&d);
}

/* The options that change how the model computes in training. */
static double hash_of_rounding(const xct_trainer *t)
{
    digest d = {0};
    add_number(&d, t->compile.training.train_batch_normalization);
    add_number(&d, t->compile.gradients.straight_through);
    add_number(&d, t->compile.training.local_batch_normalization);
    return number_of(&d);
}

static double hash_of_text(const char *text)
{
    digest d = {0};
    add_text(&d, text);
    return number_of(&d);
}

static double hash_of_trainable(const xcc_options *o)
{
    digest d = {0};
    for (size_t i = 0; i < o->gradients.wrt_count; i++)
        add_text(&d, o->gradients.wrt[i]);
    for (size_t i = 0; i < o->training.group_count; i++) {
        const xcc_training_group *g = &o->training.groups[i];
        add_text(&d, g->pattern);
        add_number(&d, g->rate);
        add_number(&d, g->own_decay);
        add_number(&d, g->own_decay ? g->weight_decay : 0);
    }
    return number_of(&d);
}

static double hash_of_gradients(const xcc_options *c, const xct_fit_options *o)
{
    const double numbers[] = {c->training.clip_norm, c->training.clip_value, c->training.accumulate,
                              c->training.average,   c->training.loss_scale, (double)o->accumulate};
    digest d = {0};
    add_bytes(&d, numbers, sizeof numbers);
    return number_of(&d);
}

static double hash_of_schedule(const xct_fit_options *o)
{
    digest d = {0};
    add_text(&d, o->schedule);
    add_number(&d, (double)o->patience);
    add_number(&d, (double)o->weights);
    return number_of(&d);
}

static double hash_of_order(const xct_trainer *t, const xct_fit_options *o)
{
    digest d = {0};
    add_bytes(&d, &t->options.seed, sizeof t->options.seed);
    add_number(&d, o->no_shuffle);
    add_number(&d, o->overfit_batch);
    return number_of(&d);
}

static double hash_of_metrics(const xct_trainer *t)
{
    digest d = {0};
    for (size_t i = 0; i < t->metric_count; i++)
        add_bytes(&d, &t->metrics[i], sizeof t->metrics[i]);
    return number_of(&d);
}

static double hash_of_weights(const xct_trainer *t)
{
    digest d = {0};
    const char *name;
    const xcvm_value *v;
    for (size_t i = 0; (v = xct_trainer_parameter_at(t, i, &name)) != NULL; i++) {
        add_text(&d, name);
        add_bytes(&d, v->data, v->bytes);
    }
    return number_of(&d);
}

xcvm_status xct_agree(const xct_trainer *t, const xct_fit_options *o, const xct_workload *load, xcvm_error *error)
{
#define WHAT(name, what, kind) [name] = what,
#define FILES true
#define OPTIONS false
#define FROM_FILES(name, what, kind) [name] = kind,
    static const char *const what[] = {COMPARED(WHAT)};
    static const bool of_files[] = {COMPARED(FROM_FILES)};
#undef WHAT
#undef FILES
#undef OPTIONS
#undef FROM_FILES
    const double ranks = (double)t->options.ranks;
    const double own[COUNT] = {[EXAMPLES] = (double)load->examples,
                               [HELD_EXAMPLES] = (double)load->held_examples,
                               [BATCH] = (double)load->batch,
                               [STEPS] = (double)load->steps,
                               [STEP] = (double)t->position.step,
                               [PLACE] = (double)t->position.place,
                               [OPTIMIZER] = hash_of_text(t->compile.train),
                               [LOSS] = hash_of_loss(t),
                               [ROUNDING] = hash_of_rounding(t),
                               [TRAINABLE] = hash_of_trainable(&t->compile),
                               [GRADIENTS] = hash_of_gradients(&t->compile, o),
                               [SCHEDULE] = hash_of_schedule(o),
                               [ORDER] = hash_of_order(t, o),
                               [METRICS] = hash_of_metrics(t),
                               [WEIGHTS] = hash_of_weights(t)};
    double all[COUNT];
    memcpy(all, own, sizeof all);
    XCVM_TRY(t->options.all_reduce.sum(t->options.all_reduce.user, XCVM_F64, all, COUNT, error));
    for (size_t i = 0; i < COUNT; i++)
        XCVM_CHECK(error, own[i] * ranks == all[i], INVALID_ARGUMENT,
                   "the processes do not have the same %s: all must %s", what[i],
                   of_files[i] ? "see the same files" : "be given the same options");
    return XCVM_OK;
}
