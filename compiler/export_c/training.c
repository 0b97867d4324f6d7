/* Parts of training programs besides the network, as C: losses, random numbers, optimizers. */
#include "compiler/export_c/export_c.h"

#include "ops/optimizer/factors.h"
#include "ops/random/random.h"

#include <inttypes.h>
#include <string.h>

static const char *suffix_of(const xcvm_value *v) { return xcc_c_suffix((xcvm_dtype)v->dtype); }
static const char *type_of(const xcvm_value *v) { return xcc_c_type((xcvm_dtype)v->dtype); }

/* ---- Losses ---- */

static bool write_class_loss(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_NegativeLogLikelihoodLoss_args *a = step->args;
    static const int reductions[XCVM_LOSS_REDUCTION_COUNT] = {
        [XCVM_LOSS_REDUCTION_none] = 0, [XCVM_LOSS_REDUCTION_sum] = 1, [XCVM_LOSS_REDUCTION_mean] = 2};
    x->fails = true;
    xcc_c_line(x, "        if (xc_class_loss_%s(%s, %s, %d, %s, %s, %lld, %lld, %lld, ", suffix_of(a->x),
               xcc_c_read(x, a->x), xcc_c_read(x, a->target), xcc_c_is(a->target, XCVM_I64), xcc_c_read(x, a->weight),
               xcc_c_write(x, a->y), (long long)a->x->dims[0], (long long)a->x->dims[1],
               (long long)xcc_c_product(a->x->dims, 2, a->x->rank));
    if (a->ignore_index == INT64_MIN)
        xcc_c_line(x, "INT64_MIN");
    else
        xcc_c_line(x, "INT64_C(%" PRId64 ")", a->ignore_index);
    xcc_c_line(x, ", %d))\n            return %zu;\n", reductions[a->reduction], x->pc + 1);
    return true;
}

static bool write_zeros(xcc_c_export *x, xcc_c_step *step)
{
    xcc_c_line(x, "        memset(%s, 0, %zu);\n", xcc_c_write(x, step->out[0]), step->out[0]->bytes);
    return true;
}

/* ---- Random numbers ---- */

/* The generator's state to start from: of the instruction's own seed, or the next of the context's. */
static const char *random_start(xcc_c_export *x, int64_t seed)
{
    if (seed != -1)
        return xcc_c_format(x, "UINT64_C(%" PRIu64 ")", xcvm_random_start(seed, NULL));
    x->draws = true;
    return "xc_random_next(&context->random)";
}

static bool write_drawn(xcc_c_export *x, const xcvm_value *y, int64_t seed, const char *number)
{
    xcc_c_line(x,
               "        %s *const y = %s;\n        uint64_t state = %s;\n"
               "        for (size_t i = 0; i != %zu; i++)\n            y[i] = (%s)(%s);\n",
               type_of(y), xcc_c_write(x, y), random_start(x, seed), xcvm_element_count(y), type_of(y), number);
    return true;
}

static bool write_random_uniform(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_RandomUniform_args *a = step->args;
    return write_drawn(x, a->y, a->seed,
                       xcc_c_format(x, "%s + %s * xc_random_uniform(&state)", xcc_c_number(x, XCVM_F64, a->low),
                                    xcc_c_number(x, XCVM_F64, a->high - a->low)));
}

static bool write_random_normal(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_RandomNormal_args *a = step->args;
    return write_drawn(x, a->y, a->seed,
                       xcc_c_format(x, "%s + %s * xc_random_normal(&state)", xcc_c_number(x, XCVM_F64, a->mean),
                                    xcc_c_number(x, XCVM_F64, a->scale)));
}

static bool write_bernoulli(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Bernoulli_args *a = step->args;
    x->fails = true;
    xcc_c_line(x,
               "        const %s *const p = %s;\n        for (size_t i = 0; i != %zu; i++)\n"
               "            if (!(p[i] >= 0 && p[i] <= 1))\n                return %zu;\n",
               type_of(a->x), xcc_c_read(x, a->x), xcvm_element_count(a->x), x->pc + 1);
    return write_drawn(x, a->y, a->seed, "xc_random_uniform(&state) < (double)p[i]");
}

