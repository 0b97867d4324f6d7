/* The table of optimizers, and the parser of their texts: "NAME" or "NAME:SETTING=VALUE,...". Names, meanings and
 * defaults are those of torch.optim. The learning rate of sgd has no default there. */
#include "compiler/training/optimizer.h"

#include "base/decimal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- The table ---- */

#define BELOW_ONE 0x1.fffffffffffffp-1
#define NUMBER(name, value, least, most, summary)                                                                      \
    {                                                                                                                  \
        {name, value, summary}, XCC_SETTING_NUMBER, least, most, { name }                                              \
    }
#define PLAIN(name, value, least, most, summary)                                                                       \
    {                                                                                                                  \
        {name, value, summary}, XCC_SETTING_NUMBER, least, most, { NULL }                                              \
    }
#define FLAG(name, summary)                                                                                            \
    {                                                                                                                  \
        {name, "false", summary}, XCC_SETTING_FLAG, 0, 1, { name }                                                     \
    }
#define KEPT(name, summary)                                                                                            \
    {                                                                                                                  \
        {name, "false", summary}, XCC_SETTING_FLAG, 0, 1, { NULL }                                                     \
    }
#define BETAS(value, summary)                                                                                          \
    {                                                                                                                  \
        {"betas", value, summary}, XCC_SETTING_PAIR, 0, BELOW_ONE, { "beta1", "beta2" }                                \
    }
#define RATE(value) PLAIN("lr", value, 0, INFINITY, "learning rate")
#define DECAY(value, summary) NUMBER("weight_decay", value, 0, INFINITY, summary)
#define L2 "L2 penalty: adds this factor times the parameter to the gradient"
#define DECOUPLED "decoupled: subtracts this factor times the learning rate times the parameter"
#define EPSILON(value) NUMBER("eps", value, 0, INFINITY, "added to the denominator for stability")
#define MOMENTUM NUMBER("momentum", "0", 0, INFINITY, "factor of the last step, which is added to the next one")
#define NESTEROV FLAG("nesterov", "Nesterov momentum")
#define MAXIMIZE FLAG("maximize", "maximizes the loss")

#define ADAM_REST                                                                                                      \
    BETAS("0.9/0.999", "decay rates of the means of gradients and of squared gradients"), EPSILON("1e-8"),             \
        KEPT("amsgrad", "divides by the root of the maximum mean square so far"), MAXIMIZE
#define ADAM_MOMENTS                                                                                                   \
    {"exp_avg", NULL, NULL}, {"exp_avg_sq", NULL, NULL}, { "max_exp_avg_sq", "amsgrad", NULL }

