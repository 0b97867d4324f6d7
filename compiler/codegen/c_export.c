/* Export as C: what is written around the instructions, and the instructions in their order. */
#include "compiler/codegen/c_export.h"

#include "base/isas.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Refusals ---- */

bool xcc_c_refuse(xcc_c_export *x, const char *format, ...)
{
    char reason[200], line[420];
    va_list list;
    va_start(list, format);
    vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    if (x->pc == SIZE_MAX) {
        snprintf(line, sizeof line, "%s", reason);
    } else {
        const xcvm_instruction *instruction = &x->image->instructions[x->pc];
        const bool named = instruction->debug.node != NULL && instruction->debug.node[0] != '\0';
        snprintf(line, sizeof line, "%s%s%s (instruction %zu): %s", named ? instruction->debug.node : "",
                 named ? ": " : "", instruction->schema->name, x->pc, reason);
    }
    x->refused++;
    const size_t used = strlen(x->refusals), left = sizeof x->refusals - used;
    if (strlen(line) + 3 < left)
        snprintf(x->refusals + used, left, "%s%s", used > 0 ? "; " : "", line);
    return false;
}

/* ---- Names ---- */

const char *xcc_c_format(xcc_c_export *x, const char *format, ...)
{
    char line[600];
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    const bool fits = length >= 0 && (size_t)length < sizeof line;
    const char *kept = fits ? xcvm_arena_string(&x->arena, line, (size_t)length) : NULL;
    x->body.failed = x->body.failed || kept == NULL;
    return kept != NULL ? kept : "";
}

static const char *name_at(const xcc_c_export *x, const char *prefix, size_t index)
{
    return strcmp(prefix, "in") == 0    ? x->image->inputs[index].name
           : strcmp(prefix, "out") == 0 ? x->image->outputs[index].name
                                        : x->image->states[index].declared.name;
}

/* Whether one of its kind before it has the same letters. */
static bool is_repeated(const xcc_c_export *x, const char *prefix, size_t index, const char *name)
{
    bool repeated = false;
    for (size_t i = 0; i < index && !repeated; i++)
        repeated = strcasecmp(name_at(x, prefix, i), name) == 0;
    return repeated;
}

/* A name of the model as a C identifier behind a prefix; its number makes it unique where letters were lost. */
static const char *identifier(xcc_c_export *x, const char *prefix, size_t index, const char *name)
{
    char text[64];
    size_t count = 0;
    /* What differs in case alone would be one macro. */
    bool lost = *name == '\0' || isdigit((unsigned char)*name) || is_repeated(x, prefix, index, name);
    for (; *name != '\0' && count + 1 < sizeof text; name++) {
        const bool good = isalnum((unsigned char)*name) || *name == '_';
        lost = lost || !good;
        text[count++] = good ? *name : '_';
    }
    text[count] = '\0';
    lost = lost || *name != '\0';
    return lost ? xcc_c_format(x, "%s_%zu_%s", prefix, index, text) : xcc_c_format(x, "%s_%s", prefix, text);
}

static const char *upper(xcc_c_export *x, const char *name)
{
    char text[300];
    size_t count = 0;
    for (; *name != '\0' && count + 1 < sizeof text; name++)
        text[count++] = (char)toupper((unsigned char)*name);
    text[count] = '\0';
    return xcc_c_format(x, "%s", text);
}

static const char *input_name(xcc_c_export *x, size_t i) { return identifier(x, "in", i, x->image->inputs[i].name); }
static const char *output_name(xcc_c_export *x, size_t i) { return identifier(x, "out", i, x->image->outputs[i].name); }
static const char *state_name(xcc_c_export *x, size_t i)
{
    return identifier(x, "state", i, x->image->states[i].declared.name);
}

/* ---- Expressions ---- */

static const char *place_of(xcc_c_export *x, const xcvm_value *v, const char *qualifier)
{
    const xcc_c_value *value = xcc_c_value_of(v);
    const char *type = xcc_c_type((xcvm_dtype)v->dtype);
    switch (value->place) {
    case XCC_C_CONSTANT:
        x->used_constants[value->index] = true;
        if (x->options->weights == NULL)
            return xcc_c_format(x, "(const %s *)xc_constant_%u", type, (unsigned)value->index);
        return xcc_c_format(x, "(const %s *)(const void *)(weights + %" PRIu64 ")", type,
                            x->image->constants[value->index].offset);
    case XCC_C_INPUT:
        return xcc_c_format(x, "(const %s *)%s", type, input_name(x, value->index));
    case XCC_C_STATE:
        return xcc_c_format(x, "(%s%s *)context->%s", qualifier, type, state_name(x, value->index));
    default:
        return xcc_c_format(x, "(%s%s *)(%svoid *)(arena + %" PRIu64 ")", qualifier, type, qualifier, value->offset);
    }
}