static bool write_dropout(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Dropout_args *a = step->args;
    const char *const ratio = a->ratio != NULL ? xcc_c_format(x, "(double)(%s)[0]", xcc_c_read(x, a->ratio)) : "0.5";
    const char *const training =
        a->training_mode != NULL ? xcc_c_format(x, "(%s)[0] != 0", xcc_c_read(x, a->training_mode)) : "0";
    if (a->ratio != NULL &&
        (xcvm_element_count(a->ratio) != 1 || (a->training_mode != NULL && xcvm_element_count(a->training_mode) != 1)))
        return xcc_c_refuse(x, "its ratio or training_mode is not one number");
    x->fails = true;
    xcc_c_line(x,
               "        const double ratio = %s;\n        const int training = %s;\n"
               "        if (!(ratio >= 0 && ratio < 1))\n            return %zu;\n"
               "        if (!training || ratio == 0) {\n            memmove(%s, %s, %zu);\n",
               ratio, training, x->pc + 1, xcc_c_write(x, a->y), xcc_c_read(x, a->x), a->y->bytes);
    if (a->mask != NULL)
        xcc_c_line(x, "            memset(%s, 1, %zu);\n", xcc_c_write(x, a->mask), a->mask->bytes);
    xcc_c_line(x,
               "        } else {\n            uint64_t state = %s;\n            xc_drop_%s(&state, %s, %s, %s, %zu, "
               "ratio);\n        }\n",
               random_start(x, a->seed), suffix_of(a->x), xcc_c_read(x, a->x), xcc_c_write(x, a->y),
               xcc_c_write(x, a->mask), xcvm_element_count(a->x));
    return true;
}

/* ---- Optimizers ---- */

/* A row with the operands that all have, and its moments in their order. */
typedef struct optimizer {
    const char *step; /* function of one step */
    xcvm_inputs gradients, parameters, accumulators, averages, moments[3];
    const xcvm_value *rate, *number, *scale, *apply, *valid, *parameter_norms, *gradient_norms;
    double clip, average_decay, trust;
    bool maximize, nesterov, accumulated;
    /* Members of xcvm_step_numbers. Texts may use `rate`, and `number` of the step; NULL means the default. */
    double decay, momentum, kept[2], epsilon;
    const char *rate_of, *taken, *shrink, *root;
} optimizer;

#define OPTIMIZER_OF(a, name)                                                                                          \
    {                                                                                                                  \
        .step = (name), .gradients = (a)->gradients, .parameters = (a)->parameters, .accumulators = (a)->accumulators, \
        .averages = (a)->averages, .rate = (a)->rate, .number = (a)->step, .scale = (a)->scale, .apply = (a)->apply,   \
        .valid = (a)->valid, .clip = (a)->clip, .average_decay = (a)->average_decay, .maximize = (a)->maximize != 0,   \
        .accumulated = (a)->accumulated != 0                                                                           \
    }

static const char *real(xcc_c_export *x, double value) { return xcc_c_number(x, XCVM_F64, value); }

static const char *scalar(xcc_c_export *x, const xcvm_value *v, const char *otherwise)
{
    return v != NULL ? xcc_c_format(x, "(double)(%s)[0]", xcc_c_read(x, v)) : otherwise;
}

/* Address of the elements of a moment of tensor i. */
static const char *kept(xcc_c_export *x, const xcvm_inputs *list, size_t i)
{
    return i < list->count ? xcc_c_write(x, list->at[i]) : "NULL";
}

static const char *text_or(const char *text, const char *usual) { return text != NULL ? text : usual; }

