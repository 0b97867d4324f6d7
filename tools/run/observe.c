/* Observers of `xcvm run`: traces, dumps of results, the search for NaNs and infinities. */
#include "run/observe.h"
#include "io/file.h"
#include "cli/memory.h"
#include "tensors/arrays.h"
#include "io/output.h"
#include "cli/report.h"
#include "values/value.h"

#include <xcvm/compiler.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct option observe_options[] = {
    {"trace-shapes", 0, NULL, OPTION_FLAG, offsetof(struct observe_flags, trace_shapes), 0, 0,
     "print a line for each instruction, with its node of the model and the types and shapes of its results"},
    {"trace-values", 0, NULL, OPTION_FLAG, offsetof(struct observe_flags, trace_values), 0, 0,
     "print a line for each instruction, with its results in full or as a summary"},
    {"dump-dir", 0, "DIR", OPTION_FOLDER, offsetof(struct observe_flags, dump_dir), 0, 0,
     "write each result to DIR/NNNNN_name.npy (.pb if it is not a tensor)"},
    {"check-nan", 0, NULL, OPTION_FLAG, offsetof(struct observe_flags, check_nan), 0, 0,
     "stop at the first instruction that has a NaN in a result, and print its operands"},
    {"check-inf", 0, NULL, OPTION_FLAG, offsetof(struct observe_flags, check_inf), 0, 0, "likewise for infinities"},
    END_OF_OPTIONS,
};

enum { TRACE_LIMIT = 8 };

bool observe_wanted(const struct observe_flags *flags)
{
    return flags->trace_shapes || flags->trace_values || flags->check_nan || flags->check_inf ||
           flags->dump_dir != NULL;
}

static void register_print(struct buffer *text, int32_t which)
{
    if (which == 0)
        buffer_text(text, "_");
    else if (which > 0)
        buffer_format(text, "$%d", which);
    else
        buffer_format(text, "@%d", -1 - which);
}

void event_print(struct buffer *text, const xcvm_event *event)
{
    buffer_format(text, "#%d ", event->pc);
    for (size_t i = 0; i < event->output_count; i++) {
        buffer_text(text, i != 0 ? ", " : "");
        register_print(text, event->output_registers[i]);
    }
    buffer_format(text, "%s%s(", event->output_count != 0 ? " = " : "", event->instruction);
    for (size_t i = 0; i < event->input_count; i++) {
        buffer_text(text, i != 0 ? ", " : "");
        register_print(text, event->input_registers[i]);
    }
    buffer_text(text, ")");
    if (event->attributes != NULL && *event->attributes != '\0')
        buffer_format(text, " %s", event->attributes);
}

static void trace(const struct observe_flags *flags, const xcvm_event *event)
{
    struct buffer line = {0};
    event_print(&line, event);
    if (event->node != NULL && *event->node != '\0')
        buffer_format(&line, " node \"%s\"", event->node);
    for (size_t i = 0; i < event->output_count; i++) {
        buffer_text(&line, i != 0 ? ", " : "  ");
        if (event->outputs[i] == NULL)
            buffer_text(&line, "_");
        else if (flags->trace_values)
            value_print(&line, event->outputs[i], TRACE_LIMIT);
        else
            value_type_print(&line, event->outputs[i]);
    }
    make_printable(line.data);
    puts(buffer_string(&line));
    buffer_release(&line);
}

/* ---- Dumps ---- */

static xcvm_status dump_value(struct observation *observation, const xcvm_event *event, size_t index, xcvm_error *error)
{
    const xcvm_value *value = event->outputs[index];
    const char *name = event->output_names != NULL ? event->output_names[index] : "";
    char *own = name != NULL && *name != '\0'
                    ? memory_text(name)
                    : memory_format("%s_r%d", event->instruction, event->output_registers[index]);
    for (char *at = own; *at != '\0'; at++)
        if (strchr("/\\:*?\"<>| ", *at) != NULL || (unsigned char)*at < 0x20)
            *at = '_';
    if (strlen(own) > 180)
        own[180] = '\0';
    value_budget_restart(observation->budget);
    bool tensor = xcvm_value_kind(value) == XCVM_KIND_TENSOR;
    char *path = memory_format("%s/%05zu_%s.%s", observation->flags->dump_dir, observation->sequence++, own,
                               tensor ? "npy" : "pb");
    struct output output;
    xcvm_status status = output_open(&output, path, error);
    if (status == XCVM_OK) {
        status = tensor ? array_write(value, observation->budget, (xcvm_sink){output_sink, &output}, error)
                        : xcc_value_save(value, own, (xcvm_sink){output_sink, &output}, error);
        if (status == XCVM_OK)
            status = output_finish(&output, error);
        else
            output_discard(&output, error);
    }
    free(path);
    free(own);
    return status;
}

