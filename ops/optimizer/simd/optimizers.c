/* Optimizers. One loop processes the blocks of all parameters of an instruction, so that many small ones need one pass
 * over memory and are distributed evenly. Half-precision parameters are updated in f32, from their f32 masters if there
 * are any. Formulas and names follow torch.optim 1.13. LARS: You, Gitman and Ginsburg, "Large Batch Training of
 * Convolutional Networks" (2017), with SGD's momentum. Lion: Chen et al., "Symbolic Discovery of Optimization
 * Algorithms" (2023). */
#include "ops/optimizer/factors.h"
#include "ops/optimizer/simd/blocks.h"
#include "ops/optimizer/simd/outer.h"
#include "ops/optimizer/simd/step_numbers.h"
#include "ops/simd/halves.h"
#include "ops/simd/math.h"

#include "ops/util/shape.h"

/* Updates are limited by memory bandwidth, and parameters in one core's cache must move to another's. So a range must
 * take several times as long as that. */
enum { BLOCKS_A_RANGE = 64 };

typedef struct step {
    xcvm_inputs gradients, parameters, masters, accumulators, averages, moments[XCVM_STEP_MOMENTS];
    bool products;    /* gradients are two factors each */
    bool plain;       /* a step is the rate times the gradient, without moments, masters and so on */
    bool apply;       /* if false, gradients are only added to accumulators, if any */
    bool valid;       /* if false and `apply`, accumulators are only zeroed */
    bool accumulated; /* if `apply`, gradients already include the accumulators */
    xcvm_step_numbers numbers;
    /* For LARS: f32 norms, one per tensor, which give the factor of its rate together with `trust`; NULL: none. */
    const xcvm_value *parameter_norms, *gradient_norms;
    double trust;
    void (*f32)(float *p, const float *g, float *const m[], size_t n, const xcvm_step_numbers *t);
    void (*f64)(double *p, const double *g, double *const m[], size_t n, const xcvm_step_numbers *t);
} step;

#define xcvm_sgd_value OF_TYPE(sgd)
#define xcvm_rmsprop_value OF_TYPE(rmsprop)
#define xcvm_adagrad_value OF_TYPE(adagrad)
#define xcvm_adadelta_value OF_TYPE(adadelta)
#define xcvm_adam_value OF_TYPE(adam)
#define xcvm_lion_value OF_TYPE(lion)
#define xcvm_add_value OF_TYPE(add)
#define xcvm_average_value OF_TYPE(average)
#define xcvm_prepare_value OF_TYPE(prepare)
#define xcvm_gradients_value OF_TYPE(gradients)
#define xcvm_block_value OF_TYPE(block)
#define value_t float
#define OF_TYPE(name) name##_f32
#define xcvm_root_value sqrtf
#include "ops/optimizer/simd/steps.h"
#undef value_t
#undef OF_TYPE
#undef xcvm_root_value
#define value_t double
#define OF_TYPE(name) name##_f64
#define xcvm_root_value sqrt
#include "ops/optimizer/simd/steps.h"

/* ---- The loop ---- */

/* Element `first` of tensor i of optional state tensors, with `size` bytes per element; NULL if absent. State elements
 * are written by instructions of effect UPDATE. */
static void *kept_at(const xcvm_inputs *kept, size_t i, size_t first, size_t size)
{
    return i < kept->count ? (char *)kept->at[i]->data + first * size : NULL;
}

/* Factor of the rate of tensor i. */
static double ratio_of(const step *s, size_t i)
{
    if (s->parameter_norms == NULL)
        return 1.0;
    const xcvm_step_numbers *t = &s->numbers;
    const double norm = xcvm_element_as_double(s->parameter_norms, i);
    const double divisor = fabs(t->scale) * xcvm_element_as_double(s->gradient_norms, i) + t->decay * norm + t->epsilon;
    return norm > 0.0 && divisor > 0.0 ? s->trust * norm / divisor : 1.0;
}

/* Blocks of one thread. */
typedef struct range {
    const step *step;
    looked_at row;
} range;

/* Sets the gradients from element `first` of tensor i, or the factors that they are computed from. */
static void set_gradients(const step *s, size_t i, size_t first, size_t size, xcvm_step_block *b)
{
    if (!s->products) {
        b->gradients = (const char *)s->gradients.at[i]->data + first * size;
        return;
    }
    const xcvm_value *left = s->gradients.at[2 * i], *right = s->gradients.at[2 * i + 1];
    b->left = left->data;
    b->gradients = right->data;
    b->depth = (size_t)left->dims[0];
    b->rows = (size_t)left->dims[1];
    b->columns = (size_t)right->dims[1];
    b->first = first;
}

