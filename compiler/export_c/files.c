/* Export as C: the files, and the code around the instructions. */
#include "base/isas.h"
#include "compiler/export_c/export_c.h"
#include "compiler/export_c/c_runtime/workspace.h"
#include "ops/conv/blocked.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool send(xcvm_sink sink, xcc_c_text *text)
{
    const bool sent = !text->failed && (text->count == 0 || sink.call(sink.user, text->at, text->count));
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
    case XCVM_F16:
    case XCVM_BF16:
        xcc_c_put(to, "%u", (unsigned)XCVM_CDATA(uint16_t, v)[i]);
        break;
    default:
        if (xcvm_dtype_in((xcvm_dtype)v->dtype, XCVM_TYPES_PACKED))
            xcc_c_put(to, "%u", (unsigned)XCVM_CDATA(uint8_t, v)[i]);
        else
            xcc_c_put(to, "%" PRId64, xcvm_element_as_int(v, i));
        break;
    }
}

/* Number of elements up to the last one that is not zero, bit by bit. C initializers set omitted elements to zero. */
static size_t without_zeros(const xcvm_value *v, size_t count)
{
    const unsigned char *const bytes = v->data;
    size_t last = v->bytes;
    while (last > 0 && bytes[last - 1] == 0)
        last--;
    const size_t size = count > 0 ? v->bytes / count : 1;
    return (last + size - 1) / size;
}

/* Elements go to the sink piece by piece. */
static bool write_constants(xcc_c_export *x)
{
    xcc_c_text text = {.allocator = x->arena.allocator};
    bool sent = true;
    for (size_t i = 0; i < x->image->constant_count && sent && x->options->weights.call == NULL; i++) {
        const xcvm_value *v = &x->image->constants[i].value;
        if (!x->used_constants[i])
            continue;
        const size_t count = xcvm_dtype_in((xcvm_dtype)v->dtype, XCVM_TYPES_PACKED) ? v->bytes : xcvm_element_count(v);
        const size_t written = without_zeros(v, count);
        xcc_c_put(&text, "\nstatic const %s xc_constant_%zu[%zu]%s = {", xcc_c_type((xcvm_dtype)v->dtype), i,
                  count > 0 ? count : 1, x->vectors ? " __attribute__((aligned(64)))" : "");
        for (size_t k = 0; k < written && sent; k++) {
            xcc_c_put(&text, "%s", k == 0 ? "" : k % 16 == 0 ? ",\n    " : ", ");
            write_element(&text, v, k);
            if (text.count > 60000)
                sent = send(x->options->source, &text);
        }
        xcc_c_put(&text, "%s};\n", written == 0 ? "0" : "");
    }
    sent = sent && send(x->options->source, &text);
    xcc_c_text_release(&text);
    return sent;
}

/* The file contains the program's data unchanged, in which each constant has its offset. */
static bool write_weights(const xcc_c_export *x)
{
    return x->options->weights.call == NULL || x->image->data_bytes == 0 ||
           x->options->weights.call(x->options->weights.user, x->file + x->image->data_offset,
                                    (size_t)x->image->data_bytes);
}

static bool in_section(const xcc_c_export *x)
{
    return x->options->arena_in != NULL && strchr(x->options->arena_in, '.') != NULL;
}
static bool is_elsewhere(const xcc_c_export *x) { return x->options->arena_in != NULL; }

static void write_parameters(xcc_c_export *x, xcc_c_text *to)
{
    xcc_c_put(to, "%s_context *context", x->name);
    for (size_t i = 0; i < x->image->input_count; i++)
        xcc_c_put(to, ", const %s *%s", xcc_c_type(x->image->inputs[i].type.dtype), xcc_c_input_name(x, i));
    for (size_t i = 0; i < x->image->output_count; i++)
        xcc_c_put(to, ", %s *%s", xcc_c_type((xcvm_dtype)xcc_c_output_value(x, i)->dtype), xcc_c_output_name(x, i));
}
static void describe_parameter(xcc_c_export *x, xcc_c_text *to, const char *name, const xcvm_value_info *declared,
                               const xcvm_value *v)
{
    char shape[200];
    const char *const macro = xcc_c_upper(x, x->name);
    xcc_c_put(to, "/* ");
    xcc_c_put_quoted(to, declared->name);
    xcc_c_put(to, ": %s */\n#define %s_%s_ELEMENTS %zu\n", xcvm_value_describe(v, shape, sizeof shape), macro,
              xcc_c_upper(x, name), xcvm_element_count(v));
}