const char *xcc_c_read(xcc_c_export *x, const xcvm_value *v) { return v != NULL ? place_of(x, v, "const ") : "NULL"; }
const char *xcc_c_write(xcc_c_export *x, const xcvm_value *v) { return v != NULL ? place_of(x, v, "") : "NULL"; }

const char *xcc_c_table(xcc_c_export *x, const char *type, const int64_t *numbers, size_t count)
{
    const size_t index = x->table_count++;
    xcc_c_put(&x->tables, "\nstatic const %s xc_table_%zu[] = {", type, index);
    for (size_t i = 0; i < count; i++)
        xcc_c_put(&x->tables, "%s%s%" PRId64, i > 0 ? "," : "", i % 16 == 15 ? "\n    " : i > 0 ? " " : "", numbers[i]);
    xcc_c_put(&x->tables, "%s};\n", count == 0 ? "0" : "");
    return xcc_c_format(x, "xc_table_%zu", index);
}

const char *xcc_c_scratch(xcc_c_export *x, uint64_t bytes)
{
    const uint64_t room = xcvm_round_up(bytes, XCVM_ALIGNMENT);
    x->scratch_bytes = room > x->scratch_bytes ? room : x->scratch_bytes;
    return xcc_c_format(x, "(float *)(void *)(arena + %" PRIu64 ")", x->scratch_offset);
}

bool xcc_c_ints(xcc_c_export *x, const xcvm_value *v, const char *what, int64_t *ints, size_t capacity, size_t *count)
{
    *count = 0;
    if (v == NULL)
        return true;
    if (v->data == NULL)
        return xcc_c_refuse(x, "%s is not constant", what);
    *count = xcvm_element_count(v);
    if (*count > capacity)
        return xcc_c_refuse(x, "%s has too many elements", what);
    for (size_t i = 0; i < *count; i++)
        ints[i] = xcvm_element_as_int(v, i);
    return true;
}

void xcc_c_strides(const xcvm_value *v, int64_t strides[XCVM_MAX_RANK])
{
    int64_t stride = (int64_t)xcvm_dtype_size((xcvm_dtype)v->dtype);
    for (int i = v->rank; i-- > 0; stride *= v->dims[i])
        strides[i] = stride;
}

/* ---- Instructions ---- */

static const xcc_c_row *find_row(xcvm_opcode opcode)
{
    const xcc_c_rows *const all[] = {&xcc_c_move_rows, &xcc_c_index_rows, &xcc_c_reduction_rows, &xcc_c_product_rows,
                                     &xcc_c_conv_rows, &xcc_c_norm_rows,  &xcc_c_recurrent_rows, &xcc_c_blocked_rows};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < all[i]->count; k++)
            if (all[i]->at[k].opcode == opcode)
                return &all[i]->at[k];
    return NULL;
}

static bool operands_known(const xcc_c_step *step)
{
    for (uint32_t i = 0; i < step->instruction->in_count; i++)
        if (step->in[i] == NULL ? step->instruction->in[i] != 0 : !xcc_c_value_of(step->in[i])->set)
            return false;
    for (uint32_t i = 0; i < step->instruction->out_count; i++)
        if (step->out[i] != NULL && !xcc_c_value_of(step->out[i])->set)
            return false;
    return true;
}

static void write_kernel(xcc_c_export *x, xcc_c_step *step)
{
    if (!operands_known(step)) /* what that comes from has been refused */
        return;
    for (uint32_t i = 0; i < step->instruction->out_count; i++)
        if (step->out[i] != NULL && i == 0 && step->is_view)
            return;
    bool empty = step->instruction->out_count > 0;
    for (uint32_t i = 0; i < step->instruction->out_count; i++)
        empty = empty && (step->out[i] == NULL || step->out[i]->bytes == 0);
    if (empty)
        return;
    xcc_c_line(x, "    { /* %s", step->schema->name);
    if (step->instruction->debug.node[0] != '\0') {
        xcc_c_line(x, ": ");
        xcc_c_put_quoted(&x->body, step->instruction->debug.node);
    }
    xcc_c_line(x, " */\n");
    bool known = false;
    if (step->schema->effect == XCVM_RANDOM) {
        (void)xcc_c_refuse(x, "random numbers come from the session");
    } else if (!xcc_c_write_elementwise(x, step, &known) && !known) {
        const xcc_c_row *row = find_row(step->schema->opcode);
        if (row == NULL)
            (void)xcc_c_refuse(x, "there is no C for it");
        else
            (void)row->write(x, step);
    }
    xcc_c_line(x, "    }\n");
}

