/* Shape rules of optimizers. They check everything, because their kernels cannot fail. */
#include "ops/optimizer/factors.h"
#include "ops/util/shape.h"

static xcvm_status check_like(xcvm_error *error, const xcvm_value *v, const xcvm_value *parameter, const char *what,
                              size_t i)
{
    char text[2][200];
    XCVM_CHECK(error, !xcvm_shapes_differ(v, parameter), SHAPE_MISMATCH, "%s %zu is %s, of a parameter that is %s",
               what, i, xcvm_value_describe(v, text[0], sizeof text[0]),
               xcvm_value_describe(parameter, text[1], sizeof text[1]));
    return XCVM_OK;
}

/* Checks a list of one tensor per parameter, or none, of the computation type or, with `or_same`, of the parameters'
 * type. */
static xcvm_status check_list(const xcvm_inference *t, const xcvm_inputs *list, const xcvm_inputs *parameters,
                              const char *what, bool or_same)
{
    XCVM_CHECK(t->error, list->count == 0 || list->count == parameters->count, INVALID_ARGUMENT,
               "there are %zu %s for %zu parameters", list->count, what, parameters->count);
    for (size_t i = 0; i < list->count; i++) {
        const xcvm_value *v = list->at[i], *parameter = parameters->at[i];
        const xcvm_dtype parameter_type = (xcvm_dtype)parameter->dtype;
        const xcvm_dtype computed = parameter_type == XCVM_F64 ? parameter_type : XCVM_F32;
        const xcvm_dtype wanted = or_same ? parameter_type : computed;
        XCVM_CHECK(t->error, v->dtype == wanted || v->dtype == computed, TYPE_MISMATCH,
                   "%s %zu is of type %s, for a parameter of type %s it has to be %s%s%s", what, i,
                   xcvm_dtype_name((xcvm_dtype)v->dtype), xcvm_dtype_name(parameter_type), xcvm_dtype_name(wanted),
                   wanted != computed ? " or " : "", wanted != computed ? xcvm_dtype_name(computed) : "");
        XCVM_TRY(check_like(t->error, v, parameter, what, i));
    }
    return XCVM_OK;
}

/* Checks a gradient that is the product of a transposed and b. */
static xcvm_status check_factors(const xcvm_inference *t, const xcvm_value *a, const xcvm_value *b,
                                 const xcvm_value *parameter, size_t i)
{
    const xcvm_value *const all[] = {parameter, a, b};
    char text[3][200];
    bool fits = true, known = true;
    XCVM_CHECK(t->error, parameter->dtype == XCVM_F32 || parameter->dtype == XCVM_F64, TYPE_MISMATCH,
               "gradient %zu is given as two factors, for a parameter of type %s", i,
               xcvm_dtype_name((xcvm_dtype)parameter->dtype));
    for (size_t j = 0; j < 3; j++) {
        XCVM_CHECK(t->error, all[j]->dtype == parameter->dtype, TYPE_MISMATCH,
                   "factor %s of gradient %zu is of type %s, for a parameter of type %s", j == 1 ? "a" : "b", i,
                   xcvm_dtype_name((xcvm_dtype)all[j]->dtype), xcvm_dtype_name((xcvm_dtype)parameter->dtype));
        fits = fits && (all[j]->rank < 0 || all[j]->rank == 2);
        known = known && all[j]->rank >= 0;
    }
    if (fits && known)
        fits = !xcvm_dims_differ(a->dims[1], parameter->dims[0]) && !xcvm_dims_differ(b->dims[1], parameter->dims[1]) &&
               !xcvm_dims_differ(a->dims[0], b->dims[0]);
    XCVM_CHECK(t->error, fits, SHAPE_MISMATCH, "transpose(a) * b of gradient %zu, of a, %s, and b, %s, is not as %s", i,
               xcvm_value_describe(a, text[0], sizeof text[0]), xcvm_value_describe(b, text[1], sizeof text[1]),
               xcvm_value_describe(parameter, text[2], sizeof text[2]));
    return XCVM_OK;
}

static xcvm_status check_gradients(const xcvm_inference *t, const xcvm_inputs *gradients, const xcvm_inputs *parameters)
{
    const size_t count = parameters->count;
    if (!xcvm_gradients_are_factors(gradients, parameters)) {
        XCVM_CHECK(t->error, gradients->count == count, INVALID_ARGUMENT, "there are %zu gradients for %zu parameters",
                   gradients->count, count);
        return check_list(t, gradients, parameters, "gradients", true);
    }
    for (size_t i = 0; i < count; i++)
        XCVM_TRY(check_factors(t, gradients->at[2 * i], gradients->at[2 * i + 1], parameters->at[i], i));
    return XCVM_OK;
}