/* Returns true if a context has no members except the arena. */
static bool is_nothing(const xcc_c_export *x)
{
    return x->options->weights.call == NULL && x->image->state_count == 0 && !x->draws && !x->loops;
}

static void write_context(xcc_c_export *x, xcc_c_text *to)
{
    const char *const name = x->name, *const macro = xcc_c_upper(x, name);
    const bool separate = x->options->weights.call != NULL;
    xcc_c_put(to, "\n/* What a run needs; to be initialized once. */\ntypedef struct %s_context {\n", name);
    if (separate)
        xcc_c_put(to, "    const unsigned char *weights;\n");
    for (size_t i = 0; i < x->image->state_count; i++) {
        const size_t count = xcvm_element_count(&x->states[i].type);
        xcc_c_put(to, "    %s %s[%zu]; /* kept from run to run */\n", xcc_c_type((xcvm_dtype)x->states[i].type.dtype),
                  xcc_c_state_name(x, i), count > 0 ? count : 1);
    }
    if (x->draws)
        xcc_c_put(to, "    uint64_t random; /* from which random numbers follow; any number will do */\n");
    if (x->loops)
        xcc_c_put(to, "    uint64_t max_steps; /* instructions that a run may take in loops; 0: no limit */\n");
    if (!is_elsewhere(x))
        xcc_c_put(to, "    unsigned char arena[%s_ARENA_BYTES];\n", macro);
    else if (is_nothing(x))
        xcc_c_put(to, "    char nothing;\n");
    xcc_c_put(to, "} %s_context;\n\n", name);
}

static void write_declarations(xcc_c_export *x, xcc_c_text *to)
{
    const char *const name = x->name, *const macro = xcc_c_upper(x, name);
    const bool separate = x->options->weights.call != NULL;
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
    xcc_c_put(to, ");\n/* What went wrong. */\nconst char *%s_error(int status);\n", name);
    if (x->image->state_count > 0)
        xcc_c_put(to,
                  "\n/* A state, as the model calls it. Its elements, of `bytes` bytes, may be read, to be saved, and "
                  "written, between runs. */\n"
                  "typedef struct %s_state {\n    const char *name, *type;\n    void *elements;\n    size_t bytes;\n} "
                  "%s_state;\n#define %s_STATES %zu\n/* That of `index`, less than %s_STATES. */\n"
                  "%s_state %s_state_at(%s_context *context, size_t index);\n",
                  name, name, macro, x->image->state_count, macro, name, name, name);
}