/* A state that another one's value is stored in is copied before states change. */
static void write_copy_out(xcc_c_export *x, const xcc_c_step *step, const char *to)
{
    const xcvm_value *v = step->in[0];
    if (v != NULL && xcc_c_value_of(v)->set && v->bytes > 0)
        xcc_c_line(x, "    memcpy(%s, %s, %zu);\n", to, xcc_c_read(x, v), v->bytes);
}

static bool same_type(const xcvm_value *a, const xcvm_value *b)
{
    return a != NULL && b != NULL && a->dtype == b->dtype && xcvm_same_shape(a, b);
}

static bool is_jump(xcvm_action action)
{
    return action == XCVM_ACTION_JUMP || action == XCVM_ACTION_JUMP_TRUE || action == XCVM_ACTION_JUMP_FALSE;
}

/* States are written at the end of a run, so a Store must be reached by every run, and behind it nothing jumps. */
static bool may_store(const xcc_c_export *x, size_t pc)
{
    const xcvm_value *v = x->steps[pc].in[0];
    for (size_t i = 0; i < x->image->instruction_count; i++) {
        const xcvm_step *step = &x->program->steps[i];
        if (is_jump((xcvm_action)step->action) && (i > pc || (size_t)step->target > pc))
            return false;
    }
    return v == NULL || xcc_c_value_of(v)->definitions <= 1;
}

static const xcvm_value *output_value(const xcc_c_export *x, size_t index);

static void write_out(xcc_c_export *x, size_t pc)
{
    const size_t result = (size_t)x->program->steps[pc].target, outputs = x->image->output_count;
    const xcvm_value *given = x->steps[pc].in[0];
    if (given == NULL || !xcc_c_value_of(given)->set) /* refused before */
        return;
    const xcvm_value *declared = result < outputs ? output_value(x, result) : &x->states[result - outputs].type;
    if (!same_type(given, declared))
        (void)xcc_c_refuse(x, "it gives another type or shape than %s",
                           result < outputs ? "elsewhere" : "its state has");
    else if (result >= outputs && !may_store(x, pc))
        (void)xcc_c_refuse(x, "a state is stored where not every run comes by, or in front of a jump");
    else if (result < x->image->output_count)
        write_copy_out(x, &x->steps[pc], output_name(x, result));
    else if (x->steps[pc].in[0] != NULL && xcc_c_value_of(x->steps[pc].in[0])->place == XCC_C_STATE &&
             xcc_c_value_of(x->steps[pc].in[0])->index != result - x->image->output_count)
        (void)xcc_c_refuse(x, "a state takes the value of another one as it is");
}

static void write_stores(xcc_c_export *x)
{
    for (size_t pc = 0; pc < x->image->instruction_count; pc++) {
        const xcvm_step *step = &x->program->steps[pc];
        const size_t result = step->action == XCVM_ACTION_OUT ? (size_t)step->target : 0;
        if (result >= x->image->output_count && step->action == XCVM_ACTION_OUT)
            write_copy_out(x, &x->steps[pc],
                           xcc_c_format(x, "context->%s", state_name(x, result - x->image->output_count)));
    }
}

static void write_jump(xcc_c_export *x, size_t pc, const char *condition)
{
    const xcc_c_step *step = &x->steps[pc];
    const long long to = x->program->steps[pc].target;
    if (condition == NULL)
        xcc_c_line(x, "    goto at_%lld;\n", to);
    else if (operands_known(step))
        xcc_c_line(x, "    if ((%s)[0] %s 0)\n        goto at_%lld;\n", xcc_c_read(x, step->in[0]), condition, to);
}

static void write_steps(xcc_c_export *x)
{
    for (size_t pc = 0; pc <= x->image->instruction_count; pc++) {
        x->pc = pc;
        x->fails = false;
        if (x->steps[pc].is_target)
            xcc_c_line(x, "at_%zu:;\n", pc);
        if (pc == x->image->instruction_count)
            break;
        switch (x->program->steps[pc].action) {
        case XCVM_ACTION_OUT:
            write_out(x, pc);
            break;
        case XCVM_ACTION_JUMP:
            write_jump(x, pc, NULL);
            break;
        case XCVM_ACTION_JUMP_TRUE:
            write_jump(x, pc, "!=");
            break;
        case XCVM_ACTION_JUMP_FALSE:
            write_jump(x, pc, "==");
            break;
        case XCVM_ACTION_KERNEL:
            write_kernel(x, &x->steps[pc]);
            break;
        default:
            break;
        }
        x->steps[pc].fails = x->fails;
    }
    write_stores(x);
}