/* ---- NaNs and infinities ---- */

/* Looks into lists as well; *where becomes the tensor that has one. Lists that share their items have exponentially
 * many: no more than `*left` values are looked at. */
static bool has_bad(const struct observe_flags *flags, const xcvm_value *value, size_t *left,
                    struct statistics *statistics, const xcvm_value **where)
{
    if (value == NULL || *left == 0)
        return false;
    --*left;
    xcvm_kind kind = xcvm_value_kind(value);
    if (kind == XCVM_KIND_TENSOR) {
        *where = value;
        return value_statistics(value, statistics) &&
               ((flags->check_nan && statistics->nan_count != 0) || (flags->check_inf && statistics->inf_count != 0));
    }
    for (size_t i = 0; (kind == XCVM_KIND_SEQUENCE || kind == XCVM_KIND_OPTIONAL) && i < xcvm_value_count(value); i++)
        if (has_bad(flags, xcvm_value_item_at(value, i), left, statistics, where))
            return true;
    return false;
}

static void print_bad(struct observation *observation, const xcvm_event *event, size_t index,
                      const struct statistics *statistics, const xcvm_value *tensor)
{
    struct buffer *story = &observation->story;
    bool nan = observation->flags->check_nan && statistics->nan_count != 0;
    size_t count = nan ? statistics->nan_count : statistics->inf_count;
    buffer_format(story, "instruction %d (%s", event->pc, event->instruction);
    if (event->node != NULL && *event->node != '\0')
        buffer_format(story, ", node \"%s\"", event->node);
    buffer_format(story, "): result %zu (", index);
    register_print(story, event->output_registers[index]);
    if (event->output_names != NULL && event->output_names[index] != NULL && *event->output_names[index] != '\0')
        buffer_format(story, ", \"%s\"", event->output_names[index]);
    buffer_format(story, ") has %zu %s%s, the first at ", count, nan ? "NaN" : "infinit",
                  nan ? (count > 1 ? "s" : "") : (count > 1 ? "ies" : "y"));
    index_print(story, tensor, nan ? statistics->first_nan : statistics->first_inf);
    buffer_text(story, "\n  ");
    event_print(story, event);
    for (size_t i = 0; i < event->input_count; i++) {
        if (event->inputs[i] == NULL)
            continue;
        struct statistics own;
        buffer_text(story, "\n  ");
        register_print(story, event->input_registers[i]);
        buffer_text(story, " ");
        value_type_print(story, event->inputs[i]);
        buffer_text(story, " ");
        if (value_statistics(event->inputs[i], &own))
            statistics_print(story, &own);
    }
}

static xcvm_status after(void *user, const xcvm_event *event, xcvm_error *error)
{
    struct observation *observation = user;
    if (observation->flags->trace_shapes || observation->flags->trace_values)
        trace(observation->flags, event);
    for (size_t i = 0; i < event->output_count; i++) {
        if (event->outputs[i] == NULL)
            continue;
        if (observation->flags->dump_dir != NULL)
            TRY(dump_value(observation, event, i, error));
        struct statistics statistics;
        const xcvm_value *tensor;
        size_t left = 1 << 20;
        if ((observation->flags->check_nan || observation->flags->check_inf) &&
            has_bad(observation->flags, event->outputs[i], &left, &statistics, &tensor)) {
            print_bad(observation, event, i, &statistics, tensor);
            observation->found = true;
            return error_set(error, XCVM_CANCELLED, "a result is not finite");
        }
    }
    return XCVM_OK;
}

xcvm_status observe_start(struct observation *observation, const struct observe_flags *flags,
                          struct value_budget *budget, xcvm_session *session, xcvm_error *error)
{
    *observation = (struct observation){.flags = flags, .budget = budget};
    if (flags->dump_dir != NULL && mkdir(flags->dump_dir, 0777) != 0 && errno != EEXIST)
        return error_set(error, XCVM_IO, "%s: cannot create the directory: %s", flags->dump_dir, strerror(errno));
    if (flags->dump_dir != NULL && !file_is_folder(flags->dump_dir))
        return error_set(error, XCVM_IO, "%s: is not a directory", flags->dump_dir);
    xcvm_observer observer = {.size = sizeof observer,
                              .after = after,
                              .user = observation,
                              .want_attributes =
                                  flags->trace_shapes || flags->trace_values || flags->check_nan || flags->check_inf};
    xcvm_session_set_observer(session, &observer);
    return XCVM_OK;
}

void observe_release(struct observation *observation) { buffer_release(&observation->story); }
