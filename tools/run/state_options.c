/* Options that make states of a model's outputs and inputs. */
#include "run/state_options.h"
#include "cli/report.h"

#include <string.h>

const struct option state_options[] = {
    {"state-pairs", 0, "auto|PATTERN", OPTION_LIST, offsetof(struct state_flags, pairs), 0, 0,
     "turn outputs and the inputs of the next run into states, such as key/value caches. auto finds the pairs by the "
     "names that exporters use and by the graph. A pattern is OUTPUT:INPUT, for example "
     "'present.*:past_key_values.*', in which both * stand for the same characters. Separate several with commas; may "
     "be repeated"},
    {"cache-rows", 0, "N", OPTION_INT, offsetof(struct state_flags, cache_rows), 1, INT32_MAX,
     "reserve room for N rows (tokens) in each key/value cache, so that a run appends its rows in place; without it, a "
     "cache grows, and each run copies it"},
    {"caches", 0, "f32|f16|bf16", OPTION_CHOICE, offsetof(struct state_flags, caches), 0, 0,
     "the type in which key/value caches are stored if only attention operators read them"},
    END_OF_OPTIONS,
};

static const struct state_flags usual = STATE_DEFAULTS;

xcvm_status state_options_check(const struct state_flags *flags, bool has_states, xcvm_error *error)
{
    if (has_states || flags->pairs.count != 0)
        return XCVM_OK;
    const char *unused = flags->cache_rows != 0                     ? "cache-rows"
                         : strcmp(flags->caches, usual.caches) != 0 ? "caches"
                                                                    : NULL;
    return unused == NULL ? XCVM_OK
                          : error_set(error, XCVM_INVALID_ARGUMENT,
                                      "--%s has no effect without states. Add --state-pairs auto", unused);
}

void state_options_use(const struct state_flags *flags, struct names *patterns, xcc_options *options)
{
    names_split(&flags->pairs, patterns);
    options->states.patterns = patterns->items;
    options->states.pattern_count = patterns->count;
    options->states.cache_dtype = xcvm_dtype_from_name(flags->caches);
    options->states.cache_rows = flags->cache_rows;
}