/* ---- Files ---- */

static bool send(xcc_c_export *x, void *user, xcc_c_text *text)
{
    const bool sent = !text->failed && (text->count == 0 || x->options->sink(user, text->at, text->count));
    text->count = 0;
    return sent;
}

static void write_element(xcc_c_text *to, const xcvm_value *v, size_t i)
{
    switch (v->dtype) {
    case XCVM_F32:
        xcc_c_put_number(to, XCVM_F32, (double)XCVM_CDATA(float, v)[i]);
        break;
    case XCVM_F64:
        xcc_c_put_number(to, XCVM_F64, XCVM_CDATA(double, v)[i]);
        break;
    case XCVM_U64:
        xcc_c_put(to, "UINT64_C(%" PRIu64 ")", XCVM_CDATA(uint64_t, v)[i]);
        break;
    case XCVM_U32:
        xcc_c_put(to, "%" PRIu32 "u", XCVM_CDATA(uint32_t, v)[i]);
        break;
    case XCVM_I64: {
        const int64_t number = xcvm_element_as_int(v, i);
        if (number == INT64_MIN)
            xcc_c_put(to, "INT64_MIN");
        else
            xcc_c_put(to, "INT64_C(%" PRId64 ")", number);
        break;
    }
    case XCVM_I32:
        if (XCVM_CDATA(int32_t, v)[i] == INT32_MIN)
            xcc_c_put(to, "INT32_MIN");
        else
            xcc_c_put(to, "%" PRId32, XCVM_CDATA(int32_t, v)[i]);
        break;
    case XCVM_BOOL:
        xcc_c_put(to, "%d", XCVM_CDATA(uint8_t, v)[i] != 0);
        break;
    default:
        xcc_c_put(to, "%" PRId64, xcvm_element_as_int(v, i));
        break;
    }
}

/* Elements go to the sink piece by piece. */
static bool write_constants(xcc_c_export *x)
{
    xcc_c_text text = {.allocator = x->arena.allocator};
    bool sent = true;
    for (size_t i = 0; i < x->image->constant_count && sent && x->options->weights == NULL; i++) {
        const xcvm_value *v = &x->image->constants[i].value;
        if (!x->used_constants[i])
            continue;
        const size_t count = xcvm_element_count(v);
        xcc_c_put(&text, "\nstatic const %s xc_constant_%zu[%zu]%s = {", xcc_c_type((xcvm_dtype)v->dtype), i,
                  count > 0 ? count : 1, x->vectors ? " __attribute__((aligned(64)))" : "");
        for (size_t k = 0; k < count && sent; k++) {
            xcc_c_put(&text, "%s", k == 0 ? "" : k % 16 == 0 ? ",\n    " : ", ");
            write_element(&text, v, k);
            if (text.count > 60000)
                sent = send(x, x->options->source, &text);
        }
        xcc_c_put(&text, "%s};\n", count == 0 ? "0" : "");
    }
    sent = sent && send(x, x->options->source, &text);
    xcc_c_text_release(&text);
    return sent;
}

/* Constants lie in the file as they do in the program's, from offset 0 on. */
static bool write_weights(const xcc_c_export *x)
{
    const xcvm_image *image = x->image;
    static const char zeros[XCVM_ALIGNMENT] = {0};
    uint64_t at = 0;
    bool sent = true;
    for (size_t i = 0; i < image->constant_count && sent && x->options->weights != NULL; i++) {
        while (sent && at < image->constants[i].offset) {
            const uint64_t gap = image->constants[i].offset - at;
            const size_t count = gap < sizeof zeros ? (size_t)gap : sizeof zeros;
            sent = x->options->sink(x->options->weights, zeros, count);
            at += count;
        }
        const xcvm_value *v = &image->constants[i].value;
        sent = sent && (v->bytes == 0 || x->options->sink(x->options->weights, v->data, v->bytes));
        at += v->bytes;
    }
    return sent;
}

static bool in_section(const xcc_c_export *x)
{
    return x->options->arena_in != NULL && strchr(x->options->arena_in, '.') != NULL;
}
static bool is_elsewhere(const xcc_c_export *x) { return x->options->arena_in != NULL; }

static const xcvm_value *output_value(const xcc_c_export *x, size_t index)
{
    for (size_t pc = 0; pc < x->image->instruction_count; pc++)
        if (x->program->steps[pc].action == XCVM_ACTION_OUT && (size_t)x->program->steps[pc].target == index)
            return x->steps[pc].in[0];
    return NULL;
}