/* Common checks: lists with one tensor per parameter, and scalars. */
static xcvm_status check_common(const xcvm_inference *t, const xcvm_inputs *gradients, const xcvm_inputs *parameters,
                                const xcvm_inputs *masters)
{
    XCVM_TRY(check_gradients(t, gradients, parameters));
    for (size_t i = 0; i < t->schema->field_count; i++) {
        const xcvm_field *f = &t->schema->fields[i];
        const void *at = (const char *)t->args + f->offset;
        if (f->role == XCVM_ROLE_IN_STATE && at != parameters)
            XCVM_TRY(check_list(t, at, parameters, f->name, false));
    }
    for (size_t i = 0; i < masters->count; i++)
        XCVM_CHECK(t->error, parameters->at[i]->dtype != XCVM_F32 && parameters->at[i]->dtype != XCVM_F64,
                   TYPE_MISMATCH, "masters are of parameters of half precision, but parameter %zu is of type %s", i,
                   xcvm_dtype_name((xcvm_dtype)parameters->at[i]->dtype));
    return XCVM_OK;
}

static xcvm_status check_scalar(const xcvm_inference *t, const xcvm_value *scalar, const char *what)
{
    bool known;
    return scalar != NULL ? xcvm_scalar_check(t->error, scalar, what, &known) : XCVM_OK;
}

#define CHECK_COMMON(t, a)                                                                                             \
    do {                                                                                                               \
        XCVM_TRY(check_common((t), &(a)->gradients, &(a)->parameters, &(a)->masters));                                 \
        XCVM_TRY(check_scalar((t), (a)->rate, "rate"));                                                                \
        XCVM_TRY(check_scalar((t), (a)->step, "step"));                                                                \
        XCVM_TRY(check_scalar((t), (a)->scale, "scale"));                                                              \
        XCVM_TRY(check_scalar((t), (a)->apply, "apply"));                                                              \
        XCVM_TRY(check_scalar((t), (a)->valid, "valid"));                                                              \
    } while (0)

/* Checks that a required moment exists for each parameter. */
static xcvm_status need(const xcvm_inference *t, const xcvm_inputs *moment, const xcvm_inputs *parameters,
                        const char *what)
{
    XCVM_CHECK(t->error, moment->count == parameters->count, INVALID_ARGUMENT, "there are %zu %s for %zu parameters",
               moment->count, what, parameters->count);
    return XCVM_OK;
}

static xcvm_status need_buffer(const xcvm_inference *t, const xcvm_inputs *buffer, const xcvm_inputs *parameters,
                               double momentum)
{
    return momentum != 0.0 ? need(t, buffer, parameters, "momentum_buffer") : XCVM_OK;
}

static xcvm_status need_norms(const xcvm_inference *t, const xcvm_value *norms, const xcvm_inputs *parameters,
                              const char *what)
{
    char text[200];
    XCVM_CHECK(t->error,
               norms->rank < 0 || (norms->rank == 1 && !xcvm_dims_differ(norms->dims[0], (int64_t)parameters->count)),
               SHAPE_MISMATCH, "%s has the wrong number of values (%s; expected one for each of %zu parameters)", what,
               xcvm_value_describe(norms, text, sizeof text), parameters->count);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(SGD)
{
    CHECK_COMMON(t, a);
    return need_buffer(t, &a->momentum_buffer, &a->parameters, a->momentum);
}

XCVM_SHAPE_RULE_OF(LARS)
{
    CHECK_COMMON(t, a);
    XCVM_TRY(need_norms(t, a->parameter_norms, &a->parameters, "parameter_norms"));
    XCVM_TRY(need_norms(t, a->gradient_norms, &a->parameters, "gradient_norms"));
    return need_buffer(t, &a->momentum_buffer, &a->parameters, a->momentum);
}

XCVM_SHAPE_RULE_OF(RMSProp)
{
    CHECK_COMMON(t, a);
    XCVM_TRY(need(t, &a->square_avg, &a->parameters, "square_avg"));
    return need_buffer(t, &a->momentum_buffer, &a->parameters, a->momentum);
}

XCVM_SHAPE_RULE_OF(Adagrad)
{
    CHECK_COMMON(t, a);
    return need(t, &a->sum, &a->parameters, "sum");
}

XCVM_SHAPE_RULE_OF(Adadelta)
{
    CHECK_COMMON(t, a);
    XCVM_TRY(need(t, &a->square_avg, &a->parameters, "square_avg"));
    return need(t, &a->acc_delta, &a->parameters, "acc_delta");
}

XCVM_SHAPE_RULE_OF(Adam)
{
    CHECK_COMMON(t, a);
    XCVM_TRY(need(t, &a->exp_avg, &a->parameters, "exp_avg"));
    return need(t, &a->exp_avg_sq, &a->parameters, "exp_avg_sq");
}

XCVM_SHAPE_RULE_OF(Lion)
{
    CHECK_COMMON(t, a);
    return need(t, &a->exp_avg, &a->parameters, "exp_avg");
}

XCVM_SHAPE_RULE_OF(GlobalNorm)
{
    const int64_t count = (int64_t)a->xs.count;
    XCVM_CHECK(t->error, a->summands.count == 0 || a->summands.count == a->xs.count, INVALID_ARGUMENT,
               "there are %zu summands for %zu tensors", a->summands.count, a->xs.count);
    XCVM_TRY(check_list(t, &a->summands, &a->xs, "summands", false));
    xcvm_value_set_tensor(a->y, XCVM_F32, a->each != 0, &count);
    return XCVM_OK;
}