/* Loads a block of half-precision parameters; g and p are buffers for it. */
static void load_halves(const step *s, size_t i, size_t first, xcvm_step_block *b, float *g, float *p)
{
    const xcvm_value *parameter = s->parameters.at[i];
    const xcvm_dtype dtype = (xcvm_dtype)parameter->dtype;
    b->gradients = (const float *)s->gradients.at[i]->data + first;
    if (s->gradients.at[i]->dtype != XCVM_F32) {
        xcvm_halves_load(dtype, s->gradients.at[i]->data, first, b->count, g);
        b->gradients = g;
    }
    b->parameters = kept_at(&s->masters, i, first, sizeof(float));
    if (b->parameters == NULL) {
        xcvm_halves_load(dtype, parameter->data, first, b->count, p);
        b->parameters = p;
    }
}

/* Updates the accumulators. */
static void accumulate(const step *s, const xcvm_step_block *b, bool is_f64)
{
    double own[XCVM_STEP_BLOCK];
    if (s->apply)
        memset(b->sums, 0, b->count * (is_f64 ? sizeof(double) : sizeof(float)));
    else if (is_f64)
        add_f64(b->sums, gradients_f64(b, own), b->sums, b->count);
    else
        add_f32(b->sums, gradients_f32(b, (float *)(void *)own), b->sums, b->count);
}

/* Updates one block of tensor i from element `first`. */
static void update_block(void *context, size_t i, size_t first, size_t count, size_t number)
{
    (void)number;
    range *r = context;
    const step *s = r->step;
    float p[XCVM_STEP_BLOCK], g[XCVM_STEP_BLOCK];
    const xcvm_value *parameter = s->parameters.at[i];
    const xcvm_dtype dtype = parameter->dtype;
    const bool is_f64 = dtype == XCVM_F64, is_half = dtype != XCVM_F32 && !is_f64;
    const size_t size = is_f64 ? sizeof(double) : sizeof(float);
    xcvm_step_block b = {.count = count,
                         .sums = kept_at(&s->accumulators, i, first, size),
                         .average = kept_at(&s->averages, i, first, size),
                         .ratio = ratio_of(s, i)};
    for (size_t j = 0; j < XCVM_STEP_MOMENTS; j++)
        b.moments[j] = kept_at(&s->moments[j], i, first, size);
    if (is_half) {
        load_halves(s, i, first, &b, g, p);
    } else {
        set_gradients(s, i, first, size, &b);
        b.parameters = (char *)parameter->data + first * size;
    }
    if (!s->apply || !s->valid) {
        accumulate(s, &b, is_f64);
        return;
    }
    if (s->accumulated && b.sums != NULL) {
        memset(b.sums, 0, count * size);
        b.sums = NULL;
    }
    if (s->plain && dtype == XCVM_F32 && b.depth == 1 && b.columns >= XCVM_LANES)
        descend_outer(parameter->data, &b, (float)s->numbers.rate, &r->row);
    else if (is_f64)
        block_f64(&b, &s->numbers, s->f64);
    else
        block_f32(&b, &s->numbers, s->f32);
    if (is_half)
        xcvm_halves_store(dtype, parameter->data, first, count, b.parameters);
}

static void update_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    range r = {.step = context};
    for_blocks(&r.step->parameters, XCVM_STEP_BLOCK, begin, end, update_block, &r);
}

static xcvm_status run_step(const xcvm_kernel *k, const step *s)
{
    if (s->accumulators.count == 0 && !(s->apply && s->valid))
        return XCVM_OK;
    const size_t blocks = block_count_of_all(&s->parameters, XCVM_STEP_BLOCK);
    if (blocks > 0)
        xcvm_parallel(k->threads, blocks, BLOCKS_A_RANGE, update_range, (void *)s);
    return XCVM_OK;
}

/* ---- The instructions ---- */

static double number_of(const xcvm_value *scalar, double otherwise)
{
    return scalar != NULL ? xcvm_element_as_double(scalar, 0) : otherwise;
}