static void write_parameters(xcc_c_export *x, xcc_c_text *to)
{
    xcc_c_put(to, "%s_context *context", x->name);
    for (size_t i = 0; i < x->image->input_count; i++)
        xcc_c_put(to, ", const %s *%s", xcc_c_type(x->image->inputs[i].type.dtype), input_name(x, i));
    for (size_t i = 0; i < x->image->output_count; i++)
        xcc_c_put(to, ", %s *%s", xcc_c_type((xcvm_dtype)output_value(x, i)->dtype), output_name(x, i));
}
static void describe_parameter(xcc_c_export *x, xcc_c_text *to, const char *name, const xcvm_parameter *declared,
                               const xcvm_value *v)
{
    char shape[200];
    const char *const macro = upper(x, x->name);
    xcc_c_put(to, "/* ");
    xcc_c_put_quoted(to, declared->name);
    xcc_c_put(to, ": %s */\n#define %s_%s_ELEMENTS %zu\n", xcvm_value_describe(v, shape, sizeof shape), macro,
              upper(x, name), xcvm_element_count(v));
}

static void write_header(xcc_c_export *x, xcc_c_text *to)
{
    const char *const name = x->name, *const macro = upper(x, name);
    const bool separate = x->options->weights != NULL;
    xcc_c_put(to,
              "/* A network as C, written by xcvm compile --emit c. Any number of contexts may run at a time, each in "
              "one thread. */\n"
              "#ifndef %s_H\n#define %s_H\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
              macro, macro);
    for (size_t i = 0; i < x->image->input_count; i++)
        describe_parameter(x, to, input_name(x, i), &x->image->inputs[i], &x->inputs[i].type);
    for (size_t i = 0; i < x->image->output_count; i++)
        describe_parameter(x, to, output_name(x, i), &x->image->outputs[i], output_value(x, i));
    for (size_t i = 0; i < x->image->state_count; i++)
        describe_parameter(x, to, state_name(x, i), &x->image->states[i].declared, &x->states[i].type);
    xcc_c_put(to,
              "/* Memory of a run: %" PRIu64 " bytes as planned, %" PRIu64
              " beside the plan, and what aligns them. */\n"
              "#define %s_ARENA_BYTES %" PRIu64 "\n",
              x->image->arena_bytes, x->memory_bytes - x->image->arena_bytes, macro, x->memory_bytes + XCVM_ALIGNMENT);
    if (separate)
        xcc_c_put(to, "/* Of the file of weights. */\n#define %s_WEIGHTS_BYTES %" PRIu64 "\n", macro,
                  x->image->data_bytes);
    if (is_elsewhere(x) && !in_section(x))
        xcc_c_put(to,
                  "\n/* To be defined where it is to lie. It is what runs work in: one at a time. */\n"
                  "extern unsigned char %s[%s_ARENA_BYTES];\n",
                  x->options->arena_in, macro);
    xcc_c_put(to, "\n/* What a run needs; to be initialised once. */\ntypedef struct %s_context {\n", name);
    if (separate)
        xcc_c_put(to, "    const unsigned char *weights;\n");
    for (size_t i = 0; i < x->image->state_count; i++) {
        const size_t count = xcvm_element_count(&x->states[i].type);
        xcc_c_put(to, "    %s %s[%zu]; /* kept from run to run */\n", xcc_c_type((xcvm_dtype)x->states[i].type.dtype),
                  state_name(x, i), count > 0 ? count : 1);
    }
    if (!is_elsewhere(x))
        xcc_c_put(to, "    unsigned char arena[%s_ARENA_BYTES];\n", macro);
    else if (!separate && x->image->state_count == 0)
        xcc_c_put(to, "    char nothing;\n");
    xcc_c_put(to, "} %s_context;\n\n", name);
    if (separate)
        xcc_c_put(
            to,
            "/* `weights` are the bytes of the file of weights, mapped, linked or read, on a multiple of 64; they "
            "are lent. */\nvoid %s_init(%s_context *context, const void *weights);\n",
            name, name);
    else
        xcc_c_put(to, "void %s_init(%s_context *context);\n", name, name);
    xcc_c_put(to,
              "/* 0, or a number for %s_error: then outputs are unfinished, and states as before. Outputs must not "
              "overlap inputs. */\nint %s_run(",
              name, name);
    write_parameters(x, to);
    xcc_c_put(
        to, ");\n/* What went wrong. */\nconst char *%s_error(int status);\n\n#ifdef __cplusplus\n}\n#endif\n#endif\n",
        name);
}

