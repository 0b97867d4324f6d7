/* Inputs of a run: from SPECs, at random, or from the files of a case, checked against the declared types. */
#include "cli/memory.h"
#include "cli/report.h"
#include "run/session.h"
#include "tensors/tensor_file.h"
#include "values/number.h"
#include "values/value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct option input_options[] = {
    {"input", 'i', "NAME=SPEC", OPTION_LIST, offsetof(struct input_flags, inputs), 0, 0,
     "the value of an input. NAME= may be omitted if there is only one input. See xcvm help spec"},
    {"random", 0, NULL, OPTION_FLAG, offsetof(struct input_flags, random), 0, 0,
     "fill all inputs that have no value with random elements"},
    {"int-max", 0, "N", OPTION_INT, offsetof(struct input_flags, int_max), 1, INT64_MAX,
     "random integers are from 0 to N - 1"},
    END_OF_OPTIONS,
};

/* ---- Bindings ---- */

static const xcvm_value_info *parameter(const xcvm_program *program, bool outputs, size_t index)
{
    return outputs ? xcvm_program_output_at(program, index) : xcvm_program_input_at(program, index);
}

static size_t parameter_count(const xcvm_program *program, bool outputs)
{
    return outputs ? xcvm_program_output_count(program) : xcvm_program_input_count(program);
}

/* Finds the parameter of "NAME=SPEC"; *spec is the rest. Names may contain any character, so that the longest
 * match counts. */
static bool find_parameter(const char *text, const xcvm_program *program, bool outputs, size_t *index,
                           const char **spec)
{
    size_t longest = 0;
    bool found = false;
    for (size_t i = 0; i < parameter_count(program, outputs); i++) {
        const char *name = parameter(program, outputs, i)->name;
        size_t length = strlen(name);
        if (strncmp(text, name, length) != 0 || text[length] != '=' || (found && length < longest))
            continue;
        longest = length;
        *index = i;
        *spec = text + length + 1;
        found = true;
    }
    return found;
}

static const char *const option_names[] = {[BIND_INPUT] = "input", [BIND_OUTPUT] = "output", [BIND_EXPECT] = "expect"};

static xcvm_status unknown_name(const char *text, const xcvm_program *program, enum binding_kind binding,
                                xcvm_error *error)
{
    bool outputs = binding != BIND_INPUT;
    const char *option = option_names[binding];
    size_t count = parameter_count(program, outputs), length = strcspn(text, "=");
    const char **names = memory_take(count + 1, sizeof *names);
    struct buffer list = {0};
    for (size_t i = 0; i < count; i++) {
        names[i] = parameter(program, outputs, i)->name;
        if (i < 20)
            buffer_format(&list, "%s%s", i != 0 ? ", " : "", names[i]);
    }
    char *word = memory_text_n(text, length);
    const char *nearest = nearest_name(word, names), *kind = outputs ? "output" : "input";
    const char *list_text = count != 0 ? buffer_string(&list) : "none";
    if (text[length] == '\0')
        error_set(error, XCVM_INVALID_ARGUMENT, "--%s: \"%.80s\" has no name (%ss: %.300s). Write NAME=SPEC", option,
                  text, kind, list_text);
    else if (nearest != NULL)
        error_set(error, XCVM_INVALID_ARGUMENT, "--%s: there is no %s \"%.80s\" (%ss: %.300s). Did you mean \"%.80s\"?",
                  option, kind, word, kind, list_text, nearest);
    else
        error_set(error, XCVM_INVALID_ARGUMENT, "--%s: there is no %s \"%.80s\" (%ss: %.300s)%s", option, kind, word,
                  kind, list_text,
                  outputs
                      ? ""
                      : ". An input of a model that has a default is a constant of the program, unless \"xcvm compile "
                        "--keep-input NAME\" keeps it");
    free(word);
    free(names);
    buffer_release(&list);
    return XCVM_INVALID_ARGUMENT;
}

/* Parses the target of an output. */
static xcvm_status parse_target(const char *text, struct spec *spec, xcvm_error *error)
{
    xcvm_status status = spec_parse(text, spec, NULL);
    if (status == XCVM_OK && (spec->form == SPEC_NOTHING || spec->form == SPEC_DASH))
        return XCVM_OK;
    if (status == XCVM_OK && spec->form == SPEC_FILE && !spec->typed && spec->factor == 0)
        return tensor_file_check_target(spec->path, error);
    return error_set(error, XCVM_INVALID_ARGUMENT,
                     "\"%.100s\" is not a target of an output. Use @file.npy (or .npz, .pb, .png, .bin) to write it, "
                     "or - to print it",
                     text);
}