/* Common fields of all optimizers, and the numbers of the step of `formula`. */
#define STEP_OF(a, formula, ...)                                                                                       \
    {                                                                                                                  \
        .gradients = (a)->gradients, .parameters = (a)->parameters, .masters = (a)->masters,                           \
        .accumulators = (a)->accumulators, .averages = (a)->averages, .apply = number_of((a)->apply, 1.0) != 0.0,      \
        .valid = number_of((a)->valid, 1.0) != 0.0, .accumulated = (a)->accumulated != 0,                              \
        .products = xcvm_gradients_are_factors(&(a)->gradients, &(a)->parameters),                                     \
        .numbers = {.scale = number_of((a)->scale, 1.0) * ((a)->maximize != 0 ? -1.0 : 1.0),                           \
                    .limit = (a)->clip,                                                                                \
                    .average_decay = (a)->average_decay,                                                               \
                    __VA_ARGS__},                                                                                      \
        .f32 = formula##_f32, .f64 = formula##_f64                                                                     \
    }

XCVM_KERNEL(SGD)
{
    /* In the first step the buffer becomes the gradient. */
    const bool first = number_of(a->step, 2.0) == 1.0;
    step s = STEP_OF(a, sgd, .rate = number_of(a->rate, 0.0), .decay = a->weight_decay, .momentum = a->momentum,
                     .taken = first ? 1.0 : 1.0 - a->dampening, .nesterov = (double)a->nesterov);
    s.moments[0] = a->momentum_buffer;
    s.plain = a->momentum_buffer.count == 0 && a->accumulators.count == 0 && a->averages.count == 0 &&
              s.numbers.scale == 1.0 && s.numbers.limit == 0.0 && s.numbers.decay == 0.0;
    return run_step(k, &s);
}

XCVM_KERNEL(LARS)
{
    step s = STEP_OF(a, sgd, .rate = number_of(a->rate, 0.0), .decay = a->weight_decay, .momentum = a->momentum,
                     .taken = 1.0, .nesterov = (double)a->nesterov, .epsilon = a->eps);
    s.parameter_norms = a->parameter_norms;
    s.gradient_norms = a->gradient_norms;
    s.trust = a->trust_coefficient;
    s.moments[0] = a->momentum_buffer;
    return run_step(k, &s);
}

XCVM_KERNEL(RMSProp)
{
    step s = STEP_OF(a, rmsprop, .rate = number_of(a->rate, 0.0), .decay = a->weight_decay, .momentum = a->momentum,
                     .kept = {a->alpha}, .epsilon = a->eps);
    s.moments[0] = a->square_avg;
    s.moments[1] = a->grad_avg;
    s.moments[2] = a->momentum_buffer;
    return run_step(k, &s);
}

XCVM_KERNEL(Adagrad)
{
    const double past = number_of(a->step, 1.0) - 1.0;
    step s = STEP_OF(a, adagrad, .rate = number_of(a->rate, 0.0) / (1.0 + past * a->lr_decay), .decay = a->weight_decay,
                     .epsilon = a->eps);
    s.moments[0] = a->sum;
    return run_step(k, &s);
}

XCVM_KERNEL(Adadelta)
{
    step s = STEP_OF(a, adadelta, .rate = number_of(a->rate, 0.0), .decay = a->weight_decay, .kept = {a->rho},
                     .epsilon = a->eps);
    s.moments[0] = a->square_avg;
    s.moments[1] = a->acc_delta;
    return run_step(k, &s);
}

XCVM_KERNEL(Adam)
{
    const double rate = number_of(a->rate, 0.0), count = number_of(a->step, 1.0);
    const bool decoupled = a->decoupled != 0;
    step s = STEP_OF(a, adam, .rate = rate / (1.0 - pow(a->beta1, count)), .decay = decoupled ? 0.0 : a->weight_decay,
                     .shrink = decoupled ? 1.0 - rate * a->weight_decay : 1.0, .kept = {a->beta1, a->beta2},
                     .epsilon = a->eps, .root = sqrt(1.0 - pow(a->beta2, count)));
    s.moments[0] = a->exp_avg;
    s.moments[1] = a->exp_avg_sq;
    s.moments[2] = a->max_exp_avg_sq;
    return run_step(k, &s);
}

XCVM_KERNEL(Lion)
{
    const double rate = number_of(a->rate, 0.0);
    step s = STEP_OF(a, lion, .rate = rate, .shrink = 1.0 - rate * a->weight_decay, .kept = {a->beta1, a->beta2});
    s.moments[0] = a->exp_avg;
    return run_step(k, &s);
}