static void write_init(xcc_c_export *x, xcc_c_text *to)
{
    const bool separate = x->options->weights != NULL;
    xcc_c_put(to, "\nvoid %s_init(%s_context *context%s)\n{\n", x->name, x->name,
              separate ? ", const void *weights_at" : "");
    if (separate)
        xcc_c_put(to, "    const unsigned char *const weights = weights_at;\n    context->weights = weights;\n");
    for (size_t i = 0; i < x->image->state_count; i++) {
        const uint32_t initial = x->image->states[i].initial;
        const size_t bytes = x->states[i].type.bytes;
        if (initial != 0 && bytes > 0)
            xcc_c_put(to, "    memcpy(context->%s, %s, %zu);\n", state_name(x, i),
                      xcc_c_read(x, &x->constants[initial - 1].type), bytes);
        else
            xcc_c_put(to, "    memset(context->%s, 0, sizeof context->%s);\n", state_name(x, i), state_name(x, i));
    }
    if (!separate && x->image->state_count == 0)
        xcc_c_put(to, "    (void)context;\n");
    xcc_c_put(to, "}\n");
}

static void write_errors(xcc_c_export *x, xcc_c_text *to)
{
    xcc_c_put(
        to, "\nconst char *%s_error(int status)\n{\n    switch (status) {\n    case 0:\n        return \"no error\";\n",
        x->name);
    for (size_t pc = 0; pc < x->image->instruction_count; pc++)
        if (x->steps[pc].fails) {
            xcc_c_put(to, "    case %zu:\n        return \"instruction %zu, %s", pc + 1, pc, x->steps[pc].schema->name);
            if (x->steps[pc].instruction->debug.node[0] != '\0') {
                xcc_c_put(to, ", node ");
                xcc_c_put_quoted(to, x->steps[pc].instruction->debug.node);
            }
            xcc_c_put(to, ": an element is out of range\";\n");
        }
    xcc_c_put(to, "    default:\n        return \"no status of this network\";\n    }\n}\n");
}

static void write_main(xcc_c_export *x, xcc_c_text *to)
{
    const size_t inputs = x->image->input_count, outputs = x->image->output_count;
    const bool separate = x->options->weights != NULL;
    const char *const macro = upper(x, x->name);
    xcc_c_put(to,
              "\nstatic int xc_read_file(const char *path, void *to, size_t bytes)\n{\n"
              "    FILE *file = fopen(path, \"rb\");\n"
              "    const int whole = file != NULL && fread(to, 1, bytes, file) == bytes && fgetc(file) == EOF;\n"
              "    if (file != NULL)\n        fclose(file);\n"
              "    if (!whole)\n"
              "        fprintf(stderr, \"%%s: %%lu bytes are expected\\n\", path, (unsigned long)bytes);\n"
              "    return whole;\n}\n\n"
              "/* Each input's bytes come from a file, the outputs' go to standard output. */\n"
              "int main(int count, char **arguments)\n{\n    static %s_context context;\n",
              x->name);
    if (separate)
        xcc_c_put(to,
                  "    static union {\n        double aligned;\n        unsigned char bytes[%s_WEIGHTS_BYTES + 64];\n  "
                  "  } weights;\n"
                  "    unsigned char *const at = weights.bytes + (64 - (uintptr_t)weights.bytes %% 64);\n",
                  macro);
    for (size_t i = 0; i < inputs; i++)
        xcc_c_put(to, "    static %s %s[%s_%s_ELEMENTS + 1];\n", xcc_c_type(x->image->inputs[i].type.dtype),
                  input_name(x, i), macro, upper(x, input_name(x, i)));
    for (size_t i = 0; i < outputs; i++)
        xcc_c_put(to, "    static %s %s[%s_%s_ELEMENTS + 1];\n", xcc_c_type((xcvm_dtype)output_value(x, i)->dtype),
                  output_name(x, i), macro, upper(x, output_name(x, i)));
    xcc_c_put(to, "    int status;\n    if (count != %zu) {\n        fprintf(stderr, \"usage: %%s%s",
              inputs + separate + 1, separate ? " WEIGHTS" : "");
    for (size_t i = 0; i < inputs; i++)
        xcc_c_put(to, " %s", upper(x, input_name(x, i)));
    xcc_c_put(to, "\\n\", count > 0 ? arguments[0] : \"%s\");\n        return 2;\n    }\n", x->name);
    if (inputs == 0 && !separate)
        xcc_c_put(to, "    (void)xc_read_file;\n");
    if (separate)
        xcc_c_put(to, "    if (!xc_read_file(arguments[1], at, %s_WEIGHTS_BYTES))\n        return 1;\n", macro);
    for (size_t i = 0; i < inputs; i++)
        xcc_c_put(to, "    if (!xc_read_file(arguments[%zu], %s, %zu))\n        return 1;\n", i + separate + 1,
                  input_name(x, i), x->inputs[i].type.bytes);
    xcc_c_put(to, "    %s_init(&context%s);\n    status = %s_run(&context", x->name, separate ? ", at" : "", x->name);
    for (size_t i = 0; i < inputs; i++)
        xcc_c_put(to, ", %s", input_name(x, i));
    for (size_t i = 0; i < outputs; i++)
        xcc_c_put(to, ", %s", output_name(x, i));
    xcc_c_put(to,
              ");\n    if (status != 0) {\n        fprintf(stderr, \"%%s\\n\", %s_error(status));\n        return 1;\n "
              "   }\n",
              x->name);
    for (size_t i = 0; i < outputs; i++)
        xcc_c_put(to, "    if (fwrite(%s, 1, %zu, stdout) != %zu)\n        return 1;\n", output_name(x, i),
                  output_value(x, i)->bytes, output_value(x, i)->bytes);
    xcc_c_put(to, "    return fflush(stdout) == 0 ? 0 : 1;\n}\n");
}