xcvm_status bindings_parse(const struct text_list *texts, const xcvm_program *program, enum binding_kind kind,
                           struct bindings *bindings, xcvm_error *error)
{
    bool outputs = kind != BIND_INPUT;
    const char *option = option_names[kind];
    *bindings = (struct bindings){0};
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < texts->count && status == XCVM_OK; i++) {
        const char *text = texts->items[i], *spec = text;
        struct binding binding = {0};
        bool named = find_parameter(text, program, outputs, &binding.index, &spec);
        status = (kind == BIND_OUTPUT ? parse_target : spec_parse)(spec, &binding.spec, error);
        if (!named && (parameter_count(program, outputs) != 1 || (status != XCVM_OK && strchr(text, '=') != NULL)))
            status = unknown_name(text, program, kind, error);
        else if (status != XCVM_OK)
            error_prefix(error, "--%s", option);
        else if (bindings_find(bindings, binding.index) != NULL)
            status = error_set(error, XCVM_INVALID_ARGUMENT, "--%s: \"%.80s\" is given twice", option,
                               parameter(program, outputs, binding.index)->name);
        if (status != XCVM_OK) {
            spec_release(&binding.spec);
            break;
        }
        binding.name = parameter(program, outputs, binding.index)->name;
        bindings->items = memory_append(bindings->items, bindings->count, sizeof *bindings->items);
        bindings->items[bindings->count++] = binding;
    }
    if (status != XCVM_OK)
        bindings_release(bindings);
    return status;
}

const struct binding *bindings_find(const struct bindings *bindings, size_t index)
{
    for (size_t i = 0; i < bindings->count; i++)
        if (bindings->items[i].index == index)
            return &bindings->items[i];
    return NULL;
}

void bindings_release(struct bindings *bindings)
{
    for (size_t i = 0; i < bindings->count; i++)
        spec_release(&bindings->items[i].spec);
    free(bindings->items);
    *bindings = (struct bindings){0};
}

/* ---- Values ---- */

/* The inputs that are being made. */
struct making {
    const struct program *program;
    const struct input_flags *flags;
    int64_t seed;
    struct bindings bindings;
    struct dims dims; /* named dimensions: those given, and those found in values */
    xcvm_value **values;
    struct value_budget *budget;
    bool *random_integers; /* set if there are some */
};

/* Lists all missing inputs, as far as they fit the message. */
static xcvm_status check_complete(const struct making *making, xcvm_error *error)
{
    enum { MESSAGE_ROOM = 500 };
    struct buffer missing = {0};
    size_t count = xcvm_program_input_count(making->program->handle), longest = 0, left = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(xcvm_program_input_at(making->program->handle, i)->name);
        longest = length > longest && length <= 30 ? length : longest;
    }
    for (size_t i = 0; i < count && !making->flags->random; i++) {
        const xcvm_value_info *input = xcvm_program_input_at(making->program->handle, i);
        if (bindings_find(&making->bindings, i) != NULL)
            continue;
        struct buffer line = {0};
        buffer_format(&line, "\n  --input %s=...", input->name);
        buffer_pad(&line, 0, sizeof "\n  --input =...   " + longest);
        type_print(&line, &input->type);
        if (left == 0 && missing.length + line.length <= MESSAGE_ROOM)
            buffer_text(&missing, buffer_string(&line));
        else
            left++;
        buffer_release(&line);
    }
    if (left != 0)
        buffer_format(&missing, "\n  and %zu more", left);
    xcvm_status status = XCVM_OK;
    if (missing.length != 0)
        status = error_set(error, XCVM_INVALID_ARGUMENT, "inputs are missing. Set them, or use --random:%s",
                           buffer_string(&missing));
    buffer_release(&missing);
    return status;
}