static bool write_optimizer(xcc_c_export *x, const optimizer *o)
{
    if (o->parameters.count == 0)
        return true;
    if (o->accumulated)
        return xcc_c_refuse(x, "gradients that have the accumulators in them are not written");
    xcc_c_line(x,
               "        const double rate = %s, number = %s;\n"
               "        const int apply = %s != 0, valid = %s != 0;\n"
               "        const xcvm_step_numbers t = {.scale = %s * %s, .limit = %s, .average_decay = %s, .rate = %s,\n"
               "                                     .decay = %s, .momentum = %s, .taken = %s, .nesterov = %d,\n"
               "                                     .kept = {%s, %s}, .epsilon = %s, .shrink = %s, .root = %s};\n"
               "        (void)rate;\n        (void)number;\n",
               scalar(x, o->rate, "0"), scalar(x, o->number, "2"), scalar(x, o->apply, "1"), scalar(x, o->valid, "1"),
               scalar(x, o->scale, "1.0"), o->maximize ? "-1.0" : "1.0", real(x, o->clip), real(x, o->average_decay),
               text_or(o->rate_of, "rate"), real(x, o->decay), real(x, o->momentum), text_or(o->taken, "1"),
               o->nesterov, real(x, o->kept[0]), real(x, o->kept[1]), real(x, o->epsilon), text_or(o->shrink, "1"),
               text_or(o->root, "1"));
    const bool product = xcvm_gradients_are_factors(&o->gradients, &o->parameters);
    for (size_t i = 0; i < o->parameters.count; i++) {
        const xcvm_value *p = o->parameters.at[i];
        const xcvm_value *g = o->gradients.at[product ? 2 * i + 1 : i], *left = product ? o->gradients.at[2 * i] : NULL;
        if (g->dtype != p->dtype)
            return xcc_c_refuse(x, "a gradient is of another type than its parameter");
        xcc_c_line(x, "        {\n            const xcvm_step_block all = {%s, {%s, %s, %s}, %s, %s, %s, %zu, ",
                   xcc_c_write(x, p), kept(x, &o->moments[0], i), kept(x, &o->moments[1], i),
                   kept(x, &o->moments[2], i), kept(x, &o->accumulators, i), kept(x, &o->averages, i), xcc_c_read(x, g),
                   xcvm_element_count(p));
        if (o->parameter_norms != NULL)
            xcc_c_line(x, "xc_trust((double)(%s)[%zu], (double)(%s)[%zu], %s, &t)", xcc_c_read(x, o->parameter_norms),
                       i, xcc_c_read(x, o->gradient_norms), i, real(x, o->trust));
        else
            xcc_c_line(x, "1.0");
        if (product)
            xcc_c_line(x, ", %lld, %lld, %lld, 0, %s", (long long)p->dims[1], (long long)p->dims[0],
                       (long long)left->dims[0], xcc_c_read(x, left));
        else
            xcc_c_line(x, ", 0, 0, 0, 0, NULL");
        xcc_c_line(x, "};\n            xc_update_%s(&all, &t, apply, valid, xcvm_%s_%s);\n        }\n", suffix_of(p),
                   o->step, suffix_of(p));
    }
    return true;
}

static bool write_sgd(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_SGD_args *a = step->args;
    optimizer o = OPTIMIZER_OF(a, "sgd");
    o.moments[0] = a->momentum_buffer;
    o.decay = a->weight_decay;
    o.momentum = a->momentum;
    o.taken = xcc_c_format(x, "number == 1 ? 1.0 : %s", real(x, 1.0 - a->dampening));
    o.nesterov = a->nesterov != 0;
    return write_optimizer(x, &o);
}

static bool write_lars(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_LARS_args *a = step->args;
    optimizer o = OPTIMIZER_OF(a, "sgd");
    o.moments[0] = a->momentum_buffer;
    o.parameter_norms = a->parameter_norms;
    o.gradient_norms = a->gradient_norms;
    o.trust = a->trust_coefficient;
    o.decay = a->weight_decay;
    o.momentum = a->momentum;
    o.nesterov = a->nesterov != 0;
    o.epsilon = a->eps;
    return write_optimizer(x, &o);
}

static bool write_rmsprop(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_RMSProp_args *a = step->args;
    optimizer o = OPTIMIZER_OF(a, "rmsprop");
    o.moments[0] = a->square_avg;
    o.moments[1] = a->grad_avg;
    o.moments[2] = a->momentum_buffer;
    o.decay = a->weight_decay;
    o.momentum = a->momentum;
    o.kept[0] = a->alpha;
    o.epsilon = a->eps;
    return write_optimizer(x, &o);
}