static void write_run(xcc_c_export *x, xcc_c_text *to)
{
    xcc_c_put(to, "\nint %s_run(", x->name);
    write_parameters(x, to);
    xcc_c_put(to, ")\n{\n");
    if (x->memory_bytes > 0) {
        const char *const from = !is_elsewhere(x) ? "context->arena"
                                 : in_section(x)  ? xcc_c_format(x, "%s_arena", x->name)
                                                  : x->options->arena_in;
        xcc_c_put(to, "    unsigned char *const arena = %s + (64 - (uintptr_t)%s %% 64);\n    (void)arena;\n", from,
                  from);
    }
    if (x->options->weights != NULL)
        xcc_c_put(to, "    const unsigned char *const weights = context->weights;\n    (void)weights;\n");
    xcc_c_put(to, "    (void)context;\n");
    for (size_t i = 0; i < x->image->input_count; i++)
        xcc_c_put(to, "    (void)%s;\n", input_name(x, i));
    for (size_t i = 0; i < x->image->output_count; i++)
        xcc_c_put(to, "    (void)%s;\n", output_name(x, i));
    if (x->body.count > 0)
        xcc_c_put_bytes(to, x->body.at, x->body.count);
    xcc_c_put(to, "    return 0;\n}\n");
}

/* What a compiler must be told, so that vectors are what they are meant to be. */
static const struct {
    const char *isa, *condition, *flags;
} demands[] = {{"x86-64-v3", "__AVX2__", "-mavx2 -mfma"}, {"x86-64-v4", "__AVX512F__", "-march=x86-64-v4"}};

static void write_demands(const xcc_c_export *x, xcc_c_text *to)
{
    for (size_t i = 0; x->vectors && i < sizeof demands / sizeof *demands; i++)
        if (strcmp(demands[i].isa, x->options->target) == 0)
            xcc_c_put(to, "\n#if !defined(%s)\n#error \"this is for %s: compile it with %s\"\n#endif\n",
                      demands[i].condition, demands[i].isa, demands[i].flags);
    if (x->vectors)
        xcc_c_put(to, "\n/* Products that are added are fused, in C99 as well. */\n"
                      "#if defined(__GNUC__) && !defined(__clang__)\n"
                      "#pragma GCC optimize(\"fp-contract=fast\")\n#endif\n");
}

static xcvm_status write_files(xcc_c_export *x)
{
    xcc_c_text rest = {.allocator = x->arena.allocator}, top = {.allocator = x->arena.allocator},
               header = {.allocator = x->arena.allocator};
    if (x->tables.count > 0)
        xcc_c_put_bytes(&rest, x->tables.at, x->tables.count);
    if (in_section(x))
        xcc_c_put(&rest, "\nstatic unsigned char %s_arena[%s_ARENA_BYTES] __attribute__((section(\"%s\")));\n", x->name,
                  upper(x, x->name), x->options->arena_in);
    write_init(x, &rest);
    write_run(x, &rest);
    write_errors(x, &rest);
    if (x->options->with_main)
        write_main(x, &rest);
    write_header(x, &header);
    xcc_c_put(&top,
              "/* Written by xcvm compile --emit c. */\n#include \"%s\"\n\n#include <math.h>\n#include <stddef.h>\n%s"
              "#include <string.h>\n",
              x->options->header_name, x->options->with_main ? "#include <stdio.h>\n" : "");
    write_demands(x, &top);
    if (!x->vectors)
        xcc_c_put(&top, "\n#define XC_PORTABLE 1\n");
    bool sent = xcc_c_take_functions(&top, &rest, &x->arena) && !x->body.failed && !rest.failed && !x->tables.failed &&
                !header.failed;
    const bool made = sent;
    sent = sent && send(x, x->options->header, &header) && send(x, x->options->source, &top) && write_constants(x) &&
           send(x, x->options->source, &rest) && write_weights(x);
    xcc_c_text_release(&rest);
    xcc_c_text_release(&top);
    xcc_c_text_release(&header);
    XCVM_CHECK(x->error, made, OUT_OF_MEMORY, "no memory for the C");
    XCVM_CHECK(x->error, sent, IO, "the C cannot be written");
    return XCVM_OK;
}