/* The declared type of an input, with open dimensions replaced by their known sizes. */
static xcvm_type known_type(const struct making *making, size_t index)
{
    const xcvm_value_info *input = xcvm_program_input_at(making->program->handle, index);
    xcvm_type type = input->type;
    for (int i = 0; i < type.rank; i++)
        if (type.dims[i] < 0) {
            char *name = dims_name(input, i);
            type.dims[i] = dims_find(&making->dims, name);
            free(name);
        }
    return type;
}

/* Takes the sizes of named dimensions from a value; they must be those known so far. */
static xcvm_status learn_dims(struct making *making, size_t index, const xcvm_value *value, xcvm_error *error)
{
    const xcvm_value_info *input = xcvm_program_input_at(making->program->handle, index);
    const xcvm_type *type = &input->type;
    if (xcvm_value_kind(value) != XCVM_KIND_TENSOR || xcvm_value_rank(value) != type->rank)
        return XCVM_OK;
    for (int i = 0; i < type->rank; i++) {
        if (type->dims[i] >= 0)
            continue;
        char *name = dims_name(input, i);
        const int64_t dim = xcvm_value_dims(value)[i];
        const bool good = dims_add(&making->dims, name, dim);
        if (!good)
            error_set(error, XCVM_INVALID_ARGUMENT,
                      "dimension %d, %.80s, is %" PRId64 ", but another input or --dim says %" PRId64, i, name, dim,
                      dims_find(&making->dims, name));
        free(name);
        if (!good)
            return XCVM_INVALID_ARGUMENT;
    }
    return XCVM_OK;
}

/* Sets open dimensions without a known size to 1. */
static void assume_dims(struct making *making, size_t index, xcvm_type *type)
{
    const xcvm_value_info *input = xcvm_program_input_at(making->program->handle, index);
    for (int i = 0; i < type->rank; i++) {
        if (type->dims[i] >= 0)
            continue;
        char *name = dims_name(input, i);
        const int64_t found = dims_find(&making->dims, name);
        if (found < 0) {
            const char *quote = strpbrk(name, " \t\"'$&|;()<>*?\\") != NULL ? "'" : "";
            report_line("note: dimension %s of input %s is set to 1. To choose another size: --dim %s%s=SIZE%s", name,
                        input->name, quote, name, quote);
            dims_add(&making->dims, name, 1);
        }
        free(name);
        type->dims[i] = found < 0 ? 1 : found;
    }
}

static void note_random(struct making *making, xcvm_dtype dtype)
{
    if (dtype != XCVM_STRING && dtype != XCVM_BOOL && !number_is_float(dtype))
        *making->random_integers = true;
}

/* An optional input without a value is absent, a sequence empty. */
static xcvm_status random_input(struct making *making, size_t index, const struct filling *filling, xcvm_error *error)
{
    xcvm_type type = known_type(making, index);
    if (type.kind == XCVM_KIND_SEQUENCE || type.kind == XCVM_KIND_OPTIONAL)
        return xcvm_list_create(NULL, type.kind, 0, NULL, &making->values[index], error);
    if (type.kind != XCVM_KIND_TENSOR || type.dtype == XCVM_NO_DTYPE || type.rank < 0)
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "its type or shape is not declared, so that it needs a value. Set it with --input");
    assume_dims(making, index, &type);
    note_random(making, type.dtype);
    return spec_random(&type, filling, &making->values[index], error);
}

/* A value of the wrong type is a mistake of the caller, not of the program. */
static xcvm_status callers_mistake(xcvm_status status, xcvm_error *error)
{
    if (status != XCVM_SHAPE_MISMATCH && status != XCVM_TYPE_MISMATCH && status != XCVM_OUT_OF_RANGE)
        return status;
    error->status = XCVM_INVALID_ARGUMENT;
    return XCVM_INVALID_ARGUMENT;
}