static bool write_adagrad(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Adagrad_args *a = step->args;
    optimizer o = OPTIMIZER_OF(a, "adagrad");
    o.moments[0] = a->sum;
    o.rate_of =
        xcc_c_format(x, "rate / (1.0 + %s * %s)", a->step != NULL ? "(number - 1.0)" : "0.0", real(x, a->lr_decay));
    o.decay = a->weight_decay;
    o.epsilon = a->eps;
    return write_optimizer(x, &o);
}

static bool write_adadelta(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Adadelta_args *a = step->args;
    optimizer o = OPTIMIZER_OF(a, "adadelta");
    o.moments[0] = a->square_avg;
    o.moments[1] = a->acc_delta;
    o.decay = a->weight_decay;
    o.kept[0] = a->rho;
    o.epsilon = a->eps;
    return write_optimizer(x, &o);
}

static bool write_adam(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Adam_args *a = step->args;
    const char *const count = a->step != NULL ? "number" : "1.0";
    optimizer o = OPTIMIZER_OF(a, "adam");
    o.moments[0] = a->exp_avg;
    o.moments[1] = a->exp_avg_sq;
    o.moments[2] = a->max_exp_avg_sq;
    o.rate_of = xcc_c_format(x, "rate / (1.0 - pow(%s, %s))", real(x, a->beta1), count);
    o.decay = a->decoupled ? 0.0 : a->weight_decay;
    o.shrink = xcc_c_format(x, "1.0 - rate * %s", real(x, a->decoupled ? a->weight_decay : 0.0));
    o.kept[0] = a->beta1;
    o.kept[1] = a->beta2;
    o.epsilon = a->eps;
    o.root = xcc_c_format(x, "sqrt(1.0 - pow(%s, %s))", real(x, a->beta2), count);
    return write_optimizer(x, &o);
}

static bool write_lion(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Lion_args *a = step->args;
    optimizer o = OPTIMIZER_OF(a, "lion");
    o.moments[0] = a->exp_avg;
    o.shrink = xcc_c_format(x, "1.0 - rate * %s", real(x, a->weight_decay));
    o.kept[0] = a->beta1;
    o.kept[1] = a->beta2;
    return write_optimizer(x, &o);
}

static bool write_global_norm(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_GlobalNorm_args *a = step->args;
    const bool each = a->each != 0;
    xcc_c_line(x, "        float *const y = %s;\n        double sum = 0;\n", xcc_c_write(x, a->y));
    for (size_t i = 0; i < a->xs.count; i++) {
        xcc_c_line(x, "        sum %s xc_squares_%s(%s, %s, %zu);\n", each ? "=" : "+=", suffix_of(a->xs.at[i]),
                   xcc_c_read(x, a->xs.at[i]), xcc_c_read(x, a->summands.count > 0 ? a->summands.at[i] : NULL),
                   xcvm_element_count(a->xs.at[i]));
        if (each)
            xcc_c_line(x, "        y[%zu] = (float)sqrt(sum);\n", i);
    }
    if (!each)
        xcc_c_line(x, "        y[0] = (float)sqrt(sum);\n");
    return true;
}

static const xcc_c_row rows[] = {{XCVM_OP_NegativeLogLikelihoodLoss, write_class_loss},
                                 {XCVM_OP_ZerosLike, write_zeros},
                                 {XCVM_OP_RandomUniform, write_random_uniform},
                                 {XCVM_OP_RandomNormal, write_random_normal},
                                 {XCVM_OP_Bernoulli, write_bernoulli},
                                 {XCVM_OP_Dropout, write_dropout},
                                 {XCVM_OP_SGD, write_sgd},
                                 {XCVM_OP_LARS, write_lars},
                                 {XCVM_OP_RMSProp, write_rmsprop},
                                 {XCVM_OP_Adagrad, write_adagrad},
                                 {XCVM_OP_Adadelta, write_adadelta},
                                 {XCVM_OP_Adam, write_adam},
                                 {XCVM_OP_Lion, write_lion},
                                 {XCVM_OP_GlobalNorm, write_global_norm}};
const xcc_c_rows xcc_c_training_rows = {rows, sizeof rows / sizeof *rows};