static const xcc_optimizer_row rows[] = {
    {{"sgd", "stochastic gradient descent, with momentum"},
     XCVM_OP_SGD,
     false,
     false,
     {RATE("0.01"), DECAY("0", L2), MOMENTUM,
      NUMBER("dampening", "0", -INFINITY, INFINITY, "part of the gradient that momentum ignores"), NESTEROV, MAXIMIZE},
     {{"momentum_buffer", "momentum", NULL}}},
    {{"adam", "mean of gradients divided by the root of their mean square"},
     XCVM_OP_Adam,
     false,
     false,
     {RATE("0.001"), DECAY("0", L2), ADAM_REST},
     {ADAM_MOMENTS}},
    {{"adamw", "adam with decoupled weight decay"},
     XCVM_OP_Adam,
     true,
     false,
     {RATE("0.001"), DECAY("0.01", DECOUPLED), ADAM_REST},
     {ADAM_MOMENTS}},
    {{"rmsprop", "gradients divided by the root of their mean square"},
     XCVM_OP_RMSProp,
     false,
     false,
     {RATE("0.01"), DECAY("0", L2), NUMBER("alpha", "0.99", 0, INFINITY, "decay rate of the mean square"),
      EPSILON("1e-8"), MOMENTUM, KEPT("centered", "subtracts the squared mean from the mean square"), MAXIMIZE},
     {{"square_avg", NULL, NULL}, {"grad_avg", "centered", NULL}, {"momentum_buffer", "momentum", NULL}}},
    {{"adagrad", "gradients divided by the root of the sum of their squares"},
     XCVM_OP_Adagrad,
     false,
     false,
     {RATE("0.01"), DECAY("0", L2), NUMBER("lr_decay", "0", 0, INFINITY, "decay of the learning rate per step"),
      PLAIN("initial_accumulator_value", "0", 0, INFINITY, "initial value of the sums"), EPSILON("1e-10"), MAXIMIZE},
     {{"sum", NULL, "initial_accumulator_value"}}},
    {{"adadelta", "gradients times the root of the mean square of steps divided by that of gradients"},
     XCVM_OP_Adadelta,
     false,
     false,
     {RATE("1"), DECAY("0", L2), NUMBER("rho", "0.9", 0, 1, "decay rate of the mean squares"), EPSILON("1e-6"),
      MAXIMIZE},
     {{"square_avg", NULL, NULL}, {"acc_delta", NULL, NULL}}},
    {{"lars",
      "sgd with a rate per parameter, in proportion to the norm of the parameter divided by that of its gradient"},
     XCVM_OP_LARS,
     false,
     true,
     {RATE("0.1"), DECAY("0", L2), MOMENTUM, NESTEROV,
      NUMBER("trust_coefficient", "0.001", 0, INFINITY, "factor of the ratio of norms"), EPSILON("1e-8"), MAXIMIZE},
     {{"momentum_buffer", "momentum", NULL}}},
    {{"lion", "sign of the mean of gradients"},
     XCVM_OP_Lion,
     false,
     false,
     {RATE("0.0001"), DECAY("0", DECOUPLED),
      BETAS("0.9/0.99", "decay rates of the mean, for the step and for the stored mean"), MAXIMIZE},
     {{"exp_avg", NULL, NULL}}},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

size_t xcc_optimizer_count(void) { return ROW_COUNT; }

const xcc_optimizer_info *xcc_optimizer_at(size_t index) { return index < ROW_COUNT ? &rows[index].info : NULL; }

static bool has_setting(const xcc_optimizer_row *row, size_t i)
{
    return i < XCC_OPTIMIZER_SETTINGS && row->settings[i].info.name != NULL;
}

size_t xcc_optimizer_setting_count(size_t optimizer)
{
    size_t count = 0;
    while (optimizer < ROW_COUNT && has_setting(&rows[optimizer], count))
        count++;
    return count;
}

const xcc_setting_info *xcc_optimizer_setting_at(size_t optimizer, size_t index)
{
    return optimizer < ROW_COUNT && has_setting(&rows[optimizer], index) ? &rows[optimizer].settings[index].info : NULL;
}

/* ---- The language ---- */

/* Parses a number from a range of text, which must be used up. */
static bool read_number(const char *text, size_t length, double *number)
{
    char copy[64];
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return xcvm_decimal_parse(copy, number);
}

static bool is_text(const char *text, size_t length, const char *wanted)
{
    return strlen(wanted) == length && memcmp(text, wanted, length) == 0;
}

static bool read_value(const xcc_setting *s, const char *text, size_t length, double values[2])
{
    if (s->kind == XCC_SETTING_FLAG) {
        const bool yes = is_text(text, length, "true") || is_text(text, length, "1");
        values[0] = yes ? 1.0 : 0.0;
        return yes || is_text(text, length, "false") || is_text(text, length, "0");
    }
    const char *slash = s->kind == XCC_SETTING_PAIR ? memchr(text, '/', length) : text + length;
    if (slash == NULL)
        return false;
    const size_t first = (size_t)(slash - text);
    if (!read_number(text, first, &values[0]) ||
        (first < length && !read_number(slash + 1, length - first - 1, &values[1])))
        return false;
    const int count = s->kind == XCC_SETTING_PAIR ? 2 : 1;
    for (int i = 0; i < count; i++)
        if (!(values[i] >= s->least && values[i] <= s->most) || !isfinite(values[i]))
            return false;
    return true;
}

/* Appends text and truncates at the end of the buffer. */
static void append(char *text, size_t room, const char *separator, const char *name)
{
    const size_t used = strlen(text);
    snprintf(text + used, room - used, "%s%s", used > 0 ? separator : "", name);
}

static xcvm_status unknown_optimizer(const char *name, size_t length, xcvm_error *error)
{
    char known[200] = "";
    for (size_t i = 0; i < ROW_COUNT; i++)
        append(known, sizeof known, ", ", rows[i].info.name);
    return xcvm_error_set(error, XCVM_INVALID_ARGUMENT, "there is no optimizer '%.*s'; there are %s",
                          (int)(length < 64 ? length : 64), name, known);
}

static xcvm_status unknown_setting(const xcc_optimizer_row *row, const char *name, size_t length, xcvm_error *error)
{
    char known[200] = "";
    for (size_t i = 0; has_setting(row, i); i++)
        append(known, sizeof known, ", ", row->settings[i].info.name);
    return xcvm_error_set(error, XCVM_INVALID_ARGUMENT, "%s has no setting '%.*s'; it has %s", row->info.name,
                          (int)(length < 64 ? length : 64), name, known);
}

static xcvm_status wrong_value(const xcc_optimizer_row *row, const xcc_setting *s, const char *text, size_t length,
                               xcvm_error *error)
{
    char range[160] = "true or false", least[XCVM_DECIMAL_TEXT], most[XCVM_DECIMAL_TEXT];
    if (s->kind != XCC_SETTING_FLAG) {
        xcvm_decimal_text(s->least, 6, least);
        xcvm_decimal_text(s->most == BELOW_ONE ? 1.0 : s->most, 6, most);
        snprintf(range, sizeof range, "%s%s%s%s%s",
                 s->kind == XCC_SETTING_PAIR ? "two numbers as 0.9/0.99" : "a number",
                 isfinite(s->least) ? " from " : "", isfinite(s->least) ? least : "",
                 s->most == BELOW_ONE ? " to below "
                 : isfinite(s->most)  ? " to "
                                      : "",
                 isfinite(s->most) ? most : "");
    }
    return xcvm_error_set(error, XCVM_INVALID_ARGUMENT, "%s: %s cannot be '%.*s'; it is %s", row->info.name,
                          s->info.name, (int)(length < 64 ? length : 64), text, range);
}

/* Settings that require another setting. */
static xcvm_status check_settings(const xcc_optimizer_spec *spec, xcvm_error *error)
{
    XCVM_CHECK(error,
               xcc_optimizer_value(spec, "nesterov") == 0.0 ||
                   (xcc_optimizer_value(spec, "momentum") != 0.0 && xcc_optimizer_value(spec, "dampening") == 0.0),
               INVALID_ARGUMENT, "%s: nesterov needs a momentum, and no dampening", spec->row->info.name);
    return XCVM_OK;
}

static xcvm_status read_settings(const char *at, xcc_optimizer_spec *spec, xcvm_error *error)
{
    const xcc_optimizer_row *row = spec->row;
    bool given[XCC_OPTIMIZER_SETTINGS] = {false};
    for (bool more = *at != '\0'; more;) {
        const size_t length = strcspn(at, ","), name = strcspn(at, "=,");
        size_t i = 0;
        XCVM_CHECK(error, name < length, INVALID_ARGUMENT, "%s: '%.*s' is no SETTING=VALUE", row->info.name,
                   (int)(length < 64 ? length : 64), at);
        while (has_setting(row, i) && !is_text(at, name, row->settings[i].info.name))
            i++;
        if (!has_setting(row, i))
            return unknown_setting(row, at, name, error);
        XCVM_CHECK(error, !given[i], INVALID_ARGUMENT, "%s: %s is given twice", row->info.name,
                   row->settings[i].info.name);
        given[i] = true;
        if (!read_value(&row->settings[i], at + name + 1, length - name - 1, spec->values[i]))
            return wrong_value(row, &row->settings[i], at + name + 1, length - name - 1, error);
        more = at[length] == ',';
        at += length + more;
    }
    return check_settings(spec, error);
}

xcvm_status xcc_optimizer_read(const char *text, xcc_optimizer_spec *spec, xcvm_error *error)
{
    const size_t length = strcspn(text, ":");
    size_t row = 0;
    while (row < ROW_COUNT && !is_text(text, length, rows[row].info.name))
        row++;
    if (row == ROW_COUNT)
        return unknown_optimizer(text, length, error);
    *spec = (xcc_optimizer_spec){.row = &rows[row]};
    for (size_t i = 0; has_setting(spec->row, i); i++) {
        const xcc_setting *s = &spec->row->settings[i];
        XCVM_CHECK(error, read_value(s, s->info.value, strlen(s->info.value), spec->values[i]), INTERNAL,
                   "the default of %s is none", s->info.name);
    }
    return read_settings(text + length + (text[length] == ':'), spec, error);
}

xcvm_status xcc_optimizer_rate(const char *train, double *rate, xcvm_error *error)
{
    xcc_optimizer_spec spec;
    XCVM_CHECK(error, train != NULL && rate != NULL, INVALID_ARGUMENT, "%s is NULL", train == NULL ? "train" : "rate");
    XCVM_TRY(xcc_optimizer_read(train, &spec, error));
    *rate = xcc_optimizer_value(&spec, "lr");
    return XCVM_OK;
}

double xcc_optimizer_value(const xcc_optimizer_spec *spec, const char *name)
{
    for (size_t i = 0; has_setting(spec->row, i); i++)
        if (strcmp(spec->row->settings[i].info.name, name) == 0)
            return spec->values[i][0];
    return 0.0;
}

double xcc_optimizer_attribute(const xcc_optimizer_spec *spec, const char *name)
{
    if (strcmp(name, "decoupled") == 0)
        return spec->row->decoupled;
    for (size_t i = 0; has_setting(spec->row, i); i++)
        for (size_t k = 0; k < 2; k++)
            if (spec->row->settings[i].fields[k] != NULL && strcmp(spec->row->settings[i].fields[k], name) == 0)
                return spec->values[i][k];
    return 0.0;
}

bool xcc_optimizer_keeps(const xcc_optimizer_spec *spec, const xcc_moment *moment)
{
    return moment->field != NULL && (moment->setting == NULL || xcc_optimizer_value(spec, moment->setting) != 0.0);
}

double xcc_optimizer_initial(const xcc_optimizer_spec *spec, const xcc_moment *moment)
{
    return moment->initial != NULL ? xcc_optimizer_value(spec, moment->initial) : 0.0;
}

const char *xcc_optimizer_write(const xcc_optimizer_spec *spec, char *text, size_t room)
{
    char number[XCVM_DECIMAL_TEXT], value[2 * XCVM_DECIMAL_TEXT + 80];
    snprintf(text, room, "%s", spec->row->info.name);
    for (size_t i = 0; has_setting(spec->row, i); i++) {
        const xcc_setting *s = &spec->row->settings[i];
        const char *first = s->kind == XCC_SETTING_FLAG ? spec->values[i][0] != 0.0 ? "true" : "false"
                                                        : xcvm_decimal_text(spec->values[i][0], 17, number);
        snprintf(value, sizeof value, "%s=%s", s->info.name, first);
        if (s->kind == XCC_SETTING_PAIR) {
            const size_t used = strlen(value);
            snprintf(value + used, sizeof value - used, "/%s", xcvm_decimal_text(spec->values[i][1], 17, number));
        }
        append(text, room, i == 0 ? ":" : ",", value);
    }
    return text;
}