static xcvm_status make_value(struct making *making, size_t index, xcvm_error *error)
{
    const xcvm_value_info *input = xcvm_program_input_at(making->program->handle, index);
    const struct binding *binding = bindings_find(&making->bindings, index);
    struct filling filling = {(uint64_t)making->seed * 1000003 + index, making->flags->int_max, making->budget};
    if (filling.int_max <= 0)
        filling.int_max = DEFAULT_INT_MAX;
    /* Labels are in the range of any number of classes, and nothing is learned from random data. */
    if (making->program->trains && filling.int_max == DEFAULT_INT_MAX)
        filling.int_max = 2;
    static const struct spec zeros = {.form = SPEC_ZEROS};
    xcvm_type type = known_type(making, index);
    if (binding == NULL && making->program->trains && strcmp(input->name, "learning_rate") == 0) {
        struct wanted rate = {.type = &type, .name = input->name};
        return spec_value(&zeros, &rate, &filling, &making->values[index], error);
    }
    if (binding == NULL)
        return random_input(making, index, &filling, error);
    if (spec_needs_dims(&binding->spec))
        assume_dims(making, index, &type);
    if (binding->spec.form == SPEC_RANDOM)
        note_random(making, binding->spec.typed ? binding->spec.type.dtype : type.dtype);
    struct wanted wanted = {.type = &type, .name = input->name, .resize = true, .note_bytes = true};
    xcvm_status status = spec_value(&binding->spec, &wanted, &filling, &making->values[index], error);
    if (status != XCVM_OK)
        return callers_mistake(status, error);
    return learn_dims(making, index, making->values[index], error);
}

xcvm_status inputs_make(const struct program *program, const struct input_flags *flags,
                        const struct limit_flags *limits, int64_t seed, struct inputs *inputs, xcvm_error *error)
{
    struct making making = {.program = program,
                            .flags = flags,
                            .seed = seed,
                            .budget = &inputs->budget,
                            .random_integers = &inputs->random_integers};
    size_t count = xcvm_program_input_count(program->handle);
    TRY(bindings_parse(&flags->inputs, program->handle, BIND_INPUT, &making.bindings, error));
    value_budget_begin(&inputs->budget, limits->max_memory, limits->timeout_ms);
    inputs->values = making.values = memory_take(count, sizeof *making.values);
    for (size_t i = 0; i < program->dims.count; i++)
        dims_add(&making.dims, program->dims.items[i].name, program->dims.items[i].value);
    xcvm_status status = check_complete(&making, error);
    /* First what brings its own shape, which decides the named dimensions of the rest. */
    for (int own_shape = 1; own_shape >= 0; own_shape--)
        for (size_t i = 0; i < count && status == XCVM_OK; i++) {
            const struct binding *binding = bindings_find(&making.bindings, i);
            if ((binding != NULL && !spec_needs_dims(&binding->spec)) != own_shape)
                continue;
            status = make_value(&making, i, error);
            value_budget_name(&inputs->budget, status, error);
            if (status != XCVM_OK)
                error_prefix(error, "input %s", xcvm_program_input_at(program->handle, i)->name);
        }
    bindings_release(&making.bindings);
    dims_release(&making.dims);
    if (status != XCVM_OK)
        inputs_release(program->handle, inputs);
    return status;
}

xcvm_status inputs_bind(const xcvm_program *program, xcvm_session *session, xcvm_value *const *values,
                        xcvm_error *error)
{
    for (size_t i = 0; i < xcvm_program_input_count(program); i++) {
        xcvm_status status = xcvm_session_set_input(session, i, values[i], error);
        if (status != XCVM_OK)
            return callers_mistake(status, error);
    }
    return XCVM_OK;
}

void inputs_release(const xcvm_program *program, struct inputs *inputs)
{
    for (size_t i = 0; inputs->values != NULL && i < xcvm_program_input_count(program); i++)
        xcvm_value_release(inputs->values[i]);
    free(inputs->values);
    inputs->values = NULL;
}

void inputs_hint(const struct input_flags *flags, const struct inputs *inputs, const xcvm_error *error)
{
    /* Inputs that could not be created are released. The error describes the expected values. */
    if (error->status == XCVM_OUT_OF_MEMORY && inputs->budget.held != 0)
        report_line("note: the inputs need %" PRIu64 " of the %" PRIu64 " bytes of --max-memory", inputs->budget.held,
                    inputs->budget.limit);
    if (inputs->random_integers && error->status == XCVM_OUT_OF_RANGE && error->pc >= 0)
        report_line("note: random integers are from 0 to %lld. If one is out of range, reduce them: --int-max=N",
                    (long long)flags->int_max - 1);
    else if (inputs->random_integers && error->pc >= 0 &&
             (error->status == XCVM_SHAPE_MISMATCH || error->status == XCVM_INVALID_ARGUMENT))
        report_line("note: inputs of integers have random elements. If one selects a case or a size, set it: --input");
}