/* ---- The entry ---- */

static xcvm_status check_options(const xcc_c_options *o, xcvm_error *error)
{
    XCVM_CHECK(error, o != NULL && o->size == sizeof *o && o->sink != NULL, INVALID_ARGUMENT,
               "options need a sink, and size = sizeof(xcc_c_options)");
    const char *const names[] = {o->name, o->arena_in};
    for (size_t i = 0; i < 2; i++) {
        const char *name = names[i];
        bool good = name == NULL || (name[0] != '\0' && !isdigit((unsigned char)name[0]));
        for (; name != NULL && *name != '\0'; name++)
            good = good && (isalnum((unsigned char)*name) || *name == '_' || (i == 1 && *name == '.'));
        XCVM_CHECK(error, good && (names[i] == NULL || strlen(names[i]) < 64), INVALID_ARGUMENT,
                   i == 0 ? "%s is no name of a C function"
                          : "%s is no name of an array, nor of a section with a point",
                   names[i]);
    }
    static const char *const taken[] = {"arena", "context", "weights"};
    for (size_t i = 0; o->arena_in != NULL && i < sizeof taken / sizeof *taken; i++)
        XCVM_CHECK(error,
                   strcmp(o->arena_in, taken[i]) != 0 && strncmp(o->arena_in, "in_", 3) != 0 &&
                       strncmp(o->arena_in, "out_", 4) != 0,
                   INVALID_ARGUMENT, "%s is a name that the C has already", o->arena_in);
    for (const char *at = o->header_name; at != NULL && *at != '\0'; at++)
        XCVM_CHECK(error, *at != '"' && *at != '\\' && (unsigned char)*at >= ' ', INVALID_ARGUMENT,
                   "the header's name cannot stand in an #include");
    return XCVM_OK;
}

static xcvm_status export_program(xcc_c_export *x)
{
    XCVM_TRY(xcc_c_read_values(x));
    XCVM_TRY(xcc_c_place_values(x));
    write_steps(x);
    XCVM_CHECK(x->error, x->refused == 0, UNSUPPORTED, "%zu %s as C: %s%s", x->refused,
               x->refused == 1 ? "thing cannot be had" : "things cannot be had", x->refusals,
               strlen(x->refusals) + 220 > sizeof x->refusals ? " ..." : "");
    x->memory_bytes = x->scratch_offset + x->scratch_bytes;
    return write_files(x);
}

xcvm_status xcc_export_c(const void *program, size_t count, const xcc_c_options *options, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_TRY(check_options(options, error));
    xcc_c_options o = *options;
    o.header_name = o.header_name != NULL ? o.header_name : "net.h";
    const xcvm_load_options load = {.size = sizeof load, .allocator = o.allocator, .no_libraries = true};
    xcvm_program *loaded;
    XCVM_TRY(xcvm_program_load(program, count, &load, &loaded, error));
    const xcvm_allocator *allocator = xcvm_allocator_or_default(o.allocator);
    xcc_c_export x = {.program = loaded,
                      .image = &loaded->image,
                      .options = &o,
                      .name = o.name != NULL ? o.name : "net",
                      .vectors = o.target != NULL,
                      .arena = {.allocator = allocator},
                      .error = error,
                      .body = {.allocator = allocator},
                      .tables = {.allocator = allocator}};
    xcvm_status status = export_program(&x);
    if (status == XCVM_OUT_OF_MEMORY)
        status = xcvm_error_set(error, status, "no memory for the C");
    xcc_c_text_release(&x.body);
    xcc_c_text_release(&x.tables);
    xcvm_arena_release(&x.arena);
    xcvm_program_destroy(loaded);
    return status;
}
