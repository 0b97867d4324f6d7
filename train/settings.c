/* Settings as text. */
#include "train/settings.h"

#include "base/decimal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void append(char *text, size_t size, const char *name)
{
    const size_t length = strlen(text);
    (void)snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "", name);
}

static xcvm_status find_kind(const char *name, size_t length, const char *what, const xct_kind *kinds, size_t count,
                             size_t *kind, xcvm_error *error)
{
    char names[300] = "";
    for (*kind = 0; *kind < count; ++*kind) {
        if (strlen(kinds[*kind].name) == length && memcmp(kinds[*kind].name, name, length) == 0)
            return XCVM_OK;
        append(names, sizeof names, kinds[*kind].name);
    }
    XCVM_FAIL(error, INVALID_ARGUMENT, "there is no %s \"%.*s\"; there is: %s", what, (int)(length < 60 ? length : 60),
              name, names);
}

static bool parse_value(const char *text, size_t length, const xct_setting *setting, const xct_span *span,
                        double *value)
{
    char digits[64];
    double unit = 1;
    if (length == 0 || length >= sizeof digits)
        return false;
    if (setting->unit == XCT_STEPS && (text[length - 1] == 'e' || text[length - 1] == '%'))
        unit = text[--length] == 'e' ? span->epoch : span->all / 100;
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (!xcvm_decimal_parse(digits, value) || !isfinite(*value))
        return false;
    *value *= unit;
    return setting->unit == XCT_STEPS ? *value >= 0 : *value >= setting->min && *value <= setting->max;
}

static void write_range(char *text, size_t size, const xct_setting *setting)
{
    if (setting->unit == XCT_STEPS)
        snprintf(text, size, "a number of steps, as 500, 2e (epochs) or 10%%");
    else if (setting->max < 1e6)
        snprintf(text, size, "a number from %g to %g", setting->min, setting->max);
    else
        snprintf(text, size, "a number of at least %g", setting->min);
}

static xcvm_status parse_setting(const char *text, size_t length, const char *what, const xct_kind *kind,
                                 const xct_span *span, double *values, xcvm_error *error)
{
    const char *equals = memchr(text, '=', length);
    const size_t name = equals != NULL ? (size_t)(equals - text) : length;
    char names[300] = "";
    for (size_t i = 0; kind->settings[i].name != NULL; i++) {
        const xct_setting *setting = &kind->settings[i];
        append(names, sizeof names, setting->name);
        if (strlen(setting->name) != name || memcmp(setting->name, text, name) != 0)
            continue;
        char range[64];
        write_range(range, sizeof range, setting);
        XCVM_CHECK(error, equals != NULL && parse_value(equals + 1, length - name - 1, setting, span, &values[i]),
                   INVALID_ARGUMENT, "%s %s: %s is %s, not \"%.*s\"", what, kind->name, setting->name, range,
                   (int)(length < 60 ? length : 60), text);
        return XCVM_OK;
    }
    XCVM_FAIL(error, INVALID_ARGUMENT, "%s %s has no setting \"%.*s\"; it has: %s", what, kind->name,
              (int)(name < 60 ? name : 60), text, names[0] != '\0' ? names : "none");
}

xcvm_status xct_settings_parse(const char *text, const char *what, const xct_kind *kinds, size_t kind_count,
                               const xct_span *span, size_t *kind, double values[XCT_MAX_SETTINGS], xcvm_error *error)
{
    const size_t name = strcspn(text, ":");
    XCVM_TRY(find_kind(text, name, what, kinds, kind_count, kind, error));
    for (size_t i = 0; kinds[*kind].settings[i].name != NULL; i++) {
        const xct_setting *setting = &kinds[*kind].settings[i];
        if (!parse_value(setting->value, strlen(setting->value), setting, span, &values[i]))
            XCVM_FAIL(error, INTERNAL, "%s: the default of %s is none", what, setting->name);
    }
    for (const char *at = text + name; *at != '\0';) {
        const size_t length = strcspn(++at, ",");
        XCVM_TRY(parse_setting(at, length, what, &kinds[*kind], span, values, error));
        at += length;
    }
    return XCVM_OK;
}