static void write_header(xcc_c_export *x, xcc_c_text *to)
{
    const char *const name = x->name, *const macro = xcc_c_upper(x, name);
    const bool separate = x->options->weights.call != NULL;
    xcc_c_put(to,
              "/* A network as C, written by xcvm compile --emit c. Any number of contexts may run at a time, each in "
              "one thread. */\n"
              "#ifndef %s_H\n#define %s_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern "
              "\"C\" {\n#endif\n\n",
              macro, macro);
    for (size_t i = 0; i < x->image->input_count; i++)
        describe_parameter(x, to, xcc_c_input_name(x, i), &x->image->inputs[i], &x->inputs[i].type);
    for (size_t i = 0; i < x->image->output_count; i++)
        describe_parameter(x, to, xcc_c_output_name(x, i), &x->image->outputs[i], xcc_c_output_value(x, i));
    for (size_t i = 0; i < x->image->state_count; i++)
        describe_parameter(x, to, xcc_c_state_name(x, i), &x->image->states[i].declared, &x->states[i].type);
    xcc_c_put(to,
              "/* Memory of a run: %" PRIu64 " bytes as planned, %" PRIu64
              " beside the plan, and what aligns them. */\n"
              "#define %s_ARENA_BYTES %" PRIu64 "\n",
              x->arena_bytes, x->memory_bytes - x->arena_bytes, macro, x->memory_bytes + XCVM_ALIGNMENT);
    if (separate)
        xcc_c_put(to, "/* Of the file of weights. */\n#define %s_WEIGHTS_BYTES %" PRIu64 "\n", macro,
                  x->image->data_bytes);
    if (is_elsewhere(x) && !in_section(x))
        xcc_c_put(to,
                  "\n/* To be defined where it is to lie. It is what runs work in: one at a time. */\n"
                  "extern unsigned char %s[%s_ARENA_BYTES];\n",
                  x->options->arena_in, macro);
    write_context(x, to);
    write_declarations(x, to);
    xcc_c_put(to, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

static void write_init(xcc_c_export *x, xcc_c_text *to)
{
    const bool separate = x->options->weights.call != NULL;
    xcc_c_put(to, "\nvoid %s_init(%s_context *context%s)\n{\n", x->name, x->name,
              separate ? ", const void *weights_at" : "");
    if (separate)
        xcc_c_put(to, "    const unsigned char *const weights = weights_at;\n    context->weights = weights;\n");
    for (size_t i = 0; i < x->image->state_count; i++) {
        const uint32_t initial = x->image->states[i].initial;
        const size_t bytes = x->states[i].type.bytes;
        if (initial != 0 && bytes > 0)
            xcc_c_put(to, "    memcpy(context->%s, %s, %zu);\n", xcc_c_state_name(x, i),
                      xcc_c_read(x, &x->constants[initial - 1].type), bytes);
        else
            xcc_c_put(to, "    memset(context->%s, 0, sizeof context->%s);\n", xcc_c_state_name(x, i),
                      xcc_c_state_name(x, i));
    }
    if (x->draws)
        xcc_c_put(to, "    context->random = 0;\n");
    if (x->loops)
        xcc_c_put(to, "    context->max_steps = 0;\n");
    if (is_nothing(x))
        xcc_c_put(to, "    (void)context;\n");
    xcc_c_put(to, "}\n");
}

static void write_state_access(xcc_c_export *x, xcc_c_text *to)
{
    char type[200];
    if (x->image->state_count == 0)
        return;
    xcc_c_put(to, "\n%s_state %s_state_at(%s_context *context, size_t index)\n{\n    %s_state states[%s_STATES];\n",
              x->name, x->name, x->name, x->name, xcc_c_upper(x, x->name));
    for (size_t i = 0; i < x->image->state_count; i++) {
        const xcvm_value *v = &x->states[i].type;
        xcc_c_put(to, "    states[%zu].name = \"", i);
        xcc_c_put_quoted(to, x->image->states[i].declared.name);
        xcc_c_put(
            to,
            "\";\n    states[%zu].type = \"%s\";\n    states[%zu].elements = context->%s;\n    states[%zu].bytes = "
            "%zu;\n",
            i, xcvm_value_describe(v, type, sizeof type), i, xcc_c_state_name(x, i), i, v->bytes);
    }
    xcc_c_put(to, "    return states[index];\n}\n");
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
    if (x->loops)
        xcc_c_put(to, "    case %zu:\n        return \"the run has taken more steps than max_steps of its context\";\n",
                  xcc_c_steps_status(x));
    xcc_c_put(to, "    default:\n        return \"no status of this network\";\n    }\n}\n");
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
    if (x->options->weights.call != NULL)
        xcc_c_put(to, "    const unsigned char *const weights = context->weights;\n    (void)weights;\n");
    for (uint32_t i = 0; i < x->stack_count; i++)
        xcc_c_put(to, "    size_t stack_%u = 0;\n", i);
    if (x->loops)
        xcc_c_put(to, "    uint64_t taken_steps = 0;\n");
    xcc_c_put(to, "    (void)context;\n");
    for (size_t i = 0; i < x->image->input_count; i++)
        xcc_c_put(to, "    (void)%s;\n", xcc_c_input_name(x, i));
    for (size_t i = 0; i < x->image->output_count; i++)
        xcc_c_put(to, "    (void)%s;\n", xcc_c_output_name(x, i));
    if (x->body.count > 0)
        xcc_c_put_bytes(to, x->body.at, x->body.count);
    xcc_c_put(to, "    return 0;\n}\n");
}

/* Instruction sets: the condition that checks the CPU for their features, and the compiler's flags. */
enum { MOST_FLAGS = 4 };
static const struct {
    const char *name, *has, *flags[MOST_FLAGS];
} isas[] = {
#define ISA_ONE(of, kind, suffix, name, has, ...) {name, #has, {__VA_ARGS__}},
    XCVM_ALL_ISAS(ISA_ONE, )};

/* Vectors are used only if the compiler enables all features. It then defines a macro per feature, for example __AVX2__
 * for avx2. */
static void write_demands(xcc_c_export *x, xcc_c_text *to)
{
    for (size_t i = 0; x->vectors && i < sizeof isas / sizeof *isas; i++) {
        const char *at = strcmp(isas[i].name, x->options->target) == 0 ? strchr(isas[i].has, '"') : NULL;
        if (at == NULL)
            continue;
        for (bool first = true; at != NULL; first = false) {
            const char *const name = at + 1, *const end = strchr(name, '"');
            xcc_c_put(to, "%s!defined(__%s__)", first ? "\n#if " : " || ",
                      xcc_c_upper(x, xcc_c_format(x, "%.*s", (int)(end - name), name)));
            at = strchr(end + 1, '"');
        }
        xcc_c_put(to, "\n#error \"this is for %s: compile it with", isas[i].name);
        for (size_t k = 0; k < MOST_FLAGS && isas[i].flags[k] != NULL; k++)
            xcc_c_put(to, " %s", isas[i].flags[k]);
        xcc_c_put(to, "\"\n#endif\n");
    }
}

/* gcc vectorizes loops that select between numbers, as most functions do, only if comparisons need not raise flags. */
static void write_arithmetic(const xcc_c_export *x, xcc_c_text *to)
{
    xcc_c_put(
        to,
        "\n/* %sNobody asks for errno or for flags of exceptions: roots are those of the processor, and functions\n"
        " * of many numbers are vectors. */\n"
        "#if defined(__GNUC__) && !defined(__clang__)\n"
        "#pragma GCC optimize(%s\"no-math-errno\", \"no-trapping-math\")\n#endif\n",
        x->vectors ? "Products that are added are fused, in C99 as well. " : "",
        x->vectors ? "\"fp-contract=fast\", " : "");
}

/* Numbers of blocks of outputs that tiles are unrolled for: those that a product has, up to the maximum. */
static int output_blocks(const xcc_c_export *x)
{
    const int64_t blocks = (x->outputs + XCVM_CHANNEL_BLOCK - 1) / XCVM_CHANNEL_BLOCK;
    return blocks < 1 ? 1 : blocks < XC_MOST_TILE_BLOCKS ? (int)blocks : XC_MOST_TILE_BLOCKS;
}

xcvm_status xcc_c_write_files(xcc_c_export *x)
{
    xcc_c_text rest = {.allocator = x->arena.allocator}, top = {.allocator = x->arena.allocator},
               header = {.allocator = x->arena.allocator}, script = {.allocator = x->arena.allocator},
               types = {.allocator = x->arena.allocator};
    if (x->tables.count > 0)
        xcc_c_put_bytes(&rest, x->tables.at, x->tables.count);
    if (in_section(x))
        xcc_c_put(&rest, "\nstatic unsigned char %s_arena[%s_ARENA_BYTES] __attribute__((section(\"%s\")));\n", x->name,
                  xcc_c_upper(x, x->name), x->options->arena_in);
    write_init(x, &rest);
    write_run(x, &rest);
    write_state_access(x, &rest);
    write_errors(x, &rest);
    if (x->options->with_main)
        xcc_c_write_main(x, &rest);
    const bool module = x->options->script.call != NULL;
    if (module) {
        xcc_c_write_exports(x, &rest);
        xcc_c_write_script(x, &script);
        xcc_c_write_types(x, &types);
    }
    write_header(x, &header);
    xcc_c_put(&top,
              "/* Written by xcvm compile --emit c. */\n#include \"%s\"\n\n#include <math.h>\n#include <stddef.h>\n%s"
              "#include <string.h>\n",
              x->options->header_name, x->options->with_main ? "#include <stdio.h>\n" : "");
    if (x->intrinsics)
        xcc_c_put(&top, "#if defined(__SSE2__)\n#include <immintrin.h>\n#endif\n");
    write_demands(x, &top);
    write_arithmetic(x, &top);
    if (!x->vectors)
        xcc_c_put(&top, "\n#define XC_PORTABLE 1\n");
    else
        xcc_c_put(&top, "\n#define XC_OUTPUT_BLOCKS %d\n", output_blocks(x));
    bool sent = xcc_c_take_functions(&top, &rest, &x->arena) && !x->body.failed && !rest.failed && !x->tables.failed &&
                !header.failed && !script.failed && !types.failed;
    const bool made = sent;
    sent = sent && send(x->options->header, &header) && send(x->options->source, &top) && write_constants(x) &&
           send(x->options->source, &rest) && write_weights(x) &&
           (!module || (send(x->options->script, &script) && send(x->options->types, &types)));
    xcc_c_text_release(&script);
    xcc_c_text_release(&types);
    xcc_c_text_release(&rest);
    xcc_c_text_release(&top);
    xcc_c_text_release(&header);
    XCVM_CHECK(x->error, made, OUT_OF_MEMORY, "no memory for the C");
    XCVM_CHECK(x->error, sent, IO, "the C cannot be written");
    return XCVM_OK;
}
